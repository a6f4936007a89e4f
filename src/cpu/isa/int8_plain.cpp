// Tiles of int8 as the loop that defines them (kernels.hpp), for any CPU; the vector files are tested against this one.
#include <cstring>

#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 4;

void tile(const Int8TileArgs& a) {
  for (int query = 0; query < a.query_panels * query_lanes; ++query) {
    const std::int32_t* q = a.queries + (query / query_lanes) * a.dims * query_lanes + query % query_lanes;
    for (int panel = 0; panel < a.row_panels; ++panel) {
      const std::int32_t* r = a.rows + panel * a.dims * panel_rows;
      std::int32_t t[panel_rows] = {};
      for (std::int64_t k = 0; k < a.dims; ++k) {
        std::int8_t four_q[4];
        std::memcpy(four_q, q + k * query_lanes, 4);
        for (int j = 0; j < panel_rows; ++j) {
          std::uint8_t four_r[4];
          std::memcpy(four_r, r + k * panel_rows + j, 4);
          for (int c = 0; c < 4; ++c) t[j] += std::int32_t{four_q[c]} * std::int32_t{four_r[c]};
        }
      }
      std::uint32_t rows = 0;
      std::uint32_t columns = 0;
      std::int32_t u[panel_rows];
      for (int j = 0; j < panel_rows; ++j) {
        const int row = panel * panel_rows + j;
        if (a.column_thresholds != nullptr) {
          u[j] = t[j] + a.query_term[query];
          if (!(u[j] < a.column_thresholds[row])) columns |= 1u << j;
        }
        t[j] += a.row_term[row];
        if (!(t[j] < a.thresholds[query])) rows |= 1u << j;
      }
      if (rows != 0) a.on_hit(a.context, query, panel, rows, t);
      if (columns != 0) a.on_column_hit(a.context, query, panel, columns, u);
    }
  }
}

void second_sums(const SecondArgs& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::uint8_t* row = a.rows + std::int64_t{a.index[i]} * a.stride;
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < a.stride; ++k)
      sum += a.quantization_errors[k] * (row[k] >> 4) + a.firsts[k] * (row[k] & 15);
    a.out[i] = sum;
  }
}

bool supported() { return true; }

}  // namespace

constexpr Int8Kernels int8_plain = {"plain", supported, query_lanes, QueryLayout::quads, tile, second_sums};
static_assert(int8_plain.complete());

}  // namespace vicinal::cpu
