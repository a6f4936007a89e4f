// No pair may be excluded wrongly: every pair of two tables goes through a precision's filter, and of each the canonical key in fp64 says which
// limit it would have to pass if it were the k-th itself. It must pass that one. For the emulator (tests/unit/cuda) and for a
// device (bounds_device.cu).
#pragma once
#include <optional>

#include "cuda/search/output/range.cuh"
#include "cuda/search/prepare/prepare.hpp"

namespace bounds {
using namespace vicinal;
using namespace vicinal::cuda;

struct Tally {
  unsigned long long pairs, wrong, hard;  // hard: pairs of queries that the filter gives up
  unsigned long long first_query, first_row;
};

struct Check {
  SearchJob job;
  Ranking ranking;
  const Found* found;
  const std::uint32_t* used;
  std::int64_t room;
  int always;  // sums of bytes from here on stand for anything
  float largest_threshold;
  int lost_bits;  // of the sums of its kernel
  Tally* tally;
};

/// Whether this sum of a pair passes the limits of a key that is its own.
__device__ inline bool passes(const Check& c, const Found& one, double key) {
  const SearchJob& job = c.job;
  const PlacedQuery& query = job.queries.placed[one.query];
  const TileHead& head = job.rows.heads[one.place / tile_rows];
  const ThresholdCoeffs line =
      coeffs_of_query(job.model, theta_of_key(job.model, key, query.scale), query.square, query.norms);
  if (found_t(job, one, c.always) > up32(int8_bound(line, head.maxima))) return false;  // as settle drops it
  if (job.floats) return one.sum >= float_limit(line, query.norms.n, head.maxima);
  const double inverse =
      job.queries.heads[one.query / tile_rows].inverse / int8_unit(job.model.sum, 1, 1) * head.inverse;
  // Where sums have lost their low bits, so have limits.
  const ThresholdCoeffsF32 coeffs = threshold_coeffs_f32(line);
  if (!(coeffs.base > -static_cast<float>(infinite))) return false;  // as every kernel has it
  const int limit = quick_threshold(coeffs, head.e, head.n, static_cast<float>(inverse), c.largest_threshold);
  return one.sum >= (limit & ~c.lost_bits);
}

__global__ void __launch_bounds__(match_threads) check_found(Check c) {
  const SearchJob& job = c.job;
  const Found* found = c.found + blockIdx.x * c.room;
  const std::uint32_t used = c.used[blockIdx.x];
  unsigned wrong = 0, pairs = 0;
  for (std::uint32_t from = static_cast<std::uint32_t>(warp_index() * rows_at_once); from < used;
       from += static_cast<std::uint32_t>(thread_count() / 32 * rows_at_once)) {
    std::int64_t rows[rows_at_once], queries[rows_at_once];
    double shifts[rows_at_once];
    for (int j = 0; j < rows_at_once; ++j) {
      const Found one = found[from + j < used ? from + j : from];
      const std::int64_t row = one.place < job.rows.count ? job.rows.order[one.place] : 0;
      rows[j] = row * job.rows.dims;
      queries[j] = static_cast<std::int64_t>(job.queries.order[one.query]) * job.rows.dims;
      shifts[j] = c.ranking.metric == Metric::correlation ? job.rows.mean[row] : 0.0;
    }
    const double total = own_sums(c.ranking, rows, shifts, queries);
    const std::uint32_t which = from + static_cast<std::uint32_t>(lane_index() / (32 / rows_at_once));
    if (lane_index() % (32 / rows_at_once) != 0 || which >= used) continue;
    const Found one = found[which];
    if (one.place >= job.rows.count) continue;
    ++pairs;
    const double key =
        folded_key(c.ranking, value_of_sum(c.ranking, total, job.queries.order[one.query], job.rows.order[one.place]));
    if (!is_finite(key) || passes(c, one, key)) continue;
    ++wrong;
    c.tally->first_query = job.queries.order[one.query];
    c.tally->first_row = job.rows.order[one.place];
  }
  if (wrong != 0) atomicAdd(&c.tally->wrong, static_cast<unsigned long long>(wrong));
  if (pairs != 0) atomicAdd(&c.tally->pairs, static_cast<unsigned long long>(pairs));
}

/// All pairs of `corpus` and `queries` by one precision; what was found before is in `tally`.
template <class Device>
void check(Device& device, const Points& corpus, const Points& queries, Metric metric, Precision precision,
           const char* instruction_set, ThreadPool& thread_pool, Tally& tally) {
  const SearchSpec spec{.corpus = corpus, .metric = metric, .degenerate = Degenerate::one};
  const FilterKernel& kernel = *filter_kernel(device.filters(), precision, instruction_set);
  DeviceBuffer<Counters, Device> counters(device);
  device.zero(counters.reserve(1), sizeof(Counters));
  SideMaker<Device> maker(device, spec, precision, thread_pool, counters.data());
  DeviceBuffer<double, Device> centre(device);
  const DeviceTransform transform = maker.choose(centre);
  const BoundModel model = model_of(metric, spec.type, corpus.cols, transform.scale, precision);
  HeldSide<Device> rows(device), asked(device);
  maker.make(rows, corpus, false, true, model, transform);
  DeviceBuffer<QueryState, Device> states(device);
  maker.make(asked, queries, true, true, model, transform,
             {.states = states.reserve(whole_blocks(queries.rows))});  // no threshold: all pass
  SearchJob job{.rows = rows.side,
                .queries = asked.side,
                .model = model,
                .floats = in_floats(precision),
                .choice = {},
                .visits = visits_of(rows.side.tiles())};
  job.states = states.data();
  job.counters = counters.data();

  Filter f{.job = job,
           .last = rows.side.tiles(),
           .part = 1,
           .parts = rows.side.tiles(),
           .blocks = whole_blocks(queries.rows) / block_queries,
           .everything = true};
  const std::int64_t grid = std::min<std::int64_t>(device.multiprocessors, f.blocks * f.parts), width = rows.side.width,
                     workers = grid * kernel.writing_warps;
  const float largest = kernel.largest_threshold(width <= 128);
  f.room = (f.blocks * f.parts + grid - 1) / grid * block_queries * tile_rows * grid / workers;
  DeviceBuffer<Found, Device> found(device);
  DeviceBuffer<std::uint32_t, Device> used(device);
  f.found = found.reserve(f.room * workers);
  f.used = used.reserve(workers);
  launch_filter<false>(device, kernel, precision, f, grid);
  DeviceBuffer<Tally, Device> sum(device);
  device.in(sum.reserve(1), &tally, sizeof tally);
  const Ranking ranking{
      .rows = rows.side, .queries = asked.side, .metric = metric, .type = spec.type, .counters = counters.data()};
  device.launch()(workers, match_threads, 0, check_found,
                  Check{.job = job,
                        .ranking = ranking,
                        .found = f.found,
                        .used = f.used,
                        .room = f.room,
                        .always = static_cast<int>(largest),
                        .largest_threshold = largest,
                        .lost_bits = kernel.lost_bits(width <= 128),
                        .tally = sum.data()});
  const unsigned long long before = tally.pairs;
  device.out(&tally, sum.data(), sizeof tally);
  device.wait();
  tally.hard += static_cast<unsigned long long>(queries.rows * corpus.rows) - (tally.pairs - before);
}

}  // namespace bounds
