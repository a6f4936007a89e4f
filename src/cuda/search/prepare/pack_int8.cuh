// PREPARE on a device: rows checked and measured, put in the order of their largest elements, and rounded to bytes with everything
// that the proof needs (core/bound.hpp). The same for queries, of which more is remembered.
#pragma once
#include "cuda/search/prepare/element.cuh"

namespace vicinal::cuda {

inline constexpr int prepare_threads = 256;
inline constexpr int order_bins = 512, order_threads = 512;
inline constexpr int far_exponent = 60, extreme_exponent = 400;  // as in src/cpu/prepare/prepare.cpp and transform.hpp

struct Prepare {
  Side side;
  BoundModel model;
  DeviceTransform transform;
  bool filters = true;  // false: for the canonical precision
  bool is_query = false, degenerate_is_one = false;
  Counters* counters = nullptr;
  const std::uint8_t* copies = nullptr;  // of rows: excluded always, for enough rows like it come before
};

/// (x - shift) * factor of an element, before the centre is taken away.
struct RowMap {
  double shift, factor;
};
__device__ __forceinline__ RowMap row_map(const Prepare& job, std::int64_t row) {
  if (!job.model.unit) return {0.0, job.is_query ? job.side.scales[row] : job.transform.scale};
  const double self = job.side.self[row];
  return {job.model.metric == Metric::correlation ? job.side.mean[row] : 0.0, self > 0 ? 1.0 / sqrt(self) : 0.0};
}

/// Runs body(load), where load(i) is element i of the side in fp64, with the type decided before.
template <class Body>
__device__ __forceinline__ void with_elements(const Side& side, const Body& body) {
  if (side.dtype == DType::f32)
    body([rows = static_cast<const float*>(side.rows)](std::int64_t i) { return static_cast<double>(rows[i]); });
  else if (side.dtype == DType::u8)
    body([rows = static_cast<const std::uint8_t*>(side.rows)](std::int64_t i) { return static_cast<double>(rows[i]); });
  else body([&side](std::int64_t i) { return element(side.rows, side.dtype, i); });
}

/// Checks rows, takes their norms and sizes: a warp a row.
__device__ __forceinline__ void measure(const Prepare& job) {
  const Side& side = job.side;
  const Metric metric = job.model.metric;
  const bool norms = needs_norms(metric);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
       row < side.count; row += warps) {
    const std::int64_t base = row * side.dims;
    const double first = element(side.rows, side.dtype, base), reference = metric == Metric::cosine ? 0.0 : first;
    bool finite = true, same = true;
    double largest = 0, sum = 0;
    if (norms || job.is_query || !job.filters) {
      with_elements(side, [&](auto load) {
#pragma unroll 4
        for (std::int64_t i = lane_index(); i < side.dims; i += 32) {
          const double x = load(base + i);
          finite = finite && is_finite(x);
          same = same && x == reference;
          largest = largest < fabs(x) ? fabs(x) : largest;
          sum = metric == Metric::cosine ? fma(x, x, sum) : sum + x;
        }
      });
      finite = __all_sync(all_lanes, finite);
    }
    bool degenerate = false, in_range = true;
    if (norms) {
      same = __all_sync(all_lanes, same);
      double self = lanes_joined(sum, Plus{});
      if (metric == Metric::correlation) {
        const double mean = self / static_cast<double>(side.dims);
        double squares = 0;
        for (std::int64_t i = lane_index(); i < side.dims; i += 32) {
          const double t = element(side.rows, side.dtype, base + i) - mean;
          squares = fma(t, t, squares);
        }
        self = lanes_joined(squares, Plus{});
        if (lane_index() == 0) side.mean[row] = mean;
      }
      degenerate = same;
      if (degenerate) in_range = job.degenerate_is_one;
      else if (side.dtype == DType::f64) in_range = self >= 0x1p-500 && self <= 0x1p500;
      if (lane_index() == 0) side.self[row] = degenerate ? -1.0 : self;
      __syncwarp();
    }
    if (job.is_query && side.values != nullptr) {
      const double mean = metric == Metric::correlation ? side.mean[row] : 0.0;
      for (std::int64_t i = lane_index(); i < side.dims; i += 32)
        side.values[base + i] = element(side.rows, side.dtype, base + i) - mean;
    }
    double size = 0;
    if (job.filters) {
      if (job.is_query) {
        largest = lanes_joined(largest, Larger{});
        if (lane_index() == 0) {
          bool filterable = job.transform.usable && !degenerate && finite && in_range;
          double scale = job.transform.scale;
          if (largest > 0 && !norms && finite) {
            const bool own_scale = job.model.sum == Sum::products;
            const int exponent = ilogb(largest);
            if (own_scale) scale = ldexp(1.0, -exponent);
            if (exponent >= extreme_exponent || -exponent >= extreme_exponent ||
                (!own_scale && exponent + ilogb(job.transform.scale) > far_exponent))
              filterable = false;
          }
          side.scales[row] = scale;
          side.filterable[row] = filterable;
        }
        __syncwarp();
      }
      const RowMap map = row_map(job, row);
      with_elements(side, [&](auto load) {
#pragma unroll 4
        for (std::int64_t i = lane_index(); i < side.dims; i += 32) {
          const double x = load(base + i), moved = fabs((x - map.shift) * map.factor - job.transform.centre[i]);
          finite = finite && is_finite(x);
          size = size < moved ? moved : size;
        }
      });
      size = lanes_joined(size, Larger{});
      finite = __all_sync(all_lanes, finite);
    }
    const bool fit = finite && in_range;
    if (!fit && lane_index() == 0) atomicAdd(job.is_query ? &job.counters->bad_queries : &job.counters->bad_rows, 1u);
    if (job.filters && lane_index() == 0)
      side.sizes[row] = is_finite(size) && fit && (!job.is_query || side.filterable[row]) ? up32(size) : 0.0f;
  }
}
__global__ void __launch_bounds__(prepare_threads) measure_rows(Prepare job) { measure(job); }

/// Rows enter the order shuffled, so that those of one size are spread over the tiles. A block sorts a chunk of them, a warp a part of it.
inline constexpr int order_warps = order_threads / 32;
struct Order {
  Side side;
  Visits shuffle;
  std::uint32_t* counts = nullptr;  // [order_bins][blocks]
  std::int64_t chunk = 0;           // rows a block
  int blocks = 0;
};

/// By size, to a sixteenth, around 1.
__device__ __forceinline__ int order_bin(float size) {
  const int bin = static_cast<int>(bits_of(size) >> 19) - ((127 - 24) << 4);
  return bin < 0 ? 0 : bin >= order_bins ? order_bins - 1 : bin;
}

/// The rows that a warp of a block has, and how many of each bin: found[bin * order_warps + warp].
struct OrderPart {
  std::int64_t begin, end;
};
__device__ __forceinline__ OrderPart order_part(const Order& job, std::uint16_t* found) {
  const std::int64_t each = job.chunk / order_warps,
                     begin = static_cast<std::int64_t>(blockIdx.x) * job.chunk + warp_index() * each;
  const OrderPart part{begin < job.side.count ? begin : job.side.count,
                       begin + each < job.side.count ? begin + each : job.side.count};
  for (int b = thread_index(); b < order_bins * order_warps; b += thread_count()) found[b] = 0;
  __syncthreads();
  for (std::int64_t from = part.begin; from < part.end; from += 32) {
    const std::int64_t i = from + lane_index();
    const int bin = i < part.end ? order_bin(job.side.sizes[job.shuffle.at(i)]) : -1;
    const unsigned alike = __match_any_sync(all_lanes, bin);
    if (bin >= 0 && votes_below(alike) == 0)
      found[bin * order_warps + warp_index()] += static_cast<std::uint16_t>(__popc(alike));
    __syncwarp();
  }
  __syncthreads();
  return part;
}

__global__ void __launch_bounds__(order_threads) count_sizes(Order job) {
  VICINAL_SHARED(std::uint16_t, found, order_bins * order_warps);
  order_part(job, found);
  for (int b = thread_index(); b < order_bins; b += thread_count()) {
    unsigned all = 0;
    for (int w = 0; w < order_warps; ++w) all += found[b * order_warps + w];
    job.counts[static_cast<std::int64_t>(b) * job.blocks + blockIdx.x] = all;
  }
}

/// Counts to the places where they begin: one block.
__global__ void __launch_bounds__(1024) place_bins(Order job) {
  VICINAL_SHARED(unsigned, spare, 32);
  constexpr int each = 4;
  const std::int64_t count = static_cast<std::int64_t>(order_bins) * job.blocks;
  unsigned at = 0;
  for (std::int64_t from = 0; from < count; from += each * thread_count()) {
    const std::int64_t mine = from + each * thread_index();
    unsigned here[each], sum = 0, total = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) sum += here[i] = mine + i < count ? job.counts[mine + i] : 0;
    unsigned before = at + block_sum_before(sum, total, spare);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (mine + i < count) job.counts[mine + i] = before;
      before += here[i];
    }
    at += total;
  }
}

/// Every row to its place, those of one bin in the order in which they came.
__global__ void __launch_bounds__(order_threads) place_rows(Order job) {
  VICINAL_SHARED(std::uint16_t, found, order_bins * order_warps);
  VICINAL_SHARED(std::uint32_t, begins, order_bins);
  const OrderPart part = order_part(job, found);
  for (int b = thread_index(); b < order_bins; b += thread_count()) {
    begins[b] = job.counts[static_cast<std::int64_t>(b) * job.blocks + blockIdx.x];
    unsigned before = 0;
    for (int w = 0; w < order_warps; ++w) {
      const unsigned here = found[b * order_warps + w];
      found[b * order_warps + w] = static_cast<std::uint16_t>(before);
      before += here;
    }
  }
  __syncthreads();
  for (std::int64_t from = part.begin; from < part.end; from += 32) {
    const std::int64_t i = from + lane_index();
    const std::int64_t row = i < part.end ? job.shuffle.at(i) : 0;
    const int bin = i < part.end ? order_bin(job.side.sizes[row]) : -1;
    const unsigned alike = __match_any_sync(all_lanes, bin);
    unsigned at = 0;
    if (bin >= 0) at = found[bin * order_warps + warp_index()] + static_cast<unsigned>(votes_below(alike));
    __syncwarp();
    if (bin >= 0 && votes_below(alike) == 0)
      found[bin * order_warps + warp_index()] = static_cast<std::uint16_t>(at + static_cast<unsigned>(__popc(alike)));
    __syncwarp();
    if (bin >= 0) job.side.order[begins[bin] + at] = static_cast<std::uint32_t>(row);
  }
}

/// What a block remembers of the rows of a tile, in shared memory.
struct TileNorms {
  double *e, *n;  // of rows
};
/// One lane's last words on row r of a tile: the term, and what the maxima are made of. place: where it is, `there` or of nobody.
__device__ __forceinline__ void close_row(const Prepare& job, std::int64_t place, bool there,
                                          const QuantizationErrors& sums, const TileNorms& norms_of) {
  const Side& side = job.side;
  const auto r = static_cast<int>(place % tile_rows);
  float& term = side.heads[place / tile_rows].terms[r];
  norms_of.e[r] = norms_of.n[r] = 0;
  term = static_cast<float>(infinite);  // of nobody: excluded always
  if (!there) return;
  const std::int64_t row = side.order[place];
  const FilterNorms norms = filter_norms(job.model, sums);
  if (job.copies == nullptr || job.copies[row] == 0) {
    // A degenerate row has distance 1 to everything, which the filter cannot see: it is always a candidate.
    const bool degenerate = job.model.unit && side.self[row] < 0;
    term = degenerate ? -static_cast<float>(infinite) : row_term(job.model, sums, norms);
  }
  const bool sound = is_finite(static_cast<double>(term));
  if (sound) {
    norms_of.e[r] = norms.e;
    norms_of.n[r] = norms.n;
  }
  if (job.is_query) side.placed[place] = {norms, sums.nn, side.scales[row], side.filterable[row] != 0 && sound};
}
/// The head of a tile whose rows are closed.
__device__ __forceinline__ void close_tile(const Side& side, std::int64_t tile, const TileNorms& norms, double step) {
  __syncthreads();
  if (thread_index() >= 32) return;
  double e = 0, n = 0;
  for (int r = lane_index(); r < tile_rows; r += 32) {
    e = e < norms.e[r] ? norms.e[r] : e;
    n = n < norms.n[r] ? norms.n[r] : n;
  }
  e = lanes_joined(e, Larger{});
  n = lanes_joined(n, Larger{});
  if (lane_index() != 0) return;
  TileHead& head = side.heads[tile];
  head.maxima = {e, n};
  head.step = static_cast<float>(step);
  head.inverse = 1 / step;
  head.e = up32(e);
  head.n = up32(n);
  head.quick_inverse = static_cast<float>(1 / step);
  // Of numbers that are not negative the bits have their order.
  atomicMax(&side.largest[0], bits_of(e));
  atomicMax(&side.largest[1], bits_of(n));
}

/// A tile's step, and its rows in bytes, by a block. largest: of shared memory, a word a warp.
__device__ __forceinline__ void pack_tile(const Prepare& job, std::int64_t tile, const TileNorms& norms,
                                          float* largest) {
  const Side& side = job.side;
  const std::int64_t begin = tile * tile_rows;
  const int used = static_cast<int>(side.count - begin < tile_rows ? side.count - begin : tile_rows);
  float size = thread_index() < used ? side.sizes[side.order[begin + thread_index()]] : 0.0f;
  for (int h = 16; h > 0; h /= 2) {
    const float other = __shfl_xor_sync(all_lanes, size, h);
    size = size < other ? other : size;
  }
  if (lane_index() == 0) largest[warp_index()] = size;
  __syncthreads();
  for (int w = 0; w < thread_count() / 32; ++w) size = size < largest[w] ? largest[w] : size;
  const bool whole = job.transform.whole > 0 && static_cast<double>(size) <= job.transform.whole * 128 * (1 + 0x1p-20);
  const float held = size / 127 < job.transform.least_step ? job.transform.least_step : size / 127;
  const double step = whole ? job.transform.whole : static_cast<double>(held), inverse = 1 / step;
  for (int r = warp_index(); r < tile_rows; r += thread_count() / 32) {
    const int slab = side.width == 64 ? 64 : 128;
    const auto to = [&](std::int64_t i) {  // four columns
      const auto in_slab = static_cast<int>(4 * i % slab);
      return reinterpret_cast<std::uint32_t*>(side.bytes + begin * side.width + 4 * i / slab * slab * tile_rows +
                                              r * slab + chunk_place(slab, r, in_slab / 16) * 16 + in_slab % 16);
    };
    double xx = 0, nn = 0, ee = 0;
    if (r >= used) {
      for (std::int64_t i = lane_index(); i < side.width / 4; i += 32) *to(i) = 0;
    } else {
      const std::int64_t row = side.order[begin + r], base = row * side.dims;
      const RowMap map = row_map(job, row);
      with_elements(side, [&](auto load) {
        for (std::int64_t i = lane_index(); i < side.width / 4; i += 32) {
          std::uint32_t four = 0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const std::int64_t col = 4 * i + j;
            if (col >= side.dims) break;
            const double x = (load(base + col) - map.shift) * map.factor - job.transform.centre[col];
            double n = rint(x * inverse);
            n = n >= -128 ? (n > 127 ? 127 : n) : n < -128 ? -128 : 0;  // NaN is nothing: its row will not be excluded
            const double e = x - n * step;
            xx = fma(x, x, xx);
            nn = fma(n, n, nn);
            ee = fma(e, e, ee);
            four |= (static_cast<std::uint32_t>(static_cast<int>(n)) & 255u) << (8 * j);
          }
          *to(i) = four;
        }
      });
      xx = lanes_joined(xx, Plus{});
      nn = lanes_joined(nn, Plus{});
      ee = lanes_joined(ee, Plus{});
    }
    if (lane_index() == 0) close_row(job, begin + r, r < used, {xx, nn * step * step, ee, 0, 0, 0}, norms);
  }
  close_tile(side, tile, norms, step);
}
__global__ void __launch_bounds__(prepare_threads) pack_rows(Prepare job) {
  VICINAL_SHARED(double, es, tile_rows);
  VICINAL_SHARED(double, ns, tile_rows);
  VICINAL_SHARED(float, largest, prepare_threads / 32);
  pack_tile(job, blockIdx.x, {es, ns}, largest);
}

/// States of a new batch, in places: nothing is known and nothing excluded.
struct StartStates {
  Side queries = {};
  QueryState* states = nullptr;
  std::uint32_t* counts = nullptr;  // SearchJob's, or null
  bool filters = true;
};
__device__ __forceinline__ void start_state(const StartStates& job, std::int64_t place) {
  QueryState state;
  state.lost = job.filters && !job.queries.placed[place].filterable;
  if (state.lost) state.line.base = -infinite;
  job.states[place] = state;
  if (job.counts != nullptr) job.counts[place] = 0;
}
__global__ void start_states(StartStates job) {
  const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (place < job.queries.count) start_state(job, place);
}

/// A few queries in one launch, for a launch takes as long as what it does for them. Each is put in order behind those that are smaller.
inline constexpr int few_threads = 1024,
                     few_measured = few_threads / 32;  // of more than these rows the whole device takes the measures
struct PrepareFew {
  Prepare prepare;
  StartStates start;
  bool measured = false;
};
__global__ void __launch_bounds__(few_threads) prepare_few(PrepareFew job) {
  VICINAL_SHARED(int, bins, block_queries);
  VICINAL_SHARED(double, es, tile_rows);
  VICINAL_SHARED(double, ns, tile_rows);
  VICINAL_SHARED(float, largest, few_threads / 32);
  const Side& side = job.prepare.side;
  if (thread_index() < 2) side.largest[thread_index()] = 0;
  if (!job.measured) measure(job.prepare);
  __syncthreads();
  const int mine = thread_index(), count = static_cast<int>(side.count);
  if (mine < count) bins[mine] = order_bin(side.sizes[mine]);
  __syncthreads();
  if (mine < count) {
    int before = 0;
    for (int i = 0; i < count; ++i) before += bins[i] < bins[mine] || (bins[i] == bins[mine] && i < mine) ? 1 : 0;
    side.order[before] = static_cast<std::uint32_t>(mine);
  }
  __syncthreads();
  for (std::int64_t tile = 0; tile < side.tiles(); ++tile) {
    pack_tile(job.prepare, tile, {es, ns}, largest);
    __syncthreads();
  }
  if (mine < count) start_state(job.start, mine);
}

/// Some rows of a table side by side, for the host to look at.
struct GatherRows {
  const unsigned char* from;
  unsigned char* to;
  std::int64_t row_bytes, row_stride, count;
  Visits visits;
};
__global__ void gather_rows(GatherRows job) {
  for (std::int64_t row = blockIdx.x; row < job.count; row += gridDim.x)
    for (std::int64_t i = thread_index(); i < job.row_bytes; i += thread_count())
      job.to[row * job.row_bytes + i] = job.from[job.visits.at(row) * job.row_stride + i];
}

}  // namespace vicinal::cuda
