// What users call checks the arguments, chooses how many candidates a query takes, hands queries to threads and writes
// entries where they belong.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <new>

#include "core/divide.hpp"
#include "core/fpenv.hpp"
#include "core/metric.hpp"
#include "core/text.hpp"
#include "cpu/isa/table.hpp"
#include "permutation/candidate_fraction.hpp"
#include "permutation/device.hpp"
#include "permutation/permutants.hpp"
#include "permutation/plan.hpp"
#include "permutation/search.hpp"
#include "permutation/user_defined.hpp"
#include "pipeline/check.hpp"
#include "pipeline/knn.hpp"

namespace vicinal {
namespace {

/// A distance of the caller's own is called from its own thread.
Resolved resolve(const PermutationIndex::State& state, const PermutationSearch& search) {
  Resolved resolved = vicinal::resolve(search.run, search.memory);
  if (state.user_defined) resolved.threads = 1;
  return resolved;
}

using Clock = std::chrono::steady_clock;

constexpr double everywhere = std::numeric_limits<double>::infinity();

void check_search(const PermutationSearch& search) {
  const auto refuse = [](const std::string& message) { fail(ErrorCode::invalid_argument, message); };
  if (static_cast<int>(search.recall.has_value()) + static_cast<int>(search.fraction.has_value()) +
          static_cast<int>(search.exact) >
      1)
    refuse("recall, fraction and exact exclude each other; give one of them");
  if (search.tune_on != TuneOn::automatic && (search.fraction || search.exact))
    refuse(cat("tune_on=", tune_on_name(search.tune_on), " is of a recall, and exact or a fraction is given"));
  if (search.recall && !(*search.recall > 0 && *search.recall <= 1))
    refuse(cat("recall must be above 0 and at most 1, got ", *search.recall));
  if (search.fraction && !(*search.fraction > 0 && *search.fraction <= 1))
    refuse(cat("fraction must be above 0 and at most 1, got ", *search.fraction));
  if (search.max_results < 0) refuse(cat("max_results must be >= 0, got ", search.max_results));
}

[[noreturn]] void report_infinite(Metric metric, DistanceType type) {
  if (metric == Metric::kullback_leibler) fail(ErrorCode::range_error, infinite_because(metric));
  fail(ErrorCode::range_error,
       cat(metric_info(metric).name, " exceeds ", distance_type_name(type), "; ",
           type == DistanceType::f64 ? "scale the rows" : "use distance_type=f64 or scale the rows"));
}

void check_finite(std::span<const Entry> entries, Metric metric, DistanceType type) {
  for (const Entry& entry : entries)
    if (std::isinf(entry.key)) report_infinite(metric, type);
}

IndexCounts search_here(const PermutationIndex::State& state, const Queries& queries, const IndexSearchSpec& spec,
                        const Resolved& run, const PermutationPlan& plan, ThreadPool& thread_pool,
                        const IndexSearch::Answer& answer) {
  const std::int64_t rows = queries.count(), batch = plan.query_batch;
  const cpu::Scores& kernels = cpu::find_instruction_set(run.instruction_set).scores;
  if (rows == 0) return {};
  if (plan.together)
    return IndexSearch(state, queries, spec, kernels, 1, &thread_pool).run(0, rows, thread_pool, answer);
  std::vector<std::unique_ptr<IndexSearch>> searches(static_cast<std::size_t>(plan.threads));
  std::atomic<std::int64_t> candidates{0}, measured{0};
  thread_pool.for_each(divide_up(rows, batch), [&](std::int64_t piece, int worker) {
    auto& one = searches[static_cast<std::size_t>(worker)];
    if (!one) one = std::make_unique<IndexSearch>(state, queries, spec, kernels, batch);
    const std::int64_t first = piece * batch;
    const IndexCounts counts = one->run(first, std::min(batch, rows - first), thread_pool, answer);
    candidates += counts.candidates;
    measured += counts.measured;
  });
  return {candidates, measured};
}

/// Everything but where entries go.
struct Outcome {
  CandidateFraction chosen;
  Stats stats;
};
template <class Read>
Outcome run_search(const PermutationIndex::State& state, const PermutationSearch& search, std::int64_t rows,
                   std::int64_t k, const double* radius, DistanceType type, const Read& read,
                   const IndexSearch::Answer& answer) {
  const auto start = Clock::now();
  const Resolved run = resolve(state, search);
  const std::int64_t count = state.objects().count();
  FpGuard guard;
  Outcome outcome;
  const std::string reason = run.host() ? "" : host_reason(*run.backend, state, search.exact);
  const bool device = !run.host() && reason.empty();
  const std::string names = run.devices.size() > 1 ? joined(run.devices, ",") : run.backend->device().facts().name;
  const PermutationPlan plan = plan_search(state, search, rows, k, radius, run, device);
  ThreadPool thread_pool(plan.threads, search.progress, search.stop, static_cast<std::uint64_t>(rows * count));
  const std::unique_ptr<Queries> queries = read(thread_pool);
  if (rows > 0)
    outcome.chosen = candidate_fraction_of(state, search, queries.get(), k, radius, thread_pool, run.instruction_set);
  const IndexSearchSpec spec{.type = type,
                             .k = k,
                             .radius = radius != nullptr ? *radius : everywhere,
                             .candidates = outcome.chosen.candidates,
                             .exact = search.exact};
  IndexCounts counts;
  if (!device) counts = search_here(state, *queries, spec, run, plan, thread_pool, answer);
  else if (rows > 0) counts = search_on_devices(run, state, *queries, spec, search, thread_pool, answer);
  thread_pool.finish();
  outcome.stats.device = device && rows > 0 ? names : "cpu";
  if (const auto permutants = static_cast<std::int64_t>(state.permutants.size());
      permutants == count && count < usual_permutants)
    outcome.stats.notes.push_back(
        cat("the index has ", permutants, " permutants, all of its objects; usual are ", usual_permutants));
  if (!outcome.chosen.note.empty()) outcome.stats.notes.push_back(outcome.chosen.note);
  if (!reason.empty()) outcome.stats.notes.push_back(cat("searched on the CPU, not on ", names, ": ", reason));
  outcome.stats.instruction_set = run.instruction_set;
  outcome.stats.threads = plan.threads;
  note_threads(outcome.stats, thread_pool);
  outcome.stats.planned_bytes = plan.peak_bytes;
  outcome.stats.pairs = rows * count;
  outcome.stats.candidates = counts.candidates;
  outcome.stats.reranked = counts.measured;
  outcome.stats.passes = 1;
  outcome.stats.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return outcome;
}

Certificate certificate_of(std::int64_t rows, bool exact) {
  Certificate certificate;
  certificate.queries = rows;
  if (exact) certificate.proven = rows, certificate.precisions = {"bounds"};
  return certificate;
}

void check_k(std::int64_t k, std::int64_t count) {
  if (k < 1) fail(ErrorCode::invalid_argument, cat("k must be >= 1, got ", k));
  if (k > count) fail(ErrorCode::invalid_argument, cat("k=", k, " exceeds the n=", count, " objects"));
}

template <class Read>
PermutationNeighbors find_nearest(const PermutationIndex::State& state, const PermutationSearch& search,
                                  std::int64_t rows, DType dtype, const Read& read) {
  check_search(search);
  check_k(search.k, state.objects().count());
  const Metric metric = state.options.metric;
  const DistanceType type = resolve_distance_type(search.distance_type, metric, state.rows.dtype, dtype);
  PermutationNeighbors result{.neighbors = Neighbors(rows, search.k, type, false), .fraction = 0, .recall = {}};
  const NeighborsView out = result.neighbors.view();
  std::vector<double> farthest(static_cast<std::size_t>(rows));
  Outcome outcome = run_search(
      state, search, rows, search.k, nullptr, type, read, [&](std::int64_t query, std::span<const Entry> entries) {
        check_finite(entries, metric, type);
        farthest[static_cast<std::size_t>(query)] = entries[static_cast<std::size_t>(out.k - 1)].key;
        for (std::int64_t i = 0; i < out.k; ++i) {
          const Entry& entry = entries[static_cast<std::size_t>(i)];
          out.ids[query * out.k + i] = entry.id;
          store_key(entry.key, type, descending(metric), out.distances, query * out.k + i);
        }
      });
  if (outcome.chosen.by_objects) {
    std::string note = unlike_objects(*outcome.chosen.by_objects, std::move(farthest), type, descending(metric));
    if (!note.empty()) outcome.stats.notes.push_back(std::move(note));
  }
  result.neighbors.stats = std::move(outcome.stats);
  result.neighbors.certificate = certificate_of(rows, search.exact);
  result.fraction = outcome.chosen.fraction;
  result.recall = outcome.chosen.recall;
  return result;
}

template <class Read>
PermutationRange find_within(const PermutationIndex::State& state, double radius, const PermutationSearch& search,
                             std::int64_t rows, DType dtype, const Read& read) {
  check_search(search);
  check_radius(radius);
  const Metric metric = state.options.metric;
  const bool descends = descending(metric);
  const DistanceType type = resolve_distance_type(search.distance_type, metric, state.rows.dtype, dtype);
  const double folded = descends ? -radius : radius;
  std::vector<std::vector<Entry>> found(static_cast<std::size_t>(rows));
  const std::int64_t most = most_matches(search.max_results, cpu_backend(), type);  // results are in the host's memory
  std::atomic<std::int64_t> total{0};
  Outcome outcome =
      run_search(state, search, rows, 0, &folded, type, read, [&](std::int64_t query, std::span<const Entry> entries) {
        check_finite(entries, metric, type);
        const auto size = static_cast<std::int64_t>(entries.size());
        if (total.fetch_add(size) + size <= most)
          found[static_cast<std::size_t>(query)].assign(entries.begin(), entries.end());
      });
  if (total > most) refuse_entries(total, search.max_results, most);
  const FpGuard guard;  // distances are converted
  std::int64_t entries = 0;
  for (const std::vector<Entry>& row : found) entries += static_cast<std::int64_t>(row.size());
  PermutationRange result{.neighbors = CsrNeighbors(rows, entries, type),
                          .fraction = outcome.chosen.fraction,
                          .recall = outcome.chosen.recall};
  std::int64_t at = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Entry& entry : found[static_cast<std::size_t>(row)]) {
      result.neighbors.ids()[at] = entry.id;
      store_key(entry.key, type, descends, result.neighbors.distances(), at++);
    }
    result.neighbors.offsets()[row + 1] = at;
    found[static_cast<std::size_t>(row)] = {};
  }
  result.neighbors.stats = std::move(outcome.stats);
  result.neighbors.certificate = certificate_of(rows, search.exact);
  return result;
}

/// Throws unless the index holds what the queries are.
void check_kind(const PermutationIndex::State& state, const void* wanted, const char* queries) {
  if (wanted != nullptr) return;
  const char* held = state.user_defined ? "objects with a distance of their own"
                     : state.strings    ? "strings"
                                        : "rows of numbers";
  fail(ErrorCode::invalid_argument, cat("the index holds ", held, ", the queries are ", queries));
}

}  // namespace

PermutationNeighbors PermutationIndex::knn(const Points& queries, const PermutationSearch& search) const try {
  check_kind(*state_, state_->vectors.get(), "rows of numbers");
  return find_nearest(*state_, search, queries.rows, queries.dtype,
                      [&](ThreadPool& thread_pool) { return state_->vectors->read(queries, thread_pool); });
} catch (const std::bad_alloc&) {
  refuse_memory();
}

PermutationNeighbors PermutationIndex::knn(const Strings& queries, const PermutationSearch& search) const try {
  check_kind(*state_, state_->strings.get(), "strings");
  return find_nearest(*state_, search, queries.rows, DType::f32,
                      [&](ThreadPool& thread_pool) { return state_->strings->read(queries, thread_pool); });
} catch (const std::bad_alloc&) {
  refuse_memory();
}

PermutationRange PermutationIndex::range(const Points& queries, double radius, const PermutationSearch& search) const
    try {
  check_kind(*state_, state_->vectors.get(), "rows of numbers");
  return find_within(*state_, radius, search, queries.rows, queries.dtype,
                     [&](ThreadPool& thread_pool) { return state_->vectors->read(queries, thread_pool); });
} catch (const std::bad_alloc&) {
  refuse_memory();
}

PermutationRange PermutationIndex::range(const Strings& queries, double radius, const PermutationSearch& search) const
    try {
  check_kind(*state_, state_->strings.get(), "strings");
  return find_within(*state_, radius, search, queries.rows, DType::f32,
                     [&](ThreadPool& thread_pool) { return state_->strings->read(queries, thread_pool); });
} catch (const std::bad_alloc&) {
  refuse_memory();
}

PermutationNeighbors PermutationIndex::knn(std::int64_t queries, const OwnDistance& distance,
                                           const PermutationSearch& search) const try {
  check_kind(*state_, state_->user_defined.get(), "known by number");
  return find_nearest(*state_, search, queries, DType::f64,
                      [&](ThreadPool&) { return user_defined_queries(queries, distance); });
} catch (const std::bad_alloc&) {
  refuse_memory();
}

PermutationRange PermutationIndex::range(std::int64_t queries, const OwnDistance& distance, double radius,
                                         const PermutationSearch& search) const try {
  check_kind(*state_, state_->user_defined.get(), "known by number");
  return find_within(*state_, radius, search, queries, DType::f64,
                     [&](ThreadPool&) { return user_defined_queries(queries, distance); });
} catch (const std::bad_alloc&) {
  refuse_memory();
}

PermutationPlan PermutationIndex::plan(std::int64_t queries, const PermutationSearch& search) const {
  check_search(search);
  check_k(search.k, state_->objects().count());
  if (queries < 0) fail(ErrorCode::invalid_argument, cat("queries must be >= 0, got ", queries));
  const Resolved run = resolve(*state_, search);
  return plan_search(*state_, search, queries, search.k, nullptr, run,
                     !run.host() && host_reason(*run.backend, *state_, search.exact).empty());
}

PermutationTuning PermutationIndex::tune(const PermutationSearch& search) const try {
  constexpr std::size_t timed = 64;
  check_search(search);
  const std::int64_t count = state_->objects().count();
  check_k(search.k, count);
  const Resolved run = resolve(*state_, search);
  PermutationTuning result{.k = search.k,
                           .target = search.recall.value_or(search.fraction ? 0 : default_recall),
                           .fraction = 0,
                           .recall = {}};
  PermutationSearch asked = search;
  {
    FpGuard guard;
    PermutationSearch measured = search;
    measured.fraction.reset();
    const PermutationPlan plan = plan_search(*state_, measured, 1, search.k, nullptr, run, false);
    ThreadPool thread_pool(plan.threads, search.progress, search.stop, static_cast<std::uint64_t>(count));
    CandidateFraction chosen =
        candidate_fraction_of(*state_, search, nullptr, search.k, nullptr, thread_pool, run.instruction_set);
    if (search.fraction) {
      const auto curve = recall_curve(*state_, search.k, nullptr, thread_pool, run.instruction_set);
      const auto point = std::lower_bound(curve->candidates.begin(), curve->candidates.end(), chosen.candidates) -
                         curve->candidates.begin();
      chosen.recall = curve->at(static_cast<std::size_t>(
          curve->candidates[static_cast<std::size_t>(point)] > chosen.candidates && point > 0 ? point - 1 : point));
    }
    result.fraction = chosen.fraction;
    result.recall = chosen.recall;
  }
  std::vector<std::int64_t> ids = left_out(*state_);
  ids.resize(std::min(ids.size(), timed));
  if (!search.exact) asked.recall.reset(), asked.fraction = result.fraction;
  asked.progress = nullptr;
  const DistanceType type =
      resolve_distance_type(search.distance_type, state_->options.metric, state_->rows.dtype, state_->rows.dtype);
  const auto time = [&](const PermutationSearch& how) {
    const Outcome outcome = run_search(
        *state_, how, static_cast<std::int64_t>(ids.size()), search.k, nullptr, type,
        [&](ThreadPool&) { return state_->objects().some(ids); }, [](std::int64_t, std::span<const Entry>) {});
    return outcome.stats.seconds / static_cast<double>(ids.size());
  };
  result.index_seconds = time(asked);
  result.exact_seconds = state_->objects().exact_seconds(ids, search.k, search.run, search.memory);
  if (result.exact_seconds > 0) return result;
  asked.fraction = 1;  // no search but this one: everything is measured
  asked.exact = false;
  result.exact_seconds = time(asked);
  return result;
} catch (const std::bad_alloc&) {
  refuse_memory();
}

}  // namespace vicinal
