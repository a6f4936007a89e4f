// SPECULATE, on the device: a query's threshold is guessed from the sample that the filter took of the tiles, and
// guessed again when a first part of the tiles has passed: that is a larger sample, of rows that are in the slots
// already. A block a query. Nothing is proved of a guess, and any would be sound (speculate.hpp).
#pragma once
#include "cuda/search/filter/initial_thresholds.cuh"
#include "cuda/search/filter/speculate.hpp"

namespace vicinal::cuda {

/// How near rows of a tile look: a number that grows with the distance that a row is
/// likely to have. Quantization errors have no direction, so that they seldom add
/// up; but within clusters tighter than a step they are all there is of a distance.
class Nearness {
 public:
  __device__ __forceinline__ Nearness(const SearchArgs& args, const QuantizedQuery& query, const TileMetadata& metadata)
      : products_(args.model.sum == Sum::products),
        product_slack_(static_cast<float>(ip_slack(args.model, query.norms, metadata.maxima))),
        slack_(products_ ? product_slack_ : metadata.e + static_cast<float>(query.norms.e)),
        beside_(products_ ? slack_ / sqrtf(static_cast<float>(args.model.dims))
                          : metadata.e * metadata.e + slack_ * slack_) {}
  /// Of a row with this filter distance.
  __device__ __forceinline__ float of(float t) const { return t + beside_; }
  /// Up to which rows pass, where distances up to this do: they may look nearer than they are.
  __device__ __forceinline__ float limit(float distance, float square) const {
    const float reach = distance + slack_;
    if (products_) return reach;
    return fminf(reach * reach, distance * distance + 2 * product_slack_) - square;
  }

 private:
  bool products_;
  float product_slack_, slack_, beside_;
};
/// The distance that rows of this nearness are likely to have.
__device__ __forceinline__ float likely_distance(const SearchArgs& args, float nearness, float square) {
  if (args.model.sum == Sum::products) return nearness;
  return sqrtf(square + nearness > 0 ? square + nearness : 0);
}

/// How many rows of all are within a limit, where so many groups of 16 of a sample have one that is.
__device__ __forceinline__ float rows_within(const SearchArgs& args, float groups, float of_groups) {
  return static_cast<float>(args.rows.count) * (1 - powf(1 - groups / of_groups, 1.0F / (tile_rows / groups_a_tile)));
}

struct SpeculativeThresholds {
  SearchArgs args;
  const int* nearest;  // Filter's
  std::int64_t groups;
  std::uint32_t rank;   // of the number that is the threshold
  std::int64_t stride;  // args.visits.at(the threads of a block)
  unsigned* crowded;    // counts queries that more rows would pass for than may; null: not counted
  float most;           // rows that may pass for a query
};

inline std::int64_t speculative_thresholds_memory(std::int64_t groups) {
  return groups * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

/// Threads of a query's block: each holds as many numbers as its registers have room for, so that few meet at barriers;
/// alone on its multiprocessor a query takes as many as there are tiles of a usual sample.
inline constexpr int most_speculative_threads = 512, tiles_a_thread = 8;
inline int speculative_threads(std::int64_t groups, bool alone) {
  const std::int64_t tiles = groups / groups_a_tile, threads = alone ? tiles : divide_up(tiles, tiles_a_thread);
  return static_cast<int>(std::min<std::int64_t>(rounded_up(threads, 32), most_speculative_threads));
}
static_assert(most_speculative_groups <= most_speculative_threads * tiles_a_thread * groups_a_tile);

/// SampledKeys are the keys that a thread makes of its tiles' sums, in a loop, by shared memory, whence registers take
/// them together: code that made each key in its register would not fit into the cache of instructions.
class SampledKeys {
 public:
  __device__ SampledKeys(const SpeculativeThresholds& s, uint4* keys)
      : s_(s), keys_(keys), tiles_(static_cast<int>(s.groups / groups_a_tile)) {}
  /// It calls take(place in the sample, position) for each of this thread's tiles.
  template <class Take>
  __device__ __forceinline__ void each_tile(const Take& take) const {
    Visits far = s_.args.visits;
    far.step = s_.stride;
    std::int64_t tile = s_.args.visits.at(thread_index());
#pragma unroll 1
    for (int t = thread_index(); t < tiles_; t += thread_count(), tile = far.after(tile)) take(t, tile);
  }
  /// It returns four of a tile's eight keys.
  __device__ __forceinline__ uint4& half(int t, int which) const { return keys_[which * tiles_ + t]; }
  /// It loads this thread's keys into registers.
  __device__ __forceinline__ void hold() {
    const std::uint32_t none = ordered_t(static_cast<float>(infinite));
#pragma unroll
    for (int i = 0; i < 2 * tiles_a_thread; ++i) {
      const int t = thread_index() + i / 2 * thread_count();
      held_[i] = t < tiles_ ? half(t, i % 2) : uint4{none, none, none, none};
    }
  }
  /// It calls take(key) for each key in registers.
  template <class Take>
  __device__ __forceinline__ void operator()(const Take& take) const {
#pragma unroll
    for (int i = 0; i < 2 * tiles_a_thread; ++i) {
      if (i / 2 * thread_count() >= tiles_) break;
      take(held_[i].x);
      take(held_[i].y);
      take(held_[i].z);
      take(held_[i].w);
    }
  }

 private:
  const SpeculativeThresholds& s_;
  uint4* keys_;
  int tiles_;
  uint4 held_[2 * tiles_a_thread];
};

/// A query that more rows would pass for than may is left out of the pass; its count says how many, for
/// finish_queries to decide what becomes of it.
__global__ void __launch_bounds__(most_speculative_threads) speculative_thresholds(SpeculativeThresholds s) {
  go_between();
  VICINAL_SHARED(unsigned, scratch, BlockTotals::words);
  const SearchArgs& args = s.args;
  const std::int64_t position = blockIdx.x;
  const QuantizedQuery query = args.queries.quantized[position];
  const auto square = static_cast<float>(query.square);
  const float step = args.queries.tile_metadata[position / tile_rows].step;
  const auto* const sums = reinterpret_cast<const int4*>(s.nearest + position * s.groups);
  SampledKeys keys(s, dynamic_shared<uint4>());
  keys.each_tile([&](int t, std::int64_t tile) {
    const int4 low = sums[2 * t], high = sums[2 * t + 1];
    const TileMetadata& metadata = args.rows.tile_metadata[tile];
    const Nearness nearness(args, query, metadata);
    const auto unit = static_cast<float>(int8_unit(args.model.sum, step, metadata.step));
    const auto key = [&](int sum) {
      return ordered_t(is_valid(args, sum) ? nearness.of(-static_cast<float>(sum) * unit)
                                           : static_cast<float>(infinite));
    };
    keys.half(t, 0) = {key(low.x), key(low.y), key(low.z), key(low.w)};
    keys.half(t, 1) = {key(high.x), key(high.y), key(high.z), key(high.w)};
  });
  keys.hold();
  // The guess, and how many rows would pass.
  BlockTotals totals(scratch);
  const float distance = likely_distance(args, t_of_ordered(block_kth_held(s.rank, totals, keys)), square);
  if (!is_finite(static_cast<double>(distance))) return;
  unsigned within = 0;
  keys.each_tile([&](int t, std::int64_t tile) {
    const std::uint32_t limit = ordered_t(Nearness(args, query, args.rows.tile_metadata[tile]).limit(distance, square));
    for (int i = 0; i < 2; ++i) {
      const uint4 four = keys.half(t, i);
      for (const std::uint32_t key : {four.x, four.y, four.z, four.w}) within += key <= limit ? 1u : 0u;
    }
  });
  within = totals.sum(within);
  if (thread_index() != 0) return;
  tighten(args, position, value_of_upper(args.model, static_cast<double>(distance), query.scale));
  const float passes = rows_within(args, static_cast<float>(within), static_cast<float>(s.groups));
  if (passes <= s.most) return;
  give_up(args, position);
  args.counts[position] = static_cast<std::uint32_t>(passes);
  if (s.crowded != nullptr) atomicAdd(s.crowded, 1u);
}

/// Where many queries of a batch are left out of the pass, guesses of the others are poor as well, or blocks without
/// those would be of other sizes: all are left to proved thresholds.
struct LeaveToProof {
  SearchArgs args;
  const unsigned* crowded = nullptr;
  std::int64_t most = 0;
};
__global__ void leave_to_proof(LeaveToProof l) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position >= l.args.queries.count || static_cast<std::int64_t>(*l.crowded) <= l.most) return;
  give_up(l.args, position);
  l.args.counts[position] = 0;
}

/// What was guessed of queries on its way from one order of a graph's rows to another: by row.
struct MovedThresholds {
  SearchArgs args;
  double* keys = nullptr;           // NaN: of a query given up
  std::uint32_t* counts = nullptr;  // SearchArgs's, of one given up
  float* bases = nullptr;           // SortBothSides's
};
__global__ void leave_thresholds(MovedThresholds m) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position >= m.args.queries.count) return;
  const QueryState& state = m.args.states[position];
  // One that knows nothing would let everything pass for all that share its pair of groups.
  const bool none = state.given_up || !(state.threshold_key < infinite);
  const std::uint32_t row = m.args.queries.order[position];
  m.keys[row] = none ? double_of(0x7ff8000000000000ull) : state.threshold_key;
  m.counts[row] = state.given_up ? m.args.counts[position] : 0;
  m.bases[row] = none ? -static_cast<float>(infinite) : static_cast<float>(state.coeffs.base);
}
/// Of states and counts that have begun anew: no slot is taken.
__global__ void take_thresholds(MovedThresholds m) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position >= m.args.queries.count) return;
  const std::uint32_t row = m.args.queries.order[position];
  const double key = m.keys[row];
  if (key == key) return tighten(m.args, position, key);
  give_up(m.args, position);
  m.args.counts[position] = m.counts[row];
}

/// CountPassed adds up the rows that have passed for the queries of a graph whose tiles serve both sides; a query that
/// was given up counts as `passing` rows.
struct CountPassed {
  SearchArgs args;
  std::int64_t passing = 0;
  unsigned long long* sum = nullptr;
};
__global__ void count_passed(CountPassed c) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  unsigned long long passed = 0;
  if (position < c.args.queries.count)
    passed = c.args.states[position].given_up ? static_cast<unsigned long long>(c.passing) : c.args.counts[position];
  for (int h = 16; h > 0; h /= 2) passed += __shfl_xor_sync(all_lanes, passed, h);
  if (lane_index() == 0) atomicAdd(c.sum, passed);
}

/// When a first part of the tiles has passed, slots hold all of its rows that may be within the threshold so far.
struct ReestimatedThresholds {
  SearchArgs args;
  std::uint32_t rank;  // of what passed, that the threshold becomes
  std::int64_t room;   // numbers that shared memory has room for
};
inline constexpr int most_reestimate_threads = 128;
inline int reestimate_threads(std::int64_t rank) { return rank <= 128 ? 64 : most_reestimate_threads; }
inline constexpr std::int64_t most_reestimated_slots = 1 << 14;  // that shared memory has room for

/// The threshold of a query becomes what looks as far as the rank-th of its slots. Where many of those nearer ones
/// share groups of 16 rows, the part is no fair sample: near rows lie together, and the threshold stays.
__global__ void __launch_bounds__(most_reestimate_threads) reestimate_thresholds(ReestimatedThresholds r) {
  constexpr unsigned marks = 1 << 15;  // bits, of groups by number; those of more groups share one
  VICINAL_SHARED(unsigned, scratch, BlockTotals::words);
  VICINAL_SHARED(unsigned, marked, marks / 32);
  const SearchArgs& args = r.args;
  const std::int64_t position = blockIdx.x;
  const std::uint32_t found = args.counts[position];
  if (args.states[position].given_up || found > args.capacity || found > r.room || found < r.rank) return;
  const QuantizedQuery query = args.queries.quantized[position];
  const Slot* const slots = args.slots + position * args.capacity;
  auto* const kept = dynamic_shared<std::uint32_t>();  // a thread reads those that it wrote
  const auto threads = static_cast<std::uint32_t>(thread_count());
  for (auto i = static_cast<std::uint32_t>(thread_index()); i < found; i += threads) {
    const Slot slot = slots[i];
    kept[i] = ordered_t(Nearness(args, query, args.rows.tile_metadata[slot.position / tile_rows]).of(slot.t));
  }
  for (auto i = static_cast<std::uint32_t>(thread_index()); i < marks / 32; i += threads) marked[i] = 0;
  BlockTotals totals(scratch);
  const std::uint32_t kth = block_kth_held(r.rank, totals, [&](const auto& take) {
    for (auto i = static_cast<std::uint32_t>(thread_index()); i < found; i += threads) take(kept[i]);
  });
  const float distance = likely_distance(args, t_of_ordered(kth), static_cast<float>(query.square));
  __syncthreads();  // of who clears the marks
  unsigned alone = 0;
  for (auto i = static_cast<std::uint32_t>(thread_index()); i < found; i += threads) {
    if (!(kept[i] <= kth)) continue;
    const std::uint32_t row = slots[i].position % tile_rows, tile = slots[i].position / tile_rows,
                        group = (tile * 8 + row / 64 * 4 + row % 8 / 2) * 0x9e3779b1u >> 17;
    const unsigned bit = 1u << (group % 32);
    alone += (atomicOr(&marked[group / 32], bit) & bit) == 0 ? 1u : 0u;
  }
  alone = totals.sum(alone);
  if (thread_index() != 0 || !is_finite(static_cast<double>(distance))) return;
  if (alone + alone / 8 + 4 < r.rank) return;
  tighten(args, position, value_of_upper(args.model, static_cast<double>(distance), query.scale));
}

}  // namespace vicinal::cuda
