// See startable.hpp.
#include "core/startable.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <vector>

#include "core/signals_blocked.hpp"

namespace vicinal {
namespace {

constexpr std::size_t stack_bytes = std::size_t{4} << 20;
constexpr std::chrono::seconds longest_end{1};  // a thread that was joined is gone within microseconds

struct Gate {
  std::mutex lock;
  std::condition_variable opened;
  bool open = false;
};
struct Tried {
  Gate* gate;
  pthread_t thread;
  std::atomic<long> id{0};  // as the system counts it
};

void* wait_at_gate(void* at) {
  auto& tried = *static_cast<Tried*>(at);
  tried.id = ::syscall(SYS_gettid);
  std::unique_lock hold(tried.gate->lock);
  tried.gate->opened.wait(hold, [&] { return tried.gate->open; });
  return nullptr;
}

/// A joined thread counts against the limits until the system has taken it down.
void wait_until_gone(long id) noexcept {
  const auto end = std::chrono::steady_clock::now() + longest_end;
  while (::syscall(SYS_tgkill, ::getpid(), id, 0) == 0 && std::chrono::steady_clock::now() < end) ::sched_yield();
}

}  // namespace

int startable_threads(int wanted) noexcept try {
  if (wanted <= 0) return 0;
  Gate gate;
  std::vector<Tried> tried(static_cast<std::size_t>(wanted));
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return 0;
  ::pthread_attr_setstacksize(&attributes, stack_bytes);
  int started = 0;
  {
    const SignalsBlocked blocked;  // handlers of the process's are for its own threads
    for (; started < wanted; ++started) {
      Tried& one = tried[static_cast<std::size_t>(started)];
      one.gate = &gate;
      if (::pthread_create(&one.thread, &attributes, wait_at_gate, &one) != 0) break;
    }
  }
  ::pthread_attr_destroy(&attributes);
  {
    const std::lock_guard hold(gate.lock);
    gate.open = true;
  }
  gate.opened.notify_all();
  for (int i = 0; i < started; ++i) ::pthread_join(tried[static_cast<std::size_t>(i)].thread, nullptr);
  for (int i = 0; i < started; ++i) wait_until_gone(tried[static_cast<std::size_t>(i)].id);
  return started;
} catch (const std::bad_alloc&) {
  return 0;
}

}  // namespace vicinal
