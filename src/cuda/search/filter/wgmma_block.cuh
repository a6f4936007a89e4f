// A block of int8_wgmma.cuh: its threads, its shared memory, and the barriers there, by which the producer and the
// consumers wait for each other.
#pragma once
#include "cuda/ptx/wgmma.cuh"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

inline constexpr int wgmma_threads = 640, wgmma_warps = 16;  // of a block; warps: those that multiply and test
inline constexpr int bound_tiles = 8;                        // tiles whose biases and thresholds are there at a time
static_assert(
    bound_tiles % 2 == 0,
    "warpgroups that share tiles each have slots of their own, for who waits at a barrier must meet its every phase");

/// Where each part of a block's shared memory begins, in bytes.
struct WgmmaMemory {
  int stages, stage_bytes;
  std::int64_t tile_metadata, queries, thresholds, biases, barriers, all;
};
VICINAL_HOST_DEVICE inline constexpr WgmmaMemory wgmma_memory(int slab, bool slabs) {
  WgmmaMemory m{};
  m.stages = slabs ? 4 : 6;
  m.stage_bytes = (tile_rows + (slabs ? block_queries : 0)) * slab;
  m.queries = static_cast<std::int64_t>(m.stages) * m.stage_bytes;
  m.tile_metadata = m.queries + (slabs ? 0 : block_queries * slab);
  m.thresholds = m.tile_metadata + bound_tiles * static_cast<std::int64_t>(sizeof(TileMetadata));
  m.biases = m.thresholds + bound_tiles * block_queries * 4;
  m.barriers = m.biases + bound_tiles * block_queries * 4;
  m.all = m.barriers + (2 * m.stages + 3 * bound_tiles + 2) * 8 + 1024;  // slabs begin at multiples of 1024
  return m;
}
static_assert(wgmma_memory(64, false).all <= 227 << 10 && wgmma_memory(128, false).all <= 227 << 10 &&
                  wgmma_memory(128, true).all <= 227 << 10,
              "a block has 227 KB at compute capability 9.0");

/// Where in a ring of buffers, and in which phase of its barrier.
template <int count>
struct Ring {
  unsigned position = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++position == count) position = 0, parity ^= 1;
  }
};

#if defined(VICINAL_WARPGROUPS)
/// A block's shared memory with its barriers.
template <int slab, bool slabs_of_queries>
struct WgmmaBlock {
  static constexpr WgmmaMemory memory = wgmma_memory(slab, slabs_of_queries);
  static constexpr int stages = memory.stages, tile_bytes = tile_rows * slab;
  static constexpr bool shifted = !slabs_of_queries;  // keys of sums (wgmma_keys.cuh)
  unsigned at;                                        // where it begins, as barriers and copies are told it
  int *thresholds, *biases;                           // block_queries each, of bound_tiles tiles
  // Of a stage of the ring; of a bound tile; of the queries of one slab.
  Barrier full, empty, bounds_full, bounds_empty, metadata_full, queries_full, queries_empty;
  int slabs;  // of a row

  /// base: dynamic shared memory, from a multiple of 1024 on.
  __device__ __forceinline__ WgmmaBlock(unsigned char* base, const SearchArgs& args)
      : at(shared_address(base)), thresholds(reinterpret_cast<int*>(base + memory.thresholds)),
        biases(reinterpret_cast<int*>(base + memory.biases)), full{at + static_cast<unsigned>(memory.barriers)},
        empty(full[stages]), bounds_full(empty[stages]), bounds_empty(bounds_full[bound_tiles]),
        metadata_full(bounds_empty[bound_tiles]), queries_full(metadata_full[bound_tiles]),
        queries_empty(queries_full[1]), slabs(slabs_of_queries ? static_cast<int>(args.rows.width / slab) : 1) {}
  /// testers: warps that test a tile.
  __device__ __forceinline__ void init_barriers(int testers) const {
    if (thread_index() == 0) {
      for (int i = 0; i < stages; ++i) init_barrier(full[i], 1), init_barrier(empty[i], testers);
      for (int i = 0; i < bound_tiles; ++i)
        init_barrier(bounds_full[i], 1), init_barrier(bounds_empty[i], testers), init_barrier(metadata_full[i], 1);
      init_barrier(queries_full, 1);
      init_barrier(queries_empty, wgmma_warps);
      fence_barriers();
    }
    __syncthreads();
  }
};
#endif

}  // namespace vicinal::cuda
