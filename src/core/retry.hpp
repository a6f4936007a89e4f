// What is done about memory that is refused although the plan had counted on it: the same work in smaller pieces.
#pragma once
#include "vicinal/error.hpp"

namespace vicinal {

/// Returns what attempt() returns. Where it throws OutOfMemory, shrink() makes the next attempt smaller and returns
/// true, or returns false when there is nothing smaller; the error goes on then, and after four times.
template <class Attempt, class Shrink>
auto retry_smaller(const Attempt& attempt, const Shrink& shrink) {
  constexpr int retries = 4;
  for (int tries = 0;; ++tries) {
    try {
      return attempt();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory || tries == retries || !shrink()) throw;
    }
  }
}

}  // namespace vicinal
