// The calls that return a plan without searching, from shapes alone or from a sample of the rows besides, and its text.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {
namespace {

/// It corrects a plan by a sample of the rows.
Plan sampled(SearchPlan plan, const Backend& backend, const ProblemShape& problem, const Points& corpus,
             const KnnOptions& options, std::optional<double> radius) {
  const SearchSpec spec{.corpus = corpus,
                        .metric = options.metric,
                        .type = plan.distance_type,
                        .degenerate = options.degenerate,
                        .k = problem.k,
                        .radius = radius};
  if (corpus.rows > 0) backend.search().sample(plan, problem, spec);
  return public_plan(plan);
}

/// The search that several devices do for a graph.
KnnOptions searched_for_graph(const GraphOptions& options) {
  KnnOptions search = options.search;
  if (!options.include_self) search.k = std::min(search.k, INT64_MAX - 1) + 1;
  if (search.eligible.query_labels.empty()) search.eligible.query_labels = search.eligible.corpus_labels;
  return search;
}

/// The plan of several devices, if the options name several. by_queries: shares are never of rows.
std::optional<Plan> by_devices(const Shape& corpus, const Shape& queries, const KnnOptions& options, bool by_queries,
                               const SharePlanner& planner) {
  const std::vector<std::string> devices = device_names(options.run.device);
  if (devices.size() < 2) return std::nullopt;
  const Share share = share_of(corpus, queries, options, by_queries, devices);
  return plan_of_devices(corpus, queries, options, share, devices, planner);
}

}  // namespace

Plan plan(const Points& corpus, const Shape& queries, const KnnOptions& options) {
  const FpGuard guard;
  check_view(corpus, "corpus");
  check_shapes(shape_of(corpus), queries, options.metric);
  const Backend& backend = find_backend(options.run.device);
  check_reach(backend, corpus, {}, options);
  check_options(shape_of(corpus), queries, options);
  if (const auto several = by_devices(shape_of(corpus), queries, options, false,
                                      [&](const Shape& rows, const Shape& asked, const KnnOptions& one) {
                                        return plan(corpus.slice(0, rows.rows), asked, one);
                                      }))
    return *several;
  const ProblemShape problem = knn_problem(shape_on(backend, corpus), queries, options);
  return sampled(make_plan(backend, problem, options), backend, problem, corpus, options, std::nullopt);
}

Plan plan(const Points& corpus, const Points& queries, const KnnOptions& options) {
  check_view(queries, "query");
  const Backend& backend = find_backend(options.run.device);
  check_reach(backend, {}, queries, options);
  return plan(corpus, shape_on(backend, queries), options);
}

Plan plan_graph(const Points& rows, const GraphOptions& options) {
  const FpGuard guard;
  check_view(rows, "corpus");
  check_shapes(shape_of(rows), shape_of(rows), options.search.metric);
  const Backend& backend = find_backend(options.search.run.device);
  check_reach(backend, rows, {}, options.search);
  check_graph(shape_of(rows), options);
  if (const auto several = by_devices(shape_of(rows), shape_of(rows), searched_for_graph(options), false,
                                      [&](const Shape& part, const Shape& asked, const KnnOptions& one) {
                                        return plan(rows.slice(0, part.rows), asked, one);
                                      }))
    return *several;
  const ProblemShape problem = graph_problem(shape_on(backend, rows), options);
  return sampled(make_plan(backend, problem, options.search), backend, problem, rows, options.search, std::nullopt);
}

Plan plan_range(const Points& corpus, const Shape& queries, double radius, const RangeOptions& options) {
  const FpGuard guard;
  if (std::isnan(radius)) fail(ErrorCode::invalid_argument, "radius is NaN");
  check_view(corpus, "corpus");
  check_shapes(shape_of(corpus), queries, options.search.metric);
  const Backend& backend = find_backend(options.search.run.device);
  check_reach(backend, corpus, {}, options.search);
  check_range(shape_of(corpus), queries, options);
  if (const auto several = by_devices(shape_of(corpus), queries, options.search, true,
                                      [&](const Shape&, const Shape& asked, const KnnOptions& one) {
                                        return plan_range(corpus, asked, radius, {.search = one});
                                      }))
    return *several;
  const ProblemShape problem = range_problem(shape_on(backend, corpus), queries, options.search);
  return sampled(make_plan(backend, problem, options.search), backend, problem, corpus, options.search, radius);
}

Plan plan(const Shape& corpus, const Shape& queries, const KnnOptions& options) {
  const FpGuard guard;
  check_shapes(corpus, queries, options.metric);
  const Backend& backend = find_backend(options.run.device);
  check_reach(backend, options.eligible);
  check_options(corpus, queries, options);
  if (const auto several = by_devices(
          corpus, queries, options, false,
          [](const Shape& rows, const Shape& asked, const KnnOptions& one) { return plan(rows, asked, one); }))
    return *several;
  return public_plan(make_plan(backend, knn_problem(corpus, queries, options), options));
}

Plan plan_graph(const Shape& rows, const GraphOptions& options) {
  const FpGuard guard;
  check_shapes(rows, rows, options.search.metric);
  const Backend& backend = find_backend(options.search.run.device);
  check_reach(backend, options.search.eligible);
  check_graph(rows, options);
  if (const auto several = by_devices(
          rows, rows, searched_for_graph(options), false,
          [](const Shape& part, const Shape& asked, const KnnOptions& one) { return plan(part, asked, one); }))
    return *several;
  return public_plan(make_plan(backend, graph_problem(rows, options), options.search));
}

Plan plan_range(const Shape& corpus, const Shape& queries, const RangeOptions& options) {
  const FpGuard guard;
  check_shapes(corpus, queries, options.search.metric);
  const Backend& backend = find_backend(options.search.run.device);
  check_reach(backend, options.search.eligible);
  check_range(corpus, queries, options);
  if (const auto several = by_devices(corpus, queries, options.search, true,
                                      [](const Shape& rows, const Shape& asked, const KnnOptions& one) {
                                        return plan_range(rows, asked, {.search = one});
                                      }))
    return *several;
  return public_plan(make_plan(backend, range_problem(corpus, queries, options.search), options.search));
}

Plan public_plan(const SearchPlan& plan) {
  Plan told = plan;
  if (plan.symmetric) told.query_block = plan.symmetric_rows;
  const Techniques& techniques = plan.techniques;
  if (techniques.pilot)
    told.details.push_back(
        cat(plan.cascade.front(), " where a sample of the rows says that it pays, of rotated rows or not"));
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
