#include "permutation/components.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vicinal {
namespace {

constexpr double centre = 128, deviations = 4;  // bytes reach so many of the widest component's to either side
constexpr double least_variance = 0x1p-10;      // of the widest one's: what is narrower is not made louder than this
constexpr int most_sweeps = 64;                 // a dozen do

/// A power of two that brings numbers up to `largest` near 1, so that no square leaves f64.
double scale_for(double largest) {
  return largest > 0 ? std::ldexp(1, -std::clamp(std::ilogb(largest), -1000, 1000)) : 1;
}

/// Rows x and y turned in their plane.
void turn(double* x, double* y, std::int64_t n, double cosine, double sine) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = x[i], b = y[i];
    x[i] = cosine * a - sine * b;
    y[i] = sine * a + cosine * b;
  }
}

}  // namespace

std::vector<double> diagonalize(std::vector<double>& matrix, std::int64_t n, ThreadPool& thread_pool) {
  std::vector<double> vectors(static_cast<std::size_t>(n * n), 0);
  for (std::int64_t i = 0; i < n; ++i) vectors[static_cast<std::size_t>(i * n + i)] = 1;
  double* const a = matrix.data();
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    double beside = 0, along = 0;
    for (std::int64_t p = 0; p < n; ++p) {
      along += a[p * n + p] * a[p * n + p];
      for (std::int64_t q = p + 1; q < n; ++q) beside += a[p * n + q] * a[p * n + q];
    }
    if (beside <= along * 0x1p-96) break;
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        const double both = a[p * n + q];
        if (both == 0) continue;
        // The smaller of the two angles that bring this entry to zero.
        const double slope = (a[q * n + q] - a[p * n + p]) / (2 * both);
        const double tangent = (slope < 0 ? -1 : 1) / (std::fabs(slope) + std::sqrt(slope * slope + 1));
        const double cosine = 1 / std::sqrt(tangent * tangent + 1), sine = tangent * cosine;
        const double first = a[p * n + p] - tangent * both, second = a[q * n + q] + tangent * both;
        turn(a + p * n, a + q * n, n, cosine, sine);
        a[p * n + p] = first;
        a[q * n + q] = second;
        a[p * n + q] = a[q * n + p] = 0;
        for (std::int64_t i = 0; i < n; ++i) {  // columns are as rows
          a[i * n + p] = a[p * n + i];
          a[i * n + q] = a[q * n + i];
        }
        turn(vectors.data() + p * n, vectors.data() + q * n, n, cosine, sine);
      }
      thread_pool.poll(0);
    }
  }
  return vectors;
}

std::int64_t Components::sampled(std::int64_t objects, std::int64_t permutants) noexcept {
  return std::min(objects, std::max<std::int64_t>(1024, 32 * permutants));
}

Components::Components(std::int64_t permutants, const double* rows, std::int64_t count, ThreadPool& thread_pool)
    : permutants_(permutants), numbers_(static_cast<std::size_t>(numbers_for(permutants)), 0) {
  const std::int64_t m = permutants;
  double largest = 0;
  for (std::int64_t i = 0; i < count * m; ++i) largest = std::max(largest, std::fabs(rows[i]));
  const double scale = scale_for(largest);
  std::vector<double> middle(static_cast<std::size_t>(m), 0), off(middle.size());
  std::vector<double> covariance(static_cast<std::size_t>(m * m), 0);
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t p = 0; p < m; ++p) middle[static_cast<std::size_t>(p)] += rows[row * m + p] * scale;
  for (double& one : middle) one /= static_cast<double>(count);
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t p = 0; p < m; ++p)
      off[static_cast<std::size_t>(p)] = rows[row * m + p] * scale - middle[static_cast<std::size_t>(p)];
    for (std::int64_t p = 0; p < m; ++p)
      for (std::int64_t q = 0; q < m; ++q)
        covariance[static_cast<std::size_t>(p * m + q)] +=
            off[static_cast<std::size_t>(p)] * off[static_cast<std::size_t>(q)];
    thread_pool.poll(0);
  }
  for (double& one : covariance) one /= static_cast<double>(count);
  const std::vector<double> vectors = diagonalize(covariance, m, thread_pool);
  const auto variance = [&](std::int64_t i) { return covariance[static_cast<std::size_t>(i * m + i)]; };
  std::vector<std::int64_t> order(static_cast<std::size_t>(m));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return variance(a) > variance(b); });
  const double widest = variance(order.front());
  if (!(widest > 0)) return;  // all objects lie alike
  const double reach = centre / (deviations * std::sqrt(std::sqrt(widest)));
  for (std::int64_t p = 0; p < m; ++p)
    numbers_[static_cast<std::size_t>(p)] = middle[static_cast<std::size_t>(p)] / scale;
  for (std::int64_t j = 0; j < m; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    const double loudness = reach / std::sqrt(std::sqrt(std::max(variance(from), widest * least_variance)));
    for (std::int64_t p = 0; p < m; ++p)
      numbers_[static_cast<std::size_t>((p + 1) * m + j)] =
          vectors[static_cast<std::size_t>(from * m + p)] * loudness * scale;
  }
  if (!fit()) std::fill(numbers_.begin(), numbers_.end(), 0);  // distances near the ends of f64
}

Components::Components(std::int64_t permutants, std::vector<double> numbers)
    : permutants_(permutants), numbers_(std::move(numbers)) {}

void Components::write(const double* distances, std::uint8_t* row) const {
  const std::int64_t m = permutants_;
  double sums[most_permutants];
  std::fill_n(sums, m, centre);
  for (std::int64_t p = 0; p < m; ++p) {
    const double off = distances[p] - numbers_[static_cast<std::size_t>(p)];
    const double* const adds = numbers_.data() + (p + 1) * m;
    for (std::int64_t j = 0; j < m; ++j) sums[j] += off * adds[j];
  }
  for (std::int64_t j = 0; j < m; ++j)  // what is no number is 0
    row[j] = static_cast<std::uint8_t>(sums[j] > 0 ? std::min(sums[j], 255.0) : 0);
}

bool Components::fit() const noexcept {
  return std::all_of(numbers_.begin(), numbers_.end(), [](double number) { return std::isfinite(number); });
}

}  // namespace vicinal
