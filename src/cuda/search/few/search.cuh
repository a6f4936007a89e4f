// A few queries against a kept corpus in int8, by one kernel: every block prepares the queries, streams its share of the rows through shared memory,
// tightens thresholds as it goes and ranks the candidates that are left; finish.cuh merges what all blocks found. Rows are multiplied as the left
// operand: a warp takes 16 rows at a time against 8 or 16 queries, and nothing in the stream waits for other warps. A warp that has a query to
// tighten takes fewer rows meanwhile. Rows that come before there are thresholds come again at the end.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/few/rank.cuh"
#include "cuda/search/filter/int8_mma.cuh"

namespace vicinal::cuda {

/// The pieces that a warp takes and the copies that bring them, some ahead. Of the block's own tiles, or of pieces that were deferred.
template <int slab>
class FewPieces {
 public:
  __device__ FewPieces(const Few& f, const FewShared& shared, const std::uint32_t* deferred, std::uint32_t all)
      : f_(f), shared_(shared), deferred_(deferred), all_(all), per_count_(1 / static_cast<double>(f.visits.count)) {
    for (int stage = 0; stage < few_stages - 1; ++stage) ask(stage);
  }
  /// The next piece, which is there; false where there is none.
  __device__ __forceinline__ bool next() {
    wait_for_copies<few_stages - 2>();
    __syncwarp();
    slot_ = warp_index() * few_stages + turn_ % few_stages;
    piece_ = shared_.claimed[slot_];
    if (piece_ == few_none) return false;
    ask(turn_ + few_stages - 1);
    ++turn_;
    return true;
  }
  __device__ __forceinline__ std::uint32_t piece() const { return piece_; }
  __device__ __forceinline__ unsigned char* rows() const {
    return shared_.pieces + static_cast<std::int64_t>(slot_) * few_piece_rows * slab;
  }
  __device__ __forceinline__ const FewPieceFacts& facts() const { return shared_.facts[slot_]; }
  /// Position of its first row.
  __device__ __forceinline__ std::uint32_t position() const {
    return tile_of(piece_) * tile_rows + piece_ % few_pieces * few_piece_rows;
  }

 private:
  /// Visits::at() of the block's tile, without a division: products stay below 2^53.
  __device__ __forceinline__ std::uint32_t tile_of(std::uint32_t piece) const {
    const std::int64_t count = f_.visits.count,
                       at = (blockIdx.x + std::int64_t{piece / few_pieces} * f_.blocks) * f_.visits.step;
    std::int64_t left = at - static_cast<std::int64_t>(static_cast<double>(at) * per_count_) * count;
    left = left < 0 ? left + count : left;
    return static_cast<std::uint32_t>(left >= count ? left - count : left);
  }
  /// Takes a piece and asks for its rows and facts.
  __device__ __forceinline__ void ask(int turn) {
    const int slot = warp_index() * few_stages + turn % few_stages;
    unsigned taken = 0;
    if (lane_index() == 0) taken = atomicAdd(&shared_.counters->next, 1u);
    taken = __shfl_sync(all_lanes, taken, 0);
    const std::uint32_t piece = taken >= all_ ? few_none : deferred_ != nullptr ? deferred_[taken] : taken;
    if (lane_index() == 0) shared_.claimed[slot] = piece;
    if (piece != few_none) {
      const std::int64_t tile = tile_of(piece), part = piece % few_pieces;
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
  const std::uint32_t* deferred_;
  std::uint32_t all_, piece_ = 0;
  double per_count_;
  int turn_ = 0, slot_ = 0;
};

/// Sums of a piece's rows and 8 queries a group, as mma.sync lays them out. queries: their operands.
template <int slab, int groups>
__device__ __forceinline__ void few_multiply(int (&sums)[groups][4], unsigned char* piece,
                                             const std::uint32_t (&queries)[slab / 32][4]) {
  const int lane = lane_index();
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[g][i] = 0;
#pragma unroll
  for (int step = 0; step < slab / 32; ++step) {
    std::uint32_t rows[4];
    load_matrices(rows, line_chunk<slab>(piece, (lane / 8 & 1) * 8 + lane % 8, 2 * step + lane / 16));
#pragma unroll
    for (int g = 0; g < groups; ++g) mma_16x8x32(sums[g], rows, queries[step][2 * g], queries[step][2 * g + 1]);
  }
}

/// Remembers the rows that look nearest, and appends those that no threshold excludes to the block's candidates. nearest: the least t of the lane.
template <int groups>
__device__ __forceinline__ void few_test(const Few& f, const FewShared& shared, const FewPieceFacts& facts,
                                         const int (&sums)[groups][4], std::uint32_t position, bool remembers,
                                         bool tests, float (&nearest)[groups][2]) {
  const int row = lane_index() / 4, place = warp_index() * 8 + row;
  const float step = -multiplier(f.model.sum) * facts.step, terms[2] = {facts.terms[row], facts.terms[row + 8]};
#pragma unroll
  for (int g = 0; g < groups; ++g)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int which = 8 * g + 2 * (lane_index() % 4) + c;
      if (which >= f.count) continue;
      const float unit = step * shared.queries[which].step,
                  bound = tests ? few_bound(shared.coeffs[which], facts.e, facts.n) : 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float product = unit * static_cast<float>(sums[g][2 * h + c]), t = terms[h] - product,
                    least = t - (fabsf(terms[h]) + fabsf(product)) * few_share;
        const std::uint32_t at = position + static_cast<std::uint32_t>(row + 8 * h);
        if (remembers && t < nearest[g][c] && t > -static_cast<float>(infinite)) {
          nearest[g][c] = t;
          *static_cast<volatile unsigned long long*>(&shared.nearest[which * few_places + place].now) =
              static_cast<unsigned long long>(at) << 32 | static_cast<std::uint32_t>(sums[g][2 * h + c]);
        }
        // The term of a row that is masked is infinite, and its t; that of one that cannot be excluded is so below.
        if (!tests || least > bound || !(t < static_cast<float>(infinite)) || at >= f.rows.count) continue;
        const unsigned slot = atomicAdd(&shared.counters->found, 1u);
        if (slot < few_found) shared.found[slot] = {at, which, least};
      }
    }
}

/// A counter of the block that other warps change, as all lanes of this one see it.
__device__ __forceinline__ unsigned lanes_see(const unsigned& counter) {
  random_delay();
  const unsigned seen = *static_cast<const volatile unsigned*>(&counter);
  return __shfl_sync(all_lanes, seen, 0);
}
/// A piece comes again when there are thresholds; false where there is no room.
__device__ __forceinline__ bool few_defer(const FewShared& shared, std::uint32_t piece) {
  unsigned slot = 0;
  if (lane_index() == 0) slot = atomicAdd(&shared.counters->deferred, 1u);
  slot = __shfl_sync(all_lanes, slot, 0);
  if (slot < few_deferred && lane_index() == 0) shared.deferred[slot] = piece;
  return slot < few_deferred;
}

/// The pieces of the block's tiles, or the deferred ones, by a warp.
template <int slab, int groups>
__device__ __forceinline__ void few_stream(const Few& f, const FewShared& shared, const std::uint32_t* deferred,
                                           std::uint32_t all, const std::uint32_t (&queries)[slab / 32][4],
                                           float (&nearest)[groups][2]) {
  FewPieces<slab> pieces(f, shared, deferred, all);
  std::uint32_t due = few_warps;  // pieces after which this warp's queries are tightened
  while (pieces.next()) {
    int sums[groups][4];
    few_multiply<slab, groups>(sums, pieces.rows(), queries);
    // One lane looks, for the others might see another state.
    const bool tests =
        deferred != nullptr || lanes_see(shared.counters->unknown) == 0 || !few_defer(shared, pieces.piece());
    few_test<groups>(f, shared, pieces.facts(), sums, pieces.position(), deferred == nullptr, tests, nearest);
    if (deferred != nullptr || warp_index() >= f.count) continue;
    if (lanes_see(shared.counters->next) < due + few_warps * (few_stages - 1)) continue;
    few_update(f, shared, warp_index(), false);
    __syncwarp();
    due = (lanes_see(shared.counters->unknown) >> warp_index() & 1) != 0 ? due + few_warps : 2 * due;
  }
}

/// The queries of a block, and thresholds that exclude nothing yet.
template <int slab>
__device__ __forceinline__ void few_begin(const Few& f, const FewShared& shared) {
  for (int i = thread_index(); i < few_queries * few_places; i += few_block_threads)
    shared.nearest[i] = {~0ull, few_none, few_none};
  if (thread_index() < few_queries) {
    shared.known[thread_index()] = few_none;
    shared.coeffs[thread_index()] = {static_cast<float>(infinite), 0, 0};
  }
  if (thread_index() == 0) *shared.counters = {0, 0, 0, 0, (1u << f.count) - 1};
  const int which = warp_index();
  if (which >= f.count) {
    for (int i = lane_index(); i < slab; i += 32) shared.lines[which * slab + i] = 0;
  } else {
    const bool fit = few_prepare<slab>(f, which, shared);
    if (blockIdx.x == 0 && lane_index() == 0) {
      if (!fit) atomicOr(&f.state.flags[which], static_cast<unsigned>(few_unfit));
      const QuantizedQuery& query = shared.queries[which].quantized;
      f.state.largest[which] = largest_error(f.model, query.norms,
                                             {double_of(f.rows.largest[0]), double_of(f.rows.largest[1])}, query.scale);
    }
  }
  __syncthreads();
}
static_assert(few_warps == few_queries, "a warp prepares and tightens a query");

/// groups: of eight queries.
template <int slab, int groups>
__global__ void __launch_bounds__(few_block_threads, 1) few_search(Few f) {
  auto* const base = dynamic_shared<unsigned char>();
  const FewShared shared(base, few_memory(slab));
  few_begin<slab>(f, shared);
  std::uint32_t queries[slab / 32][4];
#pragma unroll
  for (int step = 0; step < slab / 32; ++step)
    load_matrices(queries[step], line_chunk<slab>(shared.lines, lane_index() / 16 * 8 + lane_index() % 8,
                                                  2 * step + (lane_index() / 8 & 1)));
  float nearest[groups][2];
#pragma unroll
  for (int g = 0; g < groups; ++g) nearest[g][0] = nearest[g][1] = static_cast<float>(infinite);

  // All pieces, those that came too early, and what is left of both.
  const std::int64_t tiles = (f.rows.tiles() - blockIdx.x + f.blocks - 1) / f.blocks;
  few_stream<slab, groups>(f, shared, nullptr, static_cast<std::uint32_t>(tiles * few_pieces), queries, nearest);
  __syncthreads();
  if (thread_index() == 0) shared.counters->next = 0;
  if (warp_index() < f.count) few_update(f, shared, warp_index(), true);
  __syncthreads();
  const unsigned deferred = shared.counters->deferred < few_deferred ? shared.counters->deferred : few_deferred;
  few_stream<slab, groups>(f, shared, shared.deferred, deferred, queries, nearest);
  let_next_start();
  __syncthreads();
  auto* const pairs = reinterpret_cast<FewPair*>(base);
  const unsigned count = few_keep(f, shared, pairs);
  few_rank(f, shared, pairs, count, slab);

  if (thread_index() < f.count) {
    if (shared.counters->found > few_found) atomicOr(&f.state.flags[thread_index()], static_cast<unsigned>(few_full));
    atomicMin(&f.state.radius[thread_index()], shared.known[thread_index()]);
  } else if (thread_index() == few_queries) {
    atomicAdd(&f.state.totals[0], static_cast<unsigned long long>(shared.counters->found));
    atomicAdd(&f.state.totals[1], static_cast<unsigned long long>(count));
  }
}

}  // namespace vicinal::cuda
