// RESUME: a search as blocks of queries, which depend on the shapes and k alone, by parts of the corpus, which are cut
// by the clock while it runs: no cut changes a bit of the answer. After each part the block's running k-list, or the
// part's matches, are saved, so that a kill costs some seconds whatever a row costs. Another machine, with other
// threads or memory, can go on.
#include "pipeline/resume.hpp"

#include <algorithm>
#include <cstdint>

#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/saved_lists.hpp"
#include "prepare/check.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t most_queries = 16384;                    // queries
constexpr std::int64_t first_products = std::int64_t{1} << 31;  // ranked one by one: half a second of one core
constexpr std::int64_t column_work = 32;                        // of a pair, beside its columns
constexpr std::int64_t most_list_bytes = std::int64_t{1}
                                         << 28;  // of a block's lists, which are saved whole after each part

/// The nearest `k` of every block, one after another: take(first query, lists).
template <class Take>
void walk_lists(Walk& walk, const Points& corpus, const KnnOptions& options, DistanceType type, const Take& take) {
  for (std::int64_t number = 0; number < walk.blocks(); ++number) {
    const Points& block = walk.block(number);
    ListFile file = ListFile::of(walk);
    Lists lists = load_lists(walk, options.k, type, corpus.rows, file);
    walk.resumed(lists.rows_done);
    while (lists.rows_done < corpus.rows) {
      extend_lists(walk, options, lists);
      save_lists(walk, lists, file);
    }
    if (corpus.rows == 0) lists.list = knn(corpus, block, options);
    take(walk.first_query(), lists.list);
    walk.redone(lists.redone);
  }
}

}  // namespace

Grid Grid::of(const Shape& corpus, const Shape& queries, std::int64_t k) {
  const std::int64_t work = std::clamp<std::int64_t>(corpus.cols, 1, first_products) + column_work;
  const std::int64_t most = std::min(
      {most_queries, first_products / Pace::multiple / work, most_list_bytes / 16 / std::max<std::int64_t>(k, 1)});
  const std::int64_t block = std::clamp<std::int64_t>(queries.rows, 1, std::max<std::int64_t>(most, 1));
  return {block, std::max(Pace::multiple, first_products / block / work)};
}

Neighbors knn_in_pieces(const Points& corpus, const Points& queries, const KnnOptions& options,
                        const std::string& directory, const Grid& grid) {
  const double start = now_seconds();
  const Backend& backend = find_backend(options.run.device);
  check_search(backend, corpus, queries, options);
  check_host(backend, corpus, "corpus", resumable);
  check_host(backend, queries, "query", resumable);
  const Plan whole = plan(shape_of(corpus), shape_of(queries), options);
  const RowFilter filter(options.eligible, corpus.rows, options.first_id, false);
  check_k(filter, corpus.rows, queries.rows, options.k, options.pad);
  Neighbors result(queries.rows, options.k, whole.distance_type, options.pad);
  const std::int64_t words[] = {0, options.k, static_cast<std::int64_t>(whole.distance_type), grid.block};
  Walk walk(cat("k-NN, k=", options.k), corpus, queries, options, whole, directory, grid, words);
  walk_lists(walk, corpus, options, whole.distance_type, [&](std::int64_t first, const Neighbors& list) {
    copy_entries(list, 0, list.rows() * options.k, result.view(), first * options.k);
  });
  complete_lists(result.view(), filter, corpus.rows, options.metric, whole.threads);
  walk.close(result.certificate, result.stats, start);
  return result;
}

Neighbors graph_in_pieces(const Points& rows, const GraphOptions& options, const std::string& directory,
                          const Grid& grid) try {
  const double start = now_seconds();
  const Backend& backend = find_backend(options.search.run.device);
  check_graph_search(backend, rows, options);
  check_host(backend, rows, "corpus", resumable);
  KnnOptions search = graph_search_options(options);
  const Plan whole = plan_graph(shape_of(rows), options);
  const RowFilter filter(search.eligible, rows.rows, 0, !options.include_self);
  check_k(filter, rows.rows, rows.rows, search.k, search.pad);
  Neighbors result(rows.rows, search.k, whole.distance_type, search.pad);
  const std::int64_t words[] = {1, search.k, static_cast<std::int64_t>(whole.distance_type), grid.block,
                                options.include_self ? 1 : 0};
  // One neighbour more than is asked for; then either the row itself is left out of its list, or the last.
  const std::int64_t k = search.k;
  search.k += options.include_self || rows.rows == 0 ? 0 : 1;  // without rows nothing bounds k
  Walk walk(cat("graph, k=", k), rows, rows, search, whole, directory, grid, words);
  walk_lists(walk, rows, search, whole.distance_type, [&](std::int64_t first, const Neighbors& list) {
    copy_without_self(list, first, k, result.view(), whole.threads);
  });
  complete_lists(result.view(), filter, rows.rows, search.metric, whole.threads);
  walk.close(result.certificate, result.stats, start);
  return result;
} catch (const RowError& error) {
  throw error.as("corpus", error.row());  // a graph has no queries
}

Neighbors knn_resumable(const Points& corpus, const Points& queries, const KnnOptions& options,
                        const std::string& directory) {
  return knn_in_pieces(corpus, queries, options, directory, Grid::of(shape_of(corpus), shape_of(queries), options.k));
}

Neighbors knn_graph_resumable(const Points& rows, const GraphOptions& options, const std::string& directory) {
  return graph_in_pieces(rows, options, directory,
                         Grid::of(shape_of(rows), shape_of(rows), std::min(options.search.k, INT64_MAX - 1) + 1));
}

}  // namespace vicinal
