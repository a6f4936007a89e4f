// True distances of candidates, and the nearest of them: a block a query, without anything between a distance and the list of the best.
#pragma once
#include "cuda/permutation/job.hpp"
#include "cuda/search/rank.cuh"

namespace vicinal::cuda {

inline constexpr std::int64_t most_measured_k = 1024;
inline constexpr int rows_measured = 8;  // at once, by a warp

/// Words that are sorted at a time: the list, and new ones.
inline std::int64_t measure_words(std::int64_t k) {
  std::int64_t words = 1024;
  while (words < 2 * k) words *= 2;
  return words;
}

struct Measure {
  Ranking ranking;
  const std::uint32_t* found = nullptr;   // [query][candidates]
  const std::uint32_t* failed = nullptr;  // [query] it has no candidates, or null
  const std::uint32_t* only = nullptr;    // queries, a block each, or null: all
  std::int64_t candidates = 0, k = 0, words = 0;  // words: measure_words
  void* best = nullptr;                   // [query][k], sorted; last() where there are fewer
};

/// The rows of queries in fp64, without their mean for correlation.
template <int>
__global__ void __launch_bounds__(rank_threads) query_values(Ranking ranking) {
  const Side& side = ranking.queries;
  const std::int64_t all = side.count * side.dims;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index(); i < all; i += static_cast<std::int64_t>(gridDim.x) * thread_count()) {
    const double value = element(side.rows, side.dtype, i);
    side.values[i] = side.mean != nullptr ? value - side.mean[i / side.dims] : value;
  }
}

/// A block a query: the ranks of the permutants by (distance, number), as footrule.cuh reads them.
struct OrderQueries {
  Ranking ranking;                      // in fp64
  const std::uint32_t* permutants = nullptr;
  int count = 0, words = 0;
  std::uint32_t* queries = nullptr;     // [query][words]
  unsigned* lost = nullptr;             // distances that are not finite
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
    if (!is_finite(distance)) atomicAdd(o.lost, 1u);
  }
  __syncthreads();
  for (int w = thread_index(); w < o.words; w += rank_threads) {
    std::uint32_t four = 0;
    for (int i = 0; i < 4 && 4 * w + i < o.count; ++i) {
      const double mine = distances[4 * w + i];
      std::uint32_t rank = 0;
      for (int p = 0; p < o.count; ++p) rank += distances[p] < mine || (distances[p] == mine && p < 4 * w + i) ? 1u : 0u;
      four |= rank << (8 * i);
    }
    o.queries[query * o.words + w] = four;
  }
}

template <class Form, int measured_rows>
__global__ void __launch_bounds__(rank_threads, measured_rows == 8 ? 3 : 4) measure_found(Measure m) {
  using Words = ListWords<Form>;
  using Word = typename Form::Word;
  VICINAL_SHARED(int, filled, 1);
  Word* words = dynamic_shared<Word>();
  const std::int64_t query = m.only != nullptr ? m.only[blockIdx.x] : blockIdx.x;
  if (m.failed != nullptr && m.failed[query] != 0) return;
  const std::uint32_t* const found = m.found + query * m.candidates;
  const Ranking& ranking = m.ranking;
  const std::int64_t dims = ranking.rows.dims, queries[1] = {query * dims}, room = m.words - m.k;
  const Sum sum = sum_of(ranking.metric);
  if (thread_index() == 0) filled[0] = 0;
  __syncthreads();
  int have = 0;
  Word limit = Form::last();  // once the list is full, its last
  for (std::int64_t from = 0; from < m.candidates;) {
    // At first no more than tell a limit.
    const std::int64_t most = from == 0 && 256 + 2 * m.k < room ? 256 + 2 * m.k : room;
    const std::int64_t end = from + most < m.candidates ? from + most : m.candidates;
    for (std::int64_t at = from + warp_index() * measured_rows; at < end; at += rank_threads / 32 * measured_rows) {
      std::int64_t rows[measured_rows];
      double shifts[measured_rows];
#pragma unroll
      for (int j = 0; j < measured_rows; ++j) {
        const std::int64_t row = found[at + j < end ? at + j : at];
        rows[j] = row * dims;
        shifts[j] = ranking.rows.mean != nullptr ? ranking.rows.mean[row] : 0.0;
      }
      const double total = pair_sums<measured_rows, 1>(ranking, sum, rows, shifts, queries);
      const std::int64_t which = at + lane_index() / (32 / measured_rows);
      if (lane_index() % (32 / measured_rows) != 0 || which >= end) continue;
      const std::int64_t row = found[which];
      const Word word = Form::make(Words::ordered(folded_key(ranking, value_of_sum(ranking, total, query, row))), row);
      if (word < limit) words[have + atomicAdd(&filled[0], 1)] = word;
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
  auto* const best = static_cast<Word*>(m.best) + query * m.k;
  for (std::int64_t i = thread_index(); i < m.k; i += thread_count()) best[i] = i < have ? words[i] : Form::last();
}

}  // namespace vicinal::cuda
