// sieve_rows is sieve for rows that registers hold, of up to 1,024 values by a warp and of up to 8,192 by
// a block. Each lane keeps its keys; a threshold is tried by counting, first the one that would have
// served the row before, then by what the counts say, then by bisection: it is right when from k to
// `sorted` keys are not beyond it. Those are sorted by as many high bits of the key as leave room for the
// word's position in 32 bits; where that left neighbours in the wrong order, by whole words.
#pragma once
#include "cuda/select/dense.cuh"
#include "cuda/select/emit.cuh"
#include "cuda/select/sort_few.cuh"

namespace vicinal::cuda {

struct SieveRows {
  Rows rows;
  int k = 0;
  int sorted = 0;  // a power of two, sieve_rows_sorted(k)
  Emission out;
};

/// The float of a key of no float's opposite.
__device__ __forceinline__ float float_of_key(std::uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key);
}
/// A key so far from another, of those that floats of 32 bits can count.
__device__ __forceinline__ std::uint32_t key_near(std::uint32_t key, float distance) {
  const float to = static_cast<float>(key) + distance;
  return to <= 0.0f ? 0u : to >= 4294967040.0f ? 4294967040u : static_cast<std::uint32_t>(to);
}

/// Blocks of a multiprocessor: two sets of 32 registers a lane, one
/// for a row and one for the next, are worth more than more warps.
template <int warps>
inline constexpr int sieve_rows_blocks = warps == 1 ? 4 : 2;

/// `vectors` a lane hold a row; `warps` a row.
template <class Reader, int vectors, int warps>
__global__ void __launch_bounds__(32 * (warps == 1 ? sieve_rows_warps : warps), sieve_rows_blocks<warps>)
    sieve_rows(SieveRows p) {
  // Sizes and shared memory: a buffer of packed keys a row, and sums of the warps in two phases.
  constexpr int values = vectors * Reader::count, threads = 32 * warps, groups = warps == 1 ? sieve_rows_warps : 1;
  constexpr std::uint32_t beyond = 0xffffffffu;
  constexpr bool four = Reader::size == 4;  // bytes a value: these may be floats, to compare as they are
  constexpr int most_words = sieve_rows_words<warps>;
  VICINAL_SHARED(std::uint64_t, buffers, groups * most_words);
  VICINAL_SHARED(int, sums, 2 * warps + 1);
  std::uint64_t* buffer = warps == 1 ? buffers + warp_index() * most_words : buffers;
  int& gathered = sums[2 * warps];
  const int t = warps == 1 ? lane_index() : thread_index(), cols = static_cast<int>(p.rows.cols), k = p.k;

  // Sums and ends over the threads of a row.
  int phase = 0;
  const auto total = [&](int mine) {
    const int of_warp = __reduce_add_sync(all_lanes, mine);
    if constexpr (warps == 1) {
      return of_warp;
    } else {
      if (lane_index() == 0) sums[phase * warps + warp_index()] = of_warp;
      __syncthreads();
      int sum = 0;
      for (int i = 0; i < warps; ++i) sum += sums[phase * warps + i];
      phase ^= 1;
      return sum;
    }
  };
  // The least or the largest of a value over the threads of a row.
  const auto end = [&]<bool least>(std::uint32_t value) {
    value = least ? __reduce_min_sync(all_lanes, value) : __reduce_max_sync(all_lanes, value);
    if constexpr (warps == 1) {
      return value;
    } else {
      if (lane_index() == 0) sums[phase * warps + warp_index()] = static_cast<int>(value);
      __syncthreads();
      for (int i = 0; i < warps; ++i) {
        const auto other = static_cast<std::uint32_t>(sums[phase * warps + i]);
        value = least == (other < value) ? other : value;
      }
      phase ^= 1;
      return value;
    }
  };
  const auto sum_before = [&](int value, int& all) {
    int of_warp;
    const int sum = warp_sum_before(value, of_warp);
    if constexpr (warps == 1) {
      all = of_warp;
      return sum;
    } else {
      const int others = warps_before(of_warp, all, sums + phase * warps);
      phase ^= 1;
      return sum + others;
    }
  };

  // Loads of a row, by vectors; the next row's come while this one is searched.
  const auto column_of = [&](int i) { return (i / Reader::count * threads + t) * Reader::count + i % Reader::count; };
  const int held = cols / Reader::count;
  using Vector = typename Reader::Vector;
  Vector next[vectors];
  const auto load = [&](std::int64_t row) {
    if (row >= p.rows.rows) return;
#pragma unroll
    for (int v = 0; v < vectors; ++v)
      if (v * threads + t < held) next[v] = Reader::at(p.rows, row, v * threads + t);
  };
  const std::uint32_t flip = p.rows.largest ? 0x80000000u : 0;
  const bool floats = four && p.rows.is_float;
  // From bits of four bytes to what is compared: floats or their opposites, or keys of integers.
  const std::uint32_t change = floats ? flip : (p.rows.is_signed ? 0x80000000u : 0u) ^ (p.rows.largest ? ~0u : 0u);
  if constexpr (four) {
#pragma unroll
    for (int v = 0; v < vectors; ++v)
      next[v] = {{~change, ~change, ~change, ~change}};  // what is no value stays `beyond`, a NaN too
  }

  // What served the row before: a key, and how much of a key one word more or less is.
  std::uint32_t aim = 0x80000000u;
  float slope = 1 << 18;
  int patience = 2;
  if (warps > 1 && t == 0) gathered = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * groups,
                     begin = std::int64_t{blockIdx.x} * groups + (warps == 1 ? warp_index() : 0);
  load(begin);
  for (std::int64_t row = begin; row < p.rows.rows; row += step) {
    // Floats of 32 bits are compared as such, where the largest are wanted their
    // opposites; only what is kept gets its key. A row that is not done after some tries
    // is done by keys, NaNs and equal values too. Places without a value are `beyond`.
    std::uint32_t bits[values];
    bool by_key = !floats;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
#pragma unroll
      for (int i = 0; i < Reader::count; ++i) {
        std::uint32_t& one = bits[v * Reader::count + i];
        if constexpr (four) one = next[v].word[i] ^ change;
        else one = v * threads + t < held ? static_cast<std::uint32_t>(Reader::key(p.rows, next[v], i)) : beyond;
      }
    }
    int mine = 0;
    const auto within = [&](std::uint32_t most) {
      int part[4] = {0, 0, 0, 0};  // so that no sum waits for the one before
      if (by_key) {
#pragma unroll
        for (int i = 0; i < values; ++i) part[i % 4] += bits[i] <= most;
      } else {
        const float threshold = float_of_key(most);
#pragma unroll
        for (int i = 0; i < values; ++i) part[i % 4] += __uint_as_float(bits[i]) <= threshold;
      }
      mine = part[0] + part[1] + part[2] + part[3];
      return total(mine);
    };

    // The threshold, by trials.
    const int middle = (k + p.sorted) / 2;
    constexpr std::uint32_t infinity_key = 0xff800000u, minus_infinity_key = 0x007fffffu;
    constexpr std::uint32_t before_zero = 0x7fffffffu;  // would be -0, which is no key
    std::uint32_t low = floats ? minus_infinity_key : 0, high = floats ? infinity_key : beyond;
    std::uint32_t pivot = aim < low ? low : aim > high ? high : aim, pivot_before = 0;
    int count = 0, last_column = cols - 1, before = 0;
    bool found = false, enough = false;  // whether k keys are known not to be beyond `high`
    for (int tries = 0;; ++tries) {
      if (floats && pivot == before_zero) --pivot;
      const int now = within(pivot);
      if (tries > 0 && now != before) {
        const float rise =
            (static_cast<float>(pivot) - static_cast<float>(pivot_before)) / static_cast<float>(now - before);
        if (rise > 0) slope = rise;
      }
      before = now;
      pivot_before = pivot;
      // A threshold that serves ends the search.
      if (now >= k && now <= p.sorted && pivot != beyond) {
        found = true;
        high = pivot;
        count = now;
        break;
      }
      enough = enough || now >= k;
      if (now < k) low = pivot + (pivot != beyond);
      else high = pivot;
      // A search that takes long goes on between the least and the largest key that are left: they may be few, or one.
      if (tries >= patience) {
        if constexpr (four) {
          if (!by_key) {
            by_key = true;
            if (!enough) high = beyond;
#pragma unroll
            for (int i = 0; i < values; ++i) bits[i] = ordered_float<std::uint32_t>(bits[i], 0x7f800000u, false);
          }
          if (tries == 1 && patience == 0 && enough && low >= high) break;  // the greatest key it was, again
        }
        std::uint32_t least = beyond, most = 0;
#pragma unroll
        for (int i = 0; i < values; ++i) {
          if (bits[i] >= low && bits[i] < least) least = bits[i];
          if (bits[i] <= high && bits[i] > most) most = bits[i];
        }
        least = end.template operator()<true>(least);
        most = end.template operator()<false>(most);
        low = least > low ? least : low;
        high = most < high ? most : high;
        if (low >= high) break;
        if (tries == 0 && patience == 0) {  // the row before ended in equal keys: the greatest may be those
          pivot = high - 1;
          continue;
        }
      }
      const auto estimate = key_near(pivot, slope * static_cast<float>(middle - now));
      pivot = tries < 6 && estimate >= low && estimate < high ? estimate : low + (high - low) / 2;
    }

    // What the next row begins with; where equal keys left no threshold, the last column that belongs.
    patience = found ? 2 : 0;
    if (found) {
      aim = key_near(high, 0.25f * slope * static_cast<float>(middle - count));
    } else {  // more equal keys than there is room: the lowest positions of them
      int below = 0;
#pragma unroll
      for (int i = 0; i < values; ++i) below += bits[i] < high;
      int need = k - total(below);
      bool finished = false;
#pragma unroll
      for (int v = 0; v < vectors; ++v) {  // vectors of all lanes lie side by side
        if (finished) continue;            // and not out of the loop, which must unroll: registers have no index
        int same = 0, all;
#pragma unroll
        for (int n = 0; n < Reader::count; ++n) {
          const int i = v * Reader::count + n;
          same += bits[i] == high && column_of(i) < cols;
        }
        int seen = sum_before(same, all);
        if (need <= all) {
          int column = 0;
#pragma unroll
          for (int n = 0; n < Reader::count; ++n) {
            const int i = v * Reader::count + n;
            seen += bits[i] == high && column_of(i) < cols;
            if (seen == need && bits[i] == high && column_of(i) < cols) column = column_of(i);
          }
          last_column = total(column);
          finished = true;
        }
        need -= all;
      }
      mine = 0;
#pragma unroll
      for (int i = 0; i < values; ++i) mine += bits[i] < high || (bits[i] == high && column_of(i) <= last_column);
      count = k;
      aim = high;
    }

    // Output of the packed keys within the threshold, in any order; the next row is on its way meanwhile.
    int of_warp;
    int place = warp_sum_before(mine, of_warp);
    if constexpr (warps > 1) {
      int first = 0;
      if (lane_index() == 0) first = atomicAdd(&gathered, of_warp);
      place += from_lane(first, 0);
    }
    const auto keep = [&](int i) { buffer[place++] = Packed::make(bits[i], column_of(i)); };
    if (by_key) {
#pragma unroll
      for (int i = 0; i < values; ++i)
        if (bits[i] < high || (bits[i] == high && column_of(i) <= last_column)) keep(i);
    } else {
      const float threshold = float_of_key(high);
#pragma unroll
      for (int i = 0; i < values; ++i)
        if (__uint_as_float(bits[i]) <= threshold) keep(i);
    }
    load(row + step);

    // Sort and emit.
    std::uint32_t least = beyond, most = 0;
    const auto to_keys = [&](int thread, int of) {  // of words made of bits, or of the keys of opposites
      for (int i = thread; i < count; i += of) {
        std::uint32_t key = Packed::key(buffer[i]);
        if (floats) {
          if (!by_key) key = ordered_float<std::uint32_t>(key ^ flip, 0x7f800000u, p.rows.largest);
          else if (p.rows.largest && key == before_zero + 1) key = before_zero;
          buffer[i] = Packed::make(key, Packed::position(buffer[i]));
        }
        least = key < least ? key : least;
        most = key > most ? key : most;
      }
    };
    const auto emit = [&](int thread, int of) {
      for (int i = thread; i < k; i += of) emit_word<Packed, Reader::size>(p.rows, p.out, row, row * k + i, buffer[i]);
    };
    // Few words are sorted by one warp, in its registers; others by all threads of the row.
    if constexpr (warps == 1) __syncwarp();
    else __syncthreads();
    if (warps == 1 || p.sorted <= 256) {
      if (warps == 1 || warp_index() == 0) {
        to_keys(lane_index(), 32);
        least = __reduce_min_sync(all_lanes, least);
        most = __reduce_max_sync(all_lanes, most);
        __syncwarp();
        bool done;
        if (p.sorted == 32) done = sort_by_high_bits<1>(buffer, count, least, most);
        else if (p.sorted == 64) done = sort_by_high_bits<2>(buffer, count, least, most);
        else if (p.sorted == 128) done = sort_by_high_bits<4>(buffer, count, least, most);
        else done = sort_by_high_bits<8>(buffer, count, least, most);
        if (!done) {
          for (int i = count + lane_index(); i < p.sorted; i += 32) buffer[i] = Packed::last();
          __syncwarp();
          sort_buffer(buffer, p.sorted, lane_index(), 32, [] { __syncwarp(); });
        }
        emit(lane_index(), 32);
        if (warps > 1 && t == 0) gathered = 0;
        __syncwarp();
      }  // the others wait where the next row's keys are counted
    } else if constexpr (warps > 1) {
      to_keys(t, threads);
      for (int i = count + t; i < p.sorted; i += threads) buffer[i] = Packed::last();
      __syncthreads();
      sort_buffer(buffer, p.sorted, t, threads, [] { __syncthreads(); });
      emit(t, threads);
      if (t == 0) gathered = 0;
      __syncthreads();
    }
  }
}

template <int warps, class Launch>
void launch_sieve_rows(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  const SieveRows p = {batch.rows, static_cast<int>(batch.k), static_cast<int>(sieve_rows_sorted(batch.k)), emission};
  constexpr int groups = warps == 1 ? sieve_rows_warps : 1;
  // Blocks stay, so that what served a row serves the next.
  const std::int64_t blocks = std::min<std::int64_t>(divide_up(batch.rows.rows, groups),
                                                     std::int64_t{batch.multiprocessors} * sieve_rows_blocks<warps>);
  const bool whole = batch.rows.col_stride == batch.rows.size && batch.rows.cols * batch.rows.size % 16 == 0 &&
                     batch.rows.row_stride % 16 == 0 && reinterpret_cast<std::uintptr_t>(batch.rows.data) % 16 == 0;
  const auto go = [&]<class Reader>() {
    launch(blocks, 32 * groups * warps, 0, sieve_rows<Reader, 32 / Reader::count, warps>, p);
  };
  // Values of four bytes, and one text for all others.
  if (whole && batch.rows.size == 4) go.template operator()<DenseReader<std::uint32_t, 4>>();
  else go.template operator()<StridedReader<std::uint32_t>>();
}

template <class Launch>
void run_sieve_rows(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  if (batch.rows.cols <= 1024) launch_sieve_rows<1>(launch, batch, emission);
  else launch_sieve_rows<8>(launch, batch, emission);
}

inline const char* sieve_rows_refusal(const SelectArgs& task, FormName /*form*/) {
  const std::int64_t cols = task.values.cols;
  if (value_size(task.values.type) == 8) return "it is for values of 1, 2 and 4 bytes";
  if (cols > sieve_rows_cols) return "its rows have at most 8,192 columns";
  if (task.k <= sieve_rows_most_k(cols)) return nullptr;
  return cols <= 1024 ? "its k is at most 228 for rows of up to 1,024 columns" : "its k is at most 1,821";
}

template <class Launch>
const SelectKernel<Launch>& sieve_rows_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "sieve_rows", .refusal = sieve_rows_refusal, .select_and_emit = run_sieve_rows<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(sieve_rows);

}  // namespace vicinal::cuda
