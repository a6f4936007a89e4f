// Tiles of int8 as the loop that defines them (kernels.hpp), for any CPU; the vector files are tested against this one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/bound_groups.hpp"
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
      if (a.distances != nullptr) {
        if (query > 0) return;
        for (int row = panel * panel_rows; row < (panel + 1) * panel_rows; ++row)
          a.distances[row] = t[row % panel_rows] + a.row_term[row];
        continue;
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

void biases(const Int8BiasArgs& a) {
  for (std::int64_t r = 0; r < a.count; ++r) {
    const double bias = -static_cast<double>(a.terms[r]) * a.inverse;
    a.out[r] = static_cast<std::int32_t>(bias < a.most ? std::ceil(std::max(bias, -a.most)) : a.most);
  }
}

void distances(const Int8DistanceArgs& a) {
  for (std::int64_t r = 0; r < a.count; ++r)
    a.t[r] = product_distance(a.terms[r], static_cast<double>(a.sums[r]) - a.shift, a.unit);
}

void second_sums(const SecondArgs& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::uint8_t* row = a.rows + std::int64_t{a.index[i]} * a.stride;
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < a.stride; ++k)
      sum += a.second_codes[k] * (row[k] >> 4) + a.first_codes[k] * (row[k] & 15);
    a.out[i] = sum;
  }
}

/// acc of one query and one row, `lanes` and panel_rows words from one quad to the next.
std::int32_t products(const std::int32_t* q, const std::int32_t* r, std::int64_t dims) {
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < dims; ++k) {
    std::int8_t four_q[4];
    std::uint8_t four_r[4];
    std::memcpy(four_q, q + k * query_lanes, 4);
    std::memcpy(four_r, r + k * panel_rows, 4);
    for (int c = 0; c < 4; ++c) sum += std::int32_t{four_q[c]} * std::int32_t{four_r[c]};
  }
  return sum;
}

/// It takes the largest score of a group into those of the groups before; true where the best rises.
bool see(std::int32_t score, std::int32_t& best, std::int32_t& others) {
  const bool rises = score > best;
  others = std::max(others, rises ? best : score);
  if (rises) best = score;
  return rises;
}

void group_best(const GroupBestArgs& a) {
  std::vector<std::int32_t> of_rows(static_cast<std::size_t>(a.row_panels) * panel_rows, INT32_MIN);
  for (int query = 0; query < a.query_panels * query_lanes; ++query) {
    const std::int32_t* q = a.queries + (query / query_lanes) * a.dims * query_lanes + query % query_lanes;
    std::int32_t most = INT32_MIN;
    for (int row = 0; row < a.row_panels * panel_rows; ++row) {
      const std::int32_t* r = a.rows + (row / panel_rows) * a.dims * panel_rows + row % panel_rows;
      const std::int32_t score = (a.doubled ? 2 : 1) * products(q, r, a.dims) + a.query_term[query] + a.row_term[row];
      most = std::max(most, score);
      auto& of_row = of_rows[static_cast<std::size_t>(row)];
      of_row = std::max(of_row, score);
    }
    const int at = query * state_lanes;
    if (see(most, a.lane_best[at], a.lane_others[at])) a.lane_tile[at] = a.tile;
  }
  for (std::size_t row = 0; row < of_rows.size(); ++row)
    if (see(of_rows[row], a.row_best[row], a.row_others[row])) a.row_block[row] = a.block;
}

BestOfGroup best_of_group(const BestOfGroupArgs& a) {
  BestOfGroup found;
  for (int row = 0; row < a.row_panels * panel_rows; ++row) {
    const std::int32_t* r = a.rows + (row / panel_rows) * a.dims * panel_rows + row % panel_rows;
    const std::int32_t score = (a.doubled ? 2 : 1) * products(a.query, r, a.dims) + a.query_term + a.row_term[row];
    if (found.row < 0 && score == a.score) found.row = row;
    else found.others = std::max(found.others, score);
  }
  return found;
}

bool supported() { return true; }

}  // namespace

constexpr Int8Kernels int8_plain = {.name = "plain",
                                    .supported = supported,
                                    .query_lanes = query_lanes,
                                    .layout = QueryLayout::quads,
                                    .tile = tile,
                                    .biases = biases,
                                    .distances = distances,
                                    .second_sums = second_sums,
                                    .matching = {query_lanes, QueryLayout::quads, group_best, best_of_group}};
static_assert(int8_plain.complete());

}  // namespace vicinal::cpu
