// See search.hpp.
#include "cpu/bits/search.hpp"

#include <bit>
#include <limits>

#include "core/visit_order.hpp"
#include "prepare/matches.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t segment_bytes = std::int64_t{1} << 18;  // of rows that are met one after another
constexpr std::int32_t no_limit = std::numeric_limits<std::int32_t>::max();

/// One block of queries against the tiles of one split.
class BitBlock {
 public:
  BitBlock(const SearchBatch& batch, const BitKernels& kernels, const BitQueries& queries, BitScratch& scratch,
           std::int64_t split, std::int64_t first)
      : batch_(batch), chunk_(batch.chunk), kernels_(kernels), scratch_(scratch),
        words_(words_of(batch.spec.corpus.cols)), queries_(queries.of(first)), first_(first),
        count_(static_cast<int>(std::min(batch.queries.block, batch.queries.count - first))),
        results_(&batch.result(split, first)) {
    for (int q = 0; q < count_; ++q) start(q);
  }

  void search(Range tiles) {
    const std::int64_t length = std::max<std::int64_t>(1, segment_bytes / (tile_rows * words_ * 4));
    const std::int64_t segments = (tiles.end - tiles.begin + length - 1) / length;
    if (segments == 0) return;
    const VisitOrder order(segments);
    for (std::int64_t i = 0; i < segments; ++i) {
      const std::int64_t begin = tiles.begin + order.at(i) * length, end = std::min(begin + length, tiles.end);
      for (std::int64_t tile = begin; tile < end; ++tile) visit(tile);
      const std::int64_t rows = std::min(end * tile_rows, chunk_.count) - begin * tile_rows;
      for (int q = 0; q < count_; ++q) results_[q].ranked += rows;
      batch_.thread_pool.poll(static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(count_));
    }
  }

 private:
  void start(int query) {
    const QueryResult& result = results_[query];
    scratch_.tiles[query] = no_limit;
    scratch_.counts[query] = no_limit;
    if (result.matches == nullptr) return lower(query);
    const double radius = radius_key(*batch_.spec.radius, batch_.spec.type, false);
    scratch_.counts[query] = radius < 0 ? -1 : radius < no_limit ? static_cast<std::int32_t>(radius) : no_limit;
  }

  void visit(std::int64_t tile) {
    const std::int64_t begin = tile * tile_rows, rows = std::min<std::int64_t>(tile_rows, chunk_.count - begin);
    if (!batch_.spec.filter.any(chunk_.first + begin, rows)) return;
    tile_ = static_cast<std::int32_t>(tile);
    for (int q = 0; q < count_; ++q) scratch_.limits[q] = limit_of(q);
    kernels_.tile({.queries = queries_,
                   .rows = panels_of(begin, rows),
                   .limits = scratch_.limits.data(),
                   .words = words_,
                   .query_count = count_,
                   .row_panels = static_cast<int>((rows + panel_rows - 1) / panel_rows),
                   .on_hit = &BitBlock::on_hit,
                   .context = this});
  }
  const std::int32_t* panels_of(std::int64_t begin, std::int64_t rows) {
    if (chunk_.bits.size() > 0) return chunk_.bits.data() + begin * words_;
    for (std::int64_t at = 0; at < rows; at += panel_rows)
      scratch_.packer.pack_panel(chunk_.first + begin + at, std::min<std::int64_t>(panel_rows, rows - at),
                                 scratch_.panels.data() + at * words_);
    return scratch_.panels.data();
  }
  std::int32_t limit_of(int query) const noexcept {
    return scratch_.counts[query] - static_cast<std::int32_t>(tile_ > scratch_.tiles[query]);
  }

  static void on_hit(void* context, int query, int panel, std::uint32_t rows, const std::int32_t* counts) {
    static_cast<BitBlock*>(context)->take(query, panel, rows, counts);
  }
  void take(int query, int panel, std::uint32_t rows, const std::int32_t* counts) {
    const std::int64_t begin = std::int64_t{tile_} * tile_rows + std::int64_t{panel} * panel_rows;
    if (const std::int64_t absent = begin + panel_rows - chunk_.count; absent > 0) rows &= 0xFFFFFFFFU >> absent;
    QueryResult& result = results_[query];
    const SearchSpec& spec = batch_.spec;
    for (; rows != 0; rows &= rows - 1) {
      const int lane = std::countr_zero(rows);
      const std::int64_t row = chunk_.first + begin + lane;
      if (!spec.filter.allows(batch_.row(first_ + query), row)) continue;
      const Entry entry{static_cast<double>(counts[lane]), spec.first_id + row};
      if (result.matches != nullptr) result.matches->take({&entry, 1});
      else result.pool.take(entry);
    }
    if (result.matches != nullptr) return;
    result.pool.tighten();
    lower(query);
    scratch_.limits[query] = limit_of(query);
  }
  /// Takes the query's limit from its k-th so far.
  void lower(int query) noexcept {
    const Pool& pool = results_[query].pool;
    if (pool.k == 0) scratch_.counts[query] = -1;  // none was eligible when rows were counted
    if (pool.k == 0 || pool.worst.key == infinite) return;
    const std::int64_t row = pool.worst.id - batch_.spec.first_id - chunk_.first;
    scratch_.counts[query] = static_cast<std::int32_t>(pool.worst.key);
    scratch_.tiles[query] = row < 0 ? -1 : static_cast<std::int32_t>(row / tile_rows);
  }

  const SearchBatch& batch_;
  const PackedRows& chunk_;
  const BitKernels& kernels_;
  BitScratch& scratch_;
  const std::int64_t words_;
  const std::int32_t* const queries_;
  const std::int64_t first_;
  const int count_;
  QueryResult* const results_;
  std::int32_t tile_ = 0;
};

}  // namespace

void BitQueries::prepare(const Kernels& kernels, const BitKernels& bits, const Points& queries,
                         std::span<const std::int64_t> rows, std::int64_t block, ThreadPool& thread_pool) {
  const auto count = static_cast<std::int64_t>(rows.size());
  width_ = words_of(queries.cols);
  grow(words_, count * width_);
  thread_pool.for_each((count + block - 1) / block, [&](std::int64_t number, int) {
    BitPacker packer(kernels, queries);
    const std::int64_t end = std::min(count, (number + 1) * block);
    for (std::int64_t first = number * block; first < end; first += bits.query_lanes) {
      const std::int64_t used = std::min<std::int64_t>(bits.query_lanes, end - first);
      for (std::int64_t i = 0; i < used; ++i)
        packer.scatter(rows[static_cast<std::size_t>(first + i)], used, words_.data() + first * width_ + i);
    }
    thread_pool.poll(0);
  });
}

BitScratch::BitScratch(const Kernels& kernels, const Points& corpus, std::int64_t block)
    : limits(block), counts(block), tiles(block), packer(kernels, corpus),
      panels(packed_bit_bytes(tile_rows, corpus.cols) / 4) {}

std::int64_t BitScratch::bytes(std::int64_t cols, std::int64_t block) noexcept {
  return 3 * block * 4 + packed_bit_bytes(tile_rows, cols) + 2 * BitPacker::bytes(cols);
}

void search_bits(const SearchBatch& batch, const BitKernels& kernels, const BitQueries& queries,
                 PerThread<BitScratch>& scratch) {
  const std::int64_t blocks = batch.queries.block_count(), tiles = batch.chunk.tile_count();
  batch.thread_pool.for_each(batch.splits * blocks, [&](std::int64_t piece, int thread) {
    const std::int64_t split = piece / blocks;
    BitBlock block(batch, kernels, queries, scratch.of(thread), split, piece % blocks * batch.queries.block);
    block.search(split_range(tiles, split, batch.splits));
  });
}

}  // namespace vicinal::cpu
