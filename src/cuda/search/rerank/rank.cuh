// RERANK: canonical distances of some rows for one query, as words of the one total order.
#pragma once
#include "cuda/search/prepare/element.cuh"
#include "cuda/select/form.cuh"

namespace vicinal::cuda {

inline constexpr int rows_at_once = 4;  // that a warp ranks

/// Everything that a canonical distance hangs on.
struct Ranking {
  PreparedMatrix rows, queries;
  Metric metric = Metric::euclidean;
  DistanceType type = DistanceType::f32;
  std::int64_t first_row = 0;
  Counters* counters = nullptr;
};

/// A list's words: a folded key and a row, packed for keys of 32 bits and rows that 32 bits name (wide_words).
template <class Form>
struct ListWords;
template <>
struct ListWords<Packed> {
  static constexpr bool wide = false;
  __device__ static std::uint32_t ordered(double key) {
    return ordered_float<std::uint32_t>(bits_of(static_cast<float>(key)), 0x7f800000u, false);
  }
  __device__ static std::uint32_t top(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  __device__ static double key(std::uint64_t word) {
    const auto bits = static_cast<std::uint32_t>(word >> 32);
    return static_cast<double>(__uint_as_float((bits >> 31) != 0 ? bits ^ 0x80000000u : ~bits));
  }
};
template <>
struct ListWords<Wide> {
  static constexpr bool wide = true;
  __device__ static std::uint64_t ordered(double key) {
    return ordered_float<std::uint64_t>(bits_of(key), 0x7ff0000000000000ull, false);
  }
  __device__ static double key(const WideWord& word) {
    return double_of((word.key >> 63) != 0 ? word.key ^ 1ull << 63 : ~word.key);
  }
};

/// Lanes of the sums of Rows rows and Queries queries: rows[r] and queries[q] are where they begin.
template <Sum sum, int Rows, int Queries>
__device__ __forceinline__ void sum_lanes(const Ranking& args, const std::int64_t (&rows)[Rows],
                                          const double (&shifts)[Rows], const std::int64_t (&queries)[Queries],
                                          double (&lists)[Rows * Queries]) {
#pragma unroll
  for (int i = 0; i < Rows * Queries; ++i) lists[i] = 0;
  const auto run = [&](auto load) {
    for (std::int64_t i = lane_index(); i < args.rows.dims; i += 32) {
      double r[Rows];
#pragma unroll
      for (int j = 0; j < Rows; ++j) r[j] = load(rows[j] + i);
#pragma unroll
      for (int q = 0; q < Queries; ++q) {
        const double x = args.queries.values[queries[q] + i];
#pragma unroll
        for (int j = 0; j < Rows; ++j) lists[q * Rows + j] = with<sum>(lists[q * Rows + j], x, r[j], shifts[j]);
      }
    }
  };
  if (args.rows.dtype == DType::f32)
    run([&](std::int64_t at) { return static_cast<double>(static_cast<const float*>(args.rows.rows)[at]); });
  else run([&](std::int64_t at) { return element(args.rows.rows, args.rows.dtype, at); });
}

/// The sums of Rows x Queries pairs: lane i gets that of pair i / (32 / (Rows * Queries)), queries first.
template <int Rows, int Queries>
__device__ __forceinline__ double pair_sums(const Ranking& args, Sum sum, const std::int64_t (&rows)[Rows],
                                            const double (&shifts)[Rows], const std::int64_t (&queries)[Queries]) {
  double lists[Rows * Queries];
  switch (sum) {
    case Sum::squares: sum_lanes<Sum::squares, Rows, Queries>(args, rows, shifts, queries, lists); break;
    case Sum::products: sum_lanes<Sum::products, Rows, Queries>(args, rows, shifts, queries, lists); break;
    case Sum::magnitudes: sum_lanes<Sum::magnitudes, Rows, Queries>(args, rows, shifts, queries, lists); break;
    case Sum::bits: sum_lanes<Sum::bits, Rows, Queries>(args, rows, shifts, queries, lists); break;
    case Sum::largest:
      sum_lanes<Sum::largest, Rows, Queries>(args, rows, shifts, queries, lists);
      return lists_joined(lists, Larger{});
    case Sum::none: break;  // refused when the search was opened
  }
  return lists_joined(lists, Plus{});
}

/// The canonical value of a sum, before it is rounded to a key and folded.
__device__ __forceinline__ double value_of_sum(const Ranking& args, double sum, std::int64_t query, std::int64_t row) {
  double value;
  if (needs_norms(args.metric)) {
    const double self = args.rows.self[row], other = args.queries.self[query];
    value = self < 0 || other < 0 ? 1.0 : canonical_value(args.metric, sum, other, self);
  } else {
    value = canonical_value(args.metric, sum, 0, 0);
  }
  if (value != value) {
    if (atomicAdd(&args.counters->undefined_keys, 1u) == 0)
      args.counters->first_undefined = static_cast<unsigned long long>(args.first_row + row);
  }
  return value;
}

/// Rounded to its type, and folded: smaller is nearer.
__device__ __forceinline__ double folded_key(const Ranking& args, double value) {
  const double key = args.type == DistanceType::f32 ? static_cast<double>(static_cast<float>(value)) : value;
  return descending(args.metric) ? -key : key;
}

/// Sorts a power of two of words in shared memory, 64 at least. Steps of up to 32 stay within the 64 words of a warp.
template <class Word>
__device__ __forceinline__ void sort_words(Word* words, int count) {
  for (int size = 2; size <= count; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      if (step >= 32) __syncthreads();
      else __syncwarp();
      for (int i = thread_index(); i < count / 2; i += thread_count()) {
        const int low = 2 * i - (i & (step - 1)), high = low + step;
        const Word a = words[low], b = words[high];
        if ((b < a) == ((low & size) == 0)) {
          words[low] = b;
          words[high] = a;
        }
      }
    }
  }
  __syncthreads();
}
/// The same for any number, with `last` behind them.
template <class Form>
__device__ __forceinline__ void sort_list(typename Form::Word* words, int count) {
  int sorted = 64;
  while (sorted < count) sorted *= 2;
  for (int i = count + thread_index(); i < sorted; i += thread_count()) words[i] = Form::last();
  __syncthreads();
  sort_words(words, sorted);
}

}  // namespace vicinal::cuda
