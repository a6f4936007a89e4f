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
#include <numeric>

#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "pipeline/certify.hpp"
#include "pipeline/check.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Rung parse_rung(const std::string& name) {
  for (const RungName& known : rung_names)
    if (known.name == name) return known.rung;
  fail(ErrorCode::internal, cat("no rung ", name));
}

/// One rung over the pending queries. Returns those that it could not prove.
class RungRun {
 public:
  RungRun(Session& session, const Question& question, const Plan& plan, bool kept, Report& report)
      : session_(session), question_(question), plan_(plan), kept_(kept), report_(report) {}

  std::vector<std::int64_t> run(const NeighborsView& out, const Points& queries, const std::vector<std::int64_t>& pending) {
    std::vector<std::int64_t> redo;
    std::vector<double> settled(static_cast<std::size_t>(plan_.query_batch)), largest(settled.size());
    const auto all = std::span<const std::int64_t>(pending);
    const auto batch_size = static_cast<std::size_t>(plan_.query_batch);
    for (std::size_t first = 0; first < all.size(); first += batch_size) {
      const auto batch = all.subspan(first, std::min(batch_size, all.size() - first));
      session_.prepare_queries(queries, batch);
      for (std::int64_t row = 0; row < question_.corpus.rows; row += plan_.corpus_chunk) chunk(row);
      session_.finish(out, {settled.data(), largest.data()});
      certify(out, question_.k, question_.metric, batch, std::span(settled).first(batch.size()), redo);
      for (std::size_t i = 0; i < batch.size(); ++i)
        report_.certificate.largest_bound = std::max(report_.certificate.largest_bound, largest[i]);
    }
    return redo;
  }

 private:
  void chunk(std::int64_t row) {
    if (!kept_ && !(plan_.resident && prepared_)) {
      const auto start = Clock::now();
      session_.prepare_corpus(row, std::min(plan_.corpus_chunk, question_.corpus.rows - row));
      report_.stats.prepare_seconds += seconds_since(start);
      prepared_ = true;
      if (row == 0) ++report_.stats.passes;
    }
    session_.filter();
    session_.select();
    session_.rerank();
  }

  Session& session_;
  const Question& question_;
  const Plan& plan_;
  bool kept_, prepared_ = false;
  Report& report_;
};

void note_underflow(Stats& stats, DistanceType type) {
  if (stats.underflowed == 0) return;
  stats.notes.push_back(cat(stats.underflowed, " returned distances underflow ", distance_type_name(type),
                            "; use euclidean or distance_type=f64 to tell them apart"));
}

}  // namespace

Report search(const NeighborsView& out, const Question& question, const Points& queries, const Plan& plan,
              std::shared_ptr<const Kept> kept, const KnnOptions& options) {
  const auto start = Clock::now();
  FpGuard guard;
  Report report;
  Stats& stats = report.stats;
  stats.device = plan.device;
  stats.instruction_set = plan.instruction_set;
  stats.threads = plan.threads;
  stats.planned_bytes = plan.peak_bytes;
  stats.notes = plan.notes;
  stats.pairs = question.corpus.rows * queries.rows;
  report.certificate.queries = queries.rows;
  std::vector<std::int64_t> pending(static_cast<std::size_t>(queries.rows));
  std::iota(pending.begin(), pending.end(), std::int64_t{0});

  Team team(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(stats.pairs));
  for (const std::string& name : plan.rungs) {
    if (pending.empty()) break;
    auto session = find_backend(plan.device).open(question, plan, parse_rung(name), kept, team, stats);
    pending = RungRun(*session, question, plan, kept != nullptr, report).run(out, queries, pending);
    report.certificate.rungs.push_back(name);
    if (report.certificate.rungs.size() == 1) report.certificate.proven = queries.rows - static_cast<std::int64_t>(pending.size());
  }
  if (!pending.empty()) fail(ErrorCode::internal, cat("query row ", pending.front(), " was not settled by the last rung"));
  report.certificate.redone = queries.rows - report.certificate.proven;
  team.finish();
  note_underflow(stats, question.type);
  stats.seconds = seconds_since(start);
  return report;
}

void check_out(const NeighborsView& out, const Points& queries, const KnnOptions& options, DistanceType type) {
  if (out.rows != queries.rows || out.k != options.k)
    fail(ErrorCode::invalid_argument, cat("out is ", out.rows, " x ", out.k, ", the result is ", queries.rows, " x ", options.k));
  if (out.type != type)
    fail(ErrorCode::invalid_argument, cat("out holds ", distance_type_name(out.type), ", the distances are ", distance_type_name(type)));
  if (out.rows > 0 && (out.ids == nullptr || out.distances == nullptr))
    fail(ErrorCode::invalid_argument, "out has no memory for ids or distances");
}

Report knn_into(const NeighborsView& out, const Points& corpus, const Points& queries, const KnnOptions& options) {
  check_view(corpus, "corpus");
  check_view(queries, "query");
  check_shapes(shape_of(corpus), shape_of(queries), options.metric);
  check_options(shape_of(corpus), options);
  const Plan plan = make_plan(find_backend(options.run.device), shape_of(corpus), shape_of(queries), options, false);
  check_out(out, queries, options, plan.distance_type);
  const Question question{.corpus = corpus, .metric = options.metric, .type = plan.distance_type, .degenerate = options.degenerate,
                          .k = std::min(options.k, corpus.rows), .first_id = options.first_id};
  return search(out, question, queries, plan, nullptr, options);
}

Neighbors knn(const Points& corpus, const Points& queries, const KnnOptions& options) {
  check_view(corpus, "corpus");
  check_view(queries, "query");
  check_shapes(shape_of(corpus), shape_of(queries), options.metric);
  check_options(shape_of(corpus), options);
  Neighbors result(queries.rows, options.k, resolve_distance_type(options.distance_type, options.metric, corpus.dtype, queries.dtype),
                   options.pad);
  Report report = knn_into(result.view(), corpus, queries, options);
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
}

}  // namespace vicinal
