// Exact k nearest neighbours in one call, graphs, ranges, and the merge of results found in parts.
#pragma once
#include <concepts>
#include <span>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"
#include "vicinal/strings.hpp"

namespace vicinal {

/// The k nearest rows of `corpus` for each row of `queries`, by (distance, id), certified exact.
/// The bits of ids and distances depend on values, metric, k and the options that name semantics, and on
/// nothing else. Throws Error (InvalidArgument, InvalidValue, RangeError, MemoryBudget, OutOfMemory,
/// Cancelled, DeviceError, Unsupported); on error no result exists.
/// For a CUDA device rows and results may be in its memory. The search begins after what is queued on
/// KnnOptions::stream, and on the legacy default stream where that is null; work on other streams is the caller's to
/// wait for. It returns when the results are complete.
Neighbors knn(const Points& corpus, const Points& queries, const KnnOptions& options = {});

/// The same into the caller's memory. `out.rows` and `out.k` must be queries.rows and options.k, and
/// `out.type` the resolved distance type. On error the contents of `out` are unspecified.
struct Report {
  Certificate certificate;
  Stats stats;
};
Report knn_into(const NeighborsView& out, const Points& corpus, const Points& queries, const KnnOptions& options = {});

/// As knn, of a part of a corpus, for lists that are merged with those of other parts. Rows whose distances are beyond
/// the type may be none of the whole's nearest, so a list ends before them, in place of a RangeError. Its next entry
/// then has the id `beyond_type`, and those behind it are missing; merge skips all of them, and a merged list that is
/// short and had such an entry is the whole's RangeError.
inline constexpr std::int64_t beyond_type = -2;
Neighbors knn_of_part(const Points& part, const Points& queries, const KnnOptions& options = {});

/// The k nearest other rows of each row. Row i leaves out id i only: duplicates stay, at distance 0. Labels of queries
/// are those of the corpus where none are given. Throws as knn does; k above rows - 1 is InvalidArgument unless padded.
Neighbors knn_graph(const Points& rows, const GraphOptions& options = {});

/// either: an edge where one of the two rows lists the other. mutual: where both do.
enum class Symmetrize : std::uint8_t { either, mutual };
/// A graph as an adjacency matrix with a[i][j] == a[j][i] to the bit, rows by id; missing entries are left out.
/// Throws InvalidArgument for ids that are not rows of the graph, or rows that list each other at two distances.
CsrNeighbors symmetrize(const Neighbors& graph, Symmetrize how, const Progress& progress = nullptr,
                        std::stop_token stop = {});
/// The same lists without symmetry, in the order in which they are; missing entries are left out.
CsrNeighbors to_csr(const Neighbors& graph);

/// Every row of `corpus` whose returned distance to the query is at most `radius` (compared as fp64; for inner_product
/// at least), by (distance, id). NaN is InvalidArgument. A negative radius finds nothing and +inf everything; for
/// inner_product -inf finds everything. A match whose distance is infinite in the output type is RangeError.
CsrNeighbors range_search(const Points& corpus, const Points& queries, double radius, const RangeOptions& options = {});

/// The same searches of strings, with a metric of strings (KnnOptions::metric has no default for them) and StringRules.
/// Both sides hold code points, or both bytes. InvalidArgument: a metric of vectors, a string beyond max_length,
/// strings of different lengths under hamming. InvalidValue: what is no code point, or no UTF-8.
Neighbors knn(const Strings& corpus, const Strings& queries, const KnnOptions& options);
Neighbors knn_graph(const Strings& rows, const GraphOptions& options);
CsrNeighbors range_search(const Strings& corpus, const Strings& queries, double radius, const RangeOptions& options);

/// The same searches with the options of knn alone: `knn_graph(rows, {.k = 4})`. k is that of KnnOptions, 10 unless it
/// is said. Templates, so that `{}` stays GraphOptions and RangeOptions.
template <std::same_as<KnnOptions> Options = KnnOptions>
Neighbors knn_graph(const Points& rows, const Options& options) {
  return knn_graph(rows, GraphOptions{.search = options});
}
template <std::same_as<KnnOptions> Options = KnnOptions>
Neighbors knn_graph(const Strings& rows, const Options& options) {
  return knn_graph(rows, GraphOptions{.search = options});
}
template <std::same_as<KnnOptions> Options = KnnOptions>
CsrNeighbors range_search(const Points& corpus, const Points& queries, double radius, const Options& options) {
  return range_search(corpus, queries, radius, RangeOptions{.search = options});
}
template <std::same_as<KnnOptions> Options = KnnOptions>
CsrNeighbors range_search(const Strings& corpus, const Strings& queries, double radius, const Options& options) {
  return range_search(corpus, queries, radius, RangeOptions{.search = options});
}

struct MergeOptions {
  std::int64_t k = 0;                 // 0: the width of the widest part
  Metric metric = Metric::euclidean;  // only its direction matters
  bool pad = false;                   // fewer than k entries in all parts together: fill up
  Progress progress = nullptr;        // counts rows
  std::stop_token stop = {};
};
/// One result from the results of parts of a corpus (ids already global: KnnOptions::first_id). Entries
/// with id -1 are skipped. Every part has the same rows and distance type; ids are distinct across parts.
/// The certificate stays empty: merging proves nothing that the parts' own certificates did not.
/// Throws InvalidArgument, InvalidValue (a NaN distance), MemoryBudget, Cancelled.
/// Associative and commutative: any tree of merges gives the bits of one search over the whole.
Neighbors merge(std::span<const NeighborsView> parts, const MergeOptions& options = {});

}  // namespace vicinal
