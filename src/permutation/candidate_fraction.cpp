#include "permutation/candidate_fraction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/metric.hpp"
#include "core/text.hpp"

namespace vicinal {

CandidateFraction candidate_fraction_of(const PermutationIndex::State& state, const PermutationSearch& search,
                                        const Queries* queries, std::int64_t k, const double* radius,
                                        ThreadPool& thread_pool, const std::string& instruction_set) {
  const std::int64_t count = state.objects().count();
  if (search.exact) {  // what is looked at first: enough for a good k-th distance
    const std::int64_t first = std::min(count, std::max(4 * k, count / 256));
    return {.candidates = k > 0 ? first : 1, .fraction = 0, .recall = {}, .by_objects = nullptr, .note = ""};
  }
  if (search.fraction) {
    const std::int64_t candidates = candidates_of(*search.fraction, count, k);
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    return {candidates, *search.fraction,
            candidates == count ? RecallEstimate{} : RecallEstimate{unknown, unknown, unknown, 0}, nullptr, ""};
  }
  const double target = search.recall.value_or(default_recall);
  const std::int64_t asked = queries != nullptr ? queries->count() : 0;
  const bool on_queries = queries != nullptr && tunes_on_queries(search, asked);
  const auto curve = on_queries ? std::make_shared<const RecallCurve>(
                                      recall_curve_of(state, *queries, target, k, radius, thread_pool, instruction_set))
                                : recall_curve(state, k, radius, thread_pool, instruction_set);
  const std::size_t point = curve->point_for(target);
  const std::int64_t candidates = std::max(curve->candidates[point], std::min(k, count));
  CandidateFraction chosen{candidates, static_cast<double>(candidates) / static_cast<double>(count), curve->at(point),
                           on_queries ? nullptr : curve, ""};
  if (queries != nullptr && !on_queries && search.tune_on == TuneOn::automatic && candidates < count)
    chosen.note = cat(
        "the recall was measured on left-out objects and is of queries like them; tune_on=queries measures it on the "
        "queries, as is done where there are ",
        least_to_tune_on(target), " or more");
  return chosen;
}

bool tunes_on_queries(const PermutationSearch& search, std::int64_t queries) noexcept {
  if (search.exact || search.fraction || search.tune_on == TuneOn::objects) return false;
  return search.tune_on == TuneOn::queries || queries >= least_to_tune_on(search.recall.value_or(default_recall));
}

// Compared as Mann and Whitney do: the mean share of left-out objects whose k-th is nearer, 1/2 where queries are like
// objects.
std::string unlike_objects(const RecallCurve& curve, std::vector<double> keys, DistanceType type, bool descends) {
  constexpr double deviations = 4;
  if (keys.empty() || curve.farthest.empty()) return "";
  std::vector<double> objects;
  for (const double value : curve.farthest) objects.push_back(fold_key(descends ? -value : value, type, descends));
  std::sort(objects.begin(), objects.end());
  const auto queries = static_cast<double>(keys.size()), sample = static_cast<double>(objects.size());
  double sum = 0;
  for (const double key : keys) {
    const auto [first, last] = std::equal_range(objects.begin(), objects.end(), key);
    sum += static_cast<double>((first - objects.begin()) + (last - objects.begin())) / (2 * sample);
  }
  const double share = sum / queries, deviation = std::sqrt((1 / queries + 1 / sample) / 12);
  if (share <= 0.5 + deviations * deviation) return "";
  return cat("queries unlike the objects: on average their k-th is farther away than that of ",
             std::lround(100 * share),
             " % of the objects that the recall was measured on, so less may be found; tune_on=queries measures it on "
             "the queries");
}

}  // namespace vicinal
