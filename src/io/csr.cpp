// Rows of differing lengths: graphs out as sparse matrices (what scipy.sparse.load_npz and MatrixMarket readers
// expect), range results out and in. Entries keep their order and explicit zeros stay: a zero distance is a neighbour.
#include <algorithm>
#include <functional>
#include <new>

#include "core/fpenv.hpp"
#include "io/load.hpp"
#include "io/message.hpp"
#include "io/save.hpp"
#include "vicinal/io.hpp"

namespace vicinal {
namespace {

using namespace io;

constexpr std::int64_t no_rows[] = {0};  // the offsets of a result of no rows

const std::int64_t* offsets_of(const CsrNeighbors& csr) { return csr.offsets() != nullptr ? csr.offsets() : no_rows; }

/// The lists without their missing entries. Nothing is copied when there are none.
CsrNeighbors compact(const Neighbors& graph) {
  const std::int64_t rows = graph.rows(), k = graph.k(), *ids = graph.ids();
  const std::int64_t entries = std::count_if(ids, ids + rows * k, [](std::int64_t id) { return id >= 0; });
  const bool whole = entries == rows * k;
  CsrNeighbors csr(rows, whole ? 0 : entries, graph.type());
  std::int64_t* const offsets = csr.offsets();
  if (whole) {
    for (std::int64_t row = 0; row < rows; ++row) offsets[row + 1] = (row + 1) * k;
    // Not const because a CsrNeighbors lends out its own arrays; from here on they are only read.
    auto* const same_ids = const_cast<std::int64_t*>(ids);
    auto* const same = const_cast<std::byte*>(static_cast<const std::byte*>(graph.distances()));
    return {rows, graph.type(), std::shared_ptr<std::int64_t[]>(csr.shared_offsets(), offsets),
            std::shared_ptr<std::int64_t[]>(graph.shared_ids(), same_ids),
            std::shared_ptr<std::byte[]>(graph.shared_distances(), same)};
  }
  const std::size_t size = distance_size(graph.type());
  const auto* from = static_cast<const std::byte*>(graph.distances());
  auto* to = static_cast<std::byte*>(csr.distances());
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < rows * k; ++i) {
    if (ids[i] >= 0) {
      csr.ids()[at] = ids[i];
      std::copy_n(from + static_cast<std::size_t>(i) * size, size, to + static_cast<std::size_t>(at++) * size);
    }
    if ((i + 1) % k == 0) offsets[i / k + 1] = at;
  }
  return csr;
}

void check_columns(const std::string& path, const CsrNeighbors& graph) {
  for (std::int64_t row = 0; row < graph.rows(); ++row) {
    for (std::int64_t rank = 0; rank < graph.count(row); ++rank) {
      const std::int64_t id = graph.id(row, rank);
      if (id >= 0 && id < graph.rows()) continue;
      fail(ErrorCode::invalid_argument, path, "row ", row, ", rank ", rank, ": id ", id, " is no row of a graph of ",
           graph.rows(), " rows; .npy and .ivecs hold lists of any ids");
    }
  }
}

Array line(const void* data, Item item, std::int64_t count) { return Array::line(data, item, count); }

}  // namespace

void write_graph(const std::string& path, const CsrNeighbors& graph) {
  check_writable(path, "", ResultKind::sparse_graph);
  check_columns(path, graph);
  const Format& format = format_for(path, ResultKind::sparse_graph);
  const std::int64_t shape[] = {graph.rows(), graph.rows()}, entries = graph.entries();
  // scipy wants one type for both index arrays.
  const Item index = entries <= INT32_MAX && graph.rows() <= INT32_MAX ? Item::i32 : Item::i64;
  const Array ids = line(graph.ids(), Item::i64, entries);
  const Array offsets = line(offsets_of(graph), Item::i64, graph.rows() + 1);
  save({{&format,
         path,
         as_graph,
         {{"indices", ids, index},
          {"indptr", offsets, index},
          {"format", {}, {}, "csr"},
          {"shape", line(shape, Item::i64, 2)},
          {"data", line(graph.distances(), item_of(graph.type()), entries)}}}});
}

void write_graph(const std::string& path, const Neighbors& graph, const std::string& distances_path) {
  check_writable(path, distances_path, ResultKind::graph);
  const bool sparse = (format_for(path, ResultKind::graph).write_roles & as_graph) != 0;
  if (sparse) write_graph(path, compact(graph));
  else write_neighbors(path, graph, distances_path);
}

void write_range(const std::string& path, const CsrNeighbors& result) {
  check_writable(path, "", ResultKind::range);
  const Format& format = format_for(path, ResultKind::range);
  const Array ids = line(result.ids(), Item::i64, result.entries());
  const Array offsets = line(offsets_of(result), Item::i64, result.rows() + 1);
  const Array distances = line(result.distances(), item_of(result.type()), result.entries());
  if (static_cast<std::uint64_t>(result.rows()) > format.largest_rows ||
      static_cast<std::uint64_t>(result.entries()) > format.largest_cols) {
    fail(ErrorCode::range_error, path, format.name, " cannot hold ", result.entries(), " entries in ", result.rows(),
         " rows; .npz can");
  }
  if (format.item) {
    for (std::int64_t row = 0; row < result.rows(); ++row) {
      for (std::int64_t rank = 0; rank < result.count(row); ++rank) {
        if (result.id(row, rank) <= INT32_MAX) continue;
        fail(ErrorCode::range_error, path, "row ", row, ", rank ", rank, ": id ", result.id(row, rank),
             " does not fit the 32 bits of ", format.name, " (at most 2147483647); .npz and .csv can hold it");
      }
    }
  }
  if (format.distance_item && format.distance_item != distances.item) {
    fail(ErrorCode::range_error, path, format.name, " holds ", item_name(*format.distance_item), ", the distances are ",
         item_name(distances.item), "; .npz and .csv hold any distances");
  }
  save({{&format, path, as_range, {{"offsets", offsets}, {"ids", ids}, {"distances", distances}}}});
}

CsrNeighbors read_range(const std::string& path) try {
  const FpGuard guard;
  Source source;
  const Array lines = read_array(path, {as_range, "offsets"}, source),
              ids = read_array(path, {as_range, "ids"}, source);
  const Array distances = read_array(path, {as_range, "distances"}, source);
  const std::vector<std::int64_t> offsets = ids_of(path, lines), values = ids_of(path, ids);
  const DistanceType type = distance_type_of(path, distances.item);
  const auto entries = static_cast<std::int64_t>(values.size());
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != entries || distances.cols != entries) {
    fail(ErrorCode::format_error, path, "offsets of ", offsets.size(), " numbers up to ",
         offsets.empty() ? 0 : offsets.back(), " do not suit ", entries, " ids and ", distances.cols, " distances");
  }
  const auto down = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
  if (down != offsets.end()) {
    fail(ErrorCode::format_error, path, "offset ", down - offsets.begin() + 1, " is ", *(down + 1),
         ", less than the one before it, ", *down);
  }
  const auto negative = std::find_if(values.begin(), values.end(), [](std::int64_t id) { return id < 0; });
  if (negative != values.end()) {
    fail(ErrorCode::format_error, path, "entry ", negative - values.begin(), " has id ", *negative);
  }
  CsrNeighbors result(static_cast<std::int64_t>(offsets.size()) - 1, entries, type);
  std::copy(offsets.begin(), offsets.end(), result.offsets());
  std::copy(values.begin(), values.end(), result.ids());
  if (entries > 0) copy_items(distances, 0, 0, entries, static_cast<std::byte*>(result.distances()));
  return result;
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory for the range result of ", printable(path)));
}

}  // namespace vicinal
