// A graph over tiles that serve both of their sides: block against block, each unordered pair once. Blocks meet as teams
// in a round-robin tournament, so that in a round every block is in one pair only and no list is written by two threads.
// First each block meets itself, one-sided, which gives every query a threshold to start from.
#include <algorithm>

#include "core/visit_order.hpp"
#include "cpu/session.hpp"

namespace vicinal::cpu {
namespace {

/// The circle method: one team stays, the others turn by a place each round. An odd number gets a team that is not there.
class Tournament {
 public:
  explicit Tournament(std::int64_t teams) : teams_(teams), even_(teams + teams % 2) {}
  std::int64_t rounds() const noexcept { return even_ - 1; }
  std::int64_t pairs() const noexcept { return even_ / 2; }
  struct Pair {
    std::int64_t a, b;
  };
  /// b == teams: no such pair in this round.
  Pair pair(std::int64_t round, std::int64_t number) const noexcept {
    const std::int64_t others = even_ - 1;
    const Pair pair = number == 0 ? Pair{round, others} : Pair{(round + number) % others, (round - number + others) % others};
    return {std::min(pair.a, pair.b), std::max(pair.a, pair.b)};
  }
  std::int64_t teams() const noexcept { return teams_; }

 private:
  std::int64_t teams_, even_;
};

/// Maxima over the tiles of a block.
FilterNorms maxima_of(const PackedRows& chunk, std::int64_t first, std::int64_t rows) {
  FilterNorms all;
  for (std::int64_t tile = first / tile_rows; tile * tile_rows < first + rows; ++tile) {
    const FilterNorms& one = chunk.tiles[static_cast<std::size_t>(tile)];
    all = {std::max(all.e, one.e), std::max(all.n, one.n)};
  }
  return all;
}

}  // namespace

void CpuSession::filter_pairs() {
  const std::int64_t blocks = queries_.block_count();
  team_.for_each(blocks, [&](std::int64_t block, int number) { pair(worker(number), block, block); });
  const Tournament tournament(blocks);
  const VisitOrder order(blocks);  // so that rows in the order of their distances do not meet in that order
  for (std::int64_t round = 0; blocks > 1 && round < tournament.rounds(); ++round) {
    team_.for_each(tournament.pairs(), [&](std::int64_t i, int number) {
      const Tournament::Pair teams = tournament.pair(round, i);
      if (teams.b < blocks) pair(worker(number), order.at(teams.a), order.at(teams.b));
    });
  }
}

void CpuSession::pair(Worker& own, std::int64_t block, std::int64_t facing) {
  FilterTask piece = task(own, 0, block);
  const float* panels = queries_.panels.data() + block * queries_.block_floats(model_->dims);
  const int query_panels = (piece.queries + kernels_.query_lanes - 1) / kernels_.query_lanes;
  const std::int64_t begin = facing * queries_.block, end = std::min(begin + queries_.block, chunk().count);
  FilterTask other = task(own, 0, facing);
  other.thr = own.facing_thr.data();
  if (block != facing) {
    other.face(maxima_of(chunk(), piece.first, piece.queries), static_cast<int>(queries_.block));
    std::fill_n(own.terms.data(), query_panels * kernels_.query_lanes, std::numeric_limits<float>::infinity());
    std::copy_n(chunk().terms.data() + piece.first, piece.queries, own.terms.data());
  }
  for (std::int64_t row = begin; row < end; row += tile_rows) {
    const std::int64_t used = std::min<std::int64_t>(tile_rows, end - row);
    if (block == facing) {
      piece.run(panels, query_panels, own.partial.data(), row / tile_rows);
    } else {
      piece.run_both(panels, query_panels, own.partial.data(), row / tile_rows, own.terms.data(), other);
    }
    team_.tick(static_cast<std::uint64_t>(piece.queries) * static_cast<std::uint64_t>(used) * (block == facing ? 1 : 2));
  }
}

}  // namespace vicinal::cpu
