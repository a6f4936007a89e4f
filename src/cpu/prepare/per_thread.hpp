// Memory that each thread of a call has to itself.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/parallel.hpp"

namespace vicinal::cpu {

/// One T for each thread of a pool. A thread's T is made when that
/// thread first asks for it, so that idle threads cost nothing.
template <class T>
class PerThread {
 public:
  PerThread(const ThreadPool& thread_pool, std::function<std::unique_ptr<T>()> make)
      : make_(std::move(make)), others_(static_cast<std::size_t>(thread_pool.threads() - 1)) {}
  T& of(int thread) {
    auto& one = thread == 0 ? first_ : others_[static_cast<std::size_t>(thread - 1)];
    if (!one) one = make_();
    return *one;
  }

 private:
  std::function<std::unique_ptr<T>()> make_;
  std::unique_ptr<T> first_;  // a pool of one thread allocates no list
  std::vector<std::unique_ptr<T>> others_;
};

}  // namespace vicinal::cpu
