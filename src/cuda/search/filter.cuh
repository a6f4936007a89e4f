// FILTER on tensor cores: products of bytes, exact in 32 bits, tested in the registers where they arise (core/bound.hpp, bytes).
// A block takes 256 queries through some tiles of 128 rows: 16 warps of 32 queries x 64 rows. Rows arrive by asynchronous copies some
// tiles ahead; queries of up to 128 bytes stay in registers, longer ones come slab by slab with the rows. The accumulators begin at
// the rows' seeds, so that a sum is compared with a query's limit and with nothing else.
//
// What passes is noted in shared memory and goes from there, while the next tile is multiplied, to a stretch of global memory that the
// block has to itself: no counter is asked, and nobody waits. A kernel of its own hands it out to the queries' slots.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/element.cuh"

namespace vicinal::cuda {

inline constexpr int filter_threads = 512, slab = 128;
inline constexpr int noted_at_once = 2048;  // of a tile; what is beyond goes to its slot at once
inline constexpr int groups_a_tile = 8;     // groups of 16 rows whose nearest one seeds a threshold

struct Filter {
  SearchJob job;
  std::int64_t first = 0, last = 0;  // visits
  std::int64_t part = 1, parts = 1;  // tiles of a unit of work, units a block of queries
  std::int64_t blocks = 1;           // of queries
  Found* found = nullptr;            // of each block of the grid `room` entries
  std::uint32_t* used = nullptr;     // of each block
  std::int64_t room = 0;
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
  memory.facts = memory.noted + 3 * noted_at_once * 8;
  memory.counts = memory.facts + 3 * 32 + 16;
  memory.all = memory.counts + 16;
  return memory;
}

/// A sum that was not excluded, of a query of the block and a row of the tile.
struct Noted {
  std::uint32_t code;  // query * tile_rows + row
  int sum;
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

/// To the query's slots, if it has one left; the count tells whether it had.
__device__ __forceinline__ void keep(const SearchJob& job, std::int64_t query, std::uint32_t place, float t) {
  if (!job.choice.all) {
    const std::int64_t row = job.first_row + job.rows.order[place];
    if (!may_answer(job.choice, row) || !may_answer(job.choice, job.query_rows[job.queries.order[query]], row)) return;
  }
  const std::uint32_t at = atomicAdd(&job.counts[query], 1u);
  if (at < job.capacity) job.slots[query * job.capacity + at] = {place, t};
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
  /// 1 / step of the two halves of the queries, halved where the form doubles products.
  __device__ __forceinline__ double* inverses() const { return reinterpret_cast<double*>(base + at.facts + 3 * 32); }
  __device__ __forceinline__ Facts& facts(int which) const { return reinterpret_cast<Facts*>(base + at.facts)[which]; }
};

/// Seeds of the tile's rows and limits of the block's queries, before the tile's turn. group: where the tile's groups begin.
__device__ __forceinline__ void face_tile(const Filter& f, const FilterShared& shared, int turn, std::int64_t tile, std::int64_t group) {
  const SearchJob& job = f.job;
  const int i = thread_index();
  const double of_rows = job.rows.inverses[tile];
  if (i < 2 * tile_rows) {
    const std::int64_t place = tile * tile_rows + i % tile_rows;
    float term = job.rows.terms[place];
    if (!job.choice.all && place < job.rows.count && !may_answer(job.choice, job.first_row + job.rows.order[place])) term = static_cast<float>(infinite);
    shared.seeds(turn)[i] = byte_seed(term, shared.inverses()[i / tile_rows] * of_rows);
  } else {
    const int q = i - 2 * tile_rows;
    const ByteLine line = shared.lines()[q];
    shared.limits(turn)[q] = line.base > -infinite ? byte_limit(line, job.rows.maxima[tile], shared.inverses()[q / tile_rows] * of_rows, 0) : 0x7fffffff;
  }
  if (i < 2) {
    const double inverse = shared.inverses()[i] * of_rows;
    shared.facts(turn % 3).unit[i] = 1 / inverse;
    if (i == 0) shared.facts(turn % 3).tile = tile;
    else shared.facts(turn % 3).group = group;
  }
}

/// What a turn noted goes to the block's stretch, of which `used` entries are taken.
__device__ __forceinline__ std::uint32_t take_noted(const Filter& f, const FilterShared& shared, int which, std::int64_t block, std::uint32_t used) {
  const unsigned noted = shared.counts()[which];
  const std::uint32_t count = noted < noted_at_once ? noted : noted_at_once;
  const FilterShared::Facts& facts = shared.facts(which);
  Found* found = f.found + blockIdx.x * f.room;
  for (std::uint32_t i = static_cast<std::uint32_t>(thread_index()); i < count; i += static_cast<std::uint32_t>(filter_threads)) {
    const Noted one = shared.noted(which)[i];
    const std::uint32_t query = one.code / tile_rows;
    const auto place = static_cast<std::uint32_t>(facts.tile * tile_rows) + one.code % tile_rows;
    const Found entry{static_cast<std::uint32_t>(block * block_queries) + query, place, byte_t(one.sum, facts.unit[query / tile_rows], 0)};
    if (used + i < f.room) found[used + i] = entry;
    else keep(f.job, entry.query, place, entry.t);
  }
  return static_cast<std::uint32_t>(used + count < f.room ? used + count : f.room);
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
  std::uint32_t used = 0;

  for (std::int64_t unit = blockIdx.x; unit < f.blocks * f.parts; unit += gridDim.x) {
    const std::int64_t block = unit % f.blocks, first = f.first + unit / f.blocks * f.part;
    const std::int64_t last = first + f.part < f.last ? first + f.part : f.last;
    const std::int8_t* queries = job.queries.bytes + block * block_queries * width;
    const int query_lines = static_cast<int>(job.queries.tiles() - 2 * block < 2 ? tile_rows : block_queries);  // that there are
    const int tiles = static_cast<int>(last - first), all = tiles * slabs;
    std::int64_t copy_tile = job.visits.at(first), next_tile = copy_tile;
    int copy_slab = 0;
    const auto copy_step = [&](int s) {
      if (s < all) {
        unsigned char* to = shared.base + s % stages * memory.stage_bytes;
        const std::int64_t at = slabs_of_queries ? copy_slab * std::int64_t{slab} : 0;
        copy_lines(to, job.rows.bytes + copy_tile * tile_rows * width + at, width, tile_rows, chunks);
        if constexpr (slabs_of_queries) copy_lines(to + tile_rows * slab, queries + at, width, query_lines, chunks);
        if (++copy_slab == slabs) {
          copy_slab = 0;
          copy_tile = job.visits.after(copy_tile);
        }
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
    } else if (thread_index() < block_queries + 2) {
      const int half = thread_index() - block_queries;
      const std::int64_t tile = 2 * block + half < job.queries.tiles() ? 2 * block + half : 2 * block;
      shared.inverses()[half] = job.queries.inverses[tile] / byte_unit(job.model.form, 1, 1);
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
    face_tile(f, shared, turn, next_tile, (first - f.first) * groups_a_tile);

    int sums[2][8][4];
    int this_slab = 0, tile = 0;
    for (int s = 0; s < all; ++s) {
      wait_for_copies<stages - 2>();
      __syncthreads();
      copy_step(s + stages - 1);
      if (this_slab == 0) {
        if (thread_index() == 0) shared.counts()[(turn + 1) % 3] = 0;
        if (!seeding && s > 0) used = take_noted(f, shared, (turn + 2) % 3, block, used);
        next_tile = job.visits.after(next_tile);
        if (tile + 1 < tiles) face_tile(f, shared, turn + 1, next_tile, (first + tile + 1 - f.first) * groups_a_tile);
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
      if (++this_slab < slabs) continue;
      this_slab = 0;

      const int half = warp_queries / tile_rows;
      const int* limits = shared.limits(turn) + warp_queries + group;
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
        const FilterShared::Facts& facts = shared.facts(turn % 3);
        const FilterNorms maxima = job.rows.maxima[facts.tile];
        const double u = facts.unit[half];
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
              const PlacedQuery& query = job.queries.placed[place];
              upper = byte_upper(job.model, byte_t(most, u, 0), u, query.square, query.norms, maxima);
            }
            f.uppers[place * f.groups + facts.group + warp_rows / 64 * 4 + member] = up32(upper);
          }
      } else if (__any_sync(all_lanes, any)) {
        const long long in_tile = shared.facts(turn % 3).tile;
        const std::int64_t there = job.rows.count - in_tile * tile_rows;  // rows beyond are none
        unsigned masks[2][2];
        int mine = 0;
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            unsigned mask = 0;
            const int limit = limits[m * 16 + h * 8];
#pragma unroll
            for (int n = 0; n < 8; ++n)
#pragma unroll
              for (int c = 0; c < 2; ++c) mask |= sums[m][n][2 * h + c] >= limit ? 1u << (2 * n + c) : 0u;
            if (there < tile_rows)
              for (int bit = 0; bit < 16; ++bit)
                if (warp_rows + bit / 2 * 8 + 2 * member + bit % 2 >= there) mask &= ~(1u << bit);
            masks[m][h] = mask;
            mine += __popc(mask);
          }
        int total;
        const int before = warp_sum_before(mine, total);
        unsigned at = 0;
        if (lane == 0 && total > 0) at = atomicAdd(&shared.counts()[turn % 3], static_cast<unsigned>(total));
        at = __shfl_sync(all_lanes, at, 0) + static_cast<unsigned>(before);
        Noted* noted = shared.noted(turn % 3);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            if (masks[m][h] == 0) continue;
            const auto query = static_cast<std::uint32_t>(warp_queries + m * 16 + h * 8 + group);
#pragma unroll
            for (int n = 0; n < 8; ++n)
#pragma unroll
              for (int c = 0; c < 2; ++c) {
                if ((masks[m][h] >> (2 * n + c) & 1u) == 0) continue;
                const auto row = static_cast<std::uint32_t>(warp_rows + n * 8 + 2 * member + c);
                if (at < noted_at_once) noted[at] = {query * tile_rows + row, sums[m][n][2 * h + c]};
                else keep(job, block * block_queries + query, static_cast<std::uint32_t>(in_tile * tile_rows) + row, byte_t(sums[m][n][2 * h + c], shared.facts(turn % 3).unit[half], 0));
                ++at;
              }
          }
      }
      ++turn;
      ++tile;
    }
    __syncthreads();
    if (!seeding && all > 0) used = take_noted(f, shared, (turn + 2) % 3, block, used);
    __syncthreads();
    if (thread_index() < 3) shared.counts()[thread_index()] = 0;
  }
  if (!seeding && thread_index() == 0) f.used[blockIdx.x] = used;
}

/// What blocks found goes to the slots of the queries; some blocks of this grid share the stretch of one of the filter's.
struct HandOut {
  SearchJob job;
  const Found* found = nullptr;
  const std::uint32_t* used = nullptr;
  std::int64_t room = 0, workers = 1;
};
__global__ void hand_out(HandOut h) {
  const std::int64_t worker = blockIdx.x % h.workers, sharers = gridDim.x / h.workers;
  const std::uint32_t used = h.used[worker];
  for (std::int64_t i = blockIdx.x / h.workers * thread_count() + thread_index(); i < used; i += sharers * thread_count()) {
    const Found one = h.found[worker * h.room + i];
    keep(h.job, one.query, one.place, one.t);
  }
}

}  // namespace vicinal::cuda
