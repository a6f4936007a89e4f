// The canonical precision on a device: every pair's key, a segment
// of rows at a time beside the list so far, and a selection of both.
#pragma once
#include "backend/search.hpp"
#include "core/parallel.hpp"
#include "cuda/device/device.hpp"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/core/row_choice.cuh"
#include "cuda/search/rerank/exhaustive_resident.cuh"
#include "cuda/search/rerank/row_sums.cuh"
#include "cuda/select/select.hpp"

namespace vicinal::cuda {

inline constexpr int exhaustive_threads = 256, exhaustive_rows = 4,
                     exhaustive_queries = 4;  // pairs of a warp: rows x queries

/// Rows whose keys are taken at a time beside the lists.
inline std::int64_t exhaustive_segment(std::int64_t batch, std::int64_t k, std::int64_t rows) {
  return std::min(rows,
                  std::max({std::int64_t{8192}, 2 * k, (std::int64_t{1} << 28) / std::max<std::int64_t>(batch, 1)}));
}
/// Bytes of the lists and keys of a batch that is ranked beside every row.
inline std::int64_t exhaustive_bytes(std::int64_t batch, std::int64_t k, std::int64_t rows, DistanceType type,
                                     bool wide) {
  const std::int64_t cols = k + exhaustive_segment(batch, k, rows);
  return batch * (cols * key_size(type) + k * (key_size(type) + 8 + word_size(wide)));
}

struct Exhaustive {
  SearchArgs args;
  Ranking ranking;
  std::int64_t first = 0, last = 0;  // rows of the chunk
  void* keys = nullptr;              // [queries][cols], the list in the first `listed`
  std::int64_t cols = 0;
  std::int64_t listed = 0;  // columns of the lists that are selected from, k or none
  bool checks = false;      // rows with an element that is not finite are counted
  std::int64_t tile = 0;    // queries that shared memory holds at a time, where rows stay in registers
};

__device__ __forceinline__ void store_exhaustive_key(const Exhaustive& s, std::int64_t query, std::int64_t col,
                                                     double key) {
  const std::int64_t at = query * s.cols + col;
  if (s.ranking.type == DistanceType::f32) static_cast<float*>(s.keys)[at] = static_cast<float>(key);
  else static_cast<double*>(s.keys)[at] = key;
}
__device__ __forceinline__ double load_exhaustive_key(const Exhaustive& s, const void* keys, std::int64_t at) {
  return s.ranking.type == DistanceType::f32 ? static_cast<double>(static_cast<const float*>(keys)[at])
                                             : static_cast<const double*>(keys)[at];
}

/// Rows [first, last) with `count` queries, of which the i-th is number(i): every lane calls each(pair, i, row, sum),
/// with `pair` in one lane a pair.
template <class Number, class Each>
__device__ __forceinline__ void exhaustive_pairs(const SearchArgs& args, const Ranking& ranking, std::int64_t first,
                                                 std::int64_t last, std::int64_t count, const Number& number,
                                                 const Each& each) {
  const std::int64_t row_groups = (last - first + exhaustive_rows - 1) / exhaustive_rows,
                     query_groups = (count + exhaustive_queries - 1) / exhaustive_queries;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  const Sum sum = sum_of(ranking.metric);
  constexpr int lanes = 32 / (exhaustive_rows * exhaustive_queries);
  // Warps side by side share rows, which then come from the cache.
  for (std::int64_t piece = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
       piece < row_groups * query_groups; piece += warps) {
    const std::int64_t row = first + piece / query_groups * exhaustive_rows,
                       query = piece % query_groups * exhaustive_queries;
    std::int64_t rows[exhaustive_rows], queries[exhaustive_queries];
    double shifts[exhaustive_rows];
#pragma unroll
    for (int j = 0; j < exhaustive_rows; ++j) {
      const std::int64_t at = row + j < last ? row + j : row;
      rows[j] = at * args.rows.dims;
      shifts[j] = ranking.metric == Metric::correlation ? args.rows.mean[at] : 0.0;
    }
#pragma unroll
    for (int j = 0; j < exhaustive_queries; ++j)
      queries[j] = number(query + j < count ? query + j : query) * args.rows.dims;
    const double total = pair_sums<exhaustive_rows, exhaustive_queries>(ranking, sum, rows, shifts, queries);
    const std::int64_t at = row + lane_index() / lanes % exhaustive_rows,
                       i = query + lane_index() / lanes / exhaustive_rows;
    each(lane_index() % lanes == 0 && at < last && i < count, i, at, total);
  }
}
/// Whether a sum over the columns of a row is infinite or NaN where an element of it is.
inline bool sum_shows_elements(Sum sum) {
  return sum == Sum::squares || sum == Sum::products || sum == Sum::magnitudes;
}
/// One lane has the sum of a pair. A sum that is not finite is looked into, for it may be the query's, or too large.
__device__ __forceinline__ void take_exhaustive_sum(const Exhaustive& s, std::int64_t query, std::int64_t row,
                                                    double sum) {
  if (s.checks && !is_finite(sum)) {
    const PreparedMatrix& rows = s.args.rows;
    bool finite = true;
    for (std::int64_t i = 0; i < rows.dims && finite; ++i)
      finite = is_finite(element(rows.rows, rows.dtype, row * rows.dims + i));
    if (!finite) atomicAdd(&s.args.counters->bad_rows, 1u);
  }
  const bool may = may_pair(s.args, query, row);
  const double key = may ? folded_key(s.ranking, value_of_sum(s.ranking, sum, query, row)) : infinite;
  if (may && !is_finite(key)) s.args.states[query].infinite_key = true;
  store_exhaustive_key(s, query, s.listed + row - s.first, key);
}
/// Keys of rows [first, last) with all queries.
__global__ void __launch_bounds__(exhaustive_threads) exhaustive_keys(Exhaustive s) {
  const auto number = [](std::int64_t i) { return i; };
  exhaustive_pairs(s.args, s.ranking, s.first, s.last, s.args.queries.count, number,
                   [&](bool pair, std::int64_t query, std::int64_t row, double sum) {
                     if (pair) take_exhaustive_sum(s, query, row, sum);
                   });
}
#define METRIC(name, ...)                                                                                           \
  static_assert(row_of(Metric::name).finish == Finish::itself || row_of(Metric::name).finish == Finish::root ||     \
                    needs_norms(Metric::name),                                                                      \
                "is_plain and exhaustive_keys_resident take a sum or its root for the key: another finish has its " \
                "case present");
#include "core/metric.def"
#undef METRIC

/// A key that needs nothing but its pair's sum: a sum that is a distance, or whose root is, in single precision, and
/// any row may answer any query.
__device__ __forceinline__ bool is_plain(const Exhaustive& s) {
  return s.ranking.type == DistanceType::f32 && s.args.choice.all && !needs_norms(s.ranking.metric) &&
         !descending(s.ranking.metric);
}
/// The same with rows in registers (exhaustive_resident.cuh), with the same bits.
template <Sum sum>
__global__ void __launch_bounds__(resident_threads, resident_blocks) exhaustive_keys_resident(Exhaustive s) {
  const bool plain = is_plain(s), root = row_of(s.ranking.metric).finish == Finish::root;
  float* const keys = static_cast<float*>(s.keys) + s.listed - s.first;
  resident_pairs<sum>(s.ranking, s.first, s.last, s.tile,
                      [&](bool pair, std::int64_t query, std::int64_t row, double total) {
                        if (!pair) return;
                        const float key = static_cast<float>(root ? sqrt(total) : total);
                        if (plain && key < static_cast<float>(infinite)) keys[query * s.cols + row] = key;
                        else take_exhaustive_sum(s, query, row, total);
                      });
}
using ExhaustiveKernel = void (*)(Exhaustive);
inline ExhaustiveKernel resident_kernel(Sum sum) {
  ExhaustiveKernel kernel = nullptr;
  switch (sum) {
#define SUM(name, join)                           \
  case Sum::name:                                 \
    kernel = exhaustive_keys_resident<Sum::name>; \
    break;
#include "core/sums.def"
    case Sum::none: break;  // refused when the search was opened
  }
  return kernel;
}

/// The same of one query, with the same bits: a warp has eight rows, and reads each once.
template <Sum sum, bool floats>
__global__ void __launch_bounds__(exhaustive_threads) exhaustive_keys_of_one(Exhaustive s) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t at = s.first + (static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index()) *
                                       std::int64_t{rows_a_warp};
       at < s.last; at += warps * std::int64_t{rows_a_warp}) {
    const std::int64_t two = at + lane_index() / 8 * 2, mine = at + lane_index() / 4, last = s.last - 1;
    const std::int64_t rows[2] = {two < last ? two : last, two + 1 < last ? two + 1 : last};
    const double total = row_sums<sum, floats>(s.ranking, rows, 0);
    if (lane_index() % 4 == 0 && mine < s.last) take_exhaustive_sum(s, 0, mine, total);
  }
}
/// The kernel of one query; null for a sum of which it has none.
inline ExhaustiveKernel kernel_of_one(const Ranking& ranking) {
  return with_ranked(ranking,
                     [&]<Sum sum, bool floats>() -> ExhaustiveKernel { return exhaustive_keys_of_one<sum, floats>; });
}

/// The lists into the first columns of the keys, where the selection finds them before the rows that follow.
template <class Form>
__global__ void lists_to_keys(Exhaustive s) {
  const SearchArgs& args = s.args;
  const std::int64_t all = args.queries.count * args.k;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index(); i < all;
       i += static_cast<std::int64_t>(gridDim.x) * thread_count()) {
    const std::int64_t query = i / args.k, at = i % args.k;
    const bool present = at < static_cast<std::int64_t>(args.states[query].best);
    store_exhaustive_key(
        s, query, at, present ? ListWords<Form>::key(static_cast<const typename Form::Word*>(args.best)[i]) : infinite);
  }
}

struct ExhaustiveLists {
  Exhaustive scan;
  const void* values = nullptr;  // of the selection, k a query
  const std::int64_t* columns = nullptr;
  void* next = nullptr;  // words of the lists from now on
};
inline constexpr std::int64_t list_piece = 1024;  // keys that a block has in work
/// What was selected becomes the lists, a piece of one a block.
template <class Form>
__global__ void keys_to_lists(ExhaustiveLists l) {
  const Exhaustive& s = l.scan;
  const SearchArgs& args = s.args;
  const std::int64_t pieces = (args.k + list_piece - 1) / list_piece;
  for (std::int64_t work = blockIdx.x; work < args.queries.count * pieces; work += gridDim.x) {
    const std::int64_t query = work / pieces, base = query * args.k, from = work % pieces * list_piece,
                       to = from + list_piece < args.k ? from + list_piece : args.k;
    for (std::int64_t i = from + thread_index(); i < to; i += thread_count()) {
      // Keys ascend, so those that are missing come last.
      const double key = load_exhaustive_key(s, l.values, base + i);
      const bool present = key < infinite,
                 ends = i + 1 == args.k || !(load_exhaustive_key(s, l.values, base + i + 1) < infinite);
      if (present && ends) args.states[query].best = static_cast<std::uint32_t>(i + 1);
      if (!present && i == 0) args.states[query].best = 0;
      if (!present) continue;
      const std::int64_t col = l.columns[base + i];
      static_cast<typename Form::Word*>(l.next)[base + i] =
          col < s.listed ? static_cast<const typename Form::Word*>(args.best)[base + col]
                         : Form::make(ListWords<Form>::ordered(key), args.first_row + s.first + col - s.listed);
    }
  }
}

/// Searches by every pair; what they work in is kept from one to the next.
template <class Device>
class ExhaustiveRanking {
 public:
  explicit ExhaustiveRanking(Device& device)
      : device_(device), keys_(device), values_(device), next_(device), workspace_(device), columns_(device) {}

  /// best: the lists of the search, before and afterwards; started:
  /// they may hold rows. checks: rows that are not finite are counted.
  void search(const SearchArgs& args, bool wide, bool checks, bool started, DeviceBuffer<std::byte, Device>& best,
              ThreadPool& thread_pool) {
    const Ranking ranking = ranking_of(args);
    const std::int64_t count = args.queries.count, k = args.k, rows = args.rows.count,
                       segment = exhaustive_segment(count, k, rows), key = key_size(ranking.type);
    const std::int64_t everyone = std::int64_t{device_.multiprocessors} * 8;
    Exhaustive s{.args = args, .ranking = ranking, .checks = checks};
    s.cols = k + segment;
    s.keys = keys_.reserve(count * s.cols * key);
    SelectArgs task;
    task.values = Values(s.keys, key_type(ranking.type), count, s.cols);
    task.k = k;
    task.out.values = values_.reserve(count * k * key);
    task.out.ids = columns_.reserve(count * k);
    for (s.first = 0; s.first < rows; s.first = s.last) {
      s.last = std::min(rows, s.first + segment);
      s.listed = started || s.first > 0 || s.last - s.first < k ? k : 0;
      task.values.cols = s.listed + s.last - s.first;
      if (s.listed > 0) device_.launch()(everyone, 256, 0, wide ? lists_to_keys<Wide> : lists_to_keys<Packed>, s);
      launch_keys(s);
      void* workspace = workspace_.reserve(device_.select_bytes(task));
      device_.select(task, workspace);
      const ExhaustiveLists lists{.scan = s,
                                  .values = values_.data(),
                                  .columns = columns_.data(),
                                  .next = next_.reserve(count * k * word_size(wide))};
      device_.launch()(std::min(count * ((k + list_piece - 1) / list_piece), everyone), 256, 0,
                       wide ? keys_to_lists<Wide> : keys_to_lists<Packed>, lists);
      std::swap(best, next_);
      s.args.best = best.data();
      if (s.last < rows) device_.wait();
      thread_pool.poll(static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(s.last - s.first));
    }
  }

 private:
  void launch_keys(Exhaustive s) {
    const std::int64_t dims = s.args.rows.dims, queries = s.args.queries.count;
    if (!rows_reside(dims, s.last - s.first, queries, device_.multiprocessors)) {
      const ExhaustiveKernel of_one = queries == 1 ? kernel_of_one(s.ranking) : nullptr;
      return device_.launch()(std::int64_t{device_.multiprocessors} * 8, exhaustive_threads, 0,
                              of_one != nullptr ? of_one : exhaustive_keys, s);
    }
    s.tile = resident_tile(dims, queries);
    device_.launch()(std::int64_t{device_.multiprocessors} * resident_blocks, resident_threads,
                     resident_memory(dims, queries), resident_kernel(sum_of(s.ranking.metric)), s);
  }

  Device& device_;
  DeviceBuffer<std::byte, Device> keys_, values_, next_, workspace_;
  DeviceBuffer<std::int64_t, Device> columns_;
};

}  // namespace vicinal::cuda
