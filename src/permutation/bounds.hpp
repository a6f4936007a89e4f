// What lets an exact search leave objects out: for each object and permutant a byte that says within which values their
// distance lies. |d(q, p) - d(x, p)| <= d(q, x), so objects whose byte says too much for any one permutant are beyond
// the radius. Cells hold equally many objects, their ends are values that occur, and everything is rounded outward
// (core/true_distance.hpp).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "core/true_distance.hpp"
#include "cpu/permutation/scores.hpp"

namespace vicinal {

inline constexpr int bound_cells = 256;

/// The smallest and largest value in each cell; smallest above largest: none.
struct CellEnds {
  std::array<double, bound_cells> smallest, largest;
};

class Bounds {
 public:
  /// sample: rows of distances to the permutants, by which cells are cut.
  Bounds(std::int64_t objects, std::int64_t permutants, const std::vector<double>& sample, int workers);
  /// From a file: `bytes` of objects times permutants. Ends are to be checked with fit().
  Bounds(std::int64_t objects, std::int64_t permutants, const std::uint8_t* bytes, std::vector<CellEnds> ends);

  /// Notes an object's distances. Different objects from several threads at once.
  void note(std::int64_t object, const double* distances, int worker);
  /// After the last of them.
  void finish();

  std::int64_t permutants() const noexcept { return permutants_; }
  std::int64_t stride() const noexcept { return stride_; }
  const std::uint8_t* row(std::int64_t object) const noexcept { return bytes_.data() + object * stride_; }
  const std::vector<CellEnds>& ends() const noexcept { return ends_; }
  std::int64_t bytes() const noexcept {
    return bytes_.bytes() + permutants_ * static_cast<std::int64_t>(sizeof(CellEnds));
  }
  /// Finite, in order, and no object in a cell that is empty.
  bool fit() const noexcept;

 private:
  std::int64_t permutants_, stride_;
  std::vector<std::vector<double>> thresholds_;  // [permutant]: a value's cell is how many of these it has reached
  std::vector<std::vector<CellEnds>> seen_;      // [worker][permutant]
  std::vector<CellEnds> ends_;
  Buffer<std::uint8_t> bytes_;
};

/// One query's bounds at a radius.
class BoundTest {
 public:
  BoundTest(const Bounds& bounds, const TrueDistance& true_distance)
      : bounds_(bounds), true_distance_(true_distance), low_(static_cast<std::size_t>(bounds.stride()), 0),
        width_(static_cast<std::size_t>(bounds.stride()), 255) {}
  /// distances: canonical values from the query to the permutants. radius: no true distance above it is wanted.
  void start(const double* distances, double radius);
  /// Objects of [first, first + count) that may be within the radius, ascending, to `out`, of `count`; how many.
  std::int64_t within(const cpu::Scores& kernels, std::int64_t first, std::int64_t count, std::uint32_t* out) const;

 private:
  const Bounds& bounds_;
  const TrueDistance& true_distance_;
  std::vector<std::uint8_t> low_, width_;
  bool none_ = false;  // no object can be
};

}  // namespace vicinal
