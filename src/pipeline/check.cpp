// See check.hpp; messages follow the table in docs/semantics.md.
#include "pipeline/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/result_size.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// What every search has, whatever it collects.
void check_common(const Shape& corpus, const Shape& queries, const KnnOptions& options) {
  if (options.first_id < 0) refuse(cat("first_id must be >= 0, got ", options.first_id));
  if (options.first_id > largest - corpus.rows)
    refuse(cat("first_id=", options.first_id, " plus ", corpus.rows, " rows exceeds 64-bit ids"));
  if (options.run.threads < 0) refuse(cat("threads must be >= 0, got ", options.run.threads));
  if (options.memory.host < 0) refuse(cat("memory must be >= 0 bytes, got ", options.memory.host));
  check_eligible(options.eligible, corpus.rows, queries.rows);
}

[[noreturn]] void refuse_k(std::int64_t k, const std::string& what) {
  refuse(cat("k=", k, " exceeds ", what, " (use pad)"));
}

}  // namespace

void check_options(const Shape& corpus, const Shape& queries, const KnnOptions& options) {
  if (options.k < 1) refuse(cat("k must be >= 1, got ", options.k));
  if (corpus.rows == 0 && !options.pad) refuse("corpus has 0 rows (use pad to get an all-missing answer)");
  if (options.k > corpus.rows && !options.pad) refuse_k(options.k, cat("the n=", corpus.rows, " rows of the corpus"));
  check_result_size(queries.rows, options.k);
  check_common(corpus, queries, options);
}

void check_graph(const Shape& rows, const GraphOptions& options) {
  const KnnOptions& search = options.search;
  const std::int64_t others = rows.rows - (options.include_self ? 0 : 1);
  if (search.first_id != 0) refuse(cat("the ids of a graph are its rows; first_id must be 0, got ", search.first_id));
  if (rows.rows > 0 && search.k > others && !search.pad)
    refuse_k(search.k, options.include_self ? cat("the n=", others, " rows")
                                            : cat("the ", others, " other rows of n=", rows.rows));
  check_options(rows, rows, graph_search_options(options));
}

void check_range(const Shape& corpus, const Shape& queries, const RangeOptions& options) {
  if (options.max_results < 0) refuse(cat("max_results must be >= 0, got ", options.max_results));
  check_common(corpus, queries, options.search);
}

std::int64_t check_k(const RowFilter& filter, std::int64_t corpus_rows, std::int64_t queries, std::int64_t k,
                     bool pad) {
  if (filter.all()) return std::min(k, corpus_rows);
  std::int64_t most = 0;
  for (std::int64_t query = 0; query < (filter.uniform() ? std::min<std::int64_t>(queries, 1) : queries); ++query) {
    const std::int64_t eligible = filter.count(query);
    if (eligible < k && !pad)
      refuse_k(
          k, cat(eligible, " eligible rows", filter.uniform() ? "" : cat(" of query ", query), " of n=", corpus_rows));
    most = std::max(most, std::min(k, eligible));
  }
  return most;
}

void refuse_memory() {
  fail(ErrorCode::out_of_memory, "the system refused memory that the plan allows; set a smaller memory budget");
}

namespace {

std::string cuda_name(int ordinal) { return cat("cuda:", ordinal); }

/// Ordinal of the device whose memory a side is, where that is not the backend's own.
int elsewhere(const Backend& backend, const void* memory) {
  const int device = memory == nullptr ? -1 : backend.device().cuda_device(memory);
  return device >= 0 && backend.device().holds(memory) ? -1 : device;
}

void check_side(const Backend& backend, const Points& points, const char* side) {
  const int device = points.rows > 0 ? elsewhere(backend, points.data) : -1;
  if (device < 0) return;
  fail(ErrorCode::device_error,
       cat(side, ": rows are in memory of ", cuda_name(device), ", this search runs on ", backend.device().facts().name,
           "; copy them there, or name device=", cuda_name(device)));
}

template <class T>
void check_list(const Backend& backend, std::span<const T> list, const char* what) {
  const int device = list.empty() ? -1 : backend.device().cuda_device(list.data());
  if (device < 0) return;
  fail(ErrorCode::device_error,
       cat(what, ": memory of ", cuda_name(device), ", which the host reads; copy it to the host"));
}

}  // namespace

void check_reach(const Backend& backend, const Points& corpus, const Points& queries, const KnnOptions& options) {
  check_side(backend, corpus, "corpus");
  check_side(backend, queries, "query");
  check_reach(backend, options.eligible);
}

void check_reach(const Backend& backend, const Eligible& eligible) {
  if (eligible.ids) check_list(backend, *eligible.ids, "eligible ids");
  if (eligible.bitmap) check_list(backend, *eligible.bitmap, "bitmap of eligible rows");
  check_list(backend, eligible.corpus_labels, "labels of the corpus");
  check_list(backend, eligible.query_labels, "labels of the queries");
}

void check_host(const Backend& backend, const Points& points, const char* side, const char* doing) {
  const int device = points.rows > 0 ? backend.device().cuda_device(points.data) : -1;
  if (device < 0) return;
  fail(ErrorCode::device_error, cat(side, ": rows are in memory of ", cuda_name(device), ", ", doing,
                                    " reads those of the host; copy them there"));
}

void check_reach(const Backend& backend, const NeighborsView& out) {
  if (out.rows == 0) return;
  const bool on_device = backend.device().holds(out.ids);
  const std::pair<const char*, const void*> parts[] = {
      {"ids", out.ids}, {"distances", out.distances}, {"counts", out.counts}};
  for (const auto& [name, memory] : parts) {
    if (memory == nullptr) continue;
    if (const int device = elsewhere(backend, memory); device >= 0)
      fail(ErrorCode::device_error,
           cat(name, " of the result: memory of ", cuda_name(device), ", this search runs on ",
               backend.device().facts().name, "; give memory there, or name device=", cuda_name(device)));
    if (backend.device().holds(memory) != on_device)
      fail(ErrorCode::device_error,
           cat(name, " of the result: memory of ", on_device ? "the host" : backend.device().facts().name,
               ", and the ids are in memory of ", on_device ? backend.device().facts().name : "the host",
               "; all of one result is in one memory"));
  }
}

void check_search(const Backend& backend, const Points& corpus, const Points& queries, const KnnOptions& options) {
  check_view(corpus, "corpus");
  check_view(queries, "query");
  check_shapes(shape_of(corpus), shape_of(queries), options.metric);
  check_reach(backend, corpus, queries, options);
  check_options(shape_of(corpus), shape_of(queries), options);
}

void check_graph_search(const Backend& backend, const Points& rows, const GraphOptions& options) {
  check_view(rows, "corpus");
  check_shapes(shape_of(rows), shape_of(rows), options.search.metric);
  check_reach(backend, rows, rows, options.search);
  check_graph(shape_of(rows), options);
}

void check_range_search(const Backend& backend, const Points& corpus, const Points& queries,
                        const RangeOptions& options) {
  check_view(corpus, "corpus");
  check_view(queries, "query");
  check_shapes(shape_of(corpus), shape_of(queries), options.search.metric);
  check_reach(backend, corpus, queries, options.search);
  check_range(shape_of(corpus), shape_of(queries), options);
}

void check_radius(double radius) {
  if (std::isnan(radius)) refuse("radius is NaN");
}

std::int64_t most_matches(std::int64_t max_results, const Backend& backend, DistanceType type) {
  if (max_results > 0) return max_results;
  const std::int64_t entry = 8 + static_cast<std::int64_t>(distance_size(type));
  return std::max<std::int64_t>(backend.device().free_bytes() / 10 * 9 / entry, 1);
}

void refuse_entries(std::int64_t entries, std::int64_t max_results, std::int64_t most) {
  const bool by_caller = max_results > 0;
  fail(ErrorCode::capacity_exceeded,
       cat("the result has ", entries, " matches, ", by_caller ? "max_results is " : "free memory holds ", most,
           "; lower the radius, ", by_caller ? "" : "search fewer queries at a time, ",
           "or pass max_results=", entries));
}

KnnOptions graph_search_options(const GraphOptions& options) {
  KnnOptions search = options.search;
  if (search.eligible.query_labels.empty()) search.eligible.query_labels = search.eligible.corpus_labels;
  return search;
}

KnnOptions wide_search_options(const GraphOptions& options) {
  KnnOptions search = graph_search_options(options);
  if (!options.include_self) search.k = std::min(search.k, largest - 1) + 1;
  search.pad = true;
  return search;
}

}  // namespace vicinal
