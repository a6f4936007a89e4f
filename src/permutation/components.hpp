// Distances to the permutants as a byte for each of their principal components. Permutants that lie alike tell the same
// thing again, and orders count it as often as it is told; components do not. Each is divided by the root of its
// standard deviation: so the widest, which tells apart what is far anyway, does not drown the others, and noise does
// not become as loud as they are. Everything is summed in one order, so the bits are those of any machine.
#pragma once
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"

namespace vicinal {

class Components {
 public:
  /// rows: distances from some objects to the permutants.
  Components(std::int64_t permutants, const double* rows, std::int64_t count, ThreadPool& thread_pool);
  /// As numbers() gave them; to be checked with fit().
  Components(std::int64_t permutants, std::vector<double> numbers);

  /// A byte a component, the widest first, of an object with these distances.
  void write(const double* distances, std::uint8_t* row) const;

  /// For each permutant its middle; then for each what it adds to every component.
  const std::vector<double>& numbers() const noexcept { return numbers_; }
  std::int64_t bytes() const noexcept { return bytes_for(permutants_); }
  bool fit() const noexcept;

  static constexpr std::int64_t most_permutants = 256;
  static constexpr std::int64_t numbers_for(std::int64_t permutants) noexcept { return permutants * (permutants + 1); }
  static constexpr std::int64_t bytes_for(std::int64_t permutants) noexcept { return 8 * numbers_for(permutants); }
  /// Objects by which components are found: so many that the narrow ones are hardly chance.
  static std::int64_t sampled(std::int64_t objects, std::int64_t permutants) noexcept;

 private:
  std::int64_t permutants_;
  std::vector<double> numbers_;
};

/// Eigenvectors of a symmetric n x n matrix, one a row; it keeps its eigenvalues on its diagonal. Jacobi's rotations in
/// rows' order, until what is beside the diagonal is lost in it.
std::vector<double> diagonalize(std::vector<double>& matrix, std::int64_t n, ThreadPool& thread_pool);

}  // namespace vicinal
