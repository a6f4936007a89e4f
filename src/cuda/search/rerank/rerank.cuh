// RERANK: what passed the filter becomes a query's list, a block a query. The rows that look nearest are ranked by
// canonical distance, the k-th of the list tightens the query's threshold, and what that excludes is dropped; at the
// end all that is left is ranked.
#pragma once
#include <algorithm>

#include "cuda/search/core/block_select.cuh"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/core/threshold.cuh"
#include "cuda/search/rerank/row_sums.cuh"

namespace vicinal::cuda {

inline constexpr int rerank_threads = 256;
inline constexpr int sorts_from = 512;  // words: a longer list is cut before it is sorted

/// Words that are sorted at a time: the list, and as many new ones at least.
inline std::int64_t rerank_words(std::int64_t k) {
  std::int64_t words = 64;
  while (words < 2 * k || words - k < 32) words *= 2;
  return words;
}
inline std::int64_t rerank_memory(std::int64_t words, std::int64_t k, bool wide) {
  return words * word_size(wide) + (words - k) * 4;
}
/// A RerankShape says how a query's block goes about it.
struct RerankShape {
  int threads;
  std::int64_t words;     // that are sorted at a time
  std::uint32_t nearest;  // rows that are ranked first
};
/// Blocks have few threads for short lists, so that more of them read while one selects, and
/// rank at first what could be in the answer. Where each multiprocessor has but one query,
/// its warps wait for rows that come from all over memory: then they rank as many as they
/// read at once, and what is left in one turn. labelled: much was found for each query.
inline RerankShape rerank_shape(std::int64_t queries, std::int64_t k, bool labelled, int multiprocessors) {
  constexpr std::int64_t read_at_once = rerank_threads / 32 * rows_a_warp;
  const bool alone = queries <= multiprocessors;
  return {.threads = alone || labelled || k > 1024 ? rerank_threads
                     : k > 32                      ? 128
                                                   : 64,
          .words = std::max<std::int64_t>(rerank_words(k), labelled ? 1024
                                                           : alone  ? 256
                                                                    : 0),
          .nearest = static_cast<std::uint32_t>(alone ? std::max(k, read_at_once) : k)};
}

struct Rerank {
  SearchArgs args;
  Ranking ranking;
  std::int64_t words = 0;  // RerankShape's, as the next
  std::uint32_t nearest = 1;
  bool last = false;
};

/// About `want` of the slots that look nearest, `room` at most, go to `chosen` as rows; the others stay. full: none
/// that looks farther than the k-th so far goes: without quantization errors, what is left of the bound is the
/// estimate. Returns how many went.
__device__ __forceinline__ std::uint32_t choose_rows(const SearchArgs& args, const QueryState& state,
                                                     const QuantizedQuery& query, Slot* slots, std::uint32_t& count,
                                                     std::uint32_t want, std::uint32_t room, bool full,
                                                     std::uint32_t* chosen, unsigned* bins, unsigned* scratch) {
  float limit = full ? threshold(args.model, state.threshold_filter, query.square, FilterNorms{}, FilterNorms{})
                     : static_cast<float>(infinite);
  if (count > want) {
    const float nearest = likely_limit(want, bins, scratch, [&](const auto& take) {
      // Four are read before the first is counted.
      const auto threads = static_cast<std::uint32_t>(thread_count());
      for (auto from = static_cast<std::uint32_t>(thread_index()); from < count; from += 4 * threads) {
        float ts[4];
#pragma unroll
        for (std::uint32_t j = 0; j < 4; ++j) ts[j] = from + j * threads < count ? slots[from + j * threads].t : 0;
#pragma unroll
        for (std::uint32_t j = 0; j < 4; ++j)
          if (from + j * threads < count) take(ts[j]);
      }
    });
    limit = limit < nearest ? limit : nearest;
  }
  if (thread_index() == 0) scratch[259] = 0;
  __syncthreads();
  // Of those that look alike any will do, as long as no more are taken than there is room for.
  count = compact(slots, count, scratch, [&](const Slot& slot) {
    if (slot.t > limit) return true;
    const unsigned at = atomicAdd(&scratch[259], 1u);
    if (at >= room) return true;
    chosen[at] = args.rows.order[slot.position];
    return false;
  });
  const std::uint32_t used = scratch[259] < room ? scratch[259] : room;
  __syncthreads();
  return used;
}

/// What the query's threshold leaves of its slots.
__device__ __forceinline__ std::uint32_t drop_excluded(const SearchArgs& args, const QueryState& state,
                                                       const QuantizedQuery& query, Slot* slots, std::uint32_t count,
                                                       unsigned* scratch) {
  const ThresholdCoeffs line = coeffs_of_query(args.model, state.threshold_filter, query.square, query.norms);
  return compact(slots, count, scratch, [&](const Slot& slot) {
    return !(slot.t > up32(int8_bound(line, args.rows.tile_metadata[slot.position / tile_rows].maxima)));
  });
}

/// Cuts a list of at least k words to the best k, in order or not; returns the k-th key.
template <class Form>
__device__ __forceinline__ double cut_list(typename Form::Word* words, int& have, std::int64_t k, bool& in_order,
                                           unsigned* bins, unsigned* scratch) {
  using Words = ListWords<Form>;
  using Word = typename Form::Word;
  double bound = infinite;
  bool cut = false;
  if constexpr (!Words::wide) {
    // No order is needed yet: the k-th key, and what is not beyond
    // it. More than k are left where several have that key.
    cut = have > sorts_from;
    if (cut) {
      const std::uint32_t kth =
          block_kth(have, static_cast<std::uint32_t>(k), bins, [&](std::int64_t i) { return Words::top(words[i]); });
      have = static_cast<int>(compact(words, static_cast<std::uint32_t>(have), scratch,
                                      [&](const Word& word) { return Words::top(word) <= kth; }));
      bound = Words::key(static_cast<Word>(kth) << 32);
    }
  }
  if (!cut || have > k) {
    sort_list<Form>(words, have);
    in_order = true;
    if (!cut) bound = Words::key(words[k - 1]);
  }
  have = static_cast<int>(k);
  return bound;
}

template <class Form, Sum sum, bool floats>
__global__ void __launch_bounds__(rerank_threads, 4) rerank_queries(Rerank s) {
  wait_for_earlier();
  using Word = typename Form::Word;
  // Shared memory: the list with what is ranked behind it, and the rows that are chosen.
  VICINAL_SHARED(unsigned, scratch, 260);
  VICINAL_SHARED(unsigned, bins, likely_bins);
  Word* words = dynamic_shared<Word>();
  auto* chosen = reinterpret_cast<std::uint32_t*>(words + s.words);

  // The query, its slots and its list so far.
  const SearchArgs& args = s.args;
  const std::int64_t position = blockIdx.x, k = args.k;
  QueryState& state = args.states[position];
  Slot* slots = args.slots + position * args.capacity;
  Word* best = static_cast<Word*>(args.best) + position * k;
  const std::uint32_t found = args.counts[position];
  std::uint32_t count = found;
  if (found == 0 && !s.last) return;
  if (state.given_up || found > args.capacity) {
    if (thread_index() == 0) give_up(args, position);  // the count stays: it says by how much slots were too few
    return;
  }
  if (thread_index() == 0) atomicAdd(&args.counters->passed, static_cast<unsigned long long>(count));
  auto have = static_cast<int>(state.best);
  for (int i = thread_index(); i < have; i += thread_count()) words[i] = best[i];
  __syncthreads();
  const QuantizedQuery& query = args.queries.quantized[position];
  const std::int64_t query_row = args.queries.order[position];
  const auto room = static_cast<std::uint32_t>(s.words - k);
  bool first = true, in_order = false;

  while (count > 0) {
    // Those that look nearest at first, afterwards what is left.
    const std::uint32_t want = first && s.nearest < room ? s.nearest : room;
    std::uint32_t used;
    const bool full = have == k;
    if (count <= want && (s.last || !full)) {
      used = count;
      for (std::uint32_t i = static_cast<std::uint32_t>(thread_index()); i < used;
           i += static_cast<std::uint32_t>(thread_count()))
        chosen[i] = args.rows.order[slots[i].position];
      count = 0;
      __syncthreads();
    } else {
      used = choose_rows(args, state, query, slots, count, want, room, first && full, chosen, bins, scratch);
    }
    // Canonical distances behind the list.
    rank_rows<Form, sum, floats>(args, s.ranking, query_row, chosen, used, static_cast<std::uint32_t>(warp_index()),
                                 static_cast<std::uint32_t>(thread_count() / 32), words + have);
    if (thread_index() == 0) atomicAdd(&args.counters->ranked, static_cast<unsigned long long>(used));
    have += static_cast<int>(used);
    in_order = false;
    __syncthreads();
    // The k-th tightens the threshold, which drops candidates.
    if (have >= k) {
      const double bound = cut_list<Form>(words, have, k, in_order, bins, scratch);
      if (thread_index() == 0) tighten(args, position, bound);
      __threadfence_block();
      __syncthreads();
      count = drop_excluded(args, state, query, slots, count, scratch);
    }
    first = false;
    if (!s.last) break;
  }

  // Output.
  if (s.last && !in_order) sort_list<Form>(words, have);
  for (int i = thread_index(); i < have; i += thread_count()) best[i] = words[i];
  if (thread_index() != 0) return;
  state.best = static_cast<std::uint32_t>(have);
  args.counts[position] = count;
}

using RerankKernel = void (*)(Rerank);
inline RerankKernel rerank_kernel(const Ranking& ranking, bool wide) {
  return with_ranked(ranking, [wide]<Sum sum, bool floats>() -> RerankKernel {
    return wide ? rerank_queries<Wide, sum, floats> : rerank_queries<Packed, sum, floats>;
  });
}

}  // namespace vicinal::cuda
