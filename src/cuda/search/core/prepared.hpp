// A prepared matrix and the device memory that holds it stand here, with how many bytes that is.
#pragma once
#include <memory>
#include <mutex>
#include <numeric>

#include "backend/search.hpp"
#include "core/divide.hpp"
#include "core/metric.hpp"
#include "cuda/device/device.hpp"
#include "cuda/search/core/matrix.hpp"
#include "cuda/search/core/precision.hpp"

namespace vicinal::cuda {

/// A prepared matrix with its memory.
template <class Device>
struct PreparedMatrixBuffers {
  explicit PreparedMatrixBuffers(Device& d)
      : rows(d), self(d), mean(d), sizes(d), order(d), bytes(d), tile_metadata(d), largest(d), scales(d), filterable(d),
        quantized(d), values(d), second_bytes(d), two_bytes(d) {}
  DeviceBuffer<std::byte, Device> rows;
  DeviceBuffer<double, Device> self, mean;
  DeviceBuffer<float, Device> sizes;
  DeviceBuffer<std::uint32_t, Device> order;
  DeviceBuffer<std::int8_t, Device> bytes;
  DeviceBuffer<TileMetadata, Device> tile_metadata;
  DeviceBuffer<unsigned long long, Device> largest;
  DeviceBuffer<double, Device> scales;
  DeviceBuffer<std::uint8_t, Device> filterable;
  DeviceBuffer<QuantizedQuery, Device> quantized;
  DeviceBuffer<double, Device> values;
  DeviceBuffer<std::int8_t, Device> second_bytes;
  DeviceBuffer<QuantizedQuery, Device> two_bytes;
  PreparedMatrix matrix;

  std::int64_t size() const noexcept {
    return rows.bytes() + self.bytes() + mean.bytes() + sizes.bytes() + order.bytes() + bytes.bytes() +
           tile_metadata.bytes() + scales.bytes() + filterable.bytes() + quantized.bytes() + values.bytes() +
           second_bytes.bytes() + two_bytes.bytes();
  }
};

/// A whole corpus on the device, for searches to come.
template <class Device>
struct CudaPreparedCorpus final : PreparedCorpus {
  explicit CudaPreparedCorpus(Device& d) : centre(d), buffers(d), device(d) {}
  std::int64_t bytes() const override { return buffers.size() + centre.bytes(); }
  DeviceTransform transform;
  bool packed = false;
  DeviceBuffer<float, Device> centre;
  PreparedMatrixBuffers<Device> buffers;
  Device& device;
  // What small searches work in, kept between them by those who make it (fused_session.hpp).
  mutable std::mutex mutex;
  mutable std::shared_ptr<void> workspaces;
};

inline constexpr std::int64_t most_byte_sum_dims = 65536;  // 255^2 times as many columns are less than 2^32
/// Sums whose terms are whole numbers of at most 255^2 where columns are bytes.
constexpr bool sums_whole(Sum sum) {
  return sum == Sum::squares || sum == Sum::products || sum == Sum::magnitudes || sum == Sum::largest;
}
/// Whether rows are ranked from the bytes of both sides, in whole numbers.
constexpr bool ranks_bytes(Metric metric, DType rows, DType queries, std::int64_t dims) {
  return (rows == DType::u8 || rows == DType::i8) && queries == rows && metric != Metric::correlation &&
         dims <= most_byte_sum_dims && sums_whole(sum_of(metric));
}
/// Whether queries of a filtered search are kept in double
/// precision, for ranking: where it cannot read them as they are.
constexpr bool keeps_values(Metric metric, DType rows, DType queries, std::int64_t dims) {
  return metric == Metric::correlation ||
         !((rows == DType::f32 && queries == DType::f32) || ranks_bytes(metric, rows, queries, dims));
}

inline std::int64_t padded_to_blocks(std::int64_t count) { return rounded_up(count, block_queries); }
/// To the end of blocks of both sizes.
inline std::int64_t padded_sides(std::int64_t count) {
  return rounded_up(count, std::lcm(std::int64_t{block_queries}, std::int64_t{slab_queries}));
}

/// Bytes of rows that come from the host.
inline std::int64_t host_row_bytes(std::int64_t count, const Shape& shape) {
  return shape.on_device ? 0 : count * shape.cols * static_cast<std::int64_t>(dtype_size(shape.dtype));
}

/// Bytes of a prepared matrix, with its rows where they come from the
/// host. values: of queries, whether they are kept in double precision.
inline std::int64_t matrix_bytes(std::int64_t count, const Shape& shape, Metric metric, Precision precision,
                                 bool queries, bool values = true) {
  const std::int64_t padded = padded_to_blocks(count), dims = shape.cols;
  // For arrays of few words. Rows that lie on the device and are ranked as they are have none, and few queries few.
  constexpr std::int64_t most_besides = std::int64_t{1} << 20;
  const std::int64_t besides = has_filter(precision) || !shape.on_device ? most_besides
                               : queries                                 ? std::min(most_besides, count * 1024)
                                                                         : 0;
  std::int64_t total = host_row_bytes(count, shape) + besides;
  if (needs_norms(metric)) total += count * 16;
  if (has_filter(precision)) total += padded * (filter_width(precision, dims) + 18) + 4096 * (count / 8192 + 129);
  if (queries) total += (values ? count * dims * 8 : 0) + padded * 80;
  if (queries && has_second_bytes(precision, shape.dtype, dims))
    total += padded * (filter_width(precision, dims) + static_cast<std::int64_t>(sizeof(QuantizedQuery)));
  return total;
}

}  // namespace vicinal::cuda
