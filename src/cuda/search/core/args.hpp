// SearchArgs is what the kernels of a search of vectors are given: two matrices prepared alike, the facts of their
// bound, and the state of each query.
#pragma once
#include <cstdint>

#include "backend/search.hpp"
#include "core/bound.hpp"
#include "cuda/search/core/candidate.hpp"
#include "cuda/search/core/matrix.hpp"
#include "cuda/search/core/tiles.hpp"

namespace vicinal::cuda {

inline constexpr std::int64_t most_shared_k = 2048;  // lists up to this are kept in shared memory
inline constexpr std::int64_t most_filtered_k = 1 << 15;

/// RowChoice says which rows may answer, as RowFilter does, in memory of the device.
struct RowChoice {
  bool all = true, without_self = false, only_self = false;  // only_self: all but the row itself
  std::int64_t first_self = 0;                               // the row that query 0 is
  std::int64_t begin = 0, end = INT64_MAX;
  const std::uint64_t* bits = nullptr;
  bool labelled = false, same_label = false;
  const std::int64_t *row_labels = nullptr, *query_labels = nullptr;
};

/// A query's state, by position.
struct QueryState {
  ThresholdCoeffs coeffs;              // what the filter excludes
  double threshold_filter = infinite;  // the filter distance beyond which a row is no neighbour
  double threshold_key = infinite;     // the same as a folded key
  std::uint32_t best = 0;              // entries of its list
  // Nothing passes for it any more: it has no filter form, a row found no slot or would find none, or its batch is left
  // to proof.
  bool given_up = false;
  bool infinite_key = false;  // on the canonical precision: a row that may answer has an infinite key
};

/// What kernels count.
struct Counters {
  unsigned long long passed, ranked, underflowed;
  unsigned infinite_keys, nearest_infinite;  // entries of lists; those that no other is nearer than
  unsigned repeated;                         // entries of lists that name the row of the entry before them
  unsigned undefined_keys;
  unsigned long long first_undefined;   // row of the corpus
  unsigned bad_rows, bad_queries;       // that the contract refuses
  unsigned long long given_up, missed;  // queries; missed: that are searched again
  unsigned long long largest_error;     // of the others, as the bits of a number that is not negative
  unsigned long long finished;          // blocks of the launch that tells the host of these; it begins again by itself
};

/// The arguments of one search over one chunk of the corpus.
struct SearchArgs {
  PreparedMatrix rows, queries;
  BoundModel model;
  bool floats = false;  // sums are codes of distances in float (float_mma.cuh)
  RowChoice choice;
  std::int64_t first_query = 0;              // of the batch, as the caller counts them
  const std::int64_t* query_rows = nullptr;  // of each, or null: they are adjacent
  std::int64_t first_row = 0;                // of the chunk in the corpus
  std::int64_t k = 0;
  Visits visits;
  QueryState* states = nullptr;
  Slot* slots = nullptr;
  std::uint32_t* counts = nullptr;  // of slots used, and beyond their number
  std::int64_t capacity = 0;        // slots a query
  void* best = nullptr;             // k words a query, the first QueryState::best of them sorted
  Counters* counters = nullptr;

  /// As the caller counts it.
  VICINAL_HOST_DEVICE std::int64_t number_of(std::int64_t query) const {
    return query_rows != nullptr ? query_rows[query] : first_query + query;
  }
};

/// The search of some of its queries, from a position on, which begins a block: what is by row stays whole.
inline SearchArgs some_queries(SearchArgs args, std::int64_t first, std::int64_t count) {
  PreparedMatrix& queries = args.queries;
  queries.count = count;
  queries.order += first;
  queries.bytes += first * queries.width;
  queries.tile_metadata += first / tile_rows;
  queries.quantized += first;
  if (queries.second_bytes != nullptr) queries.second_bytes += first * queries.width;
  if (queries.two_bytes != nullptr) queries.two_bytes += first;
  args.states += first;
  args.slots += first * args.capacity;
  args.counts += first;
  return args;
}

}  // namespace vicinal::cuda
