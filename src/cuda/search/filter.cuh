// FILTER on tensor cores: products of bytes, exact in 32 bits, tested in the registers where they arise (core/bound.hpp, bytes).
// A block takes 256 queries through some tiles of 128 rows: 16 warps of 32 queries x 64 rows. Rows arrive by asynchronous copies some
// tiles ahead; queries of up to 128 bytes stay in registers, longer ones come slab by slab with the rows. The accumulators begin at
// the rows' seeds, so that a sum is compared with a query's limit and with nothing else.
//
// What passes is noted in shared memory and taken from there to the queries' slots while the next tile is multiplied: of the
// latency of a counter in global memory the tensor cores see nothing.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/element.cuh"

namespace vicinal::cuda {

inline constexpr int filter_threads = 512, slab = 128;
inline constexpr int noted_at_once = 1024;  // of a tile; what is beyond goes to its slot at once
inline constexpr int groups_a_tile = 8;     // groups of 16 rows whose nearest one seeds a threshold

struct Filter {
  SearchJob job;
  std::int64_t first = 0, last = 0;  // visits
  std::int64_t part = 1, parts = 1;  // tiles of a unit of work, units a block of queries
  std::int64_t blocks = 1;           // of queries
  float* uppers = nullptr;           // seeding: of each query and group, an upper bound of one row's distance
  std::int64_t groups = 0;
};

/// Bytes of shared memory.
struct FilterMemory {
  int stages = 4, stage_bytes = tile_rows * slab;
  std::int64_t queries = 0, lines = 0, limits = 0, seeds = 0, noted = 0, counts = 0, facts = 0, all = 0;
};
VICINAL_HOST_DEVICE inline constexpr FilterMemory filter_memory(bool slabs) {
  FilterMemory memory;
  if (slabs) memory.stages = 3;
  if (slabs) memory.stage_bytes += block_queries * slab;
  memory.queries = static_cast<std::int64_t>(memory.stages) * memory.stage_bytes;
  memory.lines = memory.queries + (slabs ? 0 : block_queries * slab);
  memory.limits = memory.lines + block_queries * static_cast<std::int64_t>(sizeof(ByteLine));
  memory.seeds = memory.limits + 2 * block_queries * 4;
  memory.noted = memory.seeds + 2 * 2 * tile_rows * 4;
  memory.counts = memory.noted + 3 * noted_at_once * 12;
  memory.facts = memory.counts + 16;
  memory.all = memory.facts + 3 * 32;
  return memory;
}

/// A sum that was not excluded.
struct Noted {
  std::uint32_t place;
  int sum;
  std::uint32_t query;  // of the block
};

__device__ __forceinline__ bool may_answer(const RowChoice& choice, std::int64_t row) {
  if (choice.all) return true;
  if (row < choice.begin || row >= choice.end) return false;
  return choice.bits == nullptr || (choice.bits[row >> 6] >> (row & 63) & 1) != 0;
}
__device__ __forceinline__ bool may_answer(const RowChoice& choice, std::int64_t query, std::int64_t row) {
  if (choice.labelled && (choice.row_labels[row] == choice.query_labels[query]) != choice.same_label) return false;
  return !choice.without_self || row != query;
}

/// To the query's slots, if it has one left.
__device__ __forceinline__ void keep(const SearchJob& job, std::int64_t query, std::uint32_t place, int sum, double unit) {
  const std::int64_t row = job.first_row + job.rows.order[place];
  if (!job.choice.all && !may_answer(job.choice, job.query_rows[job.queries.order[query]], row)) return;
  const std::uint32_t at = atomicAdd(&job.counts[query], 1u);
  if (at < job.capacity) job.slots[query * job.capacity + at] = {place, byte_t(sum, unit, 0)};
}

/// What a block keeps in shared memory, but for the tiles themselves.
struct FilterShared {
  unsigned char* base;
  FilterMemory at;
  __device__ __forceinline__ ByteLine* lines() const { return reinterpret_cast<ByteLine*>(base + at.lines); }
  __device__ __forceinline__ int* limits(int turn) const { return reinterpret_cast<int*>(base + at.limits) + (turn & 1) * block_queries; }
  __device__ __forceinline__ int* seeds(int turn) const { return reinterpret_cast<int*>(base + at.seeds) + (turn & 1) * 2 * tile_rows; }
  __device__ __forceinline__ Noted* noted(int which) const { return reinterpret_cast<Noted*>(base + at.noted) + which * noted_at_once; }
  __device__ __forceinline__ unsigned* counts() const { return reinterpret_cast<unsigned*>(base + at.counts); }
  /// Of the tile of a turn: its units with the two halves of the queries, where its groups begin, its number.
  struct Facts {
    double unit[2];
    long long tile, group;
  };
  __device__ __forceinline__ Facts& facts(int which) const { return reinterpret_cast<Facts*>(base + at.facts)[which]; }
};

/// Seeds of the tile's rows and limits of the block's queries, before the tile's turn.
__device__ __forceinline__ void face_tile(const Filter& f, const FilterShared& shared, int turn, std::int64_t block, std::int64_t visit) {
  const SearchJob& job = f.job;
  const std::int64_t tile = job.visits.at(visit), half_tiles = job.queries.tiles();
  const float step = job.rows.steps[tile];
  const auto unit_of = [&](int half) {
    const std::int64_t query_tile = 2 * block + half < half_tiles ? 2 * block + half : half_tiles - 1;
    return byte_unit(job.model.form, job.queries.steps[query_tile], step);
  };
  const int i = thread_index();
  if (i < 2 * tile_rows) {
    const double inverse = 1 / unit_of(i / tile_rows);
    const std::int64_t place = tile * tile_rows + i % tile_rows;
    float term = job.rows.terms[place];
    if (!job.choice.all && place < job.rows.count && !may_answer(job.choice, job.first_row + job.rows.order[place])) term = static_cast<float>(infinite);
    shared.seeds(turn)[i] = byte_seed(term, inverse);
  } else {
    const int q = i - 2 * tile_rows;
    const ByteLine line = shared.lines()[q];
    shared.limits(turn)[q] = line.base > -infinite ? byte_limit(line, job.rows.maxima[tile], 1 / unit_of(q / tile_rows), 0) : 0x7fffffff;
  }
  if (i == 0) shared.facts(turn % 3) = {{unit_of(0), unit_of(1)}, tile, (visit - f.first) * groups_a_tile};
}

/// What a turn noted goes to the slots.
__device__ __forceinline__ void take_noted(const Filter& f, const FilterShared& shared, int which, std::int64_t block) {
  const unsigned noted = shared.counts()[which];
  const int used = static_cast<int>(noted < noted_at_once ? noted : noted_at_once);
  for (int i = thread_index(); i < used; i += thread_count()) {
    const Noted one = shared.noted(which)[i];
    keep(f.job, block * block_queries + one.query, one.place, one.sum, shared.facts(which).unit[one.query / tile_rows]);
  }
}

/// 16 bytes of a line of a tile in shared memory, so that eight lines meet in no bank.
__device__ __forceinline__ unsigned char* line_chunk(unsigned char* tile, int line, int chunk) { return tile + line * slab + ((chunk ^ (line & 7)) << 4); }

__device__ __forceinline__ void copy_lines(unsigned char* to, const std::int8_t* from, std::int64_t width, int lines, int chunks) {
  for (int i = thread_index(); i < lines * 8; i += filter_threads) {
    const int line = i >> 3, chunk = i & 7;
    if (chunk < chunks) copy_16(line_chunk(to, line, chunk), from + line * width + chunk * 16);
  }
}

/// steps: of 32 bytes a row, of rows that fit a slab; 0: rows of several slabs.
template <int steps, bool seeding>
__global__ void __launch_bounds__(filter_threads, 1) filter_bytes(Filter f) {
  constexpr bool slabs_of_queries = steps == 0;
  constexpr int slab_steps = slabs_of_queries ? slab / 32 : steps, chunks = 2 * slab_steps;
  constexpr FilterMemory memory = filter_memory(slabs_of_queries);
  constexpr int stages = memory.stages;
  const SearchJob& job = f.job;
  const FilterShared shared{dynamic_shared<unsigned char>(), memory};
  const std::int64_t width = job.rows.width;
  const int slabs = slabs_of_queries ? static_cast<int>(width / slab) : 1;
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int warp_queries = warp_index() / 2 * 32, warp_rows = warp_index() % 2 * 64;
  if (thread_index() < 3) shared.counts()[thread_index()] = 0;
  int turn = 0;

  for (std::int64_t unit = blockIdx.x; unit < f.blocks * f.parts; unit += gridDim.x) {
    const std::int64_t block = unit % f.blocks, first = f.first + unit / f.blocks * f.part;
    const std::int64_t last = first + f.part < f.last ? first + f.part : f.last;
    const std::int8_t* queries = job.queries.bytes + block * block_queries * width;
    const int query_lines = static_cast<int>(job.queries.tiles() - 2 * block < 2 ? tile_rows : block_queries);  // that there are
    const int all = static_cast<int>(last - first) * slabs;
    const auto copy_step = [&](int s) {
      if (s < all) {
        unsigned char* to = shared.base + s % stages * memory.stage_bytes;
        const std::int64_t at = slabs_of_queries ? s % slabs * std::int64_t{slab} : 0;
        copy_lines(to, job.rows.bytes + job.visits.at(first + s / slabs) * tile_rows * width + at, width, tile_rows, chunks);
        if constexpr (slabs_of_queries) copy_lines(to + tile_rows * slab, queries + at, width, query_lines, chunks);
      }
      close_copies();
    };
    __syncthreads();  // of the unit before everything is used
    if constexpr (!slabs_of_queries) copy_lines(shared.base + memory.queries, queries, width, query_lines, chunks);
    if (thread_index() < block_queries) {
      const std::int64_t place = block * block_queries + thread_index();
      ByteLine line;
      if (place < job.queries.count) line = job.states[place].line;
      else line.base = -infinite;
      shared.lines()[thread_index()] = line;
    }
    for (int s = 0; s < stages - 1; ++s) copy_step(s);
    std::uint32_t a[2][slab_steps][4];
    if constexpr (!slabs_of_queries) wait_for_copies<stages - 2>();
    __syncthreads();
    const auto load_queries = [&](unsigned char* from, int step, std::uint32_t (&to)[2][4]) {
#pragma unroll
      for (int m = 0; m < 2; ++m)
        load_matrices(to[m], line_chunk(from, warp_queries + m * 16 + (lane / 8 & 1) * 8 + lane % 8, 2 * step + lane / 16));
    };
    if constexpr (!slabs_of_queries) {
#pragma unroll
      for (int step = 0; step < slab_steps; ++step) {
        std::uint32_t both[2][4];
        load_queries(shared.base + memory.queries, step, both);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) a[m][step][i] = both[m][i];
      }
    }
    face_tile(f, shared, turn, block, first);

    int sums[2][8][4];
    for (int s = 0; s < all; ++s) {
      wait_for_copies<stages - 2>();
      __syncthreads();
      copy_step(s + stages - 1);
      const std::int64_t visit = first + s / slabs;
      if (s % slabs == 0) {
        if (thread_index() == 0) shared.counts()[(turn + 1) % 3] = 0;
        if (!seeding && s > 0) take_noted(f, shared, (turn + 2) % 3, block);
        if (visit + 1 < last) face_tile(f, shared, turn + 1, block, visit + 1);
        const int* seeds = shared.seeds(turn) + warp_queries / tile_rows * tile_rows + warp_rows;
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int seed = seeds[n * 8 + 2 * member + c];
#pragma unroll
            for (int m = 0; m < 2; ++m) sums[m][n][c] = sums[m][n][2 + c] = seed;
          }
      }
      unsigned char* rows = shared.base + s % stages * memory.stage_bytes;
#pragma unroll
      for (int step = 0; step < slab_steps; ++step) {
        if constexpr (slabs_of_queries) {
          std::uint32_t both[2][4];
          load_queries(rows + tile_rows * slab, step, both);
#pragma unroll
          for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i) a[m][0][i] = both[m][i];
        }
        constexpr bool kept = !slabs_of_queries;
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
          std::uint32_t b[4];
          load_matrices(b, line_chunk(rows, warp_rows + (n + lane / 16) * 8 + lane % 8, 2 * step + (lane / 8 & 1)));
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            mma_16x8x32(sums[m][n], a[m][kept ? step : 0], b[0], b[1]);
            mma_16x8x32(sums[m][n + 1], a[m][kept ? step : 0], b[2], b[3]);
          }
        }
      }
      if (s % slabs != slabs - 1) continue;

      const FilterShared::Facts& facts = shared.facts(turn % 3);
      const int half = warp_queries / tile_rows;
      const int* limits = shared.limits(turn) + warp_queries + group;
      bool any = false;
      int nearest[2][2];
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
          for (int h = 0; h < 2; ++h) {
            const std::int64_t place = block * block_queries + warp_queries + m * 16 + h * 8 + group;
            if (place >= job.queries.count) continue;
            const int most = nearest[m][h];
            double upper = infinite;
            // Seeds at either end stand for terms beyond them, which bound nothing.
            if (most > -(1 << 29) && most < 1 << 29) {
              const PlacedQuery query = job.queries.placed[place];
              const double u = facts.unit[half];
              upper = byte_upper(job.model, byte_t(most, u, 0), u, query.square, query.norms, job.rows.maxima[facts.tile]);
            }
            f.uppers[place * f.groups + facts.group + warp_rows / 64 * 4 + member] = up32(upper);
          }
      } else if (__any_sync(all_lanes, any)) {
        const auto first_place = static_cast<std::uint32_t>(facts.tile * tile_rows + warp_rows);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int limit = limits[m * 16 + h * 8];
            if (nearest[m][h] < limit) continue;
            const auto query = static_cast<std::uint32_t>(warp_queries + m * 16 + h * 8 + group);
#pragma unroll
            for (int n = 0; n < 8; ++n)
#pragma unroll
              for (int c = 0; c < 2; ++c) {
                const int sum = sums[m][n][2 * h + c];
                if (sum < limit) continue;
                const std::uint32_t place = first_place + static_cast<std::uint32_t>(n * 8 + 2 * member + c);
                const unsigned at = atomicAdd(&shared.counts()[turn % 3], 1u);
                if (at < noted_at_once) shared.noted(turn % 3)[at] = {place, sum, query};
                else keep(job, block * block_queries + query, place, sum, facts.unit[half]);
              }
          }
      }
      ++turn;
    }
    __syncthreads();
    if (!seeding && all > 0) take_noted(f, shared, (turn + 2) % 3, block);
    __syncthreads();
    if (thread_index() < 3) shared.counts()[thread_index()] = 0;
  }
}

}  // namespace vicinal::cuda
