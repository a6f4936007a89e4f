// The canonical precision on the host: every pair is ranked, blocks of rows for a few queries at a time.
#include <algorithm>
#include <cstring>

#include "cpu/session.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t scan_group = 8;  // queries that share a block of rows

/// Of dense rows [first, first + count) those that differ in a byte from the one before come into `index`. Returns how many.
std::int64_t differing_rows(const Points& rows, std::int64_t first, std::int64_t count, std::uint32_t* index) noexcept {
  const auto* data = static_cast<const std::byte*>(rows.data) + first * rows.row_stride;
  const std::size_t bytes = static_cast<std::size_t>(rows.cols) * dtype_size(rows.dtype);
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i, data += rows.row_stride)
    if (i == 0 || std::memcmp(data, data - rows.row_stride, bytes) != 0)
      index[found++] = static_cast<std::uint32_t>(first + i);
  return found;
}

}  // namespace

void CpuSession::scan_canonical() {
  const std::int64_t groups = (queries_.count + scan_group - 1) / scan_group, count = chunk().count;
  thread_pool_.for_each(plan_.row_splits * groups, [&](std::int64_t piece, int number) {
    Worker& own = worker(number);
    const std::int64_t split = piece / groups, begin = piece % groups * scan_group;
    const std::int64_t end = std::min(queries_.count, begin + scan_group);
    const Range range = split_range(count, split, plan_.row_splits);
    Ranker ranker(kernels_, spec_, query_points_, own.rank);
    std::uint32_t index[rank_block];
    Entry shared[rank_block];
    const bool all = spec_.filter.all(), dense = all && spec_.corpus.plain_rows();
    const Points rows = spec_.corpus.slice(chunk().first, count);
    for (std::int64_t row = range.begin; row < range.end; row += rank_block) {
      const std::int64_t used = std::min(rank_block, range.end - row);
      // Equal rows that follow one another have one distance, which is measured once.
      const std::int64_t differing = dense ? differing_rows(rows, row, used, index) : used;
      for (std::int64_t q = begin; q < end; ++q) {
        const std::int64_t query = rows_[static_cast<std::size_t>(q)];
        std::int64_t allowed = used;
        if (!all) {
          allowed = 0;
          for (std::int64_t i = 0; i < used; ++i)
            if (spec_.filter.allows(query, chunk().first + row + i))
              index[allowed++] = static_cast<std::uint32_t>(row + i);
        }
        thread_pool_.poll(static_cast<std::uint64_t>(used));
        if (allowed == 0) continue;
        ranker.start(query, queries_.facts[static_cast<std::size_t>(q)]);
        std::span<const Entry> ranked =
            ranker.rank(chunk(), all && differing == used ? nullptr : index, row, std::min(allowed, differing));
        if (differing < used) {
          for (std::int64_t i = 0, at = -1; i < used; ++i) {
            if (at + 1 < differing && std::int64_t{index[at + 1]} == row + i) ++at;
            shared[i] = {ranked[static_cast<std::size_t>(at)].key, spec_.first_id + chunk().first + row + i};
          }
          ranked = {shared, static_cast<std::size_t>(used)};
        }
        state(split, q).take(ranked);
        state(split, q).settled += allowed;
      }
    }
  });
}

}  // namespace vicinal::cpu
