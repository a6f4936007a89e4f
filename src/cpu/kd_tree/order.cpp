// The order of rows in a k-d tree (kd_tree.hpp): parts are split at the median of the column that spreads most. Large parts are split by all
// threads at once, smaller ones by a thread each.
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "core/nth.hpp"
#include "cpu/kd_tree/box.hpp"
#include "cpu/kd_tree/kd_tree.hpp"
#include "select/ordered.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t serial_rows = 4096;           // parts this small are one piece of work
constexpr std::int64_t together_rows = 65536;        // larger parts are split by all threads
constexpr std::int64_t sampled = 1024, around = 64;  // rows that say where the median is, and how far off it may be

// A box is measured again after so many cuts: where rows are in clusters it is smaller than what cuts leave.
constexpr int box_cuts = 2;

/// A row by its value of the column that is split, as an integer in the same order (select/ordered.hpp).
struct ByColumn {
  std::uint64_t value, row;
  static ByColumn of(double value, std::uint32_t row) noexcept {
    return {ordered<ValueType::f64>(std::bit_cast<std::uint64_t>(value), false), row};
  }
  bool operator<(const ByColumn& other) const noexcept { return before_pair(value, row, other.value, other.row); }
};
constexpr auto earlier = [](const ByColumn& a, const ByColumn& b) { return a < b; };

struct Part {
  std::int64_t begin, end;
  Box box = {};             // around its rows, as it was measured and has been cut since
  int cuts = box_cuts + 1;  // since it was measured; more than box_cuts: it must be
  std::int64_t size() const noexcept { return end - begin; }
  /// Where it is split: about the middle, between whole runs.
  std::int64_t middle() const noexcept {
    std::int64_t run = KdTree::fan;
    while (run * KdTree::fan < size()) run *= KdTree::fan;
    return begin + (size() + run - 1) / run / 2 * run;
  }
};

class Splitter {
 public:
  Splitter(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool, std::uint32_t* order)
      : points_(points), dims_(dims), thread_pool_(thread_pool), order_(order), by_column_(rows) {}

  /// Splits the part; it keeps what comes first, and what comes after is returned.
  Part split(Part& part) {
    thread_pool_.poll(0);
    if (part.cuts > box_cuts) measured(part, box_of_part(part));
    const std::int64_t middle = part.middle(), column = part.box.widest(dims_);
    arrange(part, middle, column);
    return halves(part, middle, column);
  }
  /// The same by all threads.
  Part split_together(Part& part) {
    thread_pool_.poll(0);
    if (part.cuts > box_cuts) measured(part, box_by_all_threads(part));
    const std::int64_t middle = part.middle(), column = part.box.widest(dims_);
    arrange_together(part, middle, column);
    return halves(part, middle, column);
  }
  void split_all(Part part) {
    while (part.size() > KdTree::fan) {
      Part first = part;
      part = split(first);
      split_all(first);
    }
  }

 private:
  ByColumn of_row(std::uint32_t row, std::int64_t column) const noexcept {
    return ByColumn::of(points_[row * dims_ + column], row);
  }
  Part halves(Part& part, std::int64_t middle, std::int64_t column) const noexcept {
    Part after = part;
    after.begin = part.end = middle;
    after.box.low[column] = part.box.high[column] = points_[order_[middle] * dims_ + column];
    after.cuts = ++part.cuts;
    return after;
  }
  static void measured(Part& part, const Box& box) noexcept {
    part.box = box;
    part.cuts = 0;
  }
  Box box_of_part(const Part& part) const noexcept {
    return box_of(part.begin, part.end, dims_, [&](std::int64_t i) { return points_ + order_[i] * dims_; });
  }
  void fill(const Part& part, std::int64_t column) noexcept {
    constexpr std::int64_t ahead = 32;  // rows of a part lie all over memory
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      __builtin_prefetch(points_ + order_[std::min(i + ahead, part.end - 1)] * dims_ + column);
      by_column_[i] = of_row(order_[i], column);
    }
  }

  void arrange(const Part& part, std::int64_t middle, std::int64_t column) {
    fill(part, column);
    select_nth(by_column_.data() + part.begin, by_column_.data() + middle, by_column_.data() + part.end, earlier);
    for (std::int64_t i = part.begin; i < part.end; ++i) order_[i] = static_cast<std::uint32_t>(by_column_[i].row);
  }

  static std::int64_t blocks_of(const Part& part) noexcept { return (part.size() + block_rows - 1) / block_rows; }
  static Part block_of(const Part& part, std::int64_t number) noexcept {
    const std::int64_t begin = part.begin + number * block_rows;
    return Part{begin, std::min(begin + block_rows, part.end)};
  }
  Box box_by_all_threads(const Part& part) {
    std::vector<Box> boxes(static_cast<std::size_t>(blocks_of(part)));
    thread_pool_.for_each(blocks_of(part), [&](std::int64_t number, int) {
      boxes[static_cast<std::size_t>(number)] = box_of_part(block_of(part, number));
    });
    for (const Box& one : boxes) boxes.front().take(one.low, one.high, dims_);
    return boxes.front();
  }

  /// Every block sorts its rows into those before two values that a sample says are around the median, between them,
  /// and after; the median is looked for where it must be.
  void arrange_together(const Part& part, std::int64_t middle, std::int64_t column) {
    const std::int64_t blocks = blocks_of(part);
    const auto block = [&](std::int64_t number) { return block_of(part, number); };
    const auto [low, high] = around_median(part, middle, column);
    using Counts = std::array<std::int64_t, 3>;
    std::vector<Counts> at(static_cast<std::size_t>(blocks));
    const auto side = [low = low, high = high](const ByColumn& row) {
      return static_cast<std::size_t>(!(row < low)) + static_cast<std::size_t>(high < row);
    };
    thread_pool_.for_each(blocks, [&](std::int64_t b, int) {
      const Part rows = block(b);
      fill(rows, column);
      Counts counts{};
      for (std::int64_t i = rows.begin; i < rows.end; ++i) ++counts[side(by_column_[i])];
      at[static_cast<std::size_t>(b)] = counts;
    });
    std::int64_t next = part.begin;
    std::array<std::int64_t, 4> bounds{};
    for (std::size_t s = 0; s < 3; ++s) {
      bounds[s] = next;
      for (Counts& counts : at) next += std::exchange(counts[s], next);
    }
    bounds[3] = next;
    if (moved_.size() == 0) moved_ = Buffer<ByColumn>(by_column_.size());
    thread_pool_.for_each(blocks, [&](std::int64_t b, int) {
      const Part rows = block(b);
      Counts to = at[static_cast<std::size_t>(b)];
      for (std::int64_t i = rows.begin; i < rows.end; ++i) moved_[to[side(by_column_[i])]++] = by_column_[i];
    });
    for (std::size_t s = 0; s < 3; ++s)
      if (bounds[s] < middle && middle < bounds[s + 1])
        select_nth(moved_.data() + bounds[s], moved_.data() + middle, moved_.data() + bounds[s + 1], earlier);
    thread_pool_.for_each(blocks, [&](std::int64_t b, int) {
      const Part rows = block(b);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) order_[i] = static_cast<std::uint32_t>(moved_[i].row);
    });
  }

  std::pair<ByColumn, ByColumn> around_median(const Part& part, std::int64_t middle, std::int64_t column) const {
    std::array<ByColumn, sampled> sample;
    for (std::int64_t i = 0; i < sampled; ++i) {
      const std::uint32_t row = order_[part.begin + i * part.size() / sampled];
      sample[static_cast<std::size_t>(i)] = of_row(row, column);
    }
    std::sort(sample.begin(), sample.end());
    const std::int64_t rank = (middle - part.begin) * sampled / part.size();
    return {sample[static_cast<std::size_t>(std::max<std::int64_t>(rank - around, 0))],
            sample[static_cast<std::size_t>(std::min(rank + around, sampled - 1))]};
  }

  const double* points_;
  std::int64_t dims_;
  ThreadPool& thread_pool_;
  std::uint32_t* order_;
  Buffer<ByColumn> by_column_, moved_;
};

}  // namespace

void kd_tree_order(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool,
                   std::uint32_t* order) {
  std::iota(order, order + rows, 0u);
  if (rows <= KdTree::fan) return;
  Splitter splitter(points, rows, dims, thread_pool, order);
  const std::int64_t threads = thread_pool.threads(), most = std::max(serial_rows, rows / (4 * threads));
  std::vector<Part> large{{0, rows}};
  for (std::size_t i = 0; threads > 1 && i < large.size(); ++i)
    while (large[i].size() > std::max(together_rows, most)) large.push_back(splitter.split_together(large[i]));
  std::vector<std::vector<Part>> pieces(large.size());
  thread_pool.for_each(static_cast<std::int64_t>(large.size()), [&](std::int64_t number, int) {
    std::vector<Part>& parts = pieces[static_cast<std::size_t>(number)];
    parts.push_back(large[static_cast<std::size_t>(number)]);
    for (std::size_t i = 0; threads > 1 && i < parts.size(); ++i)
      while (parts[i].size() > most) parts.push_back(splitter.split(parts[i]));
  });
  std::vector<Part> parts;
  for (const std::vector<Part>& some : pieces) parts.insert(parts.end(), some.begin(), some.end());
  thread_pool.for_each(static_cast<std::int64_t>(parts.size()),
                       [&](std::int64_t i, int) { splitter.split_all(parts[static_cast<std::size_t>(i)]); });
}

}  // namespace vicinal::cpu
