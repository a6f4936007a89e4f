// The watcher thread behind interrupt.hpp.
#include "interrupt.hpp"

#include <unistd.h>

#include <system_error>
#include <thread>

#include "files.hpp"
#include "output.hpp"
#include "vicinal/error.hpp"
#include "vicinal/io.hpp"

namespace cli {

Interrupt& Interrupt::install() {
  static Interrupt* const only = [] {
    auto* made = new Interrupt;  // never freed: the watcher uses it until the process ends
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM}) {
      struct sigaction now {};
      sigaction(number, nullptr, &now);
      if (now.sa_handler != SIG_IGN) sigaddset(&signals, number);  // nohup and shells' background jobs ignore some
    }
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    try {
      std::thread([made, signals] { made->watch(signals); }).detach();
    } catch (const std::
                 system_error&) {  // the system starts no thread: then a signal ends the process as it would without us
      pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    }
    return made;
  }();
  return *only;
}

void Interrupt::watch(const sigset_t& signals) {
  for (;;) {
    int number = 0;
    if (sigwait(&signals, &number) != 0 || number == 0) continue;
    const std::lock_guard<std::mutex> hold(lock_);
    signal_.store(number);
    stop_.request_stop();
    if (sections_ > 0) continue;
    vicinal::discard_unfinished_files();
    remove_temporary_folders();
    print_error(vicinal::error_name(vicinal::ErrorCode::cancelled), what());
    _exit(exit_status());
  }
}

std::string Interrupt::what() const {
  const std::string word = signal_.load() == SIGTERM ? "terminated" : "interrupted";
  return explanation_ ? word + "; " + explanation_() : word;
}

void Interrupt::explain(std::function<std::string()> text) {
  const std::lock_guard<std::mutex> hold(lock_);
  explanation_ = std::move(text);
}

void Interrupt::check() const {
  if (stop_.stop_requested()) throw vicinal::Error(vicinal::ErrorCode::cancelled, what());
}

Interrupt::Section::Section(Interrupt& owner) : owner_(owner) {
  const std::lock_guard<std::mutex> hold(owner_.lock_);
  ++owner_.sections_;
}

Interrupt::Section::~Section() {
  const std::lock_guard<std::mutex> hold(owner_.lock_);
  --owner_.sections_;
}

}  // namespace cli
