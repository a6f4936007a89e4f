// Threads that wait for the next call of several devices. A device gives each new thread a stream of its own: to make
// that and to end it takes a good part of the time of a small search.
#pragma once
#include <functional>
#include <string>

namespace vicinal {

/// It runs task() on a thread that is kept for this owner, on the caller's cores, and done() when that thread can take
/// the next task. Neither throws. In a forked child, where no thread of the parent is, the thread is a new one and
/// ends. Throws std::system_error where the system starts none; nothing runs then.
void run_on_kept_thread(const std::string& owner, std::function<void()> task, std::function<void()> done);

}  // namespace vicinal
