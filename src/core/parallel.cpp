// oneTBB behind a loop: see parallel.hpp. After fork() the child has no workers, so it runs its pieces itself.
#include "core/parallel.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "core/callback_epoch.hpp"
#include "core/fpenv.hpp"
#include "core/recent.hpp"
#include "core/startable.hpp"
#include "core/text.hpp"

#if defined(VICINAL_TSAN)
extern "C" void __tsan_acquire(void* at);
extern "C" void __tsan_release(void* at);
#endif

namespace vicinal {
namespace {

/// What a loop orders: all before it, then its pieces, then all after it; and pieces of one worker, which threads may
/// be one after the other. oneTBB is not instrumented, so under ThreadSanitizer (cmake/library.cmake) this file tells
/// it; pieces of two workers stay unordered, so their races are still found.
class LoopOrder {
 public:
#if defined(VICINAL_TSAN)
  LoopOrder() { __tsan_release(&start_); }
  ~LoopOrder() { __tsan_acquire(&end_); }  // also when a piece threw
  struct Piece {
    Piece(LoopOrder& order, int worker) : end(&order.end_), own(&order.workers_[worker % most_workers]) {
      __tsan_acquire(&order.start_);
      __tsan_acquire(own);
    }
    ~Piece() {
      __tsan_release(own);
      __tsan_release(end);
    }
    char *end, *own;
  };

 private:
  static constexpr int most_workers = 1024;
  char start_ = 0, end_ = 0, workers_[most_workers] = {};
#else
  struct Piece {
    Piece(LoopOrder& /*order*/, int /*worker*/) {}
  };
#endif
};

int quota_threads() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1 << 20;
  return std::max(1, static_cast<int>(std::lround(std::atof(quota.c_str()) / period)));
}

}  // namespace

bool at_home() {
  static std::atomic<bool> home{true};
  static const int watched = pthread_atfork(nullptr, nullptr, [] { home.store(false, std::memory_order_relaxed); });
  static const pid_t process = getpid();
  return home.load(std::memory_order_relaxed) && (watched == 0 || process == getpid());
}

int default_threads() {
  static thread_local Recent threads;  // masks are a thread's own
  return static_cast<int>(threads.get([] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    const int count = sched_getaffinity(0, sizeof mask, &mask) == 0
                          ? CPU_COUNT(&mask)
                          : static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, std::min(count, quota_threads()));
  }));
}

int threads_for(int asked) { return asked > 0 ? std::min(asked, most_threads) : default_threads(); }

namespace {

// The process's one limit on oneTBB's threads: its own, which is the number of cores, until a call asks for more by
// name; from then on the largest number that was asked for. A limit for each call would be the smallest of all while
// calls run at once, and oneTBB would print that the others' are ignored. What the system does not start is no part of
// it, so that oneTBB never tries to.
class Workers {
 public:
  /// Threads that a call which asks for `threads` may have, the calling one among them.
  int allow(int threads) {
    if (natural_ == 0) natural_ = allowed();
    most_ = std::max({most_, natural_, threads});
    if (most_ - 1 > startable_) startable_ += startable_threads(most_ - 1 - startable_);
    set(std::min(most_, startable_ + 1));
    return std::min(threads, allowed());
  }

 private:
  static int allowed() {
    return static_cast<int>(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  }
  void set(int threads) {
    if (set_ == threads || (set_ == 0 && threads == natural_)) return;
    auto next = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                      static_cast<std::size_t>(threads));
    limit_ = std::move(next);  // the old one ends when the new one is there: oneTBB's own never holds in between
    set_ = threads;
  }

  int natural_ = 0;    // what oneTBB, or the program around us, allowed before we said anything
  int most_ = 0;       // the largest number that was asked for, and that at least
  int startable_ = 0;  // workers that the system has started, or would have when it was last asked
  int set_ = 0;        // what limit_ says; 0: there is none
  std::unique_ptr<tbb::global_control> limit_;
};

// oneTBB before 2021.9 (Debian 12 has 2021.8) loses some 7 KB with every arena that workers have visited. Arenas are
// therefore lent to calls and kept for later ones: as many as calls have ever run at once, by number of threads. One
// lock for them and the limit: an arena that comes into being while another thread sets the first limit may find the
// old one, and keeps it.
class Arenas {
 public:
  /// Lends an arena to a call that asks for so many threads, and makes them what it may have; null of one.
  std::unique_ptr<tbb::task_arena> take(int& threads) {
    const std::lock_guard lock(mutex_);
    threads = workers_.allow(threads);
    if (threads == 1) return nullptr;
    const auto found = idle_.find(threads);
    if (found == idle_.end()) {
      auto arena = std::make_unique<tbb::task_arena>(threads);
      arena->initialize();
      return arena;
    }
    auto arena = std::move(found->second);
    idle_.erase(found);
    return arena;
  }
  /// Called by destructors: without memory for its place in the list the arena ends here.
  void give_back(int threads, std::unique_ptr<tbb::task_arena> arena) noexcept {
    if (!at_home()) return void(arena.release());  // a child has none of the threads, nor who holds the lock
    try {
      const std::lock_guard lock(mutex_);
      idle_.emplace(threads, std::move(arena));
    } catch (...) {}
  }

 private:
  std::mutex mutex_;
  Workers workers_;
  std::multimap<int, std::unique_ptr<tbb::task_arena>> idle_;
};

// The arenas are made while the library loads, before threads that could meet there, and never destroyed: calls may
// outlive static objects.
Arenas& arenas = *new Arenas;

}  // namespace

struct ThreadPool::Arena {
  Arena(int allowed, std::unique_ptr<tbb::task_arena> taken) : threads(allowed), lent(std::move(taken)), arena(*lent) {}
  ~Arena() { arenas.give_back(threads, std::move(lent)); }
  int threads;
  std::unique_ptr<tbb::task_arena> lent;
  tbb::task_arena& arena;
};

std::uint64_t& callback_epoch() noexcept {
  static thread_local std::uint64_t count = 0;
  return count;
}

ThreadPool::ThreadPool(int threads, const Progress& progress, std::stop_token stop, std::uint64_t total)
    : threads_(at_home() ? threads : 1), progress_(progress), stop_(std::move(stop)), total_(total),
      caller_(std::this_thread::get_id()) {
  if (threads_ > 1) {
    auto lent = arenas.take(threads_);
    if (lent) arena_ = std::make_unique<Arena>(threads_, std::move(lent));
  }
  ask(true);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::for_each(std::int64_t count, FunctionRef<void(std::int64_t, int)> body) {
  if (!arena_ || count <= 1) {
    FpGuard guard;
    for (std::int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  LoopOrder order;
  const auto loop = [&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          FpGuard guard;
          const int worker = std::max(0, tbb::this_task_arena::current_thread_index());
          [[maybe_unused]] const LoopOrder::Piece piece(order, worker);
          for (std::int64_t i = range.begin(); i < range.end(); ++i) body(i, worker);
        },
        tbb::simple_partitioner());
  };
  try {
    arena_->arena.execute(loop);
  } catch (const std::runtime_error& error) {
    // oneTBB's own, of a thread that could be started when it was tried and cannot now; nothing else here throws the
    // base class itself.
    if (typeid(error) != typeid(std::runtime_error)) throw;
    fail(ErrorCode::out_of_memory, cat("the system refused a thread (", error.what(), "); ask for fewer threads"));
  }
}

void ThreadPool::poll(std::uint64_t work) {
  if (work != 0)
    done_.fetch_add(work, std::memory_order_relaxed);  // every thread's, so its line goes from core to core
  if (std::this_thread::get_id() == caller_) ask(false);
  if (cancelled_.load(std::memory_order_relaxed) || stop_.stop_requested()) {
    cancelled_.store(true, std::memory_order_relaxed);
    fail(ErrorCode::cancelled, "cancelled by the caller");
  }
}

void ThreadPool::ask(bool always) {
  const auto now = CoarseClock::now();
  if (!always && now - polled_ < std::chrono::milliseconds(10)) return;
  polled_ = now;
  if (progress_) ++callback_epoch();
  if (stop_.stop_requested() ||
      (progress_ && !progress_(std::min(done_.load(std::memory_order_relaxed), total_), total_))) {
    cancelled_.store(true, std::memory_order_relaxed);
    fail(ErrorCode::cancelled, "cancelled by the caller");
  }
}

void ThreadPool::finish() {
  done_.store(total_, std::memory_order_relaxed);
  ask(true);
}

}  // namespace vicinal
