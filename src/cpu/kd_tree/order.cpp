// The order of rows in a k-d tree (kd_tree.hpp): parts are split at the median of the column that spreads most. Large
// parts are split by all threads at once, smaller ones by a thread each.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include "core/divide.hpp"
#include "core/nth.hpp"
#include "cpu/kd_tree/box.hpp"
#include "cpu/kd_tree/kd_tree.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t serial_rows = 4096;           // parts this small are one piece of work
constexpr std::int64_t together_rows = 65536;        // larger parts are split by all threads
constexpr std::int64_t sampled = 1024, around = 64;  // rows that say where the median is, and how far off it may be

// A box is measured again after so many cuts: where rows are in clusters it is smaller than what cuts leave.
constexpr int box_cuts = 2;

/// A ByColumn is a row behind its value of the column that is split, so that integers are in the order of values, then
/// of rows.
using ByColumn = std::uint64_t;
std::uint32_t row_of(ByColumn row) noexcept { return static_cast<std::uint32_t>(row); }

/// A Column is one column of a part, whose values it takes by their distance from one that lies among them, to 20 bits:
/// whatever the values are, those about the median, where the part is split, are told apart. Rows that are not are in
/// the order of their numbers; the boxes that are searched are measured.
class Column {
 public:
  Column(const double* points, std::int64_t dims, std::int64_t column, double origin) noexcept
      : values_(points + column), dims_(dims), half_origin_(origin / 2) {}
  ByColumn of(std::uint32_t row) const noexcept {
    constexpr std::uint64_t sign = std::uint64_t{1} << 63;
    const auto bits = std::bit_cast<std::uint64_t>(values_[row * dims_] / 2 - half_origin_);  // a distance fits fp64
    const std::uint64_t ordered = bits ^ ((0 - (bits >> 63)) | sign);
    return (ordered & ~std::uint64_t{0xFFFFFFFF}) | row;
  }

 private:
  const double* values_;
  std::int64_t dims_;
  double half_origin_;
};

struct Part {
  std::int64_t begin, end;
  Box box = {};                           // around its rows, as it was measured and has been cut since
  int cuts = box_cuts + 1;                // since it was measured; more than box_cuts: it must be
  double origin[most_kd_tree_dims] = {};  // of each column the value at which a larger part was split last
  std::int64_t size() const noexcept { return end - begin; }
  /// Where it is split: about the middle, between whole runs.
  std::int64_t middle() const noexcept {
    std::int64_t run = KdTree::fan;
    while (run * KdTree::fan < size()) run *= KdTree::fan;
    return begin + divide_up(size(), run) / 2 * run;
  }
};

class Splitter {
 public:
  Splitter(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool)
      : points_(points), dims_(dims), thread_pool_(thread_pool), rows_(rows) {
    thread_pool.for_runs(rows, block_rows, [&](std::int64_t begin, std::int64_t end) {
      std::iota(rows_.data() + begin, rows_.data() + end, static_cast<ByColumn>(begin));
    });
  }

  Part all() const noexcept {
    Part part{0, rows_.size()};
    const auto value = [&](std::int64_t row, std::int64_t column) { return points_[row * dims_ + column]; };
    for (std::int64_t j = 0; j < dims_; ++j)
      part.origin[j] = middle_of(value(0, j), value(rows_.size() / 2, j), value(rows_.size() - 1, j), std::less());
    return part;
  }
  /// Splits the part; it keeps what comes first, and what comes after is returned.
  Part split(Part& part) {
    thread_pool_.poll(0);
    if (part.cuts > box_cuts) measured(part, box_of_part(part));
    const std::int64_t middle = part.middle(), widest = part.box.widest(dims_);
    fill(part, column_of(part, widest));
    select(rows_, part.begin, middle, part.end);
    return halves(part, middle, widest);
  }
  /// The same by all threads.
  Part split_together(Part& part) {
    thread_pool_.poll(0);
    if (part.cuts > box_cuts) measured(part, box_by_all_threads(part));
    const std::int64_t middle = part.middle(), widest = part.box.widest(dims_);
    arrange_together(part, middle, column_of(part, widest));
    return halves(part, middle, widest);
  }
  void split_all(Part part) {
    while (part.size() > KdTree::fan) {
      Part first = part;
      part = split(first);
      split_all(first);
    }
  }
  std::uint32_t row_at(std::int64_t position) const noexcept { return row_of(rows_[position]); }

 private:
  Part halves(Part& part, std::int64_t middle, std::int64_t column) const noexcept {
    Part after = part;
    after.begin = part.end = middle;
    const double value = points_[row_at(middle) * dims_ + column];
    after.box.low[column] = part.box.high[column] = value;
    after.origin[column] = part.origin[column] = value;
    after.cuts = ++part.cuts;
    return after;
  }
  Column column_of(const Part& part, std::int64_t column) const noexcept {
    return {points_, dims_, column, part.origin[column]};
  }
  static void measured(Part& part, const Box& box) noexcept {
    part.box = box;
    part.cuts = 0;
  }
  Box box_of_part(const Part& part) const noexcept {
    return box_of(part.begin, part.end, dims_, [&](std::int64_t i) {
      fetch(part, i);
      return points_ + row_at(i) * dims_;
    });
  }
  void fill(const Part& part, const Column& column) noexcept {
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      fetch(part, i);
      rows_[i] = column.of(row_at(i));
    }
  }
  /// The rows of a part lie all over memory: one that is needed soon is fetched.
  VICINAL_INLINE void fetch(const Part& part, std::int64_t position) const noexcept {
    constexpr std::int64_t ahead = 32;
    __builtin_prefetch(points_ + row_at(std::min(position + ahead, part.end - 1)) * dims_);
  }
  static void select(Buffer<ByColumn>& rows, std::int64_t begin, std::int64_t middle, std::int64_t end) {
    select_nth(rows.data() + begin, rows.data() + middle, rows.data() + end, std::less());
  }

  static std::int64_t blocks_of(const Part& part) noexcept { return divide_up(part.size(), block_rows); }
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
  void arrange_together(const Part& part, std::int64_t middle, const Column& column) {
    const std::int64_t blocks = blocks_of(part);
    const auto block = [&](std::int64_t number) { return block_of(part, number); };
    const auto [low, high] = around_median(part, middle, column);
    using Counts = std::array<std::int64_t, 3>;
    std::vector<Counts> at(static_cast<std::size_t>(blocks));
    const auto side = [low = low, high = high](ByColumn row) {
      return static_cast<std::size_t>(!(row < low)) + static_cast<std::size_t>(high < row);
    };
    thread_pool_.for_each(blocks, [&](std::int64_t b, int) {
      const Part rows = block(b);
      fill(rows, column);
      Counts counts{};
      for (std::int64_t i = rows.begin; i < rows.end; ++i) ++counts[side(rows_[i])];
      at[static_cast<std::size_t>(b)] = counts;
    });
    std::int64_t next = part.begin;
    std::array<std::int64_t, 4> bounds{};
    for (std::size_t s = 0; s < 3; ++s) {
      bounds[s] = next;
      for (Counts& counts : at) next += std::exchange(counts[s], next);
    }
    bounds[3] = next;
    if (moved_.size() == 0) moved_ = Buffer<ByColumn>(rows_.size());
    thread_pool_.for_each(blocks, [&](std::int64_t b, int) {
      const Part rows = block(b);
      Counts to = at[static_cast<std::size_t>(b)];
      for (std::int64_t i = rows.begin; i < rows.end; ++i) moved_[to[side(rows_[i])]++] = rows_[i];
    });
    for (std::size_t s = 0; s < 3; ++s)
      if (bounds[s] < middle && middle < bounds[s + 1]) select(moved_, bounds[s], middle, bounds[s + 1]);
    thread_pool_.for_each(blocks, [&](std::int64_t b, int) {
      const Part rows = block(b);
      std::copy(moved_.data() + rows.begin, moved_.data() + rows.end, rows_.data() + rows.begin);
    });
  }

  std::pair<ByColumn, ByColumn> around_median(const Part& part, std::int64_t middle, const Column& column) const {
    std::array<ByColumn, sampled> sample;
    for (std::int64_t i = 0; i < sampled; ++i)
      sample[static_cast<std::size_t>(i)] = column.of(row_at(part.begin + i * part.size() / sampled));
    std::sort(sample.begin(), sample.end());
    const std::int64_t rank = (middle - part.begin) * sampled / part.size();
    return {sample[static_cast<std::size_t>(std::max<std::int64_t>(rank - around, 0))],
            sample[static_cast<std::size_t>(std::min(rank + around, sampled - 1))]};
  }

  const double* points_;
  std::int64_t dims_;
  ThreadPool& thread_pool_;
  Buffer<ByColumn> rows_, moved_;
};

}  // namespace

void kd_tree_order(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool,
                   std::uint32_t* order) {
  if (rows <= KdTree::fan) return std::iota(order, order + rows, 0u);
  Splitter splitter(points, rows, dims, thread_pool);
  const std::int64_t threads = thread_pool.threads(), most = std::max(serial_rows, rows / (4 * threads));
  std::vector<Part> large{splitter.all()};
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
  thread_pool.for_each(std::ssize(parts), [&](std::int64_t number, int) {
    const Part& part = parts[static_cast<std::size_t>(number)];
    splitter.split_all(part);
    for (std::int64_t i = part.begin; i < part.end; ++i) order[i] = splitter.row_at(i);
  });
}

}  // namespace vicinal::cpu
