// RERANK: what passed the filter becomes a query's list, a block a query. The rows that look nearest are ranked by canonical
// distance, the k-th of the list tightens the query's threshold, and what that excludes is dropped; at the end all that is left is ranked.
#pragma once
#include "cuda/search/filter/scatter.cuh"
#include "cuda/search/memory_plan.hpp"
#include "cuda/search/rerank/rank.cuh"

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

struct Rerank {
  SearchArgs args;
  Ranking ranking;
  std::int64_t words = 0;  // rerank_words
  bool last = false;
};

/// From a bound on the k-th key to what the filter excludes.
__device__ __forceinline__ void tighten(const SearchArgs& args, std::int64_t position, double bound) {
  QueryState& state = args.states[position];
  if (!(bound < state.threshold_key)) return;
  const PlacedQuery query = args.queries.placed[position];
  state.threshold_key = bound;
  state.threshold_filter = theta_of_key(args.model, bound, query.scale);
  if (!state.overflowed) state.coeffs = coeffs_of_query(args.model, state.threshold_filter, query.square, query.norms);
}

/// Keys of 32 bits in the order of floats; NaN has no place here.
__device__ __forceinline__ std::uint32_t ordered_t(float t) {
  return ListWords<Packed>::ordered(static_cast<double>(t));
}

/// The least and the largest of `count` keys, at least one, to all threads. `spare`: two words a warp.
template <class KeyAt>
__device__ __forceinline__ void block_ends(std::int64_t count, unsigned* spare, std::uint32_t& low, std::uint32_t& high,
                                           const KeyAt& key_at) {
  low = 0xffffffffu, high = 0;
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const std::uint32_t key = key_at(i);
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  low = __reduce_min_sync(all_lanes, low);
  high = __reduce_max_sync(all_lanes, high);
  if (lane_index() == 0) {
    spare[2 * warp_index()] = low;
    spare[2 * warp_index() + 1] = high;
  }
  __syncthreads();
  for (int w = 0; w < thread_count() / 32; ++w) {
    low = spare[2 * w] < low ? spare[2 * w] : low;
    high = spare[2 * w + 1] > high ? spare[2 * w + 1] : high;
  }
  __syncthreads();
}

/// Which of the bins holds the want-th (from 1) of what they count, by the first warp: out[0] is the bin, out[1] its position there, out[2] the bin's count.
template <int bins>
__device__ __forceinline__ void find_bin(const unsigned* counts, unsigned want, unsigned* out) {
  constexpr int each = bins / 32;
  if (warp_index() != 0) return;
  unsigned mine = 0, total = 0;
  for (int i = 0; i < each; ++i) mine += counts[lane_index() * each + i];
  unsigned before = warp_sum_before(mine, total);
  for (int i = 0; i < each; ++i) {
    const unsigned here = counts[lane_index() * each + i];
    if (before < want && want <= before + here) {
      out[0] = static_cast<unsigned>(lane_index() * each + i);
      out[1] = want - before;
      out[2] = here;
    }
    before += here;
  }
}

/// The want-th smallest (from 1) of `count` keys, at least that many: counts of eight bits at a time. What all keys begin with is passed
/// over, since counts of it would be one counter's, at which all threads wait. `spare`: 256 + 3 words of shared memory.
template <class KeyAt>
__device__ __forceinline__ std::uint32_t block_kth(std::int64_t count, std::uint32_t want, unsigned* spare,
                                                   const KeyAt& key_at) {
  std::uint32_t low, prefix;
  block_ends(count, spare, low, prefix, key_at);
  for (int open = 32 - __clz(static_cast<int>(low ^ prefix)); open > 0;) {  // bits that are not known yet
    const int shift = open > 8 ? open - 8 : 0;
    const std::uint32_t mask = (1u << (open - shift)) - 1;
    for (int i = thread_index(); i < 256; i += thread_count()) spare[i] = 0;
    __syncthreads();
    for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
      const std::uint32_t key = key_at(i);
      if (open == 32 || (key ^ prefix) >> open == 0) atomicAdd(&spare[key >> shift & mask], 1u);
    }
    __syncthreads();
    find_bin<256>(spare, want, spare + 256);
    __syncthreads();
    prefix = (prefix & ~(mask << shift)) | spare[256] << shift;
    want = spare[257];
    open = shift;
    __syncthreads();
  }
  return prefix;
}

/// A t that at least `want` of some are not beyond, and not many more: by counts of equal parts of their span. each(take): take(t) for those of this thread, twice.
inline constexpr int likely_bins = 512;
template <class Each>
__device__ __forceinline__ float likely_limit(std::uint32_t want, unsigned* bins, unsigned* spare, const Each& each) {
  float low = static_cast<float>(infinite), high = -low;
  each([&](float t) {
    low = t < low ? t : low;
    high = t > high && is_finite(static_cast<double>(t)) ? t : high;
  });
  for (int h = 16; h > 0; h /= 2) {
    const float other = __shfl_xor_sync(all_lanes, low, h), another = __shfl_xor_sync(all_lanes, high, h);
    low = other < low ? other : low;
    high = another > high ? another : high;
  }
  auto* ends = reinterpret_cast<float*>(spare);
  if (lane_index() == 0) {
    ends[2 * warp_index()] = low;
    ends[2 * warp_index() + 1] = high;
  }
  for (int i = thread_index(); i < likely_bins; i += thread_count()) bins[i] = 0;
  __syncthreads();
  for (int w = 0; w < thread_count() / 32; ++w) {
    low = ends[2 * w] < low ? ends[2 * w] : low;
    high = ends[2 * w + 1] > high ? ends[2 * w + 1] : high;
  }
  const float width = (high - low) / static_cast<float>(likely_bins - 1);
  const float per = width > 0 ? 1 / width : 0;
  // Rows that are always candidates have no place in the span: the last bin is theirs, and that of what is not finite.
  const auto bin_of = [&](float t) {
    const float at = (t - low) * per;
    return at >= 0 && at < static_cast<float>(likely_bins - 1) ? static_cast<int>(at) : at < 0 ? 0 : likely_bins - 1;
  };
  if (!is_finite(static_cast<double>(low)) || !(width < static_cast<float>(infinite)))
    return static_cast<float>(infinite);
  each([&](float t) { atomicAdd(&bins[bin_of(t)], 1u); });
  __syncthreads();
  find_bin<likely_bins>(bins, want, spare + 64);
  __syncthreads();
  const unsigned bin = spare[64];
  __syncthreads();
  return bin + 1 >= likely_bins ? static_cast<float>(infinite) : low + static_cast<float>(bin + 1) * width;
}

/// Items for which stays() holds move to the front; returns how many. All threads see the same.
template <class Item, class Stays>
__device__ __forceinline__ std::uint32_t compact(Item* items, std::uint32_t count, unsigned* spare,
                                                 const Stays& stays) {
  constexpr int each = 4;
  const auto threads = static_cast<std::uint32_t>(thread_count());
  std::uint32_t kept = 0;
  for (std::uint32_t from = 0; from < count; from += each * threads) {
    Item mine[each];
    unsigned stay = 0;
#pragma unroll
    for (std::uint32_t j = 0; j < each; ++j) {
      const std::uint32_t i = from + j * threads + static_cast<std::uint32_t>(thread_index());
      if (i < count) mine[j] = items[i];
    }
#pragma unroll
    for (std::uint32_t j = 0; j < each; ++j) {
      const std::uint32_t i = from + j * threads + static_cast<std::uint32_t>(thread_index());
      if (i < count && stays(mine[j])) stay |= 1u << j;
    }
    unsigned total;
    std::uint32_t at = kept + block_sum_before(static_cast<unsigned>(__popc(stay)), total, spare);
    __syncthreads();
#pragma unroll
    for (std::uint32_t j = 0; j < each; ++j)
      if ((stay >> j & 1) != 0) items[at++] = mine[j];
    kept += total;
    __syncthreads();
  }
  return kept;
}

/// About `want` of the slots that look nearest, `room` at most, go to `chosen` as rows; the others stay. full: none that looks farther than the k-th so
/// far goes: without quantization errors, what is left of the bound is the estimate. Returns how many went.
__device__ __forceinline__ std::uint32_t choose_rows(const SearchArgs& args, const QueryState& state,
                                                     const PlacedQuery& query, Slot* slots, std::uint32_t& count,
                                                     std::uint32_t want, std::uint32_t room, bool full,
                                                     std::uint32_t* chosen, unsigned* bins, unsigned* spare) {
  float limit = full ? threshold(args.model, state.threshold_filter, query.square, FilterNorms{}, FilterNorms{})
                     : static_cast<float>(infinite);
  if (count > want) {
    const float nearest = likely_limit(want, bins, spare, [&](const auto& take) {
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
  if (thread_index() == 0) spare[259] = 0;
  __syncthreads();
  // Of those that look alike any will do, as long as no more are taken than there is room for.
  count = compact(slots, count, spare, [&](const Slot& slot) {
    if (slot.t > limit) return true;
    const unsigned at = atomicAdd(&spare[259], 1u);
    if (at >= room) return true;
    chosen[at] = args.rows.order[slot.position];
    return false;
  });
  const std::uint32_t used = spare[259] < room ? spare[259] : room;
  __syncthreads();
  return used;
}

/// What the query's threshold leaves of its slots.
__device__ __forceinline__ std::uint32_t drop_excluded(const SearchArgs& args, const QueryState& state,
                                                       const PlacedQuery& query, Slot* slots, std::uint32_t count,
                                                       unsigned* spare) {
  const ThresholdCoeffs line = coeffs_of_query(args.model, state.threshold_filter, query.square, query.norms);
  return compact(slots, count, spare, [&](const Slot& slot) {
    return !(slot.t > up32(int8_bound(line, args.rows.tile_metadata[slot.position / tile_rows].maxima)));
  });
}

/// Words of some rows for a query, by `warps` warps of which this is one: `each` rows at a time.
template <class Form, int each>
__device__ __forceinline__ void rank_rows(const SearchArgs& args, const Ranking& ranking, std::int64_t query_row,
                                          const std::uint32_t* chosen, std::uint32_t count, std::uint32_t warp,
                                          std::uint32_t warps, typename Form::Word* words) {
  const Sum sum = sum_of(ranking.metric);
  for (std::uint32_t from = warp * each; from < count; from += warps * each) {
    std::int64_t rows[each];
    double shifts[each];
#pragma unroll
    for (int j = 0; j < each; ++j) {
      const std::int64_t row = chosen[from + j < count ? from + j : from];
      rows[j] = row * args.rows.dims;
      shifts[j] = ranking.metric == Metric::correlation ? args.rows.mean[row] : 0.0;
    }
    const std::int64_t queries[1] = {query_row * args.rows.dims};
    const double total = pair_sums<each, 1>(ranking, sum, rows, shifts, queries);
    const std::uint32_t which = from + static_cast<std::uint32_t>(lane_index() / (32 / each));
    if (lane_index() % (32 / each) == 0 && which < count) {
      const std::int64_t row = chosen[which];
      words[which] =
          Form::make(ListWords<Form>::ordered(folded_key(ranking, value_of_sum(ranking, total, query_row, row))),
                     args.first_row + row);
    }
  }
}

/// many: rows for each query. Then eight of a warp are on their way, and a block more has room; of a few all warps should have some.
template <class Form, bool many>
__global__ void __launch_bounds__(rerank_threads, many ? 4 : 3) rerank_queries(Rerank s) {
  using Words = ListWords<Form>;
  using Word = typename Form::Word;
  // Shared memory: the list with what is ranked behind it, and the rows that are chosen.
  VICINAL_SHARED(unsigned, spare, 260);
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
  auto count = static_cast<std::uint32_t>(found < args.capacity ? found : args.capacity);
  if (found == 0 && !s.last) return;
  if (thread_index() == 0) {
    if (found > args.capacity) state.overflowed = true;
    atomicAdd(&args.counters->passed, static_cast<unsigned long long>(count));
  }
  auto have = static_cast<int>(state.best);
  for (int i = thread_index(); i < have; i += thread_count()) words[i] = best[i];
  __syncthreads();
  const PlacedQuery query = args.queries.placed[position];
  const std::int64_t query_row = args.queries.order[position];
  const auto room = static_cast<std::uint32_t>(s.words - k);
  bool first = true, in_order = false;

  while (count > 0) {
    // Those that look nearest: at first as many as could be in the answer, afterwards what is left.
    const std::uint32_t want = first && k < room ? static_cast<std::uint32_t>(k) : room;
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
      used = choose_rows(args, state, query, slots, count, want, room, first && full, chosen, bins, spare);
    }
    // Canonical distances behind the list.
    rank_rows<Form, many ? 8 : 4>(args, s.ranking, query_row, chosen, used, static_cast<std::uint32_t>(warp_index()),
                                  static_cast<std::uint32_t>(thread_count() / 32), words + have);
    if (thread_index() == 0) atomicAdd(&args.counters->ranked, static_cast<unsigned long long>(used));
    have += static_cast<int>(used);
    in_order = false;
    __syncthreads();
    // The k-th tightens the threshold, which drops candidates.
    if (have >= k) {
      double bound = infinite;
      bool cut = false;
      if constexpr (!Words::wide) {
        // No order is needed yet: the k-th key, and what is not beyond it. More than k are left where several have that key.
        cut = have > sorts_from;
        if (cut) {
          const std::uint32_t kth = block_kth(have, static_cast<std::uint32_t>(k), bins,
                                              [&](std::int64_t i) { return Words::top(words[i]); });
          have = static_cast<int>(compact(words, static_cast<std::uint32_t>(have), spare,
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
      if (thread_index() == 0) tighten(args, position, bound);
      __threadfence_block();
      __syncthreads();
      count = drop_excluded(args, state, query, slots, count, spare);
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

}  // namespace vicinal::cuda
