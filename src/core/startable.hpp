// How many threads the system would start now. It may refuse any (a user's limit, a cgroup's pids), and oneTBB, which
// starts workers in the middle of a loop, has no way back then; so they are tried before a loop counts on them.
#pragma once

namespace vicinal {

/// Starts up to `wanted` threads that are alive at the same time, with stacks as large as oneTBB's, and ends them.
/// Returns how many there were; when it returns the system counts none of them any more.
int startable_threads(int wanted) noexcept;

}  // namespace vicinal
