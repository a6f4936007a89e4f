// Rows of an image as bytes, where distances of bytes are the distances that a matching asks for; and in which order
// pairs of images are taken where not all of them fit in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/match.hpp"

namespace vicinal {

/// How rows become bytes. plain: u8. shifted: i8 plus 128, at the same distances. bits: packed, a byte each, whose
/// squared distance is the number of differing bits. rounded: floats that are whole numbers from 0 to 255.
enum class ByteForm : std::uint8_t { plain, shifted, bits, rounded };

/// A ByteMatching says how a spec is carried out by bytes.
struct ByteMatching {
  ByteForm form = ByteForm::plain;
  ScoreKind kind = ScoreKind::square;
  std::int64_t columns = 0;  // bytes of a row

  bool doubled() const noexcept { return kind != ScoreKind::product; }
};

/// Null where distances are not of bytes. read: whether the host reads rows of floats, once, to see whether they are
/// whole numbers.
std::optional<ByteMatching> byte_matching(const MatchSpec& spec, bool read);

/// Scores of rows of more bytes leave 32 bits.
inline constexpr std::int64_t most_byte_columns = 16384;
/// What scores of a row or query that is absent have of it; two of them are the least score.
inline constexpr std::int32_t absent_term = -(1 << 30);

/// Pairs in waves whose images fit a budget together. Pairs with a side without rows are left out.
class PairWaves {
 public:
  /// bytes: of an image by its number.
  PairWaves(const MatchSpec& spec, std::function<std::int64_t(std::int64_t)> bytes, std::int64_t budget);

  /// The next pairs; none: all are done. Throws MemoryBudget where a pair does not fit.
  std::span<const std::int64_t> next();
  /// Whether an image is of the pairs that next() returned.
  bool wanted(std::size_t image) const { return wanted_[image]; }

 private:
  const MatchSpec& spec_;
  std::function<std::int64_t(std::int64_t)> bytes_;
  std::int64_t budget_;
  std::vector<std::int64_t> order_;
  std::size_t done_ = 0;
  std::vector<bool> wanted_;
};

}  // namespace vicinal
