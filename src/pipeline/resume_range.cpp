// RESUME of a range search: the matches of each part of the corpus are saved once, in a file of their own, and put in
// order when all are there.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/fpenv.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/walk.hpp"

namespace vicinal {
namespace {

using io::Bytes;

/// The matches of a part of the corpus, as they were saved.
struct RangePart {
  std::vector<std::byte> payload;  // offsets, ids, distances
  std::int64_t queries, entries;
  const std::int64_t* offsets() const noexcept { return reinterpret_cast<const std::int64_t*>(payload.data()); }
  const std::int64_t* ids() const noexcept { return offsets() + queries + 1; }
  const void* distances() const noexcept { return ids() + entries; }
};

std::optional<RangePart> load_matches(const Walk& walk, DistanceType type, std::int64_t corpus_rows, PieceHead& found) {
  auto piece = walk.folder->load(walk.folder->path(walk.head.block, walk.head.first_row), walk.head, corpus_rows);
  if (!piece || piece->head.width < 0) return std::nullopt;
  found = piece->head;
  RangePart matches{std::move(piece->payload), found.queries, found.width};
  const auto entry = 8 + distance_size(type), offsets = static_cast<std::size_t>(found.queries + 1) * 8;
  if (matches.payload.size() < offsets ||
      (matches.payload.size() - offsets) / entry != static_cast<std::size_t>(found.width) ||
      (matches.payload.size() - offsets) % entry != 0 || matches.offsets()[0] != 0 ||
      matches.offsets()[found.queries] != found.width ||
      !std::is_sorted(matches.offsets(), matches.offsets() + found.queries + 1))
    return std::nullopt;
  return matches;
}

void save_matches(Walk& walk, const CsrNeighbors& matches, std::int64_t rows) {
  walk.head.end_row = walk.head.first_row + rows;
  walk.head.width = matches.entries();
  walk.head.redone = matches.certificate.redone;
  const auto entries = static_cast<std::size_t>(matches.entries());
  const Bytes parts[] = {
      {reinterpret_cast<const std::byte*>(matches.offsets()), static_cast<std::size_t>(matches.rows() + 1) * 8},
      {reinterpret_cast<const std::byte*>(matches.ids()), entries * 8},
      {static_cast<const std::byte*>(matches.distances()), entries * distance_size(matches.type())}};
  walk.folder->save(walk.folder->path(walk.head.block, walk.head.first_row), walk.head, parts);
}

/// One query's matches in all parts, which come in the order of their rows: by (key, id).
void join(const std::vector<RangePart>& parts, std::int64_t query, bool descends, CsrNeighbors& out, std::int64_t at,
          std::vector<Entry>& entries) {
  entries.clear();
  for (const RangePart& part : parts)
    for (std::int64_t i = part.offsets()[query]; i < part.offsets()[query + 1]; ++i)
      entries.push_back({load_key(part.distances(), out.type(), descends, i), part.ids()[i]});
  std::sort(entries.begin(), entries.end(), before);
  for (const Entry& entry : entries) {
    out.ids()[at] = entry.id;
    store_key(entry.key, out.type(), descends, out.distances(), at++);
  }
}

}  // namespace

CsrNeighbors range_in_pieces(const Points& corpus, const Points& queries, double radius, const RangeOptions& options,
                             const std::string& directory, const Grid& grid) {
  const double start = now_seconds();
  check_radius(radius);
  const Backend& backend = find_backend(options.search.run.device);
  check_range_search(backend, corpus, queries, options);
  check_host(backend, corpus, "corpus", resumable);
  check_host(backend, queries, "query", resumable);
  const Plan whole = plan_range(shape_of(corpus), shape_of(queries), options);
  const KnnOptions& search = options.search;
  std::int64_t exact_radius = 0;
  std::memcpy(&exact_radius, &radius, sizeof radius);
  const std::int64_t words[] = {2, exact_radius, static_cast<std::int64_t>(whole.distance_type), grid.block};
  Walk walk(cat("range search, radius=", radius), corpus, queries, search, whole, directory, grid, words);
  // A part may find more than the caller's limit, since the error of the whole says how many matches all parts have.
  const std::int64_t most_of_part =
      options.max_results == 0 ? 0 : std::max(options.max_results, most_matches(0, cpu_backend(), whole.distance_type));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(queries.rows), 0);
  std::int64_t total = 0;
  for (std::int64_t number = 0; number < walk.blocks(); ++number) {
    const std::int64_t asked = walk.block(number).rows;
    std::int64_t redone = 0, rows = 0;
    for (walk.head.first_row = 0; walk.head.first_row < corpus.rows; walk.head.first_row += rows) {
      const auto count = [&](const std::int64_t* offsets) {
        for (std::int64_t q = 0; q < asked; ++q)
          counts[static_cast<std::size_t>(walk.first_query() + q)] += offsets[q + 1] - offsets[q];
        total += offsets[asked];
      };
      PieceHead saved;
      if (const auto matches = load_matches(walk, whole.distance_type, corpus.rows, saved)) {
        rows = saved.end_row - saved.first_row;
        redone += saved.redone;
        count(matches->offsets());
        walk.resumed(rows);
      } else {
        CsrNeighbors found;
        rows = walk.part(walk.head.first_row, [&](const Points& part, const Points& block, const KnnOptions& with) {
          found = range_search(part, block, radius, {.search = with, .max_results = most_of_part});
        });
        walk.note(found.stats, found.certificate);
        redone += found.certificate.redone;
        count(found.offsets());
        save_matches(walk, found, rows);
      }
    }
    walk.redone(std::min(redone, asked));
  }
  // The parts are joined in the host's memory.
  const std::int64_t most = most_matches(options.max_results, cpu_backend(), whole.distance_type);
  if (total > most) refuse_entries(total, options.max_results, most);
  CsrNeighbors result(queries.rows, total, whole.distance_type);
  for (std::int64_t q = 0; q < queries.rows; ++q)
    result.offsets()[q + 1] = result.offsets()[q] + counts[static_cast<std::size_t>(q)];
  std::vector<Entry> entries;
  const FpGuard guard;  // join converts distances
  for (std::int64_t number = 0; number < walk.blocks(); ++number) {
    const std::int64_t asked = walk.block(number).rows;
    std::vector<RangePart> parts;
    PieceHead saved;
    for (walk.head.first_row = 0; walk.head.first_row < corpus.rows; walk.head.first_row = saved.end_row) {
      auto matches = load_matches(walk, whole.distance_type, corpus.rows, saved);
      if (!matches)
        fail(ErrorCode::io_error,
             cat(walk.folder->path(number, walk.head.first_row), " changed while the search ran; search again"));
      parts.push_back(std::move(*matches));
    }
    for (std::int64_t q = 0; q < asked; ++q)
      join(parts, q, descending(search.metric), result, result.offsets()[walk.first_query() + q], entries);
  }
  walk.close(result.certificate, result.stats, start);
  return result;
}

CsrNeighbors range_search_resumable(const Points& corpus, const Points& queries, double radius,
                                    const RangeOptions& options, const std::string& directory) {
  return range_in_pieces(corpus, queries, radius, options, directory, Grid::of(shape_of(corpus), shape_of(queries), 1));
}

}  // namespace vicinal
