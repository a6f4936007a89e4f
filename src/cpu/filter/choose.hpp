// Which filter serves a block of queries: chosen once a block, so that nothing below asks again.
#pragma once
#include "cpu/filter/f32.hpp"
#include "cpu/filter/int8_exact.hpp"
#include "cpu/filter/pass.hpp"

namespace vicinal::cpu {

QueryBlock make_block(const FilterPass& pass, std::int64_t split, std::int64_t first, std::int64_t count,
                      Ranker& ranker);
/// Whether the block's queries and all rows are integral, so
/// that t + |q|^2 is the squared distance, and its key the key.
bool is_integral(const FilterPass& pass, const QueryBlock& block) noexcept;
/// thresholds: [padded queries] of the thread's scratch.
Int8Block int8_block(const FilterPass& pass, const QueryBlock& block, FilterScratch& scratch,
                     std::int32_t* thresholds) noexcept;
/// The block's second-level codes; null: nothing is refined.
const std::int8_t* second_codes(const FilterPass& pass, const QueryBlock& block) noexcept;

/// Calls body(filter) with the filter of the block.
template <class Body>
void with_filter(const FilterPass& pass, const QueryBlock& block, FilterScratch& scratch, const Body& body) {
  if (pass.int8 == nullptr) {
    F32Filter filter(block, scratch.f32.thresholds.data(), scratch.f32.partial.data());
    return body(filter);
  }
  const Int8Block int8 = int8_block(pass, block, scratch, scratch.int8.thresholds.data());
  if (is_integral(pass, block)) {
    Int8ExactFilter filter(block, int8);
    return body(filter);
  }
  Int8Filter filter(block, int8, scratch.int8.coeffs.data(), second_codes(pass, block));
  body(filter);
}

/// Calls body(filter, split, block) for all blocks of queries in all splits.
template <class Body>
void for_each_block(const FilterPass& pass, const Body& body) {
  const SearchBatch& batch = pass.batch;
  const std::int64_t blocks = batch.queries.block_count(), size = batch.queries.block;
  batch.thread_pool.for_each(batch.splits * blocks, [&](std::int64_t piece, int thread) {
    const std::int64_t split = piece / blocks, number = piece % blocks, first = number * size;
    Ranker ranker = batch.ranker(thread);
    const QueryBlock block = make_block(pass, split, first, std::min(size, batch.queries.count - first), ranker);
    with_filter(pass, block, pass.scratch.of(thread), [&](auto& filter) { body(filter, split, number); });
  });
}

}  // namespace vicinal::cpu
