// The conformance program. Besides the tests it runs single jobs in a fresh process (--child NAME ARGUMENT), for what
// cannot be measured or survived in a process with a past: peak memory, growth, a fork.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "conformance/children.hpp"

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--child") == 0) return conformance::child_main(argv[2], argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
