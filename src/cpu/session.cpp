// See session.hpp.
#include "cpu/session.hpp"

#include <algorithm>

#include "core/divide.hpp"
#include "cpu/prepare/order.hpp"
#include "cpu/propose/pilot.hpp"
#include "prepare/matches.hpp"
#include "prepare/project.hpp"

namespace vicinal::cpu {
namespace {

/// The k nearest in a tree of all rows are written as they are found.
bool tree_answers(const SearchPlan& plan, std::int64_t rows, bool range) noexcept {
  return plan.techniques.kd_tree && !range && plan.corpus_chunk >= rows;
}

}  // namespace

std::int64_t transform_bytes(const SearchPlan& plan, std::int64_t dims) noexcept {
  return plan.techniques.pilot ? pilot_bytes(dims) : plan.projected > 0 ? directions_bytes(dims) : 0;
}

CpuSession::CpuSession(const InstructionSet& set, const SearchSpec& spec, const SearchPlan& plan, Precision precision,
                       Transform chosen, std::shared_ptr<const CpuPreparedCorpus> prepared, ThreadPool& thread_pool,
                       Stats& stats)
    : kernels_(set.floats), bits_(set.bit_kernels()), precision_(precision), spec_(spec), plan_(plan),
      prepared_(std::move(prepared)), thread_pool_(thread_pool), stats_(stats), transform_(std::move(chosen)),
      rank_scratch_(thread_pool,
                    [&spec] {
                      const Points& corpus = spec.corpus;
                      return std::make_unique<RankScratch>(corpus.cols, corpus.dtype, corpus.plain_rows());
                    }),
      filter_scratch_(thread_pool, [&plan, precision] { return std::make_unique<FilterScratch>(plan, precision); }),
      bit_scratch_(thread_pool,
                   [&] { return std::make_unique<BitScratch>(kernels_, spec_.corpus, plan_.query_block, spec_.k); }) {
  if (const Int8Kernels* codes = find_host_precision(precision)->codes(set); codes != nullptr) {
    // Integers are their own codes, and queries that are rows have those of the rows.
    const bool given = plan.symmetric || transform().integral_step > 0;
    int8_ = codes->serving(plan.query_batch);
    if (given && int8_->most_code < most_code_of_bytes) int8_ = codes;
  }
  if (!has_filter(precision)) return;
  model_ = make_model(kernels_, spec, precision, transform());
  if (prepared_) note_largest_rows();
}

CpuSession::~CpuSession() = default;

bool CpuSession::answers_by_tree() const noexcept {
  return uses_kd_tree() && tree_answers(plan_, spec_.corpus.rows, spec_.radius.has_value());
}

std::int64_t CpuSession::bytes(const SearchPlan& plan, const ProblemShape& problem) noexcept {
  const std::int64_t dims = problem.corpus.cols, batch = plan.query_batch, results = batch * plan.row_splits;
  const bool filters = std::any_of(plan.cascade.begin(), plan.cascade.end(),
                                   [](const std::string& name) { return has_filter(precision_of(name)); });
  std::int64_t block = 1;
  for (const HostPrecision& one : host_precisions)
    if (has_filter(one.precision)) block = std::max(block, queries_per_block(plan, one.precision));
  const std::int64_t padded = rounded_up(batch, block);
  const std::int64_t pools = tree_answers(plan, problem.corpus.rows, problem.range) ? plan.threads : results;
  std::int64_t total =
      pools * static_cast<std::int64_t>(sizeof(QueryResult) + sizeof(Candidates)) +
      pools * pool_capacity(problem.k) * static_cast<std::int64_t>(sizeof(Entry)) +
      batch * static_cast<std::int64_t>(sizeof(QueryFacts) + 3 * sizeof(std::int64_t) + 2 * sizeof(double));
  const std::int64_t lanes = plan.symmetric ? max_query_lanes : 0;  // what fills up each block's last panel
  if (filters && plan.techniques.second_level)
    total += batch * 2 * SecondCode::stride(dims) + plan.threads * rank_block * 8;
  if (filters)
    total += (padded + padded / block * lanes) * std::max(dims + 3, block_quads) * 4 + batch * 4 +
             results * plan.candidate_slots * static_cast<std::int64_t>(sizeof(Slot));
  const auto may_hold_projected = [](const SearchPlan& of) { return of.techniques.pilot || of.projected > 0; };
  if (may_hold_projected(plan) || (problem.made != nullptr && may_hold_projected(*problem.made)))
    total += batch * std::min(dims, most_projected_columns) * 8;
  if (plan.techniques.kd_tree) total += batch * ((kd_tree_width(dims) + dims) * 8 + 48);
  if (plan.techniques.bit_counts)
    total += batch * words_of(dims) * 4 + plan.threads * BitScratch::bytes(dims, plan.query_block, problem.k);
  if (problem.range)
    total +=
        results * static_cast<std::int64_t>(sizeof(Matches) + sizeof(OutputCursor)) + batch * 64 + plan.match_bytes;
  // A thread prepares (fp64 rows, one panel) or ranks and filters;
  // views that are not plain need the larger rank scratch.
  const std::int64_t thread = PrepareScratch::bytes(dims) + RankScratch::bytes(dims, problem.corpus.dtype, false) +
                              (block + max_query_lanes) * (10 + panel_rows) * 4 + (std::int64_t{256} << 10);
  total += problem.filter_bytes + problem.queries.rows / 8;  // the queries still pending, above the seam
  if (plan.symmetric) total += plan.threads * (tile_rows + max_query_lanes) * (2 * panel_rows + 16) * 4;  // of int8
  return total + plan.threads * thread + transform_bytes(plan, dims) + dims * 24 + Rotation::bytes(dims) +
         (std::int64_t{1} << 20);
}

SearchBatch CpuSession::batch() noexcept {
  return {.kernels = kernels_,
          .spec = spec_,
          .chunk = chunk(),
          .query_points = query_points_,
          .rows = rows(),
          .given = given(),
          .queries = queries_,
          .results = results_.data(),
          .splits = plan_.row_splits,
          .rank_scratch = rank_scratch_,
          .thread_pool = thread_pool_};
}

FilterPass CpuSession::pass(const SearchBatch& batch) noexcept {
  return {.batch = batch,
          .plan = plan_,
          .model = *model_,
          .precision = precision_,
          .int8 = int8_,
          .candidates = candidates_.data(),
          .largest = largest_rows_,
          .scratch = filter_scratch_,
          .speculation_missed = speculation_missed_};
}

void CpuSession::prepare_queries(const Points& queries, const QueryRows& rows) {
  query_points_ = queries;
  if (uses_kd_tree()) {
    kd_tree_queries_.prepare(kernels_, spec_, queries, rows, thread_pool_);
  } else {
    rows.copy_to(rows_);
    given_.clear();
  }
  queries_.count = static_cast<std::int64_t>(rows.size());
  if (answers_by_tree()) return;
  if (!in_codes(precision_) || !plan_.symmetric) pack_queries(nullptr);  // else when their order is known
}

void CpuSession::pack_rows_as_queries() {
  given_.assign(chunk().order.data(), chunk().order.data() + chunk().count);
  rows_ = given_;
  pack_queries(&chunk().steps);
}

void CpuSession::pack_queries(const std::vector<float>* steps) {
  const std::int64_t block = queries_per_block(plan_, precision_);
  if (spec_.metric == Metric::hamming) {
    queries_.count = static_cast<std::int64_t>(rows_.size());
    queries_.block = block;
    queries_.facts.assign(rows_.size(), QueryFacts{});
    if (counts_bits()) bit_queries_.prepare(kernels_, bits_, query_points_, rows_, block, thread_pool_);
  } else {
    PackArgs args = pack_args();
    args.techniques.second_level = refines();
    cpu::prepare_queries(args, {.points = query_points_, .rows = rows(), .block = block, .int8 = int8_, .steps = steps},
                         thread_pool_, queries_);
    if (!queries_.order.empty()) bring_into_order(rows_, queries_.order, thread_pool_);
  }
  start_results();
  if (spec_.radius) start_range();
}

void CpuSession::start_results() {
  const std::int64_t results = queries_.count * plan_.row_splits, k = spec_.k, pool_size = pool_capacity(k);
  grow(entries_, results * pool_size);
  results_.assign(static_cast<std::size_t>(results), QueryResult{});
  for (std::int64_t i = 0; i < results; ++i)
    results_[static_cast<std::size_t>(i)].pool = {
        .entries = entries_.data() + i * pool_size, .count = 0, .k = k, .capacity = pool_size};
  if (!model_) return;
  const std::int64_t slots = slots_per_query(plan_, spec_, precision_),
                     compaction_point = first_compaction(plan_, spec_, precision_);
  grow(slots_, results * slots);
  candidates_.assign(static_cast<std::size_t>(results), Candidates{});
  for (std::int64_t i = 0; i < results; ++i) {
    Candidates& candidates = candidates_[static_cast<std::size_t>(i)];
    candidates.slots = slots_.data() + i * slots;
    candidates.compaction_point = compaction_point;
    results_[static_cast<std::size_t>(i)].given_up =
        !spec_.radius && !queries_.facts[static_cast<std::size_t>(i % queries_.count)].filterable;
  }
}

void CpuSession::start_range() {
  matches_.start(batch(), plan_.match_bytes);
  const double radius = radius_key(*spec_.radius, spec_.type, descending(spec_.metric));
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const QueryFacts& facts = queries_.facts[i % static_cast<std::size_t>(queries_.count)];
    if (uses_kd_tree()) results_[i].threshold_key = radius;
    if (!model_ || !facts.filterable) continue;  // with an infinite threshold every row is ranked
    results_[i].threshold_key = radius;
    candidates_[i].threshold_distance = theta_of_key(*model_, radius, facts.scale);
  }
}

void CpuSession::prepare_corpus(std::int64_t first, std::int64_t count) {
  prepare_rows(pack_args(), first, count, thread_pool_, streamed_);
  note_largest_rows();
}

void CpuSession::note_largest_rows() {
  for (const FilterNorms& tile : chunk().tiles) take_maxima(largest_rows_, tile);
}

void CpuSession::filter() {
  if (model_ && int8_ != nullptr && plan_.symmetric) pack_rows_as_queries();
  const SearchBatch batch = this->batch();
  if (counts_bits()) return search_bits(batch, bits_, bit_queries_, bit_scratch_);
  if (answers_by_tree()) return;  // when they are written
  if (!model_) return uses_kd_tree() ? search_kd_tree(batch, kd_tree_queries_) : rank_exhaustively(batch);
  plan_.symmetric ? filter_symmetric(pass(batch)) : filter_tiles(pass(batch));
}

void CpuSession::select() {
  if (!model_ || spec_.radius) return;
  const SearchBatch batch = this->batch();
  compact_candidates(pass(batch));
}

void CpuSession::rerank() {
  if (!model_) return;
  const SearchBatch batch = this->batch();
  rerank_candidates(pass(batch));
}

void CpuSession::finish(const NeighborsView& out, const BoundsView& bounds) {
  const SearchBatch batch = this->batch();
  answers_by_tree() ? answer_by_kd_tree(output(batch), kd_tree_queries_, out, bounds)
                    : output(batch).write(out, bounds);
}

void CpuSession::counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) {
  RangeMatches::counts(batch(), counts, overflowed);
}

void CpuSession::write_matches_to(const RangeView& out) { matches_.write_to(batch(), out); }

void CpuSession::finish_range(const RangeView& out, const BoundsView& bounds) {
  const SearchBatch batch = this->batch();
  matches_.write(output(batch), out, bounds);
}

}  // namespace vicinal::cpu
