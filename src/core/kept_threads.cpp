// See kept_threads.hpp.
#include "core/kept_threads.hpp"

#include <sched.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/signals_blocked.hpp"

namespace vicinal {
namespace {

/// What a thread is to run next.
struct Order {
  std::function<void()> task, done;
  cpu_set_t cores;
  bool has_cores;
};
Order order_of(std::function<void()> task, std::function<void()> done) {
  Order order{std::move(task), std::move(done), {}, false};
  order.has_cores = sched_getaffinity(0, sizeof order.cores, &order.cores) == 0;
  return order;
}

class KeptThread {
 public:
  void give(Order order) {
    const std::lock_guard lock(mutex_);
    next_ = std::move(order);
    given_ = true;
    wakes_.notify_one();
  }
  Order wait() {
    std::unique_lock lock(mutex_);
    wakes_.wait(lock, [&] { return given_; });
    given_ = false;
    return std::move(next_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable wakes_;
  Order next_;
  bool given_ = false;
};

/// Threads that wait, by owner. They wait when the process ends, so that none of this ends before.
struct WaitingThreads {
  std::mutex mutex;
  std::map<std::string, std::vector<KeptThread*>> of;
};
WaitingThreads& waiting() {
  static auto* const all = new WaitingThreads;
  return *all;
}

/// Null where none waits.
KeptThread* take(const std::string& owner) {
  WaitingThreads& all = waiting();
  const std::lock_guard lock(all.mutex);
  const auto found = all.of.find(owner);
  if (found == all.of.end() || found->second.empty()) return nullptr;
  KeptThread* const thread = found->second.back();
  found->second.pop_back();
  return thread;
}
/// False where there is no memory for its place in the list.
bool keep(const std::string& owner, KeptThread* thread) {
  try {
    WaitingThreads& all = waiting();
    const std::lock_guard lock(all.mutex);
    all.of[owner].push_back(thread);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void serve(std::unique_ptr<KeptThread> own, const std::string& owner, bool kept) {
  for (bool again = true; again;) {
    const Order order = own->wait();
    if (order.has_cores) sched_setaffinity(0, sizeof order.cores, &order.cores);
    order.task();
    again = kept && keep(owner, own.get());
    order.done();
  }
}

}  // namespace

void run_on_kept_thread(const std::string& owner, std::function<void()> task, std::function<void()> done) {
  Order order = order_of(std::move(task), std::move(done));
  const bool kept = at_home() && order.has_cores;  // else it would stay on the cores that it began with
  if (KeptThread* const thread = kept ? take(owner) : nullptr) return thread->give(std::move(order));
  auto own = std::make_unique<KeptThread>();
  KeptThread* const thread = own.get();
  {
    // The thread waits long after the call, when the caller may have blocked what another thread is to take.
    const SignalsBlocked blocked;
    std::thread(serve, std::move(own), owner, kept).detach();
  }
  thread->give(std::move(order));
}

}  // namespace vicinal
