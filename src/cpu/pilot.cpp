// See pilot.hpp. With eps the residuals of a query and a row, what a filter cannot exclude are the rows within eps beyond the
// k-th distance. The sample says how many those are: where it has rows so near by counting them, else by how fast the number
// of rows grows with the distance.
#include "cpu/pilot.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include "core/bound.hpp"
#include "cpu/filter.hpp"
#include "cpu/sample.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t pilots = 32, most_rows = 512, pilot_elements = std::int64_t{1} << 16;
static_assert(pilot_bytes >= 8 * pilot_elements + 16 * most_rows, "the sample is kept in fp64");
constexpr std::int64_t likely_k = 50;     // of a corpus that is kept before its searches are known
constexpr std::int64_t least_share = 16;  // a filter that leaves a row in so many is given up

// Cycles, as in src/pipeline/plan.cpp: of a pair in each kind of tile, of a row that is kept, of one that is ranked.
double byte_pair(double d) { return 0.4 + 0.0125 * d; }
double float_pair(double d) { return 0.7 + 0.045 * d; }
double survivor(double d) { return 2 * (16 + 0.6 * d); }
constexpr double kept_cycles = 60;

class Pilot {
 public:
  Pilot(const Kernels& kernels, const Question& question, const Frame& frame, Team& team)
      : dims_(question.corpus.cols), rows_(static_cast<double>(question.corpus.rows)), form_(form_of(question.metric)) {
    if (question.radius) {
      const BoundModel model(question.metric, question.type, dims_, frame.scale, 0);
      radius_ = theta_of_key(model, radius_key(*question.radius, question.type, descending(question.metric)), frame.scale);
    }
    Sample sample(kernels, question, most_rows, pilot_elements, team);
    for (std::int64_t i = 0; i < sample.count(); ++i) {
      const double* row = sample.row(i);
      if (row == nullptr) continue;
      double size = 0, square = 0;
      for (std::int64_t j = 0; j < dims_; ++j) {
        const double x = row[j] * frame.scale - frame.centre[j];
        sample_.push_back(x);
        size = std::max(size, std::fabs(x));
        square += x * x;
      }
      sizes_.push_back(size);
      norms_.push_back(std::sqrt(square));
    }
    largest_query_ = sizes_.empty() ? 0 : *std::max_element(sizes_.begin(), sizes_.end());
    kernel_ =
        kernels.canonical[static_cast<int>(form_ == Form::ip ? Op::dot : Op::sqdiff)][static_cast<int>(DType::f64)];
  }
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(sizes_.size()); }

  /// What is left of all rows for a pilot: by bytes, by floats.
  struct Left {
    double bytes, floats;
  };
  Left left(std::int64_t pilot, double k) {
    const auto at = static_cast<std::size_t>(pilot);
    distances_.resize(sizes_.size());
    kernel_({sample_.data() + pilot * dims_, sample_.data(), dims_ * 8, nullptr, count(), dims_, nullptr,
             distances_.data()});
    for (double& x : distances_) x = form_ == Form::ip ? -x : std::sqrt(x);
    distances_.erase(distances_.begin() + pilot);
    std::sort(distances_.begin(), distances_.end());
    // A row's own step is its tile's, a query's that of its block, which holds about as many as the sample. Rounding errs by 1/sqrt(12) of a step, root mean square.
    const double rounding = std::sqrt(static_cast<double>(dims_) / 12) / 127, d = static_cast<double>(dims_);
    double size = 0, norm = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) size += sizes_[i], norm += norms_[i];
    size /= static_cast<double>(count());
    norm /= static_cast<double>(count());
    const double query = largest_query_ * rounding, row = size * rounding;
    if (form_ == Form::ip && radius_)
      return {within(query * norm + norms_[at] * row), within(d * float_u * norms_[at] * norm)};
    if (form_ == Form::ip)
      return {beyond(k, query * norm + norms_[at] * row), beyond(k, d * float_u * norms_[at] * norm)};
    if (radius_) return {within(query + row), within(std::sqrt((d / 2 + 6) * float_u) * (norms_[at] + norm))};
    return {beyond(k, query + row), beyond(k, std::sqrt((d / 2 + 6) * float_u) * (norms_[at] + norm))};
  }

 private:
  double per_row() const noexcept { return rows_ / static_cast<double>(distances_.size()); }
  double near(double r) const noexcept {
    return distances_[std::min(static_cast<std::size_t>(r), distances_.size() - 1)];
  }
  double counted(double distance) const {
    return static_cast<double>(std::upper_bound(distances_.begin(), distances_.end(), distance) - distances_.begin());
  }
  /// The power of the distance with which the number of rows grows about the nearest of the sample.
  double growth() const {
    const double inner = near(4), outer = near(12);
    if (form_ == Form::ip || !(inner > 0)) return 1e9;
    return std::log(13.0 / 5.0) / std::log(std::max(outer / inner, 1 + 1e-9));
  }

  /// Rows not farther than eps beyond the k-th.
  double beyond(double k, double eps) const {
    const double rank = k / per_row(), power = rank < 4 ? growth() : 1;
    const double kth = rank < 4 ? near(4) * std::pow((rank + 1e-9) / 5, 1 / power) : near(rank);
    const double count = counted(kth + eps);
    if (count >= 4 || !(kth > 0)) return std::max(k, count * per_row());
    return std::min(k * std::pow(1 + eps / kth, power), 4 * per_row());
  }
  /// Rows not farther than eps beyond the radius.
  double within(double eps) const {
    const double reach = *radius_ + eps, count = counted(reach);
    if (count >= 4 || !(near(4) > 0)) return std::max(1.0, count * per_row());
    return std::clamp(5 * per_row() * std::pow(std::max(reach, 0.0) / near(4), growth()), 1.0, 5 * per_row());
  }

  std::int64_t dims_;
  double rows_;
  std::optional<double> radius_;  // in units of the filter
  Form form_;
  CanonicalFn kernel_;
  double largest_query_;
  std::vector<double> sample_, sizes_, norms_, distances_;
};

}  // namespace

bool bytes_pay(const Kernels& kernels, const Question& question, const Frame& frame, bool second, Team& team) {
  if (!frame.usable || frame.whole > 0) return frame.usable;
  Pilot pilot(kernels, question, frame, team);
  if (pilot.count() < 16) return true;
  const double n = static_cast<double>(question.corpus.rows), d = static_cast<double>(question.corpus.cols);
  const auto k = static_cast<double>(std::max(question.k, likely_k));
  const auto cycles = [&](double pair, double left, double each) {
    return n * pair + left * (each + kept_cycles * (1 + std::log(std::max(n / left, 1.0))));
  };
  double bytes = 0, floats = 0, worst = 0;
  const std::int64_t count = std::min(pilots, pilot.count());
  for (std::int64_t i = 0; i < count; ++i) {
    const Pilot::Left left = pilot.left(i, k);
    bytes += cycles(byte_pair(d), left.bytes, second ? survivor(d) / looks_a_rank : survivor(d)) + (second ? left.floats * survivor(d) : 0);
    floats += cycles(float_pair(d), left.floats, survivor(d));
    worst += left.bytes / static_cast<double>(count);
    team.tick(0);
  }
  return bytes < floats && worst * least_share < n;
}

}  // namespace vicinal::cpu
