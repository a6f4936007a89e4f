// See kd_tree.hpp.
#include "cpu/kd_tree/kd_tree.hpp"

#include <algorithm>

#include "core/divide.hpp"
#include "cpu/kd_tree/box.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t fan = KdTree::fan;

std::int64_t runs_of(std::int64_t count) noexcept { return divide_up(count, fan); }

}  // namespace

void KdTree::build(const double* points, std::int64_t from, std::int64_t dims, ThreadPool& thread_pool) {
  count = from;
  width = kd_tree_width(dims);
  if (order.size() < count) order = Buffer<std::uint32_t>(count);
  kd_tree_order(points, count, dims, thread_pool, order.data());
  levels.clear();
  const std::int64_t node = width * fan;
  if (rows.size() < runs_of(count) * node) rows = Buffer<double>(runs_of(count) * node);
  for (std::int64_t boxes = runs_of(count); boxes > 0; boxes = runs_of(boxes)) {
    const std::int64_t size = runs_of(boxes) * node;
    levels.push_back({boxes, Buffer<double>(size), Buffer<double>(size)});
    if (boxes <= fan) break;
  }
  const auto box_at = [&](std::int64_t box, int j) { return box / fan * node + j * fan + box % fan; };
  thread_pool.for_each(levels.empty() ? 0 : runs_of(levels[0].count), [&](std::int64_t first, int) {
    Level& leaves = levels[0];
    std::fill_n(leaves.low.data() + first * node, node, 0.0);
    std::fill_n(leaves.high.data() + first * node, node, 0.0);
    for (std::int64_t leaf = first * fan; leaf < std::min(leaves.count, (first + 1) * fan); ++leaf) {
      const std::int64_t used = std::min(fan, count - leaf * fan);
      for (std::int64_t i = (leaf + 1) * fan; i < std::min(count, (leaf + 2) * fan); ++i)
        __builtin_prefetch(points + order[i] * dims);
      double* const columns = rows.data() + leaf * node;
      std::fill_n(columns, node, 0.0);
      const Box box = box_of(0, used, dims, [&](std::int64_t i) {
        const double* point = points + order[leaf * fan + i] * dims;
        for (std::int64_t j = 0; j < dims; ++j) columns[j * fan + i] = point[j];
        return point;
      });
      for (int j = 0; j < dims; ++j) {
        leaves.low[box_at(leaf, j)] = box.low[j];
        leaves.high[box_at(leaf, j)] = box.high[j];
      }
    }
    thread_pool.poll(0);
  });
  for (std::size_t l = 1; l < levels.size(); ++l) {
    Level &above = levels[l], &below = levels[l - 1];
    std::fill_n(above.low.data(), above.low.size(), 0.0);
    std::fill_n(above.high.data(), above.high.size(), 0.0);
    for (std::int64_t box = 0; box < above.count; ++box)
      for (int j = 0; j < width; ++j) {
        const std::int64_t at = box * node + j * fan, used = std::min(fan, below.count - box * fan);
        above.low[box_at(box, j)] = *std::min_element(below.low.data() + at, below.low.data() + at + used);
        above.high[box_at(box, j)] = *std::max_element(below.high.data() + at, below.high.data() + at + used);
      }
  }
}

std::int64_t KdTree::bytes() const noexcept {
  std::int64_t total = order.bytes() + rows.bytes();
  for (const Level& level : levels) total += level.low.bytes() + level.high.bytes();
  return total;
}

std::int64_t KdTree::bytes(std::int64_t rows, std::int64_t dims) noexcept {
  const std::int64_t leaf = kd_tree_width(dims) * fan * 8, leaves = runs_of(rows);
  // The points, and rows by column, twice, while they are split; boxes are less than a 15th of the leaves but for what
  // fills up a node of each level.
  return rows * (dims * 8 + 2 * 8 + 4) + leaves * (leaf + leaf / 15) + 16 * leaf;
}

}  // namespace vicinal::cpu
