// RERANK, its inner loop: the canonical sums of eight rows with one query, by a warp.
// Eight lanes share two rows: four elements that are side by side are read at once, and
// lane l of the eight keeps the sums of canonical lanes 4 l to 4 l + 3 of both rows.
#pragma once
#include <type_traits>

#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/differences.cuh"
#include "cuda/search/rerank/rank.cuh"

namespace vicinal::cuda {

inline constexpr std::uint32_t rows_a_warp = 8;

/// The canonical sums of the lists of a warp: list 4 i + c of a lane is of its row i and of canonical lane 4 l + c.
/// Lane j gets that of the warp's row j / 4.
template <class Join>
__device__ __forceinline__ double row_lists_joined(double (&lists)[8], Join join) {
  int left = 8;
#pragma unroll
  for (int h = 4; h > 0; h /= 2) {  // canonical lanes 4 h apart; a lane keeps half of what it has
    left /= 2;
    const bool upper = (lane_index() & h) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i >= left) continue;
      const double mine = upper ? lists[i + left] : lists[i], other = upper ? lists[i] : lists[i + left];
      lists[i] = join(mine, __shfl_xor_sync(all_lanes, other, h));
    }
  }
#pragma unroll
  for (int h = 2; h > 0; h /= 2) lists[0] = join(lists[0], __shfl_xor_sync(all_lanes, lists[0], h));
  return lists[0];
}

struct alignas(16) DoublePair {
  double first, second;
};
__device__ __forceinline__ bool is_aligned(const void* at, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

/// Elements at, at + 1, ... of a matrix's rows, of which `left` are there.
template <bool floats>
__device__ __forceinline__ void load_four(const PreparedMatrix& matrix, std::int64_t at, int left, double (&four)[4]) {
  const auto each = [&](auto load) {
#pragma unroll
    for (int c = 0; c < 4; ++c) four[c] = c < left ? load(at + c) : 0.0;
  };
  if (floats || matrix.dtype == DType::f32)
    each([&](std::int64_t i) { return static_cast<double>(static_cast<const float*>(matrix.rows)[i]); });
  else if (matrix.dtype == DType::f64) each([&](std::int64_t i) { return static_cast<const double*>(matrix.rows)[i]; });
  else each([&](std::int64_t i) { return element(matrix.rows, matrix.dtype, i); });
}

/// The sums of rows of floats, or of any type; rows: the two of these eight lanes. Queries without values
/// (keeps_values) are floats as well.
template <Sum sum, bool floats>
__device__ __forceinline__ double element_sums(const Ranking& args, const std::int64_t (&rows)[2], std::int64_t query) {
  const int dims = static_cast<int>(args.rows.dims), first = lane_index() % 8 * 4;
  const bool shifted = sum == Sum::products && args.metric == Metric::correlation;
  const double shifts[2] = {shifted ? args.rows.mean[rows[0]] : 0.0, shifted ? args.rows.mean[rows[1]] : 0.0};
  const double* const values = args.queries.values;
  double lists[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  const auto add = [&](int row, int c, double x, double r) {
    lists[4 * row + c] = with<sum>(lists[4 * row + c], x, r, shifts[row]);
  };
  // Four floats at once, or any elements of any address.
  if (floats && dims % 4 == 0 && is_aligned(args.rows.rows, 16) &&
      (values != nullptr || is_aligned(args.queries.rows, 16))) {
    const auto* const all = static_cast<const float*>(args.rows.rows);
    const float *const a = all + rows[0] * dims, *const b = all + rows[1] * dims;
    // A row's next lines are asked for four ahead, as its first four were
    // (prefetch_rows): eight lanes share two rows, and each half asks for one.
    constexpr int ahead = 4 * 32;
    const float* const next = ((lane_index() & 4) != 0 ? b : a) + ahead;
    // Rows, against the query as it is kept.
    const auto run = [&](const auto& query_four) {
#pragma unroll 1
      for (int col = first; col < dims; col += 32) {
        if (col + ahead < dims) prefetch_line(next + col);
        const float4 one = *reinterpret_cast<const float4*>(a + col), two = *reinterpret_cast<const float4*>(b + col);
        double x[4];
        query_four(col, x);
        const float of_one[4] = {one.x, one.y, one.z, one.w}, of_two[4] = {two.x, two.y, two.z, two.w};
#pragma unroll
        for (int c = 0; c < 4; ++c) add(0, c, x[c], static_cast<double>(of_one[c]));
#pragma unroll
        for (int c = 0; c < 4; ++c) add(1, c, x[c], static_cast<double>(of_two[c]));
      }
    };
    if (values != nullptr)
      run([q = values + query * dims](int col, double(&x)[4]) {
        const DoublePair low = *reinterpret_cast<const DoublePair*>(q + col),
                         high = *reinterpret_cast<const DoublePair*>(q + col + 2);
        x[0] = low.first, x[1] = low.second, x[2] = high.first, x[3] = high.second;
      });
    else
      run([q = static_cast<const float*>(args.queries.rows) + query * dims](int col, double(&x)[4]) {
        const float4 four = *reinterpret_cast<const float4*>(q + col);
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
      });
  } else {
    // The same of elements one by one.
#pragma unroll 1
    for (int col = first; col < dims; col += 32) {
      double x[4], one[4], two[4];
      if (values != nullptr) {
#pragma unroll
        for (int c = 0; c < 4; ++c) x[c] = col + c < dims ? values[query * dims + col + c] : 0.0;
      } else {
        load_four<floats>(args.queries, query * dims + col, dims - col, x);
      }
      load_four<floats>(args.rows, rows[0] * dims + col, dims - col, one);
      load_four<floats>(args.rows, rows[1] * dims + col, dims - col, two);
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (col + c < dims) {
          add(0, c, x[c], one[c]);
          add(1, c, x[c], two[c]);
        }
    }
  }
  // The canonical order of lanes.
  if constexpr (join_of(sum) == Join::max) return row_lists_joined(lists, Larger{});
  else return row_lists_joined(lists, Plus{});
}

/// The sum `s` with the terms of the four columns of two words of bytes.
template <Sum sum, bool is_signed>
__device__ __forceinline__ unsigned with_word(unsigned s, unsigned q, unsigned r) {
  if constexpr (sum == Sum::products) {
    return add_byte_products<is_signed>(q, r, s);
  } else {
    constexpr unsigned flip = is_signed ? 0x80808080u : 0;  // to unsigned bytes with the same differences
    const unsigned differences = differences_of(q ^ flip, r ^ flip);
    if constexpr (sum == Sum::magnitudes) {
      s = add_differences(q ^ flip, r ^ flip, s);
    } else if constexpr (sum == Sum::squares) {
      s = add_byte_products<false>(differences, differences, s);
    } else {
      static_assert(sum == Sum::largest, "a sum of bytes in whole numbers is listed in sums_whole()");
#pragma unroll
      for (int byte = 0; byte < 32; byte += 8) {
        const unsigned difference = differences >> byte & 255u;
        s = s < difference ? difference : s;
      }
    }
    return s;
  }
}

/// Words: as many as a lane reads at once. What is left of a row
/// that is no multiple of four columns is read as zeros of both.
template <Sum sum, bool is_signed, int words>
__device__ __forceinline__ void add_row_words(const unsigned char* const (&rows)[2], const unsigned char* query,
                                              int dims, unsigned (&sums)[2]) {
  struct alignas(4 * words) Words {
    unsigned of[words];
  };
#pragma unroll 1
  for (int col = lane_index() % 8 * 4 * words; col < dims; col += 32 * words) {
    const Words q = *reinterpret_cast<const Words*>(query + col), a = *reinterpret_cast<const Words*>(rows[0] + col),
                b = *reinterpret_cast<const Words*>(rows[1] + col);
#pragma unroll
    for (int i = 0; i < words; ++i) {
      sums[0] = with_word<sum, is_signed>(sums[0], q.of[i], a.of[i]);
      sums[1] = with_word<sum, is_signed>(sums[1], q.of[i], b.of[i]);
    }
  }
}

/// The sums of rows of bytes, in whole numbers: no partial sum of
/// the canonical order is rounded either, so any order has its bits.
template <Sum sum, bool is_signed>
__device__ __forceinline__ double byte_sums(const Ranking& args, const std::int64_t (&rows)[2], std::int64_t query) {
  const int dims = static_cast<int>(args.rows.dims);
  const auto* all = static_cast<const unsigned char*>(args.rows.rows);
  const auto* q = static_cast<const unsigned char*>(args.queries.rows) + query * dims;
  const unsigned char* const lines[2] = {all + rows[0] * dims, all + rows[1] * dims};
  unsigned sums[2] = {0, 0};
  const auto aligned = [&](int bytes) {
    return dims % bytes == 0 && is_aligned(all, static_cast<std::uintptr_t>(bytes)) &&
           is_aligned(args.queries.rows, static_cast<std::uintptr_t>(bytes));
  };
  if (aligned(16)) {
    add_row_words<sum, is_signed, 4>(lines, q, dims, sums);
  } else if (aligned(4)) {
    add_row_words<sum, is_signed, 1>(lines, q, dims, sums);
  } else {
    for (int col = lane_index() % 8; col < dims; col += 8)
#pragma unroll
      for (int i = 0; i < 2; ++i) sums[i] = with_word<sum, is_signed>(sums[i], q[col], lines[i][col]);
  }
  // Lane j of the eight keeps row j / 4.
  const auto join = [](unsigned a, unsigned b) { return join_of(sum) == Join::max ? (a < b ? b : a) : a + b; };
  const bool upper = (lane_index() & 4) != 0;
  unsigned total = join(upper ? sums[1] : sums[0], __shfl_xor_sync(all_lanes, upper ? sums[0] : sums[1], 4));
#pragma unroll
  for (int h = 2; h > 0; h /= 2) total = join(total, __shfl_xor_sync(all_lanes, total, h));
  return is_signed && sum == Sum::products ? static_cast<double>(static_cast<int>(total)) : static_cast<double>(total);
}

/// Whether the canonical sums of these rows are whole numbers of 32 bits.
__device__ __forceinline__ bool sums_bytes(const Ranking& args) {
  return ranks_bytes(args.metric, args.rows.dtype, args.queries.dtype, args.rows.dims);
}

/// The canonical sums of eight rows of a warp, of which these eight lanes
/// have two: lane j gets that of the warp's row j / 4. floats: rows are f32.
template <Sum sum, bool floats>
__device__ __forceinline__ double row_sums(const Ranking& args, const std::int64_t (&rows)[2], std::int64_t query) {
  if constexpr (!floats && sums_whole(sum)) {
    if (sums_bytes(args))
      return args.rows.dtype == DType::u8 ? byte_sums<sum, false>(args, rows, query)
                                          : byte_sums<sum, true>(args, rows, query);
  }
  return element_sums<sum, floats>(args, rows, query);
}

/// Rows that a warp ranks come from all over memory: those of eight from `from` on are asked for ahead, the first four
/// lines of 128 bytes of each row. Of many rows of four lines and more memory has enough to do.
template <bool floats>
__device__ __forceinline__ void prefetch_rows(const Ranking& args, const std::uint32_t* chosen, std::uint32_t count,
                                              std::uint32_t from) {
  const bool bytes = args.rows.dtype == DType::u8 || args.rows.dtype == DType::i8;
  const std::int64_t row = args.rows.dims * (floats ? 4 : bytes ? 1 : 0), at = lane_index() % 4 * 128;
  if (count > 512 && row > 256) return;
  const std::uint32_t which = from + static_cast<std::uint32_t>(lane_index() / 4);
  if (which < count && at < row)
    prefetch_line(static_cast<const unsigned char*>(args.rows.rows) + chosen[which] * row + at);
}

/// Words of some rows for a query, by `warps` warps of which this is one.
template <class Form, Sum sum, bool floats>
__device__ __forceinline__ void rank_rows(const SearchArgs& args, const Ranking& ranking, std::int64_t query_row,
                                          const std::uint32_t* chosen, std::uint32_t count, std::uint32_t warp,
                                          std::uint32_t warps, typename Form::Word* words) {
  for (std::uint32_t from = warp * rows_a_warp; from < count; from += warps * rows_a_warp) {
    prefetch_rows<floats>(ranking, chosen, count, from);
    prefetch_rows<floats>(ranking, chosen, count, from + warps * rows_a_warp);
    const std::uint32_t two = from + static_cast<std::uint32_t>(lane_index() / 8 * 2),
                        which = from + static_cast<std::uint32_t>(lane_index() / 4);
    const std::int64_t rows[2] = {chosen[two < count ? two : from], chosen[two + 1 < count ? two + 1 : from]};
    const double total = row_sums<sum, floats>(ranking, rows, query_row);
    if (lane_index() % 4 != 0 || which >= count) continue;
    const std::int64_t row = (lane_index() & 4) != 0 ? rows[1] : rows[0];
    words[which] =
        Form::make(ListWords<Form>::ordered(folded_key(ranking, value_of_sum(ranking, total, query_row, row))),
                   args.first_row + row);
  }
}

/// It returns what f<sum, floats>() returns for a search's sum and type of rows: kernels are compiled for each of them,
/// since one that held all would be larger than the instructions' cache.
template <class F>
auto with_ranked(const Ranking& ranking, const F& f) {
  const auto of_sum = [&]<Sum sum>(std::integral_constant<Sum, sum> /*known*/) {
    return ranking.rows.dtype == DType::f32 ? f.template operator()<sum, true>() : f.template operator()<sum, false>();
  };
  decltype(of_sum(std::integral_constant<Sum, Sum::squares>{})) found{};
  switch (bounded(sum_of(ranking.metric))) {
#define BOUNDED_SUM(name, join)                               \
  case BoundedSum::name:                                      \
    found = of_sum(std::integral_constant<Sum, Sum::name>{}); \
    break;
#include "core/sums.def"
    case BoundedSum::none: break;  // no filter finds their pairs
  }
  return found;
}

}  // namespace vicinal::cuda
