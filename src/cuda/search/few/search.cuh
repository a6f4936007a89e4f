// A few queries against a kept corpus in int8, by one kernel: every block prepares the queries, streams its share of the rows through shared memory,
// tightens thresholds as it goes and ranks the candidates that are left; the block that ends last merges what all found (finish.cuh). Rows are
// multiplied as the left operand: a warp takes 32 rows at a time against 8 or 16 queries. All warps meet after their first rows, for the first
// thresholds, and in the end; a warp that has a query to tighten in between takes fewer rows meanwhile.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/few/finish.cuh"
#include "cuda/search/few/rank.cuh"
#include "cuda/search/filter/int8_mma.cuh"

namespace vicinal::cuda {

/// The pieces of the block's tiles that a warp takes, and the copies that bring them, some ahead.
template <int slab>
class FewPieces {
 public:
  __device__ FewPieces(const Few& f, const FewShared& shared) : f_(f), shared_(shared) {
    const auto tiles = static_cast<std::uint32_t>(f.rows.tiles()), blocks = static_cast<std::uint32_t>(f.blocks);
    all_ = (tiles - static_cast<std::uint32_t>(blockIdx.x) + blocks - 1) / blocks * few_pieces;
  }
  /// Asks for the first pieces, and has the next tiles brought nearer, while there are no queries yet.
  __device__ __forceinline__ void start() {
    for (int stage = 0; stage < few_stages - 1; ++stage) ask(stage);
    const std::uint32_t piece = static_cast<std::uint32_t>(few_warps * (few_stages - 1) + warp_index() * few_pieces);
    if (lane_index() != 0 || piece >= all_) return;
    const std::int64_t tile = tile_of(piece);
    prefetch_bulk(f_.rows.bytes + tile * tile_rows * slab, tile_rows * slab);
    prefetch_bulk(f_.rows.tile_metadata + tile, sizeof(TileMetadata));
  }
  /// The next piece, which is there; false where there is none.
  __device__ __forceinline__ bool next() {
    wait_for_copies<few_stages - 2>();
    __syncwarp();
    slot_ = warp_index() * few_stages + turn_ % few_stages;
    position_ = shared_.claimed[slot_];
    if (position_ == few_none) return false;
    ask(turn_ + few_stages - 1);
    ++turn_;
    return true;
  }
  /// Pieces that were taken.
  __device__ __forceinline__ int turn() const { return turn_; }
  __device__ __forceinline__ unsigned char* rows() const {
    return shared_.pieces + static_cast<std::int64_t>(slot_) * few_piece_rows * slab;
  }
  __device__ __forceinline__ const FewPieceFacts& facts() const { return shared_.facts[slot_]; }
  /// Of its first row.
  __device__ __forceinline__ std::uint32_t position() const { return position_; }

 private:
  /// Visits::at() of the block's tile, without a division: products stay below 2^53.
  __device__ __forceinline__ std::uint32_t tile_of(std::uint32_t piece) const {
    const std::int64_t count = f_.visits.count,
                       at = (blockIdx.x + std::int64_t{piece / few_pieces} * f_.blocks) * f_.visits.step;
    std::int64_t left = at - static_cast<std::int64_t>(static_cast<double>(at) * f_.per_count) * count;
    left = left < 0 ? left + count : left;
    return static_cast<std::uint32_t>(left >= count ? left - count : left);
  }
  /// Takes a piece and asks for its rows and facts.
  __device__ __forceinline__ void ask(int turn) {
    const int slot = warp_index() * few_stages + turn % few_stages;
    unsigned piece = 0;
    random_delay();
    if (lane_index() == 0) piece = atomicAdd(&shared_.counters->next, 1u);
    piece = __shfl_sync(all_lanes, piece, 0);
    const std::int64_t tile = piece < all_ ? tile_of(piece) : 0, part = piece % few_pieces;
    if (lane_index() == 0)
      shared_.claimed[slot] =
          piece < all_ ? static_cast<std::uint32_t>(tile * tile_rows + part * few_piece_rows) : few_none;
    if (piece < all_) {
      const auto* from = reinterpret_cast<const unsigned char*>(f_.rows.bytes + tile * tile_rows * slab) +
                         part * few_piece_rows * slab;
      unsigned char* const to = shared_.pieces + static_cast<std::int64_t>(slot) * few_piece_rows * slab;
#pragma unroll
      for (int i = 0; i < few_piece_rows * slab; i += 32 * 16)
        copy_16(to + i + lane_index() * 16, from + i + lane_index() * 16);
      constexpr int terms = few_piece_rows * 4 / 16, all = static_cast<int>(sizeof(FewPieceFacts)) / 16;
      const auto* metadata = reinterpret_cast<const unsigned char*>(f_.rows.tile_metadata + tile);
      if (lane_index() < all)
        copy_16(reinterpret_cast<unsigned char*>(shared_.facts + slot) + lane_index() * 16,
                lane_index() < terms ? metadata + part * few_piece_rows * 4 + lane_index() * 16
                                     : metadata + offsetof(TileMetadata, inverse) + (lane_index() - terms) * 16);
    }
    commit_copies();
  }

  const Few& f_;
  const FewShared& shared_;
  std::uint32_t all_, position_ = 0;
  int turn_ = 0, slot_ = 0;
};

/// The sums of a piece's rows and 8 queries a group, as mma.sync lays them out, each with its row's bias.
template <int groups>
struct FewSums {
  int biases[2][2];  // of rows lane / 4, and others 8, 16 and 24 beyond
  int sums[2][groups][4];
  int most[groups][2];  // of each of the lane's queries

  static __device__ __forceinline__ int row(int m, int h) { return 16 * m + 8 * h + lane_index() / 4; }
};
/// queries: their operands; inverse: few_inverse().
template <int slab, int groups>
__device__ __forceinline__ void few_multiply(FewSums<groups>& s, unsigned char* piece, const FewPieceFacts& facts,
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

/// Remembers the rows that look nearest of those that the lane sees. nearest: their t over the queries' step, so far.
template <int groups>
__device__ __forceinline__ void few_remember(const FewShared& shared, const FewSums<groups>& s, float step,
                                             std::uint32_t position, float (&nearest)[groups][2]) {
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int most = s.most[g][c];
      const float t = -step * static_cast<float>(most);
      // Sums of rows that stand for anything are larger than others, and bound nothing.
      if (!(t < nearest[g][c]) || most >= static_cast<int>(most_quick_threshold)) continue;
      nearest[g][c] = t;
      std::uint32_t at = 0;
      int products = 0;
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          if (s.sums[m][g][2 * h + c] == most) {
            at = position + static_cast<std::uint32_t>(s.row(m, h));
            products = most - s.biases[m][h];
          }
      const int which = 8 * g + 2 * (lane_index() % 4) + c, place = warp_index() * 8 + lane_index() / 4;
      *static_cast<volatile unsigned long long*>(&shared.nearest[which * few_places + place]) =
          static_cast<unsigned long long>(at) << 32 | static_cast<std::uint32_t>(products);
    }
}

/// Appends the rows that no threshold excludes to the block's candidates.
template <int groups>
__device__ __forceinline__ void few_test(const Few& f, const FewShared& shared, const FewSums<groups>& s,
                                         const FewPieceFacts& facts, float inverse, std::uint32_t position) {
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int which = 8 * g + 2 * (lane_index() % 4) + c,
                threshold = few_threshold(shared.coeffs[which], facts.e, facts.n, inverse);
      if (s.most[g][c] < threshold) continue;
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::uint32_t at = position + static_cast<std::uint32_t>(s.row(m, h));
          if (s.sums[m][g][2 * h + c] < threshold || at >= f.rows.count) continue;
          const unsigned slot = atomicAdd(&shared.counters->found, 1u);
          if (slot < few_found) shared.found[slot] = {at, which, s.sums[m][g][2 * h + c]};
        }
    }
}

/// New thresholds of the queries that the warp has.
__device__ __forceinline__ void few_update_own(const Few& f, const FewShared& shared, bool waits) {
  for (int which = warp_index(); which < f.count; which += few_warps) few_update(f, shared, which, waits);
}

/// The pieces of the block's tiles, by a warp.
template <int slab, int groups>
__device__ __forceinline__ void few_stream(const Few& f, const FewShared& shared, FewPieces<slab>& pieces,
                                           const std::uint32_t (&queries)[slab / 32][4]) {
  float nearest[groups][2];
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c)
      nearest[g][c] =
          8 * g + 2 * (lane_index() % 4) + c < f.count ? static_cast<float>(infinite) : -static_cast<float>(infinite);
  FewSums<groups> s;
  int due = 3;  // pieces after which the warp's queries are tightened
  for (bool met = false;; met = true) {
    const bool there = pieces.next();
    const FewPieceFacts& facts = pieces.facts();
    const float inverse = few_inverse(shared, facts.quick_inverse);
    if (there) {
      few_multiply<slab, groups>(s, pieces.rows(), facts, inverse, queries);
      few_remember<groups>(shared, s, facts.step, pieces.position(), nearest);
    }
    if (!met) {
      __syncthreads();
      few_update_own(f, shared, true);
      __syncthreads();
    }
    if (!there) break;
    few_test<groups>(f, shared, s, facts, inverse, pieces.position());
    if (pieces.turn() < due) continue;
    few_update_own(f, shared, false);
    due = 3 * due;
  }
}

/// The queries of a block, and thresholds that exclude nothing yet; the first rows come meanwhile.
template <int slab>
__device__ __forceinline__ void few_begin(const Few& f, const FewShared& shared, FewPieces<slab>& pieces) {
  // Every other warp begins with its query: the code of both comes from memory, and so at once.
  for (int part = 0; part < 2; ++part) {
    if ((warp_index() + part) % 2 != 0) pieces.start();
    else
      for (int which = warp_index(); which < f.count; which += few_warps) few_measure<slab>(f, which, shared);
  }
  for (int i = thread_index(); i < few_queries * few_places; i += few_block_threads) shared.nearest[i] = ~0ull;
  if (thread_index() < few_queries) {
    shared.known[thread_index()] = few_none;
    const float base = static_cast<float>(infinite);
    shared.coeffs[thread_index()] = {thread_index() < f.count ? base : -base, 0, 0};
  }
  few_round_all<slab>(f, shared);
}

/// What a block says of each query, and of all, when its candidates are ranked.
__device__ __forceinline__ void few_say(const Few& f, const FewShared& shared, unsigned ranked) {
  const int which = thread_index();
  if (which < f.count) {
    const FewQuery& query = shared.queries[which];
    const unsigned flags = (shared.counters->found > few_found ? few_full : 0u) | (query.fit ? 0u : few_unfit);
    if (flags != 0) atomicOr(&f.state.flags[which], flags);
    atomicMin(&f.state.radius[which], shared.known[which]);
    if (blockIdx.x == 0)
      f.state.largest[which] =
          largest_error(f.model, query.quantized.norms, {double_of(f.rows.largest[0]), double_of(f.rows.largest[1])},
                        query.quantized.scale);
  } else if (which == few_queries) {
    atomicAdd(&f.state.totals[0], static_cast<unsigned long long>(shared.counters->found));
    atomicAdd(&f.state.totals[1], static_cast<unsigned long long>(ranked));
  }
}

/// groups: of eight queries.
template <int slab, int groups>
__global__ void __launch_bounds__(few_block_threads, 1) few_search(Few f) {
  auto* const base = dynamic_shared<unsigned char>();
  const FewShared shared(base, few_memory(slab));
  if (thread_index() == 0) *shared.counters = {};
  __syncthreads();
  FewPieces<slab> pieces(f, shared);
  few_begin<slab>(f, shared, pieces);
  std::uint32_t queries[slab / 32][4];
#pragma unroll
  for (int step = 0; step < slab / 32; ++step)
    load_matrices(queries[step], line_chunk<slab>(shared.lines, lane_index() / 16 * 8 + lane_index() % 8,
                                                  2 * step + (lane_index() / 8 & 1)));
  few_stream<slab, groups>(f, shared, pieces, queries);
  __syncthreads();

  // What the last thresholds leave is ranked.
  auto* const pairs = reinterpret_cast<FewPair*>(base);
  const unsigned count = few_keep(f, shared, pairs);
  few_rank(f, shared, pairs, count, slab);
  few_say(f, shared, count);

  random_delay();
  // The last block sees what all have written.
  __threadfence();
  __syncthreads();
  if (thread_index() == 0)
    shared.counters->last = atomicAdd(f.state.ended, 1u) == static_cast<unsigned>(f.blocks) - 1 ? 1 : 0;
  __syncthreads();
  if (shared.counters->last == 0) return;
  __threadfence();
  few_finish(f, reinterpret_cast<std::uint64_t*>(base));
}

}  // namespace vicinal::cuda
