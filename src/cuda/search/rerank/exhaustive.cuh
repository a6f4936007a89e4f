// The canonical precision on a device: every pair's key, a stretch of rows at a time beside the list so far, and a selection of both.
#pragma once
#include "backend/search.hpp"
#include "cuda/search/filter/int8_mma.cuh"
#include "cuda/search/memory_plan.hpp"
#include "cuda/search/rerank/rank.cuh"
#include "cuda/select/select.hpp"

namespace vicinal::cuda {

inline constexpr int scan_threads = 256, scan_rows = 4, scan_queries = 4;  // pairs of a warp: rows x queries

struct Scan {
  SearchJob job;
  Ranking ranking;
  std::int64_t first = 0, last = 0;  // rows of the chunk
  void* keys = nullptr;              // [queries][cols], the list in the first k
  std::int64_t cols = 0;
};

__device__ __forceinline__ void store_scan_key(const Scan& s, std::int64_t query, std::int64_t col, double key) {
  const std::int64_t at = query * s.cols + col;
  if (s.ranking.type == DistanceType::f32) static_cast<float*>(s.keys)[at] = static_cast<float>(key);
  else static_cast<double*>(s.keys)[at] = key;
}
__device__ __forceinline__ double load_scan_key(const Scan& s, const void* keys, std::int64_t at) {
  return s.ranking.type == DistanceType::f32 ? static_cast<double>(static_cast<const float*>(keys)[at])
                                             : static_cast<const double*>(keys)[at];
}

/// Rows [first, last) with `count` queries, of which the i-th is number(i): every lane calls each(pair, i, row, sum), with `pair` in one lane a pair.
template <class Number, class Each>
__device__ __forceinline__ void scan_pairs(const SearchJob& job, const Ranking& ranking, std::int64_t first,
                                           std::int64_t last, std::int64_t count, const Number& number,
                                           const Each& each) {
  const std::int64_t row_groups = (last - first + scan_rows - 1) / scan_rows,
                     query_groups = (count + scan_queries - 1) / scan_queries;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  const Sum sum = sum_of(ranking.metric);
  constexpr int lanes = 32 / (scan_rows * scan_queries);
  // Warps side by side share rows, which then come from the cache.
  for (std::int64_t piece = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
       piece < row_groups * query_groups; piece += warps) {
    const std::int64_t row = first + piece / query_groups * scan_rows, query = piece % query_groups * scan_queries;
    std::int64_t rows[scan_rows], queries[scan_queries];
    double shifts[scan_rows];
#pragma unroll
    for (int j = 0; j < scan_rows; ++j) {
      const std::int64_t at = row + j < last ? row + j : row;
      rows[j] = at * job.rows.dims;
      shifts[j] = ranking.metric == Metric::correlation ? job.rows.mean[at] : 0.0;
    }
#pragma unroll
    for (int j = 0; j < scan_queries; ++j) queries[j] = number(query + j < count ? query + j : query) * job.rows.dims;
    const double total = pair_sums<scan_rows, scan_queries>(ranking, sum, rows, shifts, queries);
    const std::int64_t at = row + lane_index() / lanes % scan_rows, i = query + lane_index() / lanes / scan_rows;
    each(lane_index() % lanes == 0 && at < last && i < count, i, at, total);
  }
}
/// Keys of rows [first, last) with all queries.
__global__ void __launch_bounds__(scan_threads) scan_keys(Scan s) {
  const auto number = [](std::int64_t i) { return i; };
  scan_pairs(s.job, s.ranking, s.first, s.last, s.job.queries.count, number,
             [&](bool pair, std::int64_t query, std::int64_t row, double sum) {
               if (!pair) return;
               const bool may = may_pair(s.job, query, row);
               const double key = may ? folded_key(s.ranking, value_of_sum(s.ranking, sum, query, row)) : infinite;
               if (may && !is_finite(key)) s.job.states[query].overflowed = true;
               store_scan_key(s, query, s.job.k + row - s.first, key);
             });
}

/// The lists into the first columns of the keys, where the selection finds them before the rows that follow.
template <class Form>
__global__ void lists_to_keys(Scan s) {
  const SearchJob& job = s.job;
  const std::int64_t all = job.queries.count * job.k;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index(); i < all;
       i += static_cast<std::int64_t>(gridDim.x) * thread_count()) {
    const std::int64_t query = i / job.k, at = i % job.k;
    const bool there = at < static_cast<std::int64_t>(job.states[query].best);
    store_scan_key(s, query, at,
                   there ? ListWords<Form>::key(static_cast<const typename Form::Word*>(job.best)[i]) : infinite);
  }
}

struct ScanLists {
  Scan scan;
  const void* values = nullptr;  // of the selection, k a query
  const std::int64_t* columns = nullptr;
  void* next = nullptr;  // words of the lists from now on
};
/// What was selected becomes the lists.
template <class Form>
__global__ void keys_to_lists(ScanLists l) {
  const Scan& s = l.scan;
  const SearchJob& job = s.job;
  for (std::int64_t query = blockIdx.x; query < job.queries.count; query += gridDim.x) {
    const std::int64_t base = query * job.k;
    std::int64_t have = 0;
    for (std::int64_t i = thread_index(); i < job.k; i += thread_count()) {
      const double key = load_scan_key(s, l.values, base + i);
      const std::int64_t col = l.columns[base + i];
      if (!(key < infinite)) continue;  // keys ascend, so those that are missing come last
      have = i + 1;
      static_cast<typename Form::Word*>(l.next)[base + i] =
          col < job.k ? static_cast<const typename Form::Word*>(job.best)[base + col]
                      : Form::make(ListWords<Form>::ordered(key), job.first_row + s.first + col - job.k);
    }
    VICINAL_SHARED(unsigned, most, 1);
    if (thread_index() == 0) most[0] = 0;
    __syncthreads();
    atomicMax(&most[0], static_cast<unsigned>(have));
    __syncthreads();
    if (thread_index() == 0) job.states[query].best = most[0];
    __syncthreads();
  }
}

/// Searches by every pair; what they work in is kept from one to the next.
template <class Device>
class EveryPair {
 public:
  explicit EveryPair(Device& device)
      : device_(device), keys_(device), values_(device), next_(device), workspace_(device), columns_(device) {}

  /// best: the lists of the job, before and afterwards.
  void search(const SearchJob& job, const Ranking& ranking, bool wide, DeviceBuffer<std::byte, Device>& best,
              ThreadPool& thread_pool) {
    const std::int64_t count = job.queries.count, k = job.k, rows = job.rows.count,
                       stretch = scan_stretch(count, k, rows), key = key_size(ranking.type);
    const std::int64_t everyone = std::int64_t{device_.multiprocessors} * 8;
    Scan s{.job = job, .ranking = ranking};
    s.cols = k + stretch;
    s.keys = keys_.reserve(count * s.cols * key);
    SelectTask task;
    task.values = Values(s.keys, key_type(ranking.type), count, s.cols);
    task.k = k;
    task.out.values = values_.reserve(count * k * key);
    task.out.ids = columns_.reserve(count * k);
    for (s.first = 0; s.first < rows; s.first = s.last) {
      s.last = std::min(rows, s.first + stretch);
      task.values.cols = k + s.last - s.first;
      device_.launch()(everyone, 256, 0, wide ? lists_to_keys<Wide> : lists_to_keys<Packed>, s);
      device_.launch()(everyone, scan_threads, 0, scan_keys, s);
      void* workspace = workspace_.reserve(device_.select_bytes(task));
      device_.select(task, workspace);
      const ScanLists lists{.scan = s,
                            .values = values_.data(),
                            .columns = columns_.data(),
                            .next = next_.reserve(count * k * word_size(wide))};
      device_.launch()(std::min(count, everyone), k > 4096 ? 1024 : 256, 0,
                       wide ? keys_to_lists<Wide> : keys_to_lists<Packed>, lists);
      std::swap(best, next_);
      s.job.best = best.data();
      device_.wait();
      thread_pool.poll(static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(s.last - s.first));
    }
  }

 private:
  Device& device_;
  DeviceBuffer<std::byte, Device> keys_, values_, next_, workspace_;
  DeviceBuffer<std::int64_t, Device> columns_;
};

}  // namespace vicinal::cuda
