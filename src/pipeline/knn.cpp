// Life of a query:
//
//   views -> plan -> for each rung of the ladder, while queries are left:
//                      for each batch of queries:          prepare
//                        for each chunk of the corpus:     prepare -> filter -> select -> rerank
//                      finish -> certify -(not proved: next rung)-> Neighbors
//
// Prepare rounds rows and measures what rounding cost. Filter computes tile distances in low precision and keeps what
// beats each query's threshold; select drops what the tightened thresholds exclude; rerank ranks the rest by canonical
// fp64 distance in the one total order. Certify checks the bound against the answer. The last rung ranks every row, so
// the loop always ends. Backends do the stages (src/backend/backend.hpp); this file only says in which order.
#include "pipeline/knn.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <numeric>

#include "core/fpenv.hpp"
#include "core/read_ahead.hpp"
#include "core/text.hpp"
#include "pipeline/certify.hpp"
#include "pipeline/check.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/searches.hpp"
#include "pipeline/spot_check.hpp"

namespace vicinal {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The next queries that are pending, which then are not; returns where to go on. All at once where all are pending: a device waits for this.
std::size_t take_batch(std::vector<std::int64_t>& batch, std::size_t size, std::vector<bool>& pending, std::size_t row, std::int64_t asked) {
  batch.clear();
  if (asked == static_cast<std::int64_t>(pending.size())) {
    batch.resize(std::min(size, pending.size() - row));
    std::iota(batch.begin(), batch.end(), static_cast<std::int64_t>(row));
    const auto begin = pending.begin() + static_cast<std::ptrdiff_t>(row);
    std::fill(begin, begin + static_cast<std::ptrdiff_t>(batch.size()), false);
    return row + batch.size();
  }
  for (; row < pending.size() && batch.size() < size; ++row) {
    if (!pending[row]) continue;
    batch.push_back(static_cast<std::int64_t>(row));
    pending[row] = false;
  }
  return row;
}

/// One rung over the pending queries, a bit for each so that a plan in little memory holds for many queries.
class RungRun {
 public:
  RungRun(Session& session, const Question& question, const Plan& plan, bool kept, Report& report)
      : session_(session), question_(question), plan_(plan), report_(report), sweep_(session, question, plan, kept, report.stats) {}

  /// Clears the bits of the queries that it proves; returns how many are left. asked: how many are set.
  std::int64_t run(const NeighborsView& out, const Points& queries, std::vector<bool>& pending, std::int64_t asked) {
    const auto size = static_cast<std::size_t>(plan_.query_batch);
    std::vector<double> settled(size), largest(size);
    std::vector<std::int64_t> found(size), batch;
    batch.reserve(size);
    std::int64_t left = 0;
    for (std::size_t row = 0; row < pending.size();) {
      row = take_batch(batch, size, pending, row, asked);
      if (batch.empty()) break;
      session_.prepare_queries(queries, batch);
      sweep_.run();
      const BoundsView bounds{settled.data(), largest.data(), found.data()};
      session_.finish(out, bounds);
      left += certify(out, question_, batch, bounds, pending);
      for (std::size_t i = 0; i < batch.size(); ++i)
        if (largest[i] > report_.certificate.largest_bound) report_.certificate.largest_bound = largest[i];
    }
    return left;
  }

 private:
  Session& session_;
  const Question& question_;
  const Plan& plan_;
  Report& report_;
  Sweep sweep_;
};

/// The few queries that a finer rung takes over should still keep every thread busy, in the memory of the plan.
Plan plan_for_rest(const Plan& plan, std::int64_t pending) {
  Plan rest = plan;
  const std::int64_t most = std::max(plan.row_splits, plan.query_batch * plan.row_splits / std::max<std::int64_t>(pending, 1));
  rest.symmetric = false;
  rest.query_batch = std::min(plan.query_batch, std::max<std::int64_t>(pending, 1));
  rest.row_splits = std::clamp<std::int64_t>(2 * plan.threads, plan.row_splits, most);
  if (pending >= plan.query_batch) rest.row_splits = plan.row_splits;
  return rest;
}

/// A rung that the plan did not begin with may take more memory a query.
void fit_batch(Plan& plan, const std::string& rung, const Backend& backend, const Problem& problem) {
  Plan alone = plan;
  alone.rungs = {rung};
  const std::int64_t least = backend.query_lanes(plan.instruction_set);
  while (alone.query_batch > least && backend.bytes(alone, problem) > plan.budget_bytes) alone.query_batch = std::max(least, alone.query_batch / 2);
  plan.query_batch = alone.query_batch;
}

Report climb(const NeighborsView& out, const Question& question, const Points& queries, const Plan& plan,
             const std::shared_ptr<const Kept>& kept, const KnnOptions& options) {
  Report report;
  Stats& stats = report.stats;
  note_plan(stats, plan, question.corpus.rows * queries.rows);
  report.certificate.queries = queries.rows;
  std::vector<bool> pending(static_cast<std::size_t>(queries.rows), true);
  std::int64_t left = queries.rows;

  Backend& backend = find_backend(plan.device);
  Problem problem = knn_problem(shape_on(backend, question.corpus), shape_on(backend, queries), options);
  problem.kept = kept != nullptr;
  problem.k = question.k;
  Team team(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(stats.pairs));
  note_threads(stats, team);
  for (const std::string& name : plan.rungs) {
    if (left == 0) break;
    Plan rung_plan = report.certificate.rungs.empty() ? plan : plan_for_rest(plan, left);
    if (name != plan.rungs.front()) fit_batch(rung_plan, name, backend, problem);
    auto session = backend.open(question, rung_plan, rung_of(name), kept, team, stats);
    if (!session) continue;
    left = RungRun(*session, question, rung_plan, kept != nullptr, report).run(out, queries, pending, left);
    report.certificate.rungs.push_back(name);
    if (report.certificate.rungs.size() == 1) report.certificate.proven = queries.rows - left;
  }
  if (left != 0) fail(ErrorCode::internal, cat(left, " queries are not proved after every row was ranked; where no array changed during the call, please report it"));
  report.certificate.redone = queries.rows - report.certificate.proven;
  team.finish();
  note_underflow(stats, question.type);
  return report;
}

}  // namespace

void note_plan(Stats& stats, const Plan& plan, std::int64_t pairs) {
  stats.device = plan.device;
  stats.instruction_set = plan.instruction_set;
  stats.threads = plan.threads;
  stats.planned_bytes = plan.peak_bytes;
  stats.planned_seconds = plan.seconds;
  stats.notes = plan.notes;
  stats.pairs = pairs;
}

void note_threads(Stats& stats, const Team& team) {
  if (team.threads() >= stats.threads) return;
  stats.notes.push_back(cat("threads: ", team.threads(), " of ", stats.threads, ", for the system starts no more"));
  stats.threads = team.threads();
}

void note_underflow(Stats& stats, DistanceType type) {
  if (stats.underflowed == 0) return;
  stats.notes.push_back(cat(stats.underflowed, " returned distances underflow ", distance_type_name(type),
                            "; use euclidean or distance_type=f64 to tell them apart"));
}

void Sweep::run() {
  for (std::int64_t first = 0; first < question_.corpus.rows; first += plan_.corpus_chunk) {
    const std::int64_t rows = std::min(plan_.corpus_chunk, question_.corpus.rows - first);
    if (!kept_ && !(plan_.resident && prepared_)) {
      const auto start = Clock::now();
      session_.prepare_corpus(first, rows);
      stats_.prepare_seconds += seconds_since(start);
      prepared_ = true;
      if (first == 0) ++stats_.passes;
      // While this chunk is searched the system reads the next one (the first again, for the next batch).
      if (!plan_.resident) {
        const std::int64_t next = first + rows < question_.corpus.rows ? first + rows : 0;
        read_ahead(question_.corpus.slice(next, std::min(plan_.corpus_chunk, question_.corpus.rows - next)));
      }
    }
    session_.filter();
    session_.select();
    session_.rerank();
  }
}

Report search(const NeighborsView& out, const Question& question, const Points& queries, const Plan& plan,
              std::shared_ptr<const Kept> kept, const KnnOptions& options) {
  const auto start = Clock::now();
  FpGuard guard;
  try {
    Report report = climb(out, question, queries, plan, kept, options);
    if (spot_checks() && on_host(find_backend(plan.device), {question.corpus.data, queries.data, out.ids})) spot_check(out, question, queries);
    report.stats.seconds = seconds_since(start);
    return report;
  } catch (const std::bad_alloc&) {
    refuse_memory();
  }
}

void check_out(const NeighborsView& out, const Points& queries, const KnnOptions& options, DistanceType type) {
  if (out.rows != queries.rows || out.k != options.k)
    fail(ErrorCode::invalid_argument, cat("out is ", out.rows, " x ", out.k, ", the result is ", queries.rows, " x ", options.k));
  if (out.type != type)
    fail(ErrorCode::invalid_argument, cat("out holds ", distance_type_name(out.type), ", the distances are ", distance_type_name(type)));
  if (out.rows > 0 && (out.ids == nullptr || out.distances == nullptr))
    fail(ErrorCode::invalid_argument, "out has no memory for ids or distances");
}

Report knn_into(const NeighborsView& out, const Points& corpus, const Prepared& prepared, const Points& queries, const KnnOptions& options) try {
  check_search(corpus, queries, options);
  const Backend& backend = find_backend(options.run.device);
  const Plan plan = make_plan(backend, knn_problem(shape_on(backend, corpus), shape_on(backend, queries), options, prepared.plan()), options);
  check_out(out, queries, options, plan.distance_type);
  Question question{.corpus = corpus, .metric = options.metric, .type = plan.distance_type, .degenerate = options.degenerate,
                    .first_id = options.first_id, .filter = RowFilter(options.eligible, corpus.rows, options.first_id, false)};
  question.k = check_k(question.filter, corpus.rows, queries.rows, options.k, options.pad);
  return search(out, question, queries, plan, prepared.kept, options);
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors knn(const Points& corpus, const Prepared& prepared, const Points& queries, const KnnOptions& options) try {
  check_search(corpus, queries, options);
  Neighbors result(queries.rows, options.k, resolve_distance_type(options.distance_type, options.metric, corpus.dtype, queries.dtype),
                   options.pad);
  Report report = knn_into(result.view(), corpus, prepared, queries, options);
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Report knn_into(const NeighborsView& out, const Points& corpus, const Points& queries, const KnnOptions& options) {
  return knn_into(out, corpus, Prepared(), queries, options);
}
Neighbors knn(const Points& corpus, const Points& queries, const KnnOptions& options) {
  return knn(corpus, Prepared(), queries, options);
}

}  // namespace vicinal
