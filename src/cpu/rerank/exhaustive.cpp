// See exhaustive.hpp.
#include "cpu/rerank/exhaustive.hpp"

#include <algorithm>
#include <cstring>

#include "core/divide.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t queries_a_block = 8;  // that share a block of rows

/// Writes to `index` those of the dense rows [first, first + count)
/// that differ in a byte from the row before them. Returns how many.
std::int64_t differing_rows(const Points& rows, std::int64_t first, std::int64_t count, std::uint32_t* index) noexcept {
  const auto* data = static_cast<const std::byte*>(rows.data) + first * rows.row_stride;
  const std::size_t bytes = static_cast<std::size_t>(rows.cols) * dtype_size(rows.dtype);
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i, data += rows.row_stride)
    if (i == 0 || std::memcmp(data, data - rows.row_stride, bytes) != 0)
      index[found++] = static_cast<std::uint32_t>(first + i);
  return found;
}

/// Ranks the rows of one split for the queries [begin, end).
void rank_split(const SearchBatch& batch, std::int64_t split, std::int64_t begin, std::int64_t end, int thread) {
  const SearchSpec& spec = batch.spec;
  const PackedRows& chunk = batch.chunk;
  const Range range = split_range(chunk.count, split, batch.splits);
  Ranker ranker = batch.ranker(thread);
  std::uint32_t index[rank_block];
  Entry shared[rank_block];
  const bool all = spec.filter.all(), dense = all && spec.corpus.plain_rows();
  const Points rows = spec.corpus.slice(chunk.first, chunk.count);
  for (std::int64_t row = range.begin; row < range.end; row += rank_block) {
    const std::int64_t used = std::min(rank_block, range.end - row);
    // Equal rows that follow one another have one distance, which is measured once.
    const std::int64_t differing = dense ? differing_rows(rows, row, used, index) : used;
    for (std::int64_t query = begin; query < end; ++query) {
      const std::int64_t query_row = batch.row(query);
      std::int64_t allowed = used;
      if (!all) {
        allowed = 0;
        for (std::int64_t i = 0; i < used; ++i)
          if (spec.filter.allows(query_row, chunk.first + row + i))
            index[allowed++] = static_cast<std::uint32_t>(row + i);
      }
      batch.thread_pool.poll(static_cast<std::uint64_t>(used));
      if (allowed == 0) continue;
      ranker.start(query_row, batch.facts(query));
      std::span<const Entry> ranked =
          ranker.rank(chunk, all && differing == used ? nullptr : index, row, std::min(allowed, differing));
      if (differing < used) {
        for (std::int64_t i = 0, at = -1; i < used; ++i) {
          if (at + 1 < differing && std::int64_t{index[at + 1]} == row + i) ++at;
          shared[i] = {ranked[static_cast<std::size_t>(at)].key, spec.first_id + chunk.first + row + i};
        }
        ranked = {shared, static_cast<std::size_t>(used)};
      }
      batch.result(split, query).take(ranked);
      batch.result(split, query).ranked += allowed;
    }
  }
}

}  // namespace

void rank_exhaustively(const SearchBatch& batch) {
  const std::int64_t count = batch.queries.count, pieces = divide_up(count, queries_a_block);
  batch.thread_pool.for_each(batch.splits * pieces, [&](std::int64_t piece, int thread) {
    const std::int64_t begin = piece % pieces * queries_a_block;
    rank_split(batch, piece / pieces, begin, std::min(count, begin + queries_a_block), thread);
  });
}

}  // namespace vicinal::cpu
