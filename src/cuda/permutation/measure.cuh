// True distances of a permutation index's candidates, and the nearest of them:
// blocks share a query's candidates and keep a list of their best, with nothing
// between a distance and that list; a second kernel merges the lists of a query.
#pragma once
#include "cuda/permutation/args.hpp"
#include "cuda/search/core/block_select.cuh"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/rerank/rank.cuh"

namespace vicinal::cuda {

inline constexpr std::int64_t most_measured_k = 1024;
inline constexpr int measured_at_once = 8;  // rows, by a warp
inline constexpr std::int64_t most_query_values =
    4096;  // of a query that a block keeps in shared memory: rows push them out of the cache
inline constexpr std::int64_t merged_words = 2048;  // at most, of the lists of one query

/// Words that are sorted at a time: the list, and new ones.
inline std::int64_t measure_words(std::int64_t k) {
  std::int64_t words = 1024;
  while (words < 2 * k) words *= 2;
  return words;
}
/// Blocks that share a query: so many that the last of them leave little
/// of the device idle, and none that a list costs more than it saves.
inline std::int64_t measure_parts(std::int64_t queries, std::int64_t candidates, std::int64_t k,
                                  std::int64_t multiprocessors) {
  const std::int64_t wanted = (32 * multiprocessors + queries - 1) / queries;
  return std::max<std::int64_t>(1, std::min({wanted, candidates / (1024 + 4 * k), merged_words / k}));
}

struct Measure {
  Ranking ranking;
  const std::uint32_t* found = nullptr;           // [query][candidates]
  const std::uint32_t* failed = nullptr;          // [query] it has no candidates, or null
  const std::uint32_t* selected = nullptr;        // queries, a block each, or null: all
  std::int64_t candidates = 0, k = 0, words = 0;  // words: measure_words
  std::int64_t count = 0, parts = 1;              // queries, and blocks for each
  // The sorted lists of several parts, [position among the queries of the launch][part][k]; last() where there are
  // fewer.
  void* lists = nullptr;
  void* best = nullptr;  // [query][k], the same of all parts
};

/// The rows of queries in fp64, without their mean for correlation.
template <int>
__global__ void __launch_bounds__(rank_threads) query_values(Ranking ranking) {
  const PreparedMatrix& matrix = ranking.queries;
  const std::int64_t all = matrix.count * matrix.dims;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index(); i < all;
       i += static_cast<std::int64_t>(gridDim.x) * thread_count()) {
    const double value = element(matrix.rows, matrix.dtype, i);
    matrix.values[i] = matrix.mean != nullptr ? value - matrix.mean[i / matrix.dims] : value;
  }
}

/// A block a query: the ranks of the permutants by (distance, number), as footrule.cuh reads them.
struct OrderQueries {
  Ranking ranking;  // in fp64
  const std::uint32_t* permutants = nullptr;
  int count = 0, words = 0;
  std::uint32_t* queries = nullptr;  // [query][words]
  unsigned* not_finite = nullptr;    // distances that are not finite
};
template <int>
__global__ void __launch_bounds__(rank_threads) order_queries(OrderQueries o) {
  VICINAL_SHARED(double, distances, 4 * most_rank_words);
  const Ranking& ranking = o.ranking;
  const std::int64_t query = blockIdx.x, dims = ranking.rows.dims, queries[1] = {query * dims};
  const Sum sum = sum_of(ranking.metric);
  for (int at = warp_index() * rows_at_once; at < o.count; at += rank_threads / 32 * rows_at_once) {
    std::int64_t rows[rows_at_once];
    double shifts[rows_at_once];
#pragma unroll
    for (int j = 0; j < rows_at_once; ++j) {
      const std::int64_t row = o.permutants[at + j < o.count ? at + j : at];
      rows[j] = row * dims;
      shifts[j] = ranking.rows.mean != nullptr ? ranking.rows.mean[row] : 0.0;
    }
    const double total = pair_sums<rows_at_once, 1>(ranking, sum, rows, shifts, queries);
    const int which = at + lane_index() / (32 / rows_at_once);
    if (lane_index() % (32 / rows_at_once) != 0 || which >= o.count) continue;
    const double distance = folded_key(ranking, value_of_sum(ranking, total, query, o.permutants[which]));
    distances[which] = distance;
    if (!is_finite(distance)) atomicAdd(o.not_finite, 1u);
  }
  __syncthreads();
  for (int w = thread_index(); w < o.words; w += rank_threads) {
    std::uint32_t four = 0;
    for (int i = 0; i < 4 && 4 * w + i < o.count; ++i) {
      const double mine = distances[4 * w + i];
      std::uint32_t rank = 0;
      for (int p = 0; p < o.count; ++p)
        rank += distances[p] < mine || (distances[p] == mine && p < 4 * w + i) ? 1u : 0u;
      four |= rank << (8 * i);
    }
    o.queries[query * o.words + w] = four;
  }
}

/// Blocks: of all queries the first part, then of all the second: lists
/// ascend by and large, so that blocks of a time read the same rows.
template <class Form>
__global__ void __launch_bounds__(rank_threads, 3) measure_candidates(Measure m) {
  using Words = ListWords<Form>;
  using Word = typename Form::Word;
  VICINAL_SHARED(int, filled, 1);
  Word* words = dynamic_shared<Word>();
  const std::int64_t part = blockIdx.x / m.count, position = blockIdx.x % m.count,
                     query = m.selected != nullptr ? m.selected[position] : position;
  if (m.failed != nullptr && m.failed[query] != 0) return;
  const std::uint32_t* const found = m.found + query * m.candidates;
  const Ranking& ranking = m.ranking;
  const std::int64_t dims = ranking.rows.dims, room = m.words - m.k;
  const std::int64_t begin = m.candidates * part / m.parts, stop = m.candidates * (part + 1) / m.parts;
  const Sum sum = sum_of(ranking.metric);
  constexpr int lanes = 32 / measured_at_once, step = rank_threads / 32 * measured_at_once;
  const int mine = lane_index() / lanes;  // the row of a warp's whose sum this lane gets
  const bool near = dims <= most_query_values;
  auto* const values = reinterpret_cast<double*>(words + m.words);
  for (std::int64_t i = thread_index(); near && i < dims; i += thread_count())
    values[i] = ranking.queries.values[query * dims + i];
  Ranking summed = ranking;
  if (near) summed.queries.values = values;
  const std::int64_t queries[1] = {near ? 0 : query * dims};
  if (thread_index() == 0) filled[0] = 0;
  __syncthreads();
  int have = 0;
  Word limit = Form::last();  // once the list is full, its last
  for (std::int64_t from = begin; from < stop;) {
    // At first no more than tell a limit.
    const std::int64_t most = from == begin && 256 + 2 * m.k < room ? 256 + 2 * m.k : room;
    const std::int64_t end = from + most < stop ? from + most : stop;
    std::int64_t at = from + warp_index() * measured_at_once;
    const auto number_at = [&](std::int64_t first) {
      return first < end ? found[first + mine < end ? first + mine : first] : 0u;
    };
    std::uint32_t next = number_at(at);
    for (; at < end; at += step) {
      const std::uint32_t row = next;
      next = number_at(at + step);
      std::int64_t rows[measured_at_once];
      double shifts[measured_at_once];
#pragma unroll
      for (int j = 0; j < measured_at_once; ++j) {
        const std::uint32_t one = __shfl_sync(all_lanes, row, j * lanes);
        rows[j] = one * dims;
        shifts[j] = ranking.rows.mean != nullptr ? ranking.rows.mean[one] : 0.0;
      }
      const double total = pair_sums<measured_at_once, 1>(summed, sum, rows, shifts, queries);
      if (lane_index() % lanes == 0 && at + mine < end) {
        const Word word =
            Form::make(Words::ordered(folded_key(ranking, value_of_sum(ranking, total, query, row))), row);
        if (word < limit) words[have + atomicAdd(&filled[0], 1)] = word;
      }
    }
    __syncthreads();
    const int used = have + filled[0];
    __syncthreads();
    if (used > have) sort_list<Form>(words, used);
    have = used < m.k ? used : static_cast<int>(m.k);
    if (have == m.k) limit = words[m.k - 1];
    if (thread_index() == 0) filled[0] = 0;
    __syncthreads();
    from = end;
  }
  auto* const list = m.parts > 1 ? static_cast<Word*>(m.lists) + (position * m.parts + part) * m.k
                                 : static_cast<Word*>(m.best) + query * m.k;
  for (std::int64_t i = thread_index(); i < m.k; i += thread_count()) list[i] = i < have ? words[i] : Form::last();
}

/// A block a query.
template <class Form>
__global__ void __launch_bounds__(rank_threads) merge_parts(Measure m) {
  using Word = typename Form::Word;
  Word* words = dynamic_shared<Word>();
  const std::int64_t query = m.selected != nullptr ? m.selected[blockIdx.x] : blockIdx.x;
  if (m.failed != nullptr && m.failed[query] != 0) return;
  const int all = static_cast<int>(m.parts * m.k);
  const auto* const lists = static_cast<const Word*>(m.lists) + blockIdx.x * all;
  for (int i = thread_index(); i < all; i += thread_count()) words[i] = lists[i];
  __syncthreads();
  sort_list<Form>(words, all);
  auto* const best = static_cast<Word*>(m.best) + query * m.k;
  for (std::int64_t i = thread_index(); i < m.k; i += thread_count()) best[i] = words[i];
}

}  // namespace vicinal::cuda
