// Readers load rows fast: sixteen bytes at a time where values lie side by side and
// rows start at multiples of that, else value by value. A reader cuts a row into a
// head, whole vectors, and a tail; head and tail are fewer values than two vectors.
#pragma once
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

struct __align__(16) Sixteen {
  std::uint32_t word[4];
};

/// Columns of a row: [0, head) and [tail, end) one by one, between them `vectors` whole vectors from `first` on.
struct Segment {
  const Sixteen* first = nullptr;
  std::int64_t head = 0, vectors = 0, tail = 0, end = 0, begin = 0;
};

/// Values of `Size` bytes side by side; `Float`: they are floating-point, else the rows say what they are.
template <class Key_, int Size, bool Float = false>
struct DenseReader {
  using Key = Key_;
  using Vector = Sixteen;
  static constexpr int count = 16 / Size, size = Size;  // values a vector, bytes a value

  __device__ static Segment segment(const Rows& rows, std::int64_t row, std::int64_t begin, std::int64_t end) {
    const unsigned char* at = rows.data + row * rows.row_stride + begin * Size;
    const auto over = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) % 16);
    std::int64_t head = over == 0 ? 0 : (16 - over) / Size;
    if (head > end - begin) head = end - begin;
    Segment s;
    s.begin = begin;
    s.head = begin + head;
    s.vectors = (end - s.head) / count;
    s.first = reinterpret_cast<const Sixteen*>(at + head * Size);
    s.tail = s.head + s.vectors * count;
    s.end = end;
    return s;
  }
  __device__ static Sixteen load(const Rows&, std::int64_t, const Segment& s, std::int64_t vector) {
    return s.first[vector];
  }
  /// A vector of a row whose length is a whole number of them.
  __device__ static const Sixteen& at(const Rows& rows, std::int64_t row, int vector) {
    return reinterpret_cast<const Sixteen*>(rows.data + row * rows.row_stride)[vector];
  }
  __device__ static Key key(const Rows& rows, const Sixteen& v, int i) {
    if constexpr (Size == 8) {
      const std::uint64_t bits = v.word[2 * i] | static_cast<std::uint64_t>(v.word[2 * i + 1]) << 32;
      return rows.is_float ? ordered_float<std::uint64_t>(bits, infinity_f64, rows.largest)
                           : ordered_integer<std::uint64_t>(bits, rows.is_signed, rows.largest);
    } else {
      std::uint32_t bits = v.word[i * Size / 4];
      if constexpr (Size == 2) bits = i % 2 == 0 ? bits << 16 : bits & 0xffff0000u;
      if constexpr (Size == 1) bits = bits << (24 - 8 * (i % 4)) & 0xff000000u;
      const std::uint32_t made = Float || (Size > 1 && rows.is_float)
                                     ? ordered_float<std::uint32_t>(bits, rows.infinity, rows.largest)
                                     : ordered_integer<std::uint32_t>(bits, rows.is_signed, rows.largest);
      return made >> (32 - 8 * Size);
    }
  }
};

/// Any strides and types; a vector is one value.
template <class Key_>
struct StridedReader {
  using Key = Key_;
  using Vector = Key_;
  static constexpr int count = 1, size = 0;  // known at run time only
  __device__ static Segment segment(const Rows&, std::int64_t, std::int64_t begin, std::int64_t end) {
    Segment s;
    s.begin = s.head = begin;
    s.vectors = end - begin;
    s.tail = s.end = end;
    return s;
  }
  __device__ static Key load(const Rows& rows, std::int64_t row, const Segment& s, std::int64_t vector) {
    return key_at<Key>(rows, row, s.head + vector);
  }
  __device__ static Key at(const Rows& rows, std::int64_t row, int vector) { return key_at<Key>(rows, row, vector); }
  __device__ static Key key(const Rows&, Key key, int) { return key; }
};

/// Calls body.template operator()<Form, Reader>() for words with positions.
template <class Body>
void with_reader(FormName form, const Rows& rows, const Body& body) {
  const bool dense = rows.col_stride == rows.size;
  using Eight = DenseReader<Wide::Key, 8>;
  if (form != FormName::packed) {
    if (dense && rows.size == 8) body.template operator()<Wide, Eight>();
    else body.template operator()<Wide, StridedReader<Wide::Key>>();
  } else if (!dense) {
    body.template operator()<Packed, StridedReader<Packed::Key>>();
  } else if (rows.size == 4) {
    if (rows.is_float) body.template operator()<Packed, DenseReader<Packed::Key, 4, true>>();  // 7 % faster
    else body.template operator()<Packed, DenseReader<Packed::Key, 4>>();
  } else if (rows.size == 2) {
    body.template operator()<Packed, DenseReader<Packed::Key, 2>>();
  } else {
    body.template operator()<Packed, DenseReader<Packed::Key, 1>>();
  }
}

}  // namespace vicinal::cuda
