// Ctrl-C and SIGTERM. Both signals are blocked in every thread and taken by one watcher, which runs as ordinary
// code: it may ask a std::stop_source to stop, which no signal handler may. Inside a Section the main thread stops
// and unwinds. Outside one the only thing that can be half done is a file, which the library discards on request, so
// the watcher ends the process itself at once. Where the system starts no thread there is no watcher, and signals do
// what they do by default.
#pragma once
#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>

namespace cli {

class Interrupt {
 public:
  /// Call first in main, before any thread exists: threads inherit the blocked signals. Lives until exit.
  static Interrupt& install();

  std::stop_token token() const { return stop_.get_token(); }
  /// 130 after SIGINT, 143 after SIGTERM.
  int exit_status() const noexcept { return 128 + (signal_.load() == 0 ? SIGINT : signal_.load()); }
  /// "interrupted", and what explain() was given to say besides.
  std::string what() const;
  /// text is asked for when a signal has come: what is left, and how to go on.
  void explain(std::function<std::string()> text);
  /// Throws Cancelled if a signal has come.
  void check() const;

  /// While one lives, work is under way that the stop token reaches and that cleans up as it unwinds. Call check()
  /// after it: a signal that came too late for the work to see is then not lost.
  class Section {
   public:
    explicit Section(Interrupt& owner);
    ~Section();
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Interrupt& owner_;
  };

 private:
  Interrupt() = default;
  void watch(const sigset_t& signals);

  std::stop_source stop_;
  std::atomic<int> signal_{0};
  std::function<std::string()> explanation_;
  std::mutex lock_;  // a section never opens or closes, and no explanation changes, while the watcher decides
  int sections_ = 0;
};

}  // namespace cli
