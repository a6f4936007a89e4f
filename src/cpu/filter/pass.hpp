// One pass of a filter over one chunk: what the session lends it, and the stages that it goes through.
#pragma once
#include <atomic>

#include "cpu/filter/candidates.hpp"
#include "cpu/rerank/batch.hpp"

namespace vicinal::cpu {

/// Returns how many queries a packed block has. Symmetric floats take all that serve one tile at once; symmetric int8
/// those that share a step. Otherwise int8 joins several blocks of the plan, which are sized for floats, as long as
/// they take no more cache and leave each thread as much to do.
std::int64_t queries_per_block(const SearchPlan& plan, Precision precision) noexcept;

/// Returns how many slots a query has. The plan's number serves
/// int8; floats, which can tell more rows apart, need fewer.
std::int64_t slots_per_query(const SearchPlan& plan, const SearchSpec& spec, Precision precision) noexcept;
/// Returns how many candidates a query has when it is compacted for the first time.
std::int64_t first_compaction(const SearchPlan& plan, const SearchSpec& spec, Precision precision) noexcept;

/// FilterScratch holds what one thread needs for tiles. A block of queries is padded to full panels, so arrays have
/// some lanes more than queries.
struct FilterScratch {
  FilterScratch(const SearchPlan& plan, Precision precision);
  struct F32 {
    Buffer<float> thresholds, partial;
    Buffer<float> column_thresholds, row_terms;  // of symmetric tiles
  } f32;
  struct Int8 {
    Buffer<ThresholdCoeffs> coeffs;
    Buffer<std::int32_t> thresholds, biases, partial;
    Buffer<ThresholdCoeffs> column_coeffs;  // of symmetric tiles, as the next two
    Buffer<std::int32_t> column_thresholds, row_terms;
  } int8;
};

struct FilterPass {
  const SearchBatch& batch;
  const SearchPlan& plan;
  const BoundModel& model;
  Precision precision;
  const Int8Kernels* int8;  // null: the precision is of floats
  Candidates* candidates;   // [splits][queries]
  FilterNorms largest;      // maxima over all rows
  PerThread<FilterScratch>& scratch;
  std::atomic<bool>& speculation_missed;  // a speculative threshold was too low; it decides about time alone
};

/// Tile distances of all blocks against the chunk, in every split.
void filter_tiles(const FilterPass& pass);
/// The same for a graph, whose tiles serve both sides: the queries are the packed rows in their order.
void filter_symmetric(const FilterPass& pass);
/// Compacts all candidates by the final thresholds of the chunk.
void compact_candidates(const FilterPass& pass);
/// Ranks all candidates canonically.
void rerank_candidates(const FilterPass& pass);

}  // namespace vicinal::cpu
