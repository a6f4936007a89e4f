// See transform.hpp.
#include "prepare/transform.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/bound.hpp"
#include "core/canonical.hpp"
#include "core/exponents.hpp"
#include "prepare/check.hpp"
#include "prepare/sample.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t most_sampled_rows = 1024, sampled_elements = std::int64_t{1} << 20;
constexpr double outlier = 1024;  // rows so many times larger than the median row do not choose the transform

double largest_element(const double* row, std::int64_t dims) noexcept {
  double largest = 0;
  for (std::int64_t j = 0; j < dims; ++j) largest = std::max(largest, std::fabs(row[j]));
  return largest;
}

/// Rows with a larger element than this are left out, so that one wild row cannot squash all others to nothing.
double outlier_limit(Sample& sample, std::int64_t dims) {
  std::vector<double> sizes;
  for (std::int64_t i = 0; i < sample.count(); ++i)
    if (const double* row = sample.row(i)) sizes.push_back(largest_element(row, dims));
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return *middle > 0 ? *middle * outlier : *std::max_element(sizes.begin(), sizes.end());
}

}  // namespace

double power_of_two(double largest) noexcept { return std::ldexp(1.0, -std::ilogb(largest)); }

SelfProduct self_product(const RowKernels& kernels, const double* row, std::int64_t dims, const SearchSpec& spec,
                         DType dtype) {
  const bool correlation = spec.metric == Metric::correlation;
  SelfProduct result;
  CanonicalArgs args{nullptr, row, 0, nullptr, 1, dims, nullptr, &result.mean};
  if (correlation) {
    kernels.total(args);
    result.mean /= static_cast<double>(dims);
    args.shift = &result.mean;
  }
  args.out = &result.self;
  (correlation ? kernels.shifted_squares : kernels.self_product)(args);
  if (is_degenerate(row, dims, spec.metric)) {
    result.self = degenerate_self;
    result.fit = spec.degenerate == Degenerate::one;
  } else if (dtype == DType::f64) {
    result.fit = norm_in_range(result.self);
  }
  return result;
}

Affine affine(Metric metric, const SelfProduct& product, double scale) noexcept {
  if (!needs_norms(metric)) return {0.0, scale};
  return {metric == Metric::correlation ? product.mean : 0.0, product.self > 0 ? 1.0 / std::sqrt(product.self) : 0.0};
}

namespace {

bool all_integral(const double* row, std::int64_t dims) noexcept {
  return std::all_of(row, row + dims, [](double x) { return x == std::nearbyint(x); });
}

}  // namespace

Transform choose_transform(const RowKernels& kernels, const SearchSpec& spec, Precision precision,
                           ThreadPool& thread_pool) {
  const std::int64_t dims = spec.corpus.cols;
  const DType dtype = spec.corpus.dtype;
  const Sum sum = filter_sum_of(spec.metric);
  const bool unit = needs_norms(spec.metric);
  Transform transform;
  transform.centre = Buffer<double>(dims);
  double* const centre = transform.centre.data();
  std::fill_n(centre, dims, 0.0);
  Buffer<double> low(dims), high(dims);
  std::fill_n(low.data(), dims, infinite);
  std::fill_n(high.data(), dims, -infinite);
  Sample sample(kernels, spec, most_sampled_rows, sampled_elements, thread_pool);
  const double limit = outlier_limit(sample, dims);
  std::int64_t used = 0;
  bool integral = in_codes(precision) && sum != Sum::products && !unit;
  for (std::int64_t i = 0; i < sample.count(); ++i) {
    const double* row = sample.row(i);
    if (row == nullptr || largest_element(row, dims) > limit) continue;
    const double share = 1 / static_cast<double>(++used);
    integral = integral && all_integral(row, dims);
    for (std::int64_t j = 0; j < dims; ++j) {
      centre[j] += (row[j] - centre[j]) * share;  // a running mean cannot overflow
      low[j] = std::min(low[j], row[j]);
      high[j] = std::max(high[j], row[j]);
    }
  }
  const bool integers = holds_bytes(dtype) && !unit;
  // Integers that fit a byte have one centre for all columns, so that they stay integers that fit.
  double lowest = *std::min_element(low.data(), low.data() + dims),
         highest = *std::max_element(high.data(), high.data() + dims);
  if (integers) lowest = dtype == DType::u8 ? 0 : -128;
  if (integers) highest = lowest + 255;
  integral = integral && used > 0 && highest - lowest <= precision_row(precision).code_range;
  if (integral) std::fill_n(centre, dims, lowest + std::floor((highest - lowest + 1) / 2));
  double largest = 0;
  for (std::int64_t j = 0; j < dims && used > 0; ++j) {
    // Integers stay integers: no quantization error at all.
    centre[j] = integers ? std::nearbyint(centre[j]) : static_cast<double>(static_cast<float>(centre[j]));
    if (sum == Sum::products || !std::isfinite(centre[j])) centre[j] = 0.0;
    largest = std::max({largest, std::fabs(high[j] - centre[j]), std::fabs(low[j] - centre[j])});
  }
  transform.usable = std::isfinite(largest) && (largest == 0 || !is_extreme(std::ilogb(largest)));
  if (unit || largest == 0 || !transform.usable) return transform;
  transform.scale = power_of_two(largest);
  if (integral) transform.integral_step = transform.scale;
  for (std::int64_t j = 0; j < dims; ++j) centre[j] *= transform.scale;
  return transform;
}

}  // namespace vicinal
