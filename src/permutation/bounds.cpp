#include "permutation/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vicinal {
namespace {

constexpr double no_value = std::numeric_limits<double>::infinity();

CellEnds nothing_seen() {
  CellEnds ends;
  ends.smallest.fill(no_value);
  ends.largest.fill(-no_value);
  return ends;
}

/// Where cells begin: at each value that occurs while there are few, else at every 256th part of the sample.
std::vector<double> thresholds_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::vector<double> distinct = values;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() > bound_cells) {
    distinct.clear();
    for (std::size_t cell = 0; cell < bound_cells; ++cell)
      distinct.push_back(values[cell * values.size() / bound_cells]);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  }
  if (!distinct.empty()) distinct.erase(distinct.begin());  // what is below the first is in the first cell too
  return distinct;
}

}  // namespace

Bounds::Bounds(std::int64_t objects, std::int64_t permutants, const std::vector<double>& sample, int workers)
    : permutants_(permutants), stride_(cpu::score_stride(permutants)),
      seen_(static_cast<std::size_t>(workers),
            std::vector<CellEnds>(static_cast<std::size_t>(permutants), nothing_seen())),
      bytes_(objects * stride_) {
  const std::size_t rows = sample.size() / static_cast<std::size_t>(permutants);
  for (std::int64_t p = 0; p < permutants; ++p) {
    std::vector<double> column(rows);
    for (std::size_t row = 0; row < rows; ++row)
      column[row] = sample[row * static_cast<std::size_t>(permutants) + static_cast<std::size_t>(p)];
    thresholds_.push_back(thresholds_of(std::move(column)));
  }
}

Bounds::Bounds(std::int64_t objects, std::int64_t permutants, const std::uint8_t* bytes, std::vector<CellEnds> ends)
    : permutants_(permutants), stride_(cpu::score_stride(permutants)), ends_(std::move(ends)),
      bytes_(objects * stride_) {
  for (std::int64_t object = 0; object < objects; ++object) {
    std::uint8_t* row = bytes_.data() + object * stride_;
    std::copy_n(bytes + object * permutants, permutants, row);
    std::fill(row + permutants, row + stride_, std::uint8_t{0});
  }
}

void Bounds::note(std::int64_t object, const double* distances, int worker) {
  std::uint8_t* row = bytes_.data() + object * stride_;
  std::vector<CellEnds>& seen = seen_[static_cast<std::size_t>(worker)];
  for (std::int64_t p = 0; p < permutants_; ++p) {
    const std::vector<double>& thresholds = thresholds_[static_cast<std::size_t>(p)];
    const auto cell = static_cast<std::size_t>(std::upper_bound(thresholds.begin(), thresholds.end(), distances[p]) -
                                               thresholds.begin());
    CellEnds& ends = seen[static_cast<std::size_t>(p)];
    ends.smallest[cell] = std::min(ends.smallest[cell], distances[p]);
    ends.largest[cell] = std::max(ends.largest[cell], distances[p]);
    row[p] = static_cast<std::uint8_t>(cell);
  }
  std::fill(row + permutants_, row + stride_, std::uint8_t{0});
}

void Bounds::finish() {
  ends_ = std::move(seen_.front());
  for (std::size_t worker = 1; worker < seen_.size(); ++worker)
    for (std::size_t p = 0; p < ends_.size(); ++p)
      for (std::size_t cell = 0; cell < bound_cells; ++cell) {
        ends_[p].smallest[cell] = std::min(ends_[p].smallest[cell], seen_[worker][p].smallest[cell]);
        ends_[p].largest[cell] = std::max(ends_[p].largest[cell], seen_[worker][p].largest[cell]);
      }
  seen_ = {};
  thresholds_ = {};
}

bool Bounds::fit() const noexcept {
  for (const CellEnds& ends : ends_) {
    double last = -no_value;
    for (std::size_t cell = 0; cell < bound_cells; ++cell) {
      if (ends.smallest[cell] == no_value && ends.largest[cell] == -no_value) continue;
      if (!std::isfinite(ends.smallest[cell]) || !std::isfinite(ends.largest[cell])) return false;
      if (ends.smallest[cell] > ends.largest[cell] || ends.smallest[cell] <= last) return false;
      last = ends.largest[cell];
    }
  }
  const std::int64_t objects = bytes_.size() / stride_;
  for (std::int64_t object = 0; object < objects; ++object)
    for (std::int64_t p = 0; p < permutants_; ++p)
      if (ends_[static_cast<std::size_t>(p)].smallest[row(object)[p]] == no_value) return false;
  return true;
}

void BoundTest::start(const double* distances, double radius) {
  none_ = false;
  for (std::int64_t p = 0; p < bounds_.permutants(); ++p) {
    const Interval mine = true_distance_.of(distances[p], DistanceType::f64);
    const CellEnds& ends = bounds_.ends()[static_cast<std::size_t>(p)];
    int first = bound_cells, last = -1;
    for (int cell = 0; cell < bound_cells; ++cell) {
      const auto at = static_cast<std::size_t>(cell);
      if (ends.smallest[at] > ends.largest[at]) continue;
      const double low = true_distance_.of(ends.smallest[at], DistanceType::f64).low;
      const double high = true_distance_.of(ends.largest[at], DistanceType::f64).high;
      // Differences of numbers that are not negative: what rounding may add is at most a part in 2^50 of their sum.
      const double least =
          std::max(low - mine.high - (low + mine.high) * 0x1p-50, mine.low - high - (mine.low + high) * 0x1p-50);
      if (least > radius) continue;
      first = std::min(first, cell);
      last = cell;
    }
    if (last < 0) none_ = true;
    low_[static_cast<std::size_t>(p)] = static_cast<std::uint8_t>(last < 0 ? 0 : first);
    width_[static_cast<std::size_t>(p)] = static_cast<std::uint8_t>(last < 0 ? 0 : last - first);
  }
}

std::int64_t BoundTest::within(const cpu::Scores& kernels, std::int64_t first, std::int64_t count,
                               std::uint32_t* out) const {
  if (none_) return 0;
  return kernels.within({low_.data(), width_.data(), bounds_.row(first), bounds_.stride(), count,
                         static_cast<std::uint32_t>(first), out});
}

}  // namespace vicinal
