// The order of queries of few columns (kd_tree.hpp): by cells of their box along Morton's curve. Keys are dealt to
// buckets by their first bits, and each bucket is sorted by a thread.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "core/divide.hpp"
#include "cpu/kd_tree/box.hpp"
#include "cpu/kd_tree/kd_tree.hpp"

namespace vicinal::cpu {
namespace {

constexpr int column_bits = 21;
constexpr int cell_bucket_bits = 11;
static_assert(most_cell_dims * column_bits <= 64 && column_bits > cell_bucket_bits);

/// A point's cell: the bits of its columns' places in the box in turn, the first bit of each first.
class Cells {
 public:
  Cells(const Box& box, std::int64_t dims) : dims_(dims) {
    constexpr double places = std::int64_t{1} << column_bits;
    for (std::int64_t j = 0; j < dims; ++j) {
      low_[j] = box.low[j];
      scale_[j] = box.high[j] > box.low[j] ? places / (box.high[j] - box.low[j]) : 0;
    }
    for (std::uint64_t byte = 0; byte < spread_.size(); ++byte) {
      spread_[byte] = 0;
      for (int bit = 0; bit < 8; ++bit) spread_[byte] |= (byte >> bit & 1) << (bit * dims);
    }
  }
  int bits() const noexcept { return column_bits * static_cast<int>(dims_); }
  std::uint64_t of(const double* point) const noexcept {
    constexpr double last = (std::int64_t{1} << column_bits) - 1;
    std::uint64_t cell = 0;
    for (std::int64_t j = 0; j < dims_; ++j) {
      // What overflows or is no number is the last or the first place: any order will do.
      const double place = (point[j] - low_[j]) * scale_[j];
      auto left = static_cast<std::uint64_t>(place > 0 ? std::min(place, last) : 0.0);
      for (std::int64_t shift = j; left != 0; left >>= 8, shift += 8 * dims_) cell |= spread_[left & 255] << shift;
    }
    return cell;
  }

 private:
  std::int64_t dims_;
  double low_[most_cell_dims], scale_[most_cell_dims];
  std::array<std::uint64_t, 256> spread_;
};

struct CellKey {
  std::uint64_t cell;
  std::uint32_t row;
  bool operator<(const CellKey& other) const noexcept { return cell < other.cell; }
};

}  // namespace

void cell_order(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool,
                std::uint32_t* order) {
  if (rows <= KdTree::fan) return std::iota(order, order + rows, 0u);
  const std::int64_t blocks = divide_up(rows, block_rows);
  const auto block = [](std::int64_t begin) { return static_cast<std::size_t>(begin / block_rows); };
  std::vector<Box> boxes(static_cast<std::size_t>(blocks));
  thread_pool.for_runs(rows, block_rows, [&](std::int64_t begin, std::int64_t end) {
    boxes[block(begin)] = box_of(begin, end, dims, [&](std::int64_t i) { return points + i * dims; });
  });
  for (const Box& one : boxes) boxes.front().take(one.low, one.high, dims);
  const Cells cells(boxes.front(), dims);

  // Keys, and how many of each block go to each bucket.
  constexpr std::size_t buckets = std::size_t{1} << cell_bucket_bits;
  const int shift = cells.bits() - cell_bucket_bits;
  using Counts = std::array<std::uint32_t, buckets>;
  std::vector<Counts> at(static_cast<std::size_t>(blocks));
  Buffer<CellKey> both(2 * rows);  // one array, which fewer pages hold
  CellKey *const keys = both.data(), *const dealt = keys + rows;
  thread_pool.for_runs(rows, block_rows, [&](std::int64_t begin, std::int64_t end) {
    Counts& counts = at[block(begin)];
    counts.fill(0);
    for (std::int64_t i = begin; i < end; ++i) {
      keys[i] = {cells.of(points + i * dims), static_cast<std::uint32_t>(i)};
      ++counts[keys[i].cell >> shift];
    }
  });
  std::vector<std::uint32_t> begins(buckets + 1);
  std::uint32_t next = 0;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    begins[bucket] = next;
    for (Counts& counts : at) next += std::exchange(counts[bucket], next);
  }
  begins[buckets] = next;
  thread_pool.for_runs(rows, block_rows, [&](std::int64_t begin, std::int64_t end) {
    Counts& to = at[block(begin)];
    for (std::int64_t i = begin; i < end; ++i) dealt[to[keys[i].cell >> shift]++] = keys[i];
  });
  constexpr std::size_t together = 16;  // buckets of a piece of work
  thread_pool.for_each(buckets / together, [&](std::int64_t piece, int) {
    const auto first = static_cast<std::size_t>(piece) * together;
    for (std::size_t bucket = first; bucket < first + together; ++bucket)
      std::sort(dealt + begins[bucket], dealt + begins[bucket + 1]);
    for (std::uint32_t i = begins[first]; i < begins[first + together]; ++i) order[i] = dealt[i].row;
  });
}

}  // namespace vicinal::cpu
