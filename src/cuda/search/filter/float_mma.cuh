// FILTER in floats, for rows that bytes cannot tell apart and for metrics that have no product: halves on tensor cores, summed in single
// precision, and differences (Li and Amenta's kernel: squares, magnitudes, the largest) or products in single precision. The skeleton is that
// of filter.cuh, with the same warps: 32 queries x 64 rows each. What passes goes to the same stretches; a sum there is a t as an integer
// that falls as t grows.
#pragma once
#include "cuda/search/filter/int8_mma.cuh"

namespace vicinal::cuda {

inline constexpr int float_slab = 64, float_pitch = 80,
                     float_stages = 3;  // bytes of a line at a time, and where the next begins
inline constexpr int float_stage_bytes = (tile_rows + block_queries) * float_pitch;

struct FloatMemory {
  std::int64_t limits, terms, scratch, all;
};
VICINAL_HOST_DEVICE inline constexpr FloatMemory float_memory() {
  FloatMemory m{};
  m.limits = std::int64_t{float_stages} * float_stage_bytes;
  m.terms = m.limits + block_queries * 4;
  m.scratch = m.terms + tile_rows * 4;
  m.all = m.scratch + filter_warps * 32 * note_pitch<8> * 4;
  return m;
}

/// What a query excludes of a tile, as falling() has it.
__device__ __forceinline__ int float_limit(const ThresholdCoeffs& line, double n, const FilterNorms& maxima) {
  if (!(line.base > -infinite)) return 0x7fffffff;
  // A partial sum could leave float and come back as an infinity that looks far away: then nothing is excluded.
  if (!(n * maxima.n < 0x1p120 && n + maxima.n < 0x1p120)) return -0x7fffffff - 1;
  const double bound = int8_bound(line, maxima);
  const int endless = falling(static_cast<float>(infinite)), limit = bound == bound ? falling(up32(bound)) : endless;
  // Among norms of this size only nobody's t is infinite, and that never passes.
  return n + maxima.n < 0x1p60 && limit <= endless ? endless + 1 : limit;
}

/// The primitives of core/sums.hpp.
struct Floats {
  using Value = float;
  __device__ __forceinline__ static float add(float a, float b) { return a + b; }
  __device__ __forceinline__ static float sub(float a, float b) { return a - b; }
  __device__ __forceinline__ static float fma(float a, float b, float c) { return fmaf(a, b, c); }
  __device__ __forceinline__ static float abs(float a) { return fabsf(a); }
  __device__ __forceinline__ static float max_abs(float a, float b) { return fmaxf(a, fabsf(b)); }
};

/// The multiplication of a slab: sums of 32 queries x 64 rows of a warp, as mma.sync lays them out. queries, rows: the first line of the warp's.
template <Sum sum, bool halves>
__device__ __forceinline__ void multiply_slab(float (&sums)[2][8][4], unsigned char* queries, unsigned char* rows) {
  const int lane = lane_index();
  if constexpr (halves) {
#pragma unroll
    for (int step = 0; step < float_slab / 32; ++step) {
      std::uint32_t a[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m)
        load_matrices(a[m],
                      queries + (m * 16 + (lane / 8 & 1) * 8 + lane % 8) * float_pitch + (2 * step + lane / 16) * 16);
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        std::uint32_t b[4];
        load_matrices(b, rows + ((n + lane / 16) * 8 + lane % 8) * float_pitch + (2 * step + (lane / 8 & 1)) * 16);
        const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          mma_16x8x16<f16>(sums[m][n], a[m], low);
          mma_16x8x16<f16>(sums[m][n + 1], a[m], high);
        }
      }
    }
  } else {
#pragma unroll 1
    for (int column = 0; column < float_slab; column += 16) {
      float4 q[2][2];
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          q[m][h] = *reinterpret_cast<const float4*>(queries + (m * 16 + h * 8 + lane / 4) * float_pitch + column);
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float4 r = *reinterpret_cast<const float4*>(rows + (n * 8 + lane % 4 * 2 + c) * float_pitch + column);
#pragma unroll
          for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float& s = sums[m][n][2 * h + c];
              const auto add = [&](float x, float y) { s = sum_step<sum, Floats>(s, x, y); };
              add(q[m][h].x, r.x);
              add(q[m][h].y, r.y);
              add(q[m][h].z, r.z);
              add(q[m][h].w, r.w);
            }
        }
    }
  }
}

/// seeding: of each query and group only the nearest row is of interest, and all pass.
template <Sum sum, bool halves>
__global__ void __launch_bounds__(filter_threads, 1) filter_floats(Filter f) {
  constexpr FloatMemory memory = float_memory();
  const SearchJob& job = f.job;
  auto* const base = dynamic_shared<unsigned char>();
  auto* const limits = reinterpret_cast<int*>(base + memory.limits);
  auto* const terms = reinterpret_cast<float*>(base + memory.terms);
  const std::int64_t width = job.rows.width;
  const int slabs = static_cast<int>(width / float_slab), lane = lane_index(), group = lane / 4, member = lane % 4;
  const int warp_queries = warp_index() / 2 * 32, warp_rows = warp_index() % 2 * 64;
  int* const scratch = reinterpret_cast<int*>(base + memory.scratch) + warp_index() * 32 * note_pitch<8>;
  const std::int64_t stretch = static_cast<std::int64_t>(blockIdx.x) * filter_warps + warp_index();
  const float factor = job.model.direct ? 1.0f : multiplier(job.model.sum);
  std::uint32_t used = 0;
  for (std::int64_t unit = blockIdx.x; unit < f.blocks * f.parts; unit += gridDim.x) {
    const std::int64_t block = unit % f.blocks, first = f.first + unit / f.blocks * f.part,
                       last = first + f.part < f.last ? first + f.part : f.last;
    const int all = static_cast<int>(last - first) * slabs;
    std::int64_t copy_tile = job.visits.at(first), this_tile = copy_tile;
    int slab_to_copy = 0;
    const auto copy_step = [&](int s) {
      if (s < all) {
        unsigned char* to = base + s % float_stages * float_stage_bytes;
        for (int i = thread_index(); i < (tile_rows + block_queries) * 4; i += filter_threads) {
          const int line = i / 4;
          const std::int8_t* from = line < tile_rows
                                        ? job.rows.bytes + (copy_tile * tile_rows + line) * width
                                        : job.queries.bytes + (block * block_queries + line - tile_rows) * width;
          copy_16(to + line * float_pitch + i % 4 * 16, from + slab_to_copy * float_slab + i % 4 * 16);
        }
        if (++slab_to_copy == slabs) {
          slab_to_copy = 0;
          copy_tile = job.visits.after(copy_tile);
        }
      }
      close_copies();
    };
    __syncthreads();  // of the unit before everything is used
    for (int s = 0; s < float_stages - 1; ++s) copy_step(s);
    float sums[2][8][4];
    int this_slab = 0;
    std::int64_t turn = 0;
    for (int s = 0; s < all; ++s) {
      wait_for_copies<float_stages - 2>();
      __syncthreads();
      copy_step(s + float_stages - 1);
      if (this_slab == 0) {
        const TileHead& head = job.rows.heads[this_tile];
        if (thread_index() < block_queries) {
          const std::int64_t place = block * block_queries + thread_index();
          limits[thread_index()] =
              place < job.queries.count
                  ? float_limit(job.states[place].line, job.queries.placed[place].norms.n, head.maxima)
                  : 0x7fffffff;
        } else if (thread_index() < block_queries + tile_rows) {
          const int row = thread_index() - block_queries;
          const std::int64_t place = this_tile * tile_rows + row;
          const bool out = place >= job.rows.count ||
                           (!job.choice.all && !may_answer(job.choice, job.first_row + job.rows.order[place]));
          terms[row] = out ? static_cast<float>(infinite) : head.terms[row];
        }
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[m][n][i] = 0;
      }
      unsigned char* rows = base + s % float_stages * float_stage_bytes;
      multiply_slab<sum, halves>(sums, rows + (tile_rows + warp_queries) * float_pitch, rows + warp_rows * float_pitch);
      if (++this_slab < slabs) continue;
      this_slab = 0;
      __syncthreads();  // limits and terms are there

      const std::int64_t query = block * block_queries + warp_queries + group,
                         left = job.rows.count - this_tile * tile_rows - warp_rows;
      const int rows_left = static_cast<int>(left < tile_rows ? left : tile_rows);
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int nearest = -0x7fffffff - 1;
#pragma unroll
          for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
              float& t = sums[m][n][2 * h + c];
              const int code = falling(fmaf(factor, t, terms[warp_rows + n * 8 + 2 * member + c]));
              nearest = nearest < code ? code : nearest;
              t = __uint_as_float(static_cast<std::uint32_t>(code));
            }
          if (f.seeding) {
            if (const std::int64_t which = query + m * 16 + h * 8; which < job.queries.count)
              f.nearest[which * f.groups + (first + turn - f.first) * groups_a_tile + 2 * member + warp_rows / 64] =
                  nearest;
            continue;
          }
          const int limit = limits[warp_queries + m * 16 + h * 8 + group];
          note_hits<8>(f, scratch, nearest >= limit, limit,
                       static_cast<std::uint32_t>(block * block_queries + warp_queries + m * 16 + h * 8),
                       static_cast<std::uint32_t>(this_tile * tile_rows + warp_rows), rows_left,
                       f.found + stretch * f.room, used, [&](int i) {
                         return SumPair{static_cast<int>(bits_of(sums[m][i][2 * h])),
                                        static_cast<int>(bits_of(sums[m][i][2 * h + 1]))};
                       });
        }
      this_tile = job.visits.after(this_tile);
      ++turn;
    }
  }
  if (!f.seeding && lane == 0) f.used[stretch] = used;
}

/// The row of this kernel in table.hpp.
struct FloatMma {
  static constexpr FilterKernel facts{
      .name = "float_mma",
      .instruction_set = "mma",
      .architecture = "",
      .accepts = in_floats,
      .tested = false,
      .threads = filter_threads,
      .writing_warps = filter_warps,
      .shared_bytes = [](Precision /*precision*/, std::int64_t /*dims*/) { return float_memory().all; },
      .largest_threshold = [](bool /*one_slab*/) { return most_quick_threshold; },  // of integers: of no sum here
      .lost_bits = [](bool /*one_slab*/) { return 0; }};

  template <class Device>
  static bool is_there(Device& /*device*/) {
    return true;
  }
  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.job.rows.dims),
                    kernel_of(precision, f.job.model.sum), f);
  }

 private:
  static void (*kernel_of(Precision precision, Sum sum))(Filter) {
    if (precision == Precision::fp16) return filter_floats<Sum::products, true>;
    if (sum == Sum::magnitudes) return filter_floats<Sum::magnitudes, false>;
    if (sum == Sum::largest) return filter_floats<Sum::largest, false>;
    return sum == Sum::products ? filter_floats<Sum::products, false> : filter_floats<Sum::squares, false>;
  }
};

}  // namespace vicinal::cuda
