// Arguments that no backend should ever see: checked once, before anything is planned.
#pragma once
#include "backend/backend.hpp"
#include "core/check_shapes.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// Throws InvalidArgument or Unsupported as the table of bad inputs says.
void check_options(const Shape& corpus, const Shape& queries, const KnnOptions& options);
void check_graph(const Shape& rows, const GraphOptions& options);
void check_range(const Shape& corpus, const Shape& queries, const RangeOptions& options);
/// k against what the filter leaves each of the `queries`; the largest count of any query, at most k.
std::int64_t check_k(const RowFilter& filter, std::int64_t corpus_rows, std::int64_t queries, std::int64_t k, bool pad);
/// Throws OutOfMemory: what a refused allocation becomes at the edge of the library.
[[noreturn]] void refuse_memory();
/// Memory that is handed to a search, before anything reads it. Throws DeviceError for rows in memory of another device
/// than the backend's, and for eligible rows and labels in memory of any.
void check_reach(const Backend& backend, const Points& corpus, const Points& queries, const KnnOptions& options);
void check_reach(const Backend& backend, const Eligible& eligible);
/// A side that the host reads. doing: "saving". Throws DeviceError for rows that only a device can read.
void check_host(const Backend& backend, const Points& points, const char* side, const char* doing);
/// Results: all in the host's memory, or all in that of the backend's device. Throws DeviceError.
void check_reach(const Backend& backend, const NeighborsView& out);
/// Checks the views, shapes, reach and options of a k-NN search.
void check_search(const Backend& backend, const Points& corpus, const Points& queries, const KnnOptions& options);
/// The same of a graph and of a range search.
void check_graph_search(const Backend& backend, const Points& rows, const GraphOptions& options);
void check_range_search(const Backend& backend, const Points& corpus, const Points& queries,
                        const RangeOptions& options);
void check_radius(double radius);
/// The matches that a range search may find in all: max_results, or where that is 0 what the backend's free memory
/// holds.
std::int64_t most_matches(std::int64_t max_results, const Backend& backend, DistanceType type);
/// Throws CapacityExceeded for a range's result of so many matches, which are more than `most`: max_results, or where
/// that is 0 what memory holds.
[[noreturn]] void refuse_entries(std::int64_t entries, std::int64_t max_results, std::int64_t most);

/// Options of the search that a graph is: labels are those of both sides where the queries' are not given.
KnnOptions graph_search_options(const GraphOptions& options);
/// The same of a graph whose rows are searched as queries that find themselves: with one neighbour more, padded.
KnnOptions wide_search_options(const GraphOptions& options);

/// The shape of rows, with where they are.
inline Shape shape_on(const Backend& backend, const Points& points) {
  return {points.rows, points.cols, points.dtype, backend.device().holds(points.data)};
}
/// Whether rows that lie on a device are searched among themselves, in the one array of a call.
inline bool searches_itself(const Shape& shape, const Points& corpus, const Points& queries) {
  return shape.on_device && corpus.data == queries.data && corpus.rows == queries.rows && corpus.cols == queries.cols &&
         corpus.dtype == queries.dtype && corpus.row_stride == queries.row_stride &&
         corpus.col_stride == queries.col_stride && corpus.byte_swapped == queries.byte_swapped;
}

}  // namespace vicinal
