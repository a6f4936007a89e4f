// The ends of a selection on the CPU: values of a row wherever they lie, and what was chosen to where it belongs.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "select/problem.hpp"

namespace vicinal::cpu {

class RowReader {
 public:
  explicit RowReader(const Values& values) : values_(values), size_(value_size(values.type)) {}

  /// Values of a row lie side by side, aligned, in this machine's byte order.
  bool in_place() const noexcept {
    const auto size = static_cast<std::int64_t>(size_);
    return values_.col_stride == size && !values_.byte_swapped && values_.row_stride % size == 0 &&
           reinterpret_cast<std::uintptr_t>(values_.data) % size_ == 0;
  }
  const std::byte* at(std::int64_t row, std::int64_t col) const noexcept {
    return static_cast<const std::byte*>(values_.data) + row * values_.row_stride + col * values_.col_stride;
  }
  /// One value as this machine writes it.
  void copy(std::int64_t row, std::int64_t col, void* to) const noexcept {
    std::memcpy(to, at(row, col), size_);
    if (values_.byte_swapped) std::reverse(static_cast<std::byte*>(to), static_cast<std::byte*>(to) + size_);
  }
  void copy(std::int64_t row, std::int64_t first, std::int64_t count, void* to) const noexcept {
    for (std::int64_t i = 0; i < count; ++i)
      copy(row, first + i, static_cast<std::byte*>(to) + static_cast<std::size_t>(i) * size_);
  }

 private:
  const Values& values_;
  std::size_t size_;
};

class RowWriter {
 public:
  explicit RowWriter(const SelectProblem& problem)
      : problem_(problem), reader_(problem.values), size_(value_size(problem.values.type)) {}

  /// Entry `rank` of a row: the value at `position`, by its bits where they are at hand.
  void write(std::int64_t row, std::int64_t rank, std::int64_t position, const void* bits = nullptr) const noexcept {
    const std::int64_t at = row * problem_.k + rank;
    if (problem_.out.ids != nullptr) problem_.out.ids[at] = position;
    if (problem_.out.values != nullptr) {
      std::byte* to = static_cast<std::byte*>(problem_.out.values) + static_cast<std::size_t>(at) * size_;
      if (bits != nullptr) std::memcpy(to, bits, size_);
      else reader_.copy(row, position, to);
    }
    if (problem_.payload.data != nullptr && problem_.out.payload != nullptr) {
      const Payload& payload = problem_.payload;
      std::memcpy(
          static_cast<std::byte*>(problem_.out.payload) + at * payload.item_size,
          static_cast<const std::byte*>(payload.data) + row * payload.row_stride + position * payload.col_stride,
          static_cast<std::size_t>(payload.item_size));
    }
  }

 private:
  const SelectProblem& problem_;
  RowReader reader_;
  std::size_t size_;
};

}  // namespace vicinal::cpu
