// Rows of one element type as eight lanes of a warp read them: four adjacent elements a lane, by one load where rows
// are aligned to it. A warp has four rows at a time.
#pragma once
#include "cuda/search/core/element.cuh"

namespace vicinal::cuda {

inline constexpr int row_lanes = 8;                // that read a row together
inline constexpr int row_columns = 4 * row_lanes;  // of a row that they read at a time

/// Each type widens to one that has its values exactly and in which the hardware calculates.
__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ double widened(double x) { return x; }
__device__ __forceinline__ float widened(f16 x) { return static_cast<float>(half_value(x.bits)); }
__device__ __forceinline__ float widened(bf16 x) { return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16); }
__device__ __forceinline__ float widened(std::uint8_t x) { return static_cast<float>(x); }
__device__ __forceinline__ float widened(std::int8_t x) { return static_cast<float>(x); }
template <class T>
using Widened = decltype(widened(T{}));

/// A FourColumns reads a row. Aligned: rows begin at multiples of four elements, which one load brings.
template <class T, bool Aligned>
struct FourColumns {
  using Type = T;
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Four {
    T at[4];
  };
  const T* row;
  std::int64_t dims;

  __device__ __forceinline__ FourColumns(const PreparedMatrix& matrix, std::int64_t number)
      : row(static_cast<const T*>(matrix.rows) + number * matrix.dims), dims(matrix.dims) {}

  /// It tells whether the row has column col + c, of four.
  __device__ __forceinline__ bool has(std::int64_t col, int c) const { return Aligned ? col < dims : col + c < dims; }
  /// It returns the elements of columns col to col + 3, with `absent`
  /// for those that the row does not have; col is a multiple of 4.
  __device__ __forceinline__ Four load(std::int64_t col, T absent = T{}) const {
    Four four = {{absent, absent, absent, absent}};
    if constexpr (Aligned) {
      if (has(col, 0)) four = *reinterpret_cast<const Four*>(row + col);
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (has(col, c)) four.at[c] = row[col + c];
    }
    return four;
  }
};

/// Eight lanes read a row: it calls body(col, four) with the columns of
/// this lane, of which the last may be absent, several loads at a time.
template <class Columns, class Body>
__device__ __forceinline__ void each_four(const Columns& columns, typename Columns::Type absent, const Body& body) {
  constexpr int batch = sizeof(typename Columns::Type) == 8 ? 2 : 4;
  const std::int64_t mine = 4 * (lane_index() % row_lanes);
  for (std::int64_t from = 0; from < columns.dims; from += batch * row_columns) {
    typename Columns::Four fours[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) fours[b] = columns.load(from + b * row_columns + mine, absent);
#pragma unroll
    for (int b = 0; b < batch; ++b) body(from + b * row_columns + mine, fours[b]);
  }
}

/// The sum, or whatever join() makes, of what eight lanes bring, in all eight.
template <class Value, class Join>
__device__ __forceinline__ Value eight_joined(Value value, const Join& join) {
#pragma unroll
  for (int h = row_lanes / 2; h > 0; h /= 2) value = join(value, __shfl_xor_sync(all_lanes, value, h));
  return value;
}
/// The canonical sum of 32 lists of which each of eight lanes has four, of the columns that it reads; in all eight.
__device__ __forceinline__ double fours_joined(const double (&lists)[4]) {
  double sums[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) sums[c] = eight_joined(lists[c], Plus{});
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/// It calls use(T) with a value of the element type.
template <class Use>
VICINAL_HOST_DEVICE auto with_type(DType type, const Use& use) {
  switch (type) {
    case DType::f32: return use(float{});
    case DType::f64: return use(double{});
    case DType::f16: return use(f16{});
    case DType::bf16: return use(bf16{});
    case DType::u8: return use(std::uint8_t{});
    case DType::i8: break;
  }
  return use(std::int8_t{});
}
/// Whether rows of this type begin at multiples of four elements.
template <class T>
bool is_aligned_to_four(const PreparedMatrix& matrix) {
  return matrix.dims % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix.rows) % alignof(typename FourColumns<T, true>::Four) == 0;
}
/// A TypeOf stands for a type where a value does.
template <class T>
struct TypeOf {
  using type = T;
};
/// It calls use() with a TypeOf the FourColumns that read the rows of a matrix fastest.
template <class Use>
auto with_columns(const PreparedMatrix& matrix, const Use& use) {
  return with_type(matrix.dtype, [&](auto zero) {
    using T = decltype(zero);
    return is_aligned_to_four<T>(matrix) ? use(TypeOf<FourColumns<T, true>>{}) : use(TypeOf<FourColumns<T, false>>{});
  });
}

}  // namespace vicinal::cuda
