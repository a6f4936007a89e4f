// The stream of the few queries' kernel: a warp takes 32 rows of its block's tiles at a time, multiplies them with 8 or
// 16 queries as the left operand, remembers the nearest and notes the largest sums. When all rows have passed (or as
// many as sums have room for), thresholds are made of what all blocks have seen (bounds.cuh), and the rows behind sums
// that reach them are candidates. Rows that are left are tested as they come; a warp that has a query to tighten in
// between takes fewer of them meanwhile.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/differences.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/filter/int8_mma.cuh"
#include "cuda/search/fused/bounds.cuh"

namespace vicinal::cuda {

/// The least sum, with its bias, that is not excluded for a query in a tile (core/bound_quick.hpp); no sum is as large
/// as that of a query that is not there.
__device__ __forceinline__ int fused_threshold(const ThresholdCoeffsF32& coeffs, float e, float n, float inverse) {
  return coeffs.base > -static_cast<float>(infinite) ? quick_threshold(coeffs, e, n, inverse) : 0x7fffffff;
}
/// 1 / unit of a tile, by which biases and thresholds are made. tile_inverse: 1 / step of its rows.
__device__ __forceinline__ float fused_inverse(const FusedShared& shared, float tile_inverse) {
  return static_cast<float>(shared.counters->inverse) * tile_inverse;
}

/// The pieces of the block's tiles that a warp takes, and the copies that bring them, some ahead.
template <int slab>
class FusedPieces {
 public:
  __device__ FusedPieces(const FusedArgs& f, const FusedShared& shared) : f_(f), shared_(shared) {
    const auto tiles = static_cast<std::uint32_t>(f.rows.tiles()), blocks = static_cast<std::uint32_t>(f.blocks);
    all_ = (tiles - static_cast<std::uint32_t>(blockIdx.x) + blocks - 1) / blocks * fused_pieces;
  }
  /// Asks for the first pieces, and has the next tiles brought nearer, while there are no queries yet.
  __device__ __forceinline__ void start() {
    for (int stage = 0; stage < fused_stages - 1; ++stage) ask(stage);
    const std::uint32_t piece =
        static_cast<std::uint32_t>(fused_warps * (fused_stages - 1) + warp_index() * fused_pieces);
    if (lane_index() != 0 || piece >= all_) return;
    const std::int64_t tile = tile_of(piece);
    prefetch_bulk(f_.rows.bytes + tile * tile_rows * slab, tile_rows * slab);
    prefetch_bulk(f_.rows.tile_metadata + tile, sizeof(TileMetadata));
  }
  /// The next piece, which is there; false where there is none.
  __device__ __forceinline__ bool next() {
    wait_for_copies<fused_stages - 2>();
    __syncwarp();
    slot_ = warp_index() * fused_stages + turn_ % fused_stages;
    number_ = shared_.claimed[slot_];
    if (number_ == fused_none) return false;
    ask(turn_ + fused_stages - 1);
    ++turn_;
    return true;
  }
  /// Pieces that were taken.
  __device__ __forceinline__ int turn() const { return turn_; }
  __device__ __forceinline__ unsigned char* rows() const {
    return shared_.pieces + static_cast<std::int64_t>(slot_) * fused_piece_rows * slab;
  }
  __device__ __forceinline__ const FusedPieceFacts& facts() const { return shared_.facts[slot_]; }
  /// Its place among the block's.
  __device__ __forceinline__ std::uint32_t number() const { return number_; }
  /// How many the block has.
  __device__ __forceinline__ std::uint32_t all() const { return all_; }
  /// The position of a piece's first row.
  __device__ __forceinline__ std::uint32_t position(std::uint32_t piece) const {
    return tile_of(piece) * tile_rows + piece % fused_pieces * fused_piece_rows;
  }

 private:
  /// Visits::at() of the block's tile, without a division: products stay below 2^53.
  __device__ __forceinline__ std::uint32_t tile_of(std::uint32_t piece) const {
    const std::int64_t count = f_.visits.count,
                       at = (blockIdx.x + std::int64_t{piece / fused_pieces} * f_.blocks) * f_.visits.step;
    std::int64_t left = at - static_cast<std::int64_t>(static_cast<double>(at) * f_.per_count) * count;
    left = left < 0 ? left + count : left;
    return static_cast<std::uint32_t>(left >= count ? left - count : left);
  }
  /// Takes a piece and asks for its rows and facts.
  __device__ __forceinline__ void ask(int turn) {
    const int slot = warp_index() * fused_stages + turn % fused_stages;
    unsigned piece = 0;
    random_delay();
    if (lane_index() == 0) piece = atomicAdd(&shared_.counters->next, 1u);
    piece = __shfl_sync(all_lanes, piece, 0);
    const std::int64_t tile = piece < all_ ? tile_of(piece) : 0, part = piece % fused_pieces;
    if (lane_index() == 0) shared_.claimed[slot] = piece < all_ ? piece : fused_none;
    if (piece < all_) {
      const auto* from = reinterpret_cast<const unsigned char*>(f_.rows.bytes + tile * tile_rows * slab) +
                         part * fused_piece_rows * slab;
      unsigned char* const to = shared_.pieces + static_cast<std::int64_t>(slot) * fused_piece_rows * slab;
#pragma unroll
      for (int i = 0; i < fused_piece_rows * slab; i += 32 * 16)
        copy_16(to + i + lane_index() * 16, from + i + lane_index() * 16);
      constexpr int terms = fused_piece_rows * 4 / 16, all = static_cast<int>(sizeof(FusedPieceFacts)) / 16;
      const auto* metadata = reinterpret_cast<const unsigned char*>(f_.rows.tile_metadata + tile);
      if (lane_index() < all)
        copy_16(reinterpret_cast<unsigned char*>(shared_.facts + slot) + lane_index() * 16,
                lane_index() < terms ? metadata + part * fused_piece_rows * 4 + lane_index() * 16
                                     : metadata + offsetof(TileMetadata, inverse) + (lane_index() - terms) * 16);
    }
    commit_copies();
  }

  const FusedArgs& f_;
  const FusedShared& shared_;
  std::uint32_t all_, number_ = 0;
  int turn_ = 0, slot_ = 0;
};

/// The sums of a piece's rows and 8 queries a group, as mma.sync lays them out, each with its row's bias.
template <int groups>
struct FusedSums {
  int biases[2][2];  // of rows lane / 4, and others 8, 16 and 24 beyond
  int sums[2][groups][4];
  int most[groups][2];  // of each of the lane's queries

  static __device__ __forceinline__ int row(int m, int h) { return 16 * m + 8 * h + lane_index() / 4; }
};
/// queries: their operands; inverse: fused_inverse().
template <int slab, int groups>
__device__ __forceinline__ void fused_multiply(FusedSums<groups>& s, unsigned char* piece, const FusedPieceFacts& facts,
                                               float inverse, const std::uint32_t (&queries)[slab / 32][4]) {
  const int lane = lane_index();
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      s.biases[m][h] = quick_bias(facts.terms[s.row(m, h)], inverse);
#pragma unroll
      for (int g = 0; g < groups; ++g) s.sums[m][g][2 * h] = s.sums[m][g][2 * h + 1] = s.biases[m][h];
    }
#pragma unroll
  for (int step = 0; step < slab / 32; ++step)
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      std::uint32_t rows[4];
      load_matrices(rows, line_chunk<slab>(piece, 16 * m + (lane / 8 & 1) * 8 + lane % 8, 2 * step + lane / 16));
#pragma unroll
      for (int g = 0; g < groups; ++g) mma_16x8x32(s.sums[m][g], rows, queries[step][2 * g], queries[step][2 * g + 1]);
    }
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int low = s.sums[0][g][c] < s.sums[0][g][2 + c] ? s.sums[0][g][2 + c] : s.sums[0][g][c],
                high = s.sums[1][g][c] < s.sums[1][g][2 + c] ? s.sums[1][g][2 + c] : s.sums[1][g][c];
      s.most[g][c] = low < high ? high : low;
    }
}

/// The rows that look nearest of those that a lane saw: their t over the queries' step, positions and products.
template <int groups>
struct FusedNearest {
  float t[groups][2];
  std::uint32_t position[groups][2];
  int products[groups][2];

  /// queries: that there are; nothing is near to others.
  __device__ __forceinline__ explicit FusedNearest(int queries) {
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const bool present = 8 * g + 2 * (lane_index() % 4) + c < queries;
        t[g][c] = present ? static_cast<float>(infinite) : -static_cast<float>(infinite);
        position[g][c] = fused_none;
        products[g][c] = 0;
      }
  }
  /// It looks at a piece's sums. first: the position of its first row.
  __device__ __forceinline__ void see(const FusedSums<groups>& s, float step, std::uint32_t first) {
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int most = s.most[g][c];
        const float now = -step * static_cast<float>(most);
        // Sums of rows that stand for anything are larger than others, and bound nothing.
        if (!(now < t[g][c]) || most >= static_cast<int>(most_quick_threshold)) continue;
        t[g][c] = now;
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            if (s.sums[m][g][2 * h + c] == most) {
              position[g][c] = first + static_cast<std::uint32_t>(s.row(m, h));
              products[g][c] = most - s.biases[m][h];
            }
      }
  }
  /// Tells the block, by a warp: of each four lanes with the same queries, the nearest.
  __device__ __forceinline__ void tell(const FusedShared& shared) const {
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float least = t[g][c];
        unsigned long long word =
            static_cast<unsigned long long>(position[g][c]) << 32 | static_cast<std::uint32_t>(products[g][c]);
#pragma unroll
        for (int other = 8; other < 32; other *= 2) {
          const float theirs = __shfl_xor_sync(all_lanes, least, other);
          const unsigned long long its = __shfl_xor_sync(all_lanes, word, other);
          const bool nearer = theirs < least || (theirs == least && its < word);
          least = nearer ? theirs : least;
          word = nearer ? its : word;
        }
        const int which = 8 * g + 2 * (lane_index() % 4) + c, place = warp_index() * 2 + lane_index() / 4;
        if (lane_index() < 8)
          *static_cast<volatile unsigned long long*>(&shared.nearest[which * fused_places + place]) = word;
      }
  }
};

/// A row that no threshold excludes is a candidate of the block.
__device__ __forceinline__ void fused_find(const FusedShared& shared, const FusedPair& one) {
  const unsigned slot = atomicAdd(&shared.counters->found, 1u);
  if (slot < fused_found) shared.found[slot] = one;
}

/// Tests a piece's rows.
template <int groups>
__device__ __forceinline__ void fused_test(const FusedArgs& f, const FusedShared& shared, const FusedSums<groups>& s,
                                           const FusedPieceFacts& facts, float inverse, std::uint32_t position) {
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int which = 8 * g + 2 * (lane_index() % 4) + c,
                threshold = fused_threshold(shared.coeffs[which], facts.e, facts.n, inverse);
      if (s.most[g][c] < threshold) continue;
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::uint32_t at = position + static_cast<std::uint32_t>(s.row(m, h));
          if (s.sums[m][g][2 * h + c] >= threshold && at < f.rows.count) fused_find(shared, {f.rows.order[at], which});
        }
    }
}

/// Writes down the largest sum of each query in a piece that is tested later, and what it will be tested by.
template <int groups>
__device__ __forceinline__ void fused_put_off(const FusedShared& shared, const FusedSums<groups>& s,
                                              const FusedPieceFacts& facts, std::uint32_t number) {
  int largest[groups][2];
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      largest[g][c] = s.most[g][c];
#pragma unroll
      for (int other = 4; other < 32; other *= 2) {
        const int theirs = __shfl_xor_sync(all_lanes, largest[g][c], other);
        largest[g][c] = largest[g][c] < theirs ? theirs : largest[g][c];
      }
    }
  if (lane_index() == 0) shared.limits[number] = {facts.e, facts.n, facts.quick_inverse};
  if (lane_index() >= 4) return;
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c)
      shared.largest[number * (8 * groups) + static_cast<unsigned>(8 * g + 2 * lane_index() + c)] = largest[g][c];
}

/// The lane's row of a piece against a query whose threshold the piece's
/// largest sum reaches; by a warp, from memory. position: of the row.
template <int slab>
__device__ __forceinline__ void fused_test_again(const FusedArgs& f, const FusedShared& shared, std::uint32_t position,
                                                 int which, const FusedLimits& limits) {
  const auto* const row = reinterpret_cast<const unsigned char*>(f.rows.bytes) + std::int64_t{position} * slab;
  const unsigned char* const query = shared.lines + which * slab;
  uint4 chunks[slab / 16];
#pragma unroll
  for (int i = 0; i < slab / 16; ++i)
    chunks[i] = *reinterpret_cast<const uint4*>(row + swizzled_chunk(slab, lane_index(), i) * 16);
  const float term = f.rows.tile_metadata[position / tile_rows].terms[position % tile_rows];
  const std::uint32_t number = position < f.rows.count ? f.rows.order[position] : 0;  // comes with the others
  const float inverse = fused_inverse(shared, limits.quick_inverse);
  unsigned products = 0;
#pragma unroll
  for (int i = 0; i < slab / 16; ++i) {
    const auto of_query = *reinterpret_cast<const uint4*>(query + swizzled_chunk(slab, which, i) * 16);
    products = add_byte_products<true>(chunks[i].x, of_query.x, products);
    products = add_byte_products<true>(chunks[i].y, of_query.y, products);
    products = add_byte_products<true>(chunks[i].z, of_query.z, products);
    products = add_byte_products<true>(chunks[i].w, of_query.w, products);
  }
  if (quick_bias(term, inverse) + static_cast<int>(products) >=
          fused_threshold(shared.coeffs[which], limits.e, limits.n, inverse) &&
      position < f.rows.count)
    fused_find(shared, {number, which});
}

/// Tests what was put off, when thresholds are there; by a block.
template <int slab, int groups>
__device__ __forceinline__ void fused_make_up(const FusedArgs& f, const FusedShared& shared,
                                              const FusedPieces<slab>& pieces) {
  constexpr int queries = 8 * groups, most = fused_first_pieces(groups), each = fused_largest / fused_block_threads;
  const int count = queries * (static_cast<int>(pieces.all()) < most ? static_cast<int>(pieces.all()) : most);
  unsigned reaches = 0;  // a bit for each of the thread's sums
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int at = i * fused_block_threads + thread_index();
    if (at >= count) break;
    const FusedLimits limits = shared.limits[at / queries];
    const int threshold =
        fused_threshold(shared.coeffs[at % queries], limits.e, limits.n, fused_inverse(shared, limits.quick_inverse));
    if (shared.largest[at] >= threshold) reaches |= 1u << i;
  }
  __syncthreads();  // then the sums' memory has the numbers of those that reach
  for (; reaches != 0; reaches &= reaches - 1)
    shared.largest[atomicAdd(&shared.counters->reached, 1u)] =
        (__ffs(static_cast<int>(reaches)) - 1) * fused_block_threads + thread_index();
  __syncthreads();
  const auto reached = static_cast<int>(shared.counters->reached);
  for (int i = warp_index(); i < reached; i += fused_warps) {
    // With too many candidates queries go another way.
    const unsigned found = *static_cast<const volatile unsigned*>(&shared.counters->found);
    if (__any_sync(all_lanes, found > fused_found)) return;
    const int at = shared.largest[i];
    const auto piece = static_cast<std::uint32_t>(at / queries);
    fused_test_again<slab>(f, shared, pieces.position(piece) + static_cast<std::uint32_t>(lane_index()), at % queries,
                           shared.limits[piece]);
  }
}

/// New thresholds of the queries that the warp has.
__device__ __forceinline__ void fused_update_own(const FusedArgs& f, const FusedShared& shared, bool waits) {
  for (int which = warp_index(); which < f.count; which += fused_warps)
    if (shared.queries[which].fit) fused_update(f, shared, which, waits);
}

/// The pieces of the block's tiles, by a warp.
template <int slab, int groups>
__device__ __forceinline__ void fused_stream(const FusedArgs& f, const FusedShared& shared, FusedPieces<slab>& pieces,
                                             const std::uint32_t (&queries)[slab / 32][4]) {
  FusedNearest<groups> nearest(f.count);
  FusedSums<groups> s;
  bool present = pieces.next();
  for (; present && pieces.number() < fused_first_pieces(groups); present = pieces.next()) {
    const FusedPieceFacts& facts = pieces.facts();
    fused_multiply<slab, groups>(s, pieces.rows(), facts, fused_inverse(shared, facts.quick_inverse), queries);
    nearest.see(s, facts.step, pieces.position(pieces.number()));
    fused_put_off<groups>(shared, s, facts, pieces.number());
  }
  nearest.tell(shared);
  __syncthreads();
  fused_update_own(f, shared, true);
  __syncthreads();
  fused_make_up<slab, groups>(f, shared, pieces);
  for (int due = 3 * pieces.turn(); present; present = pieces.next()) {
    const FusedPieceFacts& facts = pieces.facts();
    const float inverse = fused_inverse(shared, facts.quick_inverse);
    const std::uint32_t position = pieces.position(pieces.number());
    fused_multiply<slab, groups>(s, pieces.rows(), facts, inverse, queries);
    nearest.see(s, facts.step, position);
    fused_test<groups>(f, shared, s, facts, inverse, position);
    if (pieces.turn() < due) continue;
    nearest.tell(shared);
    fused_update_own(f, shared, false);
    due = 3 * due;
  }
}

}  // namespace vicinal::cuda
