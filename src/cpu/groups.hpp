// Few columns: rows that are near each other share a tile, tiles and their panels have boxes, and one whose box is farther from a query than
// its k-th so far is not looked at. What a tree does, with panels for leaves.
#pragma once
#include <cstdint>

#include "backend/backend.hpp"
#include "core/metric.hpp"

namespace vicinal::cpu {

/// Rows in an order in which every run of `whole` is a leaf of a k-d tree, and runs of `part` are what it is split into
/// further. points: [rows][dims].
void group_rows(const double* points, std::int64_t rows, std::int64_t dims, std::int64_t whole, std::int64_t part, Team& team,
                std::uint32_t* order);

/// The smallest box around some rows.
class Box {
 public:
  explicit Box(std::int64_t dims = 0);
  void take(const double* row) noexcept;
  /// How far two boxes are at least from each other, in the norm of the form; rounding is the caller's to allow for.
  double gap(const Box& other, Form form) const noexcept;

 private:
  std::int64_t dims_;
  double low_[most_group_dims], high_[most_group_dims];
};

}  // namespace vicinal::cpu
