// Distances from one row to the others of a sample tell where its k-th neighbour among all rows is, and how many of these
// a filter leaves that cannot tell apart what is nearer than eps. Plans and pilots ask; no answer depends on it.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace vicinal {

/// A SampledScale says what a sample stands for. per_row: rows of the corpus for each of the sample. products: distances
/// are products of rows, negated, which grow by no power. radius: of a range, in the same unit.
struct SampledScale {
  double per_row = 1;
  bool products = false;
  std::optional<double> radius = {};
};

/// It estimates how many of all rows are left. truth: distances to the other rows of the sample, ascending. seen: what
/// the filter has of them, at most; the same array where these are the distances that errors of up to eps move.
double left_rows(const SampledScale& scale, double k, double eps, const std::vector<double>& truth,
                 const std::vector<double>& seen);

}  // namespace vicinal
