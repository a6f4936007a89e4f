// FILTER on tensor cores: products of bytes, exact in 32 bits, tested in the registers where they arise (core/bound.hpp, bytes).
// A block takes 256 queries through some tiles of 128 rows. A sum plus its row's bias is compared with its query's threshold and with
// nothing else. What passes goes to a segment of global memory that the warp has to itself: no counter is asked, and nobody waits.
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
  SearchArgs args;
  std::int64_t first = 0, last = 0;  // visits
  std::int64_t part = 1, parts = 1;  // tiles of a unit of work, units a block of queries
  std::int64_t blocks = 1;           // of queries
  Candidate* candidates = nullptr;   // of each warp of the grid `room` entries
  std::uint32_t* used = nullptr;     // of each warp
  std::int64_t room = 0;
  bool everything = false;  // no threshold is known, all pairs will be candidates
  int* nearest = nullptr;   // sampling: of each query and group of rows, its largest sum
  std::int64_t groups = 0;  // groups_a_tile of each visit, in any order
  bool sampling = false;
};

/// Bytes of shared memory.
struct FilterMemory {
  int stages, stage_bytes;
  std::int64_t tile_metadata, queries, coeffs, thresholds, biases, facts, scratch, all;
};
VICINAL_HOST_DEVICE inline constexpr FilterMemory filter_memory(int slab, bool slabs) {
  FilterMemory m{};
  m.stages = slabs ? 3 : 4;
  m.stage_bytes = (tile_rows + (slabs ? block_queries : 0)) * slab;
  m.tile_metadata = static_cast<std::int64_t>(m.stages) * m.stage_bytes;
  m.queries = m.tile_metadata + m.stages * static_cast<std::int64_t>(sizeof(TileMetadata));
  m.coeffs = m.queries + (slabs ? 0 : block_queries * slab);
  m.thresholds = m.coeffs + block_queries * static_cast<std::int64_t>(sizeof(ThresholdCoeffsF32));
  m.biases = m.thresholds + 2 * block_queries * 4;
  m.facts = m.biases + 2 * 2 * tile_rows * 4;
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
__device__ __forceinline__ bool may_pair(const SearchArgs& args, std::int64_t query, std::int64_t row) {
  return args.choice.all || (may_answer(args.choice, args.first_row + row) &&
                             may_answer(args.choice, args.number_of(query), args.first_row + row));
}

/// A bias for a row, and a threshold for a query, against a tile: `inverse` is 1 / (unit of the tile with the query's half).
/// Upper bounds of distances are taken from sums when sampling: then a bias must not be far above what it stands for.
template <bool sampling>
__device__ __forceinline__ int bias_of(const SearchArgs& args, float term, std::int64_t position, double inverse) {
  if (!args.choice.all && position < args.rows.count &&
      !may_answer(args.choice, args.first_row + args.rows.order[position]))
    term = static_cast<float>(infinite);
  if constexpr (sampling) return int8_bias(term, inverse);
  else return quick_bias(term, static_cast<float>(inverse));
}
__device__ __forceinline__ int int8_threshold_of(const ThresholdCoeffsF32& coeffs, const FilterNorms& maxima,
                                                 double inverse) {
  return coeffs.base > -static_cast<float>(infinite)
             ? quick_threshold(coeffs, up32(maxima.e), up32(maxima.n), static_cast<float>(inverse))
             : 0x7fffffff;
}
/// What a query excludes; nothing is a candidate of one that is not there.
__device__ __forceinline__ ThresholdCoeffsF32 coeffs_of(const SearchArgs& args, std::int64_t position) {
  if (position < args.queries.count) return threshold_coeffs_f32(args.states[position].coeffs);
  return {-static_cast<float>(infinite), 0, 0};
}
/// 1 / step of half a block's queries, halved where the form doubles products.
__device__ __forceinline__ double query_inverse(const SearchArgs& args, std::int64_t block, int half) {
  const std::int64_t tile = 2 * block + half < args.queries.tiles() ? 2 * block + half : 2 * block;
  return args.queries.tile_metadata[tile].inverse / int8_unit(args.model.sum, 1, 1);
}

struct alignas(8) SumPair {
  int first, second;
};

/// What passed of a group of sums: those of a lane are of one query and of `pairs` pairs of rows, 8 rows apart. Hits are rare, so lanes
/// that have one lay their sums down in shared memory, where the whole warp looks through them, a lane's at a time.
/// query, position: of lane 0; rows_left: from the position on. What finds no room is lost, and its query knows it.
template <int pairs>
inline constexpr int append_pitch = 2 * pairs + 2;
template <int pairs, class Pair>
__device__ __forceinline__ void append_candidates(const Filter& f, int* scratch, bool hit, int threshold,
                                                  std::uint32_t query, std::uint32_t position, int rows_left,
                                                  Candidate* segment, std::uint32_t& used, const Pair& pair) {
  unsigned lanes = __ballot_sync(all_lanes, hit);
  if (lanes == 0) return;
  if (hit) {
    auto* mine = reinterpret_cast<SumPair*>(scratch + lane_index() * append_pitch<pairs>);
#pragma unroll
    for (int i = 0; i < pairs; ++i) mine[i] = pair(i);
  }
  __syncwarp();
  const int row = lane_index() / 2 * 8 + lane_index() % 2;
  for (; lanes != 0; lanes &= lanes - 1) {
    const int from = __ffs(static_cast<int>(lanes)) - 1, at = row + from % 4 * 2;
    const int bound = __shfl_sync(all_lanes, threshold, from);
    int sum = 0;
    bool passed = false;
    if (lane_index() < 2 * pairs) {
      sum = scratch[from * append_pitch<pairs> + lane_index()];
      passed = sum >= bound && at < rows_left;
    }
    const unsigned all = __ballot_sync(all_lanes, passed);
    const std::uint32_t which = query + static_cast<std::uint32_t>(from / 4),
                        next = used + static_cast<std::uint32_t>(__popc(all));
    if (next > f.room) {
      if (passed) f.args.states[which].overflowed = true;
      continue;
    }
    if (passed)
      segment[used + static_cast<std::uint32_t>(votes_below(all))] = {which, position + static_cast<std::uint32_t>(at),
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
template <int slab, bool slabs_of_queries, bool sampling>
__global__ void __launch_bounds__(filter_threads, 1) filter_int8_mma(Filter f) {
  constexpr int slab_steps = slab / 32, tile_bytes = tile_rows * slab;
  constexpr FilterMemory memory = filter_memory(slab, slabs_of_queries);
  constexpr int stages = memory.stages;
  const SearchArgs& args = f.args;
  auto* const base = dynamic_shared<unsigned char>();
  const auto* const tile_metadata = reinterpret_cast<const TileMetadata*>(base + memory.tile_metadata);
  auto* const coeffs = reinterpret_cast<ThresholdCoeffsF32*>(base + memory.coeffs);
  auto* const all_thresholds = reinterpret_cast<int*>(base + memory.thresholds);
  auto* const all_biases = reinterpret_cast<int*>(base + memory.biases);
  auto* const inverses = reinterpret_cast<double*>(base + memory.facts);
  const std::int64_t width = args.rows.width;
  const int slabs = slabs_of_queries ? static_cast<int>(width / slab) : 1;
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int warp_queries = warp_index() / 2 * 32, warp_rows = warp_index() % 2 * 64, half = warp_queries / tile_rows;
  int* const scratch = reinterpret_cast<int*>(base + memory.scratch) + warp_index() * 32 * append_pitch<8>;
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * filter_warps + warp_index();
  std::uint32_t used = 0;

  for (std::int64_t unit = blockIdx.x; unit < f.blocks * f.parts; unit += gridDim.x) {
    const std::int64_t block = unit % f.blocks, first = f.first + unit / f.blocks * f.part;
    const std::int64_t last = first + f.part < f.last ? first + f.part : f.last;
    const std::int8_t* queries = args.queries.bytes + block * block_queries * width;
    const int tiles = static_cast<int>(last - first), all = tiles * slabs;
    std::int64_t copy_tile = args.visits.at(first), this_tile = copy_tile;
    int slab_to_copy = 0;
    const auto copy_step = [&](int s) {
      if (s < all) {
        unsigned char* to = base + s % stages * memory.stage_bytes;
        copy_slab(to, args.rows.bytes + copy_tile * tile_rows * width + slab_to_copy * tile_bytes, tile_bytes);
        if (slab_to_copy == 0)
          copy_slab(base + memory.tile_metadata + s % stages * sizeof(TileMetadata),
                    args.rows.tile_metadata + copy_tile, sizeof(TileMetadata));
        if constexpr (slabs_of_queries) {
          copy_slab(to + tile_bytes, queries + slab_to_copy * tile_bytes, tile_bytes);
          copy_slab(to + 2 * tile_bytes, queries + tile_rows * width + slab_to_copy * tile_bytes, tile_bytes);
        }
        if (++slab_to_copy == slabs) {
          slab_to_copy = 0;
          copy_tile = args.visits.after(copy_tile);
        }
      }
      commit_copies();
    };
    // Biases of a tile's rows and thresholds of the block's queries, before the tile's turn; its first slab is that of step s.
    const auto bind_tile = [&](int turn, std::int64_t tile, int s) {
      const TileMetadata& metadata = tile_metadata[s % stages];
      const int i = thread_index() % block_queries;
      const double inverse = inverses[i / tile_rows] * metadata.inverse;
      if (thread_index() < block_queries)
        all_biases[(turn & 1) * block_queries + i] =
            bias_of<sampling>(args, metadata.terms[i % tile_rows], tile * tile_rows + i % tile_rows, inverse);
      else all_thresholds[(turn & 1) * block_queries + i] = int8_threshold_of(coeffs[i], metadata.maxima, inverse);
    };
    __syncthreads();  // of the unit before everything is used
    if constexpr (!slabs_of_queries) copy_slab(base + memory.queries, queries, 2 * tile_bytes);
    if (thread_index() < block_queries)
      coeffs[thread_index()] = coeffs_of(args, block * block_queries + thread_index());
    else if (thread_index() < block_queries + 2)
      inverses[thread_index() - block_queries] = query_inverse(args, block, thread_index() - block_queries);
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
    bind_tile(0, this_tile, 0);

    int sums[2][8][4];
    int this_slab = 0, turn = 0;
    for (int s = 0; s < all; ++s) {
      wait_for_copies<stages - 3>();  // of the next step, too, with which the next tile may begin
      __syncthreads();
      copy_step(s + stages - 1);
      if (this_slab == slabs - 1 && turn + 1 < tiles) bind_tile(turn + 1, args.visits.after(this_tile), s + 1);
      if (this_slab == 0) {
        const int* biases = all_biases + (turn & 1) * block_queries + half * tile_rows + warp_rows;
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int bias = biases[n * 8 + 2 * member + c];
#pragma unroll
            for (int m = 0; m < 2; ++m) sums[m][n][c] = sums[m][n][2 + c] = bias;
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

      const int* thresholds = all_thresholds + (turn & 1) * block_queries + warp_queries + group;
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
          if constexpr (!sampling) any = any || most >= thresholds[m * 16 + h * 8];
        }
      if constexpr (sampling) {
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            if (const std::int64_t which = query + m * 16 + h * 8; which < args.queries.count)
              f.nearest[which * f.groups + (first + turn - f.first) * groups_a_tile + 2 * member + warp_rows / 64] =
                  nearest[m][h];
      } else if (__any_sync(all_lanes, any)) {
        const std::int64_t left = args.rows.count - this_tile * tile_rows - warp_rows;  // rows beyond are none
        const int rows_left = static_cast<int>(left < tile_rows ? left : tile_rows);
        const auto position = static_cast<std::uint32_t>(this_tile * tile_rows + warp_rows);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int threshold = thresholds[m * 16 + h * 8];
            append_candidates<8>(f, scratch, nearest[m][h] >= threshold, threshold,
                                 static_cast<std::uint32_t>(block * block_queries + warp_queries + m * 16 + h * 8),
                                 position, rows_left, f.candidates + segment * f.room, used, [&](int i) {
                                   return SumPair{sums[m][i][2 * h], sums[m][i][2 * h + 1]};
                                 });
          }
      }
      this_tile = args.visits.after(this_tile);
      ++turn;
    }
  }
  if (!sampling && lane == 0) f.used[segment] = used;
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
    const std::int64_t width = f.args.rows.width;
    const auto kernel = width == 64    ? filter_int8_mma<64, false, sampling>
                        : width == 128 ? filter_int8_mma<128, false, sampling>
                                       : filter_int8_mma<128, true, sampling>;
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.args.rows.dims), kernel, f);
  }
};

/// What warps appended goes to the slots of the queries, a segment a block. A warp finds rows for 32 adjacent queries at most, for a long
/// time: a block counts some hundred finds in shared memory, and asks each query's counter once.
struct ScatterCandidates {
  SearchArgs args;
  const Candidate* candidates = nullptr;
  const std::uint32_t* used = nullptr;
  std::int64_t room = 0, workers = 1;
  int always = 0;  // sums from here on stand for anything
};
/// A t as an integer that falls as it grows, for floats; both zeros are one, and NaN comes before every number: it passes.
inline constexpr int passes_always = 0x7f800001;
__device__ __forceinline__ int encode_descending(float t) {
  if (!(t == t)) return passes_always;
  const int bits = static_cast<int>(bits_of(t + 0.0f));
  return ~(bits ^ (bits >> 31 & 0x7fffffff));
}
__device__ __forceinline__ float decode_descending(int code) {
  if (code == passes_always) return -static_cast<float>(infinite);
  const int ordered = ~code;
  return __uint_as_float(static_cast<std::uint32_t>(ordered ^ (ordered >> 31 & 0x7fffffff)));
}
/// always: sums from here on stand for anything.
__device__ __forceinline__ float filter_distance(const SearchArgs& args, const Candidate& one, int always) {
  if (args.floats) return decode_descending(one.sum);
  const double unit = int8_unit(args.model.sum, args.queries.tile_metadata[one.query / tile_rows].step,
                                args.rows.tile_metadata[one.position / tile_rows].step);
  return one.sum < always ? int8_distance(one.sum, unit, 0) : -static_cast<float>(infinite);
}

inline constexpr int scatter_threads = 128, scatter_each = 4;
__device__ __forceinline__ bool may_keep(const SearchArgs& args, const Candidate& one) {
  return one.position < args.rows.count &&
         (args.choice.all || may_pair(args, args.queries.order[one.query], args.rows.order[one.position]));
}
__device__ __forceinline__ void store_candidate(const ScatterCandidates& h, const Candidate& one, std::uint32_t at) {
  const SearchArgs& args = h.args;
  if (at >= args.capacity) return;  // the count tells it
  args.slots[one.query * args.capacity + at] = {one.position, filter_distance(args, one, h.always)};
}
__global__ void __launch_bounds__(scatter_threads) scatter_candidates(ScatterCandidates h) {
  VICINAL_SHARED(std::uint32_t, taken, 32);
  constexpr std::uint32_t at_once = scatter_threads * scatter_each;
  for (std::int64_t worker = blockIdx.x; worker < h.workers; worker += gridDim.x) {
    const std::uint32_t used = h.used[worker];
    const Candidate* candidates = h.candidates + worker * h.room;
    for (std::uint32_t from = 0; from < used; from += at_once) {
      const std::uint32_t count = used - from < at_once ? used - from : at_once,
                          together = candidates[from + count / 2].query / 32;
      Candidate mine[scatter_each];
      std::uint32_t position[scatter_each];
      if (thread_index() < 32) taken[thread_index()] = 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < scatter_each; ++i) {
        const std::uint32_t at = static_cast<std::uint32_t>(i * scatter_threads + thread_index());
        position[i] = 0xffffffffu;
        if (at >= count) continue;
        mine[i] = candidates[from + at];
        if (!may_keep(h.args, mine[i])) continue;
        if (mine[i].query / 32 == together) position[i] = atomicAdd(&taken[mine[i].query % 32], 1u);
        else store_candidate(h, mine[i], atomicAdd(&h.args.counts[mine[i].query], 1u));
      }
      __syncthreads();
      if (thread_index() < 32 && taken[thread_index()] > 0)
        taken[thread_index()] = atomicAdd(&h.args.counts[together * 32 + static_cast<std::uint32_t>(thread_index())],
                                          taken[thread_index()]);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < scatter_each; ++i)
        if (position[i] != 0xffffffffu) store_candidate(h, mine[i], taken[mine[i].query % 32] + position[i]);
      __syncthreads();
    }
  }
}

}  // namespace vicinal::cuda
