// RegisterRow holds a row in registers and selects its k smallest for sieve_rows.cuh. Each lane keeps its keys; a threshold is tried by
// counting, first the one that would have served the row before, then by what the counts say, then by bisection: it is right when from k to
// `sorted` keys are not beyond it. Those are sorted by as many high bits of the key as leave room for the word's position in 32 bits; where
// that left neighbours in the wrong order, by whole words.
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

/// A row in the registers of its threads, `vectors` of a reader's each, by `warps` warps; and the next row, which is on its way.
template <class Reader, int vectors, int warps>
class RegisterRow {
 public:
  /// buffer: in shared memory, for the packed keys of a row; sums: of the warps in two phases, 2 * warps, and a count.
  __device__ __forceinline__ RegisterRow(const SieveRows& args, std::uint64_t* buffer, int* sums)
      : args_(args), buffer_(buffer), sums_(sums), gathered_(sums[2 * warps]),
        thread_(warps == 1 ? lane_index() : thread_index()), cols_(static_cast<int>(args.rows.cols)), k_(args.k),
        held_(cols_ / Reader::count), flip_(args.rows.largest ? 0x80000000u : 0), floats_(four && args.rows.is_float),
        change_(floats_ ? flip_ : (args.rows.is_signed ? 0x80000000u : 0u) ^ (args.rows.largest ? ~0u : 0u)) {
    if constexpr (four) {
#pragma unroll
      for (int v = 0; v < vectors; ++v)
        next_[v] = {{~change_, ~change_, ~change_, ~change_}};  // what is no value stays `beyond`, a NaN too
    }
    if (warps > 1 && thread_ == 0) gathered_ = 0;
  }

  /// Asks for a row, which take() makes the one that is searched.
  __device__ __forceinline__ void load(std::int64_t row) {
    if (row >= args_.rows.rows) return;
#pragma unroll
    for (int v = 0; v < vectors; ++v)
      if (v * threads + thread_ < held_) next_[v] = Reader::at(args_.rows, row, v * threads + thread_);
  }
  /// Floats of 32 bits are compared as such, where the largest are wanted their opposites; only what is kept gets its key. A row
  /// that is not done after some tries is done by keys, NaNs and equal values too. Places without a value are `beyond`.
  __device__ __forceinline__ void take() {
    by_key_ = !floats_;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
#pragma unroll
      for (int i = 0; i < Reader::count; ++i) {
        std::uint32_t& one = bits_[v * Reader::count + i];
        if constexpr (four) one = next_[v].word[i] ^ change_;
        else
          one =
              v * threads + thread_ < held_ ? static_cast<std::uint32_t>(Reader::key(args_.rows, next_[v], i)) : beyond;
      }
    }
    mine_ = 0;
    count_ = 0;
    last_column_ = cols_ - 1;
  }

  /// Tries thresholds by counting: from k to `sorted` keys are not beyond `high_` then. False where equal keys left none; `high_` is their key.
  __device__ __forceinline__ bool find_threshold() {
    const int middle = (k_ + args_.sorted) / 2;
    low_ = floats_ ? minus_infinity_key : 0, high_ = floats_ ? infinity_key : beyond;
    std::uint32_t pivot = aim_ < low_ ? low_ : aim_ > high_ ? high_ : aim_, pivot_before = 0;
    int before = 0;
    bool enough = false;  // whether k keys are known not to be beyond `high_`
    for (int tries = 0;; ++tries) {
      // What the counts say of a pivot.
      if (floats_ && pivot == before_zero) --pivot;
      const int now = within(pivot);
      if (tries > 0 && now != before) {
        const float rise =
            (static_cast<float>(pivot) - static_cast<float>(pivot_before)) / static_cast<float>(now - before);
        if (rise > 0) slope_ = rise;
      }
      before = now;
      pivot_before = pivot;
      if (now >= k_ && now <= args_.sorted && pivot != beyond) {
        high_ = pivot;
        count_ = now;
        return true;
      }
      enough = enough || now >= k_;
      if (now < k_) low_ = pivot + (pivot != beyond);
      else high_ = pivot;

      // The keys that are left may be few, or one.
      if (tries >= patience_) {
        if constexpr (four) {
          if (!by_key_) change_to_keys(enough);
          if (tries == 1 && patience_ == 0 && enough && low_ >= high_) return false;  // the greatest key it was, again
        }
        narrow();
        if (low_ >= high_) return false;
        if (tries == 0 && patience_ == 0) {  // the row before ended in equal keys: the greatest may be those
          pivot = high_ - 1;
          continue;
        }
      }
      const auto estimate = key_near(pivot, slope_ * static_cast<float>(middle - now));
      pivot = tries < 6 && estimate >= low_ && estimate < high_ ? estimate : low_ + (high_ - low_) / 2;
    }
  }

  /// What the next row begins with, after a threshold was found.
  __device__ __forceinline__ void remember_threshold() {
    patience_ = 2;
    aim_ = key_near(high_, 0.25f * slope_ * static_cast<float>((k_ + args_.sorted) / 2 - count_));
  }

  /// Where more keys are equal than there is room: those at the lowest positions belong, up to the last column.
  __device__ __forceinline__ void cut_equals() {
    patience_ = 0;
    int below = 0;
#pragma unroll
    for (int i = 0; i < values; ++i) below += bits_[i] < high_;
    int need = k_ - total(below);
    bool finished = false;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {  // vectors of all lanes lie side by side
      if (finished) continue;            // and not out of the loop, which must unroll: registers have no index
      int same = 0, all;
#pragma unroll
      for (int n = 0; n < Reader::count; ++n) {
        const int i = v * Reader::count + n;
        same += bits_[i] == high_ && column_of(i) < cols_;
      }
      int seen = sum_before(same, all);
      if (need <= all) {
        int column = 0;
#pragma unroll
        for (int n = 0; n < Reader::count; ++n) {
          const int i = v * Reader::count + n;
          seen += bits_[i] == high_ && column_of(i) < cols_;
          if (seen == need && bits_[i] == high_ && column_of(i) < cols_) column = column_of(i);
        }
        last_column_ = total(column);
        finished = true;
      }
      need -= all;
    }
    mine_ = 0;
#pragma unroll
    for (int i = 0; i < values; ++i) mine_ += bits_[i] < high_ || (bits_[i] == high_ && column_of(i) <= last_column_);
    count_ = k_;
    aim_ = high_;
  }

  /// The packed keys within the threshold to the buffer, in any order.
  __device__ __forceinline__ void gather() {
    int of_warp;
    int place = warp_sum_before(mine_, of_warp);
    if constexpr (warps > 1) {
      int first = 0;
      if (lane_index() == 0) first = atomicAdd(&gathered_, of_warp);
      place += from_lane(first, 0);
    }
    const auto keep = [&](int i) { buffer_[place++] = Packed::make(bits_[i], column_of(i)); };
    if (by_key_) {
#pragma unroll
      for (int i = 0; i < values; ++i)
        if (bits_[i] < high_ || (bits_[i] == high_ && column_of(i) <= last_column_)) keep(i);
    } else {
      const float threshold = float_of_key(high_);
#pragma unroll
      for (int i = 0; i < values; ++i)
        if (__uint_as_float(bits_[i]) <= threshold) keep(i);
    }
  }

  /// The buffer in order, and the first k of it to the results.
  __device__ __forceinline__ void sort_and_emit(std::int64_t row) {
    if constexpr (warps == 1) __syncwarp();
    else __syncthreads();
    if (warps == 1 || args_.sorted <= 256) {
      if (warps == 1 || warp_index() == 0) {
        sort_by_warp();
        emit(row, lane_index(), 32);
        if (warps > 1 && thread_ == 0) gathered_ = 0;
        __syncwarp();
      }  // the others wait where the next row's keys are counted
    } else if constexpr (warps > 1) {
      std::uint32_t least = beyond, most = 0;
      to_keys(thread_, threads, least, most);
      for (int i = count_ + thread_; i < args_.sorted; i += threads) buffer_[i] = Packed::last();
      __syncthreads();
      sort_buffer(buffer_, args_.sorted, thread_, threads, [] { __syncthreads(); });
      emit(row, thread_, threads);
      if (thread_ == 0) gathered_ = 0;
      __syncthreads();
    }
  }

 private:
  static constexpr int values = vectors * Reader::count, threads = 32 * warps;
  static constexpr std::uint32_t beyond = 0xffffffffu, infinity_key = 0xff800000u, minus_infinity_key = 0x007fffffu;
  static constexpr std::uint32_t before_zero = 0x7fffffffu;  // would be -0, which is no key
  static constexpr bool four = Reader::size == 4;  // bytes a value: these may be floats, to compare as they are

  /// The sum over the threads of a row.
  __device__ __forceinline__ int total(int value) {
    const int of_warp = __reduce_add_sync(all_lanes, value);
    if constexpr (warps == 1) {
      return of_warp;
    } else {
      if (lane_index() == 0) sums_[phase_ * warps + warp_index()] = of_warp;
      __syncthreads();
      int sum = 0;
      for (int i = 0; i < warps; ++i) sum += sums_[phase_ * warps + i];
      phase_ ^= 1;
      return sum;
    }
  }
  /// The least, or the largest, over the threads of a row.
  template <bool least>
  __device__ __forceinline__ std::uint32_t end(std::uint32_t value) {
    value = least ? __reduce_min_sync(all_lanes, value) : __reduce_max_sync(all_lanes, value);
    if constexpr (warps == 1) {
      return value;
    } else {
      if (lane_index() == 0) sums_[phase_ * warps + warp_index()] = static_cast<int>(value);
      __syncthreads();
      for (int i = 0; i < warps; ++i) {
        const auto other = static_cast<std::uint32_t>(sums_[phase_ * warps + i]);
        value = least == (other < value) ? other : value;
      }
      phase_ ^= 1;
      return value;
    }
  }
  /// The sum over the threads of a row before this one; `all` is that of all.
  __device__ __forceinline__ int sum_before(int value, int& all) {
    int of_warp;
    const int sum = warp_sum_before(value, of_warp);
    if constexpr (warps == 1) {
      all = of_warp;
      return sum;
    } else {
      const int others = warps_before(of_warp, all, sums_ + phase_ * warps);
      phase_ ^= 1;
      return sum + others;
    }
  }

  __device__ __forceinline__ int column_of(int i) const {
    return (i / Reader::count * threads + thread_) * Reader::count + i % Reader::count;
  }

  /// How many keys of the row are not beyond `most`; `mine` are this thread's.
  __device__ __forceinline__ int within(std::uint32_t most) {
    int part[4] = {0, 0, 0, 0};  // so that no sum waits for the one before
    if (by_key_) {
#pragma unroll
      for (int i = 0; i < values; ++i) part[i % 4] += bits_[i] <= most;
    } else {
      const float threshold = float_of_key(most);
#pragma unroll
      for (int i = 0; i < values; ++i) part[i % 4] += __uint_as_float(bits_[i]) <= threshold;
    }
    mine_ = part[0] + part[1] + part[2] + part[3];
    return total(mine_);
  }
  /// From floats to their keys. enough: k keys are known not to be beyond `high_`.
  __device__ __forceinline__ void change_to_keys(bool enough) {
    by_key_ = true;
    if (!enough) high_ = beyond;
#pragma unroll
    for (int i = 0; i < values; ++i) bits_[i] = ordered_float<std::uint32_t>(bits_[i], 0x7f800000u, false);
  }
  /// `low_` and `high_` become keys of the row.
  __device__ __forceinline__ void narrow() {
    std::uint32_t least = beyond, most = 0;
#pragma unroll
    for (int i = 0; i < values; ++i) {
      if (bits_[i] >= low_ && bits_[i] < least) least = bits_[i];
      if (bits_[i] <= high_ && bits_[i] > most) most = bits_[i];
    }
    least = end<true>(least);
    most = end<false>(most);
    low_ = least > low_ ? least : low_;
    high_ = most < high_ ? most : high_;
  }

  /// Keys of the buffer's words, which are made of bits, or of the keys of opposites; by `of` threads of which this is number `thread`.
  __device__ __forceinline__ void to_keys(int thread, int of, std::uint32_t& least, std::uint32_t& most) {
    for (int i = thread; i < count_; i += of) {
      std::uint32_t key = Packed::key(buffer_[i]);
      if (floats_) {
        if (!by_key_) key = ordered_float<std::uint32_t>(key ^ flip_, 0x7f800000u, args_.rows.largest);
        else if (args_.rows.largest && key == before_zero + 1) key = before_zero;
        buffer_[i] = Packed::make(key, Packed::position(buffer_[i]));
      }
      least = key < least ? key : least;
      most = key > most ? key : most;
    }
  }
  __device__ __forceinline__ void sort_by_warp() {
    std::uint32_t least = beyond, most = 0;
    to_keys(lane_index(), 32, least, most);
    least = __reduce_min_sync(all_lanes, least);
    most = __reduce_max_sync(all_lanes, most);
    __syncwarp();
    bool done;
    if (args_.sorted == 32) done = sort_by_high_bits<1>(buffer_, count_, least, most);
    else if (args_.sorted == 64) done = sort_by_high_bits<2>(buffer_, count_, least, most);
    else if (args_.sorted == 128) done = sort_by_high_bits<4>(buffer_, count_, least, most);
    else done = sort_by_high_bits<8>(buffer_, count_, least, most);
    if (done) return;
    for (int i = count_ + lane_index(); i < args_.sorted; i += 32) buffer_[i] = Packed::last();
    __syncwarp();
    sort_buffer(buffer_, args_.sorted, lane_index(), 32, [] { __syncwarp(); });
  }
  __device__ __forceinline__ void emit(std::int64_t row, int thread, int of) const {
    for (int i = thread; i < k_; i += of)
      emit_word<Packed, Reader::size>(args_.rows, args_.out, row, row * k_ + i, buffer_[i]);
  }

  const SieveRows& args_;
  std::uint64_t* buffer_;
  int* sums_;
  int& gathered_;                       // packed keys that are in the buffer already, of a block's row
  int phase_ = 0;                       // of the sums
  const int thread_, cols_, k_, held_;  // held: vectors of a row
  const std::uint32_t flip_;            // turns floats into their opposites where the largest are wanted
  const bool floats_;
  // From bits of four bytes to what is compared: floats or their opposites, or keys of integers.
  const std::uint32_t change_;
  typename Reader::Vector next_[vectors];
  std::uint32_t bits_[values];  // what is compared: keys, or floats
  bool by_key_ = true;
  std::uint32_t low_ = 0, high_ = 0;  // keys between which the threshold is; then `high_` is the threshold
  int mine_ = 0, count_ = 0;          // keys within it: this thread's, all
  int last_column_ = 0;               // of keys equal to it, the last that belongs
  // What served the row before: a key, how much of a key one word more or less is, and how many thresholds are tried before keys are.
  std::uint32_t aim_ = 0x80000000u;
  float slope_ = 1 << 18;
  int patience_ = 2;
};

}  // namespace vicinal::cuda
