// RESUME: a k-NN search as a grid of pieces, blocks of queries by parts of the corpus. A block's running k-list is merged
// with each part's and saved whole, so a kill costs one piece. The grid depends on the shapes alone, never on threads or
// memory, so that another machine can go on.
#include "pipeline/resume.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "backend/backend.hpp"
#include "core/key.hpp"
#include "core/text.hpp"
#include "io/atomic_file.hpp"
#include "io/hash128.hpp"
#include "pipeline/check.hpp"
#include "pipeline/plan.hpp"
#include "vicinal/device.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

namespace fs = std::filesystem;
using io::Bytes;
using io::Digest128;
using io::Hash128;

constexpr std::int64_t most_queries = 16384;                    // queries
constexpr std::int64_t piece_products = std::int64_t{1} << 37;   // some seconds of one core
constexpr std::int64_t least_part = 65536, part_multiple = 256;  // rows; words of bitmaps are not cut

template <class T>
Bytes raw(const T* at, std::size_t count = 1) noexcept {
  return {reinterpret_cast<const std::byte*>(at), count * sizeof(T)};
}

/// The values of all rows, whatever their strides: digests of groups of rows, made in parallel, hashed in order.
void hash_rows(Hash128& hash, const Points& points, Team& team) {
  constexpr std::int64_t group = 4096;
  const auto size = static_cast<std::int64_t>(dtype_size(points.dtype));
  const std::array<std::int64_t, 4> shape{points.rows, points.cols, static_cast<std::int64_t>(points.dtype), points.byte_swapped ? 1 : 0};
  hash.update(raw(shape.data(), shape.size()));
  std::vector<Digest128> digests(static_cast<std::size_t>((points.rows + group - 1) / group));
  team.for_each(static_cast<std::int64_t>(digests.size()), [&](std::int64_t piece, int) {
    Hash128 own;
    std::vector<std::byte> row(points.col_stride == size ? 0 : static_cast<std::size_t>(points.cols * size));
    for (std::int64_t r = piece * group; r < std::min(points.rows, (piece + 1) * group); ++r) {
      const auto* from = static_cast<const std::byte*>(points.data) + r * points.row_stride;
      if (row.empty()) {
        own.update({from, static_cast<std::size_t>(points.cols * size)});
      } else {
        for (std::int64_t c = 0; c < points.cols; ++c) std::memcpy(row.data() + c * size, from + c * points.col_stride, static_cast<std::size_t>(size));
        own.update(row);
      }
    }
    digests[static_cast<std::size_t>(piece)] = own.digest();
    team.tick(0);
  });
  hash.update(raw(digests.data(), digests.size()));
}

/// Everything that the answer depends on, and the grid.
Digest128 key_of(const Points& corpus, const Points& queries, const KnnOptions& options, DistanceType type, const Grid& grid, Team& team) {
  Hash128 hash;
  const std::array<std::int64_t, 11> facts{info().semantics_version, options.k, static_cast<std::int64_t>(options.metric),
                                           static_cast<std::int64_t>(type), options.pad ? 1 : 0, options.first_id,
                                           static_cast<std::int64_t>(options.degenerate), static_cast<std::int64_t>(options.eligible.labels),
                                           grid.block, grid.part, (options.eligible.ids ? 1 : 0) + (options.eligible.bitmap ? 2 : 0)};
  hash.update(raw(facts.data(), facts.size()));
  hash_rows(hash, corpus, team);
  hash_rows(hash, queries, team);
  const Eligible& eligible = options.eligible;
  hash.update(raw(&eligible.first));
  hash.update(raw(&eligible.last));
  if (eligible.ids) hash.update(raw(eligible.ids->data(), eligible.ids->size()));
  if (eligible.bitmap) hash.update(raw(eligible.bitmap->data(), eligible.bitmap->size()));
  hash.update(raw(eligible.corpus_labels.data(), eligible.corpus_labels.size()));
  hash.update(raw(eligible.query_labels.data(), eligible.query_labels.size()));
  return hash.digest();
}

/// The head of a block's file; ids, distances and the digest of all that follow.
struct Head {
  char magic[8] = {'V', 'C', 'N', 'P', 'I', 'E', 'C', '1'};
  Digest128 key;
  std::int64_t block = 0, rows_done = 0, rows = 0, k = 0, type = 0, redone = 0;
};

constexpr const char* piece_suffix = ".vicinal-piece";

std::string piece_path(const std::string& directory, std::int64_t block) {
  std::string digits = std::to_string(block);
  digits.insert(0, std::max<std::size_t>(6, digits.size()) - digits.size(), '0');
  return (fs::path(directory) / ("block-" + digits + piece_suffix)).string();
}

struct Piece {
  Neighbors list;
  std::int64_t rows_done = 0, redone = 0;
};

void save_piece(const std::string& path, Head head, const Piece& piece) {
  head.rows_done = piece.rows_done;
  head.redone = piece.redone;
  const auto entries = static_cast<std::size_t>(head.rows * head.k);
  const Bytes parts[] = {raw(&head), raw(piece.list.ids(), entries),
                         {static_cast<const std::byte*>(piece.list.distances()), entries * distance_size(piece.list.type())}};
  io::AtomicFile file(path);
  Hash128 hash;
  for (const Bytes part : parts) {
    file.append(part);
    hash.update(part);
  }
  const Digest128 digest = hash.digest();
  file.append(raw(&digest));
  io::AtomicFile* const one = &file;
  io::AtomicFile::publish({&one, 1});
}

/// Nothing if there is no such file, or a damaged one. Throws InvalidArgument for a piece of another search.
std::optional<Piece> load_piece(const std::string& path, const Head& expected, std::int64_t corpus_rows, DistanceType type) {
  std::ifstream file(path, std::ios::binary);
  Head head;
  if (!file.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.magic, expected.magic, sizeof head.magic) != 0) return std::nullopt;
  if (head.key != expected.key)
    fail(ErrorCode::invalid_argument, cat(path, " belongs to another search: other rows or other options; name another directory, or remove this one"));
  if (head.block != expected.block || head.rows != expected.rows || head.k != expected.k || head.type != expected.type || head.rows_done < 1 ||
      head.rows_done > corpus_rows)
    return std::nullopt;
  Piece piece{Neighbors(head.rows, head.k, type, false), head.rows_done, head.redone};
  const auto entries = static_cast<std::size_t>(head.rows * head.k);
  const NeighborsView view = piece.list.view();
  Digest128 found;
  const auto read = [&](void* to, std::size_t bytes) { return static_cast<bool>(file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))); };
  if (!read(view.ids, entries * 8) || !read(view.distances, entries * distance_size(type)) || !read(&found, sizeof found) || file.peek() != EOF)
    return std::nullopt;
  Hash128 hash;
  hash.update(raw(&head));
  hash.update(raw(view.ids, entries));
  hash.update({static_cast<const std::byte*>(view.distances), entries * distance_size(type)});
  if (hash.digest() != found) return std::nullopt;
  return piece;
}

/// The options of one piece: what is given a row or a query is cut as they are.
KnnOptions piece_options(const KnnOptions& options, std::int64_t first_row, std::int64_t rows, std::int64_t first_query, std::int64_t queries) {
  KnnOptions part = options;
  part.pad = true;
  part.first_id = options.first_id + first_row;
  Eligible& eligible = part.eligible;
  if (eligible.bitmap) eligible.bitmap = eligible.bitmap->subspan(static_cast<std::size_t>(first_row / 64));
  if (eligible.labels == Eligible::Labels::ignored) return part;
  eligible.corpus_labels = eligible.corpus_labels.subspan(static_cast<std::size_t>(first_row), static_cast<std::size_t>(rows));
  eligible.query_labels = eligible.query_labels.subspan(static_cast<std::size_t>(first_query), static_cast<std::size_t>(queries));
  return part;
}

/// Says of a bad row what a search of the whole says: a piece numbers rows from its own first.
[[noreturn]] void blame_row(const Points& corpus, const Points& queries, KnnOptions options, const Error& error) {
  options.k = 1;
  options.pad = true;
  options.eligible = {};
  options.progress = nullptr;
  knn(corpus.slice(0, std::min<std::int64_t>(corpus.rows, 1)), queries, options);
  knn(corpus, queries.slice(0, std::min<std::int64_t>(queries.rows, 1)), options);
  throw error;
}

void make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directory(directory, error);
  if (!fs::is_directory(directory))
    throw Error(ErrorCode::io_error, cat("cannot make the directory ", directory, ": ", error ? error.message() : "a file of that name is there"),
                error ? error.value() : ENOTDIR);
}

void add(Stats& to, const Stats& from) {
  to.prepare_seconds += from.prepare_seconds;
  to.candidates += from.candidates;
  to.reranked += from.reranked;
  to.underflowed += from.underflowed;
  to.passes += from.passes;
  to.rotated |= from.rotated;
  to.used_bytes = std::max(to.used_bytes, from.used_bytes);
}

}  // namespace

Grid Grid::of(const Shape& corpus, const Shape& queries) {
  const std::int64_t block = std::clamp<std::int64_t>(queries.rows, 1, most_queries);
  return {block, std::max(least_part, piece_products / block / std::max<std::int64_t>(corpus.cols, 1) / part_multiple * part_multiple)};
}

Neighbors knn_resumable(const Points& corpus, const Points& queries, const KnnOptions& options, const std::string& directory) {
  return knn_in_pieces(corpus, queries, options, directory, Grid::of(shape_of(corpus), shape_of(queries)));
}

Neighbors knn_in_pieces(const Points& corpus, const Points& queries, const KnnOptions& options, const std::string& directory,
                        const Grid& grid) {
  const auto start = std::chrono::steady_clock::now();
  const Backend& backend = find_backend(options.run.device);
  check_search(backend, corpus, queries, options);
  for (const auto& [side, points] : {std::pair("corpus", &corpus), std::pair("query", &queries)}) check_host(backend, *points, side, "a resumable search");
  const Plan whole = plan(shape_of(corpus), shape_of(queries), options);
  const RowFilter filter(options.eligible, corpus.rows, options.first_id, false);
  check_k(filter, corpus.rows, queries.rows, options.k, options.pad);
  make_directory(directory);
  Neighbors result(queries.rows, options.k, whole.distance_type, options.pad);
  const NeighborsView out = result.view();
  const auto total = static_cast<std::uint64_t>(corpus.rows) * static_cast<std::uint64_t>(queries.rows);
  Head head;
  {
    Team team(whole.threads, nullptr, options.stop, 1);
    head.key = key_of(corpus, queries, options, whole.distance_type, grid, team);
  }
  head.k = options.k;
  head.type = static_cast<std::int64_t>(whole.distance_type);
  std::uint64_t done = 0;
  std::int64_t resumed = 0;
  for (std::int64_t first = 0; first < queries.rows; first += grid.block) {
    const Points block = queries.slice(first, std::min(grid.block, queries.rows - first));
    head.block = first / grid.block;
    head.rows = block.rows;
    const std::string path = piece_path(directory, head.block);
    Piece piece;
    if (auto saved = load_piece(path, head, corpus.rows, whole.distance_type)) {
      piece = std::move(*saved);
      resumed += piece.rows_done * block.rows;
      done += static_cast<std::uint64_t>(piece.rows_done * block.rows);
    }
    while (piece.rows_done < corpus.rows) {
      const std::int64_t rows = std::min(grid.part, corpus.rows - piece.rows_done);
      KnnOptions part = piece_options(options, piece.rows_done, rows, first, block.rows);
      if (options.progress) part.progress = [&](std::uint64_t now, std::uint64_t) { return options.progress(done + now, total); };
      Neighbors found;
      try {
        found = knn(corpus.slice(piece.rows_done, rows), block, part);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::invalid_value || error.code() == ErrorCode::range_error) blame_row(corpus, queries, options, error);
        throw;
      }
      add(result.stats, found.stats);
      piece.redone = std::min(piece.redone + found.certificate.redone, block.rows);
      for (const std::string& rung : found.certificate.rungs)
        if (std::find(result.certificate.rungs.begin(), result.certificate.rungs.end(), rung) == result.certificate.rungs.end())
          result.certificate.rungs.push_back(rung);
      result.certificate.largest_bound = std::max(result.certificate.largest_bound, found.certificate.largest_bound);
      if (piece.rows_done == 0) {
        piece.list = std::move(found);
      } else {
        const NeighborsView both[] = {piece.list.view(), found.view()};
        piece.list = merge(both, {.k = options.k, .metric = options.metric, .pad = true});
      }
      piece.rows_done += rows;
      done += static_cast<std::uint64_t>(rows * block.rows);
      save_piece(path, head, piece);
    }
    if (corpus.rows == 0) piece.list = knn(corpus, block, options);
    const auto entries = static_cast<std::size_t>(block.rows * options.k), at = static_cast<std::size_t>(first * options.k);
    const std::size_t size = distance_size(whole.distance_type);
    std::memcpy(out.ids + at, piece.list.ids(), entries * 8);
    std::memcpy(static_cast<std::byte*>(out.distances) + at * size, piece.list.distances(), entries * size);
    for (std::int64_t q = 0; options.pad && q < block.rows; ++q) out.counts[first + q] = std::min(options.k, filter.all() ? corpus.rows : filter.count(first + q));
    result.certificate.redone += piece.redone;
  }
  result.certificate.queries = queries.rows;
  result.certificate.proven = queries.rows - result.certificate.redone;
  Stats& stats = result.stats;
  stats.device = whole.device;
  stats.instruction_set = whole.instruction_set;
  stats.threads = whole.threads;
  stats.pairs = static_cast<std::int64_t>(total);
  stats.planned_bytes = whole.peak_bytes;
  stats.planned_seconds = whole.seconds;
  stats.notes = whole.notes;
  if (resumed > 0) stats.notes.push_back(cat(resumed, " of ", total, " pairs were done before, in ", directory));
  stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void discard_pieces(const std::string& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (entry.path().string().ends_with(piece_suffix)) fs::remove(entry.path(), ignored);
  ::rmdir(directory.c_str());  // stays if anything else is in it
}

}  // namespace vicinal
