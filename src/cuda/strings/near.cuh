// The kernels find edit distances of many queries to many strings: a thread holds a string's letters in registers; the
// queries of a block have their masks (Myers 1999, in the form of Hyyro 2003) in shared memory, a row a symbol, so that
// the lanes of a warp, which are at the same letter of strings of one length, read different banks. A string within the
// query's threshold goes to the query's list.
//   near:       takes queries of up to 32 or 64 letters, in one mask
//   long:       takes more, up to most_masks masks of 64, carried from one to the next
//   thresholds: takes a threshold to begin with from the distances to strings of about the query's length
//   select:     leaves the k first of a list
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/strings/args.hpp"

namespace vicinal::cuda {

inline constexpr int strings_threads = 256;  // strings of a tile
inline constexpr int most_queries_at_once = 64;
inline constexpr int most_masks = 16;  // of a query: 1024 letters
inline constexpr int distance_bins = 128;
inline constexpr int most_selected = 4096;  // entries of a list that one block sorts

template <class Mask>
__device__ __forceinline__ int bits_of(Mask x) {
  if constexpr (sizeof(Mask) == 4) return __popc(x);
  else return __popcll(x);
}

/// The next column of the matrix.
template <class Mask>
__device__ __forceinline__ void advance(Mask& vp, Mask& vn, Mask equal) {
  const Mask d0 = (((equal & vp) + vp) ^ vp) | equal | vn;
  const Mask hp = vn | ~(d0 | vp), hn = d0 & vp;
  const Mask x = (hp << 1) | Mask{1};
  vp = (hn << 1) | ~(d0 | x);
  vn = x & d0;
}

/// A string of up to 4 * Quads letters in registers; Quads == 0: longer ones stay in memory.
template <int Quads>
struct Letters {
  unsigned quad[Quads == 0 ? 1 : Quads];
  const std::uint8_t* at;
  int count;

  __device__ __forceinline__ void load(const CodedStrings& strings, std::int64_t string) {
    at = strings.codes + strings.offsets[string];
    count = static_cast<int>(strings.offsets[string + 1] - strings.offsets[string]);
    if constexpr (Quads > 0) {
#pragma unroll
      for (int i = 0; i < Quads; ++i) {
        unsigned four = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (4 * i + j < count) four |= static_cast<unsigned>(at[4 * i + j]) << (8 * j);
        quad[i] = four;
      }
    }
  }
  /// Calls step(code) for each letter.
  template <class Step>
  __device__ __forceinline__ void each(const Step& step) const {
    if constexpr (Quads > 0) {
#pragma unroll
      for (int i = 0; i < Quads; ++i) {
        if (4 * i >= count) break;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (4 * i + j < count) step(quad[i] >> (8 * j) & 255u);
      }
    } else {
      for (int i = 0; i < count; ++i) step(static_cast<unsigned>(at[i]));
    }
  }
};

/// Distance of the string to the query of `length` letters whose masks are in `table`.
template <class Mask, int Quads>
__device__ __forceinline__ int edits(const Letters<Quads>& letters, const Mask* table, int length) {
  Mask vp = ~Mask{0}, vn = 0;
  letters.each([&](unsigned code) { advance(vp, vn, table[code]); });
  // The first row is the number of letters so far; down the column every bit adds or takes one.
  const Mask exists = length >= static_cast<int>(8 * sizeof(Mask)) ? ~Mask{0} : (Mask{1} << length) - 1;
  return letters.count + bits_of<Mask>(vp & exists) - bits_of<Mask>(vn & exists);
}

__device__ __forceinline__ int length_of(const CodedStrings& strings, std::int64_t at) {
  return static_cast<int>(strings.offsets[at + 1] - strings.offsets[at]);
}

__device__ __forceinline__ int length_difference(int a, int b) { return a < b ? b - a : a - b; }

__device__ __forceinline__ void append_match(const StringsArgs& args, std::int64_t query, std::uint32_t row,
                                             int distance) {
  if (args.without_self && row == args.queries.rows[query]) return;
  const std::int64_t slot = atomicAdd(&args.counts[query], 1u);
  if (slot < args.begin[query + 1] - args.begin[query])
    args.matches[args.begin[query] + slot] = static_cast<unsigned long long>(distance) << row_bits | row;
}

/// Masks of one query; called by one thread, the table was set to zero before.
template <class Mask>
__device__ __forceinline__ void fill_table(const CodedStrings& queries, std::int64_t query, Mask* table) {
  const std::uint8_t* const codes = queries.codes + queries.offsets[query];
  const int length = length_of(queries, query);
  for (int i = 0; i < length; ++i) table[codes[i]] |= Mask{1} << i;
}

/// Queries of the block that still want strings as long as those
/// of its tile, or -1 in their threshold; false when none does.
struct Wanted {
  int* threshold;  // [queries]
  int* length;
  __device__ __forceinline__ bool read(const StringsTile& tile, std::int64_t first_query, int queries, int shortest,
                                       int longest) const {
    int wanted = 0;
    if (thread_index() < queries) {
      const std::int64_t query = first_query + thread_index();
      const int here = length_of(tile.args.queries, query), most = tile.args.thresholds[query];
      const int least = shortest > here ? shortest - here : here > longest ? here - longest : 0;
      wanted = most >= least ? 1 : 0;
      threshold[thread_index()] = wanted != 0 ? most : -1;
      length[thread_index()] = here;
    }
    return __syncthreads_or(wanted) != 0;
  }
};

template <class Mask, int Quads>
__global__ void __launch_bounds__(strings_threads) strings_near(const StringsTile tile) {
  // Who: a tile of strings, a thread each, and some queries.
  const StringsArgs& args = tile.args;
  const std::int64_t first = tile.first_string + static_cast<std::int64_t>(blockIdx.x) % tile.tiles * strings_threads;
  const std::int64_t last = first + strings_threads < tile.last_string ? first + strings_threads : tile.last_string;
  const std::int64_t first_query =
      tile.first_query + static_cast<std::int64_t>(blockIdx.x) / tile.tiles * tile.queries_at_once;
  const std::int64_t left = tile.last_query - first_query;
  const int queries = left < tile.queries_at_once ? static_cast<int>(left) : tile.queries_at_once;
  VICINAL_SHARED(int, threshold, most_queries_at_once);
  VICINAL_SHARED(int, length, most_queries_at_once);
  Mask* const tables = dynamic_shared<Mask>();
  const Wanted wanted{threshold, length};
  if (!wanted.read(tile, first_query, queries, length_of(args.corpus, first), length_of(args.corpus, last - 1))) return;

  // Tables of all of them.
  for (int i = thread_index(); i < queries * args.symbols; i += thread_count()) tables[i] = 0;
  __syncthreads();
  if (thread_index() < queries && threshold[thread_index()] >= 0)
    fill_table(args.queries, first_query + thread_index(), tables + thread_index() * args.symbols);
  __syncthreads();

  // One query after the other.
  const std::int64_t string = first + thread_index();
  if (string >= last) return;
  Letters<Quads> letters;
  letters.load(args.corpus, string);
  const std::uint32_t row = args.corpus.rows[string];
  for (int q = 0; q < queries; ++q) {
    if (threshold[q] < length_difference(letters.count, length[q])) continue;
    const int distance = edits<Mask>(letters, tables + q * args.symbols, length[q]);
    if (distance <= threshold[q]) append_match(args, first_query + q, row, distance);
  }
}

template <class Mask>
__global__ void __launch_bounds__(strings_threads) strings_long(const StringsTile tile) {
  static_assert(sizeof(Mask) == 8, "carries are of 64 bits");
  const StringsArgs& args = tile.args;
  const std::int64_t first = tile.first_string + static_cast<std::int64_t>(blockIdx.x) % tile.tiles * strings_threads;
  const std::int64_t last = first + strings_threads < tile.last_string ? first + strings_threads : tile.last_string;
  const std::int64_t query = tile.first_query + static_cast<std::int64_t>(blockIdx.x) / tile.tiles;
  VICINAL_SHARED(int, threshold, 1);
  VICINAL_SHARED(int, length, 1);
  Mask* const table = dynamic_shared<Mask>();  // [symbol][masks]
  const Wanted wanted{threshold, length};
  if (!wanted.read(tile, query, 1, length_of(args.corpus, first), length_of(args.corpus, last - 1))) return;

  // The table of the query's masks.
  const int masks = (length[0] + 63) / 64;
  for (int i = thread_index(); i < masks * args.symbols; i += thread_count()) table[i] = 0;
  __syncthreads();
  if (thread_index() < masks) {  // a mask a thread
    const std::uint8_t* const codes = args.queries.codes + args.queries.offsets[query];
    for (int i = 64 * thread_index(); i < length[0] && i < 64 * (thread_index() + 1); ++i)
      table[codes[i] * masks + thread_index()] |= Mask{1} << (i % 64);
  }
  __syncthreads();

  // Columns of the matrix, a mask after the other, by what each hands to the next.
  const std::int64_t string = first + thread_index();
  if (string >= last) return;
  Letters<0> letters;
  letters.load(args.corpus, string);
  if (threshold[0] < length_difference(letters.count, length[0])) return;
  Mask vp[most_masks], vn[most_masks];
  for (int s = 0; s < masks; ++s) {
    vp[s] = ~Mask{0};
    vn[s] = 0;
  }
  letters.each([&](unsigned code) {
    Mask in_p = 1, in_n = 0;  // what the row above the mask gained or lost
    for (int s = 0; s < masks; ++s) {
      const Mask equal = table[static_cast<int>(code) * masks + s] | in_n;
      const Mask d0 = (((equal & vp[s]) + vp[s]) ^ vp[s]) | equal | vn[s];
      const Mask hp = vn[s] | ~(d0 | vp[s]), hn = d0 & vp[s];
      const Mask x = (hp << 1) | in_p, y = (hn << 1) | in_n;
      in_p = hp >> 63;
      in_n = hn >> 63;
      vp[s] = y | ~(d0 | x);
      vn[s] = x & d0;
    }
  });
  // The distance, down the last column.
  int distance = letters.count;
  for (int s = 0; s < masks; ++s) {
    const int here = length[0] - 64 * s;
    const Mask exists = here >= 64 ? ~Mask{0} : (Mask{1} << here) - 1;
    distance += __popcll(vp[s] & exists) - __popcll(vn[s] & exists);
  }
  if (distance <= threshold[0]) append_match(args, query, args.corpus.rows[string], distance);
}

/// First string of at least `length` letters.
__device__ __forceinline__ std::int64_t first_of_length(const CodedStrings& strings, int length) {
  std::int64_t low = 0, high = strings.count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (length_of(strings, middle) < length) low = middle + 1;
    else high = middle;
  }
  return low;
}

/// A block a query: `sample` strings that begin where strings of its length do. The k-th of their distances is a
/// threshold that k strings keep. Of queries beyond 64 letters every distance is wanted.
template <class Mask>
__global__ void __launch_bounds__(strings_threads) strings_thresholds(const StringsThresholds initial) {
  static_assert(sizeof(Mask) == 8, "queries of up to 64 letters");
  const StringsArgs& args = initial.args;
  const std::int64_t query = blockIdx.x;
  const int length = length_of(args.queries, query);
  if (length > 64) {
    if (thread_index() == 0) args.thresholds[query] = INT32_MAX;
    return;
  }
  VICINAL_SHARED(int, bins, distance_bins);
  Mask* const table = dynamic_shared<Mask>();
  for (int i = thread_index(); i < distance_bins; i += thread_count()) bins[i] = 0;
  for (int i = thread_index(); i < args.symbols; i += thread_count()) table[i] = 0;
  __syncthreads();
  if (thread_index() == 0) fill_table(args.queries, query, table);
  __syncthreads();

  std::int64_t first = first_of_length(args.corpus, length), last = first_of_length(args.corpus, length + 1);
  if (last - first < initial.sample) {  // few: strings about as long
    const std::int64_t more = (initial.sample - (last - first)) / 2;
    first = first > more ? first - more : 0;
  }
  last = first + initial.sample < args.corpus.count ? first + initial.sample : args.corpus.count;
  for (std::int64_t string = first + thread_index(); string < last; string += thread_count()) {
    Letters<0> letters;
    letters.load(args.corpus, string);
    if (args.without_self && args.corpus.rows[string] == args.queries.rows[query]) continue;
    const int distance = edits<Mask>(letters, table, length);
    if (distance < distance_bins) atomicAdd(&bins[distance], 1);
  }
  __syncthreads();
  if (thread_index() == 0) {
    std::int64_t within = 0;
    int threshold = 0;
    while (threshold < distance_bins && (within += bins[threshold]) < initial.k) ++threshold;
    args.thresholds[query] = threshold < distance_bins ? threshold : INT32_MAX;
  }
}

/// A block a query: its list, if one block can sort it, in order; the k first to `best`.
template <class Key>
__global__ void __launch_bounds__(strings_threads) strings_select(const StringsSelect select) {
  const StringsArgs& args = select.args;
  const std::int64_t query = blockIdx.x, begin = args.begin[query], room = args.begin[query + 1] - begin;
  const std::int64_t count = args.counts[query];
  Key* const keys = dynamic_shared<Key>();
  if (count > room || count > most_selected) return;  // the host's
  int size = 1;
  while (size < count) size *= 2;
  for (int i = thread_index(); i < size; i += thread_count()) keys[i] = i < count ? args.matches[begin + i] : ~Key{0};
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int i = thread_index(); i < size; i += thread_count()) {
        const int other = i ^ step;
        if (other <= i) continue;
        const bool up = (i & run) == 0;
        const Key a = keys[i], b = keys[other];
        if ((a > b) == up) {
          keys[i] = b;
          keys[other] = a;
        }
      }
      __syncthreads();
    }
  }
  for (std::int64_t i = thread_index(); i < select.k; i += thread_count())
    select.best[query * select.k + i] = i < count ? keys[i] : ~Key{0};
}

}  // namespace vicinal::cuda
