// FILTER where rows are in groups (groups.hpp): queries near each other share a panel, and a panel visits the tiles in the order
// of their distance, until the next one is farther than the k-th of all its queries.
#include <algorithm>
#include <limits>
#include <numeric>

#include "cpu/load.hpp"
#include "cpu/session.hpp"

namespace vicinal::cpu {

void CpuSession::group_queries(const Points& queries) {
  const std::int64_t dims = queries.cols, count = static_cast<std::int64_t>(rows_.size()), lanes = kernels_.query_lanes;
  const std::int64_t block = block_of(plan_, rung_), panels = (block + lanes - 1) / lanes;
  Buffer<double> points(count * dims), scratch(dims);
  for (std::int64_t i = 0; i < count; ++i)
    load_row(kernels_, queries, rows_[static_cast<std::size_t>(i)], scratch.data(), points.data() + i * dims);
  query_boxes_.clear();
  if (kernels_.first_bad(points.data(), points.size()) >= 0) return;  // they are reported when they are prepared
  std::vector<std::uint32_t> order(rows_.size());
  group_rows(points.data(), count, dims, lanes, lanes, team_, order.data());
  given_.assign(order.begin(), order.end());
  const std::vector<std::int64_t> before = rows_;
  for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i] = before[order[i]];
  query_boxes_.assign(static_cast<std::size_t>((count + block - 1) / block * panels), Box(dims));
  for (std::int64_t i = 0; i < count; ++i)
    query_boxes_[static_cast<std::size_t>(i / block * panels + i % block / lanes)].take(
        points.data() + given_[static_cast<std::size_t>(i)] * dims);
}

void CpuSession::filter_groups() {
  team_.for_each(queries_.block_count() * queries_.block_panels,
                 [&](std::int64_t panel, int number) { search_panel(worker(number), panel); });
}

namespace {

struct Near {
  double gap;
  std::int64_t number;
  bool operator<(const Near& other) const noexcept {
    return gap < other.gap || (gap == other.gap && number < other.number);
  }
};

}  // namespace

void CpuSession::search_panel(Worker& own, std::int64_t panel) {
  const PackedQueries::Part part = queries_.part(panel);
  if (part.used == 0) return;
  FilterTask piece = task(own, 0, part.begin, part.used);
  const float* packed = queries_.panels.data() + panel * queries_.lanes * model_->dims;
  const Box& box = query_boxes_[static_cast<std::size_t>(panel)];
  const auto near_of = [&](const Box& other, std::int64_t number) {
    return Near{box.gap(other, model_->form), number};
  };
  const auto too_far = [&](const Near& one) {
    double theta = -infinite;
    for (int q = 0; q < piece.queries; ++q)
      if (!piece.states[q].abandoned) theta = std::max(theta, piece.states[q].theta);
    return beyond_box(*model_, one.gap, theta);
  };
  std::vector<Near> tiles(chunk().boxes.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = near_of(chunk().boxes[i], static_cast<std::int64_t>(i));
  std::size_t sorted = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (i == sorted) {  // a few at a time: most are never reached
      sorted = std::min(tiles.size(), 2 * sorted + 16);
      std::partial_sort(tiles.begin() + static_cast<std::ptrdiff_t>(i),
                        tiles.begin() + static_cast<std::ptrdiff_t>(sorted), tiles.end());
    }
    if (too_far(tiles[i])) break;
    team_.tick(0);
    piece.tile = tiles[i].number;
    if (!any_eligible(piece.tile)) continue;
    piece.face(chunk().tiles[static_cast<std::size_t>(piece.tile)], kernels_.query_lanes);
    Near panels[tile_panels];
    const std::int64_t first = piece.tile * tile_panels,
                       count = std::min<std::int64_t>(tile_panels,
                                                      static_cast<std::int64_t>(chunk().panel_boxes.size()) - first);
    for (std::int64_t p = 0; p < count; ++p)
      panels[p] = near_of(chunk().panel_boxes[static_cast<std::size_t>(first + p)], p);
    for (std::int64_t p = 1; p < count; ++p)
      for (std::int64_t at = p; at > 0 && panels[at] < panels[at - 1]; --at) std::swap(panels[at], panels[at - 1]);
    for (std::int64_t p = 0; p < count && !too_far(panels[p]); ++p) {
      piece.run_panel(packed, 1, own.partial.data(), static_cast<int>(panels[p].number));
      for (int q = 0; q < piece.queries && !question_.radius; ++q) {
        const QueryState& state = piece.states[q];
        if (!state.abandoned &&
            state.count >= (state.theta < infinite ? 2 * question_.k + panel_rows / 2 : question_.k))
          piece.drop(q);
      }
    }
  }
  team_.tick(static_cast<std::uint64_t>(piece.queries) * static_cast<std::uint64_t>(chunk().count));
}

}  // namespace vicinal::cpu
