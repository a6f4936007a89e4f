// No pair may be excluded wrongly: every pair of two tables goes through a precision's filter, and of each the canonical key in fp64 says which
// threshold it would have to pass if it were the k-th itself. It must pass that one. For the emulator (tests/unit/cuda) and for a
// device (bounds_device.cu).
#pragma once
#include <optional>

#include "cuda/search/output/range.cuh"
#include "cuda/search/prepare/prepare.hpp"
#include "cuda/search/rerank/refine.cuh"

namespace bounds {
using namespace vicinal;
using namespace vicinal::cuda;

struct Tally {
  unsigned long long pairs, wrong, unfilterable;  // unfilterable: pairs of queries that the filter gives up
  unsigned long long first_query, first_row;
};

struct Check {
  SearchArgs args;
  Ranking ranking;
  const Candidate* candidates;
  const std::uint32_t* used;
  std::int64_t room;
  int always;  // sums of bytes from here on stand for anything
  float largest_threshold;
  bool whole_sums;  // of differences of bytes
  int lost_bits;    // of the sums of its kernel
  Tally* tally;
};

/// The product of the packed bytes of a row and of a query, which are those or its second ones.
__device__ inline int product_of(const SearchArgs& args, std::uint32_t position, std::uint32_t query,
                                 const std::int8_t* of_queries) {
  const auto width = static_cast<int>(args.rows.width), slab = width == 64 ? 64 : 128;
  const auto byte = [&](const std::int8_t* bytes, std::uint32_t of, int col) -> int {
    const int line = static_cast<int>(of % tile_rows), in_slab = col % slab;
    const std::int64_t tile = static_cast<std::int64_t>(of - static_cast<std::uint32_t>(line)) * width;
    return bytes[tile + (col - in_slab) * tile_rows + line * slab + swizzled_chunk(slab, line, in_slab / 16) * 16 +
                 in_slab % 16];
  };
  int sum = 0;
  for (int col = 0; col < width; ++col) sum += byte(args.rows.bytes, position, col) * byte(of_queries, query, col);
  return sum;
}

/// Whether the query's two bytes exclude the row at a key that is its own.
__device__ inline bool refinement_excludes(const Check& c, const Candidate& one, double key) {
  const PreparedMatrix& queries = c.args.queries;
  if (queries.two_bytes == nullptr) return false;
  return two_bytes_exclude(c.args, one.query, one.position, product_of(c.args, one.position, one.query, queries.bytes),
                           product_of(c.args, one.position, one.query, queries.second_bytes),
                           theta_of_key(c.args.model, key, queries.quantized[one.query].scale));
}

/// Whether this sum of a pair passes the thresholds of a key that is its own.
__device__ inline bool passes(const Check& c, const Candidate& one, double key) {
  const SearchArgs& args = c.args;
  const QuantizedQuery& query = args.queries.quantized[one.query];
  const TileMetadata& metadata = args.rows.tile_metadata[one.position / tile_rows];
  const ThresholdCoeffs line =
      coeffs_of_query(args.model, theta_of_key(args.model, key, query.scale), query.square, query.norms);
  if (filter_distance(args, one, c.always) > up32(int8_bound(line, metadata.maxima)))
    return false;  // as the rerank drops it
  if (args.floats) {
    const int threshold = float_threshold(line, query.norms.n, metadata.maxima);
    if (one.sum < threshold) return false;
    const float distance = decode_descending(one.sum);
    if (!c.whole_sums || !is_finite(static_cast<double>(distance))) return true;
    return ByteDifferences<Sum::magnitudes>::limit(threshold, metadata.quick_inverse) >=
           static_cast<int>(rint(static_cast<double>(distance) * metadata.inverse));
  }
  const double inverse =
      args.queries.tile_metadata[one.query / tile_rows].inverse / int8_unit(args.model.sum, 1, 1) * metadata.inverse;
  // Where sums have lost their low bits, so have thresholds.
  const ThresholdCoeffsF32 coeffs = threshold_coeffs_f32(line);
  if (!(coeffs.base > -static_cast<float>(infinite))) return false;  // as every kernel has it
  if (one.product != 0) {
    const auto query_inverse =
        static_cast<float>(args.queries.tile_metadata[one.query / tile_rows].inverse / int8_unit(args.model.sum, 1, 1));
    const GroupNorms& group = metadata.pairs[pair_of_row(static_cast<int>(one.position % tile_rows))];
    return static_cast<float>(one.sum) >= group_threshold(group_coeffs(coeffs, query_inverse), group);
  }
  const int threshold =
      quick_threshold(coeffs, metadata.e, metadata.n, static_cast<float>(inverse), c.largest_threshold);
  return one.sum >= (threshold & ~c.lost_bits);
}

struct OpenGroups {
  SearchArgs args;
  const GroupCandidate* groups;
  std::uint32_t* used;
  Candidate* opened;
  std::int64_t room, opened_room;  // of each warp
  Tally* tally;
};
/// Groups of rows become a candidate for each row that is not masked, with its own product: of none may it be larger than the group says.
__global__ void open_groups(OpenGroups o) {
  if (thread_index() != 0) return;
  const int lost = lost_product_bits(o.args.rows.width);
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < o.used[blockIdx.x]; ++i) {
    const GroupCandidate& group = o.groups[blockIdx.x * o.room + i];
    for (int of_group = 0; of_group < group_rows; ++of_group) {
      Candidate row{group.query, group.position_of(of_group), 0, 1};
      if ((group.passed(lost) >> of_group & 1) == 0 || row.position >= o.args.rows.count ||
          o.args.rows.tile_metadata[row.position / tile_rows].terms[row.position % tile_rows] ==
              static_cast<float>(infinite))
        continue;
      row.sum = product_of(o.args, row.position, row.query, o.args.queries.bytes);
      if (row.sum > group.product_bound(of_group, lost)) atomicAdd(&o.tally->wrong, 1ull);
      o.opened[blockIdx.x * o.opened_room + count++] = row;
    }
  }
  o.used[blockIdx.x] = count;
}

__global__ void __launch_bounds__(match_threads) check_found(Check c) {
  const SearchArgs& args = c.args;
  const Candidate* candidates = c.candidates + blockIdx.x * c.room;
  const std::uint32_t used = c.used[blockIdx.x];
  unsigned wrong = 0, pairs = 0;
  for (std::uint32_t from = static_cast<std::uint32_t>(warp_index() * rows_at_once); from < used;
       from += static_cast<std::uint32_t>(thread_count() / 32 * rows_at_once)) {
    std::int64_t rows[rows_at_once], queries[rows_at_once];
    double shifts[rows_at_once];
    for (int j = 0; j < rows_at_once; ++j) {
      const Candidate one = candidates[from + j < used ? from + j : from];
      const std::int64_t row = one.position < args.rows.count ? args.rows.order[one.position] : 0;
      rows[j] = row * args.rows.dims;
      queries[j] = static_cast<std::int64_t>(args.queries.order[one.query]) * args.rows.dims;
      shifts[j] = c.ranking.metric == Metric::correlation ? args.rows.mean[row] : 0.0;
    }
    const double total = own_sums(c.ranking, rows, shifts, queries);
    const std::uint32_t which = from + static_cast<std::uint32_t>(lane_index() / (32 / rows_at_once));
    if (lane_index() % (32 / rows_at_once) != 0 || which >= used) continue;
    const Candidate one = candidates[which];
    if (one.position >= args.rows.count) continue;
    ++pairs;
    const double key = folded_key(
        c.ranking, value_of_sum(c.ranking, total, args.queries.order[one.query], args.rows.order[one.position]));
    if (!is_finite(key) || (passes(c, one, key) && !refinement_excludes(c, one, key))) continue;
    ++wrong;
    c.tally->first_query = args.queries.order[one.query];
    c.tally->first_row = args.rows.order[one.position];
  }
  if (wrong != 0) atomicAdd(&c.tally->wrong, static_cast<unsigned long long>(wrong));
  if (pairs != 0) atomicAdd(&c.tally->pairs, static_cast<unsigned long long>(pairs));
}

/// Both sides of all pairs, prepared as by a search without thresholds: all pass. spec: it outlives this.
template <class Device>
struct BothSides {
  BothSides(Device& device, const SearchSpec& spec, const Points& queries, Precision precision, ThreadPool& thread_pool)
      : counters(device), preparer(device, spec, precision, thread_pool, cleared(device)), centre(device),
        transform(preparer.choose_with_step(centre)),
        model(model_of(spec.metric, spec.type, spec.corpus.cols, transform.scale, precision)), rows(device),
        asked(device), states(device) {
    preparer.make(rows, {.points = spec.corpus, .model = model, .transform = transform, .longest = spec.k});
    preparer.make(asked, {.points = queries,
                          .queries = true,
                          .model = model,
                          .transform = transform,
                          .start = {.states = states.reserve(padded_to_blocks(queries.rows))},
                          .values = true});  // what is found is ranked
  }
  Counters* cleared(Device& device) {
    device.zero(counters.reserve(1), sizeof(Counters));
    return counters.data();
  }

  DeviceBuffer<Counters, Device> counters;
  MatrixPreparer<Device> preparer;
  DeviceBuffer<float, Device> centre;
  DeviceTransform transform;
  BoundModel model;
  PreparedMatrixBuffers<Device> rows, asked;
  DeviceBuffer<QueryState, Device> states;
};

/// All pairs of `corpus` and `queries` by one precision; what was counted before is in `tally`.
template <class Device>
void check(Device& device, const Points& corpus, const Points& queries, Metric metric, Precision precision,
           const char* instruction_set, ThreadPool& thread_pool, Tally& tally) {
  const SearchSpec spec{.corpus = corpus, .metric = metric, .degenerate = Degenerate::one};
  const FilterKernel& kernel = *filter_kernel(device.filters(), precision, filter_sum_of(metric), instruction_set);
  const BothSides<Device> sides(device, spec, queries, precision, thread_pool);
  const PreparedMatrix& rows = sides.rows.matrix;
  SearchArgs args{.rows = rows,
                  .queries = sides.asked.matrix,
                  .model = sides.model,
                  .floats = in_lines(precision, sides.model.sum),
                  .choice = {},
                  .visits = visits_of(rows.tiles())};
  args.states = sides.states.data();
  args.counters = sides.counters.data();
  DeviceBuffer<Slot, Device> slots(device);
  args.slots = slots.reserve(1);

  const FilterBlock block = kernel.block(args, false);
  Filter f{.args = args,
           .last = rows.tiles(),
           .part = 1,
           .parts = rows.tiles(),
           .blocks = (queries.rows + block.queries - 1) / block.queries,
           .everything = true};
  const std::int64_t grid = std::min<std::int64_t>(device.multiprocessors, f.blocks * f.parts), width = rows.width,
                     workers = grid * block.writing_warps;
  const float largest = kernel.largest_threshold(width <= 128);
  f.room = (f.blocks * f.parts + grid - 1) / grid * block.queries * tile_rows * grid / workers;
  DeviceBuffer<Candidate, Device> candidates(device);
  DeviceBuffer<GroupCandidate, Device> groups(device);
  DeviceBuffer<std::uint32_t, Device> used(device);
  const CandidateForm form = kernel.form(args);
  const std::int64_t opened_room = f.room;
  if (form == CandidateForm::groups) {
    f.room /= group_rows;
    f.group_candidates = groups.reserve(f.room * workers);
  } else {
    f.candidates = candidates.reserve(f.room * workers);
  }
  f.used = used.reserve(workers);
  launch_filter<false>(device, kernel, precision, f, grid);
  DeviceBuffer<Tally, Device> sum(device);
  device.in(sum.reserve(1), &tally, sizeof tally);
  DeviceBuffer<Candidate, Device> opened(device);
  if (form == CandidateForm::groups) {
    device.launch()(workers, 32, 0, open_groups,
                    OpenGroups{.args = args,
                               .groups = f.group_candidates,
                               .used = f.used,
                               .opened = opened.reserve(opened_room * workers),
                               .room = f.room,
                               .opened_room = opened_room,
                               .tally = sum.data()});
    f.candidates = opened.data();
    f.room = opened_room;
  }
  device.launch()(workers, match_threads, 0, check_found,
                  Check{.args = args,
                        .ranking = ranking_of(args),
                        .candidates = f.candidates,
                        .used = f.used,
                        .room = f.room,
                        .always = static_cast<int>(largest),
                        .largest_threshold = largest,
                        .whole_sums = args.floats && in_codes(precision),
                        .lost_bits = kernel.lost_bits(width <= 128),
                        .tally = sum.data()});
  const unsigned long long before = tally.pairs;
  device.out(&tally, sum.data(), sizeof tally);
  device.wait();
  tally.unfilterable += static_cast<unsigned long long>(queries.rows * corpus.rows) - (tally.pairs - before);
}

}  // namespace bounds
