// Threads that the library makes for itself leave the process's signals to the caller's threads, as oneTBB's do not.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace vicinal {

/// A thread that is made while a SignalsBlocked is there takes no signals but those of its own faults. The calling
/// thread has its mask back in the end.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, own);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace vicinal
