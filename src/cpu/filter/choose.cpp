// See choose.hpp and pass.hpp.
#include "cpu/filter/choose.hpp"

#include <algorithm>

#include "core/divide.hpp"

namespace vicinal::cpu {
namespace {

// A query may rank this part of all rows before it is given up.
constexpr std::int64_t rerank_share = 8, int8_rerank_share = 32;

}  // namespace

std::int64_t queries_per_block(const SearchPlan& plan, Precision precision) noexcept {
  if (plan.symmetric) return in_codes(precision) ? tile_rows : plan.symmetric_rows;
  if (!in_codes(precision)) return plan.query_block;
  const std::int64_t pieces = plan.query_block * plan.threads, rounds = divide_up(plan.query_batch, pieces);
  std::int64_t joined = sizeof(float);
  while (rounds % joined != 0) --joined;
  return plan.query_block * joined;
}

std::int64_t slots_per_query(const SearchPlan& plan, const SearchSpec& spec, Precision precision) noexcept {
  if (in_codes(precision) || spec.radius) return plan.candidate_slots;
  return std::min(plan.candidate_slots, spec.k + panel_rows + std::max<std::int64_t>(2 * panel_rows, spec.k));
}

std::int64_t first_compaction(const SearchPlan& plan, const SearchSpec& spec, Precision precision) noexcept {
  const std::int64_t slots = slots_per_query(plan, spec, precision);
  if (!in_codes(precision) || spec.radius) return slots;
  return std::min(slots, (plan.symmetric ? 4 : 2) * spec.k + 3 * panel_rows);
}

FilterScratch::FilterScratch(const SearchPlan& plan, Precision precision) {
  const std::int64_t block = queries_per_block(plan, precision) + max_query_lanes;
  if (in_floats(precision)) {
    f32.thresholds = Buffer<float>(block);
    f32.partial = Buffer<float>((plan.query_block + max_query_lanes) * panel_rows);
    if (plan.symmetric) {
      f32.column_thresholds = Buffer<float>(plan.symmetric_rows);
      f32.row_terms = Buffer<float>(plan.query_block + max_query_lanes);
    }
    return;
  }
  int8.coeffs = Buffer<ThresholdCoeffs>(block);
  int8.thresholds = Buffer<std::int32_t>(block);
  int8.biases = Buffer<std::int32_t>(tile_rows);
  int8.partial = Buffer<std::int32_t>(block * panel_rows);
  if (plan.symmetric) {
    int8.column_coeffs = Buffer<ThresholdCoeffs>(tile_rows);
    int8.column_thresholds = Buffer<std::int32_t>(tile_rows);
    int8.row_terms = Buffer<std::int32_t>(tile_rows + max_query_lanes);
  }
}

QueryBlock make_block(const FilterPass& pass, std::int64_t split, std::int64_t first, std::int64_t count,
                      Ranker& ranker) {
  const SearchBatch& batch = pass.batch;
  const std::int64_t capacity = slots_per_query(pass.plan, batch.spec, pass.precision);
  const std::int64_t position = split * batch.queries.count + first;
  return {.kernels = batch.kernels,
          .spec = batch.spec,
          .model = pass.model,
          .chunk = batch.chunk,
          .facts = batch.queries.facts.data() + first,
          .rows = batch.rows.data() + first,
          .results = batch.results + position,
          .candidates = pass.candidates + position,
          .first = first,
          .queries = static_cast<int>(count),
          .capacity = capacity,
          .rerank_budget =
              batch.spec.corpus.rows / (pass.int8 != nullptr ? int8_rerank_share : rerank_share) + 4 * capacity,
          .ranker = ranker,
          .thread_pool = batch.thread_pool};
}

bool is_integral(const FilterPass& pass, const QueryBlock& block) noexcept {
  return block.chunk.integral && !pass.plan.symmetric && !block.spec.radius &&
         std::all_of(block.facts, block.facts + block.queries, [](const QueryFacts& query) { return query.integral; });
}

Int8Block int8_block(const FilterPass& pass, const QueryBlock& block, FilterScratch& scratch,
                     std::int32_t* thresholds) noexcept {
  const PackedQueries& queries = pass.batch.queries;
  return {.kernels = *pass.int8,
          .steps = queries.steps.data() + block.first / queries.block * queries.block_panels,
          .largest = pass.largest,
          .threshold_int = thresholds,
          .biases = scratch.int8.biases.data(),
          .partial = scratch.int8.partial.data()};
}

const std::int8_t* second_codes(const FilterPass& pass, const QueryBlock& block) noexcept {
  const Buffer<std::int8_t>& codes = pass.batch.queries.second;
  return codes.size() > 0 ? codes.data() + block.first * 2 * SecondCode::stride(pass.model.columns) : nullptr;
}

}  // namespace vicinal::cpu
