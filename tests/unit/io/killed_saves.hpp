// Saves that a signal ends in the middle: the moment is counted in saves, not in time, so that a slow machine ends them
// within the same ones as a fast machine.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <stdexcept>

namespace vicinal::test {

/// It returns the microseconds that a call takes.
inline std::int64_t time_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
}

/// A child process calls save(0), save(1) and so on; it is sent the signal within one of the first three, at a random
/// part of `save_us`, the time in microseconds that a save takes here. It returns how many saves the child had finished.
inline std::size_t saves_until(int signal, std::mt19937& random, std::int64_t save_us,
                               const std::function<void(std::size_t)>& save) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");  // and no child is not a process to kill: -1 is all of them
  if (child == 0) {
    for (std::size_t i = 0;; ++i) {
      save(i);
      if (::write(ends[1], "", 1) != 1) ::_exit(1);  // a byte for every save that is finished
    }
  }
  ::close(ends[1]);
  std::size_t finished = 0;
  char byte = 0;
  for (const std::size_t first = random() % 3; finished < first && ::read(ends[0], &byte, 1) == 1;) ++finished;
  ::usleep(static_cast<useconds_t>(random() % static_cast<unsigned>(save_us + 1)));
  ::kill(child, signal);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  const bool by_signal = WIFSIGNALED(status) && WTERMSIG(status) == signal;
  EXPECT_TRUE(by_signal || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << "a save failed: status " << status;
  while (::read(ends[0], &byte, 1) == 1) ++finished;
  ::close(ends[0]);
  return finished;
}

}  // namespace vicinal::test
