// A pilot tells the plan of a search on a device what a sample of the rows says. Shapes say nothing of rows that lie so
// near each other that bytes cannot tell them apart, which are ranked, nor of equal rows, which are marked. No answer
// depends on it.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "cuda/search/prepare/chosen.hpp"
#include "cuda/search/seconds.hpp"
#include "prepare/sample.hpp"
#include "prepare/sampled_distances.hpp"

namespace vicinal::cuda {

/// A Look is what a sample says. left: rows of the corpus that bytes leave a query, its neighbours among them.
struct Look {
  std::int64_t sampled = 0;  // rows of the corpus; 0: it says nothing
  double left = 0;
  bool duplicates = false;  // equal rows are marked before the search
};

/// SampledRows are rows of a sample, in fp64 and mapped to unit rows where the metric asks for it.
struct SampledRows {
  std::int64_t count = 0, dims = 0;
  std::vector<double> values;
  const double* row(std::int64_t i) const { return values.data() + i * dims; }
};

/// So many elements tell clusters of a few hundred of a million rows of 128 columns, in some milliseconds.
inline constexpr std::int64_t pilot_elements = std::int64_t{1} << 20, most_pilot_rows = 8192, least_pilot_rows = 64;
inline constexpr std::int64_t pilot_queries = 16;

/// It brings a sample of the corpus, which is the host's or the device's.
template <class Device>
SampledRows bring_sample(Device& device, const SearchSpec& spec, ThreadPool& thread_pool) {
  const Points& corpus = spec.corpus;
  const std::int64_t most =
      std::min(corpus.rows, std::clamp(pilot_elements / corpus.cols, least_pilot_rows, most_pilot_rows));
  const auto row_bytes = corpus.cols * static_cast<std::int64_t>(dtype_size(corpus.dtype));
  std::vector<std::int64_t> which(static_cast<std::size_t>(most));
  const VisitOrder order(corpus.rows);
  for (std::int64_t i = 0; i < most; ++i) which[static_cast<std::size_t>(i)] = order.at(i);
  Buffer<std::byte> bytes(most * row_bytes);
  if (device.holds(corpus.data)) {
    ChosenRows<Device> chosen(device);
    device.out(bytes.data(), chosen.gather(corpus, which).data, bytes.bytes());
    device.wait();
  } else {
    for (std::int64_t i = 0; i < most; ++i)
      gather_row(corpus, which[static_cast<std::size_t>(i)], bytes.data() + i * row_bytes);
  }
  const SearchSpec on_host{.corpus = Points(bytes.data(), corpus.dtype, most, corpus.cols),
                           .metric = spec.metric,
                           .type = spec.type,
                           .degenerate = spec.degenerate};
  Sample sample(best_row_kernels(), on_host, most, most * corpus.cols, thread_pool);
  SampledRows rows{.count = 0, .dims = corpus.cols, .values = {}};
  for (std::int64_t i = 0; i < most; ++i) {
    const double* const row = sample.row(i);
    if (row == nullptr) continue;
    rows.values.insert(rows.values.end(), row, row + corpus.cols);
    ++rows.count;
  }
  return rows;
}

/// The distance of two rows, or their product, negated.
inline double sampled_distance(const double* a, const double* b, std::int64_t dims, bool products) {
  constexpr int lanes = 8;
  double sums[lanes] = {};
  std::int64_t j = 0;
  for (; j + lanes <= dims; j += lanes)
    for (int i = 0; i < lanes; ++i) {
      const double x = a[j + i], y = b[j + i];
      sums[i] += products ? -x * y : (x - y) * (x - y);
    }
  for (; j < dims; ++j) sums[0] += products ? -a[j] * b[j] : (a[j] - b[j]) * (a[j] - b[j]);
  double sum = 0;
  for (const double part : sums) sum += part;
  if (std::isnan(sum)) return std::numeric_limits<double>::infinity();  // of outliers, which are as good as far
  return products ? sum : std::sqrt(sum);
}

/// It tells of a sample of a corpus of n rows how many are left a query that looks for k. exact: bytes hold the rows as
/// they are.
inline Look look_at(const SampledRows& rows, double n, double k, bool products, bool exact) {
  Look look{.sampled = rows.count};
  const std::int64_t count = rows.count, dims = rows.dims;
  const auto d = static_cast<double>(dims);
  std::vector<double> centre(static_cast<std::size_t>(dims), 0.0), errors, norms;
  if (!products)
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < dims; ++j)
        centre[static_cast<std::size_t>(j)] += rows.row(i)[j] / static_cast<double>(count);
  // A step of bytes is a row's largest element in 127, and moves an element by a step over the root of 12.
  double norm = 0, error = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    double largest = 0, square = 0;
    for (std::int64_t j = 0; j < dims; ++j) {
      const double x = rows.row(i)[j] - centre[static_cast<std::size_t>(j)];
      largest = std::max(largest, std::fabs(x));
      square += x * x;
    }
    errors.push_back(exact ? 0 : largest / 127 * std::sqrt(d / 12));
    norms.push_back(std::sqrt(square));
    norm += norms.back() / static_cast<double>(count);
    error += errors.back() / static_cast<double>(count);
  }
  const SampledScale scale{.per_row = n / static_cast<double>(count - 1), .products = products};
  const std::int64_t pilots = std::min(pilot_queries, count);
  std::int64_t alike = 0;
  for (std::int64_t p = 0; p < pilots; ++p) {
    std::vector<double> distances;
    for (std::int64_t i = 0; i < count; ++i)
      if (i != p) distances.push_back(sampled_distance(rows.row(p), rows.row(i), dims, products));
    std::sort(distances.begin(), distances.end());
    if (!products && distances.front() == 0) ++alike;
    const auto at = static_cast<std::size_t>(p);
    const double eps = products ? errors[at] * norm + norms[at] * error : errors[at] + error;
    look.left += left_rows(scale, k, eps, distances, distances) / static_cast<double>(pilots);
  }
  // Of equal rows a list has the first k, and no more are left.
  look.duplicates = alike * 4 >= pilots;
  look.left = std::clamp(look.left, k, look.duplicates ? 2 * k : n);
  return look;
}

/// It corrects the seconds of a plan whose first precision is bytes, of products.
template <class Device>
void look_before(Device& device, SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec) {
  const Sum sum = filter_sum_of(problem.metric);
  const Precision first = precision_of(plan.cascade.front());
  if (!in_codes(first) || !has_products(sum) || problem.range || problem.k == 0 || spec.corpus.rows < least_pilot_rows)
    return;
  if (device.holds(spec.corpus.data) && !is_dense(spec.corpus)) return;  // which the search will refuse
  ThreadPool thread_pool(1, nullptr, {}, 0);
  const SampledRows rows = bring_sample(device, spec, thread_pool);
  if (rows.count < least_pilot_rows) return;
  const bool exact = std::all_of(rows.values.begin(), rows.values.end(),
                                 [](double x) { return x == std::floor(x) && std::fabs(x) <= 255; });
  const Look look =
      look_at(rows, static_cast<double>(spec.corpus.rows), static_cast<double>(problem.k), sum == Sum::products, exact);
  plan.sampled_rows = look.sampled;
  plan.left_rows = static_cast<std::int64_t>(look.left);
  plan.seconds += data_seconds(problem, look.left, look.duplicates);
}

}  // namespace vicinal::cuda
