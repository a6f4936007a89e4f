// See pilot.hpp. A filter cannot exclude the rows within eps beyond the k-th distance, where eps is the sum of the
// quantization errors of a query and a row. The sample is rounded to int8, as it is and rotated, which tells those
// errors; rotation changes no distance. The sample also tells how many rows are left: where it has rows so near by
// counting them, else by how fast the number of rows grows with the distance.
#include "cpu/propose/pilot.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/bound.hpp"
#include "cpu/filter/refine.hpp"
#include "cpu/propose/costs.hpp"
#include "prepare/matches.hpp"
#include "prepare/sample.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t pilots = 32, most_rows = 512, pilot_elements = std::int64_t{1} << 16;
static_assert(pilot_bytes >= 8 * pilot_elements + 64 * most_rows, "the sample is kept in fp64");
constexpr std::int64_t block_queries = 256;  // at most, that share a step
// The k of a corpus that is kept before its searches are known, and how many rows it has for each of them at least.
constexpr std::int64_t likely_k = 50, rows_for_each = 64;

constexpr double kept_cycles = 60;  // of a row that is kept
// Of an operation of a rotation, once for each of the two passes over the rows: one-shot calls at 100,000 x 96 and x
// 128 (2026-11-22, Granite Rapids).
constexpr double rotate_cycles = 1.1;
constexpr double least_gain = 1.05;  // what is estimated to gain less does not pay

class Pilot {
 public:
  Pilot(const Kernels& kernels, const SearchSpec& spec, const Transform& transform, ThreadPool& thread_pool)
      : kernels_(kernels), dims_(spec.corpus.cols), rows_(static_cast<double>(spec.corpus.rows)),
        products_(filter_sum_of(spec.metric) == Sum::products), row_(dims_), zeros_(dims_), bytes_(dims_) {
    if (spec.radius) {
      const BoundModel model(spec.metric, spec.type, dims_, transform.scale, 0);
      radius_ = theta_of_key(model, radius_key(*spec.radius, spec.type, descending(spec.metric)), transform.scale);
    }
    Sample sample(kernels, spec, most_rows, pilot_elements, thread_pool);
    for (std::int64_t i = 0; i < sample.count(); ++i) {
      const double* row = sample.row(i);
      if (row == nullptr) continue;
      double square = 0, size = 0;
      for (std::int64_t j = 0; j < dims_; ++j) {
        const double x = row[j] * transform.scale - transform.centre[j];
        sample_.push_back(x);
        size = std::max(size, std::fabs(x));
        square += x * x;
      }
      norms_.push_back(std::sqrt(square));
      // Queries of products have a scale of their own.
      scales_.push_back(products_ && size > 0 ? power_of_two(size) : 1);
    }
    for (const double norm : norms_) norm_ += norm / static_cast<double>(norms_.size());
    std::fill_n(zeros_.data(), dims_, 0.0);
    kernel_ =
        kernels.canonical[static_cast<int>(products_ ? Sum::products : Sum::squares)][static_cast<int>(DType::f64)];
  }
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(norms_.size()); }

  /// The quantization errors of the pilots in int8: as rows, whose step is their tile's and so about their own, and as
  /// queries, which share the step of their block.
  struct Rounded {
    double row = 0;  // mean
    std::vector<double> queries;
  };
  Rounded rounded(const Rotation& rotation) {
    Rounded result;
    const std::int64_t few = std::min(pilots, count());
    double largest = 0;
    for (std::int64_t i = 0; i < std::min(block_queries, count()); ++i) {
      load(i, rotation);
      const double size = kernels_.largest(args(1));
      largest = std::max(largest, size * scales_[static_cast<std::size_t>(i)]);
      if (i < few) result.row += quantization_error(size) / static_cast<double>(few);
    }
    for (std::int64_t i = 0; i < few; ++i) {
      load(i, rotation);
      result.queries.push_back(quantization_error(largest / scales_[static_cast<std::size_t>(i)]));
    }
    return result;
  }

  void take(std::int64_t pilot) {
    pilot_ = static_cast<std::size_t>(pilot);
    distances_.resize(norms_.size());
    kernel_({sample_.data() + pilot * dims_, sample_.data(), dims_ * 8, nullptr, count(), dims_, nullptr,
             distances_.data()});
    // Of outliers products may leave fp64 both ways; what is no number is as good as far, and has a place in the order.
    for (double& x : distances_)
      x = std::isnan(x) ? std::numeric_limits<double>::infinity() : products_ ? -x : std::sqrt(x);
    distances_.erase(distances_.begin() + pilot);
    std::sort(distances_.begin(), distances_.end());
  }
  /// It estimates how many of all rows are left for the pilot that was taken.
  double left_by(const Rounded& rounded, double k) const {
    const double query = rounded.queries[pilot_];
    return left(k, products_ ? query * norm_ + norms_[pilot_] * rounded.row : query + rounded.row);
  }
  double left_by_floats(double k) const {
    const double d = static_cast<double>(dims_);
    return left(k, products_ ? d * float_u * norms_[pilot_] * norm_
                             : std::sqrt((d / 2 + 6) * float_u) * (norms_[pilot_] + norm_));
  }

 private:
  void load(std::int64_t i, const Rotation& rotation) {
    std::copy_n(sample_.data() + i * dims_, dims_, row_.data());
    rotation.apply(row_.data());
  }
  Int8QuantizeArgs args(double step) {
    return {.row = row_.data(),
            .centre = zeros_.data(),
            .shift = 0,
            .scale = 1,
            .step = step,
            .inverse = 1 / step,
            .dims = dims_,
            .out = bytes_.data()};
  }
  /// It measures the row that was loaded, with the step for elements up to `size`.
  double quantization_error(double size) {
    return size > 0 ? std::sqrt(kernels_.quantize_int8(args(size / 127)).facts.ee) : 0;
  }

  double left(double k, double eps) const { return radius_ ? within(eps) : beyond(k, eps); }
  double per_row() const noexcept { return rows_ / static_cast<double>(distances_.size()); }
  double near(double r) const noexcept {
    return distances_[std::min(static_cast<std::size_t>(r), distances_.size() - 1)];
  }
  double counted(double distance) const {
    return static_cast<double>(std::upper_bound(distances_.begin(), distances_.end(), distance) - distances_.begin());
  }
  /// It returns the power of the distance with which the number of rows grows about the nearest of the sample.
  double growth() const {
    const double inner = near(4), outer = near(12);
    if (products_ || !(inner > 0)) return 1e9;
    return std::log(13.0 / 5.0) / std::log(std::max(outer / inner, 1 + 1e-9));
  }

  /// It counts the rows not farther than eps beyond the k-th.
  double beyond(double k, double eps) const {
    const double rank = k / per_row(), power = rank < 4 ? growth() : 1;
    const double kth = rank < 4 ? near(4) * std::pow((rank + 1e-9) / 5, 1 / power) : near(rank);
    const double count = counted(kth + eps);
    if (count >= 4 || !(kth > 0)) return std::max(k, count * per_row());
    return std::min(k * std::pow(1 + eps / kth, power), 4 * per_row());
  }
  /// It counts the rows not farther than eps beyond the radius.
  double within(double eps) const {
    const double reach = *radius_ + eps, count = counted(reach);
    if (count >= 4 || !(near(4) > 0)) return std::max(1.0, count * per_row());
    return std::clamp(5 * per_row() * std::pow(std::max(reach, 0.0) / near(4), growth()), 1.0, 5 * per_row());
  }

  const Kernels& kernels_;
  std::int64_t dims_;
  double rows_;
  std::optional<double> radius_;  // in units of the filter
  bool products_;                 // is what the filter estimates, else squares
  CanonicalFn kernel_ = nullptr;
  double norm_ = 0;  // mean
  std::vector<double> sample_, norms_, scales_, distances_;
  std::size_t pilot_ = 0;
  Buffer<double> row_, zeros_;
  Buffer<std::int8_t> bytes_;
};

}  // namespace

bool bytes_pay(const Kernels& kernels, const SearchSpec& spec, Transform& transform, bool second, double queries,
               ThreadPool& thread_pool) {
  if (!transform.usable || transform.integral_step > 0) return transform.usable;
  return look(kernels, spec, transform, second, queries, thread_pool).int8_pays;
}

Outlook look(const Kernels& kernels, const SearchSpec& spec, Transform& transform, bool second, double queries,
             ThreadPool& thread_pool) {
  Outlook outlook{.int8_pays = transform.usable};
  if (!transform.usable) return outlook;
  Pilot pilot(kernels, spec, transform, thread_pool);
  if (pilot.count() < 16) return outlook;
  const double n = static_cast<double>(spec.corpus.rows), d = static_cast<double>(spec.corpus.cols);
  const auto k = static_cast<double>(std::max(spec.k, std::min(likely_k, spec.corpus.rows / rows_for_each)));
  const auto cycles = [&](double pair, double left, double each) {
    return n * pair + left * (each + kept_cycles * (1 + std::log(std::max(n / left, 1.0))));
  };
  const std::int64_t count = std::min(pilots, pilot.count());
  struct Way {
    Rotation rotation;
    Pilot::Rounded rounded;
    double cycles = 0, left = 0;  // of all pilots
  };
  Way ways[2];
  ways[1].rotation = Rotation(spec.corpus.cols);
  for (Way& way : ways) {
    way.rounded = pilot.rounded(way.rotation);
    const double row =
        costs::reading(d) * (second ? 2 : 1) + rotate_cycles * way.rotation.operations();  // more than floats take
    way.cycles = static_cast<double>(count) * n * row / queries;
  }
  double floats = 0, left_f32 = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    pilot.take(i);
    const double finest = pilot.left_by_floats(k);
    floats += cycles(costs::float_pair(d), finest, costs::reranked_row(d));
    left_f32 += finest;
    for (Way& way : ways) {
      const double left = pilot.left_by(way.rounded, k);
      way.cycles += cycles(costs::int8_pair(d), left,
                           second ? costs::reranked_row(d) / refinements_a_rank : costs::reranked_row(d)) +
                    (second ? finest * costs::reranked_row(d) : 0);
      way.left += left;
    }
    thread_pool.poll(0);
  }
  Way& best = ways[ways[1].cycles * least_gain < ways[0].cycles];
  outlook.sampled = pilot.count();
  outlook.left_f32 = left_f32 / static_cast<double>(count);
  if (transform.integral_step > 0) {  // bytes hold such rows as they are
    outlook.left_int8 = outlook.left_f32;
    return outlook;
  }
  outlook.left_int8 = best.left / static_cast<double>(count);
  outlook.rotated = best.rotation.present();
  outlook.int8_pays = best.cycles < floats && best.left * costs::least_excluded < n * static_cast<double>(count);
  transform.rotation = std::move(best.rotation);
  return outlook;
}

}  // namespace vicinal::cpu
