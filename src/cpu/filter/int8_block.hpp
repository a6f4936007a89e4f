// What one thread lends the filters of int8 for one block of queries, and the units of their sums.
#pragma once
#include "core/divide.hpp"
#include "cpu/filter/block_filter.hpp"

namespace vicinal::cpu {

/// What both filters of int8 need of one block.
struct Int8Block {
  const Int8Kernels& kernels;
  const float* steps;           // of the queries of each of the block's panels
  FilterNorms largest;          // maxima over all rows of the corpus
  std::int32_t* threshold_int;  // [padded queries], in units of the sums: what the tile kernel compares with
  std::int32_t* biases;         // [tile_rows], what the sums of the tile's rows start from
  std::int32_t* partial;        // scratch, see TileArgs
  /// What a sum of the query and a row of the tile counts, in units of the filter.
  double unit_of(const QueryBlock& block, int query, std::int64_t tile) const noexcept {
    return int8_unit(block.model.sum, steps[query / kernels.query_lanes],
                     block.chunk.steps[static_cast<std::size_t>(tile)]);
  }
  int padded_queries(int queries) const noexcept { return rounded_up(queries, kernels.query_lanes); }
  std::int64_t panel_size(std::int64_t columns) const noexcept {
    return query_width(kernels.layout, quads_of(columns)) * kernels.query_lanes;
  }
  const std::int32_t* panels(const PackedQueries& queries, std::int64_t block, std::int64_t dims) const noexcept {
    return queries.quads.data() + block * queries.block_size(query_width(kernels.layout, quads_of(dims)));
  }
};

}  // namespace vicinal::cpu
