// bounds.hpp for the kernel of few queries, which prepares queries and compares by itself: no pair may be excluded by a threshold that its own
// canonical key sets, and the upper bound that thresholds come from is no less than that key.
#pragma once
#include "cuda/search/fused/search.cuh"
#include "kernels/bounds.hpp"

namespace bounds {

struct FusedCheck {
  FusedArgs fused;
  Ranking ranking;
  int batches;  // of fused_queries queries
  Tally* tally;
};

/// The product of the bytes of a row and of a prepared query, as fused_multiply has it.
template <int slab>
__device__ inline int fused_product(const FusedArgs& f, const FusedShared& shared, std::int64_t position, int which) {
  const auto* const row = reinterpret_cast<const unsigned char*>(f.rows.bytes) + position * slab;
  const unsigned char* const query = shared.lines + which * slab;
  int sum = 0;
  for (int chunk = 0; chunk < slab / 16; ++chunk) {
    const int of_row = swizzled_chunk(slab, static_cast<int>(position % tile_rows), chunk) * 16,
              of_query = swizzled_chunk(slab, which, chunk) * 16;
    for (int i = 0; i < 16; ++i)
      sum += static_cast<int>(static_cast<std::int8_t>(row[of_row + i])) *
             static_cast<int>(static_cast<std::int8_t>(query[of_query + i]));
  }
  return sum;
}

/// The queries of a block, as fused_begin prepares them.
template <int slab>
__device__ inline void fused_queries_of(const FusedArgs& f, const FusedShared& shared) {
  if (thread_index() == 0) *shared.counters = {};
  __syncthreads();
  for (int which = warp_index(); which < f.count; which += fused_warps) fused_measure<slab>(f, which, shared);
  fused_round_all<slab>(f, shared);
}

/// Whether the kernel keeps a pair whose key is a query's k-th, and bounds that key.
template <int slab>
__device__ inline bool fused_keeps(const FusedArgs& f, const FusedShared& shared, int which, std::int64_t position,
                                   double key) {
  const TileMetadata& tile = f.rows.tile_metadata[position / tile_rows];
  const QuantizedQuery& query = shared.queries[which].quantized;
  const int product = fused_product<slab>(f, shared, position, which);
  const auto upper = static_cast<double>(fused_upper(f, shared, which, static_cast<std::uint32_t>(position), product));
  if (is_finite(upper) && static_cast<double>(up32(value_of_upper(f.model, upper, query.scale))) < key) return false;
  const ThresholdCoeffsF32 coeffs = threshold_coeffs_f32(
      coeffs_of_query(f.model, theta_of_key(f.model, key, query.scale), query.square, query.norms));
  const float inverse = fused_inverse(shared, tile.quick_inverse);
  return quick_bias(tile.terms[position % tile_rows], inverse) + product >=
         fused_threshold(coeffs, tile.e, tile.n, inverse);
}

/// A block takes a batch and every so manieth rows, a warp some queries of it.
template <int slab>
__global__ void __launch_bounds__(fused_block_threads, 1) check_fused(FusedCheck c) {
  const int batch = static_cast<int>(blockIdx.x) % c.batches, part = static_cast<int>(blockIdx.x) / c.batches,
            parts = static_cast<int>(gridDim.x) / c.batches;
  const std::int64_t dims = c.fused.rows.dims, count = c.fused.rows.count;
  FusedArgs f = c.fused;
  f.queries = static_cast<const unsigned char*>(f.queries) + batch * fused_queries * dims * 4;
  const FusedShared shared(dynamic_shared<unsigned char>(), fused_memory(slab));
  fused_queries_of<slab>(f, shared);
  unsigned pairs = 0, wrong = 0;
  for (int which = warp_index(); which < fused_queries; which += fused_warps) {
    if (!shared.queries[which].fit) continue;
    const std::int64_t asked = std::int64_t{batch} * fused_queries + which;
    for (std::int64_t from = std::int64_t{part} * rows_at_once; from < count;
         from += std::int64_t{parts} * rows_at_once) {
      std::int64_t rows[rows_at_once], queries[rows_at_once];
      double shifts[rows_at_once];
      for (int j = 0; j < rows_at_once; ++j) {
        const std::int64_t row = f.rows.order[from + j < count ? from + j : from];
        rows[j] = row * dims;
        queries[j] = asked * dims;
        shifts[j] = c.ranking.metric == Metric::correlation ? f.rows.mean[row] : 0.0;
      }
      const double total = own_sums(c.ranking, rows, shifts, queries);
      const std::int64_t position = from + lane_index() / (32 / rows_at_once);
      if (lane_index() % (32 / rows_at_once) != 0 || position >= count) continue;
      ++pairs;
      const double key = folded_key(c.ranking, value_of_sum(c.ranking, total, asked, f.rows.order[position]));
      if (!is_finite(key) || fused_keeps<slab>(f, shared, which, position, key)) continue;
      ++wrong;
      c.tally->first_query = static_cast<unsigned long long>(asked);
      c.tally->first_row = f.rows.order[position];
    }
  }
  if (wrong != 0) atomicAdd(&c.tally->wrong, static_cast<unsigned long long>(wrong));
  if (pairs != 0) atomicAdd(&c.tally->pairs, static_cast<unsigned long long>(pairs));
}

/// All pairs of rows in f32 and whole batches of queries; nothing where these kernels do not take the rows.
template <class Device>
void check_fused_queries(Device& device, const Points& corpus, const Points& queries, Metric metric,
                         ThreadPool& thread_pool, Tally& tally) {
  if (corpus.cols > fused_cols || !has_products(filter_sum_of(metric))) return;
  const SearchSpec spec{.corpus = corpus, .metric = metric, .degenerate = Degenerate::one};
  const BothSides<Device> sides(device, spec, queries, Precision::int8, thread_pool);
  if (!sides.transform.usable) return;
  const PreparedMatrix& rows = sides.rows.matrix;
  DeviceBuffer<Tally, Device> sum(device);
  device.in(sum.reserve(1), &tally, sizeof tally);
  FusedCheck c{.fused = {.rows = rows,
                         .queries = sides.asked.matrix.rows,
                         .count = fused_queries,
                         .model = sides.model,
                         .transform = sides.transform,
                         .visits = {},
                         .state = {}},
               .ranking = {.rows = rows,
                           .queries = sides.asked.matrix,
                           .metric = metric,
                           .type = spec.type,
                           .counters = sides.counters.data()},
               .batches = static_cast<int>(queries.rows / fused_queries),
               .tally = sum.data()};
  const bool narrow = rows.width == 64;
  const std::int64_t parts = (device.multiprocessors + c.batches - 1) / c.batches;
  device.launch()(parts * c.batches, fused_block_threads, fused_memory(narrow ? 64 : 128).all,
                  narrow ? check_fused<64> : check_fused<128>, c);
  const unsigned long long before = tally.pairs;
  device.out(&tally, sum.data(), sizeof tally);
  device.wait();
  tally.unfilterable += static_cast<unsigned long long>(queries.rows * corpus.rows) - (tally.pairs - before);
}

}  // namespace bounds
