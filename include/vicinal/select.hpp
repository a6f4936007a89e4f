// Selection: the k smallest or largest values of every row, sorted, with their positions. Ties go by position, NaN is
// last.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// What a value may be: more than the elements of vectors (DType).
enum class ValueType : std::uint8_t { f32, f64, f16, bf16, u8, i8, u16, i16, u32, i32, u64, i64 };
const char* value_type_name(ValueType type) noexcept;  // "f32", ..., "i64"
constexpr std::size_t value_size(ValueType type) noexcept {
  switch (type) {
    case ValueType::f64:
    case ValueType::u64:
    case ValueType::i64: return 8;
    case ValueType::f32:
    case ValueType::u32:
    case ValueType::i32: return 4;
    case ValueType::u8:
    case ValueType::i8: return 1;
    case ValueType::f16:
    case ValueType::bf16:
    case ValueType::u16:
    case ValueType::i16: break;
  }
  return 2;
}

template <class T>
constexpr ValueType value_type_of() noexcept {
  if constexpr (std::is_same_v<T, float>) return ValueType::f32;
  else if constexpr (std::is_same_v<T, double>) return ValueType::f64;
  else if constexpr (std::is_same_v<T, f16>) return ValueType::f16;
  else if constexpr (std::is_same_v<T, bf16>) return ValueType::bf16;
  else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>,
                  "values are f16, bf16, f32, f64 or integers of 8 to 64 bits");
    constexpr bool plus = std::is_unsigned_v<T>;
    if constexpr (sizeof(T) == 1) return plus ? ValueType::u8 : ValueType::i8;
    else if constexpr (sizeof(T) == 2) return plus ? ValueType::u16 : ValueType::i16;
    else if constexpr (sizeof(T) == 4) return plus ? ValueType::u32 : ValueType::i32;
    else return plus ? ValueType::u64 : ValueType::i64;
  }
}

/// Rows of values, never owned. Strides are in bytes and may have any sign; on a CUDA device they are multiples of the
/// size.
struct Values {
  const void* data = nullptr;
  ValueType type = ValueType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
  bool byte_swapped = false;  // the other byte order than this machine's; memory of the host only
  int cuda_device = -1;       // ordinal of the CUDA device whose memory this is; -1: memory of the host

  Values() = default;
  template <class T>
  Values(MatrixView<T> m)  // NOLINT(google-explicit-constructor): a typed view is a view
      : Values(m.data, value_type_of<T>(), m.rows, m.cols) {
    if (m.stride != 0) row_stride = m.stride * static_cast<std::int64_t>(sizeof(T));
  }
  /// Row-major and dense unless strides are given.
  Values(const void* d, ValueType t, std::int64_t r, std::int64_t c)
      : data(d), type(t), rows(r), cols(c), row_stride(c * static_cast<std::int64_t>(value_size(t))),
        col_stride(static_cast<std::int64_t>(value_size(t))) {}
};

/// A second array of the shape of the values, elements of 1, 2, 4 or 8 bytes, of which the chosen positions are
/// returned too.
struct Payload {
  const void* data = nullptr;  // null: none. In the same memory as the values
  std::int64_t item_size = 0;
  std::int64_t row_stride = 0, col_stride = 0;  // bytes
};

struct SelectOptions {
  std::int64_t k = 10;
  bool largest = false;
  bool sorted = true;              // false: the same set in any order
  std::string algorithm = "auto";  // a name of select_algorithms()
  Execution run = {};
  Progress progress = nullptr;  // of values on the host: done of total are read
  std::stop_token stop = {};
  void* stream =
      nullptr;  // a cudaStream_t, for values in device memory: the call returns when the work is queued on it
};

/// Caller's memory for rows x k results, row-major and dense, where the values are: on the host or on their device.
struct SelectionView {
  void* values = nullptr;       // of the type of the input; may be null: ids alone
  std::int64_t* ids = nullptr;  // positions in the row; may be null: values alone
  void* payload = nullptr;      // may be null where there is no payload
  std::int64_t rows = 0;
  std::int64_t k = 0;
};

/// How it was done; not covered by the promise of equal bits.
struct SelectStats {
  std::string algorithm;  // that ran; where devices ran several, with commas between
  std::string device;     // "cpu", "cuda:0", "cuda:0,cuda:1"
  int threads = 0;        // of the CPU
  double seconds = 0;     // wall time of the call; of queueing it on a stream
  std::string why;        // what made auto choose it; before it the rows of each of several devices
};

/// Owned results on the host: rows x k.
class Selection {
 public:
  Selection() = default;
  Selection(std::int64_t rows, std::int64_t k, ValueType type, std::int64_t payload_size);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t k() const noexcept { return k_; }
  ValueType type() const noexcept { return type_; }
  std::int64_t payload_size() const noexcept { return payload_size_; }  // 0: none
  const void* values() const noexcept { return values_.get(); }
  const std::int64_t* ids() const noexcept { return ids_.get(); }
  const void* payload() const noexcept { return payload_.get(); }
  std::int64_t id(std::int64_t row, std::int64_t rank) const noexcept {
    return ids_[static_cast<std::size_t>(row * k_ + rank)];
  }
  template <class T>
  T value(std::int64_t row, std::int64_t rank) const noexcept {
    return reinterpret_cast<const T*>(values_.get())[row * k_ + rank];
  }
  SelectionView view() noexcept;
  std::shared_ptr<const void> shared_values() const noexcept { return values_; }
  std::shared_ptr<const void> shared_ids() const noexcept { return ids_; }
  std::shared_ptr<const void> shared_payload() const noexcept { return payload_; }

  SelectStats stats;

 private:
  std::int64_t rows_ = 0, k_ = 0;
  ValueType type_ = ValueType::f32;
  std::int64_t payload_size_ = 0;
  std::shared_ptr<std::byte[]> values_;
  std::shared_ptr<std::int64_t[]> ids_;
  std::shared_ptr<std::byte[]> payload_;
};

/// The k smallest (largest) values of each row, in the total order -inf < finite < +inf, -0 equal to +0, ties by lowest
/// position, NaN after everything in both directions and NaNs by position. Values keep their bits. Any k up to the
/// columns, any number of columns. Values are on the host; for values in device memory there is select_k_into.
/// Throws Error: InvalidArgument (k, an unknown algorithm, one that cannot take this problem and why), DeviceError,
/// OutOfMemory, Cancelled.
Selection select_k(const Values& values, const SelectOptions& options = {}, const Payload& payload = {});
/// The same into the caller's memory. `out.rows` and `out.k` must be values.rows and options.k. On error the contents
/// of `out` are unspecified.
SelectStats select_k_into(const SelectionView& out, const Values& values, const SelectOptions& options = {},
                          const Payload& payload = {});

struct SelectAlgorithm {
  std::string_view name;     // "quick"
  std::string_view devices;  // "cpu", "cuda", "cpu cuda"
  std::string_view source;   // paper and section
  std::string_view about;    // one line
};
/// "auto" first.
std::span<const SelectAlgorithm> select_algorithms() noexcept;

struct SelectChoice {
  std::string_view name;
  std::string refusal;  // why it cannot take the selection; empty: it can
};
/// The algorithms of the device that would select, and which of them can. Nothing is read or selected. Throws as
/// select_k does for arguments that no algorithm takes.
std::vector<SelectChoice> select_choices(const Values& values, const SelectOptions& options = {});

}  // namespace vicinal
