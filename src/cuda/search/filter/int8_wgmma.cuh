// FILTER by wgmma, for compute capability 9.0: the same as filter.cuh by other instructions. Of five groups of four warps one brings what
// the others need: a warp asks for tiles by bulk copies, three take turns at a tile's seeds and limits. The other four groups multiply
// 64 queries each with the 128 rows of a tile and test the sums; while one of them tests, the others have the tensor cores. Where two groups
// would have no queries (`shares`), every other tile is theirs with the queries of the first two: then tiles come as fast as memory brings them.
// The only kernel that the emulator does not run; what it finds is handed out by the code that it does run.
//
// A lane has 16 sums of a query in each half of a tile. They become keys, whose low four bits say which of the 16 it is: the largest
// key of a lane then tells a sum and its row, and the next largest is one instruction a sum away.
#pragma once
#include "cuda/device/device.hpp"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/search/filter/int8_mma.cuh"

namespace vicinal::cuda {

inline constexpr int wgmma_threads = 640, wgmma_warps = 16;  // of a block; warps: those that multiply and test
/// The largest threshold in int8: above all sums of one slab or of more; keys, of one slab shifted by 4, are less than 2^31 apart.
VICINAL_HOST_DEVICE inline constexpr float wgmma_threshold(bool one_slab) {
  return one_slab ? 0x1p-4F * most_quick_threshold : most_quick_threshold;
}
inline constexpr int faces = 8;  // tiles whose seeds and limits are there at a time
static_assert(
    faces % 2 ==
    0);  // of groups that share tiles each has its own of these, for who waits at a barrier must meet its every phase

struct WgmmaMemory {
  int stages, stage_bytes;
  std::int64_t heads, queries, limits, seeds, barriers, all;
};
VICINAL_HOST_DEVICE inline constexpr WgmmaMemory wgmma_memory(int slab, bool slabs) {
  WgmmaMemory m{};
  m.stages = slabs ? 4 : 6;
  m.stage_bytes = (tile_rows + (slabs ? block_queries : 0)) * slab;
  m.queries = static_cast<std::int64_t>(m.stages) * m.stage_bytes;
  m.heads = m.queries + (slabs ? 0 : block_queries * slab);
  m.limits = m.heads + faces * static_cast<std::int64_t>(sizeof(TileHead));
  m.seeds = m.limits + faces * block_queries * 4;
  m.barriers = m.seeds + faces * block_queries * 4;
  m.all = m.barriers + (2 * m.stages + 3 * faces + 2) * 8 + 1024;  // slabs begin at multiples of 1024
  return m;
}
static_assert(wgmma_memory(64, false).all <= 227 << 10 && wgmma_memory(128, false).all <= 227 << 10 &&
                  wgmma_memory(128, true).all <= 227 << 10,
              "a block has 227 KB at compute capability 9.0");

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
static_assert(127 * 127 * 128 < wgmma_threshold(true) && 127.0 * 127 * most_int8_dims < wgmma_threshold(false));
/// Keys of sums: those of one slab are shifted, of longer rows the low bits are given up.
__device__ __forceinline__ int which_of_16(int row) { return (row >> 3 & 7) << 1 | (row & 1); }

template <bool shifted, bool seeding>
__device__ __forceinline__ int face_seed(float term, int row, double inverse) {
  if constexpr (seeding) return int8_bias(term, inverse);
  else if constexpr (shifted)
    return quick_bias(term, static_cast<float>(inverse), wgmma_threshold(true)) * 16 + which_of_16(row);
  else return quick_bias(term, static_cast<float>(inverse), wgmma_threshold(false));
}
template <bool shifted>
__device__ __forceinline__ int face_limit(const ThresholdCoeffsF32& line, float e, float n, float inverse) {
  if (!(line.base > -static_cast<float>(infinite))) return 0x7fffffff;
  if constexpr (!shifted) return quick_threshold(line, e, n, inverse, wgmma_threshold(false)) & ~15;
  return quick_threshold(line, e, n, inverse, wgmma_threshold(true)) * 16;
}

/// What passed of a lane's 16 keys; `most` is the largest. query: of lane 0; row: of the lane's first key in the tile.
template <bool shifted>
__device__ __forceinline__ void note_keys(const Filter& f, const int* keys, int most, int limit, std::uint32_t query,
                                          std::uint32_t place, Found* stretch, std::uint32_t& used) {
  for (;;) {
    const bool passed = most >= limit;
    const unsigned lanes = __ballot_sync(all_lanes, passed);
    if (lanes == 0) return;
    const std::uint32_t which = query + static_cast<std::uint32_t>(lane_index() / 4),
                        next = used + static_cast<std::uint32_t>(__popc(lanes));
    if (next > f.room) {
      if (passed) f.job.states[which].lost = true;
      return;
    }
    if (passed)
      stretch[used + static_cast<std::uint32_t>(votes_below(lanes))] = {
          which, place + static_cast<std::uint32_t>((most & 14) * 4 + (most & 1)), shifted ? most >> 4 : most | 15, 0};
    used = next;
    // The largest of those below: as differences without a sign, the key itself is nothing and a smaller one is far above.
    unsigned below = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      below = __viaddmax_u32(static_cast<unsigned>(keys[4 * i]), 0u - static_cast<unsigned>(most), below);
      below = __viaddmax_u32(static_cast<unsigned>(keys[4 * i + 1]), 0u - static_cast<unsigned>(most), below);
    }
    const int next_most = static_cast<int>(below + static_cast<unsigned>(most));
    if (!passed || below == 0 || next_most > most) limit = 0x7fffffff;
    most = next_most;
  }
}
#endif

/// Where in a ring of buffers, and in which phase of its barrier.
template <int count>
struct Ring {
  unsigned place = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++place == count) place = 0, parity ^= 1;
  }
};

template <int slab, bool slabs_of_queries, bool seeding, bool shares>
__global__ void __launch_bounds__(wgmma_threads, 1) filter_hopper(Filter f) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int slab_steps = slab / 32, tile_bytes = tile_rows * slab;
  constexpr WgmmaMemory memory = wgmma_memory(slab, slabs_of_queries);
  constexpr int stages = memory.stages, consumers = wgmma_warps, facing_warps = 3;
  constexpr bool shifted = !slabs_of_queries;
  static_assert(!shares || (!slabs_of_queries && stages % 2 == 0));
  // A wait for a barrier's parity is right for a thread that is at most one phase behind. The copying warp and the testing groups meet every phase of
  // theirs; a facing warp meets those of every third tile. At tile t it waits for tile t - faces to be tested, and would take the phase before for that
  // one only if tile t - 2 * faces were untested. But it has seen tile t - facing_warps - faces tested when it faced t - facing_warps, and with `shares`
  // tile t - 2 * facing_warps - faces, which is of the same pair of groups as t; groups test their tiles in order, so t - 2 * faces was
  // tested as well: the assertion says that neither is an earlier tile. Its wait for headed[t % faces] is then within one phase, too, since head t - faces
  // was read before its tile was tested.
  static_assert((shares ? 2 : 1) * facing_warps <= faces,
                "a facing warp could take a barrier's phase for the one before");
  const SearchJob& job = f.job;
  unsigned char* base = dynamic_shared<unsigned char>();
  base += (1024 - (shared_address(base) & 1023)) & 1023;
  auto* const all_limits = reinterpret_cast<int*>(base + memory.limits);
  auto* const all_seeds = reinterpret_cast<int*>(base + memory.seeds);
  const unsigned at = shared_address(base);
  const Barrier full{at + static_cast<unsigned>(memory.barriers)},
      empty = full[stages], faced = empty[stages], tested = faced[faces], headed = tested[faces],
      queries_there = headed[faces], queries_done = queries_there[1];
  const std::int64_t width = job.rows.width;
  const int slabs = slabs_of_queries ? static_cast<int>(width / slab) : 1;
  if (thread_index() == 0) {
    constexpr int testers = shares ? consumers / 2 : consumers;  // of a tile
    for (int i = 0; i < stages; ++i) start_barrier(full[i], 1), start_barrier(empty[i], testers);
    for (int i = 0; i < faces; ++i)
      start_barrier(faced[i], 1), start_barrier(tested[i], testers), start_barrier(headed[i], 1);
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

  // What one sort of group gives the other takes: all 640 threads were started with 96 registers.
  if (warp_index() < 4) {
    give_registers<seeding ? 64 : 72>();
    Ring<stages> step;
    unsigned turn = 0, round = 0;
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
            copy_bulk(at + memory.queries, queries, 2 * tile_bytes, queries_there);
          }
          for (int t = 0; t < tiles; ++t, ++turn, tile = job.visits.after(tile)) {
            const unsigned face = turn % faces;
            wait_for(tested[face], (turn / faces & 1) ^ 1);
            arrive_expecting(headed[face], sizeof(TileHead));
            copy_bulk(at + memory.heads + face * sizeof(TileHead), job.rows.heads + tile, sizeof(TileHead),
                      headed[face]);
            for (int s = 0; s < slabs; ++s, step.next()) {
              const unsigned stage = step.place;
              wait_for(empty[stage], step.parity ^ 1);
              arrive_expecting(full[stage], memory.stage_bytes);
              const unsigned to = at + stage * memory.stage_bytes;
              copy_bulk(to, job.rows.bytes + tile * tile_rows * width + s * tile_bytes, tile_bytes, full[stage]);
              if constexpr (slabs_of_queries) {
                copy_bulk(to + tile_bytes, queries + s * tile_bytes, tile_bytes, full[stage]);
                copy_bulk(to + 2 * tile_bytes, queries + tile_rows * width + s * tile_bytes, tile_bytes, full[stage]);
              }
            }
          }
        }
        __syncwarp();
        continue;
      }
      // Warps 1 to 3, a tile each in turn. A lane has four rows, and eight queries of one half, of which it remembers all.
      const int row = 4 * lane_index(), first_query = lane_index() / 16 * tile_rows + lane_index() % 16 * 4;
      const double low_inverse = query_inverse(job, block, 0), high_inverse = query_inverse(job, block, 1);
      const float quick_low = static_cast<float>(low_inverse), quick_high = static_cast<float>(high_inverse);
      ThresholdCoeffsF32 lines[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) lines[i] = coeffs_of(job, block * block_queries + first_query + i / 4 * 64 + i % 4);
      for (int t = 0; t < tiles; ++t, ++turn, tile = job.visits.after(tile)) {
        if (turn % facing_warps != static_cast<unsigned>(warp_index()) - 1) continue;
        const unsigned face = turn % faces;
        const TileHead& head = *reinterpret_cast<const TileHead*>(base + memory.heads + face * sizeof(TileHead));
        wait_for(tested[face],
                 (turn / faces & 1) ^ 1);  // another warp's: its head was there, and the next one is meant
        wait_for(headed[face], turn / faces & 1);
        const float4 four = *reinterpret_cast<const float4*>(head.terms + row);
        float terms[4] = {four.x, four.y, four.z, four.w};
        if (!job.choice.all) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const std::int64_t place = tile * tile_rows + row + i;
            if (place < job.rows.count && !may_answer(job.choice, job.first_row + job.rows.order[place]))
              terms[i] = static_cast<float>(infinite);
          }
        }
#pragma unroll(seeding ? 1 : 2)
        for (int half = 0; half < (shares ? 1 : 2); ++half) {
          double inverse;
          if constexpr (seeding) inverse = (half == 0 ? low_inverse : high_inverse) * head.inverse;
          else inverse = (half == 0 ? quick_low : quick_high) * head.quick_inverse;  // a float
          *reinterpret_cast<int4*>(all_seeds + face * block_queries + half * tile_rows + row) = {
              face_seed<shifted, seeding>(terms[0], row, inverse),
              face_seed<shifted, seeding>(terms[1], row + 1, inverse),
              face_seed<shifted, seeding>(terms[2], row + 2, inverse),
              face_seed<shifted, seeding>(terms[3], row + 3, inverse)};
        }
        if constexpr (!seeding) {
          const float e = head.e, n = head.n,
                      inverse = (lane_index() < 16 ? quick_low : quick_high) * head.quick_inverse;
#pragma unroll
          for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<int4*>(all_limits + face * block_queries + first_query + j / 4 * 64) = {
                face_limit<shifted>(lines[j], e, n, inverse), face_limit<shifted>(lines[j + 1], e, n, inverse),
                face_limit<shifted>(lines[j + 2], e, n, inverse), face_limit<shifted>(lines[j + 3], e, n, inverse)};
        }
        __syncwarp();
        if (lane_index() == 0) arrive(faced[face]);
      }
    }
    return;
  }

  take_registers<seeding ? 104 : 96>();
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int which_group = warp_index() / 4 - 1, pair = which_group >> 1,
            group_queries = (which_group & (shares ? 1 : 3)) * 64, half = group_queries / tile_rows;
  const int warp_queries = group_queries + warp_index() % 4 * 16;
  const std::int64_t stretch = static_cast<std::int64_t>(blockIdx.x) * consumers + warp_index() - 4;
  std::uint32_t used = 0;
  Ring<stages> step;
  unsigned turn = 0, round = 0;
  int sums[64];
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x, ++round) {
    std::int64_t block, first;
    int tiles;
    part_of(unit, block, first, tiles);
    std::int64_t tile = job.visits.at(first);
    if constexpr (!slabs_of_queries) wait_for(queries_there, round & 1);
    for (int t = 0; t < tiles; ++t, ++turn, tile = job.visits.after(tile)) {
      if constexpr (shares) {
        if (turn % 2 != static_cast<unsigned>(pair)) {
          step.next();
          continue;
        }
      }
      for (int s = 0; s < slabs; ++s, step.next()) {
        const unsigned stage = step.place;
        wait_for(full[stage], step.parity);
        const unsigned rows = at + stage * memory.stage_bytes;
        const unsigned queries =
            (slabs_of_queries ? rows + tile_bytes : at + static_cast<unsigned>(memory.queries)) + group_queries * slab;
        open_products();
#pragma unroll
        for (int k = 0; k < slab_steps; ++k)
          wgmma_64x128x32(sums, operand_at<slab>(queries) + 2 * k, operand_at<slab>(rows) + 2 * k, s + k > 0);
        close_products();
        wait_for_products(sums);
        if (lane == 0) arrive(empty[stage]);
      }
      const unsigned face = turn % faces;
      wait_for(faced[face], turn / faces & 1);
      const int* seeds = all_seeds + face * block_queries + half * tile_rows + 2 * member;
      const std::int64_t query = block * block_queries + warp_queries + group;
      if constexpr (seeding) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int nearest[2];
#pragma unroll
          for (int g = 0; g < 2; ++g) {
            int most = -0x7fffffff - 1;
#pragma unroll
            for (int i = 8 * g; i < 8 * g + 8; ++i) {
              const int2 seed = *reinterpret_cast<const int2*>(seeds + 8 * i);
              most = __viaddmax_s32(sums[4 * i + 2 * h], seed.x, most);
              most = __viaddmax_s32(sums[4 * i + 2 * h + 1], seed.y, most);
            }
            nearest[g] = most;
          }
          if (query + h * 8 < job.queries.count)
            *reinterpret_cast<int2*>(f.nearest + (query + h * 8) * f.groups + (first + t - f.first) * groups_a_tile +
                                     2 * member) = {nearest[0], nearest[1]};
        }
      } else {
        int limits[2], most[2][2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          limits[h] = all_limits[face * block_queries + warp_queries + group + h * 8];
          most[h][0] = most[h][1] = -0x7fffffff - 1;
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int2 seed = *reinterpret_cast<const int2*>(seeds + 8 * i);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            int &first_key = sums[4 * i + 2 * h], &second_key = sums[4 * i + 2 * h + 1];
            if constexpr (shifted) {
              first_key = first_key * 16 + seed.x;
              second_key = second_key * 16 + seed.y;
            } else {
              first_key = (first_key + seed.x & ~15) | 2 * (i % 8);
              second_key = (second_key + seed.y & ~15) | 2 * (i % 8) + 1;
            }
            most[h][i / 8] = __vimax3_s32(most[h][i / 8], first_key, second_key);
          }
        }
        const bool any = max(most[0][0], most[0][1]) >= limits[0] || max(most[1][0], most[1][1]) >= limits[1];
        if (__any_sync(all_lanes, any)) {
#pragma unroll
          for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int g = 0; g < 2; ++g)
              note_keys<shifted>(f, sums + 32 * g + 2 * h, most[h][g], limits[h],
                                 static_cast<std::uint32_t>(block * block_queries + warp_queries + h * 8),
                                 static_cast<std::uint32_t>(tile * tile_rows + 64 * g + 2 * member),
                                 f.found + stretch * f.room, used);
        }
      }
      __syncwarp();
      if (lane == 0) arrive(tested[face]);
    }
    if constexpr (!slabs_of_queries)
      if (lane == 0) arrive(queries_done);
  }
  if (!seeding && lane == 0) f.used[stretch] = used;
#else
  static_cast<void>(f);
  __trap();  // is_there() keeps it from being launched: memory that no kernel wrote would be taken for results
#endif
}

/// Whether the code that the driver chose here is that of sm_90a; a build may have some for sm_90, too.
__global__ void tell_wgmma(int* there) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  *there = 1;
#else
  *there = 0;
#endif
}

/// The row of this kernel in table.hpp.
struct Int8Wgmma {
  static constexpr FilterKernel facts{.name = "int8_wgmma",
                                      .instruction_set = "wgmma",
                                      .architecture = "90a",
                                      .accepts = [](Precision precision) { return precision == Precision::int8; },
                                      .tested = true,
                                      .threads = wgmma_threads,
                                      .writing_warps = wgmma_warps,
                                      .shared_bytes =
                                          [](Precision /*precision*/, std::int64_t dims) {
                                            const std::int64_t width = packed_width(dims);
                                            return wgmma_memory(width == 64 ? 64 : 128, width > 128).all;
                                          },
                                      .largest_threshold = wgmma_threshold,
                                      .lost_bits = [](bool one_slab) { return one_slab ? 0 : 15; }};

  template <class Device>
  static bool is_there(Device& device) {
    DeviceBuffer<int, Device> there(device);
    int told = 0;
    device.launch()(1, 1, 0, tell_wgmma, there.reserve(1));
    device.out(&told, there.data(), sizeof told);
    device.wait();
    return told == 1;
  }
  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    const std::int64_t width = f.job.rows.width;
    const bool shares = f.job.queries.count <= tile_rows;
    const auto kernel =
        width > 128 ? filter_hopper<128, true, sampling, false>
        : width == 64
            ? (shares ? filter_hopper<64, false, sampling, true> : filter_hopper<64, false, sampling, false>)
            : (shares ? filter_hopper<128, false, sampling, true> : filter_hopper<128, false, sampling, false>);
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.job.rows.dims), kernel, f);
  }
};

}  // namespace vicinal::cuda
