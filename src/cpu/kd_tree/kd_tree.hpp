// Few columns: rows near each other lie together as the leaves of a tree of boxes, 32 rows a leaf and 32 boxes a node,
// and a query looks only where its k-th so far, or its radius, may reach. Distances are the canonical ones at once. So
// is what a box gives: the same operations on what is least between the query and the box; each of them rounds
// monotonely, so no row of the box has a smaller sum, and nothing has to be allowed for (docs/design/0015).
#pragma once
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

inline constexpr std::int64_t most_kd_tree_dims = 8;  // columns of rows that are put into a tree

/// Columns are filled up with zeros to 2, 4 or 8, which adds nothing to a canonical sum.
constexpr int kd_tree_width(std::int64_t dims) noexcept { return dims <= 2 ? 2 : dims <= 4 ? 4 : 8; }

struct KdTree {
  static constexpr std::int64_t fan = panel_rows;  // rows of a leaf, boxes of a node
  struct Level {
    std::int64_t count = 0;    // boxes
    Buffer<double> low, high;  // [node][width][fan]
  };
  std::int64_t count = 0;  // rows
  int width = 2;
  Buffer<std::uint32_t> order;  // the row at each position
  Buffer<double> rows;          // [leaf][width][fan]
  std::vector<Level> levels;    // of leaves, of nodes of leaves, ... up to one node

  /// points: [count][dims].
  void build(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool);
  std::int64_t bytes() const noexcept;
  /// Returns what a tree of so many rows takes while it is built.
  static std::int64_t bytes(std::int64_t rows, std::int64_t dims) noexcept;
};

/// Rows in an order in which every run of 32, of 32 times 32 and so on is a part of a k-d tree.
void kd_tree_order(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool,
                   std::uint32_t* order);

/// Columns up to which queries are in the order of cells: of more, cells are too large where tails are heavy.
inline constexpr std::int64_t most_cell_dims = 3;
/// Rows in an order in which those near each other are seldom far apart, for at most most_cell_dims columns. It takes a
/// quarter of the time of a tree's.
void cell_order(const double* points, std::int64_t rows, std::int64_t dims, ThreadPool& thread_pool,
                std::uint32_t* order);

}  // namespace vicinal::cpu
