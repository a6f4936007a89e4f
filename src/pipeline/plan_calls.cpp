// The calls that return a plan without searching, from shapes alone or from a sample of the rows besides, and its text.
#include <cstdio>
#include <optional>

#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {
namespace {

// The corpus of a plan: rows, of which a sample is looked at, or their shape alone.
Shape shape_of(const Shape& shape) { return shape; }
Shape shape_on(const Backend& /*backend*/, const Shape& shape) { return shape; }
Points first_rows(const Points& rows, std::int64_t count) { return rows.slice(0, count); }
Shape first_rows(const Shape& shape, std::int64_t count) { return {count, shape.cols, shape.dtype, shape.on_device}; }
void check_memory(const Backend& backend, const Points& corpus, const KnnOptions& options) {
  check_view(corpus, "corpus");
  check_reach(backend, corpus, {}, options);
}
void check_memory(const Backend& backend, const Shape& /*corpus*/, const KnnOptions& options) {
  check_reach(backend, options.eligible);
}

/// Where the rows are; null of shapes.
const void* data_of(const Points& corpus) { return corpus.data; }
const void* data_of(const Shape& /*corpus*/) { return nullptr; }

/// It makes the plan, and corrects it by a sample of the rows.
Plan make_plan_of(const Backend& backend, const ProblemShape& problem, const Points& corpus, const KnnOptions& options,
                  std::optional<double> radius) {
  SearchPlan plan = make_plan(backend, problem, options);
  const SearchSpec spec{.corpus = corpus,
                        .metric = options.metric,
                        .type = plan.distance_type,
                        .degenerate = options.degenerate,
                        .k = problem.k,
                        .radius = radius,
                        .stream = options.stream};
  if (corpus.rows > 0) backend.search().sample(plan, problem, spec);
  return public_plan(plan);
}
Plan make_plan_of(const Backend& backend, const ProblemShape& problem, const Shape& /*corpus*/,
                  const KnnOptions& options, std::optional<double> /*radius*/) {
  return public_plan(make_plan(backend, problem, options));
}

/// The plan of these shares. plan_share(corpus, queries, options): of one of them.
template <class Corpus, class PlanShare>
Plan plan_of_shares(const Corpus& corpus, const Shape& queries, const KnnOptions& options, const Share& share,
                    const std::vector<std::string>& devices, const PlanShare& plan_share) {
  return plan_of_devices(shape_of(corpus), queries, options, share, devices, data_of(corpus),
                         [&](const Shape& rows, const Shape& asked, const KnnOptions& one) {
                           return plan_share(first_rows(corpus, rows.rows), asked, one);
                         });
}

/// The plan of several devices, if the options name several. by_queries: shares are never of rows.
template <class Corpus, class PlanShare>
std::optional<Plan> by_devices(const Corpus& corpus, const Shape& queries, const KnnOptions& options, bool by_queries,
                               const PlanShare& plan_share) {
  const std::vector<std::string> devices = several_devices(options.run.device);
  if (devices.empty()) return std::nullopt;
  return plan_of_shares(corpus, queries, options, share_of(shape_of(corpus), queries, options, by_queries, devices),
                        devices, plan_share);
}

/// itself: the rows are their own queries.
template <class Corpus>
Plan plan_knn(const Corpus& corpus, const Shape& queries, const KnnOptions& options, bool itself = false) {
  const FpGuard guard;
  const Backend& backend = find_backend(options.run.device);
  check_memory(backend, corpus, options);
  check_shapes(shape_of(corpus), queries, options.metric);
  check_options(shape_of(corpus), queries, options);
  if (const auto several = by_devices(
          corpus, queries, options, false,
          [](const Corpus& rows, const Shape& asked, const KnnOptions& one) { return plan_knn(rows, asked, one); }))
    return *several;
  ProblemShape problem = knn_problem(shape_on(backend, corpus), queries, options);
  problem.symmetric = itself;
  return make_plan_of(backend, problem, corpus, options, std::nullopt);
}

template <class Rows>
Plan plan_of_graph(const Rows& rows, const GraphOptions& options) {
  const FpGuard guard;
  const Backend& backend = find_backend(options.search.run.device);
  check_memory(backend, rows, options.search);
  check_shapes(shape_of(rows), shape_of(rows), options.search.metric);
  check_graph(shape_of(rows), options);
  if (const std::vector<std::string> devices = several_devices(options.search.run.device); !devices.empty()) {
    const KnnOptions search = graph_search_options(options);
    const Share share = share_of(shape_of(rows), shape_of(rows), search, false, devices);
    return plan_of_shares(
        rows, shape_of(rows), share.by_rows ? wide_search_options(options) : search, share, devices,
        [](const Rows& some, const Shape& asked, const KnnOptions& one) { return plan_knn(some, asked, one); });
  }
  const ProblemShape problem = graph_problem(shape_on(backend, rows), options);
  return make_plan_of(backend, problem, rows, options.search, std::nullopt);
}

template <class Corpus>
Plan plan_of_range(const Corpus& corpus, const Shape& queries, std::optional<double> radius,
                   const RangeOptions& options) {
  const FpGuard guard;
  const Backend& backend = find_backend(options.search.run.device);
  check_memory(backend, corpus, options.search);
  check_shapes(shape_of(corpus), queries, options.search.metric);
  check_range(shape_of(corpus), queries, options);
  if (const auto several = by_devices(corpus, queries, options.search, true,
                                      [&](const Corpus& rows, const Shape& asked, const KnnOptions& one) {
                                        return plan_of_range(rows, asked, radius, {.search = one});
                                      }))
    return *several;
  const ProblemShape problem = range_problem(shape_on(backend, corpus), queries, options.search);
  return make_plan_of(backend, problem, corpus, options.search, radius);
}

}  // namespace

Plan plan(const Points& corpus, const Shape& queries, const KnnOptions& options) {
  return plan_knn(corpus, queries, options);
}
Plan plan(const Shape& corpus, const Shape& queries, const KnnOptions& options) {
  return plan_knn(corpus, queries, options);
}
Plan plan(const Points& corpus, const Points& queries, const KnnOptions& options) {
  check_view(queries, "query");
  const Backend& backend = find_backend(options.run.device);
  check_reach(backend, {}, queries, options);
  const Shape asked = shape_on(backend, queries);
  return plan_knn(corpus, asked, options, searches_itself(asked, corpus, queries));
}
Plan plan_graph(const Points& rows, const GraphOptions& options) { return plan_of_graph(rows, options); }
Plan plan_graph(const Shape& rows, const GraphOptions& options) { return plan_of_graph(rows, options); }
Plan plan_range(const Points& corpus, const Shape& queries, double radius, const RangeOptions& options) {
  check_radius(radius);
  return plan_of_range(corpus, queries, radius, options);
}
Plan plan_range(const Shape& corpus, const Shape& queries, const RangeOptions& options) {
  return plan_of_range(corpus, queries, std::nullopt, options);
}

Plan public_plan(const SearchPlan& plan) {
  Plan told = plan;
  if (plan.symmetric) told.query_block = plan.symmetric_rows;
  const Techniques& techniques = plan.techniques;
  if (techniques.pilot)
    told.details.push_back(
        cat(plan.cascade.front(),
            " where a sample of the rows says that it pays, of rows as they are, rotated or projected"));
  if (techniques.kd_tree)
    told.details.emplace_back(
        "rows near each other in leaves of a k-d tree; leaves farther than the k-th are passed over");
  if (techniques.bit_counts)
    told.details.emplace_back("differing bits of every pair are counted, a block of queries against a tile of rows");
  if (techniques.second_level)
    told.details.emplace_back("rows that int8 cannot exclude are refined by a second byte of each element");
  return told;
}

std::string Plan::text() const {
  const FpGuard guard;  // numbers for people are rounded, too
  std::string out;
  const auto line = [&](const char* name, const std::string& value) {
    char padded[32];
    std::snprintf(padded, sizeof padded, "%-16s", name);
    out += padded + value + "\n";
  };
  line("device", cat(device, ", ", threads, threads == 1 ? " thread, " : " threads, ", instruction_set));
  line("cascade", joined(cascade, " -> "));
  line("distances", distance_type_name(distance_type));
  line("memory", cat(bytes_text(peak_bytes), " of ", bytes_text(budget_bytes), " (least that works: ",
                     bytes_text(minimum_bytes), "), results ", bytes_text(result_bytes), " besides"));
  line("corpus", resident ? cat("all rows prepared once")
                          : cat("chunks of ", corpus_chunk, " rows, read ", passes, passes == 1 ? " time" : " times"));
  line("queries", cat(query_batch, " at a time, blocks of ", query_block,
                      row_splits > 1 ? cat(", corpus split in ", row_splits) : ""));
  if (rotated) line("rotation", "rows are rotated at random before they are rounded to bytes");
  if (projected > 0)
    line("projection", cat("rows are projected to ", projected, " columns at most before they are rounded to bytes"));
  if (symmetric)
    line("symmetry",
         cat("each tile of distances serves both of its sides, ", query_block, " rows against ", query_block));
  for (const std::string& detail : details) line("detail", detail);
  line("candidates", cat(candidate_slots, " slots a query"));
  if (match_bytes > 0) line("matches", cat(bytes_text(match_bytes), " until their places are known"));
  char text[32];
  std::snprintf(text, sizeof text, "%.2g s", seconds);
  line("predicted", cat(text, sampled_rows > 0 ? "" : " (by the shapes alone)"));
  if (sampled_rows > 0)
    line("sample", cat("by a look at ", sampled_rows, " rows of the corpus, about ", left_rows,
                       " of its rows are ranked for a query"));
  for (const std::string& note : notes) line("note", note);
  return out;
}

}  // namespace vicinal
