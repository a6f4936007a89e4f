// See cascade.hpp. No answer depends on anything here.
#include "pipeline/cascade.hpp"

#include <algorithm>
#include <cmath>

#include "core/bound.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

// Rates in cycles, measured on the build machine (Cascade Lake, AVX-512, one core; bench/bench_tile.cpp and
// bench/run.py, 2026-11-21). They choose the first precision and predict time; no answer depends on them.
constexpr double clock_hz = 2.5e9;
constexpr double tile_cycles_per_element = 0.045, tile_cycles_per_pair = 0.7;
constexpr double canonical_cycles_per_element = 0.6, canonical_cycles_per_pair = 16;
constexpr double prepare_cycles_per_element = 2.5, prepare_cycles_per_row = 80;
constexpr double candidate_cycles = 12;
constexpr double int8_cycles_per_element = 0.0125, int8_cycles_per_pair = 0.4;
constexpr double int8_prepare = 2,
                 int8_spread = 2.5;  // of what floats take: passes over the rows; rows that bytes cannot tell apart
constexpr std::int64_t least_int8_dims = 16;     // below, the test costs more than the product
constexpr std::int64_t least_second_dims = 256;  // below, a canonical distance costs little more than a second look
constexpr std::int64_t likely_matches = 1024;    // of a query in a range search, whose result is not known before
constexpr std::int64_t second_gain =
    4;  // answers that must be asked for, a row, before its second byte pays in one call

constexpr std::int64_t least_filtered_rows = 4096;  // on a device, which ranks so many at once
constexpr std::int64_t long_list = 2048,
                       least_rows_a_neighbor =
                           24;  // there: of longer lists, ranking every pair is faster below so many rows for each
constexpr std::int64_t most_float_dims = std::int64_t{1} << 20;  // there, where sums of floats prove something

constexpr double group_cycles_per_row = 20, group_cycles_per_query = 3000,
                 group_cycles_per_neighbor = 200;  // where boxes tell rows apart
constexpr std::int64_t least_group_rows = 1024, least_group_queries = 512;

struct Costs {
  double canonical, filter, bytes, groups;
};
Left likely_left(double k) { return {int8_spread * 1.3 * k, 1.3 * k}; }

Costs costs(const ProblemShape& problem, bool symmetric = false, const Left* sampled = nullptr) {
  const double n = static_cast<double>(problem.corpus.rows), d = static_cast<double>(problem.corpus.cols);
  const double q = static_cast<double>(problem.queries.rows),
               k = static_cast<double>(std::max<std::int64_t>(problem.k, 1));
  const double canonical = canonical_cycles_per_pair + canonical_cycles_per_element * d;
  const Left left = sampled != nullptr ? *sampled : likely_left(k);
  const auto candidates = [&](double most) {
    return most * (2 + std::log2(std::max(n / most, 1.0))) * candidate_cycles;
  };
  const double floats = candidates(sampled != nullptr ? std::max(k, left.floats) : k);
  const double bytes = sampled != nullptr ? candidates(std::max(k, left.bytes)) : int8_spread * floats;
  const double prepare = problem.kept ? 0 : n * (prepare_cycles_per_row + prepare_cycles_per_element * d);
  const double pairs = n * (tile_cycles_per_pair + tile_cycles_per_element * d) / (symmetric ? 2 : 1);
  const double int8_pair = n * (int8_cycles_per_pair + int8_cycles_per_element * d) / (symmetric ? 2 : 1);
  return {q * n * canonical, prepare + q * (pairs + floats + left.floats * 2 * canonical),
          int8_prepare * prepare + q * (int8_pair + bytes + left.bytes * 2 * canonical),
          (problem.kept ? 0 : n * group_cycles_per_row * std::log2(n + 1)) +
              q * (group_cycles_per_query + k * group_cycles_per_neighbor)};
}

/// Bytes can test products alone, and their sums must fit 32 bits.
bool takes_bytes(const ProblemShape& problem) {
  const Sum sum = filter_sum_of(problem.metric);
  return (sum == Sum::squares || sum == Sum::products) && problem.corpus.cols <= most_int8_dims;
}

/// Whether a device, by its own rates, ranks every pair before it has packed the rows in bytes.
bool ranked_sooner(const ProblemShape& problem, const Backend& backend, Plan plan) {
  if (problem.kept || problem.range) return false;
  plan.passes = 1;
  const auto seconds = [&](Precision precision) {
    plan.cascade = {precision_name(precision)};
    return backend.seconds(plan, problem);
  };
  return seconds(Precision::canonical) < seconds(Precision::int8);
}

/// The precisions of a device's cascade that it has a filter for, and the last one. A note says why the search does not begin with the first.
std::vector<std::string> those_with_a_filter(const std::vector<Precision>& cascade, const ProblemShape& problem,
                                             const Backend& backend, Plan& plan) {
  std::vector<std::string> precisions;
  for (const Precision precision : cascade) {
    std::string why = backend.filter_refusal(precision, problem.corpus.cols, plan.instruction_set);
    if (why.empty()) precisions.push_back(precision_name(precision));
    else if (precision == cascade.front()) plan.notes.push_back(std::move(why));
  }
  precisions.push_back(precision_name(Precision::canonical));
  return precisions;
}

/// Of the precision that a search begins with, on one core.
double cycles(const ProblemShape& problem, const Plan& plan, const Left* sampled = nullptr) {
  const Costs cost = costs(problem, plan.symmetric, sampled);
  if (plan.groups) return cost.groups;
  switch (precision_of(plan.cascade.front())) {
    case Precision::int8: return cost.bytes * static_cast<double>(plan.passes);
    case Precision::f32: return cost.filter * static_cast<double>(plan.passes);
    case Precision::fp16:
    case Precision::canonical: break;
  }
  return cost.canonical;
}

}  // namespace

std::vector<std::string> choose_cascade(const ProblemShape& problem, const KnnOptions& options,
                                        const std::string& filter, const Backend& backend, Plan& plan) {
  const std::string last = precision_name(Precision::canonical), floats = precision_name(Precision::f32),
                    halves = precision_name(Precision::fp16), bytes = precision_name(Precision::int8);
  if (filter != "auto" && filter != last && filter != floats && filter != halves && filter != bytes &&
      filter != rotated_filter) {
    std::vector<std::string> known{"auto"};
    for (const PrecisionName& precision : precision_names) known.emplace_back(precision.name);
    known.emplace_back(rotated_filter);
    fail(ErrorCode::invalid_argument, cat("unknown filter \"", filter, "\"; filters: ", joined(known)));
  }
  if (options.proof == Proof::exhaustive || filter == last || filter_sum_of(problem.metric) == Sum::none) return {last};
  const Facts facts = backend.facts();
  if (facts.has_halves && filter == rotated_filter)
    fail(ErrorCode::unsupported, cat("filter ", filter, " does not run on ", facts.name));
  if (facts.has_halves) {
    const bool few = problem.corpus.rows < least_filtered_rows || problem.k * 3 >= problem.corpus.rows;
    const bool many_asked = problem.k > long_list && problem.k * least_rows_a_neighbor > problem.corpus.rows;
    if (problem.corpus.cols > most_float_dims || problem.k > facts.most_filtered_k ||
        (filter == "auto" && (many_asked || (few && !problem.kept) || ranked_sooner(problem, backend, plan))))
      return {last};
    if (filter == floats || filter_sum_of(problem.metric) == Sum::magnitudes ||
        filter_sum_of(problem.metric) == Sum::largest)
      return those_with_a_filter({Precision::f32}, problem, backend, plan);
    if (filter == halves || !takes_bytes(problem))
      return those_with_a_filter({Precision::fp16, Precision::f32}, problem, backend, plan);
    return those_with_a_filter({Precision::int8, Precision::fp16, Precision::f32}, problem, backend, plan);
  }
  if (filter == halves)
    fail(ErrorCode::unsupported, cat("filter ", halves, " does not run on ", facts.name, "; filters there: auto, ",
                                     bytes, ", ", floats, ", ", last));
  const double int8_gain = backend.int8_gain(plan.instruction_set);
  const Costs cost = costs(problem);
  const bool pays = cost.filter < cost.canonical && problem.k * 3 < std::max<std::int64_t>(problem.corpus.rows, 1);
  if (filter == "auto" && !pays && !problem.kept) return {last};  // what is kept is packed already
  if (!takes_bytes(problem) || filter == floats) return {floats, last};
  const bool narrow = int8_gain > 1 && problem.corpus.cols >= least_int8_dims;
  const Costs paired = costs(problem, problem.symmetric);
  if (filter == "auto" && !(narrow && (problem.kept || paired.bytes < paired.filter))) return {floats, last};
  return {bytes, floats, last};
}

/// Second bytes take a pass over all rows, and save most of the canonical distances of some k rows a query. Bytes that are forced by name have
/// them in few columns too, which is for tests.
bool takes_second(const ProblemShape& problem, const KnnOptions& options, const Backend& backend, const Plan& plan) {
  if (precision_of(plan.cascade.front()) != Precision::int8 || plan.symmetric || backend.facts().has_halves)
    return false;
  const bool many = problem.corpus.cols >= least_second_dims || with_environment(options.run).filter != "auto";
  return many && (problem.kept || problem.queries.rows * (problem.range ? likely_matches : problem.k) >=
                                      second_gain * problem.corpus.rows);
}

/// Sorting rows into groups costs as much as comparing them with some hundreds of queries. Ranked at once, they need no filter. A kept corpus has a
/// tree or has none, whatever this search would have chosen.
bool takes_groups(const ProblemShape& problem, const KnnOptions& options, const std::string& filter,
                  const Facts& facts) {
  if (problem.made != nullptr && !problem.made->groups) return false;
  return filter == "auto" && options.proof != Proof::exhaustive && facts.has_groups &&
         problem.corpus.cols <= most_group_dims && problem.corpus.rows >= least_group_rows &&
         (problem.kept || problem.queries.rows >= least_group_queries) &&
         row_of(problem.metric).filter == FilterRows::plain && sum_of(problem.metric) != Sum::products;
}

/// Of the cascade what a kept corpus was prepared for; the last precision needs nothing prepared.
void keep_prepared_precisions(std::vector<std::string>& precisions, const Plan& made) {
  const auto missing = [&](const std::string& name) {
    return std::find(made.cascade.begin(), made.cascade.end(), name) == made.cascade.end();
  };
  precisions.erase(std::remove_if(precisions.begin(), precisions.end() - 1, missing), precisions.end() - 1);
}

double host_seconds(const Backend& backend, const ProblemShape& problem, const Plan& plan, const Left* sampled) {
  return cycles(problem, plan, sampled) / clock_hz / plan.threads * backend.slowness(plan.instruction_set);
}

}  // namespace vicinal
