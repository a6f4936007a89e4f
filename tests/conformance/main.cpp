// The conformance program. Besides the tests it runs single jobs in a fresh process (--child NAME ARGUMENT), for what
// cannot be measured or survived in a process with a past: peak memory, growth, a fork.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "conformance/children.hpp"

namespace {

/// Every answer of the tests is checked by the library too; a job's memory and pace are to be its own.
int run(int argc, char** argv) {
  const bool child = argc == 4 && std::strcmp(argv[1], "--child") == 0;
  child ? ::unsetenv("VICINAL_SPOT_CHECK") : ::setenv("VICINAL_SPOT_CHECK", "1", 0);
  if (child) return conformance::child_main(argv[2], argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace

int main(int argc, char** argv) {
  const int status = run(argc, argv);
  // With AddressSanitizer loaded before everything (scripts/run_tests.py), p11-kit, which comes with libhdf5, waits for ever for a
  // lock when the process ends. So the search for leaks, which would be made then, is made here.
  if (void* leaks = ::dlsym(RTLD_DEFAULT, "__lsan_do_leak_check")) {
    reinterpret_cast<void (*)()>(leaks)();
    std::fflush(nullptr);
    ::_exit(status);
  }
  return status;
}
