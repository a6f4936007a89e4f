// Threads that are kept from call to call: which one runs a task, on which cores, and what a forked child has.
#include "core/kept_threads.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace {
using namespace vicinal;

/// Runs a task on a kept thread and waits until that has ended.
template <class Task>
void run_and_wait(const std::string& owner, const Task& task) {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  run_on_kept_thread(owner, task, [&] {
    const std::lock_guard lock(mutex);
    done = true;
    ended.notify_one();
  });
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return done; });
}
std::thread::id thread_of(const std::string& owner) {
  std::thread::id id;
  run_and_wait(owner, [&] { id = std::this_thread::get_id(); });
  return id;
}

TEST(KeptThreads, AnOwnerHasItsThreadAgain) {
  const std::thread::id first = thread_of("cuda:6"), second = thread_of("cuda:7");
  EXPECT_NE(first, second);
  EXPECT_NE(first, std::this_thread::get_id());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(thread_of("cuda:6"), first);
    EXPECT_EQ(thread_of("cuda:7"), second);
  }
}

TEST(KeptThreads, TasksOfOneOwnerAtOnceHaveThreadsOfTheirOwn) {
  std::thread::id inner, outer;
  run_and_wait("cuda:5", [&] {
    outer = std::this_thread::get_id();
    inner = thread_of("cuda:5");
  });
  EXPECT_NE(inner, outer);
}

TEST(KeptThreads, ATaskRunsOnTheCoresOfItsCaller) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const auto cores = [] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    run_and_wait("cuda:4", [&] { sched_getaffinity(0, sizeof mask, &mask); });
    return mask;
  };
  cpu_set_t mask = cores();
  EXPECT_TRUE(CPU_EQUAL(&mask, &all));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  mask = cores();
  EXPECT_TRUE(CPU_EQUAL(&mask, &one));
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  mask = cores();
  EXPECT_TRUE(CPU_EQUAL(&mask, &all));
}

TEST(KeptThreads, TakeNoSignals) {
  sigset_t mask, own;
  run_and_wait("cuda:2", [&] { pthread_sigmask(SIG_BLOCK, nullptr, &mask); });
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGALRM}) EXPECT_EQ(sigismember(&mask, signal), 1) << signal;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) EXPECT_EQ(sigismember(&mask, signal), 0) << signal;
  pthread_sigmask(SIG_BLOCK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);  // the caller's are as they were
}

TEST(KeptThreads, AForkedChildHasThreadsOfItsOwn) {
  thread_of("cuda:3");  // waits in the parent
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    for (int i = 0; i < 3; ++i) run_and_wait("cuda:3", [&] { ++count; });
    _exit(count == 3 ? 0 : 1);
  }
  int status = 0;
  for (int i = 0; i < 1000 && waitpid(child, &status, WNOHANG) == 0; ++i) usleep(10'000);
  if (waitpid(child, nullptr, WNOHANG) == 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    FAIL() << "the child waits for a thread that is its parent's";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
