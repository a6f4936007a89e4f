// RANGE on a device: what passes a limit that never moves is ranked at once, and what is within the radius goes to one
// list of the batch; counts a query, sums of them, and a sort of each row make a compressed matrix of it.
#pragma once
#include "core/largest_error.hpp"
#include "cuda/search/filter/scatter.cuh"
#include "cuda/search/rerank/exhaustive.cuh"
#include "cuda/search/rerank/rerank.cuh"

namespace vicinal::cuda {

inline constexpr int match_threads = 128, sort_run = 1024, merge_piece = 8;

/// A row within the radius. query: its number in the batch. row: of the corpus.
struct Match {
  double key;
  std::int64_t row;
  std::uint32_t query, underflowed;  // underflowed: the returned distance has underflowed, which is counted
};

/// The matches of a batch, in no order; those beyond the capacity are counted, and their queries overflow.
struct MatchList {
  double radius = 0;  // the largest folded key within it
  Match* all = nullptr;
  std::int64_t capacity = 0;
  unsigned long long *used = nullptr, *counts = nullptr;  // of all, and of each query
  std::uint32_t* overflowed = nullptr;                    // of each query
};

/// Called by whole warps; lanes without a pair have none to keep.
__device__ __forceinline__ void keep_match(const MatchList& list, const Ranking& ranking, bool pair, std::int64_t query,
                                           std::int64_t row, double value) {
  const double key = pair ? folded_key(ranking, value) : infinite;
  const bool within = pair && key <= list.radius;
  const unsigned votes = __ballot_sync(all_lanes, within);
  if (votes == 0) return;
  unsigned long long at = 0;
  const int first = __ffs(static_cast<int>(votes)) - 1;
  if (lane_index() == first) at = atomicAdd(list.used, static_cast<unsigned long long>(__popc(votes)));
  at = __shfl_sync(all_lanes, at, first) + static_cast<unsigned long long>(votes_below(votes));
  if (!within) return;
  atomicAdd(&list.counts[query], 1ull);
  if (!is_finite(key)) atomicAdd(&ranking.counters->infinite_keys, 1u);
  if (at >= static_cast<unsigned long long>(list.capacity)) {
    list.overflowed[query] = 1;
    return;
  }
  const bool narrow = ranking.type == DistanceType::f32;
  const bool small = fabs(key) < (narrow ? 0x1p-126 : 0x1p-1022) && ranking.type != DistanceType::u32;
  const bool underflowed = small && (key != 0 || (narrow && value != 0 && !needs_norms(ranking.metric)));
  list.all[at] = {key, row, static_cast<std::uint32_t>(query), underflowed ? 1u : 0u};
}

/// Limits that the radius gives, for the queries that the filter can
/// prove anything of; the numbers of the others to `unfilterable`.
struct StartRange {
  SearchArgs args;
  double radius;
  std::uint32_t *unfilterable, *unfilterable_count;
  double* largest;  // of each query, by number; written by end_range
};
__global__ void start_range(StartRange s) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position >= s.args.queries.count) return;
  QueryState& state = s.args.states[position];
  if (state.given_up) s.unfilterable[atomicAdd(s.unfilterable_count, 1u)] = s.args.queries.order[position];
  else tighten(s.args, position, s.radius);
}
/// How far the filter was from the truth at most.
__global__ void end_range(StartRange s) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position >= s.args.queries.count) return;
  const QuantizedQuery& query = s.args.queries.quantized[position];
  const FilterNorms rows{double_of(s.args.rows.largest[0]), double_of(s.args.rows.largest[1])};
  s.largest[s.args.queries.order[position]] =
      query.filterable ? largest_error(s.args.model, query.norms, rows, query.scale) : 0;
}

/// How much came through a part of the tiles, and whether a segment had no room for it.
struct CandidateCounts {
  unsigned long long candidates;
  unsigned overflowed;
};
struct CountCandidates {
  SearchArgs args;
  const std::uint32_t* used;
  std::int64_t workers;
  CandidateCounts* sum;
};
__global__ void count_candidates(CountCandidates w) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index(),
                     step = static_cast<std::int64_t>(gridDim.x) * thread_count();
  for (std::int64_t i = first; i < w.workers; i += step)
    if (w.used[i] != 0) atomicAdd(&w.sum->candidates, static_cast<unsigned long long>(w.used[i]));
  for (std::int64_t position = first; position < w.args.queries.count; position += step) {
    QueryState& state = w.args.states[position];
    if (!state.given_up || !w.args.queries.quantized[position].filterable) continue;
    state.given_up = false;
    atomicAdd(&w.sum->overflowed, 1u);
  }
}

/// Lanes of the sums of pairs, each of its own row and query.
template <Sum sum>
__device__ __forceinline__ void own_lanes(const Ranking& args, const std::int64_t (&rows)[rows_at_once],
                                          const double (&shifts)[rows_at_once],
                                          const std::int64_t (&queries)[rows_at_once], double (&lists)[rows_at_once]) {
#pragma unroll
  for (int j = 0; j < rows_at_once; ++j) lists[j] = 0;
  const auto run = [&](auto load) {
    for (std::int64_t i = lane_index(); i < args.rows.dims; i += 32) {
#pragma unroll
      for (int j = 0; j < rows_at_once; ++j)
        lists[j] = with<sum>(lists[j], args.queries.values[queries[j] + i], load(rows[j] + i), shifts[j]);
    }
  };
  if (args.rows.dtype == DType::f32)
    run([&](std::int64_t at) { return static_cast<double>(static_cast<const float*>(args.rows.rows)[at]); });
  else run([&](std::int64_t at) { return element(args.rows.rows, args.rows.dtype, at); });
}

/// Their sums: lane i gets that of pair i / (32 / rows_at_once).
__device__ __forceinline__ double own_sums(const Ranking& args, const std::int64_t (&rows)[rows_at_once],
                                           const double (&shifts)[rows_at_once],
                                           const std::int64_t (&queries)[rows_at_once]) {
  double lists[rows_at_once];
  const Sum sum = sum_of(args.metric);
  switch (bounded(sum)) {
#define BOUNDED_SUM(name, join)                               \
  case BoundedSum::name:                                      \
    own_lanes<Sum::name>(args, rows, shifts, queries, lists); \
    break;
#include "core/sums.def"
    case BoundedSum::none: break;  // no filter finds their pairs
  }
  return join_of(sum) == Join::max ? lists_joined(lists, Larger{}) : lists_joined(lists, Plus{});
}

/// What the warps of the filter appended, ranked: a block a segment.
struct RankCandidates {
  SearchArgs args;
  Ranking ranking;
  MatchList matches;
  const Candidate* candidates = nullptr;
  const std::uint32_t* used = nullptr;
  std::int64_t room = 0;
};
__global__ void __launch_bounds__(match_threads) rank_candidates(RankCandidates r) {
  const SearchArgs& args = r.args;
  const Candidate* candidates = r.candidates + blockIdx.x * r.room;
  const std::uint32_t used = r.used[blockIdx.x], step = static_cast<std::uint32_t>(thread_count() / 32 * rows_at_once);
  for (std::uint32_t from = static_cast<std::uint32_t>(warp_index() * rows_at_once); from < used; from += step) {
    std::int64_t rows[rows_at_once], queries[rows_at_once];
    double shifts[rows_at_once];
#pragma unroll
    for (int j = 0; j < rows_at_once; ++j) {
      const Candidate one = candidates[from + j < used ? from + j : from];
      const std::int64_t row = one.position < args.rows.count ? args.rows.order[one.position] : 0;
      rows[j] = row * args.rows.dims;
      queries[j] = static_cast<std::int64_t>(args.queries.order[one.query]) * args.rows.dims;
      shifts[j] = r.ranking.metric == Metric::correlation ? args.rows.mean[row] : 0.0;
    }
    const double total = own_sums(r.ranking, rows, shifts, queries);
    const std::uint32_t which = from + static_cast<std::uint32_t>(lane_index() / (32 / rows_at_once));
    const bool pair = lane_index() % (32 / rows_at_once) == 0 && which < used && may_keep(args, candidates[which]);
    std::int64_t query = 0, row = 0;
    double value = 0;
    if (pair) {
      query = args.queries.order[candidates[which].query];
      row = args.rows.order[candidates[which].position];
      value = value_of_sum(r.ranking, total, query, row);
    }
    keep_match(r.matches, r.ranking, pair, query, args.first_row + row, value);
  }
}

/// Rows [first, last) of the chunk ranked for some queries, or for all.
struct ExhaustiveRange {
  SearchArgs args;
  Ranking ranking;
  MatchList matches;
  std::int64_t first = 0, last = 0;
  const std::uint32_t* numbers = nullptr;  // or null
  std::int64_t count = 0;                  // of queries
};
__global__ void __launch_bounds__(exhaustive_threads) exhaustive_range(ExhaustiveRange s) {
  const auto number = [&](std::int64_t i) {
    return s.numbers != nullptr ? static_cast<std::int64_t>(s.numbers[i]) : i;
  };
  exhaustive_pairs(s.args, s.ranking, s.first, s.last, s.count, number,
                   [&](bool pair, std::int64_t i, std::int64_t row, double sum) {
                     const std::int64_t query = pair ? number(i) : 0;
                     const bool answers = pair && may_pair(s.args, query, row);
                     keep_match(s.matches, s.ranking, answers, query, s.args.first_row + row,
                                answers ? value_of_sum(s.ranking, sum, query, row) : 0.0);
                   });
}

/// The list to rows of words, and these to ids and distances, sorted.
struct MatchRows {
  MatchList matches;
  Ranking ranking;
  std::int64_t kept = 0, queries = 0, first_id = 0;  // kept: entries of the list
  const std::int64_t* begins = nullptr;              // of each query, and the end
  unsigned long long* cursors = nullptr;             // of each query, from 0
  WideWord *words = nullptr, *scratch = nullptr;
  std::int64_t* ids = nullptr;
  void* distances = nullptr;
};
__global__ void fill_rows(MatchRows m) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * thread_count();
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index(); i < m.kept;
       i += step) {
    const Match one = m.matches.all[i];
    if (m.matches.overflowed[one.query] != 0) continue;
    const auto at = m.begins[one.query] + static_cast<std::int64_t>(atomicAdd(&m.cursors[one.query], 1ull));
    // Zeros of either sign are one key; the sign waits below the row.
    const bool negative = one.key == 0 && bits_of(one.key) != 0;
    m.words[at] = Wide::make(ListWords<Wide>::ordered(one.key),
                             one.row << 2 | (one.underflowed != 0 ? 2 : 0) | (negative ? 1 : 0));
  }
}

/// A block a row: runs in shared memory, then pairs of runs, each thread a piece of the merged one.
__global__ void __launch_bounds__(rerank_threads) sort_matches(MatchRows m) {
  VICINAL_SHARED(WideWord, run, sort_run);
  const std::int64_t query = blockIdx.x, begin = m.begins[query], count = m.begins[query + 1] - begin;
  WideWord *from = m.words + begin, *to = m.scratch + begin;
  // Runs, each sorted in shared memory.
  for (std::int64_t first = 0; first < count; first += sort_run) {
    const int used = static_cast<int>(count - first < sort_run ? count - first : sort_run);
    __syncthreads();
    for (int i = thread_index(); i < used; i += thread_count()) run[i] = from[first + i];
    sort_list<Wide>(run, used);
    for (int i = thread_index(); i < used; i += thread_count()) from[first + i] = run[i];
  }
  __syncthreads();
  // Merges of pairs of runs, from one array into the other.
  for (std::int64_t width = sort_run; width < count; width *= 2) {
    for (std::int64_t out = static_cast<std::int64_t>(thread_index()) * merge_piece; out < count;
         out += static_cast<std::int64_t>(thread_count()) * merge_piece) {
      const std::int64_t base = out / (2 * width) * (2 * width), rest = count - base;
      const std::int64_t a_count = rest < width ? rest : width,
                         b_count = rest - a_count < width ? rest - a_count : width;
      const WideWord *a = from + base, *b = a + a_count;
      std::int64_t i = merge_path(a, a_count, b, b_count, out - base), j = out - base - i;
      for (std::int64_t at = out; at < out + merge_piece && at < count; ++at)
        to[at] = j >= b_count || (i < a_count && !(b[j] < a[i])) ? a[i++] : b[j++];
    }
    __syncthreads();
    WideWord* const other = from;
    from = to;
    to = other;
  }
  // Output: ids and distances.
  unsigned underflowed = 0;
  const bool descends = descending(m.ranking.metric);
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const std::int64_t position = Wide::position(from[i]), at = begin + i;
    double key = ListWords<Wide>::key(from[i]);
    if (key == 0) key = (position & 1) != 0 ? -0.0 : 0.0;
    const double value = descends ? -key : key;
    m.ids[at] = m.first_id + (position >> 2);
    if (m.ranking.type == DistanceType::f64) static_cast<double*>(m.distances)[at] = value;
    else if (m.ranking.type == DistanceType::u32)
      static_cast<std::uint32_t*>(m.distances)[at] = static_cast<std::uint32_t>(value);
    else static_cast<float*>(m.distances)[at] = static_cast<float>(value);
    underflowed += (position & 2) != 0 ? 1u : 0u;
  }
  for (int h = 16; h > 0; h /= 2) underflowed += __shfl_xor_sync(all_lanes, underflowed, h);
  if (lane_index() == 0 && underflowed != 0)
    atomicAdd(&m.ranking.counters->underflowed, static_cast<unsigned long long>(underflowed));
}

}  // namespace vicinal::cuda
