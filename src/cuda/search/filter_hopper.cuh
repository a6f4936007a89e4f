// FILTER by wgmma, for compute capability 9.0: the same as filter.cuh by other instructions. Of five groups of four warps one brings what
// the others need: a warp asks for tiles by bulk copies, three take their rows' seeds and the queries' limits. The other four multiply
// 64 queries each with the 128 rows of a tile and test the sums; while one of them tests, the others have the tensor cores.
// The only kernel that the emulator does not run; what it finds is handed out by the code that it does run.
#pragma once
#include "cuda/ptx/wgmma.cuh"
#include "cuda/search/filter.cuh"

namespace vicinal::cuda {

inline constexpr int hopper_threads = 640;
inline constexpr int faces = 4;  // tiles whose seeds and limits are there at a time

struct HopperMemory {
  int stages, stage_bytes;
  std::int64_t heads, queries, lines, limits, seeds, inverses, scratch, barriers, all;
};
VICINAL_HOST_DEVICE inline constexpr HopperMemory hopper_memory(int slab, bool slabs) {
  HopperMemory m{};
  m.stages = slabs ? 3 : 5;
  m.stage_bytes = (tile_rows + (slabs ? block_queries : 0)) * slab;
  m.queries = static_cast<std::int64_t>(m.stages) * m.stage_bytes;
  m.heads = m.queries + (slabs ? 0 : block_queries * slab);
  m.lines = m.heads + faces * static_cast<std::int64_t>(sizeof(TileHead));
  m.limits = m.lines + block_queries * static_cast<std::int64_t>(sizeof(QuickLine));
  m.seeds = m.limits + faces * block_queries * 4;
  m.inverses = m.seeds + faces * block_queries * 4;
  m.scratch = m.inverses + 16;
  m.barriers = m.scratch + hopper_warps * 32 * 18 * 4;
  m.all = m.barriers + (2 * m.stages + 3 * faces + 2) * 8 + 1024;  // slabs begin at multiples of 1024
  return m;
}

template <int slab, bool slabs_of_queries, bool seeding>
__global__ void __launch_bounds__(hopper_threads, 1) filter_hopper(Filter f) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int slab_steps = slab / 32, tile_bytes = tile_rows * slab;
  constexpr HopperMemory memory = hopper_memory(slab, slabs_of_queries);
  constexpr int stages = memory.stages, consumers = hopper_warps, facing_threads = 96;
  const SearchJob& job = f.job;
  unsigned char* base = dynamic_shared<unsigned char>();
  base += (1024 - (shared_address(base) & 1023)) & 1023;
  auto* const lines = reinterpret_cast<QuickLine*>(base + memory.lines);
  auto* const all_limits = reinterpret_cast<int*>(base + memory.limits);
  auto* const all_seeds = reinterpret_cast<int*>(base + memory.seeds);
  auto* const inverses = reinterpret_cast<double*>(base + memory.inverses);
  auto* const full = reinterpret_cast<Barrier*>(base + memory.barriers);
  Barrier *const empty = full + stages, *const faced = empty + stages, *const tested = faced + faces, *const headed = tested + faces, *const queries_there = headed + faces,
                 *const queries_done = queries_there + 1;
  const std::int64_t width = job.rows.width;
  const int slabs = slabs_of_queries ? static_cast<int>(width / slab) : 1;
  if (thread_index() == 0) {
    for (int i = 0; i < stages; ++i) start_barrier(full + i, 1), start_barrier(empty + i, consumers);
    for (int i = 0; i < faces; ++i) start_barrier(faced + i, facing_threads), start_barrier(tested + i, consumers), start_barrier(headed + i, 1);
    start_barrier(queries_there, 1);
    start_barrier(queries_done, consumers);
    show_barriers();
  }
  __syncthreads();
  const auto part_of = [&](std::int64_t unit, std::int64_t& block, std::int64_t& first, int& tiles) {
    block = unit % f.blocks;
    first = f.first + unit / f.blocks * f.part;
    tiles = static_cast<int>((first + f.part < f.last ? first + f.part : f.last) - first);
  };
  const std::int64_t units = f.blocks * f.parts;

  if (warp_index() < 4) {
    give_registers<64>();
    unsigned step = 0, turn = 0, round = 0;
    for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x, ++round) {
      std::int64_t block, first;
      int tiles;
      part_of(unit, block, first, tiles);
      std::int64_t tile = job.visits.at(first);
      if (warp_index() == 0) {
        if (lane_index() == 0) {
          const std::int8_t* queries = job.queries.bytes + block * block_queries * width;
          if constexpr (!slabs_of_queries) {
            wait_for(queries_done, (round & 1) ^ 1);
            arrive_expecting(queries_there, 2 * tile_bytes);
            copy_bulk(base + memory.queries, queries, 2 * tile_bytes, queries_there);
          }
          for (int t = 0; t < tiles; ++t, ++turn, tile = job.visits.after(tile)) {
            const unsigned face = turn % faces;
            wait_for(tested + face, (turn / faces & 1) ^ 1);
            arrive_expecting(headed + face, sizeof(TileHead));
            copy_bulk(base + memory.heads + face * sizeof(TileHead), job.rows.heads + tile, sizeof(TileHead), headed + face);
            for (int s = 0; s < slabs; ++s, ++step) {
              const unsigned stage = step % stages;
              wait_for(empty + stage, (step / stages & 1) ^ 1);
              arrive_expecting(full + stage, memory.stage_bytes);
              unsigned char* to = base + stage * memory.stage_bytes;
              copy_bulk(to, job.rows.bytes + tile * tile_rows * width + s * tile_bytes, tile_bytes, full + stage);
              if constexpr (slabs_of_queries) {
                copy_bulk(to + tile_bytes, queries + s * tile_bytes, tile_bytes, full + stage);
                copy_bulk(to + 2 * tile_bytes, queries + tile_rows * width + s * tile_bytes, tile_bytes, full + stage);
              }
            }
          }
        }
        __syncwarp();
        continue;
      }
      // Warps 1 to 3. Lines of the unit before are not read any more: they are read here alone.
      const int i0 = thread_index() - 32;
      const auto together = [] { asm volatile("bar.sync 1, 96;" ::: "memory"); };
      together();
      for (int i = i0; i < block_queries; i += facing_threads) lines[i] = line_of(job, block * block_queries + i);
      if (i0 < 2) inverses[i0] = query_inverse(job, block, i0);
      together();
      for (int t = 0; t < tiles; ++t, ++turn, tile = job.visits.after(tile)) {
        const unsigned face = turn % faces;
        const TileHead& head = *reinterpret_cast<const TileHead*>(base + memory.heads + face * sizeof(TileHead));
        wait_for(headed + face, turn / faces & 1);
        const FilterNorms maxima = head.maxima;
        const double of_rows[2] = {inverses[0] * head.inverse, inverses[1] * head.inverse};
#pragma unroll
        for (int j = 0; j < (block_queries + facing_threads - 1) / facing_threads; ++j) {
          const int i = i0 + j * facing_threads;
          if (i >= block_queries) break;
          const double inverse = i < tile_rows ? of_rows[0] : of_rows[1];
          all_seeds[face * block_queries + i] = seed_of<seeding>(job, head.terms[i % tile_rows], tile * tile_rows + i % tile_rows, inverse);
          all_limits[face * block_queries + i] = limit_of(lines[i], maxima, inverse);
        }
        arrive(faced + face);
      }
    }
    return;
  }

  take_registers<104>();
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int group_queries = (warp_index() / 4 - 1) * 64, half = group_queries / tile_rows, warp_queries = group_queries + warp_index() % 4 * 16;
  const std::int64_t stretch = static_cast<std::int64_t>(blockIdx.x) * consumers + warp_index() - 4;
  int* const scratch = reinterpret_cast<int*>(base + memory.scratch) + (warp_index() - 4) * 32 * note_pitch<8>;
  std::uint32_t used = 0;
  unsigned step = 0, turn = 0, round = 0;
  int sums[64];
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x, ++round) {
    std::int64_t block, first;
    int tiles;
    part_of(unit, block, first, tiles);
    std::int64_t tile = job.visits.at(first);
    if constexpr (!slabs_of_queries) wait_for(queries_there, round & 1);
    for (int t = 0; t < tiles; ++t, ++turn, tile = job.visits.after(tile)) {
      for (int s = 0; s < slabs; ++s, ++step) {
        const unsigned stage = step % stages;
        wait_for(full + stage, step / stages & 1);
        const unsigned char* rows = base + stage * memory.stage_bytes;
        const unsigned char* queries = (slabs_of_queries ? rows + tile_bytes : base + memory.queries) + group_queries * slab;
        open_products();
#pragma unroll
        for (int k = 0; k < slab_steps; ++k) wgmma_64x128x32(sums, operand_at<slab>(queries) + 2 * k, operand_at<slab>(rows) + 2 * k, s + k > 0);
        close_products();
        wait_for_products(sums);
        if (lane == 0) arrive(empty + stage);
      }
      const unsigned face = turn % faces;
      wait_for(faced + face, turn / faces & 1);
      const int* seeds = all_seeds + face * block_queries + half * tile_rows + 2 * member;
      const std::int64_t query = block * block_queries + warp_queries + group;
      if constexpr (seeding) {
        const FilterNorms maxima = job.rows.heads[tile].maxima;
        const double one = byte_unit(job.model.form, job.queries.heads[2 * block + half < job.queries.tiles() ? 2 * block + half : 2 * block].step, job.rows.heads[tile].step);
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
          for (int g = 0; g < 2; ++g) {
            int most = -0x7fffffff - 1;
#pragma unroll
            for (int i = 8 * g; i < 8 * g + 8; ++i) {
              const int2 seed = *reinterpret_cast<const int2*>(seeds + 8 * i);
              most = __viaddmax_s32(sums[4 * i + 2 * h], seed.x, most);
              most = __viaddmax_s32(sums[4 * i + 2 * h + 1], seed.y, most);
            }
            seed_upper(f, query + h * 8, most, one, maxima, (first + t - f.first) * groups_a_tile + g * 4 + member);
          }
      } else {
        // Of a query and half the rows the nearest: a half without a hit is not looked at again.
        int limits[2], nearest[2][2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          limits[h] = all_limits[face * block_queries + warp_queries + group + h * 8];
          nearest[h][0] = nearest[h][1] = -0x7fffffff - 1;
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int2 seed = *reinterpret_cast<const int2*>(seeds + 8 * i);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            sums[4 * i + 2 * h] += seed.x;
            sums[4 * i + 2 * h + 1] += seed.y;
            nearest[h][i / 8] = max(max(nearest[h][i / 8], sums[4 * i + 2 * h]), sums[4 * i + 2 * h + 1]);
          }
        }
        const bool any = max(nearest[0][0], nearest[0][1]) >= limits[0] || max(nearest[1][0], nearest[1][1]) >= limits[1];
        if (__any_sync(all_lanes, any)) {
          const std::int64_t left = job.rows.count - tile * tile_rows;  // rows beyond are none
          const int rows_left = static_cast<int>(left < tile_rows ? left : tile_rows);
#pragma unroll
          for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int g = 0; g < 2; ++g)
              note_hits<8>(f, scratch, nearest[h][g] >= limits[h], limits[h], static_cast<std::uint32_t>(block * block_queries + warp_queries + h * 8),
                           static_cast<std::uint32_t>(tile * tile_rows) + 64 * g, rows_left - 64 * g, f.found + stretch * f.room, used,
                           [&](int i) { return SumPair{sums[4 * (8 * g + i) + 2 * h], sums[4 * (8 * g + i) + 2 * h + 1]}; });
        }
      }
      __syncwarp();
      if (lane == 0) arrive(tested + face);
    }
    if constexpr (!slabs_of_queries)
      if (lane == 0) arrive(queries_done);
  }
  if (!seeding && lane == 0) f.used[stretch] = used;
#endif
}

}  // namespace vicinal::cuda
