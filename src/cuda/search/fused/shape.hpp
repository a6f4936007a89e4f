// Which searches the fused kernel (search.cuh) takes, by their shape.
#pragma once
#include <cstdint>

#include "cuda/search/core/tiles.hpp"

namespace vicinal::cuda {

// Up to so many queries, neighbours and columns, from so many tiles on.
inline constexpr int fused_queries = 16;
inline constexpr std::int64_t fused_k = 64, fused_cols = 128, fused_tiles = 32;
inline constexpr bool has_fused_shape(std::int64_t queries, std::int64_t k, std::int64_t rows, std::int64_t cols) {
  return queries <= fused_queries && k >= 1 && k <= fused_k && cols <= fused_cols &&
         rows > (fused_tiles - 1) * tile_rows;
}

}  // namespace vicinal::cuda
