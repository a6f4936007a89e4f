// FILTER on tensor cores: products of bytes, exact in 32 bits, tested in the registers where they arise (core/bound.hpp, bytes).
// A block takes 256 queries through some tiles of 128 rows. A sum plus its row's seed is compared with its query's limit and with
// nothing else. What passes goes to a stretch of global memory that the warp has to itself: no counter is asked, and nobody waits.
// A kernel of its own hands it out to the queries' slots.
//
// Here with mma.sync, for every device from compute capability 8.0 on and for the emulator: 16 warps of 32 queries x 64 rows, rows by
// asynchronous copies some tiles ahead. Queries of one slab stay in registers, longer ones come slab by slab with the rows.
// int8_wgmma.cuh is the same with wgmma.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/filter/kernel.hpp"
#include "cuda/search/filter/precision.hpp"
#include "cuda/search/prepare/element.cuh"

namespace vicinal::cuda {

inline constexpr int filter_threads = 512, filter_warps = filter_threads / 32;

struct Filter {
  SearchJob job;
  std::int64_t first = 0, last = 0;  // visits
  std::int64_t part = 1, parts = 1;  // tiles of a unit of work, units a block of queries
  std::int64_t blocks = 1;           // of queries
  Found* found = nullptr;            // of each warp of the grid `room` entries
  std::uint32_t* used = nullptr;     // of each warp
  std::int64_t room = 0;
  bool everything = false;  // no threshold is known, all pairs will be found
  int* nearest = nullptr;   // seeding: of each query and group of rows, its largest sum
  std::int64_t groups = 0;  // groups_a_tile of each visit, in any order
  bool seeding = false;
};

/// Bytes of shared memory.
struct FilterMemory {
  int stages, stage_bytes;
  std::int64_t heads, queries, lines, limits, seeds, facts, scratch, all;
};
VICINAL_HOST_DEVICE inline constexpr FilterMemory filter_memory(int slab, bool slabs) {
  FilterMemory m{};
  m.stages = slabs ? 3 : 4;
  m.stage_bytes = (tile_rows + (slabs ? block_queries : 0)) * slab;
  m.heads = static_cast<std::int64_t>(m.stages) * m.stage_bytes;
  m.queries = m.heads + m.stages * static_cast<std::int64_t>(sizeof(TileHead));
  m.lines = m.queries + (slabs ? 0 : block_queries * slab);
  m.limits = m.lines + block_queries * static_cast<std::int64_t>(sizeof(ThresholdCoeffsF32));
  m.seeds = m.limits + 2 * block_queries * 4;
  m.facts = m.seeds + 2 * 2 * tile_rows * 4;
  m.scratch = m.facts + 64;
  m.all = m.scratch + filter_warps * 32 * 18 * 4;
  return m;
}

__device__ __forceinline__ bool may_answer(const RowChoice& choice, std::int64_t row) {
  if (choice.all) return true;
  if (row < choice.begin || row >= choice.end) return false;
  return choice.bits == nullptr || (choice.bits[row >> 6] >> (row & 63) & 1) != 0;
}
__device__ __forceinline__ bool may_answer(const RowChoice& choice, std::int64_t query, std::int64_t row) {
  if (choice.labelled && (choice.row_labels[row] == choice.query_labels[query]) != choice.same_label) return false;
  return !choice.without_self || row != query;
}
/// Whether a row of the chunk may answer a query of the batch.
__device__ __forceinline__ bool may_pair(const SearchJob& job, std::int64_t query, std::int64_t row) {
  return job.choice.all || (may_answer(job.choice, job.first_row + row) &&
                            may_answer(job.choice, job.number_of(query), job.first_row + row));
}

/// A seed for a row, and a limit for a query, against a tile: `inverse` is 1 / (unit of the tile with the query's half).
/// Upper bounds of distances are taken from sums when seeding: then a seed must not be far above what it stands for.
template <bool seeding>
__device__ __forceinline__ int seed_of(const SearchJob& job, float term, std::int64_t place, double inverse) {
  if (!job.choice.all && place < job.rows.count && !may_answer(job.choice, job.first_row + job.rows.order[place]))
    term = static_cast<float>(infinite);
  if constexpr (seeding) return int8_bias(term, inverse);
  else return quick_bias(term, static_cast<float>(inverse));
}
__device__ __forceinline__ int limit_of(const ThresholdCoeffsF32& line, const FilterNorms& maxima, double inverse) {
  return line.base > -static_cast<float>(infinite)
             ? quick_threshold(line, up32(maxima.e), up32(maxima.n), static_cast<float>(inverse))
             : 0x7fffffff;
}
/// What a query excludes; nothing is a candidate of one that is not there.
__device__ __forceinline__ ThresholdCoeffsF32 coeffs_of(const SearchJob& job, std::int64_t place) {
  if (place < job.queries.count) return threshold_coeffs_f32(job.states[place].line);
  return {-static_cast<float>(infinite), 0, 0};
}
/// 1 / step of half a block's queries, halved where the form doubles products.
__device__ __forceinline__ double query_inverse(const SearchJob& job, std::int64_t block, int half) {
  const std::int64_t tile = 2 * block + half < job.queries.tiles() ? 2 * block + half : 2 * block;
  return job.queries.heads[tile].inverse / int8_unit(job.model.sum, 1, 1);
}

struct alignas(8) SumPair {
  int first, second;
};

/// What passed of a group of sums: those of a lane are of one query and of `pairs` pairs of rows, 8 rows apart. Hits are rare, so lanes
/// that have one lay their sums down in shared memory, where the whole warp looks through them, a lane's at a time.
/// query, place: of lane 0; rows_left: from the place on. What finds no room is lost, and its query knows it.
template <int pairs>
inline constexpr int note_pitch = 2 * pairs + 2;
template <int pairs, class Pair>
__device__ __forceinline__ void note_hits(const Filter& f, int* scratch, bool hit, int limit, std::uint32_t query,
                                          std::uint32_t place, int rows_left, Found* stretch, std::uint32_t& used,
                                          const Pair& pair) {
  unsigned lanes = __ballot_sync(all_lanes, hit);
  if (lanes == 0) return;
  if (hit) {
    auto* mine = reinterpret_cast<SumPair*>(scratch + lane_index() * note_pitch<pairs>);
#pragma unroll
    for (int i = 0; i < pairs; ++i) mine[i] = pair(i);
  }
  __syncwarp();
  const int row = lane_index() / 2 * 8 + lane_index() % 2;
  for (; lanes != 0; lanes &= lanes - 1) {
    const int from = __ffs(static_cast<int>(lanes)) - 1, at = row + from % 4 * 2;
    const int bound = __shfl_sync(all_lanes, limit, from);
    int sum = 0;
    bool passed = false;
    if (lane_index() < 2 * pairs) {
      sum = scratch[from * note_pitch<pairs> + lane_index()];
      passed = sum >= bound && at < rows_left;
    }
    const unsigned all = __ballot_sync(all_lanes, passed);
    const std::uint32_t which = query + static_cast<std::uint32_t>(from / 4),
                        next = used + static_cast<std::uint32_t>(__popc(all));
    if (next > f.room) {
      if (passed) f.job.states[which].lost = true;
      continue;
    }
    if (passed)
      stretch[used + static_cast<std::uint32_t>(votes_below(all))] = {which, place + static_cast<std::uint32_t>(at),
                                                                      sum, 0};
    used = next;
  }
  __syncwarp();
}
/// 16 bytes of a line of a slab in shared memory.
template <int slab>
__device__ __forceinline__ unsigned char* line_chunk(unsigned char* tile, int line, int chunk) {
  return tile + line * slab + chunk_place(slab, line, chunk) * 16;
}

__device__ __forceinline__ void copy_slab(unsigned char* to, const void* from, int bytes) {
  for (int i = thread_index() * 16; i < bytes; i += filter_threads * 16)
    copy_16(to + i, static_cast<const unsigned char*>(from) + i);
}

/// slab: bytes of a line. slabs_of_queries: rows of several slabs.
template <int slab, bool slabs_of_queries, bool seeding>
__global__ void __launch_bounds__(filter_threads, 1) filter_bytes(Filter f) {
  constexpr int slab_steps = slab / 32, tile_bytes = tile_rows * slab;
  constexpr FilterMemory memory = filter_memory(slab, slabs_of_queries);
  constexpr int stages = memory.stages;
  const SearchJob& job = f.job;
  auto* const base = dynamic_shared<unsigned char>();
  const auto* const heads = reinterpret_cast<const TileHead*>(base + memory.heads);
  auto* const lines = reinterpret_cast<ThresholdCoeffsF32*>(base + memory.lines);
  auto* const all_limits = reinterpret_cast<int*>(base + memory.limits);
  auto* const all_seeds = reinterpret_cast<int*>(base + memory.seeds);
  auto* const inverses = reinterpret_cast<double*>(base + memory.facts);
  const std::int64_t width = job.rows.width;
  const int slabs = slabs_of_queries ? static_cast<int>(width / slab) : 1;
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int warp_queries = warp_index() / 2 * 32, warp_rows = warp_index() % 2 * 64, half = warp_queries / tile_rows;
  int* const scratch = reinterpret_cast<int*>(base + memory.scratch) + warp_index() * 32 * note_pitch<8>;
  const std::int64_t stretch = static_cast<std::int64_t>(blockIdx.x) * filter_warps + warp_index();
  std::uint32_t used = 0;

  for (std::int64_t unit = blockIdx.x; unit < f.blocks * f.parts; unit += gridDim.x) {
    const std::int64_t block = unit % f.blocks, first = f.first + unit / f.blocks * f.part;
    const std::int64_t last = first + f.part < f.last ? first + f.part : f.last;
    const std::int8_t* queries = job.queries.bytes + block * block_queries * width;
    const int tiles = static_cast<int>(last - first), all = tiles * slabs;
    std::int64_t copy_tile = job.visits.at(first), this_tile = copy_tile;
    int slab_to_copy = 0;
    const auto copy_step = [&](int s) {
      if (s < all) {
        unsigned char* to = base + s % stages * memory.stage_bytes;
        copy_slab(to, job.rows.bytes + copy_tile * tile_rows * width + slab_to_copy * tile_bytes, tile_bytes);
        if (slab_to_copy == 0)
          copy_slab(base + memory.heads + s % stages * sizeof(TileHead), job.rows.heads + copy_tile, sizeof(TileHead));
        if constexpr (slabs_of_queries) {
          copy_slab(to + tile_bytes, queries + slab_to_copy * tile_bytes, tile_bytes);
          copy_slab(to + 2 * tile_bytes, queries + tile_rows * width + slab_to_copy * tile_bytes, tile_bytes);
        }
        if (++slab_to_copy == slabs) {
          slab_to_copy = 0;
          copy_tile = job.visits.after(copy_tile);
        }
      }
      close_copies();
    };
    // Seeds of a tile's rows and limits of the block's queries, before the tile's turn; its first slab is that of step s.
    const auto face = [&](int turn, std::int64_t tile, int s) {
      const TileHead& head = heads[s % stages];
      const int i = thread_index() % block_queries;
      const double inverse = inverses[i / tile_rows] * head.inverse;
      if (thread_index() < block_queries)
        all_seeds[(turn & 1) * block_queries + i] =
            seed_of<seeding>(job, head.terms[i % tile_rows], tile * tile_rows + i % tile_rows, inverse);
      else all_limits[(turn & 1) * block_queries + i] = limit_of(lines[i], head.maxima, inverse);
    };
    __syncthreads();  // of the unit before everything is used
    if constexpr (!slabs_of_queries) copy_slab(base + memory.queries, queries, 2 * tile_bytes);
    if (thread_index() < block_queries) lines[thread_index()] = coeffs_of(job, block * block_queries + thread_index());
    else if (thread_index() < block_queries + 2)
      inverses[thread_index() - block_queries] = query_inverse(job, block, thread_index() - block_queries);
    for (int s = 0; s < stages - 1; ++s) copy_step(s);
    std::uint32_t a[2][slabs_of_queries ? 1 : slab_steps][4];
    wait_for_copies<stages - 2>();
    __syncthreads();
    const auto load_queries = [&](unsigned char* from, int step, std::uint32_t(&to)[4], int m) {
      load_matrices(to, line_chunk<slab>(from + half * tile_bytes,
                                         warp_queries % tile_rows + m * 16 + (lane / 8 & 1) * 8 + lane % 8,
                                         2 * step + lane / 16));
    };
    if constexpr (!slabs_of_queries) {
#pragma unroll
      for (int step = 0; step < slab_steps; ++step)
#pragma unroll
        for (int m = 0; m < 2; ++m) load_queries(base + memory.queries, step, a[m][step], m);
    }
    face(0, this_tile, 0);

    int sums[2][8][4];
    int this_slab = 0, turn = 0;
    for (int s = 0; s < all; ++s) {
      wait_for_copies<stages - 3>();  // of the next step, too, with which the next tile may begin
      __syncthreads();
      copy_step(s + stages - 1);
      if (this_slab == slabs - 1 && turn + 1 < tiles) face(turn + 1, job.visits.after(this_tile), s + 1);
      if (this_slab == 0) {
        const int* seeds = all_seeds + (turn & 1) * block_queries + half * tile_rows + warp_rows;
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int seed = seeds[n * 8 + 2 * member + c];
#pragma unroll
            for (int m = 0; m < 2; ++m) sums[m][n][c] = sums[m][n][2 + c] = seed;
          }
      }
      unsigned char* rows = base + s % stages * memory.stage_bytes;
#pragma unroll
      for (int step = 0; step < slab_steps; ++step) {
        constexpr bool kept = !slabs_of_queries;
        if constexpr (slabs_of_queries) {
#pragma unroll
          for (int m = 0; m < 2; ++m) load_queries(rows + tile_bytes, step, a[m][0], m);
        }
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
          std::uint32_t b[4];
          load_matrices(b,
                        line_chunk<slab>(rows, warp_rows + (n + lane / 16) * 8 + lane % 8, 2 * step + (lane / 8 & 1)));
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            mma_16x8x32(sums[m][n], a[m][kept ? step : 0], b[0], b[1]);
            mma_16x8x32(sums[m][n + 1], a[m][kept ? step : 0], b[2], b[3]);
          }
        }
      }
      if (++this_slab < slabs) continue;
      this_slab = 0;

      const int* limits = all_limits + (turn & 1) * block_queries + warp_queries + group;
      const std::int64_t query = block * block_queries + warp_queries + group;
      int nearest[2][2];
      bool any = false;
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int most = sums[m][0][2 * h];
#pragma unroll
          for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int c = 0; c < 2; ++c) most = most < sums[m][n][2 * h + c] ? sums[m][n][2 * h + c] : most;
          nearest[m][h] = most;
          if constexpr (!seeding) any = any || most >= limits[m * 16 + h * 8];
        }
      if constexpr (seeding) {
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            if (const std::int64_t which = query + m * 16 + h * 8; which < job.queries.count)
              f.nearest[which * f.groups + (first + turn - f.first) * groups_a_tile + 2 * member + warp_rows / 64] =
                  nearest[m][h];
      } else if (__any_sync(all_lanes, any)) {
        const std::int64_t left = job.rows.count - this_tile * tile_rows - warp_rows;  // rows beyond are none
        const int rows_left = static_cast<int>(left < tile_rows ? left : tile_rows);
        const auto place = static_cast<std::uint32_t>(this_tile * tile_rows + warp_rows);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int limit = limits[m * 16 + h * 8];
            note_hits<8>(f, scratch, nearest[m][h] >= limit, limit,
                         static_cast<std::uint32_t>(block * block_queries + warp_queries + m * 16 + h * 8), place,
                         rows_left, f.found + stretch * f.room, used, [&](int i) {
                           return SumPair{sums[m][i][2 * h], sums[m][i][2 * h + 1]};
                         });
          }
      }
      this_tile = job.visits.after(this_tile);
      ++turn;
    }
  }
  if (!seeding && lane == 0) f.used[stretch] = used;
}

/// The row of this kernel in table.hpp.
struct Int8Mma {
  static constexpr FilterKernel facts{.name = "int8_mma",
                                      .instruction_set = "mma",
                                      .architecture = "",
                                      .accepts = [](Precision precision) { return precision == Precision::int8; },
                                      .tested = false,
                                      .threads = filter_threads,
                                      .writing_warps = filter_warps,
                                      .shared_bytes =
                                          [](Precision /*precision*/, std::int64_t dims) {
                                            const std::int64_t width = packed_width(dims);
                                            return filter_memory(width == 64 ? 64 : 128, width > 128).all;
                                          },
                                      .largest_threshold = [](bool /*one_slab*/) { return most_quick_threshold; },
                                      .lost_bits = [](bool /*one_slab*/) { return 0; }};

  template <class Device>
  static bool is_there(Device& /*device*/) {
    return true;
  }
  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    const std::int64_t width = f.job.rows.width;
    const auto kernel = width == 64    ? filter_bytes<64, false, sampling>
                        : width == 128 ? filter_bytes<128, false, sampling>
                                       : filter_bytes<128, true, sampling>;
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.job.rows.dims), kernel, f);
  }
};

/// What warps found goes to the slots of the queries, a stretch a block. A warp finds rows for 32 adjacent queries at most, for a long
/// time: a block counts some hundred finds in shared memory, and asks each query's counter once.
struct HandOut {
  SearchJob job;
  const Found* found = nullptr;
  const std::uint32_t* used = nullptr;
  std::int64_t room = 0, workers = 1;
  int always = 0;  // sums from here on stand for anything
};
/// A t as an integer that falls as it grows, for floats; both zeros are one, and NaN comes before every number: it passes.
inline constexpr int passes_always = 0x7f800001;
__device__ __forceinline__ int falling(float t) {
  if (!(t == t)) return passes_always;
  const int bits = static_cast<int>(bits_of(t + 0.0f));
  return ~(bits ^ (bits >> 31 & 0x7fffffff));
}
__device__ __forceinline__ float risen(int code) {
  if (code == passes_always) return -static_cast<float>(infinite);
  const int ordered = ~code;
  return __uint_as_float(static_cast<std::uint32_t>(ordered ^ (ordered >> 31 & 0x7fffffff)));
}
/// always: sums from here on stand for anything.
__device__ __forceinline__ float found_t(const SearchJob& job, const Found& one, int always) {
  if (job.floats) return risen(one.sum);
  const double unit = int8_unit(job.model.sum, job.queries.heads[one.query / tile_rows].step,
                                job.rows.heads[one.place / tile_rows].step);
  return one.sum < always ? int8_distance(one.sum, unit, 0) : -static_cast<float>(infinite);
}

inline constexpr int hand_out_threads = 128, hand_out_each = 4;
__device__ __forceinline__ bool may_keep(const SearchJob& job, const Found& one) {
  return one.place < job.rows.count &&
         (job.choice.all || may_pair(job, job.queries.order[one.query], job.rows.order[one.place]));
}
__device__ __forceinline__ void keep(const HandOut& h, const Found& one, std::uint32_t at) {
  const SearchJob& job = h.job;
  if (at >= job.capacity) return;  // the count tells it
  job.slots[one.query * job.capacity + at] = {one.place, found_t(job, one, h.always)};
}
__global__ void __launch_bounds__(hand_out_threads) hand_out(HandOut h) {
  VICINAL_SHARED(std::uint32_t, taken, 32);
  constexpr std::uint32_t at_once = hand_out_threads * hand_out_each;
  for (std::int64_t worker = blockIdx.x; worker < h.workers; worker += gridDim.x) {
    const std::uint32_t used = h.used[worker];
    const Found* found = h.found + worker * h.room;
    for (std::uint32_t from = 0; from < used; from += at_once) {
      const std::uint32_t count = used - from < at_once ? used - from : at_once,
                          together = found[from + count / 2].query / 32;
      Found mine[hand_out_each];
      std::uint32_t place[hand_out_each];
      if (thread_index() < 32) taken[thread_index()] = 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < hand_out_each; ++i) {
        const std::uint32_t at = static_cast<std::uint32_t>(i * hand_out_threads + thread_index());
        place[i] = 0xffffffffu;
        if (at >= count) continue;
        mine[i] = found[from + at];
        if (!may_keep(h.job, mine[i])) continue;
        if (mine[i].query / 32 == together) place[i] = atomicAdd(&taken[mine[i].query % 32], 1u);
        else keep(h, mine[i], atomicAdd(&h.job.counts[mine[i].query], 1u));
      }
      __syncthreads();
      if (thread_index() < 32 && taken[thread_index()] > 0)
        taken[thread_index()] =
            atomicAdd(&h.job.counts[together * 32 + static_cast<std::uint32_t>(thread_index())], taken[thread_index()]);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < hand_out_each; ++i)
        if (place[i] != 0xffffffffu) keep(h, mine[i], taken[mine[i].query % 32] + place[i]);
      __syncthreads();
    }
  }
}

}  // namespace vicinal::cuda
