// See vicinal/elements.hpp. Blocks of rows are converted in parallel; each element is read once, so that an array which
// another thread changes meanwhile gives undefined values and nothing worse.
#include "vicinal/elements.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "core/buffer.hpp"
#include "core/divide.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t block_elements = std::int64_t{1} << 18;

/// The elements that no f64 holds: how many, and row * cols + column of the first.
struct Inexact {
  std::atomic<std::int64_t> count{0};
  std::atomic<std::int64_t> first{INT64_MAX};

  void add(std::int64_t at) noexcept {
    count.fetch_add(1, std::memory_order_relaxed);
    std::int64_t known = first.load(std::memory_order_relaxed);
    while (at < known && !first.compare_exchange_weak(known, at, std::memory_order_relaxed)) {}
  }
};

template <std::integral T>
T load(const std::byte* at, bool swapped) noexcept {
  std::make_unsigned_t<T> bits;
  std::memcpy(&bits, at, sizeof bits);
  if (swapped) {
    if constexpr (sizeof(T) == 2) bits = __builtin_bswap16(bits);
    else if constexpr (sizeof(T) == 4) bits = __builtin_bswap32(bits);
    else bits = __builtin_bswap64(bits);
  }
  return static_cast<T>(bits);
}

/// At most 53 bits from the first set one to the last.
template <std::integral T>
bool has_exact_f64(T value) noexcept {
  if constexpr (sizeof(T) < 8) {
    return true;
  } else {
    const auto bits = static_cast<std::uint64_t>(value);
    const std::uint64_t size = value < T{0} ? 0 - bits : bits;
    return (size >> 53) == 0 || (size >> std::countr_zero(size)) >> 53 == 0;
  }
}

const std::byte* element_address(const Values& values, std::int64_t row, std::int64_t column) noexcept {
  return static_cast<const std::byte*>(values.data) + row * values.row_stride + column * values.col_stride;
}

template <std::integral From, std::floating_point To>
void convert_rows(const Values& values, std::int64_t first, std::int64_t last, To* to, Inexact& inexact) {
  for (std::int64_t row = first; row < last; ++row) {
    for (std::int64_t column = 0; column < values.cols; ++column) {
      const From value = load<From>(element_address(values, row, column), values.byte_swapped);
      if (!has_exact_f64(value)) inexact.add(row * values.cols + column);
      to[row * values.cols + column] = static_cast<To>(value);
    }
  }
}

/// Calls take(From{}, To{}) with the types of the conversion.
template <class Take>
void with_types(ValueType type, const Take& take) {
  switch (type) {
    case ValueType::u16: return take(std::uint16_t{}, float{});
    case ValueType::i16: return take(std::int16_t{}, float{});
    case ValueType::u32: return take(std::uint32_t{}, double{});
    case ValueType::i32: return take(std::int32_t{}, double{});
    case ValueType::u64: return take(std::uint64_t{}, double{});
    case ValueType::i64: return take(std::int64_t{}, double{});
    case ValueType::f32:
    case ValueType::f64:
    case ValueType::f16:
    case ValueType::bf16:
    case ValueType::u8:
    case ValueType::i8: break;
  }
  fail(ErrorCode::internal, cat(value_type_name(type), " is an element type of vectors"));
}

[[noreturn]] void refuse_inexact(const Values& values, const std::string& side, const Inexact& inexact) {
  const std::int64_t at = inexact.first, row = at / values.cols, column = at % values.cols;
  std::string value;
  with_types(values.type, [&]<class From, class To>(From, To) {
    value = cat(load<From>(element_address(values, row, column), values.byte_swapped));
  });
  fail(ErrorCode::invalid_value,
       cat(side, " row ", row, ", column ", column, " is ", value, " (", value_type_name(values.type), ", ",
           inexact.count.load(), " such elements in all): integers beyond 2^53 have no exact float64",
           "; subtract an offset, scale them down, or split the column"));
}

std::int64_t bytes_needed(const Values& values, std::int64_t size, const std::string& side) {
  std::int64_t elements, bytes;
  if (__builtin_mul_overflow(values.rows, values.cols, &elements) || __builtin_mul_overflow(elements, size, &bytes))
    fail(ErrorCode::out_of_memory,
         cat(side, ": ", values.rows, " x ", values.cols, " elements of ", size, " bytes exceed the address space"));
  return bytes;
}

}  // namespace

DType element_type(ValueType type) noexcept {
  switch (type) {
    case ValueType::f64: return DType::f64;
    case ValueType::f16: return DType::f16;
    case ValueType::bf16: return DType::bf16;
    case ValueType::u8: return DType::u8;
    case ValueType::i8: return DType::i8;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::u64:
    case ValueType::i64: return DType::f64;
    case ValueType::f32:
    case ValueType::u16:
    case ValueType::i16: break;
  }
  return DType::f32;  // and the integers of 16 bits
}

Elements exact_elements(const Values& values, const std::string& side, const Execution& run, const Progress& progress) {
  const DType type = element_type(values.type);
  if (std::string_view(dtype_name(type)) == value_type_name(values.type)) {
    Points points(values.data, type, values.rows, values.cols);
    points.row_stride = values.row_stride;
    points.col_stride = values.col_stride;
    points.byte_swapped = values.byte_swapped;
    return {points, nullptr, 0};
  }
  if (values.cuda_device >= 0)
    fail(ErrorCode::device_error,
         cat(side, ": ", value_type_name(values.type), " values are in memory of cuda:", values.cuda_device,
             ", the conversion to ", dtype_name(type), " reads those of the host; convert them there"));
  if (values.rows < 0 || values.cols < 0)
    fail(ErrorCode::invalid_argument, cat(side, " has ", values.rows, " rows and ", values.cols, " columns"));
  const std::int64_t bytes = bytes_needed(values, static_cast<std::int64_t>(dtype_size(type)), side);
  auto memory = std::make_shared<Buffer<std::byte>>(bytes);
  Inexact inexact;
  if (bytes > 0) {
    const std::int64_t rows = std::max<std::int64_t>(block_elements / values.cols, 1),
                       blocks = divide_up(values.rows, rows);
    ThreadPool thread_pool(static_cast<int>(std::min<std::int64_t>(threads_for(run.threads), blocks)), progress, {},
                           static_cast<std::uint64_t>(values.rows));
    with_types(values.type, [&]<class From, class To>(From, To) {
      auto* const to = reinterpret_cast<To*>(memory->data());
      thread_pool.for_each(blocks, [&](std::int64_t block, int) {
        const std::int64_t first = block * rows, last = std::min(first + rows, values.rows);
        convert_rows<From>(values, first, last, to, inexact);
        thread_pool.poll(static_cast<std::uint64_t>(last - first));
      });
    });
    thread_pool.finish();
  }
  if (inexact.count != 0) refuse_inexact(values, side, inexact);
  const void* data = memory->data();
  return {Points(data, type, values.rows, values.cols), std::move(memory), bytes};
}

}  // namespace vicinal
