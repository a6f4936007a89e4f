// Listed rows of a table, copied side by side into device memory: samples,
// batches of scattered queries, and queries that are searched again.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/search/prepare/measure.cuh"
#include "prepare/load.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

/// Whether rows lie one behind the other, of native elements: as searches take those that are on the device.
inline bool is_dense(const Points& points) noexcept {
  const auto size = static_cast<std::int64_t>(dtype_size(points.dtype));
  return points.col_stride == size && (points.row_stride == points.cols * size || points.rows < 2) &&
         !points.byte_swapped;
}

/// ChosenRows holds some rows of a table, in one copy or one launch however many they are.
template <class Device>
class ChosenRows {
 public:
  explicit ChosenRows(Device& device) : device_(device), rows_(device), which_(device) {}

  /// Rows `which` of `table`, which is the host's or the device's, adjacent and native. They stay until the next call.
  Points gather(const Points& table, std::span<const std::int64_t> which) {
    const auto count = static_cast<std::int64_t>(which.size());
    const std::int64_t bytes = table.cols * static_cast<std::int64_t>(dtype_size(table.dtype));
    std::byte* to = rows_.reserve(count * bytes);
    if (count == 0) return {to, table.dtype, 0, table.cols};
    if (device_.holds(table.data)) {
      numbers_.assign(which.begin(), which.end());
      device_.in(which_.reserve(count), numbers_.data(), count * 8);
      device_.launch()(count, 128, 0, gather_rows,
                       GatherRows{.from = static_cast<const unsigned char*>(table.data),
                                  .to = reinterpret_cast<unsigned char*>(to),
                                  .row_bytes = bytes,
                                  .row_stride = table.row_stride,
                                  .which = which_.data()});
    } else {
      copied_.resize(static_cast<std::size_t>(count * bytes));
      for (std::int64_t i = 0; i < count; ++i)
        gather_row(table, which[static_cast<std::size_t>(i)], copied_.data() + i * bytes);
      device_.in(to, copied_.data(), count * bytes);
    }
    return {to, table.dtype, count, table.cols};
  }

 private:
  Device& device_;
  DeviceBuffer<std::byte, Device> rows_;
  DeviceBuffer<std::int64_t, Device> which_;
  // What the device reads until its stream has been waited for.
  std::vector<std::int64_t> numbers_;
  std::vector<std::byte> copied_;
};

/// Queries that are a run of the table's rows, which lie on the device as well, dense and native, from `rows` on: as
/// they are there. Other queries, and all where rows is null, are returned as they are given.
inline Points rows_on_device(const Points& queries, const Points& table, const void* rows) {
  const bool alike = queries.dtype == table.dtype && queries.cols == table.cols &&
                     queries.row_stride == table.row_stride && queries.col_stride == table.col_stride &&
                     queries.byte_swapped == table.byte_swapped;
  if (rows == nullptr || !alike || table.row_stride <= 0) return queries;
  const auto begin = reinterpret_cast<std::uintptr_t>(table.data), at = reinterpret_cast<std::uintptr_t>(queries.data);
  const auto stride = static_cast<std::uintptr_t>(table.row_stride);
  if (at < begin || (at - begin) % stride != 0) return queries;
  const auto first = static_cast<std::int64_t>((at - begin) / stride);
  if (first + queries.rows > table.rows) return queries;
  return Points(rows, table.dtype, table.rows, table.cols).slice(first, queries.rows);
}

}  // namespace vicinal::cuda
