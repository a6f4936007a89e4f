// Some rows of a table side by side, for a batch of queries that do not follow one another.
#pragma once
#include <cstdint>
#include <span>

#include "cuda/device/device.hpp"
#include "cuda/search/prepare/measure.cuh"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

/// Whether rows of the device are gathered by one launch: an element follows the other in a row.
template <class Device>
bool gathers(const Device& device, const Points& table) {
  return table.col_stride == static_cast<std::int64_t>(dtype_size(table.dtype)) && !table.byte_swapped &&
         device.holds(table.data);
}
/// Those rows of a table of the device to `to`. numbers: memory for theirs.
template <class Device>
void gather(Device& device, const Points& table, std::span<const std::int64_t> which, std::byte* to,
            DeviceBuffer<std::int64_t, Device>& numbers) {
  const auto count = static_cast<std::int64_t>(which.size());
  device.in(numbers.reserve(count), which.data(), count * 8);
  device.launch()(count, 128, 0, gather_rows,
                  GatherRows{.from = static_cast<const unsigned char*>(table.data),
                             .to = reinterpret_cast<unsigned char*>(to),
                             .row_bytes = table.cols * static_cast<std::int64_t>(dtype_size(table.dtype)),
                             .row_stride = table.row_stride,
                             .count = count,
                             .visits = {},
                             .which = numbers.data()});
}

}  // namespace vicinal::cuda
