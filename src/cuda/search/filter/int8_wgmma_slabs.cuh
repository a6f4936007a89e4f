// FILTER by wgmma for rows of two to eight slabs, where all rows may answer and queries fill blocks of 192
// (wgmma_by_groups): what int8_wgmma_groups.cuh does for rows of one.
//
// Rows and queries that both pass through shared memory would ask twice as much of the memory behind it as it has. So
// the queries of a block stay: three warpgroups have 64 each, some slabs of them in registers as operands, the others
// in shared memory. Rows alone pass, a slab a stage. A warpgroup keeps the sums of a tile while its slabs pass, and
// gives a slab back when the next one's products are under way. From four slabs on it begins a tile when the warpgroup
// before is two slabs ahead: so they test their sums one after another, and the tensor cores have products meanwhile.
//
// What passes leaves as for rows of one slab, a group with 16 bits of each product. Bounds of long rows are wide, so
// that several rows of a group pass often: with the group's largest product for all of them five times as many rows
// passed, for those that look nearest were not.
#pragma once
#include "cuda/search/filter/int8_wgmma_groups.cuh"

namespace vicinal::cuda {

inline constexpr int slab_columns = 128;
VICINAL_HOST_DEVICE inline constexpr int slabs_of(std::int64_t width) { return static_cast<int>(width / slab_columns); }
inline constexpr int slab_warpgroups = slab_queries / 64, slab_consumers = 4 * slab_warpgroups,
                     slab_threads = 128 * (slab_warpgroups + 1);
/// Slabs of the queries that are in registers: as many as 160 of
/// them leave room for beside the sums, and never the last slab.
VICINAL_HOST_DEVICE inline constexpr int held_slabs(int slabs) { return slabs > 3 ? 3 : 1; }
/// Whether warpgroups begin a tile one after another, by two slabs.
VICINAL_HOST_DEVICE inline constexpr bool takes_turns(int slabs) { return held_slabs(slabs) == 3; }

/// Where each part of a block's shared memory begins, in bytes;
/// stages and the queries' slabs, in halves of tiles, begin it.
struct SlabMemory {
  int stages;
  std::int64_t queries, pairs, coeffs, norms, barriers, all;
};
inline constexpr int slab_bytes = tile_rows * slab_columns,
                     tile_pairs_bytes = pairs_a_tile * static_cast<int>(sizeof(GroupNorms));
/// symmetric: the rows of a tile are there as queries, and queries as rows.
VICINAL_HOST_DEVICE inline constexpr SlabMemory slab_memory(int slabs, bool symmetric = false) {
  // Who waits for a warpgroup's turn must not be two phases behind it. It ends
  // that of the next tile when the third slab there is being multiplied, whose
  // stage with two more than a tile has was given back by all who began this tile.
  const int most_stages = slabs < 6 && takes_turns(slabs) ? slabs + 2 : 8;
  const std::int64_t queries = (slabs - held_slabs(slabs)) * static_cast<std::int64_t>(slab_queries) * slab_columns,
                     coeffs = slab_queries * static_cast<std::int64_t>(sizeof(GroupCoeffs)),
                     norms = symmetric ? slab_queries * static_cast<std::int64_t>(sizeof(GroupNorms)) : 0,
                     barriers = (2 * most_stages + 2 + slab_warpgroups) * 8 + 1024;  // slabs begin at multiples of 1024
  const int pairs = symmetric ? 2 * tile_pairs_bytes : tile_pairs_bytes;
  const std::int64_t room = ((227 << 10) - queries - coeffs - norms - barriers) / (slab_bytes + pairs);
  SlabMemory m{};
  m.stages = room < most_stages ? static_cast<int>(room) : most_stages;
  m.queries = static_cast<std::int64_t>(m.stages) * slab_bytes;
  m.pairs = m.queries + queries;
  m.coeffs = m.pairs + m.stages * pairs;
  m.norms = m.coeffs + coeffs;
  m.barriers = m.norms + norms;
  m.all = m.barriers + barriers;
  return m;
}
static_assert(slab_memory(slabs_of(most_grouped_width), true).stages >= 3,
              "two slabs are on their way while one is multiplied");

#if defined(VICINAL_WARPGROUPS)
/// Where in a ring of as many buffers as there is memory for, and in which phase of its barrier.
struct SlabRing {
  unsigned count, position = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++position == count) position = 0, parity ^= 1;
  }
};

/// A block's shared memory with its barriers. Who waits at one meets its every phase.
struct SlabBlock {
  SlabMemory memory;
  int slabs, held, last_steps;  // held: in registers; steps: of 32 columns, of the last slab
  unsigned at, pairs_bytes;     // pairs_bytes: of a stage
  GroupCoeffs* coeffs;          // of queries
  GroupNorms* norms;            // of queries as rows, where tiles serve both sides
  Barrier full, empty, queries_full, queries_empty, turns;

  __device__ __forceinline__ SlabBlock(unsigned char* base, const SearchArgs& args, bool symmetric)
      : memory(slab_memory(slabs_of(args.rows.width), symmetric)), slabs(slabs_of(args.rows.width)),
        held(held_slabs(slabs)), last_steps((static_cast<int>(args.rows.dims) - (slabs - 1) * slab_columns + 31) / 32),
        at(of_warp(shared_address(base))), pairs_bytes(symmetric ? 2 * tile_pairs_bytes : tile_pairs_bytes),
        coeffs(reinterpret_cast<GroupCoeffs*>(base + memory.coeffs)),
        norms(reinterpret_cast<GroupNorms*>(base + memory.norms)), full{at + static_cast<unsigned>(memory.barriers)},
        empty(full[static_cast<unsigned>(memory.stages)]), queries_full(empty[static_cast<unsigned>(memory.stages)]),
        queries_empty(queries_full[1]), turns(queries_full[2]) {}
  __device__ __forceinline__ void init_barriers() const {
    if (thread_index() == 0) {
      for (int i = 0; i < memory.stages; ++i)
        init_barrier(full[static_cast<unsigned>(i)], 1), init_barrier(empty[static_cast<unsigned>(i)], slab_consumers);
      init_barrier(queries_full, 1);
      init_barrier(queries_empty, slab_consumers);
      for (unsigned i = 0; i < slab_warpgroups; ++i) init_barrier(turns[i], 4);
      fence_barriers();
    }
    __syncthreads();
  }
  /// A slab of a warpgroup's queries that is not held.
  __device__ __forceinline__ unsigned queries_at(int slab, int group) const {
    return at + static_cast<unsigned>(memory.queries) +
           static_cast<unsigned>((slab - held) * slab_warpgroups + group) * (slab_bytes / 2);
  }
};

/// Which half of a tile a warpgroup's queries are; of groups beyond them all it is some other, of which nothing passes.
struct QueryHalf {
  std::int64_t tile;
  int half;
  __device__ __forceinline__ QueryHalf(const SearchArgs& args, unsigned block, int group) {
    const std::int64_t which = static_cast<std::int64_t>(block) * slab_warpgroups + group,
                       last = args.queries.tiles() * 2 - 1;
    tile = (which < last ? which : last) / 2;
    half = static_cast<int>((which < last ? which : last) % 2);
  }
  __device__ __forceinline__ const std::int8_t* slab(const SearchArgs& args, int s) const {
    return args.queries.bytes + tile * tile_rows * args.queries.width + static_cast<std::int64_t>(s) * slab_bytes;
  }
};

/// The products of a tile with a warpgroup's queries, a slab a stage.
/// What the last slab's stage holds is there until release_last().
template <int held>
class TileProducts {
 public:
  __device__ __forceinline__ TileProducts(const SlabBlock& shared, int group)
      : shared_(shared), group_(group), ring_{static_cast<unsigned>(shared.memory.stages)} {}

  __device__ __forceinline__ void multiply(const std::uint32_t (&queries)[4 * held][4], int (&sums)[64]) {
    if (takes_turns(shared_.slabs) && group_ > 0) wait_for(shared_.turns[static_cast<unsigned>(group_ - 1)], turn_);
    turn_ ^= 1;
    fence_products();
#pragma unroll
    for (int s = 0; s < held; ++s) {
      const std::uint64_t rows = begin();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (s + k == 0) wgmma_64x128x32<false>(sums, queries[0], rows);
        else wgmma_64x128x32<true>(sums, queries[4 * s + k], rows + 2 * k);
      }
      end(s > 0);
      if (s == 2 && group_ + 1 < slab_warpgroups && one_lane()) arrive(shared_.turns[static_cast<unsigned>(group_)]);
    }
#pragma unroll 1
    for (int s = held; s + 1 < shared_.slabs; ++s) multiply_slab<4>(s, sums);
    // Columns beyond the last one are not multiplied. A case has all of
    // its products, for the compiler waits where they depend on a branch.
    switch (shared_.last_steps) {
      case 1: return multiply_slab<1>(shared_.slabs - 1, sums);
      case 2: return multiply_slab<2>(shared_.slabs - 1, sums);
      case 3: return multiply_slab<3>(shared_.slabs - 1, sums);
      default: return multiply_slab<4>(shared_.slabs - 1, sums);
    }
  }
  /// Where in shared memory is what is known of the tile's pairs of groups.
  __device__ __forceinline__ unsigned pairs_at() const {
    return shared_.at + static_cast<unsigned>(shared_.memory.pairs) + last_ * shared_.pairs_bytes;
  }
  __device__ __forceinline__ void release_last() {
    if (one_lane()) arrive(shared_.empty[last_]);
  }

 private:
  template <int steps>
  __device__ __forceinline__ void multiply_slab(int slab, int (&sums)[64]) {
    const std::uint64_t rows = begin(), queries = operand_at<slab_columns>(shared_.queries_at(slab, group_));
#pragma unroll
    for (int k = 0; k < steps; ++k) wgmma_64x128x32(sums, queries + 2 * k, rows + 2 * k, true);
    end(true);
  }
  /// The next slab of rows, when it is there.
  __device__ __forceinline__ std::uint64_t begin() const {
    wait_for(shared_.full[ring_.position], ring_.parity);
    return operand_at<slab_columns>(shared_.at + ring_.position * slab_bytes);
  }
  /// follows: another slab of the tile, which is given back.
  __device__ __forceinline__ void end(bool follows) {
    commit_products();
    if (follows) {
      wait_for_operands<1>();
      release_last();
    }
    last_ = ring_.position;
    ring_.next();
  }

  const SlabBlock& shared_;
  int group_;
  SlabRing ring_;
  unsigned last_ = 0, turn_ = 0;  // last: stage; turn: parity of the tile
};

template <int held, bool symmetric>
__device__ __forceinline__ void consume_slabs(const Filter& f, const SlabBlock& shared, unsigned units) {
  const int group = of_warp(warp_index() / 4), member = lane_index() % 4;
  const std::uint32_t segment = blockIdx.x * slab_consumers + static_cast<unsigned>(warp_index());
  GroupOutput out(f, segment);
  const int shift = lost_product_bits(f.args.rows.width) - 8;
  GroupCoeffs* const coeffs = shared.coeffs + warp_index() * 16;
  const unsigned coeffs_at = shared_address(coeffs + lane_index() / 4),
                 pair_at = static_cast<unsigned>(member) * static_cast<unsigned>(sizeof(GroupNorms));
  GroupNorms* const norms = shared.norms + warp_index() * 16;
  TileProducts<held> products(shared, group);
  unsigned round = 0;
#pragma unroll 1
  for (unsigned u = blockIdx.x; u < units; u += gridDim.x, round ^= 1) {
    const GroupUnit unit(f, u);
    std::uint32_t queries[4 * held][4];
    const QueryHalf from(f.args, unit.block, group);
#pragma unroll
    for (int s = 0; s < held; ++s)
      load_queries<slab_columns>(from.slab(f.args, s), from.half,
                                 *reinterpret_cast<std::uint32_t(*)[4][4]>(queries + 4 * s));
    const std::uint32_t query = unit.block * slab_queries + static_cast<unsigned>(warp_index() * 16);
    if constexpr (symmetric) load_both_sides(f.sides + query, coeffs, norms);
    else load_group_coeffs(f.args, query, coeffs);
    wait_for(shared.queries_full, round);
    unsigned tile = unit.tile;
#pragma unroll 1
    for (unsigned t = 0; t < unit.tiles; ++t, tile = tile_after(f, tile)) {
      // Sums of a tile, and what they are compared with.
      int sums[64];
      products.multiply(queries, sums);
      const auto pair = load_shared<GroupNorms>(products.pairs_at() + pair_at);
      const TwoCoeffs both(coeffs_at);
      float thresholds[2] = {group_threshold(both.of[0], pair), group_threshold(both.of[1], pair)};
      if constexpr (symmetric) {
        const auto loosest = load_shared<GroupCoeffs>(products.pairs_at() + tile_pairs_bytes + pair_at);
        lower_by_other_side(thresholds, loosest, OfTwo<GroupNorms>(shared_address(norms + lane_index() / 4)));
      }
      wait_for_products<0>(sums);
      products.release_last();
      test_groups(f, sums, thresholds, query, tile, 0, out, held == 1 ? 0 : shift);
    }
    __syncwarp();  // of a unit without tiles nothing else says that all lanes have seen the queries
    if (lane_index() == 0) arrive(shared.queries_empty);
  }
  if (lane_index() == 0) f.used[segment] = out.next - out.first;
}

/// The work of the thread that copies.
__device__ __forceinline__ void copy_row_slabs(const Filter& f, const SlabBlock& shared, unsigned units) {
  SlabRing ring{static_cast<unsigned>(shared.memory.stages)};
  unsigned round = 0;
  for (unsigned u = blockIdx.x; u < units; u += gridDim.x, round ^= 1) {
    const GroupUnit unit(f, u);
    wait_for(shared.queries_empty, round ^ 1);
    arrive_expecting(shared.queries_full, (shared.slabs - shared.held) * slab_warpgroups * (slab_bytes / 2));
    for (int group = 0; group < slab_warpgroups; ++group) {
      const QueryHalf from(f.args, unit.block, group);
      for (int s = shared.held; s < shared.slabs; ++s)
        copy_bulk(shared.queries_at(s, group), from.slab(f.args, s) + from.half * (slab_bytes / 2), slab_bytes / 2,
                  shared.queries_full);
    }
    unsigned tile = unit.tile;
    for (unsigned t = 0; t < unit.tiles; ++t, tile = tile_after(f, tile))
      for (int s = 0; s < shared.slabs; ++s, ring.next()) {
        const unsigned stage = ring.position;
        const bool last = s + 1 == shared.slabs;
        wait_for(shared.empty[stage], ring.parity ^ 1);
        arrive_expecting(shared.full[stage], slab_bytes + (last ? shared.pairs_bytes : 0u));
        copy_bulk(shared.at + stage * slab_bytes,
                  f.args.rows.bytes + static_cast<std::int64_t>(tile) * tile_rows * f.args.rows.width +
                      static_cast<std::int64_t>(s) * slab_bytes,
                  slab_bytes, shared.full[stage]);
        if (!last) continue;
        const unsigned pairs = shared.at + static_cast<unsigned>(shared.memory.pairs) + stage * shared.pairs_bytes;
        copy_bulk(pairs, f.args.rows.tile_metadata[tile].pairs, tile_pairs_bytes, shared.full[stage]);
        if (f.serves_both())
          copy_bulk(pairs + tile_pairs_bytes, f.loosest + static_cast<std::int64_t>(tile) * pairs_a_tile,
                    tile_pairs_bytes, shared.full[stage]);
      }
  }
}
#endif

/// held: held_slabs() of the rows.
template <int held, bool symmetric>
__global__ void __launch_bounds__(slab_threads, 1) filter_int8_wgmma_slabs(Filter f) {
#if defined(VICINAL_WARPGROUPS)
  unsigned char* base = dynamic_shared<unsigned char>();
  base += (1024 - (shared_address(base) & 1023)) & 1023;
  const SlabBlock shared(base, f.args, symmetric);
  shared.init_barriers();
  wait_for_earlier();
  const auto units = static_cast<unsigned>(f.blocks * f.parts);
  if (warp_index() < slab_consumers) {
    request_registers<160>();
    consume_slabs<held, symmetric>(f, shared, units);
  } else {
    release_registers<32>();
    if (thread_index() == 32 * slab_consumers) copy_row_slabs(f, shared, units);
  }
#else
  static_cast<void>(f);
  __trap();  // is_present() keeps it from being launched
#endif
}

/// The kernel for a launch.
template <int held>
inline auto slabs_kernel(const Filter& f) {
  return f.serves_both() ? filter_int8_wgmma_slabs<held, true> : filter_int8_wgmma_slabs<held, false>;
}

}  // namespace vicinal::cuda
