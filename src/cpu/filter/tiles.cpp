// FILTER, SELECT and RERANK of a chunk. Every loop is over independent pieces (a block of queries in a split of the
// chunk), so no piece ever waits for another and the answer cannot depend on their order.
#include "core/divide.hpp"
#include "core/visit_order.hpp"
#include "cpu/filter/choose.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t least_speculated = 64;  // tiles
struct Runs {
  std::int64_t bytes, least;  // of a run, and how many there are at least
};
constexpr Runs short_runs{std::int64_t{1} << 18, 96}, long_runs{std::int64_t{1} << 20, 32};
constexpr std::int64_t few_queries = 4;  // that wait for memory

/// Tiles that a block visits one after another. Reading rows in order is up to three times as fast as in leaps of a
/// tile, and a split has enough runs for the rows of the first ones to be like the others. Long runs are for few
/// queries alone: thresholds that come from fewer runs are looser: for 500 queries with k = 1000 of 100,000 rows 32
/// runs doubled the candidates, and 64 took 15 % longer than 96.
std::int64_t run_length(std::int64_t tiles, std::int64_t row_bytes, std::int64_t queries) noexcept {
  const Runs& runs = queries <= few_queries ? long_runs : short_runs;
  return std::clamp<std::int64_t>(runs.bytes / (tile_rows * row_bytes), 1,
                                  std::max<std::int64_t>(tiles / runs.least, 1));
}

bool any_eligible(const SearchBatch& batch, std::int64_t tile) noexcept {
  const PackedRows& chunk = batch.chunk;
  const RowFilter& filter = batch.spec.filter;
  const std::int64_t begin = tile * tile_rows, end = std::min(begin + tile_rows, chunk.count);
  if (!chunk.ordered() || filter.all()) return filter.any(chunk.first + begin, end - begin);
  for (std::int64_t position = begin; position < end; ++position)
    if (filter.any(chunk.first + chunk.row_at(static_cast<std::uint32_t>(position)), 1)) return true;
  return false;
}

/// Thresholds are speculative where a block visits all rows of
/// its split in one go, and there are enough to speculate from.
bool may_speculate(const FilterPass& pass, std::int64_t tiles) noexcept {
  const SearchSpec& spec = pass.batch.spec;
  return !spec.radius && spec.filter.all() && pass.batch.chunk.count == spec.corpus.rows && tiles >= least_speculated &&
         !pass.speculation_missed;
}

/// The tiles of one split in the order in which one block visits them.
template <class Filter>
class TileVisits {
 public:
  TileVisits(const FilterPass& pass, Filter& filter, Range range, std::int64_t block)
      : batch_(pass.batch), filter_(filter), range_(range),
        run_(run_length(count(), find_host_precision(pass.precision)->width(pass.model.columns),
                        filter.block().queries)),
        runs_(count() / run_), order_(runs_), panels_(filter.panels(pass.batch.queries, block)),
        query_panels_(divide_up(filter.block().queries, pass.batch.kernels.query_lanes)) {}
  std::int64_t count() const noexcept { return range_.end - range_.begin; }
  /// Returns how many rows the tile has.
  std::int64_t visit(std::int64_t i) {
    const std::int64_t tile = range_.begin + position(i);
    if (any_eligible(batch_, tile)) filter_.filter_tile(panels_, query_panels_, tile);
    return std::min<std::int64_t>(tile_rows, batch_.chunk.count - tile * tile_rows);
  }
  /// It polls after each run.
  void visit_and_poll(std::int64_t i) {
    rows_ += visit(i);
    if (i % run_ != run_ - 1 && i + 1 != count()) return;
    batch_.thread_pool.poll(static_cast<std::uint64_t>(filter_.block().queries) * static_cast<std::uint64_t>(rows_));
    rows_ = 0;
  }

 private:
  /// It returns the i-th tile of the visits: from the middle on, for the ends, where rows of int8 are smallest and
  /// largest, are least like the others. Tiles that fill no run come last.
  std::int64_t position(std::int64_t i) const noexcept {
    const std::int64_t run = i / run_;
    return run < runs_ ? (order_.at(run) + runs_ / 2) % runs_ * run_ + i % run_ : i;
  }

  const SearchBatch& batch_;
  Filter& filter_;
  Range range_;
  std::int64_t run_, runs_, rows_ = 0;  // rows: met since the last poll
  VisitOrder order_;
  decltype(std::declval<const Filter&>().panels(std::declval<const PackedQueries&>(), 0)) panels_;
  int query_panels_;
};

/// Visits the first tiles of a query that comes alone together. Returns how many those were.
template <class Filter>
std::int64_t visit_first(TileVisits<Filter>& visits, Filter& filter) {
  if (!filter.may_measure_first()) return 0;
  FirstRows first;
  filter.measure_into(first);
  const std::int64_t count = std::min(visits.count(), FirstRows::most_tiles);
  for (std::int64_t i = 0; i < count; ++i) visits.visit_and_poll(i);
  filter.take_first();
  return count;
}

void filter_block(const FilterPass& pass, F32Filter& filter, Range range, std::int64_t block) {
  TileVisits visits(pass, filter, range, block);
  for (std::int64_t i = visit_first(visits, filter); i < visits.count(); ++i) visits.visit_and_poll(i);
}

template <class Int8>
void filter_block(const FilterPass& pass, Int8& filter, Range range, std::int64_t block) {
  TileVisits visits(pass, filter, range, block);
  const std::int64_t tiles = visits.count();
  const bool speculates = may_speculate(pass, tiles);
  filter.start();
  for (std::int64_t i = visit_first(visits, filter); i < tiles; ++i) {
    if (speculates) filter.speculation().set_seen(static_cast<double>(i + 1) / static_cast<double>(tiles));
    visits.visit_and_poll(i);
  }
  filter.speculation().set_seen(0);
  if (!speculates || roll_back_failed(filter) == 0) return;
  pass.speculation_missed = true;
  filter.start();
  for (std::int64_t i = 0; i < tiles; ++i) {
    visits.visit(i);
    pass.batch.thread_pool.poll(0);
  }
  resume_suspended(filter);
}

}  // namespace

void filter_tiles(const FilterPass& pass) {
  const std::int64_t tiles = pass.batch.chunk.tile_count();
  for_each_block(pass, [&](auto& filter, std::int64_t split, std::int64_t block) {
    const Range range = split_range(tiles, split, pass.batch.splits);
    if (range.begin < range.end) filter_block(pass, filter, range, block);
  });
}

void compact_candidates(const FilterPass& pass) {
  for_each_block(pass, [&](auto& filter, std::int64_t, std::int64_t) {
    for (int q = 0; q < filter.block().queries; ++q)
      if (!filter.result(q).given_up) filter.compact(q);
    pass.batch.thread_pool.poll(0);
  });
}

void rerank_candidates(const FilterPass& pass) {
  for_each_block(pass, [&](auto& filter, std::int64_t, std::int64_t) {
    for (int q = 0; q < filter.block().queries; ++q) {
      if (!filter.result(q).given_up) filter.rerank(q);
      pass.batch.thread_pool.poll(0);
    }
  });
}

}  // namespace vicinal::cpu
