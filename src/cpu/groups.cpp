// See groups.hpp.
#include "cpu/groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vicinal::cpu {
namespace {

/// Halves of whole leaves, at the median of the column that spreads most.
void split(const double* points, std::int64_t dims, std::int64_t whole, std::int64_t part, std::uint32_t* begin,
           std::uint32_t* end, Team& team) {
  while (end - begin > part) {
    team.tick(0);
    const std::int64_t leaf = end - begin > whole ? whole : part;
    double low[most_group_dims], high[most_group_dims];
    std::fill_n(low, dims, std::numeric_limits<double>::infinity());
    std::fill_n(high, dims, -std::numeric_limits<double>::infinity());
    for (const std::uint32_t* row = begin; row != end; ++row) {
      for (std::int64_t j = 0; j < dims; ++j) {
        const double x = points[*row * dims + j];
        low[j] = std::min(low[j], x);
        high[j] = std::max(high[j], x);
      }
    }
    std::int64_t widest = 0;
    for (std::int64_t j = 1; j < dims; ++j)
      if (high[j] - low[j] > high[widest] - low[widest]) widest = j;
    const std::int64_t leaves = (end - begin + leaf - 1) / leaf;
    std::uint32_t* middle = begin + leaves / 2 * leaf;
    std::nth_element(begin, middle, end, [&](std::uint32_t a, std::uint32_t b) {
      const double x = points[a * dims + widest], y = points[b * dims + widest];
      return x < y || (x == y && a < b);
    });
    split(points, dims, whole, part, begin, middle, team);
    begin = middle;
  }
}

}  // namespace

void group_rows(const double* points, std::int64_t rows, std::int64_t dims, std::int64_t whole, std::int64_t part, Team& team,
                std::uint32_t* order) {
  std::iota(order, order + rows, 0u);
  split(points, dims, whole, part, order, order + rows, team);
}

Box::Box(std::int64_t dims) : dims_(dims) {
  std::fill_n(low_, most_group_dims, std::numeric_limits<double>::infinity());
  std::fill_n(high_, most_group_dims, -std::numeric_limits<double>::infinity());
}

void Box::take(const double* row) noexcept {
  for (std::int64_t j = 0; j < dims_; ++j) {
    low_[j] = std::min(low_[j], row[j]);
    high_[j] = std::max(high_[j], row[j]);
  }
}

double Box::gap(const Box& other, Form form) const noexcept {
  double sum = 0;
  for (std::int64_t j = 0; j < dims_; ++j) {
    const double apart = std::max({low_[j] - other.high_[j], other.low_[j] - high_[j], 0.0});
    if (form == Form::l2) sum += apart * apart;
    if (form == Form::l1) sum += apart;
    if (form == Form::linf) sum = std::max(sum, apart);
  }
  return form == Form::l2 ? std::sqrt(sum) : sum;
}

}  // namespace vicinal::cpu
