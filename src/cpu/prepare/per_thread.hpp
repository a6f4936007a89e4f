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
      : make_(std::move(make)), all_(static_cast<std::size_t>(thread_pool.threads())) {}
  T& of(int thread) {
    auto& one = all_[static_cast<std::size_t>(thread)];
    if (!one) one = make_();
    return *one;
  }

 private:
  std::function<std::unique_ptr<T>()> make_;
  std::vector<std::unique_ptr<T>> all_;
};

}  // namespace vicinal::cpu
