// What a file holds, before it is asked whether it will do as vectors, ids or distances: a 2-d array of items
// at any strides, alignment and byte order. Also the ways to walk one when it is converted or written.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "io/bytes.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/select.hpp"

namespace vicinal::io {

using Item = ValueType;

/// As NumPy spells it: "float32", "int64".
const char* item_name(Item item) noexcept;
Item item_of(DType type) noexcept;
/// The type of vectors that holds such items; none for those that only ids or nothing can be.
std::optional<DType> vector_type(Item item) noexcept;

struct Array {
  const std::byte* data = nullptr;
  Item item = Item::f32;
  bool swapped = false;  // items are big-endian
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride = 0, col_stride = 0;  // bytes
  bool flat = false;                            // one row or column, to be written as a 1-d array
  bool mapped = true;                           // false: decoded into memory
  std::shared_ptr<const void> keeper;           // of the memory behind data
  std::string note;                             // how text that can be read in two ways was read; empty: no choice

  /// Row-major and without gaps.
  static Array dense(const void* data, Item item, std::int64_t rows, std::int64_t cols) noexcept;
  /// One row, a 1-d array in files.
  static Array line(const void* data, Item item, std::int64_t count) noexcept;
  static Array view(const Points& points) noexcept;
  /// "(1000, 64)"
  std::string shape() const;
};

/// Anything that takes bytes in order: a file, a checksum in front of one.
struct Sink {
  virtual ~Sink() = default;
  virtual void append(Bytes bytes) = 0;
};

/// A whole file on its way, on a disk or in memory: what was appended may be overwritten.
struct FileSink : Sink {
  /// The size that the file will have.
  virtual void expect(std::uint64_t total) = 0;
  virtual void patch(std::uint64_t offset, Bytes bytes) = 0;
  virtual std::uint64_t size() const noexcept = 0;
};

/// Items of columns [first, first + count) of one row, side by side in this machine's byte order.
void copy_items(const Array& array, std::int64_t row, std::int64_t first, std::int64_t count, std::byte* out) noexcept;

/// Every row in turn: `prefix`, then its items as `stored` (the array's own type; or int32, or the same bits as uint64,
/// for int64 ids that were checked to fit). Uses a few KiB, whatever the array's size and strides.
void append_rows(Sink& out, const Array& array, Item stored, Bytes prefix = {});

}  // namespace vicinal::io
