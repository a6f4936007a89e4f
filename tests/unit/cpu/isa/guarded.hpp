// For tests of kernels: arrays that end where memory ends, so that a read or write past the last element is a crash.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace vicinal::cpu {

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// `count` values whose last byte is followed by a page that may not be touched.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count) : count_(count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const std::size_t pages = (bytes + page - 1) / page + 1;
    size_ = pages * page;
    base_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + size_ - page, page, PROT_NONE) != 0) std::abort();
    data_ = reinterpret_cast<T*>(base_ + size_ - page - bytes);
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  T* data() const { return data_; }
  T& operator[](std::int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }

 private:
  static constexpr std::size_t page = 4096;
  std::int64_t count_;
  std::size_t size_;
  std::byte* base_;
  T* data_;
};

}  // namespace vicinal::cpu
