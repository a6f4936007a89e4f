// FILTER of rows that lie in memory a line each: floats, for rows that int8 cannot tell apart, halves on tensor cores,
// summed in single precision; differences (Li and Amenta's kernel: squares, magnitudes, the largest) or products in
// single precision. The skeleton is that of int8_mma.cuh, with the same warps of 32 queries x 64 rows. What passes goes
// to the same segments; its sum there is the filter distance as an integer that falls as the distance grows.
// int8_differences.cuh has another arithmetic for the same skeleton.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/filter/scatter.cuh"

namespace vicinal::cuda {

inline constexpr int float_slab = 64, float_pitch = 80,
                     float_stages = 3;  // bytes of a line at a time, and where the next begins
inline constexpr int float_stage_bytes = (tile_rows + block_queries) * float_pitch;

struct FloatMemory {
  std::int64_t thresholds, limits, terms, always, scratch, all;
};
VICINAL_HOST_DEVICE inline constexpr FloatMemory float_memory() {
  FloatMemory m{};
  m.thresholds = std::int64_t{float_stages} * float_stage_bytes;
  m.limits = m.thresholds + block_queries * 4;
  m.terms = m.limits + block_queries * 4;
  m.always = m.terms + tile_rows * 4;
  m.scratch = m.always + 16;
  m.all = m.scratch + filter_warps * 32 * append_pitch<8> * 4;
  return m;
}

/// What a query excludes of a tile, as encode_descending() has it.
__device__ __forceinline__ int float_threshold(const ThresholdCoeffs& coeffs, double n, const FilterNorms& maxima) {
  if (!(coeffs.base > -infinite)) return 0x7fffffff;
  // A partial sum could leave float and come back as an infinity that looks far away: then nothing is excluded.
  if (!(n * maxima.n < 0x1p120 && n + maxima.n < 0x1p120)) return -0x7fffffff - 1;
  const double bound = int8_bound(coeffs, maxima);
  const int endless = encode_descending(static_cast<float>(infinite)),
            threshold = bound == bound ? encode_descending(up32(bound)) : endless;
  // Among norms of this size only a masked row's t is infinite, and that never passes.
  return n + maxima.n < 0x1p60 && threshold <= endless ? endless + 1 : threshold;
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

/// Sixteen bytes at a time of the lane's queries and rows of a slab:
/// add(total, query, row, part) puts a part of them into the sum of each pair.
template <int parts, class Words, class Value, class Add>
__device__ __forceinline__ void add_words(Value (&sums)[2][8][4], const unsigned char* queries,
                                          const unsigned char* rows, const Add& add) {
  const int lane = lane_index();
#pragma unroll 1
  for (int column = 0; column < float_slab; column += 16) {
    Words q[2][2];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        q[m][h] = *reinterpret_cast<const Words*>(queries + (m * 16 + h * 8 + lane / 4) * float_pitch + column);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const Words r = *reinterpret_cast<const Words*>(rows + (n * 8 + lane % 4 * 2 + c) * float_pitch + column);
#pragma unroll
        for (int part = 0; part < parts; ++part)
#pragma unroll
          for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) add(sums[m][n][2 * h + c], q[m][h], r, part);
      }
  }
}

/// The multiplication of a slab: sums of 32 queries x 64 rows of a warp,
/// as mma.sync lays them out. queries, rows: the first line of the warp's.
template <Sum sum, bool halves>
__device__ __forceinline__ void multiply_slab(float (&sums)[2][8][4], unsigned char* queries, unsigned char* rows) {
  if constexpr (halves) {
    const int lane = lane_index();
    // Products of halves, on tensor cores.
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
    add_words<1, float4>(sums, queries, rows, [](float& s, const float4& q, const float4& r, int /*part*/) {
      const auto add = [&](float x, float y) { s = sum_step<sum, Floats>(s, x, y); };
      add(q.x, r.x);
      add(q.y, r.y);
      add(q.z, r.z);
      add(q.w, r.w);
    });
  }
}

/// An arithmetic of this skeleton, in floats: the type of sums, how they are made of a slab, and their codes.
/// whole_sums: it has limits of whole sums besides, by which most are excluded before any code is made.
template <Sum sum, bool halves>
struct FloatSums {
  using Value = float;
  static constexpr bool whole_sums = false;

  __device__ __forceinline__ static float factor(const SearchArgs& args) {
    return args.model.direct ? 1.0f : multiplier(args.model.sum);
  }
  __device__ __forceinline__ static void multiply(float (&sums)[2][8][4], unsigned char* queries, unsigned char* rows) {
    multiply_slab<sum, halves>(sums, queries, rows);
  }
  __device__ __forceinline__ static int code(float value, float factor, float term) {
    return encode_descending(fmaf(factor, value, term));
  }
};

/// What a block binds of a tile before its sums are tested, in shared memory. limits, always: of whole sums; always: of
/// each 32 rows whether one is a candidate whatever its sum.
struct TileBounds {
  int *thresholds, *limits;
  float* terms;
  int* always;
};

/// The thresholds of a block's queries and the terms of a tile's rows.
template <class Arithmetic>
__device__ __forceinline__ void bind_tile(const SearchArgs& args, std::int64_t block, std::int64_t tile,
                                          const TileBounds& bounds) {
  const TileMetadata& metadata = args.rows.tile_metadata[tile];
  if (thread_index() < block_queries) {
    const std::int64_t position = block * block_queries + thread_index();
    const int threshold =
        position < args.queries.count
            ? float_threshold(args.states[position].coeffs, args.queries.quantized[position].norms.n, metadata.maxima)
            : 0x7fffffff;
    bounds.thresholds[thread_index()] = threshold;
    if constexpr (Arithmetic::whole_sums)
      bounds.limits[thread_index()] = Arithmetic::limit(threshold, metadata.quick_inverse);
  } else if (thread_index() < block_queries + tile_rows) {
    const int row = thread_index() - block_queries;
    const std::int64_t position = tile * tile_rows + row;
    const bool out = position >= args.rows.count ||
                     (!args.choice.all && !may_answer(args.choice, args.first_row + args.rows.order[position]));
    const float term = out ? static_cast<float>(infinite) : metadata.terms[row];
    bounds.terms[row] = term;
    if constexpr (Arithmetic::whole_sums) {
      const unsigned always = __ballot_sync(all_lanes, term == -static_cast<float>(infinite));
      if (lane_index() == 0) bounds.always[row / 32] = always != 0;
    }
  }
}

/// A code in the place of its sum.
template <class Value>
__device__ __forceinline__ Value value_of(int code) {
  if constexpr (std::is_same_v<Value, float>) return __uint_as_float(static_cast<std::uint32_t>(code));
  else return static_cast<Value>(code);
}
__device__ __forceinline__ int code_in(float value) { return static_cast<int>(bits_of(value)); }
__device__ __forceinline__ int code_in(unsigned value) { return static_cast<int>(value); }

/// Tests the sums of a warp against the thresholds of its queries and appends those that pass to the warp's segment; as
/// a sample, stores the largest of each group of rows instead. Sums become codes that fall as the distance grows. turn:
/// of the tile in its unit of work.
template <class Arithmetic>
__device__ __forceinline__ void test_and_append(const Filter& f, int* scratch,
                                                typename Arithmetic::Value (&sums)[2][8][4], float factor,
                                                const TileBounds& bounds, const WarpTile& at, std::int64_t tile,
                                                std::int64_t turn, std::int64_t segment, std::uint32_t& used) {
  using Value = typename Arithmetic::Value;
  const SearchArgs& args = f.args;
  const std::int64_t query = at.block * block_queries + at.warp_queries + at.group,
                     left = args.rows.count - tile * tile_rows - at.warp_rows;
  const int rows_left = static_cast<int>(left < tile_rows ? left : tile_rows);
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // Of a query whose whole sums are all beyond its limit nothing is made.
      const int threshold = bounds.thresholds[at.warp_queries + m * 16 + h * 8 + at.group];
      if constexpr (Arithmetic::whole_sums) {
        const bool near = Arithmetic::any_within(sums[m], h, threshold, bounds, at, m);
        if (!f.sampling && !__any_sync(all_lanes, near)) continue;
      }
      int nearest = -0x7fffffff - 1;
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          Value& t = sums[m][n][2 * h + c];
          const int code = Arithmetic::code(t, factor, bounds.terms[at.warp_rows + n * 8 + 2 * at.member + c]);
          nearest = nearest < code ? code : nearest;
          t = value_of<Value>(code);
        }
      if (f.sampling) {
        if (const std::int64_t which = query + m * 16 + h * 8; which < args.queries.count)
          f.nearest[which * f.groups + (at.first + turn - f.first) * groups_a_tile + 2 * at.member +
                    at.warp_rows / 64] = nearest;
        continue;
      }
      append_candidates<8>(f, scratch, nearest >= threshold, threshold,
                           static_cast<std::uint32_t>(at.block * block_queries + at.warp_queries + m * 16 + h * 8),
                           static_cast<std::uint32_t>(tile * tile_rows + at.warp_rows), rows_left,
                           f.candidates + segment * f.room, used, [&](int i) {
                             return SumPair{code_in(sums[m][i][2 * h]), code_in(sums[m][i][2 * h + 1])};
                           });
    }
}

/// sampling: of each query and group only the nearest row is of interest, and all pass.
template <class Arithmetic>
__global__ void __launch_bounds__(filter_threads, 1) filter_lines(Filter f) {
  // Shared memory, this warp's queries and rows, and its segment of the output.
  constexpr FloatMemory memory = float_memory();
  const SearchArgs& args = f.args;
  auto* const base = dynamic_shared<unsigned char>();
  const TileBounds bounds{.thresholds = reinterpret_cast<int*>(base + memory.thresholds),
                          .limits = reinterpret_cast<int*>(base + memory.limits),
                          .terms = reinterpret_cast<float*>(base + memory.terms),
                          .always = reinterpret_cast<int*>(base + memory.always)};
  const std::int64_t width = args.rows.width;
  const int slabs = static_cast<int>(width / float_slab), lane = lane_index(), group = lane / 4, member = lane % 4;
  const int warp_queries = warp_index() / 2 * 32, warp_rows = warp_index() % 2 * 64;
  int* const scratch = reinterpret_cast<int*>(base + memory.scratch) + warp_index() * 32 * append_pitch<8>;
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * filter_warps + warp_index();
  const float factor = Arithmetic::factor(args);
  std::uint32_t used = 0;
  for (std::int64_t unit = blockIdx.x; unit < f.blocks * f.parts; unit += gridDim.x) {
    const std::int64_t block = unit % f.blocks, first = f.first + unit / f.blocks * f.part,
                       last = first + f.part < f.last ? first + f.part : f.last;
    const int all = static_cast<int>(last - first) * slabs;
    std::int64_t copy_tile = args.visits.at(first), this_tile = copy_tile;
    int slab_to_copy = 0;
    // Asks for the slab of step s, some steps ahead.
    const auto copy_step = [&](int s) {
      if (s < all) {
        unsigned char* to = base + s % float_stages * float_stage_bytes;
        for (int i = thread_index(); i < (tile_rows + block_queries) * 4; i += filter_threads) {
          const int line = i / 4;
          const std::int8_t* from = line < tile_rows
                                        ? args.rows.bytes + (copy_tile * tile_rows + line) * width
                                        : args.queries.bytes + (block * block_queries + line - tile_rows) * width;
          copy_16(to + line * float_pitch + i % 4 * 16, from + slab_to_copy * float_slab + i % 4 * 16);
        }
        if (++slab_to_copy == slabs) {
          slab_to_copy = 0;
          copy_tile = args.visits.after(copy_tile);
        }
      }
      commit_copies();
    };

    // Prologue.
    __syncthreads();  // of the unit before everything is used
    for (int s = 0; s < float_stages - 1; ++s) copy_step(s);
    typename Arithmetic::Value sums[2][8][4];
    int this_slab = 0;
    std::int64_t turn = 0;

    // Main loop: a slab a step; with the first of a tile its bounds.
    for (int s = 0; s < all; ++s) {
      wait_for_copies<float_stages - 2>();
      __syncthreads();
      copy_step(s + float_stages - 1);
      if (this_slab == 0) {
        bind_tile<Arithmetic>(args, block, this_tile, bounds);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[m][n][i] = 0;
      }
      unsigned char* rows = base + s % float_stages * float_stage_bytes;
      Arithmetic::multiply(sums, rows + (tile_rows + warp_queries) * float_pitch, rows + warp_rows * float_pitch);
      if (++this_slab < slabs) continue;
      this_slab = 0;
      __syncthreads();  // thresholds and terms are there

      // Epilogue.
      test_and_append<Arithmetic>(f, scratch, sums, factor, bounds,
                                  {block, first, warp_queries, warp_rows, group, member}, this_tile, turn, segment,
                                  used);
      this_tile = args.visits.after(this_tile);
      ++turn;
    }
  }
  if (!f.sampling && lane == 0) f.used[segment] = used;
}

/// The row of this kernel in table.hpp.
struct FloatMma : OnEveryDevice {
  static constexpr FilterKernel facts{
      .name = "float_mma",
      .accepts = [](Precision precision, Sum /*sum*/) { return in_floats(precision); },
      .threads = filter_threads,
      .writing_warps = filter_warps,
      .shared_bytes = [](Precision /*precision*/, std::int64_t /*dims*/) { return float_memory().all; }};

  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.args.rows.dims),
                    kernel_of(precision, f.args.model.sum), f);
  }

 private:
  static void (*kernel_of(Precision precision, Sum sum))(Filter) {
    if (precision == Precision::fp16) return filter_lines<FloatSums<Sum::products, true>>;
    if (sum == Sum::magnitudes) return filter_lines<FloatSums<Sum::magnitudes, false>>;
    if (sum == Sum::largest) return filter_lines<FloatSums<Sum::largest, false>>;
    return sum == Sum::products ? filter_lines<FloatSums<Sum::products, false>>
                                : filter_lines<FloatSums<Sum::squares, false>>;
  }
};

}  // namespace vicinal::cuda
