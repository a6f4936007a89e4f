// GRAPHS: every row's nearest others, and the two ways to make such a graph symmetric.
#include <algorithm>
#include <new>
#include <utility>

#include "core/fpenv.hpp"
#include "core/key.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/searches.hpp"
#include "prepare/check.hpp"

namespace vicinal {
namespace {

/// A GraphSearch is how a run of the rows is searched among all of them.
struct GraphSearch {
  SearchPlan plan;
  SearchSpec spec;
};

/// It plans that search. Tiles serve both of their sides only where the run is all rows. search_options: with the
/// labels of the run's rows as its queries.
GraphSearch graph_search(const Backend& backend, const Points& rows, const Points& run, std::int64_t first,
                         const Prepared& prepared, const KnnOptions& search_options, const GraphOptions& options) {
  const ProblemShape problem = run.rows == rows.rows ? graph_problem(shape_on(backend, rows), options, prepared.plan())
                                                     : knn_problem(shape_on(backend, rows), shape_on(backend, run),
                                                                   search_options, prepared.plan());
  GraphSearch graph{.plan = make_plan(backend, problem, search_options), .spec = {}};
  graph.spec = {.corpus = rows,
                .metric = search_options.metric,
                .type = graph.plan.distance_type,
                .degenerate = search_options.degenerate,
                .filter = RowFilter(search_options.eligible, rows.rows, 0, !options.include_self, first),
                .symmetric = graph.plan.symmetric,
                .stream = search_options.stream};
  graph.spec.k = check_k(graph.spec.filter, rows.rows, run.rows, search_options.k, search_options.pad);
  return graph;
}

/// It searches for the lists of a run of rows that begins with row `first`. A graph has no queries: errors name the rows.
Report run_graph_search(const NeighborsView& out, const GraphSearch& graph, const Points& run, std::int64_t first,
                        const Prepared& prepared, const KnnOptions& options) try {
  return search(out, graph.spec, run, graph.plan, prepared, options);
} catch (const RowError& error) {
  throw error.as("corpus", error.side() == "corpus" ? error.row() : first + error.row());
}

}  // namespace

Report graph_into(const NeighborsView& out, const Points& rows, std::int64_t first, const Prepared& prepared,
                  const GraphOptions& options) try {
  const Points run = rows.slice(first, out.rows);
  const GraphSearch graph =
      graph_search(find_backend(options.search.run.device), rows, run, first, prepared, options.search, options);
  return run_graph_search(out, graph, run, first, prepared, options.search);
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors knn_graph(const Points& rows, const Prepared& prepared, const GraphOptions& options) try {
  if (const std::vector<std::string> devices = several_devices(options.search.run.device); !devices.empty())
    return graph_on_devices(rows, prepared, options, devices);
  const Backend& backend = find_backend(options.search.run.device);
  check_graph_search(backend, rows, options);
  const KnnOptions search_options = graph_search_options(options);
  const GraphSearch graph = graph_search(backend, rows, rows, 0, prepared, search_options, options);
  Neighbors result(rows.rows, search_options.k, graph.plan.distance_type, search_options.pad);
  Report report = run_graph_search(result.view(), graph, rows, 0, prepared, search_options);
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors knn_graph(const Points& rows, const GraphOptions& options) { return knn_graph(rows, Prepared(), options); }

namespace {

/// Copies one distance, whatever its type.
void copy_distance(const void* from, std::int64_t at, void* to, std::int64_t place, DistanceType type) {
  if (type == DistanceType::f64) {
    static_cast<double*>(to)[place] = static_cast<const double*>(from)[at];
  } else {
    static_cast<std::uint32_t*>(to)[place] = static_cast<const std::uint32_t*>(from)[at];  // or a float: 4 bytes
  }
}

/// A compressed matrix by the transposition of `from`: rows in the order of ids, stable. n rows.
CsrNeighbors transposed(const CsrNeighbors& from, std::int64_t n, ThreadPool& thread_pool) {
  CsrNeighbors to(n, from.entries(), from.type());
  std::int64_t* offsets = to.offsets();
  for (std::int64_t i = 0; i < from.entries(); ++i) ++offsets[from.ids()[i] + 1];
  for (std::int64_t row = 0; row < n; ++row) offsets[row + 1] += offsets[row];
  std::vector<std::int64_t> next(offsets, offsets + n);
  for (std::int64_t row = 0; row < n; ++row) {
    thread_pool.poll(1);
    for (std::int64_t i = from.offsets()[row]; i < from.offsets()[row + 1]; ++i) {
      const std::int64_t at = next[static_cast<std::size_t>(from.ids()[i])]++;
      to.ids()[at] = row;
      copy_distance(from.distances(), i, to.distances(), at, from.type());
    }
  }
  return to;
}

/// Two rows that list each other must do so at one distance, bit for bit.
void check_weights(const CsrNeighbors& a, std::int64_t i, const CsrNeighbors& b, std::int64_t j, std::int64_t row) {
  const double forth = load_key(a.distances(), a.type(), false, i), back = load_key(b.distances(), b.type(), false, j);
  if (forth == back) return;
  fail(ErrorCode::invalid_argument, cat("rows ", row, " and ", a.ids()[i], " list each other at distances ", forth,
                                        " and ", back, "; only what knn_graph returned can be made symmetric"));
}

/// Calls take(list, at, row) for each entry of the result; both lists are by id. list is the one that holds the entry.
template <class Take>
void join(const CsrNeighbors& a, const CsrNeighbors& b, Symmetrize how, ThreadPool& thread_pool, const Take& take) {
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    thread_pool.poll(1);
    std::int64_t i = a.offsets()[row], j = b.offsets()[row];
    const std::int64_t i_end = a.offsets()[row + 1], j_end = b.offsets()[row + 1];
    while (i < i_end || j < j_end) {
      const std::int64_t in_a = i < i_end ? a.ids()[i] : INT64_MAX, in_b = j < j_end ? b.ids()[j] : INT64_MAX;
      if (in_a == in_b) check_weights(a, i, b, j, row);
      if (how == Symmetrize::either || in_a == in_b) in_a <= in_b ? take(a, i, row) : take(b, j, row);
      i += static_cast<std::int64_t>(in_a <= in_b);
      j += static_cast<std::int64_t>(in_b <= in_a);
    }
  }
}

[[noreturn]] void refuse_changed() { fail(ErrorCode::invalid_argument, "the graph changed during the call"); }

CsrNeighbors to_csr(const Neighbors& graph, ThreadPool& thread_pool) {
  const std::int64_t* ids = graph.ids();
  const auto entries = std::count_if(ids, ids + graph.rows() * graph.k(), [](std::int64_t id) { return id >= 0; });
  CsrNeighbors lists(graph.rows(), entries, graph.type());
  std::int64_t at = 0;
  for (std::int64_t row = 0; row < graph.rows(); ++row) {
    thread_pool.poll(1);
    for (std::int64_t i = row * graph.k(); i < (row + 1) * graph.k(); ++i) {
      const std::int64_t id = ids[i];
      if (id < 0) continue;
      if (at == entries) refuse_changed();
      lists.ids()[at] = id;
      copy_distance(graph.distances(), i, lists.distances(), at++, graph.type());
    }
    lists.offsets()[row + 1] = at;
  }
  if (at != entries) refuse_changed();
  lists.certificate = graph.certificate;
  lists.stats = graph.stats;
  return lists;
}

}  // namespace

CsrNeighbors to_csr(const Neighbors& graph) {
  ThreadPool thread_pool(1, nullptr, {}, 1);
  return to_csr(graph, thread_pool);
}

CsrNeighbors symmetrize(const Neighbors& graph, Symmetrize how, const Progress& progress, std::stop_token stop) try {
  constexpr std::uint64_t passes = 5;  // over the rows
  const FpGuard guard;
  const std::int64_t n = graph.rows();
  ThreadPool thread_pool(1, progress, std::move(stop), passes * static_cast<std::uint64_t>(n));
  const CsrNeighbors lists = to_csr(graph, thread_pool);  // our own copy: what is checked here is what is used
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t i = lists.offsets()[row]; i < lists.offsets()[row + 1]; ++i)
      if (lists.ids()[i] >= n)
        fail(ErrorCode::invalid_argument,
             cat("row ", row, " lists id ", lists.ids()[i], ", the graph has ", n, " rows"));
  // By id, which a transposition does: twice gives the lists themselves, sorted.
  const CsrNeighbors backward = transposed(lists, n, thread_pool), forward = transposed(backward, n, thread_pool);
  std::int64_t entries = 0;
  join(forward, backward, how, thread_pool, [&](const CsrNeighbors&, std::int64_t, std::int64_t) { ++entries; });
  CsrNeighbors result(n, entries, graph.type());
  std::int64_t at = 0;
  join(forward, backward, how, thread_pool, [&](const CsrNeighbors& from, std::int64_t i, std::int64_t row) {
    result.ids()[at] = from.ids()[i];
    copy_distance(from.distances(), i, result.distances(), at++, graph.type());
    result.offsets()[row + 1] = at;
  });
  for (std::int64_t row = 0; row < n; ++row)
    result.offsets()[row + 1] = std::max(result.offsets()[row + 1], result.offsets()[row]);
  result.certificate = graph.certificate;
  result.stats = graph.stats;
  thread_pool.finish();
  return result;
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, "no memory to make the graph symmetric; its edges are held three times meanwhile");
}

}  // namespace vicinal
