// Select, then scan: Sismanis, Pitsianis and Sun 2012, II. Radix select finds the k-th key, digit by digit, without
// moving a word; then one scan gives the places of the keys before it, and another those of its equals, in order of
// position, as many as are wanted. All blocks work on each row, so this one suits few and very long rows; beside the
// answer it keeps counts alone.
#pragma once
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

inline constexpr int scan_threads = 256;

/// What is known of the k-th key of a row.
struct ScanState {
  std::uint64_t prefix, mask;  // its digits so far
  std::int64_t need;           // which one it is of the keys with this prefix, from 1
};

struct Scan {
  Rows rows;
  std::int64_t k, tiles;
  ScanState* states;
  unsigned long long* counts;  // rows x 256
  std::int64_t* before;        // rows x tiles: keys before the k-th in a tile, later before the tile
  std::int64_t* equal;         // rows x tiles: keys equal to it
  void* list;
  int shift;  // of the digit
};

template <class Form>
__global__ void scan_start(Scan p) {
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += gridDim.x) {
    if (thread_index() == 0) p.states[row] = {0, 0, p.k};
    p.counts[row * 256 + thread_index()] = 0;
  }
}

/// How often each value of the digit occurs among the keys with the prefix.
template <class Form>
__global__ void __launch_bounds__(scan_threads) scan_count(Scan p) {
  using Key = typename Form::Key;
  VICINAL_SHARED(unsigned, counts, scan_threads / 32 * 256);
  for (std::int64_t work = blockIdx.x; work < p.rows.rows * p.tiles; work += gridDim.x) {
    const std::int64_t row = work / p.tiles, first = work % p.tiles * scan_tile;
    const std::int64_t end = first + scan_tile < p.rows.cols ? first + scan_tile : p.rows.cols;
    for (int i = thread_index(); i < scan_threads / 32 * 256; i += scan_threads) counts[i] = 0;
    __syncthreads();
    const auto prefix = static_cast<Key>(p.states[row].prefix), mask = static_cast<Key>(p.states[row].mask);
    for (std::int64_t i = first + thread_index(); i < end; i += scan_threads) {
      const Key key = key_at<Key>(p.rows, row, i);
      if ((key & mask) == prefix) atomicAdd(counts + warp_index() * 256 + static_cast<int>(key >> p.shift & 255), 1u);
    }
    __syncthreads();
    unsigned total = 0;
    for (int i = 0; i < scan_threads / 32; ++i) total += counts[i * 256 + thread_index()];
    if (total != 0) atomicAdd(p.counts + row * 256 + thread_index(), static_cast<unsigned long long>(total));
    __syncthreads();
  }
}

/// The digit of the k-th key; a block of 256 threads a row.
template <class Form>
__global__ void scan_pick(Scan p) {
  VICINAL_SHARED(std::int64_t, sums, scan_threads / 32);
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += gridDim.x) {
    const auto count = static_cast<std::int64_t>(p.counts[row * 256 + thread_index()]);
    const std::int64_t need = p.states[row].need;
    std::int64_t total;
    const std::int64_t below = block_sum_before(count, total, sums);
    p.counts[row * 256 + thread_index()] = 0;
    if (below < need && need <= below + count) {
      p.states[row].prefix |= static_cast<std::uint64_t>(thread_index()) << p.shift;
      p.states[row].mask |= std::uint64_t{255} << p.shift;
      p.states[row].need = need - below;
    }
    __syncthreads();
  }
}

/// Keys before and equal to the k-th, by tiles.
template <class Form>
__global__ void __launch_bounds__(scan_threads) scan_tally(Scan p) {
  using Key = typename Form::Key;
  VICINAL_SHARED(std::uint64_t, sums, scan_threads / 32);
  for (std::int64_t work = blockIdx.x; work < p.rows.rows * p.tiles; work += gridDim.x) {
    const std::int64_t row = work / p.tiles, first = work % p.tiles * scan_tile;
    const std::int64_t end = first + scan_tile < p.rows.cols ? first + scan_tile : p.rows.cols;
    const auto kth = static_cast<Key>(p.states[row].prefix);
    std::uint64_t mine = 0, total;
    for (std::int64_t i = first + thread_index(); i < end; i += scan_threads) {
      const Key key = key_at<Key>(p.rows, row, i);
      mine += static_cast<std::uint64_t>(key < kth) | static_cast<std::uint64_t>(key == kth) << 32;
    }
    block_sum_before(mine, total, sums);
    if (thread_index() == 0) {
      p.before[work] = static_cast<std::int64_t>(total & 0xffffffffu);
      p.equal[work] = static_cast<std::int64_t>(total >> 32);
    }
    __syncthreads();
  }
}

/// From counts of tiles to counts before tiles; a block a row.
template <class Form>
__global__ void scan_offsets(Scan p) {
  VICINAL_SHARED(std::int64_t, sums, 2 * scan_threads / 32);
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += gridDim.x) {
    std::int64_t before = 0, equal = 0;
    for (std::int64_t base = 0; base < p.tiles; base += scan_threads) {
      const std::int64_t tile = base + thread_index(), at = row * p.tiles + tile;
      const std::int64_t mine = tile < p.tiles ? p.before[at] : 0, same = tile < p.tiles ? p.equal[at] : 0;
      std::int64_t total, total_same;
      const std::int64_t here = block_sum_before(mine, total, sums);
      const std::int64_t here_same = block_sum_before(same, total_same, sums + scan_threads / 32);
      if (tile < p.tiles) {
        p.before[at] = before + here;
        p.equal[at] = equal + here_same;
      }
      before += total;
      equal += total_same;
      __syncthreads();
    }
  }
}

/// Each word to its place.
template <class Form>
__global__ void __launch_bounds__(scan_threads) scan_write(Scan p) {
  using Word = typename Form::Word;
  using Key = typename Form::Key;
  VICINAL_SHARED(std::uint64_t, sums, 64);
  for (std::int64_t work = blockIdx.x; work < p.rows.rows * p.tiles; work += gridDim.x) {
    const std::int64_t row = work / p.tiles, first = work % p.tiles * scan_tile;
    const std::int64_t end = first + scan_tile < p.rows.cols ? first + scan_tile : p.rows.cols;
    const ScanState state = p.states[row];
    const auto kth = static_cast<Key>(state.prefix);
    Word* answer = static_cast<Word*>(p.list) + row * p.k;
    Word* equals = answer + (p.k - state.need);
    std::int64_t before = p.before[work], equal = p.equal[work];
    for (std::int64_t base = first; base < end; base += scan_threads) {
      const std::int64_t i = base + thread_index();
      const Word word = i < end ? input_word<Form>(p.rows, row, i) : Form::last();
      const bool is_before = i < end && Form::key(word) < kth, is_equal = i < end && Form::key(word) == kth;
      const unsigned votes = __ballot_sync(all_lanes, is_before), same = __ballot_sync(all_lanes, is_equal);
      std::uint64_t total;
      const std::uint64_t warps =
          warps_before(static_cast<std::uint64_t>(__popc(votes)) | static_cast<std::uint64_t>(__popc(same)) << 32,
                       total, sums + ((base - first) / scan_threads & 1) * 32);
      if (is_before) answer[before + static_cast<std::int64_t>(warps & 0xffffffffu) + votes_below(votes)] = word;
      const std::int64_t place = equal + static_cast<std::int64_t>(warps >> 32) + votes_below(same);
      if (is_equal && place < state.need) equals[place] = word;
      before += static_cast<std::int64_t>(total & 0xffffffffu);
      equal += static_cast<std::int64_t>(total >> 32);
    }
    __syncthreads();
  }
}

template <class Launch>
void run_scan(Launch& launch, const SelectBatch& batch) {
  const std::int64_t rows = batch.rows.rows, tiles = divide_up(batch.rows.cols, scan_tile);
  auto* workspace = static_cast<std::uint64_t*>(batch.workspace);
  Scan p;
  p.rows = batch.rows;
  p.k = batch.k;
  p.tiles = tiles;
  p.before = reinterpret_cast<std::int64_t*>(workspace);
  p.equal = p.before + rows * tiles;
  p.counts = reinterpret_cast<unsigned long long*>(p.equal + rows * tiles);
  p.states = reinterpret_cast<ScanState*>(p.counts + rows * 256);
  p.list = batch.list;
  p.shift = 0;
  const std::int64_t by_row = blocks_for(rows, batch.multiprocessors),
                     by_tile = blocks_for(rows * tiles, batch.multiprocessors);
  with_entries(batch.form, [&]<class Form>() {
    launch(by_row, scan_threads, 0, scan_start<Form>, p);
    for (p.shift = 8 * (batch.rows.size - 1); p.shift >= 0; p.shift -= 8) {
      launch(by_tile, scan_threads, 0, scan_count<Form>, p);
      launch(by_row, scan_threads, 0, scan_pick<Form>, p);
    }
    launch(by_tile, scan_threads, 0, scan_tally<Form>, p);
    launch(by_row, scan_threads, 0, scan_offsets<Form>, p);
    launch(by_tile, scan_threads, 0, scan_write<Form>, p);
  });
}

template <class Launch>
const SelectKernel<Launch>& scan_select() {
  static constexpr SelectKernel<Launch> row = {.name = "scan",
                                               .workspace = [](const SelectShape& s) { return scan_workspace(s.cols); },
                                               .select = run_scan<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(scan);

}  // namespace vicinal::cuda
