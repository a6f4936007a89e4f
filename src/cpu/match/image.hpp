// An image's rows as tiles of int8 take them: whole numbers of 8 bits, in the form of either side of a tile.
#pragma once
#include <cstdint>

#include "core/buffer.hpp"
#include "cpu/isa/kernels.hpp"
#include "prepare/byte_rows.hpp"

namespace vicinal::cpu {

/// Four columns side by side are a quad.
constexpr std::int64_t quads_of(const ByteMatching& matching) noexcept { return (matching.columns + 3) / 4; }

/// A PackedImage has the rows of one image as rows and as queries of a tile; absent ones score below all others.
class PackedImage {
 public:
  PackedImage() = default;
  PackedImage(const Points& points, const ByteMatching& matching, const MatchKernel& kernel);
  static std::int64_t bytes(std::int64_t rows, const ByteMatching& matching, const MatchKernel& kernel) noexcept;

  std::int64_t rows = 0;
  std::int64_t row_panels = 0, query_panels = 0;
  Buffer<std::int32_t> panels, queries;  // as GroupBestArgs has them
  Buffer<std::int32_t> row_term, query_term;
};

}  // namespace vicinal::cpu
