// An image's rows as tiles of int8 take them: whole numbers of 8 bits, in the form of either side of a tile.
#pragma once
#include <cstdint>
#include <optional>

#include "backend/match.hpp"
#include "core/buffer.hpp"
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

/// How rows become bytes. plain: u8. shifted: i8 plus 128, at the same distances. bits: packed, a byte each, whose squared distance is the
/// number of differing bits. rounded: floats that are whole numbers from 0 to 255.
enum class ByteForm : std::uint8_t { plain, shifted, bits, rounded };

/// What scores of bytes are (BestTwoArgs): the negative square of the distance, or the product.
enum class ScoreKind : std::uint8_t { square, root, product };

/// A ByteMatching says how a spec is carried out by bytes.
struct ByteMatching {
  ByteForm form = ByteForm::plain;
  ScoreKind kind = ScoreKind::square;
  std::int64_t columns = 0;  // bytes of a row

  bool doubled() const noexcept { return kind != ScoreKind::product; }
  std::int64_t quads() const noexcept { return (columns + 3) / 4; }
  /// The key of the rule.
  double key(std::int32_t score) const noexcept;
};

/// Null where distances are not of bytes; reads rows of floats, once, to see whether they are whole numbers.
std::optional<ByteMatching> byte_matching(const MatchSpec& spec);

/// A PackedImage has the rows of one image as rows and as queries of a tile; absent ones score below all others.
class PackedImage {
 public:
  PackedImage() = default;
  PackedImage(const Points& points, const ByteMatching& matching, const BestTwoKernel& kernel);
  static std::int64_t bytes(std::int64_t rows, const ByteMatching& matching, const BestTwoKernel& kernel) noexcept;

  std::int64_t rows = 0;
  std::int64_t row_panels = 0, query_panels = 0;
  Buffer<std::int32_t> panels, queries;  // as BestTwoArgs has them
  Buffer<std::int32_t> row_term, query_term;
};

}  // namespace vicinal::cpu
