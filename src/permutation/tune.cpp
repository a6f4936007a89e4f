// Recall against the share of objects that is looked at. Some objects are left out in turn and asked as queries: their
// true answers are known by measuring everything, and the position of each true neighbour in the order of scores says
// how many candidates it takes to find it. One pass gives the whole curve.
//
// The limits are Wilson's, of a proportion. Neighbours of one query are found together or missed together, so what
// counts as the number of trials is not S k but p (1 - p) / s^2 S, with the variance s^2 of the recall between queries,
// and at least S.
#include <algorithm>
#include <cmath>

#include "core/key.hpp"
#include "cpu/isa/table.hpp"
#include "permutation/permutants.hpp"
#include "permutation/search.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t sample_size = 400;                                        // a target of 0.99 needs 268 at least
constexpr double one_sided = 1.6448536269514722, two_sided = 1.959963984540054;  // quantiles of 95 %
constexpr double growth = 1.02;                                                  // between points of the curve

/// Queries to measure out of any number of them: half as many again as would do if every one of them found everything.
/// Out of few it takes fewer, since what is measured of them is known.
double wanted_for(double target) {
  const double least = one_sided * one_sided * target / std::max(1 - target, 1e-9);
  return std::max(100.0, 1.5 * least);
}

struct Limits {
  double low, high;
};
Limits wilson(double share, double trials, double z) {
  const double square = z * z, middle = (share + square / (2 * trials)) / (1 + square / trials);
  const double half =
      z / (1 + square / trials) * std::sqrt(share * (1 - share) / trials + square / (4 * trials * trials));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

struct Moments {
  double mean = 0, trials = 0;
};
Moments moments_at(const RecallCurve& curve, std::size_t point) {
  const auto sample = static_cast<double>(curve.recalls.size());
  double sum = 0, squares = 0;
  for (const std::vector<float>& recalls : curve.recalls) sum += static_cast<double>(recalls[point]);
  const double mean = sum / sample;
  for (const std::vector<float>& recalls : curve.recalls) {
    const double off = static_cast<double>(recalls[point]) - mean;
    squares += off * off;
  }
  const double variance = sample > 1 ? squares / (sample - 1) : 0, most = mean * (1 - mean);
  // What is not known of a finite number of queries is in those that were not measured.
  const double known =
      curve.queries > 0 ? std::min(1.0, static_cast<double>(curve.measured) / static_cast<double>(curve.queries)) : 0;
  return {mean, (variance > 0 ? std::max(sample, most / variance * sample) : sample) / std::max(1 - known, 0x1p-40)};
}

/// All sizes up to 64, then by growth.
std::vector<std::int64_t> points_up_to(std::int64_t count) {
  std::vector<std::int64_t> points;
  for (std::int64_t c = 1; c < count;
       c = c < 64 ? c + 1 : static_cast<std::int64_t>(std::ceil(static_cast<double>(c) * growth)))
    points.push_back(c);
  points.push_back(count);
  return points;
}

/// One query: positions of its true neighbours in the order of scores. An object that is left out is not counted
/// itself.
class Measured {
 public:
  Measured(const PermutationIndex::State& state, const Queries& queries, const cpu::Scores& kernels)
      : count_(state.objects().count()), evaluator_(queries.evaluator()), scan_(state, kernels, 1), values_(count_) {}

  /// k nearest, or those within the folded radius, without the object `self` (-1: none); empty where there are none.
  std::vector<float> recalls(std::int64_t query, std::int64_t self, std::int64_t k, const double* radius,
                             const std::vector<std::int64_t>& points, ThreadPool& thread_pool) {
    scan_.run(*evaluator_, query, 1, thread_pool);
    evaluator_->start(query);
    measure_all(thread_pool);
    if (self >= 0) values_[self] = std::numeric_limits<double>::infinity();
    double limit = radius != nullptr ? *radius : 0;
    if (radius == nullptr) {
      nearest_.assign(values_.data(), values_.data() + count_);
      std::nth_element(nearest_.begin(), nearest_.begin() + (k - 1), nearest_.end());
      limit = nearest_[static_cast<std::size_t>(k - 1)];
    }
    farthest = limit;
    std::vector<std::int64_t> positions = positions_of(self, limit);
    if (positions.empty()) return {};
    const std::size_t answers =
        radius != nullptr ? positions.size() : static_cast<std::size_t>(k);  // of equals any will do
    std::vector<float> recalls;
    std::size_t found = 0;
    for (const std::int64_t point : points) {
      while (found < positions.size() && positions[found] < point) ++found;
      recalls.push_back(static_cast<float>(std::min(found, answers)) / static_cast<float>(answers));
    }
    recalls.back() = 1;
    return recalls;
  }
  double farthest = 0;  // value up to which the last query's answer was

 private:
  void measure_all(ThreadPool& thread_pool) {
    std::uint32_t numbers[evaluator_block];
    for (std::int64_t begin = 0; begin < count_; begin += evaluator_block) {
      const std::int64_t used = std::min(evaluator_block, count_ - begin);
      for (std::int64_t i = 0; i < used; ++i) numbers[i] = static_cast<std::uint32_t>(begin + i);
      evaluator_->measure(numbers, used, values_.data() + begin);
      if (begin % (64 * evaluator_block) == 0) thread_pool.poll(0);
    }
  }

  std::vector<std::int64_t> positions_of(std::int64_t self, double limit) {
    struct Scored {
      std::uint32_t score;
      std::int64_t id;
      bool operator<(const Scored& other) const noexcept {
        return score < other.score || (score == other.score && id < other.id);
      }
    };
    const std::uint32_t* scores = scan_.scores(0);
    std::vector<Scored> answers;
    for (std::int64_t i = 0; i < count_; ++i)
      if (values_[i] <= limit && i != self) answers.push_back({scores[i], i});
    std::sort(answers.begin(), answers.end());
    std::vector<std::int64_t> before_each(answers.size() + 1, 0);  // objects between one answer and the next
    for (std::int64_t i = 0; i < count_; ++i) {
      if (i == self || (!answers.empty() && scores[i] > answers.back().score)) continue;
      ++before_each[static_cast<std::size_t>(std::upper_bound(answers.begin(), answers.end(), Scored{scores[i], i}) -
                                             answers.begin())];
    }
    // Objects up to the first answer and not it, then to each next one and not that.
    std::vector<std::int64_t> positions;
    std::int64_t position = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      position += before_each[i];
      positions.push_back(position);
    }
    return positions;
  }

  std::int64_t count_;
  std::unique_ptr<DistanceEvaluator> evaluator_;
  RankScan scan_;
  Buffer<double> values_;
  std::vector<double> nearest_;
};

/// Measures the recall of every fraction by the queries `numbers`, or by objects that were left out: selves are their
/// ids, else null.
RecallCurve make_curve(const PermutationIndex::State& state, const Queries& queries,
                       const std::vector<std::int64_t>* numbers, const std::vector<std::int64_t>* selves,
                       std::int64_t k, const double* radius, ThreadPool& thread_pool,
                       const std::string& instruction_set) {
  RecallCurve curve;
  curve.candidates = points_up_to(state.objects().count());
  const cpu::Scores& kernels = cpu::find_instruction_set(instruction_set).scores;
  std::vector<std::vector<float>> all(numbers != nullptr ? numbers->size() : static_cast<std::size_t>(queries.count()));
  std::vector<std::unique_ptr<Measured>> workers(static_cast<std::size_t>(thread_pool.threads()));
  if (radius == nullptr) curve.farthest.resize(all.size());
  thread_pool.for_each(static_cast<std::int64_t>(all.size()), [&](std::int64_t i, int worker) {
    const auto at = static_cast<std::size_t>(i);
    auto& one = workers[static_cast<std::size_t>(worker)];
    if (!one) one = std::make_unique<Measured>(state, queries, kernels);
    all[at] = one->recalls(numbers != nullptr ? (*numbers)[at] : i, selves != nullptr ? (*selves)[at] : -1, k, radius,
                           curve.candidates, thread_pool);
    if (radius == nullptr) curve.farthest[at] = one->farthest;
  });
  for (std::vector<float>& recalls : all)
    if (!recalls.empty()) curve.recalls.push_back(std::move(recalls));
  return curve;
}

}  // namespace

RecallEstimate RecallCurve::at(std::size_t point) const {
  if (point + 1 == candidates.size()) return {1, 1, 1, static_cast<std::int64_t>(recalls.size()), queries > 0};
  const Moments moments = moments_at(*this, point);
  const Limits limits = wilson(moments.mean, moments.trials, two_sided);
  return {moments.mean, std::min(limits.low, moments.mean), std::max(limits.high, moments.mean),
          static_cast<std::int64_t>(recalls.size()), queries > 0};
}

std::size_t RecallCurve::point_for(double target) const {
  if (recalls.empty()) return candidates.size() - 1;
  std::size_t low = 0, high = candidates.size() - 1;  // the mean grows with the number of candidates
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const Moments moments = moments_at(*this, middle);
    if (wilson(moments.mean, moments.trials, one_sided).low >= target) high = middle;
    else low = middle + 1;
  }
  return low;
}

std::int64_t curve_bytes(const PermutationIndex::State& state, bool range, int threads,
                         std::int64_t measured) noexcept {
  const std::int64_t count = state.objects().count(), found = 32;  // positions_of, if every object is an answer
  const std::int64_t one =
      RankScan::bytes(state, 1) + state.objects().evaluator_bytes() + count * (range ? 8 + found : 16 + found);
  const auto points = static_cast<std::int64_t>(points_up_to(count).size());
  return threads * one + points * 8 + std::max(sample_size, measured) * (points * 8 + 64);
}

std::vector<std::int64_t> left_out(const PermutationIndex::State& state) {
  const std::int64_t count = state.objects().count();
  const std::int64_t drawn = std::min(count, sample_size + static_cast<std::int64_t>(state.permutants.size()));
  std::vector<std::int64_t> permutants = state.permutants, ids;
  std::sort(permutants.begin(), permutants.end());
  for (const std::int64_t id : random_ids(drawn, count, state.options.seed, true))
    if (static_cast<std::int64_t>(ids.size()) < sample_size &&
        !std::binary_search(permutants.begin(), permutants.end(), id))
      ids.push_back(id);
  if (ids.empty()) ids.push_back(0);
  return ids;
}

std::shared_ptr<const RecallCurve> recall_curve(const PermutationIndex::State& state, std::int64_t k,
                                                const double* radius, ThreadPool& thread_pool,
                                                const std::string& instruction_set) {
  const std::pair<bool, double> key{radius != nullptr, radius != nullptr ? *radius : static_cast<double>(k)};
  {
    const std::lock_guard lock(state.mutex);
    if (const auto known = state.curves.find(key); known != state.curves.end()) return known->second;
  }
  RecallCurve made;
  const std::vector<std::int64_t> ids = left_out(state);
  if (k < state.objects().count())
    made = make_curve(state, *state.objects().some(ids), nullptr, &ids, k, radius, thread_pool, instruction_set);
  else made.candidates = points_up_to(state.objects().count());  // no answer without the object itself
  auto curve = std::make_shared<const RecallCurve>(std::move(made));
  const std::lock_guard lock(state.mutex);
  return state.curves.try_emplace(key, std::move(curve)).first->second;
}

std::int64_t measured_for(double target, std::int64_t queries) noexcept {
  constexpr double least = 50;
  const double wanted = wanted_for(target), all = static_cast<double>(queries);
  return std::min(queries, static_cast<std::int64_t>(std::max(least, wanted * all / (wanted + all))));
}

std::int64_t least_to_tune_on(double target) noexcept {
  return static_cast<std::int64_t>(std::ceil(2 * wanted_for(target)));
}

RecallCurve recall_curve_of(const PermutationIndex::State& state, const Queries& queries, double target, std::int64_t k,
                            const double* radius, ThreadPool& thread_pool, const std::string& instruction_set) {
  const std::int64_t sample = measured_for(target, queries.count());
  const std::vector<std::int64_t> numbers = random_ids(sample, queries.count(), state.options.seed, true);
  RecallCurve curve = make_curve(state, queries, &numbers, nullptr, k, radius, thread_pool, instruction_set);
  curve.measured = sample;
  curve.queries = queries.count();
  return curve;
}

}  // namespace vicinal
