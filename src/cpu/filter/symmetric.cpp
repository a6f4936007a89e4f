// FILTER of a graph by symmetric tiles: block against block, each unordered pair once, and both sides of a tile serve
// as queries (docs/design/0008). Blocks come together in the order of a round-robin tournament, so that neighbouring
// pairs have no block in common; a thread takes the first pair whose blocks no other thread has, so no candidates are
// written by two, and none waits for the end of a round. First each block goes against itself, one-sided, which gives
// every query a threshold to start from.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/divide.hpp"
#include "core/text.hpp"
#include "core/visit_order.hpp"
#include "cpu/filter/choose.hpp"

namespace vicinal::cpu {
namespace {

/// The circle method: one block stays, the others turn by a position
/// each round. An odd number gets a block that is not there.
class Tournament {
 public:
  explicit Tournament(std::int64_t blocks) : even_(blocks + blocks % 2) {}
  std::int64_t rounds() const noexcept { return even_ - 1; }
  std::int64_t pairs() const noexcept { return even_ / 2; }
  struct Pair {
    std::int64_t a, b;
  };
  /// b beyond the blocks: no such pair in this round.
  Pair pair(std::int64_t round, std::int64_t number) const noexcept {
    const std::int64_t others = even_ - 1;
    const Pair pair =
        number == 0 ? Pair{round, others} : Pair{(round + number) % others, (round - number + others) % others};
    return {std::min(pair.a, pair.b), std::max(pair.a, pair.b)};
  }

 private:
  std::int64_t even_;
};

/// Yields the tournament's pairs, each once.
class BlockPairs {
 public:
  explicit BlockPairs(std::int64_t blocks)
      : blocks_(blocks), tournament_(blocks), busy_(static_cast<std::size_t>(blocks)),
        done_(static_cast<std::size_t>(tournament_.rounds() * tournament_.pairs())) {}
  std::int64_t count() const noexcept { return blocks_ * (blocks_ - 1) / 2; }

  /// Runs body on the next pair and gives its blocks back at the
  /// end. Waits when every pair that is left has a block in use.
  template <class Body>
  void run_next(const Body& body) {
    const Tournament::Pair pair = take();
    const Return back{*this, pair};
    body(pair);
  }

 private:
  struct Return {
    BlockPairs& pairs;
    Tournament::Pair pair;
    ~Return() { pairs.give_back(pair); }
  };

  Tournament::Pair take() {
    std::unique_lock lock(mutex_);
    for (;;) {
      for (std::size_t i = first_; i < done_.size(); ++i) {
        const auto number = static_cast<std::int64_t>(i);
        const Tournament::Pair pair = tournament_.pair(number / tournament_.pairs(), number % tournament_.pairs());
        if (done_[i] == 0 && pair.b < blocks_) {
          if (busy(pair.a) != 0 || busy(pair.b) != 0) continue;
          done_[i] = busy(pair.a) = busy(pair.b) = 1;
          return pair;
        }
        if (i == first_) ++first_;
      }
      free_.wait(lock);
    }
  }
  void give_back(Tournament::Pair pair) {
    {
      const std::lock_guard lock(mutex_);
      busy(pair.a) = busy(pair.b) = 0;
    }
    free_.notify_all();
  }
  char& busy(std::int64_t block) { return busy_[static_cast<std::size_t>(block)]; }

  std::int64_t blocks_;
  Tournament tournament_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::vector<char> busy_, done_;
  std::size_t first_ = 0;  // pairs before it are done
};

/// Maxima over the tiles of a block.
FilterNorms maxima_of(const PackedRows& chunk, std::int64_t first, std::int64_t rows) {
  FilterNorms all;
  for (std::int64_t tile = first / tile_rows; tile * tile_rows < first + rows; ++tile)
    take_maxima(all, chunk.tiles[static_cast<std::size_t>(tile)]);
  return all;
}

/// One block against another, or against itself, by one thread.
class PairFilter {
 public:
  PairFilter(const FilterPass& pass, int thread)
      : pass_(pass), batch_(pass.batch), scratch_(pass.scratch.of(thread)), ranker_(batch_.ranker(thread)) {}
  void run(std::int64_t block, std::int64_t columns) {
    pass_.int8 != nullptr ? run_int8(block, columns) : run_f32(block, columns);
  }

 private:
  QueryBlock block_at(std::int64_t first, std::int64_t most) {
    return make_block(pass_, 0, first, std::min(most, batch_.queries.count - first), ranker_);
  }
  void run_f32(std::int64_t block, std::int64_t columns);
  void run_f32_part(std::int64_t block, std::int64_t columns_block, std::int64_t panel, std::int64_t panels,
                    F32Filter& columns);
  void run_int8(std::int64_t block, std::int64_t columns);
  void run_int8_tile(std::int64_t rows_tile, std::int64_t columns_tile, bool both);
  void poll(std::int64_t queries, std::int64_t rows, bool both) {
    batch_.thread_pool.poll(static_cast<std::uint64_t>(queries) * static_cast<std::uint64_t>(rows) * (both ? 2 : 1));
  }

  const FilterPass& pass_;
  const SearchBatch& batch_;
  FilterScratch& scratch_;
  Ranker ranker_;
};

// The block's queries go past the other's rows in parts that stay in a core's second-level cache.
void PairFilter::run_f32(std::int64_t block, std::int64_t columns_block) {
  const PackedQueries& queries = batch_.queries;
  const QueryBlock column_block = block_at(columns_block * queries.block, queries.block);
  F32Filter columns(column_block, scratch_.f32.column_thresholds.data(), scratch_.f32.partial.data());
  const std::int64_t first = block * queries.block, count = std::min(queries.block, queries.count - first);
  if (block != columns_block) columns.bind(maxima_of(batch_.chunk, first, count), static_cast<int>(queries.block));
  const std::int64_t panels = divide_up(count, queries.lanes);
  const std::int64_t parts = divide_up(count, pass_.plan.query_block);
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = panels * part / parts, end = panels * (part + 1) / parts;
    if (begin < end) run_f32_part(block, columns_block, begin, end - begin, columns);
  }
}

void PairFilter::run_f32_part(std::int64_t block, std::int64_t columns_block, std::int64_t panel, std::int64_t panels,
                              F32Filter& columns) {
  const PackedQueries& queries = batch_.queries;
  const PackedRows& chunk = batch_.chunk;
  const bool both = block != columns_block;
  const std::int64_t last = std::min((block + 1) * queries.block, queries.count);
  const std::int64_t first = block * queries.block + panel * queries.lanes;
  const QueryBlock part = block_at(first, std::min(panels * queries.lanes, last - first));
  F32Filter filter(part, scratch_.f32.thresholds.data(), scratch_.f32.partial.data());
  const float* packed = filter.panels(queries, block) + panel * queries.lanes * pass_.model.dims;
  const auto query_panels = static_cast<int>(panels);
  const std::int64_t begin = columns_block * queries.block, end = std::min(begin + queries.block, chunk.count);
  float* row_terms = scratch_.f32.row_terms.data();
  if (both) {
    std::fill_n(row_terms, panels * queries.lanes, std::numeric_limits<float>::infinity());
    std::copy_n(chunk.terms.data() + first, part.queries, row_terms);
    filter.bind(maxima_of(chunk, begin, end - begin), query_panels * batch_.kernels.query_lanes);
  }
  for (std::int64_t row = begin; row < end; row += tile_rows) {
    if (both) {
      filter.filter_symmetric_tile(packed, query_panels, row / tile_rows, row_terms, columns);
    } else {
      filter.filter_tile(packed, query_panels, row / tile_rows);
    }
    poll(part.queries, std::min<std::int64_t>(tile_rows, end - row), both);
  }
  // From its own block a query has its first threshold: as tight as those rows allow, before it meets all others.
  for (int q = 0; !both && q < part.queries; ++q)
    if (!filter.result(q).given_up) filter.compact(q);
}

void PairFilter::run_int8(std::int64_t block, std::int64_t columns_block) {
  const std::int64_t tiles = pass_.plan.symmetric_rows / tile_rows, count = batch_.chunk.tile_count();
  for (std::int64_t rows = block * tiles; rows < std::min(count, (block + 1) * tiles); ++rows)
    for (std::int64_t columns = columns_block * tiles; columns < std::min(count, (columns_block + 1) * tiles);
         ++columns)
      run_int8_tile(rows, columns, block != columns_block);
}

void PairFilter::run_int8_tile(std::int64_t rows_tile, std::int64_t columns_tile, bool both) {
  FilterScratch::Int8& scratch = scratch_.int8;
  const QueryBlock rows = block_at(rows_tile * tile_rows, tile_rows);
  const auto query_panels = static_cast<int>(divide_up(rows.queries, batch_.queries.lanes));
  Int8Filter filter(rows, int8_block(pass_, rows, scratch_, scratch.thresholds.data()), scratch.coeffs.data(),
                    second_codes(pass_, rows));
  const std::int32_t* packed = filter.panels(batch_.queries, rows_tile);
  filter.start();
  if (both) {
    const QueryBlock column_block = block_at(columns_tile * tile_rows, tile_rows);
    Int8Filter columns(column_block, int8_block(pass_, column_block, scratch_, scratch.column_thresholds.data()),
                       scratch.column_coeffs.data(), second_codes(pass_, column_block), true);
    columns.start();
    filter.filter_symmetric_tile(packed, query_panels, columns_tile, scratch.row_terms.data(), columns);
  } else {
    filter.filter_tile(packed, query_panels, columns_tile);
  }
  poll(rows.queries, std::min<std::int64_t>(tile_rows, batch_.chunk.count - columns_tile * tile_rows), both);
}

}  // namespace

void filter_symmetric(const FilterPass& pass) {
  ThreadPool& thread_pool = pass.batch.thread_pool;
  if (pass.batch.queries.count != pass.batch.chunk.count)
    fail(ErrorCode::internal,
         cat("tiles serve both sides of ", pass.batch.chunk.count, " rows and ", pass.batch.queries.count, " queries"));
  const std::int64_t blocks = divide_up(pass.batch.queries.count, pass.plan.symmetric_rows);
  thread_pool.for_each(blocks, [&](std::int64_t block, int thread) { PairFilter(pass, thread).run(block, block); });
  const VisitOrder order(blocks);  // so that rows in the order of their distances do not come together in that order
  BlockPairs pairs(blocks);
  thread_pool.for_each(pairs.count(), [&](std::int64_t, int thread) {
    pairs.run_next([&](Tournament::Pair pair) { PairFilter(pass, thread).run(order.at(pair.a), order.at(pair.b)); });
  });
}

}  // namespace vicinal::cpu
