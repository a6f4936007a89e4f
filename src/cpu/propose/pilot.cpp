// See pilot.hpp. A filter cannot exclude the rows within eps beyond the k-th distance, where eps is the sum of the
// quantization errors of a query and a row. The sample is rounded to int8, as it is, rotated and projected, which tells
// those errors; rotation changes no distance, and projected distances are measured. The sample also tells how many rows
// are left: where it has rows so near by counting them, else by how fast the number of rows grows with the distance.
#include "cpu/propose/pilot.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/bound.hpp"
#include "cpu/filter/refine.hpp"
#include "cpu/prepare/projected.hpp"
#include "cpu/propose/costs.hpp"
#include "prepare/matches.hpp"
#include "prepare/project.hpp"
#include "prepare/sample.hpp"
#include "prepare/sampled_distances.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t pilots = 32;
/// How many rows a sample has.
struct SampleSize {
  std::int64_t most_rows, elements;
  std::int64_t rows_of(std::int64_t dims) const noexcept {
    return std::clamp<std::int64_t>(elements / dims, 16, most_rows);
  }
};
constexpr SampleSize usual_sample{512, std::int64_t{1} << 17};
// Few rows of many columns say too little of the distances of the nearest: the number of rows within them grows faster
// than theirs tells.
constexpr SampleSize projected_sample{2048, std::int64_t{1} << 20};
constexpr std::int64_t least_sampled = 16;
constexpr std::int64_t block_queries = 256;  // at most, that share a step
// The k of a corpus that is kept before its searches are known, and how many rows it has for each of them at least.
constexpr std::int64_t likely_k = 50, rows_for_each = 64;

constexpr double kept_cycles = 60;  // of a row that is kept
// Of an operation of a rotation, once for each of the two passes over the rows: one-shot calls at 100,000 x 96 and x
// 128 (2026-11-22, Granite Rapids).
constexpr double rotate_cycles = 1.1;
constexpr double least_gain = 1.05;           // what is estimated to gain less does not pay
constexpr double least_projected_gain = 1.5;  // of long lists it is less than what is estimated of usual ones
constexpr double wider_gain = 1.2;  // so much longer may more columns take, which leave fewer rows of long lists
constexpr std::int64_t all_projected_columns[] = {64, 128, most_projected_columns};
constexpr double most_projected_int8_gain = 4;       // AMX multiplies rows in less time than what is left takes
constexpr double least_projected_elements = 0x1p23;  // of a corpus
constexpr double least_held = 0.4;                   // of the rows' squares, by the fewest directions
constexpr double most_waiting_slowness = 4;          // plain code waits for its own sums
constexpr double waiting_gain = 4;                   // of bytes against floats, where queries wait for memory
constexpr double least_byte_elements = 0x1p15;       // of a corpus: what is read of less takes no time
constexpr std::int64_t most_waiting_queries = 16;    // more of them take floats there
constexpr double most_directions_share = 1.0 / 16;   // of the time of a search, that finding directions may take

/// It returns how much faster bytes are than floats, of the pairs of a search.
double gain_of_bytes(const SampledSearch& search) noexcept {
  const bool kept = search.int8_gain <= 1 && std::isinf(search.queries);
  return kept && most_byte_queries(search.corpus(), search.slowness) > 0 ? waiting_gain : search.int8_gain;
}

/// Rows of the sample in the form that is rounded.
struct SampledForm {
  std::int64_t columns = 0;
  std::vector<double> rows;
};

class Pilot {
 public:
  Pilot(const Kernels& kernels, const SearchSpec& spec, const Transform& transform, const SampleSize& size,
        ThreadPool& thread_pool)
      : kernels_(kernels), dims_(spec.corpus.cols), rows_(static_cast<double>(spec.corpus.rows)),
        products_(filter_sum_of(spec.metric) == Sum::products) {
    if (spec.radius) {
      const BoundModel model(spec.metric, spec.type, dims_, transform.scale, 0);
      radius_ = theta_of_key(model, radius_key(*spec.radius, spec.type, descending(spec.metric)), transform.scale);
    }
    Sample sample(kernels, spec, size.most_rows, size.elements, thread_pool);
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
    kernel_ =
        kernels.canonical[static_cast<int>(products_ ? Sum::products : Sum::squares)][static_cast<int>(DType::f64)];
  }
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(norms_.size()); }
  /// Rows that play queries.
  double taken() const noexcept { return static_cast<double>(std::min(pilots, count())); }
  SampledForm form(const Projection& projection, const Rotation& rotation) const {
    SampledForm form{.columns = projection.present() ? projection.columns() : dims_, .rows = {}};
    form.rows.resize(static_cast<std::size_t>(count() * form.columns));
    for (std::int64_t i = 0; i < count(); ++i) {
      const double* from = sample_.data() + i * dims_;
      double* const to = form.rows.data() + i * form.columns;
      if (projection.present()) project_moved(kernels_, projection, from, 1, to);
      else std::copy_n(from, dims_, to);
      rotation.apply(to);
    }
    return form;
  }

  /// The share of the sample's squares that directions hold.
  double held(const Projection& projection) const {
    double held = 0, all = 0;
    std::vector<double> row(static_cast<std::size_t>(projection.columns()));
    for (std::int64_t i = 0; i < count(); ++i) {
      project_moved(kernels_, projection, sample_.data() + i * dims_, 1, row.data());
      for (std::int64_t j = 0; j < projection.directions(); ++j)
        held += row[static_cast<std::size_t>(j)] * row[static_cast<std::size_t>(j)];
      all += norms_[static_cast<std::size_t>(i)] * norms_[static_cast<std::size_t>(i)];
    }
    return held / all;
  }

  /// The quantization errors of the pilots in int8: as rows, whose step is their tile's and so about their own, and as
  /// queries, which share the step of their block.
  struct Rounded {
    double row = 0;  // mean
    std::vector<double> queries;
  };
  Rounded rounded(const SampledForm& form) const {
    Rounded result;
    const Buffer<double> zeros = zeros_of(form.columns);
    Buffer<std::int8_t> bytes(form.columns);
    const auto args = [&](std::int64_t i, double step) {
      return int8_args_of(form.rows.data() + i * form.columns, zeros.data(), form.columns, step, bytes.data());
    };
    /// With the step for elements up to `size`.
    const auto quantization_error = [&](std::int64_t i, double size) {
      return size > 0 ? std::sqrt(kernels_.round_to_int8(args(i, size / 127)).facts.ee) : 0;
    };
    const std::int64_t few = std::min(pilots, count());
    double largest = 0;
    for (std::int64_t i = 0; i < std::min(block_queries, count()); ++i) {
      const auto size = static_cast<double>(size_of(kernels_, args(i, 1)));
      largest = std::max(largest, size * scales_[static_cast<std::size_t>(i)]);
      if (i < few) result.row += quantization_error(i, size) / static_cast<double>(few);
    }
    for (std::int64_t i = 0; i < few; ++i)
      result.queries.push_back(quantization_error(i, largest / scales_[static_cast<std::size_t>(i)]));
    return result;
  }

  /// From a pilot to the other rows, ascending: those of the rows themselves, by which every way is judged, and of a form
  /// of them.
  const std::vector<double>& distances(std::int64_t pilot) const {
    std::vector<double>& truth = truths_[static_cast<std::size_t>(pilot)];
    if (truth.empty()) truth = distances(pilot, sample_.data(), dims_);
    return truth;
  }
  std::vector<double> distances(std::int64_t pilot, const SampledForm& form) const {
    return distances(pilot, form.rows.data(), form.columns);
  }

  /// It estimates how many of all rows are left for a pilot. truth: distances of the rows. seen: of what the filter has
  /// of them.
  double left_by(std::int64_t pilot, const Rounded& rounded, const std::vector<double>& truth,
                 const std::vector<double>& seen, double k) const {
    const double query = rounded.queries[static_cast<std::size_t>(pilot)],
                 norm = norms_[static_cast<std::size_t>(pilot)];
    return left(k, products_ ? query * norm_ + norm * rounded.row : query + rounded.row, truth, seen);
  }
  /// The same without quantization errors.
  double left_by_exact(const std::vector<double>& truth, const std::vector<double>& seen, double k) const {
    return left(k, 0, truth, seen);
  }
  double left_by_floats(std::int64_t pilot, const std::vector<double>& truth, double k) const {
    const double d = static_cast<double>(dims_), norm = norms_[static_cast<std::size_t>(pilot)];
    return left(k, products_ ? d * float_u * norm * norm_ : std::sqrt((d / 2 + 6) * float_u) * (norm + norm_), truth,
                truth);
  }

 private:
  static Buffer<double> zeros_of(std::int64_t count) {
    Buffer<double> zeros(count);
    std::fill_n(zeros.data(), count, 0.0);
    return zeros;
  }
  std::vector<double> distances(std::int64_t pilot, const double* rows, std::int64_t columns) const {
    std::vector<double> all(norms_.size());
    kernel_({rows + pilot * columns, rows, columns * 8, nullptr, count(), columns, nullptr, all.data()});
    // Of outliers products may leave fp64 both ways; what is no number is as good as far, and has a place in the order.
    for (double& x : all) x = std::isnan(x) ? std::numeric_limits<double>::infinity() : products_ ? -x : std::sqrt(x);
    all.erase(all.begin() + pilot);
    std::sort(all.begin(), all.end());
    return all;
  }

  /// It counts the rows that are seen not farther than eps beyond the k-th, or the radius.
  double left(double k, double eps, const std::vector<double>& truth, const std::vector<double>& seen) const {
    return left_rows({rows_ / static_cast<double>(norms_.size() - 1), products_, radius_}, k, eps, truth, seen);
  }

  const Kernels& kernels_;
  std::int64_t dims_;
  double rows_;
  std::optional<double> radius_;  // in units of the filter
  bool products_;                 // is what the filter estimates, else squares
  CanonicalFn kernel_ = nullptr;
  double norm_ = 0;  // mean
  std::vector<double> sample_, norms_, scales_;
  mutable std::vector<double> truths_[pilots];  // of each pilot; empty: not yet known
};

/// A Way is one to search, and has what the pilots say of it, in all.
struct Way {
  double cycles = 0, left = 0;
};

/// A Survey compares ways to search.
class Survey {
 public:
  Survey(const SampledSearch& search, ThreadPool& thread_pool)
      : search_(search), thread_pool_(thread_pool), n_(static_cast<double>(search.spec.corpus.rows)),
        d_(static_cast<double>(search.spec.corpus.cols)),
        k_(static_cast<double>(std::max(search.spec.k, std::min(likely_k, search.spec.corpus.rows / rows_for_each)))) {}

  Way floats(const Pilot& pilot) const {
    Way way;
    each(pilot, [&](std::int64_t i, const std::vector<double>& truth) {
      const double left = pilot.left_by_floats(i, truth, k_);
      way.cycles += cycles(costs::float_pair(d_), left, costs::reranked_row(d_));
      way.left += left;
    });
    return way;
  }
  /// Rows as they are or rotated. exact: bytes hold them as they are.
  Way bytes(const Pilot& pilot, const Rotation& rotation, bool exact) const {
    const Pilot::Rounded rounded = pilot.rounded(pilot.form({}, rotation));
    // More than floats take.
    Way way{.cycles = preparing(costs::reading(d_) * (search_.second ? 2 : 1) + rotate_cycles * rotation.operations())};
    each(pilot, [&](std::int64_t i, const std::vector<double>& truth) {
      const double finest = pilot.left_by_floats(i, truth, k_), ranking = costs::reranked_row(d_),
                   left = exact ? finest : pilot.left_by(i, rounded, truth, truth, k_);
      way.cycles += cycles(costs::int8_pair(d_, gain_of_bytes(search_)), left,
                           search_.second ? ranking / refinements_a_rank : ranking) +
                    (search_.second ? finest * ranking : 0);
      way.left += left;
    });
    return way;
  }
  Way projected(const Pilot& pilot, const Projection& projection) const {
    const auto columns = static_cast<double>(projection.columns());
    const SampledForm form = pilot.form(projection, Rotation(projection.columns()));
    const Pilot::Rounded rounded = pilot.rounded(form);
    Way way{.cycles = preparing(costs::reading(d_) * (search_.second ? 2 : 1)) + projecting(columns)};
    each(pilot, [&](std::int64_t i, const std::vector<double>& truth) {
      const std::vector<double> seen = pilot.distances(i, form);
      const double left = pilot.left_by(i, rounded, truth, seen, k_), ranking = costs::reranked_row(d_),
                   finest = pilot.left_by_exact(truth, seen, k_);
      way.cycles +=
          cycles(pair(columns), left, search_.second ? costs::reranked_row(columns) / refinements_a_rank : ranking) +
          (search_.second ? finest * ranking : 0);
      way.left += left;
    });
    return way;
  }
  /// What rows of so many columns take at least, for all pilots.
  double least_cycles(std::int64_t columns) const {
    return static_cast<double>(pilots) * n_ * pair(static_cast<double>(columns)) * search_.slowness +
           projecting(static_cast<double>(columns));
  }
  /// Whether a filter in these ways excludes enough.
  bool excludes(const Way& way, double pilots_taken) const {
    return way.left * costs::least_excluded < n_ * pilots_taken;
  }

 private:
  template <class Body>
  void each(const Pilot& pilot, const Body& body) const {
    for (std::int64_t i = 0; i < std::min(pilots, pilot.count()); ++i) {
      body(i, pilot.distances(i));
      thread_pool_.poll(0);
    }
  }
  double pair(double columns) const { return costs::int8_pair(columns, search_.int8_gain); }
  double cycles(double pair, double left, double each) const {
    return n_ * pair * search_.slowness + left * (each + kept_cycles * (1 + std::log(std::max(n_ / left, 1.0))));
  }
  double projecting(double columns) const {
    return static_cast<double>(pilots) * (n_ * costs::projecting(d_, columns) + costs::directions(d_)) /
           std::min(search_.queries, costs::kept_queries);
  }
  double preparing(double row) const { return static_cast<double>(pilots) * n_ * row / search_.queries; }

  const SampledSearch& search_;
  ThreadPool& thread_pool_;
  double n_, d_, k_;
};

/// It projects where that takes less than `others`, by far. Returns the way. Few directions are looked for first: what
/// holds nothing in them will not in more.
std::optional<Way> project_if_best(const SampledSearch& search, const Survey& survey, double others,
                                   Transform& transform, ThreadPool& thread_pool) {
  const std::int64_t dims = search.spec.corpus.cols;
  const auto directions_of = [&](std::int64_t columns) {
    return choose_directions(search.kernels, search.spec, columns - 1, projected_sample.rows_of(dims), thread_pool);
  };
  Directions directions = directions_of(all_projected_columns[0]);
  if (directions.rows.empty()) return std::nullopt;
  const Pilot pilot(search.kernels, search.spec, directions.moved, projected_sample, thread_pool);
  if (pilot.count() < least_sampled) return std::nullopt;  // of rows that change meanwhile
  std::optional<Way> best;
  for (const std::int64_t columns : all_projected_columns) {
    const bool first = columns == all_projected_columns[0];
    const double least = best ? best->cycles * wider_gain : others / least_projected_gain;
    if (2 * columns > dims || survey.least_cycles(columns) > least) break;
    if (!first) directions = directions_of(columns);
    Projection projection(dims, directions.rows, [&] { thread_pool.poll(0); });
    if (!projection.present() || projection.columns() != columns) break;
    if (first && !(pilot.held(projection) > least_held)) break;
    const Way way = survey.projected(pilot, projection);
    if (!(way.cycles < least) || !survey.excludes(way, pilot.taken())) continue;
    best = way;
    transform = projecting(std::move(directions.moved), std::move(projection));
  }
  return best;
}

}  // namespace

bool may_project(const Shape& corpus, Metric metric, double queries, double int8_gain) {
  const double n = static_cast<double>(corpus.rows), d = static_cast<double>(corpus.cols);
  return int8_gain <= most_projected_int8_gain && corpus.cols >= least_projected_dims &&
         has_products(filter_sum_of(metric)) && n * d >= least_projected_elements &&
         costs::directions(d) <= most_directions_share * queries * n * costs::int8_pair(d, int8_gain);
}

std::int64_t pilot_bytes(std::int64_t dims) noexcept {
  const auto truths = [&](const SampleSize& size) { return pilots * size.rows_of(dims) * 8; };
  const std::int64_t usual = 3 * usual_sample.rows_of(dims) * dims * 8 + truths(usual_sample) + (std::int64_t{1} << 19);
  if (dims < least_projected_dims) return usual;
  const std::int64_t rows = projected_sample.rows_of(dims);
  return usual + rows * (dims + most_projected_columns) * 8 + truths(projected_sample) + directions_bytes(dims);
}

std::int64_t most_byte_queries(const Shape& corpus, double slowness) noexcept {
  const double elements = static_cast<double>(corpus.rows) * static_cast<double>(corpus.cols);
  if (slowness > most_waiting_slowness || elements < least_byte_elements) return 0;
  return elements > costs::held_bytes ? most_waiting_queries : few_int8_queries;
}

bool bytes_pay(const SampledSearch& search, Transform& transform, ThreadPool& thread_pool) {
  if (!transform.usable) return false;
  if (transform.integral_step > 0 && !may_project(search)) return gain_of_bytes(search) > 1;
  return look(search, transform, thread_pool).int8_pays;
}

Outlook look(const SampledSearch& search, Transform& transform, ThreadPool& thread_pool) {
  Outlook outlook{.int8_pays = transform.usable};
  if (!transform.usable) return outlook;
  const Pilot pilot(search.kernels, search.spec, transform, usual_sample, thread_pool);
  if (pilot.count() < least_sampled) return outlook;
  const Survey survey(search, thread_pool);
  const double count = pilot.taken();
  const bool exact = transform.integral_step > 0;
  const Way floats = survey.floats(pilot);
  Way best = survey.bytes(pilot, {}, exact);
  outlook.sampled = pilot.count();
  outlook.left_f32 = floats.left / count;
  if (!exact) {
    const Rotation rotation(search.spec.corpus.cols);
    const Way rotated = survey.bytes(pilot, rotation, false);
    outlook.rotated = rotated.cycles * least_gain < best.cycles;
    if (outlook.rotated) best = rotated;
    transform.rotation = outlook.rotated ? rotation : Rotation();
  }
  const bool pays = exact || (best.cycles < floats.cycles && survey.excludes(best, count));
  outlook.int8_pays = pays && gain_of_bytes(search) > 1;
  if (may_project(search)) {
    const double others = pays && search.int8_gain > 1 ? std::min(best.cycles, floats.cycles) : floats.cycles;
    if (const auto projected = project_if_best(search, survey, others, transform, thread_pool)) {
      best = *projected;
      outlook.int8_pays = true;
      outlook.rotated = false;
      outlook.projected = transform.columns();
    }
  }
  outlook.left_int8 = best.left / count;
  return outlook;
}

}  // namespace vicinal::cpu
