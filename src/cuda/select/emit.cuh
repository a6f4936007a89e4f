// Emission turns words into what the call returns: values with their own bits, ids, and the payload of the chosen
// positions. A key without a position gives its value back, except a zero, whose sign it has lost, and a NaN: of those
// the row holds as many as the answer, in order of position, and the row is read again for them.
#pragma once
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

inline constexpr int emit_threads = 256;

struct Emit {
  Rows rows;
  std::int64_t k;
  const void* list;
  std::int64_t list_row;  // words from a row's list to the next
  Emission out;
};

__device__ __forceinline__ void copy_item(void* to, std::int64_t to_index, const void* from, int size) {
  switch (size) {
    case 8: static_cast<std::uint64_t*>(to)[to_index] = *static_cast<const std::uint64_t*>(from); break;
    case 4: static_cast<std::uint32_t*>(to)[to_index] = *static_cast<const std::uint32_t*>(from); break;
    case 2: static_cast<std::uint16_t*>(to)[to_index] = *static_cast<const std::uint16_t*>(from); break;
    default: static_cast<unsigned char*>(to)[to_index] = *static_cast<const unsigned char*>(from); break;
  }
}

/// A value by its bits.
template <class Key>
__device__ __forceinline__ Key load_bits(const void* from, int size) {
  if constexpr (sizeof(Key) == 8) {
    if (size == 8) return *static_cast<const std::uint64_t*>(from);
  }
  if (size == 4) return *static_cast<const std::uint32_t*>(from);
  if (size == 2) return *static_cast<const std::uint16_t*>(from);
  return *static_cast<const unsigned char*>(from);
}
template <class Key>
__device__ __forceinline__ void store_bits(void* to, std::int64_t at, Key bits, int size) {
  if constexpr (sizeof(Key) == 8) {
    if (size == 8) static_cast<std::uint64_t*>(to)[at] = bits;
  }
  if (size == 4) static_cast<std::uint32_t*>(to)[at] = static_cast<std::uint32_t>(bits);
  else if (size == 2) static_cast<std::uint16_t*>(to)[at] = static_cast<std::uint16_t>(bits);
  else if (size == 1) static_cast<unsigned char*>(to)[at] = static_cast<unsigned char>(bits);
}

/// The value, as bits, behind a key of which `all` are the bits and `sign` is the highest.
template <class Key>
__device__ __forceinline__ Key value_of_key(const Rows& rows, Key key, Key sign, Key all) {
  const Key value = rows.largest ? static_cast<Key>(~key & all) : key;
  if (rows.is_float) return static_cast<Key>((value & sign) != 0 ? value ^ sign : ~value & all);
  return rows.is_signed ? static_cast<Key>(value ^ sign) : value;
}

/// One word to its place in the results; `Size`, where it is known, is of a value. A zero has lost its sign to the key
/// and a NaN its bits: those are read again.
template <class Form, int Size = 0>
__device__ __forceinline__ void emit_word(const Rows& rows, const Emission& out, std::int64_t row, std::int64_t at,
                                          const typename Form::Word& word) {
  const std::int64_t col = Form::position(word);
  const int size = Size != 0 ? Size : rows.size;
  if (out.values != nullptr) {
    using Key = typename Form::Key;
    const Key key = Form::key(word), sign = static_cast<Key>(Key{1} << (8 * size - 1)),
              all = static_cast<Key>(sign | (sign - 1));
    const bool kept = !rows.is_float || (key != all && key != (rows.largest ? static_cast<Key>(sign - 1) : sign));
    store_bits(out.values, at,
               kept ? value_of_key(rows, key, sign, all) : load_bits<Key>(value_address(rows, row, col), size), size);
  }
  if (out.ids != nullptr) out.ids[at] = col;
  if (out.payload_out != nullptr) {
    const auto* from = static_cast<const unsigned char*>(out.payload.data) + row * out.payload.row_stride +
                       col * out.payload.col_stride;
    copy_item(out.payload_out, at, from, static_cast<int>(out.payload.item_size));
  }
}

template <class Form>
__global__ void __launch_bounds__(emit_threads) emit_entries(Emit p) {
  using Word = typename Form::Word;
  const std::int64_t step = std::int64_t{gridDim.x} * emit_threads;
  for (std::int64_t at = std::int64_t{blockIdx.x} * emit_threads + thread_index(); at < p.rows.rows * p.k; at += step) {
    const std::int64_t row = at / p.k;
    emit_word<Form>(p.rows, p.out, row, at, static_cast<const Word*>(p.list)[row * p.list_row + at % p.k]);
  }
}

/// The first `count` values of the row with this key, into the answer from `at` on.
template <class Key>
__device__ void emit_equals(const Emit& p, std::int64_t row, Key key, std::int64_t at, std::int64_t count, int* sums) {
  std::int64_t seen = 0;
  for (std::int64_t base = 0; seen < count; base += emit_threads) {
    const std::int64_t col = base + thread_index();
    const bool is = col < p.rows.cols && key_at<Key>(p.rows, row, col) == key;
    const unsigned votes = __ballot_sync(all_lanes, is);
    int total;
    const std::int64_t place = seen + warps_before(__popc(votes), total, sums) + votes_below(votes);
    if (is && place < count) copy_item(p.out.values, at + place, value_address(p.rows, row, col), p.rows.size);
    seen += total;
    __syncthreads();
  }
}

/// The first of k ascending words that is not before `word`.
template <class Word>
__device__ __forceinline__ std::int64_t first_not_before(const Word* words, std::int64_t k, Word word) {
  std::int64_t low = 0, high = k;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (words[middle] < word) low = middle + 1;
    else high = middle;
  }
  return low;
}

/// A block a row; the words are keys, ascending where the values are floating-point.
template <class Form>
__global__ void __launch_bounds__(emit_threads) emit_alone(Emit p) {
  using Key = typename Form::Key;
  VICINAL_SHARED(int, sums, emit_threads / 32);
  const int bits = 8 * p.rows.size;
  const Key sign = static_cast<Key>(Key{1} << (bits - 1)), all = static_cast<Key>(sign | (sign - 1));
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += gridDim.x) {
    const Key* keys = static_cast<const Key*>(p.list) + row * p.k;
    for (std::int64_t i = thread_index(); i < p.k; i += emit_threads) {
      const Key value = value_of_key(p.rows, keys[i], sign, all);
      copy_item(p.out.values, row * p.k + i, &value, p.rows.size);
    }
    if (!p.rows.is_float) continue;
    __syncthreads();
    const Key zero = p.rows.largest ? static_cast<Key>(sign - 1) : sign;
    const std::int64_t zeros = first_not_before(keys, p.k, zero),
                       beyond = first_not_before(keys, p.k, static_cast<Key>(zero + 1));
    const std::int64_t nans = first_not_before(keys, p.k, all);
    if (zeros < beyond) emit_equals(p, row, zero, row * p.k + zeros, beyond - zeros, sums);
    if (nans < p.k) emit_equals(p, row, all, row * p.k + nans, p.k - nans, sums);
  }
}

template <class Launch>
void run_emit(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  const Emit p = {batch.rows, batch.k, batch.list, batch.list_row != 0 ? batch.list_row : batch.k, emission};
  const std::int64_t rows = batch.rows.rows;
  if (batch.form == FormName::alone32) {
    launch(blocks_for(rows, batch.multiprocessors), emit_threads, 0, emit_alone<Alone<std::uint32_t>>, p);
  } else if (batch.form == FormName::alone64) {
    launch(blocks_for(rows, batch.multiprocessors), emit_threads, 0, emit_alone<Alone<std::uint64_t>>, p);
  } else {
    with_entries(batch.form, [&]<class Form>() {
      launch(blocks_for(divide_up(rows * batch.k, emit_threads), batch.multiprocessors), emit_threads, 0,
             emit_entries<Form>, p);
    });
  }
}

}  // namespace vicinal::cuda
