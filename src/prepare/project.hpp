// The transform that projects rows (core/projection.hpp): to the directions in which rows of a sample differ most. Any
// choice is sound, since what they leave of a row is measured; it decides how many rows a filter leaves.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/search.hpp"
#include "prepare/transform.hpp"

namespace vicinal {

inline constexpr std::int64_t most_projected_columns = 256;
/// It returns the most columns that rows are projected to, where they are by name; 0: there are no rows, or they have too
/// few columns. A few rows have no more directions than there are of them.
std::int64_t projected_columns(const Shape& corpus) noexcept;

/// Directions are [][dims], orthonormal, of rows that `moved` moves and scales.
struct Directions {
  Transform moved;
  std::vector<double> rows;
};
/// It finds `count` directions, most_projected_columns at most, by a round of subspace iteration on some thousand rows,
/// begun with rows (after Halko, Martinsson, Tropp 2011, algorithm 4.4), in some tens of milliseconds. skipped: rows that
/// others look at.
Directions choose_directions(const RowKernels& kernels, const SearchSpec& spec, std::int64_t count,
                             std::int64_t skipped, ThreadPool& thread_pool);
/// The bytes of memory that it takes.
std::int64_t directions_bytes(std::int64_t dims) noexcept;

/// It returns a transform that moves rows as `moved` does, and then projects and rotates them.
Transform projecting(Transform moved, Projection projection);

/// It returns the sum of a row's squares, in the canonical order.
inline double square_of(const RowKernels& kernels, const double* row, std::int64_t dims) {
  double square = 0;
  kernels.self_product({nullptr, row, 0, nullptr, 1, dims, nullptr, &square});
  return square;
}

}  // namespace vicinal
