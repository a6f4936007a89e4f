// Life of a query:
//
//   views -> plan -> for each precision of the cascade, while queries are left:
//                      for each batch of queries:          prepare
//                        for each chunk of the corpus:     prepare -> filter -> select -> rerank
//                      finish -> certify -(not proved: next precision)-> Neighbors
//
// Prepare rounds rows and measures what rounding cost. Filter computes tile distances in low precision and keeps what
// beats each query's threshold; select drops what the tightened thresholds exclude; rerank ranks the rest by canonical
// fp64 distance in the one total order. Certify checks the bound against the answer. The last precision ranks every
// row, so the loop always ends. Backends do the stages (src/backend/search.hpp); this file only says in which order.
#include "pipeline/knn.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>

#include "core/buffer.hpp"
#include "core/fpenv.hpp"
#include "core/read_ahead.hpp"
#include "core/retry.hpp"
#include "core/text.hpp"
#include "pipeline/certify.hpp"
#include "pipeline/check.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/searches.hpp"
#include "pipeline/spot_check.hpp"

namespace vicinal {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The next queries that are pending, from `row` on, which becomes where to go on. A run where all are pending: a
/// device waits for this. list: memory for others.
QueryRows take_batch(std::vector<std::int64_t>& list, std::size_t size, const std::vector<bool>& pending,
                     std::size_t& row, std::int64_t asked) {
  if (asked == static_cast<std::int64_t>(pending.size())) {
    const std::size_t first = row;
    row += std::min(size, pending.size() - row);
    return QueryRows::run(static_cast<std::int64_t>(first), static_cast<std::int64_t>(row - first));
  }
  list.clear();
  for (; row < pending.size() && list.size() < size; ++row)
    if (pending[row]) list.push_back(static_cast<std::int64_t>(row));
  return list;
}

/// One precision over the pending queries, a bit for each so that a plan in little memory holds for many queries. A
/// query is pending until it is proved, whatever is thrown meanwhile.
class PrecisionRun {
 public:
  /// pending: the run clears the bits of the queries that it proves. asked: how many are set.
  PrecisionRun(const SearchSpec& spec, const NeighborsView& out, const Points& queries, std::vector<bool>& pending,
               std::int64_t asked, ThreadPool& thread_pool, Report& report)
      : spec_(spec), out_(out), queries_(queries), pending_(pending), asked_(asked), thread_pool_(thread_pool),
        report_(report) {}

  /// Goes on where an earlier session ended, for want of memory, perhaps in smaller batches.
  void run(Session& session, const SearchPlan& plan, bool kept) {
    Sweep sweep(session, spec_, plan, kept, report_.stats);
    const auto size = static_cast<std::size_t>(plan.query_batch);
    Buffer<double> verified_and_largest(2 * plan.query_batch);  // one array, which fewer pages hold
    double *const verified_radius = verified_and_largest.data(), *const largest = verified_radius + plan.query_batch;
    Buffer<std::int64_t> found(plan.query_batch);
    std::vector<std::int64_t> list;
    while (row_ < pending_.size()) {
      std::size_t next = row_;
      const QueryRows batch = take_batch(list, size, pending_, next, asked_);
      if (batch.empty()) return;
      bool all_proved = false;
      const BoundsView bounds{verified_radius, largest, found.data(), &all_proved};
      session.prepare_queries(queries_, batch);
      sweep.run(next < pending_.size());
      session.finish(out_, bounds);
      const std::vector<std::int64_t> unproved =
          all_proved ? std::vector<std::int64_t>() : certify(out_, spec_, batch, bounds, thread_pool_);
      clear_proved(batch, unproved);
      const std::int64_t errors = all_proved ? 1 : static_cast<std::int64_t>(batch.size());
      for (std::int64_t i = 0; i < errors; ++i)
        report_.certificate.largest_bound = std::max(report_.certificate.largest_bound, largest[i]);
      row_ = next;
    }
  }
  /// Queries that are not proved.
  std::int64_t left() const noexcept { return left_; }

 private:
  /// The queries of the batch are pending no more, but those that are not proved.
  void clear_proved(const QueryRows& batch, const std::vector<std::int64_t>& unproved) noexcept {
    const auto at = [&](std::int64_t row) { return pending_.begin() + static_cast<std::ptrdiff_t>(row); };
    if (batch.adjacent()) std::fill(at(batch.front()), at(batch.back() + 1), false);
    else
      for (std::size_t i = 0; i < batch.size(); ++i) *at(batch[i]) = false;
    for (const std::int64_t row : unproved) *at(row) = true;
    left_ += std::ssize(unproved);
  }

  const SearchSpec& spec_;
  const NeighborsView& out_;
  const Points& queries_;
  std::vector<bool>& pending_;
  std::int64_t asked_;
  ThreadPool& thread_pool_;
  Report& report_;
  std::size_t row_ = 0;
  std::int64_t left_ = 0;
};

/// The few queries that a finer precision takes over should still keep every thread busy, in the memory of the plan.
SearchPlan plan_for_rest(const SearchPlan& plan, std::int64_t pending) {
  SearchPlan rest = plan;
  const std::int64_t most =
      std::max(plan.row_splits, plan.query_batch * plan.row_splits / std::max<std::int64_t>(pending, 1));
  rest.symmetric = false;
  rest.query_batch = std::min(plan.query_batch, std::max<std::int64_t>(pending, 1));
  rest.row_splits = std::clamp<std::int64_t>(2 * plan.threads, plan.row_splits, most);
  if (pending >= plan.query_batch) rest.row_splits = plan.row_splits;
  return rest;
}

/// A precision that the plan did not begin with may take more memory a query.
void fit_batch(SearchPlan& plan, const std::string& precision, const SearchBackend& backend,
               const ProblemShape& problem) {
  SearchPlan alone = plan;
  alone.cascade = {precision};
  const std::int64_t least = plan.multiples.queries;
  while (alone.query_batch > least && backend.bytes(alone, problem) > plan.budget_bytes) {
    alone.symmetric = false;  // which takes all rows at once
    alone.query_batch = std::max(least, alone.query_batch / 2);
  }
  plan.query_batch = alone.query_batch;
  plan.symmetric = alone.symmetric;
}

/// A ChangedPlan is copied when it is changed: most searches change none.
class ChangedPlan {
 public:
  explicit ChangedPlan(const SearchPlan& plan) : from_(&plan) {}
  const SearchPlan& get() const noexcept { return own_ ? *own_ : *from_; }
  SearchPlan& change() { return own_ ? *own_ : own_.emplace(*from_); }

 private:
  const SearchPlan* from_;
  std::optional<SearchPlan> own_;
};

Report escalate(const NeighborsView& out, const SearchSpec& spec, const Points& queries, const SearchPlan& plan,
                const Prepared& prepared, const KnnOptions& options) {
  Report report;
  Stats& stats = report.stats;
  note_plan(stats, plan, spec.corpus.rows * queries.rows);
  report.certificate.queries = queries.rows;
  std::vector<bool> pending(static_cast<std::size_t>(queries.rows), true);
  std::int64_t left = queries.rows;

  const Backend& backend = find_backend(plan.device);
  ProblemShape problem =
      knn_problem(shape_on(backend, spec.corpus), shape_on(backend, queries), options, prepared.plan());
  problem.k = spec.k;
  ThreadPool thread_pool(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(stats.pairs));
  note_threads(stats, thread_pool);
  ChangedPlan whole(plan);  // smaller where memory was refused
  for (const std::string& name : plan.cascade) {
    if (left == 0) break;
    ChangedPlan own(whole.get());
    if (!report.certificate.precisions.empty()) own.change() = plan_for_rest(whole.get(), left);
    if (name != plan.cascade.front()) fit_batch(own.change(), name, backend.search(), problem);
    PrecisionRun run(spec, out, queries, pending, left, thread_pool, report);
    const bool ran = retry_smaller(
        [&] {
          const auto session =
              backend.search().open(spec, own.get(), precision_of(name), prepared.kept, thread_pool, stats);
          if (session) run.run(*session, own.get(), prepared.kept != nullptr);
          return session != nullptr;
        },
        [&] {
          const bool smaller = halve(own.change(), name, backend, problem, stats);
          SearchPlan& later = whole.change();
          later.query_batch = std::min(later.query_batch, own.get().query_batch);
          later.corpus_chunk = std::min(later.corpus_chunk, own.get().corpus_chunk);
          later.resident = own.get().resident;
          later.symmetric = own.get().symmetric;
          return smaller;
        });
    if (!ran) continue;
    left = run.left();
    report.certificate.precisions.push_back(name);
    if (report.certificate.precisions.size() == 1) report.certificate.proven = queries.rows - left;
  }
  if (left != 0)
    fail(ErrorCode::internal, cat(left,
                                  " queries are not proved after every row was ranked; where no array changed during "
                                  "the call, please report it"));
  report.certificate.redone = queries.rows - report.certificate.proven;
  thread_pool.finish();
  note_underflow(stats, spec.type);
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

bool halve(SearchPlan& plan, const std::string& precision, const Backend& backend, const ProblemShape& problem,
           Stats& stats) {
  const auto bytes = [&](SearchPlan shape) {
    shape.cascade = {precision};
    return backend.search().bytes(shape, problem);
  };
  const std::int64_t tile = plan.multiples.rows, least = plan.multiples.queries;
  const auto half = [&](std::int64_t batch) { return std::min(batch, std::max(least, (batch + 1) / 2)); };
  SearchPlan fewer = plan;
  fewer.symmetric = false;  // which takes all rows at once
  SearchPlan shorter = fewer;
  // One side may need more memory for as many queries: first as few as need no more than the plan did, then half of these.
  while (plan.symmetric && fewer.query_batch > least && bytes(fewer) > bytes(plan))
    fewer.query_batch = half(fewer.query_batch);
  fewer.query_batch = half(fewer.query_batch);
  if (!problem.prepared && !plan.techniques.kd_tree)
    shorter.corpus_chunk =
        std::min(plan.corpus_chunk, std::max(tile, (plan.corpus_chunk / 2 + tile - 1) / tile * tile));
  shorter.resident = shorter.corpus_chunk >= problem.corpus.rows;
  const bool queries = fewer.query_batch < plan.query_batch, rows = shorter.corpus_chunk < plan.corpus_chunk;
  if (!queries && !rows) return false;
  plan = rows && (!queries || bytes(shorter) < bytes(fewer)) ? shorter : fewer;
  plan.match_bytes /= 2;
  stats.notes.push_back(cat("memory was refused on ", plan.device, ": the search goes on with ", plan.query_batch,
                            " queries and ", std::min(plan.corpus_chunk, problem.corpus.rows),
                            " rows of the corpus at a time"));
  return true;
}

void note_threads(Stats& stats, const ThreadPool& thread_pool) {
  if (thread_pool.threads() >= stats.threads) return;
  stats.notes.push_back(
      cat("threads: ", thread_pool.threads(), " of ", stats.threads, ", for the system starts no more"));
  stats.threads = thread_pool.threads();
}

void note_underflow(Stats& stats, DistanceType type) {
  if (stats.underflowed == 0) return;
  stats.notes.push_back(cat(stats.underflowed, " returned distances underflow ", distance_type_name(type),
                            "; use euclidean or distance_type=f64 to tell them apart"));
}

void Sweep::run(bool again) {
  const auto rows_from = [&](std::int64_t first) { return std::min(plan_.corpus_chunk, spec_.corpus.rows - first); };
  for (std::int64_t first = 0; first < spec_.corpus.rows; first += plan_.corpus_chunk) {
    const std::int64_t rows = rows_from(first), next = first + rows < spec_.corpus.rows ? first + rows : 0;
    if (!kept_ && !(plan_.resident && prepared_)) {
      const auto start = Clock::now();
      if (!plan_.resident) session_.expect_corpus(first, rows);
      if (!plan_.resident && (next > 0 || again)) session_.expect_corpus(next, rows_from(next));
      session_.prepare_corpus(first, rows);
      stats_.prepare_seconds += seconds_since(start);
      prepared_ = true;
      if (first == 0) ++stats_.passes;
      // While this chunk is searched the system reads the next one (the first again, for the next batch).
      if (!plan_.resident) read_ahead(spec_.corpus.slice(next, rows_from(next)));
    }
    session_.filter();
    session_.select();
    session_.rerank();
  }
}

Report search(const NeighborsView& out, const SearchSpec& spec, const Points& queries, const SearchPlan& plan,
              const Prepared& prepared, const KnnOptions& options) {
  const auto start = Clock::now();
  FpGuard guard;
  Report report = escalate(out, spec, queries, plan, prepared, options);
  if (spot_checks() && on_host(find_backend(plan.device), {spec.corpus.data, queries.data, out.ids}))
    spot_check(out, spec, queries);
  report.stats.seconds = seconds_since(start);
  return report;
}

void check_out(const NeighborsView& out, const Points& queries, const KnnOptions& options, DistanceType type) {
  if (out.rows != queries.rows || out.k != options.k)
    fail(ErrorCode::invalid_argument,
         cat("out is ", out.rows, " x ", out.k, ", the result is ", queries.rows, " x ", options.k));
  if (out.type != type)
    fail(ErrorCode::invalid_argument,
         cat("out holds ", distance_type_name(out.type), ", the distances are ", distance_type_name(type)));
  if (out.rows > 0 && (out.ids == nullptr || out.distances == nullptr))
    fail(ErrorCode::invalid_argument, "out has no memory for ids or distances");
}

namespace {

/// checked_knn_into is knn_into without check_search, which its callers have done.
Report checked_knn_into(const NeighborsView& out, const Points& corpus, const Prepared& prepared, const Points& queries,
                        const KnnOptions& options) {
  if (const std::vector<std::string> devices = several_devices(options.run.device); !devices.empty())
    return knn_on_devices(out, corpus, prepared, queries, options, devices);
  const Backend& backend = find_backend(options.run.device);
  ProblemShape problem = knn_problem(shape_on(backend, corpus), shape_on(backend, queries), options, prepared.plan());
  problem.symmetric = searches_itself(problem.corpus, corpus, queries);
  const KeptPlan::Loan loan = prepared.last ? prepared.last->plan(backend, problem, options)
                                            : KeptPlan::Loan(make_plan(backend, problem, options));
  const SearchPlan& plan = *loan;
  check_out(out, queries, options, plan.distance_type);
  check_reach(backend, out);
  SearchSpec spec{.corpus = corpus,
                  .metric = options.metric,
                  .type = plan.distance_type,
                  .degenerate = options.degenerate,
                  .first_id = options.first_id,
                  .filter = RowFilter(options.eligible, corpus.rows, options.first_id, false),
                  .symmetric = plan.symmetric,
                  .stream = options.stream};
  spec.k = check_k(spec.filter, corpus.rows, queries.rows, options.k, options.pad);
  return search(out, spec, queries, plan, prepared, options);
}

}  // namespace

Report knn_into(const NeighborsView& out, const Points& corpus, const Prepared& prepared, const Points& queries,
                const KnnOptions& options) try {
  check_search(find_backend(options.run.device), corpus, queries, options);
  return checked_knn_into(out, corpus, prepared, queries, options);
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors knn(const Points& corpus, const Prepared& prepared, const Points& queries, const KnnOptions& options) try {
  check_search(find_backend(options.run.device), corpus, queries, options);
  Neighbors result(queries.rows, options.k,
                   resolve_distance_type(options.distance_type, options.metric, corpus.dtype, queries.dtype),
                   options.pad);
  Report report = checked_knn_into(result.view(), corpus, prepared, queries, options);
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
