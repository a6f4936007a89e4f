// What a search holds on the device: prepared matrices, and how many bytes it all takes.
#pragma once
#include <algorithm>

#include "backend/search.hpp"
#include "core/metric.hpp"
#include "cuda/device/device.hpp"
#include "cuda/search/filter/kernel.hpp"
#include "cuda/search/filter/precision.hpp"
#include "cuda/search/job.hpp"
#include "cuda/select/job.hpp"

namespace vicinal::cuda {

/// A prepared matrix with its memory.
template <class Device>
struct PreparedMatrixBuffers {
  explicit PreparedMatrixBuffers(Device& d)
      : rows(d), self(d), mean(d), sizes(d), order(d), bytes(d), tile_metadata(d), largest(d), scales(d), filterable(d),
        placed(d), values(d) {}
  DeviceBuffer<std::byte, Device> rows;
  DeviceBuffer<double, Device> self, mean;
  DeviceBuffer<float, Device> sizes;
  DeviceBuffer<std::uint32_t, Device> order;
  DeviceBuffer<std::int8_t, Device> bytes;
  DeviceBuffer<TileMetadata, Device> tile_metadata;
  DeviceBuffer<unsigned long long, Device> largest;
  DeviceBuffer<double, Device> scales;
  DeviceBuffer<std::uint8_t, Device> filterable;
  DeviceBuffer<PlacedQuery, Device> placed;
  DeviceBuffer<double, Device> values;
  PreparedMatrix matrix;

  std::int64_t size() const noexcept {
    return rows.bytes() + self.bytes() + mean.bytes() + sizes.bytes() + order.bytes() + bytes.bytes() +
           tile_metadata.bytes() + scales.bytes() + filterable.bytes() + placed.bytes() + values.bytes();
  }
};

/// A whole corpus on the device, for searches to come.
template <class Device>
struct CudaPreparedCorpus final : PreparedCorpus {
  explicit CudaPreparedCorpus(Device& device) : centre(device), buffers(device) {}
  std::int64_t bytes() const override { return buffers.size() + centre.bytes(); }
  DeviceTransform transform;
  bool packed = false;
  DeviceBuffer<double, Device> centre;
  PreparedMatrixBuffers<Device> buffers;
};

/// A kept corpus of many equal rows has enough of each for lists up to this; for longer ones a finer precision packs its own. All equal rows of a list
/// come from few tiles: of 2,048 the candidates of 2,048 queries overflowed.
inline constexpr std::int64_t prepared_duplicates = 128;

inline std::int64_t padded_to_blocks(std::int64_t count) {
  return (count + block_queries - 1) / block_queries * block_queries;
}

/// Bytes of rows that come from the host.
inline std::int64_t host_row_bytes(std::int64_t count, const Shape& shape) {
  return shape.on_device ? 0 : count * shape.cols * static_cast<std::int64_t>(dtype_size(shape.dtype));
}

/// Bytes of a prepared matrix, with its rows where they come from the host.
inline std::int64_t matrix_bytes(std::int64_t count, const Shape& shape, Metric metric, Precision precision,
                                 bool queries) {
  const std::int64_t padded = padded_to_blocks(count), dims = shape.cols;
  std::int64_t total = host_row_bytes(count, shape) + (std::int64_t{1} << 20);
  if (needs_norms(metric)) total += count * 16;
  if (has_filter(precision)) total += padded * (filter_width(precision, dims) + 16) + 2048 * (count / 8192 + 129);
  if (queries) total += count * dims * 8 + padded * 64;
  return total;
}

inline std::int64_t slots_of(const Plan& plan) {
  return std::max<std::int64_t>(plan.candidate_slots >= 256 ? 4096 : 0, 4 * plan.candidate_slots);
}

/// The rows of a corpus, as far as 32 bits of a word name them. A device has its own, which tests lower.
inline constexpr std::int64_t most_packed_rows = 0xffffffffll;
/// Whether the words of a list are Wide: keys of 64 bits, or a corpus of more rows than 32 bits name. Rows count from the corpus' first,
/// whatever chunk they are in, for lists last from chunk to chunk.
inline bool wide_words(DistanceType type, std::int64_t corpus_rows, std::int64_t packed_rows) {
  return type != DistanceType::f32 || corpus_rows > packed_rows;
}

/// Bytes of a word of a list, and of a key that is kept alone.
inline std::int64_t word_size(bool wide) { return wide ? 16 : 8; }
inline std::int64_t key_size(DistanceType type) { return type == DistanceType::f32 ? 4 : 8; }
inline ValueType key_type(DistanceType type) { return type == DistanceType::f32 ? ValueType::f32 : ValueType::f64; }

/// One of so many warps of a block finds something: in a block that is not full some have no queries.
inline std::int64_t idle_share(std::int64_t queries) {
  return queries > block_queries / 2 ? 1 : block_queries / 32 / ((queries + 31) / 32);
}

/// Tiles that seed the thresholds of `want` rows each: eight groups of rows for each of them, if that is no more than an eighth of all.
inline std::int64_t sample_tiles(std::int64_t tiles, std::int64_t want) {
  const std::int64_t fair = 8 * want / groups_a_tile + 1, least = 4 * want / groups_a_tile + 1;
  return std::min(tiles, std::max(tiles / 32, std::min(fair, std::max(tiles / 8, least))));
}

/// Whether thresholds come from a sample of the tiles before any are searched; else all pairs of the first tiles come through.
inline bool samples_first(std::int64_t tiles, std::int64_t want, std::int64_t capacity) {
  return sample_tiles(tiles, want) * groups_a_tile >= 2 * want && capacity / tile_rows < tiles;
}
/// Finds that the segments of all warps have room for together; workers: warps that have one.
inline std::int64_t candidate_entries(std::int64_t batch, std::int64_t capacity, std::int64_t workers) {
  return std::max(batch * capacity / 2 * idle_share(batch), 1024 * workers);
}

/// Products of a chunk that are nothing, found at a time (underflow.cuh).
inline constexpr std::int64_t underflowed_room = 1 << 18, underflowed_bytes = 24;

/// Bytes that a query of a long list takes beside its slots (rerank_long.cuh).
inline std::int64_t long_bytes(std::int64_t k, std::int64_t capacity, bool wide) {
  const FormName form = wide ? FormName::wide : FormName::packed;
  return k > most_shared_k ? capacity * (4 + word_size(form)) + merge_needs(form, k, k).row : 0;
}

/// Rows whose keys are taken at a time beside the lists.
inline std::int64_t exhaustive_segment(std::int64_t batch, std::int64_t k, std::int64_t rows) {
  return std::min(rows,
                  std::max({std::int64_t{8192}, 2 * k, (std::int64_t{1} << 28) / std::max<std::int64_t>(batch, 1)}));
}
/// Of the canonical precision, for a batch of queries.
inline std::int64_t exhaustive_bytes(std::int64_t batch, std::int64_t k, std::int64_t rows, DistanceType type,
                                     bool wide) {
  const std::int64_t cols = k + exhaustive_segment(batch, k, rows);
  return batch * (cols * key_size(type) + k * (key_size(type) + 8 + word_size(wide)));
}

/// Everything that a session holds on the plan's first precision but a kept corpus. selecting: what selections of the canonical precision work in.
inline std::int64_t session_bytes(const Plan& plan, const ProblemShape& problem, std::int64_t selecting,
                                  int multiprocessors, std::int64_t packed_rows = most_packed_rows) {
  const Precision precision = precision_of(plan.cascade.front());
  const bool wide = wide_words(plan.distance_type, problem.corpus.rows, packed_rows);
  const std::int64_t batch = plan.query_batch, k = problem.k, rows = std::min(plan.corpus_chunk, problem.corpus.rows);
  std::int64_t total = matrix_bytes(batch, problem.queries, problem.metric, precision, true) +
                       batch * (k * word_size(wide) + 128) + 2 * problem.filter_bytes;
  total += std::int64_t{2} << 20;  // that small arrays are pieces of (Runtime)
  if (!problem.queries.on_device) total += batch * k * static_cast<std::int64_t>(8 + distance_size(plan.distance_type));
  if (!problem.kept || !filter_precision(precision).prepared)
    total += matrix_bytes(rows, problem.corpus, problem.metric, precision, false) +
             (rows < problem.corpus.rows ? host_row_bytes(rows, problem.corpus) : 0);  // and the rows that come next
  if (!problem.kept && plan.distance_type == DistanceType::f32 && descending(problem.metric))
    total += std::max(underflowed_room, k) * underflowed_bytes;
  if (!has_filter(precision)) return total + exhaustive_bytes(batch, k, rows, plan.distance_type, wide) + selecting;
  const std::int64_t tiles = (rows + tile_rows - 1) / tile_rows, capacity = slots_of(plan);
  const bool sampled = samples_first(tiles, k + 1, capacity);
  std::int64_t candidates = candidate_entries(batch, capacity, std::int64_t{multiprocessors} * most_writing_warps);
  // All pairs of the first part; the last unit of work of each block may be a small one.
  if (!sampled)
    candidates = std::max(candidates, 2 * padded_to_blocks(batch) *
                                          std::min(tiles, std::max<std::int64_t>(1, capacity / tile_rows)) * tile_rows);
  const std::int64_t groups = sampled ? sample_tiles(tiles, k + 1) * groups_a_tile : 0;
  total += groups * 4 * padded_to_blocks(batch) + batch * long_bytes(k, capacity, wide);
  return total + batch * capacity * static_cast<std::int64_t>(sizeof(Slot)) +
         candidates * static_cast<std::int64_t>(sizeof(Candidate));
}

}  // namespace vicinal::cuda
