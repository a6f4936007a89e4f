// FILTER in int8 for metrics that have no product (l1, linf): sums of absolute differences, or the largest, of four
// columns an instruction. Rows and queries are whole multiples of one step, so a difference of theirs is the step times
// that of their bytes, and sums are exact. The skeleton is that of float_mma.cuh; a warp's sums stay whole numbers
// until one of a query is within its limit.
#pragma once
#include "cuda/ptx/differences.cuh"
#include "cuda/search/filter/float_mma.cuh"

namespace vicinal::cuda {

/// The arithmetic of the skeleton in bytes: rows and queries are unsigned ones, 128 more than their numbers.
template <Sum sum>
struct ByteDifferences {
  static_assert(has_byte_differences(sum), "bytes are subtracted for these sums alone");
  using Value = unsigned;
  static constexpr bool whole_sums = true;

  struct alignas(16) Words {
    unsigned of[4];
  };
  /// `total` with the differences of four columns. The largest: of each
  /// half of a word the high byte counts, what is below it decides nothing.
  __device__ __forceinline__ static unsigned with_four(unsigned total, unsigned query, unsigned row) {
    if constexpr (sum == Sum::magnitudes) {
      return add_differences(query, row, total);
    } else {
      const unsigned differences = differences_of(query, row);
      return largest_halves(total, differences, differences << 8);
    }
  }
  /// The sum that a total stands for, in steps.
  __device__ __forceinline__ static int steps(unsigned total) {
    if constexpr (sum == Sum::magnitudes) {
      return static_cast<int>(total);
    } else {
      const unsigned high = total >> 24, low = total >> 8 & 255u;
      return static_cast<int>(high < low ? low : high);
    }
  }
  __device__ __forceinline__ static float factor(const SearchArgs& args) { return args.rows.tile_metadata->step; }
  __device__ __forceinline__ static int code(unsigned total, float step, float term) {
    return encode_descending(fmaf(step, static_cast<float>(steps(total)), term));
  }

  __device__ __forceinline__ static void multiply(unsigned (&sums)[2][8][4], unsigned char* queries,
                                                  unsigned char* rows) {
    add_words<4, Words>(sums, queries, rows, [](unsigned& total, const Words& q, const Words& r, int part) {
      total = with_four(total, q.of[part], r.of[part]);
    });
  }

  /// At least every sum in steps whose code passes the threshold, where the row's term is zero.
  __device__ __forceinline__ static int limit(int threshold, float inverse) {
    if (threshold == 0x7fffffff) return -1;  // of a position without a query
    const bool endless = threshold <= encode_descending(static_cast<float>(infinite)) + 1;
    return difference_limit(endless ? static_cast<float>(infinite) : decode_descending(threshold), inverse);
  }
  /// Whether a sum of the lane's rows with its query h of 16 is within the limit, or none may be judged by it.
  __device__ __forceinline__ static bool any_within(const unsigned (&sums)[8][4], int h, int threshold,
                                                    const TileBounds& bounds, const WarpTile& at, int m) {
    int least = 0x7fffffff;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int one = steps(sums[n][2 * h + c]);
        least = one < least ? one : least;
      }
    const bool always = (bounds.always[at.warp_rows / 32] | bounds.always[at.warp_rows / 32 + 1]) != 0;
    return least <= bounds.limits[at.warp_queries + m * 16 + h * 8 + at.group] || (always && threshold != 0x7fffffff);
  }
};

/// The row of this kernel in table.hpp.
struct Int8Differences : OnEveryDevice {
  static constexpr FilterKernel facts{
      .name = "int8_differences",
      .accepts = [](Precision precision, Sum sum) { return precision == Precision::int8 && has_byte_differences(sum); },
      .threads = filter_threads,
      .writing_warps = filter_warps,
      .shared_bytes = [](Precision /*precision*/, std::int64_t /*dims*/) { return float_memory().all; }};

  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.args.rows.dims),
                    f.args.model.sum == Sum::largest ? filter_lines<ByteDifferences<Sum::largest>>
                                                     : filter_lines<ByteDifferences<Sum::magnitudes>>,
                    f);
  }
};

}  // namespace vicinal::cuda
