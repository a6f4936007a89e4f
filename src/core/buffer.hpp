// Memory of stages: 64-byte aligned, uninitialised, given back at once but for small buffers, of which a thread keeps
// some for its next search
// (kept_bytes.hpp). Large ones are mapped on their own, so that a search leaves no growth behind and its peak is what
// the plan said.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vicinal {

/// Bytes of a huge page, and from which on a buffer asks for them.
inline constexpr std::size_t huge_page = std::size_t{2} << 20, huge_from = huge_page;

/// Throws OutOfMemory when the system refuses.
void* acquire_bytes(std::size_t bytes);
void release_bytes(void* at, std::size_t bytes) noexcept;

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t count)
      : data_(static_cast<T*>(acquire_bytes(static_cast<std::size_t>(count) * sizeof(T)))), count_(count) {}
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Buffer() { release_bytes(data_, static_cast<std::size_t>(count_) * sizeof(T)); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return count_; }
  std::int64_t bytes() const noexcept { return count_ * static_cast<std::int64_t>(sizeof(T)); }
  T& operator[](std::int64_t i) noexcept { return data_[i]; }
  const T& operator[](std::int64_t i) const noexcept { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

/// ReservedBytes are address space that takes memory where it is written.
class ReservedBytes {
 public:
  ReservedBytes() = default;
  /// at() is null where the system refuses, and for no bytes.
  explicit ReservedBytes(std::size_t bytes) noexcept;
  ReservedBytes(ReservedBytes&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ReservedBytes& operator=(ReservedBytes&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ReservedBytes() { trim(0); }

  void* at() const noexcept { return at_; }
  /// It gives back the pages beyond the first `bytes`.
  void trim(std::size_t bytes) noexcept;

 private:
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace vicinal
