// sieve_warp: sieve with a warp a row, for rows that fit into its registers. The limit is found among the row's own keys, so it is
// never wrong; between k words and the power of two from there on are not beyond it, and those are sorted.
#pragma once
#include "cuda/select/dense.cuh"
#include "cuda/select/emit.cuh"

namespace vicinal::cuda {

inline constexpr int sieve_warp_rows = 4;  // warps a block

struct SieveWarp {
  Rows rows;
  int k;
  Emission out;
};

/// Exchanges the words of a bitonic network: word w of lane l is number l * words + w.
template <int words>
__device__ __forceinline__ void sort_in_warp(std::uint64_t (&word)[words]) {
#pragma unroll
  for (int size = 2; size <= 32 * words; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
      if (stride >= words) {
        const int other = stride / words;
        const bool up = ((lane_index() * words) & size) == 0, first = (lane_index() & other) == 0;
#pragma unroll
        for (int w = 0; w < words; ++w) {
          const std::uint64_t theirs = __shfl_xor_sync(all_lanes, word[w], other);
          const bool less = theirs < word[w];
          word[w] = less == (up == first) ? theirs : word[w];
        }
      } else {
#pragma unroll
        for (int w = 0; w < words; ++w) {
          if ((w & stride) != 0) continue;
          const bool up = size < words ? (w & size) == 0 : ((lane_index() * words) & size) == 0;
          const std::uint64_t a = word[w], b = word[w + stride];
          const bool swap = (b < a) == up;
          word[w] = swap ? b : a;
          word[w + stride] = swap ? a : b;
        }
      }
    }
  }
}

/// `line` holds 32 * words words; sorted in place.
template <int words>
__device__ __forceinline__ void sort_line(std::uint64_t* line) {
  std::uint64_t mine[words];
#pragma unroll
  for (int w = 0; w < words; ++w) mine[w] = line[w * 32 + lane_index()];
  sort_in_warp(mine);
  __syncwarp();
#pragma unroll
  for (int w = 0; w < words; ++w) line[lane_index() * words + w] = mine[w];
  __syncwarp();
}

/// `vectors` a lane are enough for a row.
template <class Reader, int vectors>
__global__ void __launch_bounds__(32 * sieve_warp_rows) sieve_warp(SieveWarp p) {
  constexpr int values = vectors * Reader::count;
  constexpr std::uint32_t beyond = 0xffffffffu;
  VICINAL_SHARED(std::uint64_t, lines, sieve_warp_rows * sieve_warp_words);
  std::uint64_t* line = lines + warp_index() * sieve_warp_words;
  const int lane = lane_index(), cols = static_cast<int>(p.rows.cols);
  int sorted = 32;
  while (sorted < p.k) sorted *= 2;
  const std::int64_t step = std::int64_t{gridDim.x} * sieve_warp_rows;
  for (std::int64_t row = std::int64_t{blockIdx.x} * sieve_warp_rows + warp_index(); row < p.rows.rows; row += step) {
    const Stretch s = Reader::stretch(p.rows, row, 0, cols);
    // Number i of this lane is of column column_of(i), or of none, then `cols` or more; head and tail, fewer than 32 values, are
    // one more number.
    std::uint32_t keys[values + 1];
    const auto vector_count = static_cast<int>(s.vectors), head = static_cast<int>(s.head), tail = static_cast<int>(s.tail);
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      const int at = v * 32 + lane;
      if (at < vector_count) {
        const auto vector = Reader::load(p.rows, row, s, at);
#pragma unroll
        for (int i = 0; i < Reader::count; ++i) keys[v * Reader::count + i] = Reader::key(p.rows, vector, i);
      } else {
#pragma unroll
        for (int i = 0; i < Reader::count; ++i) keys[v * Reader::count + i] = beyond;
      }
    }
    const int edge = lane < head ? lane : tail + lane - head;
    keys[values] = edge < cols && (lane < head || edge >= tail) ? key_at<std::uint32_t>(p.rows, row, edge) : beyond;
    const auto column_of = [&](int i) {
      if (i == values) return edge;
      const int at = i / Reader::count * 32 + lane;
      return at < vector_count ? head + at * Reader::count + i % Reader::count : cols;
    };
    const auto within = [&](std::uint32_t most) {
      int mine = 0;
#pragma unroll
      for (int i = 0; i <= values; ++i) mine += keys[i] <= most;
      return static_cast<int>(__reduce_add_sync(all_lanes, mine));
    };

    // A key that k to `sorted` keys are not beyond, or the least that k are not beyond. Where it lies among one key of each lane
    // is where the search begins.
    std::uint32_t low = 0, high = beyond;
    int count = 33 * 32;  // not beyond `high`
    {
      std::uint32_t sample[1] = {keys[0]};
      std::uint64_t word[1] = {sample[0]};
      sort_in_warp(word);
      int at = (p.k + sorted) / 2 * 32 / cols, reach = 1, above = 32, below = -1;
      if (at > 31) at = 31;
      for (;;) {
        const auto pivot = static_cast<std::uint32_t>(__shfl_sync(all_lanes, word[0], at));
        const int now = within(pivot);
        if (now < p.k) {
          low = pivot + (pivot != beyond);
          below = at;
          at = above == 32 ? at + reach : (at + above) / 2;
        } else {
          high = pivot;
          count = now;
          if (now <= sorted) break;
          above = at;
          at = below == -1 ? at - reach : (at + below) / 2;
        }
        reach *= 2;
        if (above == 32 && at > 31) at = 31;
        if (below == -1 && at < 0) at = 0;
        if (at == below || at == above) break;
      }
    }
    while (count > sorted && low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      const int now = within(middle);
      if (now < p.k) {
        low = middle + 1;
      } else {
        high = middle;
        count = now;
      }
    }
    // Of too many equal keys the lowest positions.
    int last = cols - 1;
    if (count > sorted || high == beyond) {
      int least = 0;
      while (least < last) {
        const int middle = (least + last) / 2;
        int mine = 0;
#pragma unroll
        for (int i = 0; i <= values; ++i) mine += keys[i] < high || (keys[i] == high && column_of(i) <= middle);
        if (static_cast<int>(__reduce_add_sync(all_lanes, mine)) < p.k) least = middle + 1;
        else last = middle;
      }
    }

    // Those words, in any order, then sorted.
    int mine = 0, total;
#pragma unroll
    for (int i = 0; i <= values; ++i) mine += keys[i] < high || (keys[i] == high && column_of(i) <= last);
    int place = warp_sum_before(mine, total);
    for (int i = total + lane; i < sorted; i += 32) line[i] = Packed::last();
#pragma unroll
    for (int i = 0; i <= values; ++i)
      if (keys[i] < high || (keys[i] == high && column_of(i) <= last)) line[place++] = Packed::make(keys[i], column_of(i));
    __syncwarp();
    if (sorted == 32) sort_line<1>(line);
    else if (sorted == 64) sort_line<2>(line);
    else if (sorted == 128) sort_line<4>(line);
    else sort_line<8>(line);
    for (int i = lane; i < p.k; i += 32) emit_word<Packed>(p.rows, p.out, row, row * p.k + i, line[i]);
    __syncwarp();
  }
}

template <class Launch>
void run_sieve_warp(Launch& launch, const Job& job, const Emission& emission) {
  const SieveWarp p = {job.rows, static_cast<int>(job.k), emission};
  const std::int64_t blocks = blocks_for(divide_up(job.rows.rows, sieve_warp_rows), job.multiprocessors);
  with_reader(FormName::packed, job.rows, [&]<class Form, class Reader>() {
    if constexpr (std::is_same_v<Form, Packed>) {
      const auto go = [&]<int vectors>() { launch(blocks, 32 * sieve_warp_rows, 0, sieve_warp<Reader, vectors>, p); };
      const std::int64_t lane = divide_up(job.rows.cols, 32 * Reader::count);
      constexpr int most = 32 / Reader::count;
      if constexpr (most >= 4) {
        if (lane <= most / 4) return go.template operator()<most / 4>();
      }
      if constexpr (most >= 2) {
        if (lane <= most / 2) return go.template operator()<most / 2>();
      }
      go.template operator()<most>();
    }
  });
}

}  // namespace vicinal::cuda
