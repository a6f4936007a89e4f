// One fault at a time: while armed, the calls that this program can refuse are counted, and the chosen one is refused. The
// functions of the C library are reached through the linker (--wrap, cmake/tests.cmake), memory through operator new.
#pragma once
#include <cstdint>
#include <string>

namespace faults {

enum class Mode {
  none,    // count only
  once,    // the chosen call fails, later ones work
  onwards  // it fails and so does every later allocation: a machine that is out of memory
};

/// Counts from 1, in this thread and all others.
void arm(Mode mode, std::int64_t at);
/// The number of calls seen since.
std::int64_t disarm();
/// What the refused call was: "write", "new", ...; "" if none was.
const char* refused();
/// errno that it gave; 0 for memory.
int refused_errno();

/// What must not grow from call to call.
struct Held {
  std::int64_t blocks = 0, mappings = 0, descriptors = 0;
  friend bool operator==(const Held&, const Held&) = default;
};
Held held();

}  // namespace faults
