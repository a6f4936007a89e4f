// RERANK for lists that shared memory does not hold (k beyond most_shared_k), in global memory and in three kernels:
// about k rows that look nearest are chosen, all warps of the device rank them, and a block a query cuts the list to
// the best k and drops what its new threshold excludes. At the end what is left is ranked in the same way, and a merge
// sort puts the lists in order.
#pragma once
#include "cuda/device/device.hpp"
#include "cuda/search/rerank/rerank.cuh"
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

inline constexpr int long_threads = 1024, rank_long_threads = 256;

/// Bytes that a batch of long lists takes beside its slots (rerank_long.cuh).
inline std::int64_t long_bytes(std::int64_t k, std::int64_t batch, std::int64_t slots, bool wide) {
  const FormName form = wide ? FormName::wide : FormName::packed;
  return k > most_shared_k ? slots * (4 + word_size(form)) + batch * merge_workspace(form, k, k).row : 0;
}

struct RerankLong {
  SearchArgs args;
  Ranking ranking;
  std::uint32_t* chosen = nullptr;  // rows to rank, SearchArgs::capacity a query
  std::uint32_t* used = nullptr;    // how many of them, a query
  void* words = nullptr;            // and what they ranked as
  std::int64_t parts = 1;           // blocks that share a query's rows
  bool all = false;                 // whatever is left, not what looks nearest alone
};

__global__ void __launch_bounds__(long_threads) choose_long(RerankLong s) {
  VICINAL_SHARED(unsigned, scratch, 260);
  VICINAL_SHARED(unsigned, bins, likely_bins);
  const SearchArgs& args = s.args;
  const std::int64_t position = blockIdx.x;
  QueryState& state = args.states[position];
  Slot* slots = args.slots + position * args.capacity;
  std::uint32_t* chosen = s.chosen + position * args.capacity;
  const auto capacity = static_cast<std::uint32_t>(args.capacity), want = static_cast<std::uint32_t>(args.k);
  const std::uint32_t found = args.counts[position];
  std::uint32_t count = found, used = count;
  if (state.given_up || found > capacity) {
    if (thread_index() != 0) return;
    give_up(args, position);
    s.used[position] = 0;
    return;
  }
  const bool full = state.best == want;
  if (s.all || (count <= want && !full)) {
    for (std::uint32_t i = static_cast<std::uint32_t>(thread_index()); i < used;
         i += static_cast<std::uint32_t>(thread_count()))
      chosen[i] = args.rows.order[slots[i].position];
    count = 0;
  } else {
    used = choose_rows(args, state, args.queries.quantized[position], slots, count, want, capacity, full, chosen, bins,
                       scratch);
  }
  __syncthreads();  // of all who read the count
  if (thread_index() != 0) return;
  if (!s.all) atomicAdd(&args.counters->passed, static_cast<unsigned long long>(found));
  atomicAdd(&args.counters->ranked, static_cast<unsigned long long>(used));
  args.counts[position] = count;
  s.used[position] = used;
}

template <class Form, Sum sum, bool floats>
__global__ void __launch_bounds__(rank_long_threads, 4) rank_long(RerankLong s) {
  const SearchArgs& args = s.args;
  const std::int64_t position = blockIdx.x / s.parts, warps = thread_count() / 32;
  rank_rows<Form, sum, floats>(args, s.ranking, args.queries.order[position], s.chosen + position * args.capacity,
                               s.used[position],
                               static_cast<std::uint32_t>(blockIdx.x % s.parts * warps + warp_index()),
                               static_cast<std::uint32_t>(s.parts * warps),
                               static_cast<typename Form::Word*>(s.words) + position * args.capacity);
}
using RankLongKernel = void (*)(RerankLong);
inline RankLongKernel rank_long_kernel(const Ranking& ranking, bool wide) {
  return with_ranked(ranking, [wide]<Sum sum, bool floats>() -> RankLongKernel {
    return wide ? rank_long<Wide, sum, floats> : rank_long<Packed, sum, floats>;
  });
}

/// The byte-th of a word, from the highest on.
__device__ __forceinline__ unsigned byte_of(std::uint64_t word, int byte) {
  return static_cast<unsigned>(word >> (56 - 8 * byte)) & 255u;
}
__device__ __forceinline__ unsigned byte_of(const WideWord& word, int byte) {
  return byte < 8 ? byte_of(word.key, byte) : byte_of(word.position, byte - 8);
}
__device__ __forceinline__ void set_byte(std::uint64_t& word, int byte, unsigned to) {
  word = (word & ~(std::uint64_t{255} << (56 - 8 * byte))) | std::uint64_t{to} << (56 - 8 * byte);
}
__device__ __forceinline__ void set_byte(WideWord& word, int byte, unsigned to) {
  byte < 8 ? set_byte(word.key, byte, to) : set_byte(word.position, byte - 8, to);
}

/// A word that `want` of the `count` words are not beyond, which are all different: counts of bytes, from the highest
/// on, until those with one beginning are taken all. `scratch`: 256 + 3 words of shared memory.
template <class Form, class WordAt>
__device__ __forceinline__ typename Form::Word block_cut(std::uint32_t count, std::uint32_t want, unsigned* scratch,
                                                         const WordAt& word_at) {
  typename Form::Word low = Form::first(), high = Form::last();
  for (int byte = 0; byte < static_cast<int>(sizeof low); ++byte) {
    for (int i = thread_index(); i < 256; i += thread_count()) scratch[i] = 0;
    __syncthreads();
    for (std::uint32_t i = static_cast<std::uint32_t>(thread_index()); i < count;
         i += static_cast<std::uint32_t>(thread_count())) {
      const auto word = word_at(i);
      if (!(word < low) && !(high < word)) atomicAdd(&scratch[byte_of(word, byte)], 1u);
    }
    __syncthreads();
    find_bin<256>(scratch, want, scratch + 256);
    __syncthreads();
    const unsigned bin = scratch[256], here = scratch[258];
    want = scratch[257];
    set_byte(low, byte, bin);
    set_byte(high, byte, bin);
    __syncthreads();
    if (want == here) break;
  }
  return high;
}

/// The largest key of some words, to all threads.
template <class Form>
__device__ __forceinline__ typename Form::Key largest_key(const typename Form::Word* words, std::uint32_t count,
                                                          unsigned long long* largest) {
  unsigned long long most = 0;
  for (std::uint32_t i = static_cast<std::uint32_t>(thread_index()); i < count;
       i += static_cast<std::uint32_t>(thread_count())) {
    const unsigned long long key = Form::key(words[i]);
    most = most < key ? key : most;
  }
  for (int h = 16; h > 0; h /= 2) {
    const unsigned long long other = __shfl_xor_sync(all_lanes, most, h);
    most = most < other ? other : most;
  }
  if (thread_index() == 0) *largest = 0;
  __syncthreads();
  if (lane_index() == 0) atomicMax(largest, most);
  __syncthreads();
  return static_cast<typename Form::Key>(*largest);
}

/// What was ranked joins the list, of which the best k stay. The lists are in no order.
template <class Form>
__global__ void __launch_bounds__(long_threads) cut_long(RerankLong s) {
  using Word = typename Form::Word;
  VICINAL_SHARED(unsigned, scratch, 260);
  VICINAL_SHARED(unsigned long long, largest, 1);
  const SearchArgs& args = s.args;
  const std::int64_t position = blockIdx.x;
  QueryState& state = args.states[position];
  Word* best = static_cast<Word*>(args.best) + position * args.k;
  const Word* words = static_cast<const Word*>(s.words) + position * args.capacity;
  const auto k = static_cast<std::uint32_t>(args.k);
  const std::uint32_t used = s.used[position];
  std::uint32_t have = state.best;
  if (used > 0) {
    // The best k of the list and of what was ranked.
    Word limit = Form::last();
    if (have + used > k) {
      limit = block_cut<Form>(have + used, k, scratch,
                              [&](std::uint32_t i) { return i < have ? best[i] : words[i - have]; });
      have = compact(best, have, scratch, [&](const Word& word) { return !(limit < word); });
    }
    if (thread_index() == 0) scratch[259] = have;
    __syncthreads();
    for (std::uint32_t i = static_cast<std::uint32_t>(thread_index()); i < used;
         i += static_cast<std::uint32_t>(thread_count()))
      if (!(limit < words[i])) best[atomicAdd(&scratch[259], 1u)] = words[i];
    __syncthreads();
    have = scratch[259];
    // The k-th tightens the threshold, which drops candidates.
    if (have == k) {
      const typename Form::Key kth = largest_key<Form>(best, k, largest);
      if (thread_index() == 0) tighten(args, position, ListWords<Form>::key(Form::make(kth, 0)));
      __threadfence_block();
      __syncthreads();
      const std::uint32_t left = drop_excluded(args, state, args.queries.quantized[position],
                                               args.slots + position * args.capacity, args.counts[position], scratch);
      if (thread_index() == 0) args.counts[position] = left;
    }
    if (thread_index() == 0) state.best = have;
  }
  if (!s.all) return;
  for (std::uint32_t i = have + static_cast<std::uint32_t>(thread_index()); i < k;
       i += static_cast<std::uint32_t>(thread_count()))
    best[i] = Form::last();
}

template <class Device>
class LongLists {
 public:
  explicit LongLists(Device& device)
      : device_(device), chosen_(device), used_(device), words_(device), workspace_(device) {}

  void rerank(const SearchArgs& args, bool wide, bool last) {
    const std::int64_t count = args.queries.count, slots = count * args.capacity;
    const FormName form = wide ? FormName::wide : FormName::packed;
    RerankLong s{.args = args,
                 .ranking = ranking_of(args),
                 .chosen = chosen_.reserve(slots),
                 .used = used_.reserve(count),
                 .words = words_.reserve(slots * word_size(form))};
    s.parts = std::clamp<std::int64_t>(16 * std::int64_t{device_.multiprocessors} / count, 1, 64);
    for (const bool all : {false, true}) {
      if (all && !last) break;
      s.all = all;
      device_.launch()(count, long_threads, 0, choose_long, s);
      device_.launch()(count * s.parts, rank_long_threads, 0, rank_long_kernel(s.ranking, wide), s);
      device_.launch()(count, long_threads, 0, wide ? cut_long<Wide> : cut_long<Packed>, s);
    }
    if (!last) return;
    SelectBatch sort;
    sort.rows.rows = count;
    sort.form = form;
    sort.k = args.k;
    sort.list = args.best;
    sort.workspace = workspace_.reserve(count * merge_workspace(form, args.k, args.k).row);
    sort.multiprocessors = device_.multiprocessors;
    auto launch = device_.launch();
    run_sort(launch, sort);
  }

 private:
  Device& device_;
  DeviceBuffer<std::uint32_t, Device> chosen_, used_;
  DeviceBuffer<std::byte, Device> words_, workspace_;
};

}  // namespace vicinal::cuda
