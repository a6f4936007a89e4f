// Jobs that run in a fresh process, where memory has no history: see run_child in support.hpp.
#pragma once
#include <cstdint>

namespace conformance {

/// Anonymous resident memory of this process (RssAnon), in bytes.
std::int64_t anonymous_bytes();
int child_main(const char* job, const char* argument);

}  // namespace conformance
