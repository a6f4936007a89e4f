// Strings in memory: a view for every call that compares strings, and a list that owns what it was given.
// A symbol is a Unicode code point, or a byte where the strings are bytes; nothing is normalised or folded.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace vicinal {

/// utf8 and utf32 hold code points (a surrogate is none); bytes hold anything.
enum class Encoding : std::uint8_t { utf8, utf32, bytes };

/// String i is the units offsets[i] to offsets[i + 1]: bytes of utf8 and bytes, 32-bit words of utf32. Never owns.
struct Strings {
  const void* data = nullptr;
  const std::int64_t* offsets = nullptr;  // rows + 1 of them, ascending; the first need not be 0
  std::int64_t rows = 0;
  Encoding encoding = Encoding::utf8;
  std::int64_t units = -1;  // how many `data` holds: no offset may be larger; -1: unknown, the offsets are believed
};

/// Strings with their memory. Cheap to copy.
class StringList {
 public:
  StringList() = default;
  /// Copies. Throws OutOfMemory.
  StringList(std::span<const std::string_view> strings, Encoding encoding = Encoding::utf8);
  /// Takes over offsets of data that `keeper` keeps. The last offset is how many units the data hold.
  StringList(const void* data, std::vector<std::int64_t> offsets, Encoding encoding,
             std::shared_ptr<const void> keeper);

  Strings view() const noexcept;
  std::int64_t rows() const noexcept { return view().rows; }

 private:
  const void* data_ = nullptr;
  Encoding encoding_ = Encoding::utf8;
  std::shared_ptr<const std::vector<std::int64_t>> offsets_;
  std::shared_ptr<const void> keeper_;
};

/// How strings are read and cut into tokens; part of the options of a search.
struct StringRules {
  std::int64_t max_length = 65535;  // symbols; a longer string is InvalidArgument
  std::int64_t ngram = 0;           // jaccard: tokens are runs of this many symbols; 0: words between white space
};

}  // namespace vicinal
