// PREPARE, for refinement (rerank/refine.cuh): queries that lie in bytes
// are rounded once more, to two bytes a column (core/bound_two_bytes.hpp).
#pragma once
#include "core/bound_two_bytes.hpp"
#include "cuda/search/prepare/pack_int8.cuh"

namespace vicinal::cuda {

/// A block rounds as many queries of a tile as it has lanes for, since few queries have few tiles.
inline constexpr int rounded_a_block = prepare_threads / row_lanes;
inline std::int64_t rounding_blocks(const PreparedMatrix& matrix) {
  return matrix.tiles() * (tile_rows / rounded_a_block);
}
/// It makes the second bytes of queries, which lie as the first ones do, and what was measured, eight lanes a query.
template <class Columns>
__global__ void __launch_bounds__(prepare_threads) round_again(Prepare args) {
  // Eight lanes a query: what its first byte leaves of a column is rounded.
  const PreparedMatrix& matrix = args.matrix;
  constexpr int blocks_a_tile = tile_rows / rounded_a_block;
  const int number = static_cast<int>(blockIdx.x) / blocks_a_tile;
  const PackedTile tile = packed_tile(matrix, number);
  const TileMetadata& metadata = matrix.tile_metadata[number];
  const int part = lane_index() % row_lanes, width = static_cast<int>(matrix.width);
  const auto step = static_cast<double>(metadata.step);
  const double inverse = metadata.inverse / second_byte_step;
  const int r = static_cast<int>(blockIdx.x) % blocks_a_tile * rounded_a_block + thread_index() / row_lanes;
  const std::int64_t row = matrix.order[tile.begin + (r < tile.used ? r : 0)];
  const Columns columns(matrix, row);
  const RowMap map = row_map(args, row);
  const TileBytes at(matrix, tile.begin, r);
  double xx = 0, values = 0, ee = 0;
  for (int col = 4 * part; col < width; col += row_columns) {
    const typename Columns::Four four = columns.load(col);
    const float4 centre = *reinterpret_cast<const float4*>(args.transform.centre + col);
    const float centres[4] = {centre.x, centre.y, centre.z, centre.w};
    const std::int8_t* const bytes = at.line(r) + at.word(col);
    const std::uint32_t firsts = *reinterpret_cast<const std::uint32_t*>(bytes);
    std::uint32_t word = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const double shift = columns.has(col, c) ? map.shift : 0.0;
      const double x =
          fma(static_cast<double>(widened(four.at[c])) - shift, map.factor, -static_cast<double>(centres[c]));
      const auto first = static_cast<double>(static_cast<std::int8_t>(firsts >> (8 * c) & 255u));
      double second;
      const int byte = rounded_byte(fma(-first, step, x), inverse, second);
      const double value = two_byte_value(first, second), e = fma(-value, step, x);
      word |= (static_cast<std::uint32_t>(byte) & 255u) << (8 * c);
      xx = fma(x, x, xx);
      values = fma(value, value, values);
      ee = fma(e, e, ee);
    }
    *reinterpret_cast<std::uint32_t*>(matrix.second_bytes + (bytes - matrix.bytes)) = r < tile.used ? word : 0;
  }
  // The sums of the whole query.
  xx = eight_joined(xx, Plus{});
  values = eight_joined(values, Plus{});
  ee = eight_joined(ee, Plus{});
  if (part != 0 || r >= tile.used) return;
  const QuantizationErrors errors = two_byte_errors(xx, values, ee, step);
  const QuantizedQuery& one = matrix.quantized[tile.begin + r];
  matrix.two_bytes[tile.begin + r] = {filter_norms(args.model, errors), errors.nn, one.scale, one.filterable};
}

}  // namespace vicinal::cuda
