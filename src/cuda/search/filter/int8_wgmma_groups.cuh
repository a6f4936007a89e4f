// FILTER by wgmma for rows of one slab, where all rows, or all but the query's own, may answer: the main case of
// int8_wgmma.cuh, with a comparison for 16 rows (core/bound_groups.hpp) in place of one a row.
//
// A block has five warpgroups. Four are consumers: each keeps 64 queries in registers and multiplies them with the rows
// of a tile, half of them at a time: while one half's sums are tested, the other's products are under way. A thread has
// 16 sums of a query in each half, those of a group of rows. A group whose largest product reaches the query's
// threshold is a candidate, with 16 bits of each product (GroupCandidate): the thread makes it of its registers alone.
// Of the fifth warpgroup a thread copies tiles into a ring of stages. Biases of rows play no part: scatter_candidates
// takes them from the terms. Where two of the consumers would have no queries (`shares`), every other tile is theirs
// with the queries of the first two: then tiles come as fast as memory brings them.
//
// Of a graph a tile may serve both of its sides (GroupTurns::symmetric): its products are those of its rows as queries,
// too. A group is then a candidate where a row is near enough for the query, or the query for one of the rows, by what
// the loosest of these excludes; scatter_candidates looks at each pair from both sides.
//
// Tensor cores keep the register files so busy that each instruction beside them costs their time (docs/lab/0042): what
// the thread that copies can say, it says, and nothing is spilled.
#pragma once
#include "cuda/search/filter/both_sides.cuh"
#include "cuda/search/filter/group_output.cuh"
#include "cuda/search/filter/wgmma_block.cuh"

namespace vicinal::cuda {

inline constexpr int group_consumers = wgmma_warps;  // warps

/// Whose turn a tile is: that of all warpgroups, or of two, with the queries that the others share with them; or of all,
/// and it serves both of its sides.
enum class GroupTurns { all, shared, symmetric };

/// What comes with the rows of a stage: what is known of the tile's pairs of groups, and which tile it is. loosest: of
/// the rows as queries, where the tile serves both sides.
struct alignas(16) StagePairs {
  GroupNorms pairs[pairs_a_tile];
  GroupCoeffs loosest[pairs_a_tile];
  std::uint32_t tile;
};

/// Where each part of a block's shared memory begins, in bytes.
struct GroupMemory {
  int stages;
  std::int64_t pairs, coeffs, norms, barriers, all;
};
VICINAL_HOST_DEVICE inline constexpr GroupMemory group_memory(int slab) {
  GroupMemory m{};
  m.stages = 6;
  m.pairs = static_cast<std::int64_t>(m.stages) * tile_rows * slab;
  m.coeffs = m.pairs + m.stages * static_cast<std::int64_t>(sizeof(StagePairs));
  m.norms = m.coeffs + block_queries * static_cast<std::int64_t>(sizeof(GroupCoeffs));
  m.barriers = m.norms + block_queries * static_cast<std::int64_t>(sizeof(GroupNorms));
  m.all = m.barriers + 2 * m.stages * 8 + 1024;  // slabs begin at multiples of 1024
  return m;
}
static_assert(group_memory(128).all <= 227 << 10, "a block has 227 KB at compute capability 9.0");

#if defined(VICINAL_WARPGROUPS)
/// A block's shared memory with its barriers. Who waits at one meets its every phase.
template <int slab>
struct GroupBlock {
  static constexpr GroupMemory memory = group_memory(slab);
  static constexpr int stages = memory.stages, tile_bytes = tile_rows * slab,
                       pairs_bytes = pairs_a_tile * sizeof(GroupNorms);
  unsigned at;
  StagePairs* pairs;    // of stages
  GroupCoeffs* coeffs;  // of queries
  GroupNorms* norms;    // of queries as rows, where tiles serve both sides
  Barrier full, empty;

  __device__ __forceinline__ explicit GroupBlock(unsigned char* base)
      : at(of_warp(shared_address(base))), pairs(reinterpret_cast<StagePairs*>(base + memory.pairs)),
        coeffs(reinterpret_cast<GroupCoeffs*>(base + memory.coeffs)),
        norms(reinterpret_cast<GroupNorms*>(base + memory.norms)), full{at + static_cast<unsigned>(memory.barriers)},
        empty(full[stages]) {}
  /// testers: warps that test a tile.
  __device__ __forceinline__ void init_barriers(int testers) const {
    if (thread_index() == 0) {
      for (int i = 0; i < stages; ++i) init_barrier(full[i], 1), init_barrier(empty[i], testers);
      fence_barriers();
    }
    __syncthreads();
  }
};

/// A thread's part of 64 queries, as an operand of its warpgroup. from: where the tile's slab is; half: of the tile.
template <int slab>
__device__ __forceinline__ void load_queries(const std::int8_t* from, int half,
                                             std::uint32_t (&operand)[slab / 32][4]) {
  const int line = half * 64 + warp_index() % 4 * 16 + lane_index() / 4;
#pragma unroll
  for (int k = 0; k < slab / 32; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = line + i % 2 * 8, chunk = 2 * k + i / 2;
      operand[k][i] = *reinterpret_cast<const std::uint32_t*>(
          from + row * slab + swizzled_chunk(slab, row, chunk) * 16 + lane_index() % 4 * 4);
    }
}
/// What the 16 queries of a warp exclude, to shared memory, where `coeffs` is of the first.
__device__ __forceinline__ void load_group_coeffs(const SearchArgs& args, std::int64_t query, GroupCoeffs* coeffs) {
  const std::int64_t tile = query / tile_rows, last = args.queries.tiles() - 1;
  const auto inverse = static_cast<float>(args.queries.tile_metadata[tile < last ? tile : last].inverse /
                                          int8_unit(args.model.sum, 1, 1));
  __syncwarp();
  if (lane_index() < 16) coeffs[lane_index()] = group_coeffs(coeffs_of(args, query + lane_index()), inverse);
  __syncwarp();
}

/// The products of 64 queries with half a tile of rows begin.
template <int slab>
__device__ __forceinline__ void multiply_half(int (&sums)[32], const std::uint32_t (&queries)[slab / 32][4],
                                              std::uint64_t rows) {
  fence_products();
  wgmma_64x64x32<false>(sums, queries[0], rows);
#pragma unroll
  for (int k = 1; k < slab / 32; ++k) wgmma_64x64x32<true>(sums, queries[k], rows + 2 * k);
  commit_products();
}

/// A unit of work: a block of queries, and some tiles in a row
/// from a visit on. Chunks have fewer than 2^31 tiles and units.
struct GroupUnit {
  unsigned block, tile, tiles;
  __device__ __forceinline__ GroupUnit(const Filter& f, unsigned unit) {
    const auto blocks = static_cast<unsigned>(f.blocks);
    if (f.serves_both()) {
      block = unit % blocks;
      const BlockPairs::Span span = f.pairs.span(block / f.blocks_a_pair, f.first + unit / blocks);
      tile = static_cast<unsigned>(span.tile);
      tiles = static_cast<unsigned>(span.tiles);
      return;
    }
    const std::int64_t first = f.first + static_cast<std::int64_t>(unit / blocks) * f.part, last = first + f.part;
    block = unit % blocks;
    tiles = static_cast<unsigned>((last < f.last ? last : f.last) - first);
    tile = static_cast<unsigned>(f.args.visits.at(first));
  }
};
__device__ __forceinline__ unsigned tile_after(const Filter& f, unsigned tile) {
  const auto next = tile + static_cast<unsigned>(f.args.visits.step),
             count = static_cast<unsigned>(f.args.visits.count);
  return next < count ? next : next - count;
}

/// A thread's part of a warpgroup's work.
template <int slab, GroupTurns turns>
class GroupConsumer {
  using Block = GroupBlock<slab>;
  static constexpr bool shares = turns == GroupTurns::shared, symmetric = turns == GroupTurns::symmetric;
  static_assert(!shares || Block::stages % 2 == 0, "each of two that take turns has stages of its own");

 public:
  __device__ __forceinline__ GroupConsumer(const Filter& f, const Block& shared, std::uint32_t segment)
      : f_(f), shared_(shared), out_(f, segment),
        pair_at_(kept(shared.at + static_cast<unsigned>(Block::memory.pairs) +
                      static_cast<unsigned>(lane_index() % 4) * sizeof(GroupNorms))) {
    if constexpr (shares) step_.position = static_cast<unsigned>(turn_of_warp());
  }
  /// Which tiles are this warp's, where those of two turns are.
  __device__ __forceinline__ static int turn_of_warp() { return warp_index() / (group_consumers / 2); }

  __device__ __forceinline__ void begin(const GroupUnit& unit) {
    const int group = warp_index() / 4;
    const std::int64_t tile_of_queries = unit.block * 2 + static_cast<unsigned>(shares ? 0 : group / 2);
    load_queries<slab>(f_.args.queries.bytes + tile_of_queries * Block::tile_bytes, group % 2, queries_);
    query_ = unit.block * block_queries +
             static_cast<unsigned>((shares ? warp_index() % (group_consumers / 2) : warp_index()) * 16);
    GroupCoeffs* const coeffs = shared_.coeffs + warp_index() * 16;
    if constexpr (symmetric) load_both_sides(f_.sides + query_, coeffs, shared_.norms + warp_index() * 16);
    else load_group_coeffs(f_.args, query_, coeffs);
    if constexpr (keeps_coeffs) coeffs_ = read_coeffs();
  }
  /// So many tiles. A half's sums are tested while the products of the next one are under way, up to the last tile, for
  /// the compiler would wait for products that are read in the next round of a loop.
  template <int tiles>
  __device__ __forceinline__ void consume() {
    int first[32], second[32];
    wait_for(shared_.full[step_.position], step_.parity);
    multiply_half<slab>(first, queries_, rows_at(0));
    multiply_half<slab>(second, queries_, rows_at(1));
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      const bool last = t + 1 == tiles;
      const unsigned stage = step_.position;
      const StageFacts facts = facts_of(stage);
      step_.next();
      if constexpr (shares) step_.next();
      wait_for_products<1>(first);
      test_groups(f_, first, facts.thresholds, query_, facts.tile, 0, out_);
      if (last) {
        wait_for_products<0>(second);
      } else {
        wait_for(shared_.full[step_.position], step_.parity);
        multiply_half<slab>(first, queries_, rows_at(0));
        wait_for_products<1>(second);
      }
      if (one_lane()) arrive(shared_.empty[stage]);
      test_groups(f_, second, facts.thresholds, query_, facts.tile, 1, out_);
      if (!last) multiply_half<slab>(second, queries_, rows_at(1));
    }
  }
  __device__ __forceinline__ std::uint32_t used() const { return out_.next - out_.first; }

 private:
  // Of a slab of 128 the queries leave no registers for them.
  static constexpr bool keeps_coeffs = slab == 64;
  __device__ __forceinline__ TwoCoeffs read_coeffs() const { return TwoCoeffs(facts_at(Block::memory.coeffs)); }
  /// Where the facts of the thread's first query are, of those that begin there.
  __device__ __forceinline__ unsigned facts_at(std::int64_t begin) const {
    static_assert(sizeof(GroupCoeffs) == sizeof(GroupNorms));
    return shared_.at + static_cast<unsigned>(begin) +
           static_cast<unsigned>(warp_index() * 16 + lane_index() / 4) * static_cast<unsigned>(sizeof(GroupNorms));
  }

  /// Of a stage, while it is there: thresholds of the thread's two
  /// queries against its pair of groups, and which tile it is.
  struct StageFacts {
    float thresholds[2];
    std::uint32_t tile;
  };
  __device__ __forceinline__ StageFacts facts_of(unsigned stage) const {
    const unsigned from = stage * static_cast<unsigned>(sizeof(StagePairs));
    const auto pair = load_shared<GroupNorms>(pair_at_ + from);
    TwoCoeffs coeffs;
    if constexpr (keeps_coeffs) coeffs = coeffs_;
    else coeffs = read_coeffs();
    StageFacts facts{{group_threshold(coeffs.of[0], pair), group_threshold(coeffs.of[1], pair)},
                     load_shared<std::uint32_t>(shared_.at + static_cast<unsigned>(Block::memory.pairs) + from +
                                                static_cast<unsigned>(offsetof(StagePairs, tile)))};
    if constexpr (symmetric) {
      const auto loosest =
          load_shared<GroupCoeffs>(pair_at_ + from + static_cast<unsigned>(offsetof(StagePairs, loosest)));
      lower_by_other_side(facts.thresholds, loosest, OfTwo<GroupNorms>(facts_at(Block::memory.norms)));
    }
    return facts;
  }
  /// The operand; addresses of shared memory have 18 bits, so that none is carried.
  __device__ __forceinline__ std::uint64_t rows_at(int half) const {
    return operand_at<slab>(shared_.at) +
           (step_.position * Block::tile_bytes + static_cast<unsigned>(half * 64 * slab)) / 16;
  }

  const Filter& f_;
  const Block& shared_;
  GroupOutput out_;
  Ring<Block::stages> step_{};
  std::uint32_t queries_[slab / 32][4];
  TwoCoeffs coeffs_;
  std::uint32_t query_ = 0;  // the warp's first
  unsigned pair_at_;         // where what is known of the thread's pair is, in the first stage
};

inline constexpr unsigned overlapped_tiles = 2;  // of 3, 4 and 8 no more is won than their code costs
template <int slab, GroupTurns turns>
__device__ __forceinline__ void consume_groups(const Filter& f, const GroupBlock<slab>& shared, unsigned units) {
  const std::uint32_t segment = blockIdx.x * wgmma_warps + static_cast<unsigned>(warp_index());
  GroupConsumer<slab, turns> consumer(f, shared, segment);
  unsigned turn = 0;  // of the tiles of all units before
#pragma unroll 1
  for (unsigned u = blockIdx.x; u < units; u += gridDim.x) {
    const GroupUnit unit(f, u);
    consumer.begin(unit);
    unsigned left = unit.tiles;
    if constexpr (turns == GroupTurns::shared) {
      // The first tile is that of the other warpgroups.
      const unsigned waits = (turn ^ static_cast<unsigned>(consumer.turn_of_warp())) & 1;
      turn += left;
      left = (left + 1 - waits) / 2;
    }
#pragma unroll 1
    for (; left >= overlapped_tiles; left -= overlapped_tiles) consumer.template consume<overlapped_tiles>();
#pragma unroll 1
    for (; left > 0; --left) consumer.template consume<1>();
  }
  if (lane_index() == 0) f.used[segment] = consumer.used();
}

/// The work of the thread that copies.
template <int slab, bool symmetric>
__device__ __forceinline__ void copy_tiles(const Filter& f, const GroupBlock<slab>& shared, unsigned units) {
  using Block = GroupBlock<slab>;
  constexpr int loosest_bytes = symmetric ? pairs_a_tile * static_cast<int>(sizeof(GroupCoeffs)) : 0;
  Ring<Block::stages> step;
  for (unsigned u = blockIdx.x; u < units; u += gridDim.x) {
    const GroupUnit unit(f, u);
    unsigned tile = unit.tile;
    for (unsigned t = 0; t < unit.tiles; ++t, tile = tile_after(f, tile), step.next()) {
      const unsigned stage = step.position;
      wait_for(shared.empty[stage], step.parity ^ 1);
      shared.pairs[stage].tile = tile;
      arrive_expecting(shared.full[stage], Block::tile_bytes + Block::pairs_bytes + loosest_bytes);
      copy_bulk(shared.at + stage * Block::tile_bytes,
                f.args.rows.bytes + static_cast<std::int64_t>(tile) * Block::tile_bytes, Block::tile_bytes,
                shared.full[stage]);
      copy_bulk(shared_address(shared.pairs + stage), f.args.rows.tile_metadata[tile].pairs, Block::pairs_bytes,
                shared.full[stage]);
      if constexpr (symmetric)
        copy_bulk(shared_address(shared.pairs[stage].loosest),
                  f.loosest + static_cast<std::int64_t>(tile) * pairs_a_tile, loosest_bytes, shared.full[stage]);
    }
  }
}
#endif

template <int slab, GroupTurns turns>
__global__ void __launch_bounds__(wgmma_threads, 1) filter_int8_wgmma_groups(Filter f) {
#if defined(VICINAL_WARPGROUPS)
  unsigned char* base = dynamic_shared<unsigned char>();
  base += (1024 - (shared_address(base) & 1023)) & 1023;
  const GroupBlock<slab> shared(base);
  shared.init_barriers(turns == GroupTurns::shared ? group_consumers / 2 : group_consumers);
  wait_for_earlier();
  const auto units = static_cast<unsigned>(f.blocks * f.parts);
  if (warp_index() < group_consumers) {
    request_registers<112>();
    consume_groups<slab, turns>(f, shared, units);
  } else {
    release_registers<32>();
    if (thread_index() == 32 * group_consumers) copy_tiles<slab, turns == GroupTurns::symmetric>(f, shared, units);
  }
#else
  static_cast<void>(f);
  __trap();  // is_present() keeps it from being launched
#endif
}

/// The kernel of groups for a launch. shares: its queries leave two warpgroups without any.
template <int slab>
inline auto groups_kernel(const Filter& f, bool shares) {
  return f.serves_both() ? filter_int8_wgmma_groups<slab, GroupTurns::symmetric>
         : shares        ? filter_int8_wgmma_groups<slab, GroupTurns::shared>
                         : filter_int8_wgmma_groups<slab, GroupTurns::all>;
}

}  // namespace vicinal::cuda
