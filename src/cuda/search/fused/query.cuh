// A few queries are prepared by every block for itself: checked, measured and rounded as prepare/ does it for many, by
// other steps, which the proof allows. What prepare/ treats specially is left to it.
#pragma once
#include "cuda/search/fused/fused.hpp"
#include "cuda/search/prepare/measure.cuh"

namespace vicinal::cuda {

inline constexpr int fused_each = static_cast<int>(fused_cols / 32);  // elements of a lane

/// A block's shared memory, by its parts.
struct FusedShared {
  unsigned char *pieces, *lines;
  FusedPieceFacts* facts;
  double* values;
  FusedQuery* queries;
  ThresholdCoeffsF32* coeffs;
  std::uint32_t* known;  // the key bound behind coeffs, as an ordered float
  // For each query fused_places rows that look nearest, each of those that some lanes saw: position and products.
  unsigned long long* nearest;
  int* largest;  // of each of the block's first pieces and each query: the largest sum
  FusedLimits* limits;
  FusedPair* found;
  std::uint32_t* claimed;  // of each warp and stage, which piece it is
  FusedCounters* counters;

  __device__ FusedShared(unsigned char* base, const FusedMemory& m)
      : pieces(base), lines(base + m.lines), facts(reinterpret_cast<FusedPieceFacts*>(base + m.facts)),
        values(reinterpret_cast<double*>(base + m.values)), queries(reinterpret_cast<FusedQuery*>(base + m.queries)),
        coeffs(reinterpret_cast<ThresholdCoeffsF32*>(base + m.coeffs)),
        known(reinterpret_cast<std::uint32_t*>(base + m.known)),
        nearest(reinterpret_cast<unsigned long long*>(base + m.nearest)),
        largest(reinterpret_cast<int*>(base + m.largest)), limits(reinterpret_cast<FusedLimits*>(base + m.limits)),
        found(reinterpret_cast<FusedPair*>(base + m.found)),
        claimed(reinterpret_cast<std::uint32_t*>(base + m.claimed)),
        counters(reinterpret_cast<FusedCounters*>(base + m.counters)) {}
};

/// What a query's elements are mapped by, and whether these kernels may take it; by a warp. x: the lane's elements.
__device__ __forceinline__ bool fused_map(const FusedArgs& f, const double (&x)[fused_each], double first,
                                          FusedQuery& query, RowMap& map) {
  const Metric metric = f.model.metric;
  const bool norms = needs_norms(metric);
  const double reference = metric == Metric::cosine ? 0.0 : first;
  // Sums and the largest element.
  bool finite = true, same = true;
  double largest = 0, sum = 0;
#pragma unroll
  for (int j = 0; j < fused_each; ++j) {
    if (lane_index() + 32 * j >= f.rows.dims) break;
    finite = finite && is_finite(x[j]);
    same = same && x[j] == reference;
    largest = largest < fabs(x[j]) ? fabs(x[j]) : largest;
    sum = metric == Metric::cosine ? fma(x[j], x[j], sum) : sum + x[j];
  }
  bool fit = __all_sync(all_lanes, finite);
  map = {0.0, f.transform.scale};
  query.quantized.scale = f.transform.scale;
  largest = lanes_joined(largest, Larger{});
  // Norms of a row that has a direction, or the query's own scale.
  if (norms) {
    fit = fit && !__all_sync(all_lanes, same);
    double self = lanes_joined(sum, Plus{});
    if (metric == Metric::correlation) {
      map.shift = self / static_cast<double>(f.rows.dims);
      double squares = 0;
#pragma unroll
      for (int j = 0; j < fused_each; ++j)
        if (lane_index() + 32 * j < f.rows.dims) squares = fma(x[j] - map.shift, x[j] - map.shift, squares);
      self = lanes_joined(squares, Plus{});
    }
    query.self = self;
    fit =
        fit && self > 0 && is_finite(self) && (f.query_type != DType::f64 || (self >= least_self && self <= most_self));
    map.factor = fit ? 1.0 / sqrt(self) : 0.0;
  } else if (fit && largest > 0) {
    const bool own_scale = f.model.sum == Sum::products;
    const int exponent = ilogb(largest);
    if (own_scale) query.quantized.scale = ldexp(1.0, -exponent);
    fit = exponent < extreme_exponent && -exponent < extreme_exponent &&
          (own_scale || exponent + ilogb(f.transform.scale) <= far_exponent);
    map.factor = query.quantized.scale;
  }
  return fit;
}

/// It measures query `which` of the call, as far as it does not depend on the others:
/// its elements and their map, whether these kernels may take it, and its largest
/// element in the filter's form; by a warp. slab: elements from a query to the next.
template <int slab>
__device__ __forceinline__ void fused_measure(const FusedArgs& f, int which, const FusedShared& shared) {
  const std::int64_t dims = f.rows.dims, base = which * dims;
  FusedQuery query;
  double x[fused_each];
#pragma unroll
  for (int j = 0; j < fused_each; ++j) {
    const int col = lane_index() + 32 * j;
    x[j] = col < dims ? element(f.queries, f.query_type, base + col) : 0;
  }
  RowMap map{};
  query.fit = fused_map(f, x, element(f.queries, f.query_type, base), query, map);
  query.factor = map.factor;
  double size = 0;
#pragma unroll
  for (int j = 0; j < fused_each; ++j) {
    const int col = lane_index() + 32 * j;
    if (col >= dims) break;
    const double value = f.model.metric == Metric::correlation ? x[j] - map.shift : x[j];
    shared.values[which * slab + col] = value;
    const double moved = fabs(value * map.factor - static_cast<double>(f.transform.centre[col]));
    size = size < moved ? moved : size;
  }
  size = lanes_joined(size, Larger{});
  query.fit = query.fit && is_finite(size);
  if (lane_index() != 0) return;
  shared.queries[which] = query;
  if (query.fit) atomicMax(&shared.counters->size, bits_of(up32(size)));
}

/// The step of all queries, from the largest element of all.
__device__ __forceinline__ double fused_step(const FusedArgs& f, const FusedShared& shared) {
  const float whole = __uint_as_float(shared.counters->size);
  const bool integral =
      f.transform.integral > 0 && static_cast<double>(whole) <= f.transform.integral * 128 * (1 + 0x1p-20);
  const float rounded = whole / 127 < f.transform.least_step ? f.transform.least_step : whole / 127;
  return integral ? f.transform.integral : static_cast<double>(rounded);
}

/// It rounds a query to a line of multiples of the step, and measures what rounding took; by a warp, after
/// fused_measure of all. slab: bytes of a line; inverse: 1 / step.
template <int slab>
__device__ __forceinline__ void fused_round(const FusedArgs& f, int which, double step, double inverse,
                                            const FusedShared& shared) {
  const std::int64_t dims = f.rows.dims;
  FusedQuery& query = shared.queries[which];
  const double factor = query.factor;
  double xx = 0, nn = 0, ee = 0;
#pragma unroll
  for (int j = 0; j < fused_each; ++j) {
    const int col = lane_index() + 32 * j;
    if (col >= slab) break;
    double n = 0;
    if (col < dims) {
      const double x = shared.values[which * slab + col] * factor - static_cast<double>(f.transform.centre[col]);
      n = rint(x * inverse);
      n = n >= -128 ? (n > 127 ? 127 : n) : n < -128 ? -128 : 0;
      const double e = x - n * step;
      xx = fma(x, x, xx);
      nn = fma(n, n, nn);
      ee = fma(e, e, ee);
    }
    shared.lines[which * slab + swizzled_chunk(slab, which, col / 16) * 16 + col % 16] =
        static_cast<unsigned char>(static_cast<int>(n) & 255);
  }
  const QuantizationErrors sums{
      lanes_joined(xx, Plus{}), lanes_joined(nn, Plus{}) * step * step, lanes_joined(ee, Plus{}), 0, 0, 0};
  FilterNorms norms = filter_norms(f.model, sums);
  // Warps read coefficients while one tightens them, so all must grow with the bound: those of another form would not.
  norms.low = 0;
  const bool fit = query.fit && is_finite(static_cast<double>(row_term(f.model, sums, norms)));
  __syncwarp();
  if (lane_index() != 0) return;
  shared.known[which] = fused_none;
  shared.coeffs[which] = {fit ? static_cast<float>(infinite) : -static_cast<float>(infinite), 0, 0};
  query.quantized.norms = norms;
  query.quantized.square = sums.nn;
  query.quantized.filterable = query.fit = fit;
}

/// The lines of all queries and the step that they share; by a block, after fused_measure of all.
template <int slab>
__device__ __forceinline__ void fused_round_all(const FusedArgs& f, const FusedShared& shared) {
  __syncthreads();
  const double step = fused_step(f, shared), inverse = 1 / step;
  if (thread_index() == 0) {
    shared.counters->step = static_cast<float>(step);
    shared.counters->inverse = inverse / int8_unit(f.model.sum, 1, 1);
  }
  for (int which = warp_index(); which < fused_queries; which += fused_warps) {
    if (which < f.count) {
      fused_round<slab>(f, which, step, inverse, shared);
      continue;
    }
    for (int i = lane_index(); i < slab; i += 32) shared.lines[which * slab + i] = 0;
    if (lane_index() == 0) shared.coeffs[which] = {-static_cast<float>(infinite), 0, 0};
  }
  __syncthreads();
}

}  // namespace vicinal::cuda
