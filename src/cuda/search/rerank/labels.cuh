// LABELS: where few rows have a query's label, all of them are ranked. A product with every row would find mostly rows
// that may not answer, and a sample of the rows would tell nothing of those that may. What is compared is labels: the
// rows pass once for 32 queries.
#pragma once
#include <algorithm>

#include "backend/search.hpp"
#include "core/parallel.hpp"
#include "cuda/search/core/row_choice.cuh"

namespace vicinal::cuda {

inline constexpr int label_threads = 256, label_queries = 32;
inline constexpr std::int64_t label_rows = 1 << 14;  // of a block

struct Labels {
  SearchArgs args;
  std::int64_t first = 0, last = 0;  // positions of rows
  std::int64_t pieces = 1;           // blocks that share the rows
};

/// Places of the rows that may answer go to the slots of their queries, with a t that excludes none.
__global__ void __launch_bounds__(label_threads) rows_of_labels(Labels l) {
  VICINAL_SHARED(std::int64_t, labels, label_queries);
  VICINAL_SHARED(std::int64_t, numbers, label_queries);
  const SearchArgs& args = l.args;
  const std::int64_t query = blockIdx.x / l.pieces * label_queries, from = l.first + blockIdx.x % l.pieces * label_rows;
  const std::int64_t to = from + label_rows < l.last ? from + label_rows : l.last;
  const int count =
      static_cast<int>(args.queries.count - query < label_queries ? args.queries.count - query : label_queries);
  if (thread_index() < count) {
    numbers[thread_index()] = args.number_of(args.queries.order[query + thread_index()]);
    labels[thread_index()] = args.choice.query_labels[numbers[thread_index()]];
  }
  __syncthreads();
  for (std::int64_t position = from + thread_index(); position < to; position += thread_count()) {
    const std::int64_t row = args.first_row + args.rows.order[position];
    if (!may_answer(args.choice, row)) continue;
    const std::int64_t label = args.choice.row_labels[row];
    for (int i = 0; i < count; ++i) {
      if ((label == labels[i]) != args.choice.same_label || !may_answer(args.choice, numbers[i], row)) continue;
      const std::uint32_t at = atomicAdd(&args.counts[query + i], 1u);
      if (at < args.capacity)
        args.slots[(query + i) * args.capacity + at] = {static_cast<std::uint32_t>(position),
                                                        -static_cast<float>(infinite)};
    }
  }
}

/// Where labels decide, the rows that may answer a query, as some
/// of the queries tell: how many in all, and of one at most.
struct LabelCounts {
  double share = 1;  // of all rows, on average
  std::int64_t most = 0;
};
inline LabelCounts label_counts(const SearchSpec& spec) {
  constexpr std::int64_t most_asked = 512;
  const std::int64_t queries = spec.filter.view().queries, asked = std::min(queries, most_asked);
  LabelCounts counts;
  double all = 0;
  for (std::int64_t i = 0; i < asked; ++i) {
    const std::int64_t rows = spec.filter.count(i * queries / asked);
    all += static_cast<double>(rows);
    counts.most = std::max(counts.most, rows);
  }
  if (asked > 0 && spec.corpus.rows > 0)
    counts.share = all / static_cast<double>(asked) / static_cast<double>(spec.corpus.rows);
  return counts;
}
/// Ranking rows here and there takes some three times as long as ranking every row.
inline bool labels_leave_few(const SearchSpec& spec) {
  return spec.k <= most_shared_k && label_counts(spec).share < 0.25;
}

/// Everything of a chunk that has a query's label goes to its slots and from there to
/// ranked(), those of some rows at a time: about half of what slots hold, for some queries
/// have more than those that were asked. A query for which they are too few is lost.
template <class Device, class Ranked>
void rerank_labelled(Device& device, const SearchSpec& spec, const SearchArgs& args, ThreadPool& thread_pool,
                     const Ranked& ranked) {
  Labels l{.args = args};
  const double most = static_cast<double>(std::max<std::int64_t>(label_counts(spec).most, 1));
  const auto part =
      static_cast<std::int64_t>(static_cast<double>(args.capacity) / 2 / most * static_cast<double>(spec.corpus.rows)) +
      tile_rows;
  for (; l.first < args.rows.count; l.first = l.last) {
    l.last = std::min(args.rows.count, l.first + part);
    l.pieces = (l.last - l.first + label_rows - 1) / label_rows;
    device.launch()((args.queries.count + label_queries - 1) / label_queries * l.pieces, label_threads, 0,
                    rows_of_labels, l);
    if (l.last < args.rows.count) ranked();  // the last ones with the rest
    device.wait();
    thread_pool.poll(static_cast<std::uint64_t>(args.queries.count) * static_cast<std::uint64_t>(l.last - l.first));
  }
}

}  // namespace vicinal::cuda
