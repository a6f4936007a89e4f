// See kd_tree.hpp.
#include "cpu/kd_tree/kd_tree.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace vicinal::cpu {
namespace {

constexpr std::int64_t fan = KdTree::fan;
constexpr std::int64_t serial_rows = 4096;  // parts this small are one piece of work

/// A row by the column that is split.
struct ByColumn {
  double x;
  std::uint32_t row;
  bool operator<(const ByColumn& other) const noexcept { return x < other.x || (x == other.x && row < other.row); }
};

class Splitter {
 public:
  Splitter(const double* points, std::int64_t rows, std::int64_t dims, std::uint32_t* order)
      : points_(points), dims_(dims), order_(order), by_column_(rows) {}

  /// Splits [begin, end) at the median of the column that spreads most, between whole runs; returns where.
  std::int64_t split(std::int64_t begin, std::int64_t end) {
    double low[most_kd_tree_dims], high[most_kd_tree_dims];
    std::fill_n(low, dims_, std::numeric_limits<double>::infinity());
    std::fill_n(high, dims_, -std::numeric_limits<double>::infinity());
    for (std::int64_t i = begin; i < end; ++i) {
      const double* point = points_ + order_[i] * dims_;
      for (std::int64_t j = 0; j < dims_; ++j) {
        low[j] = std::min(low[j], point[j]);
        high[j] = std::max(high[j], point[j]);
      }
    }
    std::int64_t widest = 0;
    for (std::int64_t j = 1; j < dims_; ++j)
      if (high[j] - low[j] > high[widest] - low[widest]) widest = j;
    std::int64_t run = fan;
    while (run * fan < end - begin) run *= fan;
    const std::int64_t runs = (end - begin + run - 1) / run, middle = begin + runs / 2 * run;
    for (std::int64_t i = begin; i < end; ++i) by_column_[i] = {points_[order_[i] * dims_ + widest], order_[i]};
    std::nth_element(by_column_.data() + begin, by_column_.data() + middle, by_column_.data() + end);
    for (std::int64_t i = begin; i < end; ++i) order_[i] = by_column_[i].row;
    return middle;
  }

  void split_all(std::int64_t begin, std::int64_t end, ThreadPool& thread_pool) {
    while (end - begin > fan) {
      thread_pool.poll(0);
      const std::int64_t middle = split(begin, end);
      split_all(begin, middle, thread_pool);
      begin = middle;
    }
  }

 private:
  const double* points_;
  std::int64_t dims_;
  std::uint32_t* order_;
  Buffer<ByColumn> by_column_;
};

std::int64_t runs_of(std::int64_t count) noexcept { return (count + fan - 1) / fan; }

}  // namespace

void kd_tree_order(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool,
                   std::uint32_t* order) {
  std::iota(order, order + rows, 0u);
  Splitter splitter(points, rows, dims, order);
  struct Part {
    std::int64_t begin, end;
  };
  std::vector<Part> parts{{0, rows}};
  const std::int64_t most = std::max(serial_rows, rows / (4 * thread_pool.threads()));
  for (std::size_t i = 0; i < parts.size(); ++i)
    while (parts[i].end - parts[i].begin > most) {
      thread_pool.poll(0);
      const std::int64_t middle = splitter.split(parts[i].begin, parts[i].end);
      parts.push_back({middle, parts[i].end});
      parts[i].end = middle;
    }
  thread_pool.for_each(static_cast<std::int64_t>(parts.size()), [&](std::int64_t i, int) {
    const Part part = parts[static_cast<std::size_t>(i)];
    splitter.split_all(part.begin, part.end, thread_pool);
  });
}

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
      for (int j = 0; j < width; ++j) {
        double* column = rows.data() + leaf * node + j * fan;
        for (std::int64_t i = 0; i < fan; ++i)
          column[i] = i < used && j < dims ? points[order[leaf * fan + i] * dims + j] : 0.0;
        const auto [low, high] = std::minmax_element(column, column + used);
        leaves.low[box_at(leaf, j)] = *low;
        leaves.high[box_at(leaf, j)] = *high;
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
  // The points, and rows by column while they are split; boxes are less than a 15th of the leaves but for what fills up a node of each level.
  return rows * (dims * 8 + 16 + 4) + leaves * (leaf + leaf / 15) + 16 * leaf;
}

}  // namespace vicinal::cpu
