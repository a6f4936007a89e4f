// NumPy's array format, as a file of its own (.npy) and as a member of an npz. Versions 1 to 3 are read, 1 is
// written. The header is a Python literal of a fixed shape; nothing in it is evaluated.
#pragma once
#include <string>
#include <vector>

#include "io/format.hpp"

namespace vicinal::io {

struct NpyHeader {
  std::optional<Item> item;  // none: a type that no call here takes
  std::string dtype;         // its name for messages: "float32", "complex128", "object", "structured"
  bool swapped = false;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;  // not filled for structured types
  std::size_t data_offset = 0;

  /// "(1000, 64)", "(64,)"
  std::string shape_text() const;
};

constexpr std::size_t npy_largest_header = 65536;
/// Bytes of the file before the data, from its first 12; 0 when these are not the start of a .npy file.
std::uint64_t npy_data_offset(Bytes beginning) noexcept;
/// From the start of an array file; `size` is the length of all of it. `where` is the file (and member) for messages.
/// Throws FormatError, and VersionError for a version after 3.
NpyHeader npy_header(const std::string& where, Bytes beginning, std::uint64_t size);
/// The array itself; 1-d for Role as_range, either for as_values, else 2-d. Throws InvalidArgument (type, number of
/// dimensions) and FormatError (objects, size).
Array npy_array(const std::string& where, Bytes file, Role role);

/// Bytes that npy_append writes.
std::uint64_t npy_size(const Named& named);
void npy_append(Sink& out, const Named& named);

}  // namespace vicinal::io
