// A graph over tiles that serve both of their sides: block against block, each unordered pair once. Blocks meet in the order of
// a round-robin tournament, so that neighbouring pairs have no block in common; a thread takes the first pair whose blocks no
// other thread has, so no list is written by two, and none waits for the end of a round. First each block meets itself,
// one-sided, which gives every query a threshold to start from.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/visit_order.hpp"
#include "cpu/session.hpp"

namespace vicinal::cpu {
namespace {

/// The circle method: one thread_pool stays, the others turn by a place each round. An odd number gets a thread_pool that is not there.
class Tournament {
 public:
  explicit Tournament(std::int64_t thread_pools) : even_(thread_pools + thread_pools % 2) {}
  std::int64_t rounds() const noexcept { return even_ - 1; }
  std::int64_t pairs() const noexcept { return even_ / 2; }
  struct Pair {
    std::int64_t a, b;
  };
  /// b beyond the thread_pools: no such pair in this round.
  Pair pair(std::int64_t round, std::int64_t number) const noexcept {
    const std::int64_t others = even_ - 1;
    const Pair pair =
        number == 0 ? Pair{round, others} : Pair{(round + number) % others, (round - number + others) % others};
    return {std::min(pair.a, pair.b), std::max(pair.a, pair.b)};
  }

 private:
  std::int64_t even_;
};

/// Hands out the tournament's pairs, each once.
class Meetings {
 public:
  explicit Meetings(std::int64_t blocks)
      : blocks_(blocks), tournament_(blocks), busy_(static_cast<std::size_t>(blocks)),
        done_(static_cast<std::size_t>(tournament_.rounds() * tournament_.pairs())) {}
  std::int64_t count() const noexcept { return blocks_ * (blocks_ - 1) / 2; }

  /// Takes a pair and gives its blocks back at the end. Waits when every pair that is left has a block in use.
  template <class Body>
  void meet(const Body& body) {
    const Tournament::Pair thread_pools = take();
    const Return back{*this, thread_pools};
    body(thread_pools);
  }

 private:
  struct Return {
    Meetings& meetings;
    Tournament::Pair thread_pools;
    ~Return() { meetings.give_back(thread_pools); }
  };

  Tournament::Pair take() {
    std::unique_lock lock(mutex_);
    for (;;) {
      for (std::size_t i = first_; i < done_.size(); ++i) {
        const auto number = static_cast<std::int64_t>(i);
        const Tournament::Pair thread_pools =
            tournament_.pair(number / tournament_.pairs(), number % tournament_.pairs());
        if (done_[i] == 0 && thread_pools.b < blocks_) {
          if (busy(thread_pools.a) != 0 || busy(thread_pools.b) != 0) continue;
          done_[i] = busy(thread_pools.a) = busy(thread_pools.b) = 1;
          return thread_pools;
        }
        if (i == first_) ++first_;
      }
      free_.wait(lock);
    }
  }
  void give_back(Tournament::Pair thread_pools) {
    {
      const std::lock_guard lock(mutex_);
      busy(thread_pools.a) = busy(thread_pools.b) = 0;
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

}  // namespace

void CpuSession::filter_pairs() {
  if (bytes_ != nullptr) turn_rows_to_queries();
  const std::int64_t blocks = (queries_.count + plan_.pair_rows - 1) / plan_.pair_rows;
  const auto pair = [&](Worker& own, std::int64_t a, std::int64_t b) {
    bytes_ != nullptr ? pair_bytes(own, a, b) : this->pair(own, a, b);
  };
  thread_pool_.for_each(blocks, [&](std::int64_t block, int number) { pair(worker(number), block, block); });
  const VisitOrder order(blocks);  // so that rows in the order of their distances do not meet in that order
  Meetings meetings(blocks);
  thread_pool_.for_each(meetings.count(), [&](std::int64_t, int number) {
    meetings.meet([&](auto thread_pools) { pair(worker(number), order.at(thread_pools.a), order.at(thread_pools.b)); });
  });
}

// The block's queries go past the other's rows in parts that stay in a core's second-level cache.
void CpuSession::pair(Worker& own, std::int64_t block, std::int64_t facing) {
  FilterTask other = block_task(own, 0, facing);
  other.thr = own.facing_thr.data();
  const std::int64_t first = block * queries_.block, count = std::min(queries_.block, queries_.count - first);
  if (block != facing) other.face(maxima_of(chunk(), first, count), static_cast<int>(queries_.block));
  const std::int64_t panels = (count + queries_.lanes - 1) / queries_.lanes;
  const std::int64_t parts = (count + plan_.query_block - 1) / plan_.query_block;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = panels * part / parts, end = panels * (part + 1) / parts;
    if (begin < end) pair_panels(own, block, facing, begin, end - begin, other);
  }
}

void CpuSession::pair_panels(Worker& own, std::int64_t block, std::int64_t facing, std::int64_t panel,
                             std::int64_t panels, FilterTask& other) {
  const std::int64_t last = std::min((block + 1) * queries_.block, queries_.count);
  const std::int64_t first = block * queries_.block + panel * queries_.lanes;
  FilterTask piece = task(own, 0, first, std::min(panels * queries_.lanes, last - first));
  const float* packed =
      queries_.panels.data() + block * queries_.block_size(model_->dims) + panel * queries_.lanes * model_->dims;
  const auto query_panels = static_cast<int>(panels);
  if (block != facing) {
    std::fill_n(own.terms.data(), panels * queries_.lanes, std::numeric_limits<float>::infinity());
    std::copy_n(chunk().terms.data() + first, piece.queries, own.terms.data());
  }
  const std::int64_t begin = facing * queries_.block, end = std::min(begin + queries_.block, chunk().count);
  if (block != facing) piece.face(maxima_of(chunk(), begin, end - begin), query_panels * kernels_.query_lanes);
  for (std::int64_t row = begin; row < end; row += tile_rows) {
    const std::int64_t used = std::min<std::int64_t>(tile_rows, end - row);
    if (block == facing) {
      piece.run(packed, query_panels, own.partial.data(), row / tile_rows);
    } else {
      piece.run_both(packed, query_panels, own.partial.data(), row / tile_rows, own.terms.data(), other);
    }
    thread_pool_.poll(static_cast<std::uint64_t>(piece.queries) * static_cast<std::uint64_t>(used) *
                      (block == facing ? 1 : 2));
  }
  // From its own block a query has its first threshold: as tight as those rows allow, before it meets all others.
  for (int q = 0; block == facing && q < piece.queries; ++q)
    if (!piece.states[q].abandoned) piece.drop(q);
}

// Queries in the order of the packed rows, rounded alike: each of them is what it is as a row.
void CpuSession::turn_rows_to_queries() {
  given_.assign(chunk().order.data(), chunk().order.data() + chunk().count);
  rows_ = given_;
  start_queries(&chunk().steps);
}

void CpuSession::pair_bytes(Worker& own, std::int64_t block, std::int64_t facing) {
  const std::int64_t tiles = plan_.pair_rows / tile_rows, count = chunk().tile_count();
  for (std::int64_t tile = block * tiles; tile < std::min(count, (block + 1) * tiles); ++tile)
    for (std::int64_t face = facing * tiles; face < std::min(count, (facing + 1) * tiles); ++face)
      meet_tiles(own, tile, face, block != facing);
}

void CpuSession::meet_tiles(Worker& own, std::int64_t tile, std::int64_t facing, bool both) {
  const auto size = [&](std::int64_t of) { return std::min<std::int64_t>(tile_rows, chunk().count - of * tile_rows); };
  FilterTask piece = task(own, 0, tile * tile_rows, size(tile));
  const auto panels = static_cast<int>((piece.queries + queries_.lanes - 1) / queries_.lanes);
  const std::int32_t* packed =
      queries_.quads.data() + tile * queries_.block_size(query_width(bytes_->layout, quads_of(model_->dims)));
  piece.start_bytes();
  if (both) {
    FilterTask other = task(own, 0, facing * tile_rows, size(facing));
    other.lines = own.facing_lines.data();
    other.limits = own.facing_limits.data();
    other.as_rows = true;
    other.start_bytes();
    piece.meet_bytes(packed, panels, own.sums.data(), facing, own.int8_terms.data(), other);
  } else {
    piece.run_bytes(packed, panels, own.sums.data(), facing);
  }
  thread_pool_.poll(static_cast<std::uint64_t>(piece.queries) * static_cast<std::uint64_t>(size(facing)) *
                    (both ? 2 : 1));
}

}  // namespace vicinal::cpu
