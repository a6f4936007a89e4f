// The corpus as the bit-parallel kernels take it (myers.hpp): blocks of words of neighbouring lengths, and what a
// worker makes of one when a group of queries comes to it: the masks of its lanes, or the windows of a band.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/buffer.hpp"
#include "core/divide.hpp"
#include "core/strings.hpp"
#include "cpu/isa/other_tables.hpp"
#include "cpu/isa/vector_macros.hpp"
#include "cpu/strings/myers.hpp"

namespace vicinal::cpu {

inline constexpr int strip_letters = 64;
inline constexpr std::int64_t most_mask_bytes = std::int64_t{8}
                                                << 20;  // beyond, a block of long words is a single word

inline std::int64_t strips_of(std::int64_t length) {
  return std::max<std::int64_t>(1, divide_up(length, strip_letters));
}

/// Bits of the narrowest lane for a word, and what words of one block share: width and strips.
inline int width_of(std::int64_t length, const Myers& myers) {
  int width = myers.narrowest;
  while (width < 64 && width < length) width *= 2;
  return width;
}

struct Block {
  std::int64_t first;
  int words, width;
  std::int64_t shortest, longest, strips;
  const Myers* myers;
  int parts = 0;  // of a band: blocks after it that are the same words in lanes as wide as they are
};

// Words of one length, as many as a band has lanes: at least half of them, else it is left to wider ones.
inline constexpr std::int64_t most_window_bytes = std::int64_t{512} << 10;
inline std::int64_t window_rows(std::int64_t length) {
  return length + 2 * band_bits;
}  // first letters from -15 to beyond the end

inline std::int64_t mask_bytes(const Myers& myers, std::int64_t symbols, std::int64_t strips) {
  return (symbols + 1) * strips * myers.block_bytes;
}

class Blocks {
 public:
  Blocks(const StringSet& set, const Myers& myers, std::int64_t alphabet) {
    for (std::int64_t at = 0; at < set.count();) {
      const std::size_t head = list_.size();
      heads_.push_back(head);
      const std::int64_t end = end_of_band(set, myers, alphabet, at);
      if (end > at)
        list_.push_back({at, static_cast<int>(end - at), band_bits, set.length(at), set.length(at), 1, &myers});
      do at = append(set, myers, alphabet, at, end > at ? end : set.count());
      while (at < end);
      list_[head].parts = static_cast<int>(list_.size() - head) - 1;
    }
  }
  /// Blocks that are not parts of others.
  std::size_t count() const noexcept { return heads_.size(); }
  const Block* at(std::size_t i) const noexcept { return &list_[heads_[i]]; }

 private:
  /// Where the words of a band end that begins at `at`; `at` itself if there is none.
  static std::int64_t end_of_band(const StringSet& set, const Myers& myers, std::int64_t alphabet, std::int64_t at) {
    const std::int64_t length = set.length(at), lanes = myers.block_bytes * 8 / band_bits;
    if (myers.band == nullptr || length <= band_bits) return at;
    if ((alphabet + 1) * window_rows(length) * myers.block_bytes > most_window_bytes) return at;
    const std::int64_t end = std::min(at + lanes, set.first_of_length(length + 1));
    return end - at < lanes / 2 ? at : end;
  }

  /// One block from `at`, in lanes as wide as its words; returns where it ends.
  std::int64_t append(const StringSet& set, const Myers& myers, std::int64_t alphabet, std::int64_t at,
                      std::int64_t until) {
    const std::int64_t length = set.length(at), strips = strips_of(length);
    const int width = width_of(length, myers);
    const bool single = strips > 1 && mask_bytes(myers, alphabet, strips) > most_mask_bytes;
    const Myers& with = single ? myers_plain : myers;
    const std::int64_t longest = strips > 1 ? strips * strip_letters : width;
    const std::int64_t end = std::min({until, at + with.block_bytes * 8 / width, set.first_of_length(longest + 1)});
    list_.push_back({at, static_cast<int>(end - at), width, length, set.length(end - 1), strips, &with});
    return end;
  }
  std::vector<Block> list_;
  std::vector<std::size_t> heads_;
};

/// Memory of one worker for bands: windows of the letters of a block's words.
class Windows {
 public:
  explicit Windows(std::int64_t alphabet) : row_(static_cast<std::size_t>(alphabet) + 1, 0) {}

  void build(const StringSet& set, const Block& block) {
    const std::int64_t letters = block.longest, row_bytes = block.myers->block_bytes,
                       symbol_bytes = window_rows(letters) * row_bytes;
    for (const std::uint32_t code : used_) row_[code] = 0;
    used_.clear();
    for (int lane = 0; lane < block.words; ++lane)
      set.with_codes(block.first + lane, [&](const auto* codes) {
        for (std::int64_t i = 0; i < letters; ++i) {
          if (row_[codes[i]] != 0) continue;
          used_.push_back(codes[i]);
          row_[codes[i]] = used_.size() * static_cast<std::uint64_t>(symbol_bytes);
        }
      });
    const std::int64_t bytes = (static_cast<std::int64_t>(used_.size()) + 1) * symbol_bytes;
    if (windows_.size() < bytes) windows_ = Buffer<std::byte>(bytes);
    std::memset(windows_.data(), 0, static_cast<std::size_t>(bytes));
    for (int lane = 0; lane < block.words; ++lane)
      set.with_codes(block.first + lane, [&](const auto* codes) {
        std::byte* const letter = windows_.data() + (band_bits - 1) * row_bytes + lane * 2;
        for (std::int64_t i = 0; i < letters; ++i)
          letter[row_[codes[i]] + static_cast<std::uint64_t>(i * row_bytes)] = std::byte{1};
      });
    for (const std::uint32_t code : used_) block.myers->windows(windows_.data() + row_[code], window_rows(letters));
  }
  const std::byte* data() const noexcept { return windows_.data(); }
  const std::uint64_t* rows() const noexcept { return row_.data(); }

 private:
  std::vector<std::uint64_t> row_;
  std::vector<std::uint32_t> used_;
  Buffer<std::byte> windows_;
};

/// Memory of one worker: the masks of a block, and the state of a query on its way through strips.
class Masks {
 public:
  explicit Masks(std::int64_t alphabet) : row_(static_cast<std::size_t>(alphabet) + 1, 0) {}

  const WordBlock& build(const StringSet& set, const Block& block) {
    const std::int64_t row_bytes = block.strips * block.myers->block_bytes;
    for (const std::uint32_t code : used_) row_[code] = 0;
    used_.clear();
    reserve(0, row_bytes);
    std::memset(masks_.data(), 0, static_cast<std::size_t>(row_bytes));
    if (lengths_.size() < block.myers->block_bytes) lengths_ = Buffer<std::byte>(block.myers->block_bytes);
    std::memset(lengths_.data(), 0, static_cast<std::size_t>(block.myers->block_bytes));
    const std::int64_t* const offsets = set.offsets() + block.first;
    set.with_codes(block.first, [&](const auto* codes) {
      find_rows(codes, codes + (offsets[block.words] - offsets[0]), row_bytes);
    });
    for (int lane = 0; lane < block.words; ++lane) {
      const std::int64_t at = block.first + lane, length = set.length(at),
                         in_lane = static_cast<std::int64_t>(lane) * block.width / 8;
      set.with_codes(at, [&](const auto* codes) {
        for (std::int64_t first = 0; first < length; first += strip_letters)
          set_letters(codes + first, static_cast<int>(std::min<std::int64_t>(strip_letters, length - first)),
                      row_.data(), masks_.data() + in_lane + first / strip_letters * block.myers->block_bytes);
      });
      const int in_last = static_cast<int>(length - (block.strips - 1) * strip_letters);
      for (int i = 0; i < in_last; i += 8)
        lengths_[in_lane + i / 8] = static_cast<std::byte>(in_last - i >= 8 ? 255 : (1 << (in_last - i)) - 1);
    }
    block_ = {masks_.data(), lengths_.data(), row_.data(), block.width, block.words, block.strips};
    return block_;
  }
  std::byte* state(std::int64_t bytes) {
    if (state_.size() < bytes) state_ = Buffer<std::byte>(bytes);
    return state_.data();
  }
  WordHits hits;

 private:
  template <class Code>
  VICINAL_APART void find_rows(const Code* codes, const Code* end, std::int64_t row_bytes) {
    std::uint64_t* const rows = row_.data();
    for (; codes != end; ++codes)
      if (rows[*codes] == 0) rows[*codes] = new_row(*codes, row_bytes);
  }
  /// Bits 0..letters-1 of one lane of one strip, in the rows of the symbols.
  template <class Code>
  VICINAL_APART static void set_letters(const Code* codes, int letters, const std::uint64_t* rows, std::byte* lane) {
    for (int first = 0; first < letters; first += 8, ++lane)
      for (int i = first; i < std::min(first + 8, letters); ++i)
        lane[rows[codes[i]]] |= static_cast<std::byte>(1u << (i - first));
  }
  std::uint64_t new_row(std::uint32_t code, std::int64_t row_bytes) {
    used_.push_back(code);
    const std::int64_t offset = static_cast<std::int64_t>(used_.size()) * row_bytes;
    reserve(offset, offset + row_bytes);
    std::memset(masks_.data() + offset, 0, static_cast<std::size_t>(row_bytes));
    return static_cast<std::uint64_t>(offset);
  }
  void reserve(std::int64_t used, std::int64_t bytes) {
    if (masks_.size() >= bytes) return;
    Buffer<std::byte> more(std::max(bytes, masks_.size() + masks_.size() / 2));
    if (used > 0) std::memcpy(more.data(), masks_.data(), static_cast<std::size_t>(used));
    masks_ = std::move(more);
  }
  std::vector<std::uint64_t> row_;
  std::vector<std::uint32_t> used_;
  Buffer<std::byte> masks_, lengths_, state_;
  WordBlock block_{};
};

}  // namespace vicinal::cpu
