// See search.hpp.
#include "cpu/bits/search.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <vector>

#include "core/divide.hpp"
#include "core/visit_order.hpp"
#include "prepare/load.hpp"
#include "prepare/matches.hpp"

namespace vicinal::cpu {
namespace {

// Bytes of rows that are met one after another: one query waits for
// memory, which is faster in long runs; more are polled for as often.
constexpr std::int64_t segment_bytes = std::int64_t{1} << 18, lone_segment_bytes = std::int64_t{1} << 20;
constexpr std::int32_t no_threshold = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t no_row = std::numeric_limits<std::int64_t>::max();

/// SharedThresholds hold the least threshold of each query that any split has found: what is beyond the k-th of some
/// rows is beyond the k-th of all.
class SharedThresholds {
 public:
  SharedThresholds(std::int64_t queries, std::int64_t splits)
      : least_(splits > 1 ? static_cast<std::size_t>(queries) : 0) {
    for (auto& threshold : least_) threshold.store(no_threshold, std::memory_order_relaxed);
  }
  std::int32_t of(std::int64_t query) const noexcept {
    return least_.empty() ? no_threshold : least_[static_cast<std::size_t>(query)].load(std::memory_order_relaxed);
  }
  void lower(std::int64_t query, std::int32_t threshold) noexcept {
    if (least_.empty()) return;
    std::atomic<std::int32_t>& least = least_[static_cast<std::size_t>(query)];
    std::int32_t now = least.load(std::memory_order_relaxed);
    while (threshold < now && !least.compare_exchange_weak(now, threshold, std::memory_order_relaxed)) {}
  }

 private:
  std::vector<std::atomic<std::int32_t>> least_;
};

/// One block of queries against the tiles of one split.
class BitBlock {
 public:
  BitBlock(const SearchBatch& batch, const BitKernels& kernels, const BitQueries& queries, BitScratch& scratch,
           SharedThresholds& shared, std::int64_t split, std::int64_t first)
      : batch_(batch), chunk_(batch.chunk), kernels_(kernels), scratch_(scratch), shared_(shared),
        words_(words_of(batch.spec.corpus.cols)), queries_(queries.of(first)), first_(first),
        count_(static_cast<int>(std::min(batch.queries.block, batch.queries.count - first))),
        in_place_(count_ == 1 && chunk_.bits.size() == 0 && batch.spec.corpus.plain_rows()),
        results_(&batch.result(split, first)) {
    for (int q = 0; q < count_; ++q) start(q);
  }

  void search(Range tiles) {
    const std::int64_t bytes = count_ == 1 ? lone_segment_bytes : segment_bytes;
    const std::int64_t length = std::max<std::int64_t>(1, bytes / (tile_rows * words_ * 4));
    const std::int64_t segments = divide_up(tiles.end - tiles.begin, length);
    if (segments == 0) return;
    const VisitOrder order(segments);
    for (std::int64_t i = 0; i < segments; ++i) {
      const std::int64_t begin = tiles.begin + order.at(i) * length, end = std::min(begin + length, tiles.end);
      const bool joined = chunk_.bits.size() > 0 && batch_.spec.filter.all();  // tiles, in one call of the kernel
      const std::int64_t step = joined ? end - begin : 1;
      for (std::int64_t tile = begin; tile < end; tile += step) visit(tile, step);
      const std::int64_t rows = std::min(end * tile_rows, chunk_.count) - begin * tile_rows;
      for (int q = 0; q < count_; ++q) results_[q].ranked += rows;
      batch_.thread_pool.poll(static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(count_));
    }
  }

 private:
  void start(int query) {
    const QueryResult& result = results_[query];
    scratch_.worst[query] = no_row;
    scratch_.counts[query] = no_threshold;
    if (result.matches == nullptr) {
      if (Histogram* const histogram = histogram_of(query)) histogram->start(result.pool);
      return lower(query);
    }
    const double radius = radius_key(*batch_.spec.radius, batch_.spec.type, false);
    scratch_.counts[query] = radius < 0 ? -1 : radius < no_threshold ? static_cast<std::int32_t>(radius) : no_threshold;
  }
  /// Null where pools are kept in order, and say at any time how far the k-th is.
  Histogram* histogram_of(int query) noexcept {
    return scratch_.histograms.empty() ? nullptr : &scratch_.histograms[static_cast<std::size_t>(query)];
  }

  /// It counts that many tiles, from `tile` on.
  void visit(std::int64_t tile, std::int64_t tiles) {
    begin_ = tile * tile_rows;
    const std::int64_t rows = std::min<std::int64_t>(tiles * tile_rows, chunk_.count - begin_);
    if (!batch_.spec.filter.any(chunk_.first + begin_, rows)) return;
    for (int q = 0; q < count_; ++q) scratch_.thresholds[q] = threshold_of(q, begin_);
    if (in_place_) return count_in_place(rows);
    kernels_.tile({.queries = queries_,
                   .rows = panels_of(begin_, rows),
                   .thresholds = scratch_.thresholds.data(),
                   .words = words_,
                   .query_count = count_,
                   .row_panels = static_cast<int>(divide_up(rows, panel_rows)),
                   .on_hit = &BitBlock::on_hit,
                   .context = this});
  }
  /// A tile of rows that one query alone will ever see: to pack them takes longer than to count.
  void count_in_place(std::int64_t rows) {
    const Points& corpus = batch_.spec.corpus;
    std::int32_t* const counts = scratch_.panels.data();
    batch_.kernels.hamming({.query = reinterpret_cast<const std::uint8_t*>(queries_),
                            .rows = static_cast<const std::uint8_t*>(row_address(corpus, chunk_.first + begin_)),
                            .row_stride = corpus.row_stride,
                            .index = nullptr,
                            .count = rows,
                            .dims = corpus.cols,
                            .out = reinterpret_cast<std::uint32_t*>(counts)});
    std::fill(counts + rows, counts + rounded_up(rows, panel_rows), no_threshold);
    for (int panel = 0; panel * panel_rows < rows; ++panel) {
      const std::int32_t* const some = counts + panel * panel_rows;
      const std::int32_t threshold = scratch_.thresholds[0];
      std::int32_t any = 0;
      for (int lane = 0; lane < panel_rows; ++lane) any |= -static_cast<std::int32_t>(some[lane] <= threshold);
      if (any == 0) continue;
      std::uint32_t hits = 0;
      for (int lane = 0; lane < panel_rows; ++lane) hits |= static_cast<std::uint32_t>(some[lane] <= threshold) << lane;
      take(0, panel, hits, some);
    }
  }
  const std::int32_t* panels_of(std::int64_t begin, std::int64_t rows) {
    if (chunk_.bits.size() > 0) return chunk_.bits.data() + begin * words_;
    for (std::int64_t at = 0; at < rows; at += panel_rows)
      scratch_.packer.pack_panel(chunk_.first + begin + at, std::min<std::int64_t>(panel_rows, rows - at),
                                 scratch_.panels.data() + at * words_);
    return scratch_.panels.data();
  }
  /// It returns the largest count that a row from `row` of the chunk on may
  /// have: one that is as far as the k-th, and behind it, has a larger id.
  std::int32_t threshold_of(int query, std::int64_t row) const noexcept {
    const std::int32_t own = scratch_.counts[query] - static_cast<std::int32_t>(row > scratch_.worst[query]);
    return results_[query].matches != nullptr ? own : std::min(own, shared_.of(first_ + query));
  }

  static void on_hit(void* context, int query, int panel, std::uint32_t rows, const std::int32_t* counts) {
    static_cast<BitBlock*>(context)->take(query, panel, rows, counts);
  }
  void take(int query, int panel, std::uint32_t rows, const std::int32_t* counts) {
    const std::int64_t begin = begin_ + std::int64_t{panel} * panel_rows;
    if (const std::int64_t absent = begin + panel_rows - chunk_.count; absent > 0) rows &= 0xFFFFFFFFU >> absent;
    QueryResult& result = results_[query];
    const SearchSpec& spec = batch_.spec;
    for (; rows != 0; rows &= rows - 1) {
      const int lane = std::countr_zero(rows);
      const std::int64_t row = chunk_.first + begin + lane;
      if (!spec.filter.allows(batch_.row(first_ + query), row)) continue;
      const Entry entry{static_cast<double>(counts[lane]), spec.first_id + row};
      if (result.matches != nullptr) {
        result.matches->take({&entry, 1});
        continue;
      }
      result.pool.take(entry);
      if (Histogram* const histogram = histogram_of(query)) histogram->add(counts[lane]);
    }
    if (result.matches != nullptr) return;
    lower(query);
    scratch_.thresholds[query] = threshold_of(query, begin + panel_rows);
  }
  /// It lowers the query's threshold to the count of its k-th so far.
  void lower(int query) noexcept {
    Pool& pool = results_[query].pool;
    std::int32_t& threshold = scratch_.counts[query];
    const Histogram* const histogram = histogram_of(query);
    if (histogram == nullptr) pool.tighten();
    if (pool.k == 0) threshold = -1;  // none was eligible when rows were counted
    if (pool.k == 0) return;
    if (histogram != nullptr) threshold = std::min(threshold, histogram->threshold());
    if (pool.worst.key != infinite) {
      const auto worst = static_cast<std::int32_t>(pool.worst.key);
      threshold = std::min(threshold, worst);
      const std::int64_t row = pool.worst.id - batch_.spec.first_id - chunk_.first;
      scratch_.worst[query] = threshold == worst ? row : no_row;
    }
    shared_.lower(first_ + query, threshold);
  }

  const SearchBatch& batch_;
  const PackedRows& chunk_;
  const BitKernels& kernels_;
  BitScratch& scratch_;
  SharedThresholds& shared_;
  const std::int64_t words_;
  const std::int32_t* const queries_;
  const std::int64_t first_;
  const int count_;
  const bool in_place_;
  QueryResult* const results_;
  std::int64_t begin_ = 0;  // the first row of the chunk that is counted now
};

}  // namespace

void BitQueries::prepare(const Kernels& kernels, const BitKernels& bits, const Points& queries,
                         std::span<const std::int64_t> rows, std::int64_t block, ThreadPool& thread_pool) {
  const auto count = static_cast<std::int64_t>(rows.size());
  width_ = words_of(queries.cols);
  grow(words_, count * width_);
  thread_pool.for_each(divide_up(count, block), [&](std::int64_t number, int) {
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

void Histogram::start(const Pool& pool) {
  k_ = pool.k;
  within_ = 0;
  threshold_ = static_cast<std::int32_t>(counts_.size()) - 1;
  std::fill(counts_.begin(), counts_.end(), 0);
  for (std::int64_t i = 0; i < pool.count; ++i) add(static_cast<std::int32_t>(pool.entries[i].key));
}

void Histogram::add(std::int32_t count) noexcept {
  if (count > threshold_) return;
  ++counts_[static_cast<std::size_t>(count)];
  ++within_;
  while (within_ - counts_[static_cast<std::size_t>(threshold_)] >= k_ && threshold_ > 0)
    within_ -= counts_[static_cast<std::size_t>(threshold_--)];
}

BitScratch::BitScratch(const Kernels& kernels, const Points& corpus, std::int64_t block, std::int64_t k)
    : thresholds(block), counts(block), worst(block), packer(kernels, corpus),
      panels(packed_bit_bytes(tile_rows, corpus.cols) / 4) {
  if (Histogram::serves(corpus.cols, k)) histograms.assign(static_cast<std::size_t>(block), Histogram(corpus.cols));
}

std::int64_t BitScratch::bytes(std::int64_t cols, std::int64_t block, std::int64_t k) noexcept {
  return block * (16 + (Histogram::serves(cols, k) ? Histogram::bytes(cols) : 0)) + packed_bit_bytes(tile_rows, cols) +
         2 * BitPacker::bytes(cols);
}

void search_bits(const SearchBatch& batch, const BitKernels& kernels, const BitQueries& queries,
                 PerThread<BitScratch>& scratch) {
  const std::int64_t blocks = batch.queries.block_count(), tiles = batch.chunk.tile_count();
  SharedThresholds shared(batch.spec.radius ? 0 : batch.queries.count, batch.splits);
  batch.thread_pool.for_each(batch.splits * blocks, [&](std::int64_t piece, int thread) {
    const std::int64_t split = piece / blocks;
    BitBlock block(batch, kernels, queries, scratch.of(thread), shared, split, piece % blocks * batch.queries.block);
    block.search(split_range(tiles, split, batch.splits));
  });
}

}  // namespace vicinal::cpu
