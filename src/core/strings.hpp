// Strings as searches read them: checked, every symbol replaced by a small code, in ascending order of length so that
// neighbours in memory have neighbouring lengths. Rows are kept beside.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "vicinal/strings.hpp"

namespace vicinal {

/// Where UTF-8 first goes wrong, counted in bytes, or -1.
std::int64_t first_invalid_utf8(std::string_view text) noexcept;

/// Throws InvalidArgument unless the offsets ascend and end within the data.
void check_offsets(const Strings& strings, const char* side);

/// Every symbol of both sides of a search, numbered from 1.
class Alphabet {
 public:
  /// Checks every string of one side and adds its symbols; returns the lengths in symbols. `side` is "corpus" or
  /// "query". Throws InvalidArgument (offsets, max_length) and InvalidValue (no code point, invalid UTF-8).
  std::vector<std::int64_t> read(const Strings& strings, const char* side, std::int64_t max_length,
                                 ThreadPool& thread_pool);
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(symbols_.size()); }
  std::uint32_t code(std::uint32_t symbol) const noexcept { return (*pages_[symbol >> 8])[symbol & 255]; }
  /// The same for a symbol that need not be there: then 0.
  std::uint32_t find(std::uint32_t symbol) const noexcept { return pages_[symbol >> 8] ? code(symbol) : 0; }
  std::uint32_t symbol(std::uint32_t code) const noexcept { return symbols_[code - 1]; }

 private:
  void add(std::uint32_t symbol);
  using Page = std::array<std::uint32_t, 256>;
  std::array<std::unique_ptr<Page>, 0x1100> pages_;
  std::vector<std::uint32_t> symbols_;
};

class StringSet {
 public:
  /// `lengths` and `alphabet` as Alphabet::read left them.
  StringSet(const Strings& strings, const std::vector<std::int64_t>& lengths, const Alphabet& alphabet,
            ThreadPool& thread_pool);
  /// Bytes that the constructor takes.
  static std::int64_t bytes(const std::vector<std::int64_t>& lengths, std::int64_t alphabet);

  // Positions 0..count()-1 are in ascending order of (length, row).
  std::int64_t count() const noexcept { return rows_.size(); }
  std::int64_t longest() const noexcept { return count() == 0 ? 0 : length(count() - 1); }
  std::int64_t symbols() const noexcept { return count() == 0 ? 0 : offsets_[count()]; }
  std::int64_t row(std::int64_t at) const noexcept { return rows_[at]; }
  std::int64_t length(std::int64_t at) const noexcept { return offsets_[at + 1] - offsets_[at]; }
  /// First position whose string is at least this long.
  std::int64_t first_of_length(std::int64_t length) const noexcept;
  /// Codes are bytes where the alphabet has at most 255 symbols, else 32-bit words.
  bool narrow() const noexcept { return narrow_; }
  const std::uint8_t* bytes_at(std::int64_t at) const noexcept { return bytes_.data() + offsets_[at]; }
  const std::uint32_t* words_at(std::int64_t at) const noexcept { return words_.data() + offsets_[at]; }
  const std::int64_t* offsets() const noexcept { return offsets_.data(); }
  /// Calls use(codes) with the string's codes, of either type.
  template <class Use>
  auto with_codes(std::int64_t at, const Use& use) const {
    return narrow_ ? use(bytes_at(at)) : use(words_at(at));
  }

 private:
  bool narrow_;
  Buffer<std::uint8_t> bytes_;
  Buffer<std::uint32_t> words_;
  Buffer<std::int64_t> offsets_, rows_;
};

}  // namespace vicinal
