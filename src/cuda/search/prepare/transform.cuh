// PREPARE, before its first kernel: centre and scale of the filter's rows by a sample
// of them, chosen on the device by the rule of src/prepare/transform.cpp. Any choice
// is sound, since quantization errors are measured; sums here may be of any order.
#pragma once
#include "cuda/search/core/block_select.cuh"
#include "cuda/search/prepare/duplicates.cuh"
#include "cuda/search/prepare/measure.cuh"

namespace vicinal::cuda {

inline constexpr int most_sampled = 1024, least_sampled = 64;  // rows, where the corpus has them
inline constexpr std::int64_t sampled_elements = std::int64_t{1} << 20;
inline constexpr double outlier = 1024;  // rows so many times larger than the median row do not choose the transform
inline constexpr int sample_threads = 1024, sample_slots = 4 * most_sampled;

/// What is known of a sampled row.
struct SampledRow {
  std::int64_t base;  // where its elements begin
  double largest;  // element of the row, shifted and divided by its norm where the metric asks for that; of `fit` rows
  double shift, factor;
  unsigned long long hash;  // of equal rows equal
  bool fit, whole;          // whole: its elements are integers
};
/// What the host is told.
struct ChosenTransform {
  double scale = 1, integral = 0;
  bool usable = true, duplicates = false;
};
/// What the second kernel finds out for the third.
struct SampleFacts {
  std::uint32_t limit;  // outlier_limit()
  bool duplicates;
};
struct Sampling {
  PreparedMatrix matrix;  // rows to sample from; self and mean have room for the sample
  Visits visits;
  int count = 0;
  Metric metric = Metric::euclidean;
  Sum sum = Sum::squares;
  bool codes = false;  // of a precision of codes
  int code_range = 0;
  SampledRow* sampled = nullptr;
  double *mean = nullptr, *low = nullptr, *high = nullptr;  // of columns
  float* centre = nullptr;
  SampleFacts* facts = nullptr;
  ChosenTransform* chosen = nullptr;
};

/// The sampled rows: a warp each.
__global__ void __launch_bounds__(prepare_threads) sample_rows(Sampling args) {
  const PreparedMatrix& matrix = args.matrix;
  const int i = static_cast<int>(blockIdx.x) * (thread_count() / 32) + warp_index();
  if (i >= args.count) return;
  const bool norms = needs_norms(args.metric), cosine = args.metric == Metric::cosine;
  // What any metric asks.
  const std::int64_t base = args.visits.at(i) * matrix.dims;
  const double first = element(matrix.rows, matrix.dtype, base), reference = cosine ? 0.0 : first;
  bool finite = true, same = true, whole = true;
  double largest = 0, sum = 0;
  with_elements(matrix, [&](auto load) {
    for (std::int64_t c = lane_index(); c < matrix.dims; c += 32) {
      const double x = load(base + c);
      finite = finite && is_finite(x);
      same = same && x == reference;
      whole = whole && x == rint(x);
      largest = largest < fabs(x) ? fabs(x) : largest;
      sum = cosine ? fma(x, x, sum) : sum + x;
    }
  });
  SampledRow row{.base = base,
                 .largest = 0,
                 .shift = 0,
                 .factor = 1,
                 .hash = row_hash(matrix, base),
                 .fit = __all_sync(all_lanes, finite) != 0,
                 .whole = __all_sync(all_lanes, whole) != 0};
  same = __all_sync(all_lanes, same) != 0;
  // The row divided by its norm.
  if (norms) {
    double self = lanes_joined(sum, Plus{});
    if (!cosine) {
      row.shift = self / static_cast<double>(matrix.dims);
      self = centred_squares(matrix, i, base, row.shift);
    }
    row.factor = self > 0 ? 1.0 / sqrt(self) : 0.0;
    row.fit = row.fit && !same && (matrix.dtype != DType::f64 || (self >= least_self && self <= most_self));
    largest = 0;
    for (std::int64_t c = lane_index(); c < matrix.dims; c += 32) {
      const double x = fabs((element(matrix.rows, matrix.dtype, base + c) - row.shift) * row.factor);
      largest = largest < x ? x : largest;
    }
  }
  row.largest = lanes_joined(largest, Larger{});
  if (lane_index() == 0) args.sampled[i] = row;
}

/// The upper half of a number that is not negative, in its order.
__device__ __forceinline__ std::uint32_t upper_bits(double value) {
  return static_cast<std::uint32_t>(bits_of(value) >> 32);
}
/// Bits that the upper half of a row's largest element is at most in rows that choose the transform, by a block, so
/// that one wild row cannot squash all others to nothing. keys: of the sample. scratch: 256 + 3 words.
__device__ __forceinline__ std::uint32_t outlier_limit(const Sampling& args, std::uint32_t* keys, unsigned* scratch) {
  int fit = 0;
  for (int from = 0; from < args.count; from += thread_count()) {
    const int i = from + thread_index();
    const bool here = i < args.count && args.sampled[i].fit;
    if (i < args.count) keys[i] = here ? upper_bits(args.sampled[i].largest) : 0xffffffffu;
    unsigned total;
    block_sum_before(here ? 1u : 0u, total, scratch);
    __syncthreads();
    fit += static_cast<int>(total);
  }
  if (fit == 0) return 0;
  const std::uint32_t middle =
      block_kth(args.count, static_cast<std::uint32_t>(fit / 2 + 1), scratch, [&](std::int64_t i) { return keys[i]; });
  const double limit = double_of(static_cast<unsigned long long>(middle) << 32) * outlier;
  return limit > 0 ? upper_bits(limit) : 0x7fefffffu;
}
__device__ __forceinline__ bool chooses(const SampledRow& row, std::uint32_t limit) {
  return row.fit && upper_bits(row.largest) <= limit;
}

/// Whether a quarter of the sample has equals in it, by hashes;
/// by a block. table: sample_slots words, alike: a word a row.
__device__ __forceinline__ bool has_duplicates(const Sampling& args, std::uint32_t* table, std::uint32_t* alike,
                                               unsigned* scratch) {
  for (int i = thread_index(); i < sample_slots; i += thread_count()) table[i] = 0;
  for (int i = thread_index(); i < args.count; i += thread_count()) alike[i] = 0;
  __syncthreads();
  for (int i = thread_index(); i < args.count; i += thread_count()) {
    const unsigned long long hash = args.sampled[i].hash;
    for (auto slot = static_cast<unsigned>(hash % sample_slots);; slot = (slot + 1) % sample_slots) {
      const std::uint32_t other = atomicCAS(&table[slot], 0u, static_cast<std::uint32_t>(i) + 1);
      if (other == 0) break;
      if (args.sampled[other - 1].hash != hash) continue;
      atomicOr(&alike[other - 1], 1u);
      atomicOr(&alike[i], 1u);
      break;
    }
  }
  __syncthreads();
  unsigned mine = 0, all = 0;
  for (int i = thread_index(); i < args.count; i += thread_count()) mine += alike[i];
  block_sum_before(mine, all, scratch);
  return args.count >= 64 && all * 4 >= static_cast<unsigned>(args.count);
}

/// Mean, least and largest element of 32 columns: by a block, a column a
/// lane, a share of the sample a warp. The last block looks for equal rows.
__global__ void __launch_bounds__(sample_threads) sample_columns(Sampling args) {
  constexpr int warps = sample_threads / 32;
  VICINAL_SHARED(std::uint32_t, keys, most_sampled);
  VICINAL_SHARED(unsigned, scratch, 260);
  VICINAL_SHARED(double, sums, 3 * warps * 32);
  double *const lows = sums + warps * 32, *const highs = lows + warps * 32;
  static_assert(sizeof(double) * 3 * warps * 32 >= sizeof(std::uint32_t) * sample_slots);
  if (blockIdx.x == gridDim.x - 1) {
    const bool duplicates = has_duplicates(args, reinterpret_cast<std::uint32_t*>(sums), keys, scratch);
    if (thread_index() == 0) args.facts->duplicates = duplicates;
    return;
  }
  // A share of the sample by a warp.
  const PreparedMatrix& matrix = args.matrix;
  const std::uint32_t limit = outlier_limit(args, keys, scratch);
  if (blockIdx.x == 0 && thread_index() == 0) args.facts->limit = limit;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * 32 + lane_index();
  double sum = 0, low = infinite, high = -infinite;
  unsigned used = 0;
  if (col < matrix.dims)
    with_elements(matrix, [&](auto load) {
#pragma unroll 4
      for (int i = warp_index(); i < args.count; i += warps) {
        const SampledRow& row = args.sampled[i];
        const double x = (load(row.base + col) - row.shift) * row.factor;
        if (!chooses(row, limit)) continue;
        ++used;
        sum += x;
        low = x < low ? x : low;
        high = x > high ? x : high;
      }
    });
  // All shares.
  const int mine = warp_index() * 32 + lane_index();
  sums[mine] = sum;
  lows[mine] = low;
  highs[mine] = high;
  if (lane_index() == 0) scratch[warp_index()] = used;
  __syncthreads();
  if (warp_index() != 0 || col >= matrix.dims) return;
  for (int w = 1; w < warps; ++w) {
    used += scratch[w];
    sum += sums[w * 32 + lane_index()];
    low = lows[w * 32 + lane_index()] < low ? lows[w * 32 + lane_index()] : low;
    high = highs[w * 32 + lane_index()] > high ? highs[w * 32 + lane_index()] : high;
  }
  args.mean[col] = used > 0 ? sum / static_cast<double>(used) : 0.0;
  args.low[col] = low;
  args.high[col] = high;
}

/// The largest of what the threads of a block bring, to all of them. scratch: a word a warp.
__device__ __forceinline__ double block_largest(double value, double* scratch) {
  value = lanes_joined(value, Larger{});
  if (lane_index() == 0) scratch[warp_index()] = value;
  __syncthreads();
  for (int w = 0; w < thread_count() / 32; ++w) value = value < scratch[w] ? scratch[w] : value;
  __syncthreads();
  return value;
}

/// The transform, by one block.
__global__ void __launch_bounds__(sample_threads) close_transform(Sampling args) {
  VICINAL_SHARED(double, ends, sample_threads / 32);
  const DType dtype = args.matrix.dtype;
  const std::int64_t dims = args.matrix.dims;
  const bool unit = needs_norms(args.metric), integers = (dtype == DType::u8 || dtype == DType::i8) && !unit;
  const std::uint32_t limit = args.facts->limit;
  // Of all rows and columns.
  double used = 0, broken = 0, highest = -infinite, lowest = infinite;
  for (int i = thread_index(); i < args.count; i += thread_count()) {
    const bool here = chooses(args.sampled[i], limit);
    used = here ? 1 : used;
    broken = here && !args.sampled[i].whole ? 1 : broken;
  }
  for (std::int64_t c = thread_index(); c < dims; c += thread_count()) {
    highest = highest < args.high[c] ? args.high[c] : highest;
    lowest = args.low[c] < lowest ? args.low[c] : lowest;
  }
  used = block_largest(used, ends);
  broken = block_largest(broken, ends);
  highest = block_largest(highest, ends);
  lowest = -block_largest(-lowest, ends);
  // Integers that fit a byte have one centre for all columns, so that they stay integers that fit.
  if (integers) {
    lowest = dtype == DType::u8 ? 0 : -128;
    highest = lowest + 255;
  }
  const bool integral = args.codes && args.sum != Sum::products && !unit && broken == 0 && used > 0 &&
                        highest - lowest <= static_cast<double>(args.code_range);
  // The centre, and what is the largest beside it.
  const auto centre_of = [&](std::int64_t c) {
    double centre = args.mean[c];
    if (integral) centre = lowest + floor((highest - lowest + 1) / 2);
    centre = integers ? rint(centre) : static_cast<double>(static_cast<float>(centre));
    return args.sum == Sum::products || used == 0 || !is_finite(centre) ? 0.0 : centre;
  };
  double largest = 0;
  for (std::int64_t c = thread_index(); c < dims && used > 0; c += thread_count()) {
    const double centre = centre_of(c), above = fabs(args.high[c] - centre), below = fabs(args.low[c] - centre),
                 here = above < below ? below : above;
    largest = largest < here || !is_finite(here) ? here : largest;
  }
  largest = block_largest(largest, ends);
  // The scale brings that to about 1.
  ChosenTransform chosen;
  const int exponent = largest > 0 && is_finite(largest) ? ilogb(largest) : 0;
  chosen.usable = is_finite(largest) && !is_extreme(exponent);
  if (!unit && largest > 0 && chosen.usable) {
    chosen.scale = ldexp(1.0, -exponent);
    if (integral) chosen.integral = chosen.scale;
  }
  for (std::int64_t c = thread_index(); c < centre_columns(dims); c += thread_count()) {
    const auto centre = c < dims ? static_cast<float>(centre_of(c) * chosen.scale) : 0.0f;
    args.centre[c] = is_finite(static_cast<double>(centre)) ? centre : 0.0f;
  }
  chosen.duplicates = args.facts->duplicates;
  if (thread_index() == 0) *args.chosen = chosen;
}

}  // namespace vicinal::cuda
