// PLAN: budget + shapes + what the backend proposes -> blocks, batches, chunks. Pure arithmetic.
// Preference: the whole corpus prepared once and all queries at a time; then fewer queries at a time; then the corpus
// in chunks that are prepared again for each batch; at last the smallest shape that works at all.
#include "pipeline/plan.hpp"

#include <algorithm>

#include "core/divide.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t ready_batch = std::int64_t{1}
                                     << 14;  // on a device as many queries at a time are as fast as more
constexpr std::int64_t block_bytes = std::int64_t{512} << 10;  // packed queries of a block stay in a core's L2
constexpr std::int64_t largest_block = 256;
// So many queries share one reading of the rows, and more where the caches of all cores hold but a part of these.
constexpr std::int64_t few_together = 16, few_far_together = 32, far_elements = std::int64_t{1} << 25;
constexpr std::int64_t stream_rows = 8192;  // a streamed chunk is at least this, if memory allows
constexpr std::int64_t most_match_bytes = std::int64_t{1} << 30;
constexpr std::int64_t largest_chunk = std::int64_t{1} << 30;  // rows; slots hold 32-bit row numbers

int choose_threads(int asked, SearchPlan& plan) {
  if (asked > most_threads) plan.notes.push_back(cat("threads=", asked, " capped at ", most_threads));
  return threads_for(asked);
}

class Fitter {
 public:
  Fitter(const SearchBackend& backend, const ProblemShape& problem, const Proposal& proposal, SearchPlan& plan)
      : backend_(backend), problem_(problem), proposal_(proposal), plan_(plan), budget_(plan.budget_bytes),
        lanes_(plan.multiples.queries), tile_(plan.multiples.rows),
        rows_(rounded_up(std::max<std::int64_t>(problem.corpus.rows, 1), tile_)) {}

  /// Fills the plan with the best shape that fits. Throws MemoryBudget when none does.
  void fit() {
    const std::int64_t queries = std::max<std::int64_t>(problem_.queries.rows, 1);
    const int threads = plan_.threads;
    plan_.minimum_bytes = INT64_MAX;
    for (const std::int64_t rows : least_chunks()) {
      shape(std::min(queries, lanes_), rows, 1, true);
      plan_.minimum_bytes = std::min(plan_.minimum_bytes, plan_.peak_bytes);
    }
    if (proposal_.symmetric_tiles > 0) {
      if (shape_symmetric(threads)) return;
      // Bytes take more slots; where floats alone would fit, their tiles serve both sides.
      std::vector<std::string> all = plan_.cascade;
      if (plan_.techniques.pilot) plan_.cascade.erase(plan_.cascade.begin());
      if (plan_.techniques.pilot && shape_symmetric(threads)) return void(plan_.techniques.pilot = false);
      plan_.cascade = std::move(all);
    }
    const std::int64_t several = std::min(queries, std::max<std::int64_t>(64, 4 * lanes_ * threads));
    if (arrive(queries, threads)) return;
    if (rows_ <= largest_chunk) {
      if (const std::int64_t ready =
              problem_.prepared ? proposal_.ready_bytes : std::min(proposal_.ready_bytes, proposal_.kept_bytes);
          ready < budget_ && take_whole(queries, std::max(several, std::min(queries, ready_batch)), threads, ready))
        return;
      if (take_whole(queries, several, threads, budget_)) return;
    }
    if (problem_.prepared) {
      for (std::int64_t batch = several; batch >= lanes_; batch /= 2)
        if (shape(batch, rows_, threads, false)) return;
    } else {
      for (std::int64_t rows = stream_rows; rows >= tile_; rows /= 4)
        if (stream(std::min(rows_, rounded_up(rows, tile_)), queries, threads)) return;
    }
    for (const std::int64_t rows : least_chunks())
      if (shape(std::min(queries, lanes_), rows, 1, true)) return;
    fail_budget(plan_, "lower k");
  }

 private:
  /// The chunks of which one takes the least memory: a tile of rows, or all of them where a tree of all writes answers
  /// as they are found.
  std::vector<std::int64_t> least_chunks() const {
    if (problem_.prepared) return {rows_};
    if (plan_.techniques.kd_tree && rows_ <= largest_chunk) return {tile_, rows_};
    return {tile_};
  }
  /// The corpus at once, and as many queries as fit; false when that is less than `least` of them.
  bool take_whole(std::int64_t queries, std::int64_t least, int threads, std::int64_t budget) {
    for (std::int64_t batch = queries; batch >= least; batch = batch == least ? 0 : std::max(least, batch / 2))
      if (shape(batch, rows_, threads, false) && plan_.peak_bytes <= budget) return true;
    return false;
  }

  /// All queries at a time, and rows in chunks that arrive while others are searched, or stay in caches until they have
  /// been: where the corpus is read once, that is sooner than at once.
  bool arrive(std::int64_t queries, int threads) {
    const std::int64_t rows = rounded_up(proposal_.arriving_rows, tile_);
    return rows > 0 && rows < rows_ && rows <= largest_chunk && shape(queries, rows, threads, false) &&
           plan_.peak_bytes <= proposal_.ready_bytes;
  }

  /// As many queries as chunks of `least` rows leave room for, then the largest chunk beside them.
  bool stream(std::int64_t least, std::int64_t queries, int threads) {
    std::int64_t batch = queries;
    while (batch >= lanes_ && !shape(batch, least, threads, false)) batch /= 2;
    if (batch < lanes_ && batch < queries) return false;
    std::int64_t chunk = least;
    while (chunk * 2 < std::min(rows_, largest_chunk) && shape(batch, chunk * 2, threads, false)) chunk *= 2;
    return shape(batch, chunk, threads, false);
  }

  /// Blocks against blocks, each pair once (src/cpu/filter/symmetric.cpp): needs everything in memory, and enough
  /// blocks that a round of pairs has work for every thread. False when it does not fit or would not pay.
  bool shape_symmetric(int threads) {
    if (rows_ > largest_chunk) return false;
    const std::int64_t tiles = rows_ / tile_;
    std::int64_t most = proposal_.symmetric_tiles;  // and few enough that rounds have pairs for every thread
    while (most > 1 && tiles / most < 8 * threads) --most;
    if (tiles / most < 2 * threads) return false;
    plan_.symmetric = true;
    plan_.symmetric_rows = most * tile_;
    if (shape(problem_.queries.rows, rows_, threads, false)) return true;
    plan_.symmetric = false;
    plan_.symmetric_rows = 0;
    return false;
  }

  /// Sets the plan to this shape; true when it fits the budget.
  bool shape(std::int64_t batch, std::int64_t chunk, int threads, bool least) {
    plan_.threads = threads;
    plan_.query_batch = batch;
    plan_.corpus_chunk = chunk;
    plan_.resident = chunk >= rows_;
    const bool proposed = plan_.cascade.size() == proposal_.cascade.size();
    const std::int64_t waiting = proposed ? proposal_.slots : proposal_.float_slots;
    plan_.candidate_slots = problem_.k + tile_slots + (least ? 64 : waiting);
    const std::int64_t most = std::clamp(block_bytes / (problem_.corpus.cols * 4) / lanes_ * lanes_, lanes_,
                                         rounded_up(largest_block, lanes_));
    // Blocks in a multiple of the threads, so that equal pieces end together.
    const std::int64_t rounds = divide_up(batch, most * threads);
    plan_.query_block = std::min(most, rounded_up(divide_up(batch, rounds * threads), lanes_));
    // Each block reads all rows: a few queries stay together, and threads share the rows.
    const std::int64_t few = rows_ > far_elements / problem_.corpus.cols ? few_far_together : few_together;
    if (batch > lanes_ && batch <= std::max(lanes_ + lanes_ / 2, few))
      plan_.query_block = std::min(most, rounded_up(batch, lanes_));
    const std::int64_t blocks = divide_up(batch, plan_.query_block);
    const std::int64_t tiles = divide_up(std::min(chunk, rows_), tile_);
    plan_.row_splits =
        plan_.symmetric || blocks >= threads ? 1 : std::clamp<std::int64_t>(divide_up(2 * threads, blocks), 1, tiles);
    const std::int64_t batches = (problem_.queries.rows + batch - 1) / std::max<std::int64_t>(batch, 1);
    plan_.passes = plan_.resident ? 1 : std::max<std::int64_t>(batches, 1);
    plan_.peak_bytes = backend_.bytes(plan_, problem_);
    return plan_.peak_bytes <= budget_;
  }

  static constexpr std::int64_t tile_slots = 32;  // one panel may arrive at once
  const SearchBackend& backend_;
  const ProblemShape& problem_;
  const Proposal& proposal_;
  SearchPlan& plan_;
  std::int64_t budget_, lanes_, tile_, rows_;
};

void check_filter(const std::string& filter) {
  if (filter == "auto" || names_transform(filter)) return;
  std::vector<std::string> known{"auto"};
  for (const PrecisionRow& precision : precision_rows) {
    if (filter == precision.name) return;
    known.emplace_back(precision.name);
  }
  for (const std::string_view transform : {rotated_filter, projected_filter}) known.emplace_back(transform);
  refuse_name("filter", filter, known);
}

/// A plan with what the backend proposes, as far as it does not depend on the budget.
SearchPlan start_plan(const Backend& backend, const ProblemShape& problem, const KnnOptions& options,
                      Proposal& proposal) {
  SearchPlan plan = open_plan(backend, options);
  if (problem.made != nullptr)
    plan.instruction_set = problem.made->instruction_set;  // rows are packed and measured by its kernels
  Execution run = options.run;
  run.instruction_set = plan.instruction_set;
  run = with_environment(std::move(run));
  check_filter(run.filter);
  proposal = backend.search().propose(problem, run, options.proof);
  plan.multiples = proposal.multiples;
  plan.cascade = proposal.cascade;
  plan.techniques = proposal.techniques;
  plan.techniques.second_level = false;  // until it fits
  plan.rotated = proposal.rotated;
  plan.projected = proposal.projected;
  plan.notes.insert(plan.notes.end(), proposal.notes.begin(), proposal.notes.end());
  plan.distance_type =
      resolve_distance_type(options.distance_type, options.metric, problem.corpus.dtype, problem.queries.dtype);
  return plan;
}

}  // namespace

std::int64_t budget_of(const Backend& backend, const KnnOptions& options) {
  return options.memory.host > 0 ? options.memory.host : backend.device().recent_free_bytes() / 10 * 9;
}

SearchPlan open_plan(const Backend& backend, const KnnOptions& options) {
  const DeviceBackend& device = backend.device();
  device.check_stream(options.stream);  // before what a capture does not survive
  const Execution run = with_environment(options.run);
  const Facts& facts = device.facts();
  SearchPlan plan;
  plan.device = facts.name;
  plan.instruction_set = run.instruction_set == "auto" ? facts.instruction_sets.front() : run.instruction_set;
  device.check_instruction_set(plan.instruction_set);
  plan.threads = choose_threads(run.threads, plan);
  plan.budget_bytes = budget_of(backend, options);
  return plan;
}

void fail_budget(const Plan& plan, const char* or_else) {
  fail(ErrorCode::memory_budget, cat("this search needs at least ", plan.minimum_bytes, " bytes (",
                                     bytes_text(plan.minimum_bytes), "), budget is ", plan.budget_bytes, " bytes (",
                                     bytes_text(plan.budget_bytes), "); raise memory, or ", or_else));
}

ProblemShape knn_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options, const SearchPlan* made) {
  return {.corpus = corpus,
          .queries = queries,
          .metric = options.metric,
          .k = std::min(options.k, corpus.rows),
          .prepared = made != nullptr,
          .made = made,
          .filtered = RowFilter::filters(options.eligible, corpus.rows, options.first_id),
          .filter_bytes = RowFilter::bytes(options.eligible, corpus.rows)};
}

ProblemShape graph_problem(const Shape& rows, const GraphOptions& options, const SearchPlan* made) {
  ProblemShape problem = knn_problem(rows, rows, options.search, made);
  problem.symmetric = options.symmetry;
  return problem;
}

ProblemShape range_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options,
                           const SearchPlan* made) {
  ProblemShape problem = knn_problem(corpus, queries, options, made);
  problem.k = 0;
  problem.range = true;
  return problem;
}

SearchPlan make_plan(const Backend& backend, const ProblemShape& problem, const KnnOptions& options) {
  const SearchBackend& search = backend.search();
  Proposal proposal;
  SearchPlan plan = start_plan(backend, problem, options, proposal);
  if (options.run.threads == 0) plan.threads = std::min(plan.threads, proposal.most_threads);
  Fitter(search, problem, proposal, plan).fit();
  if (proposal.techniques.second_level && !plan.symmetric && plan.cascade.size() == proposal.cascade.size()) {
    plan.techniques.second_level = true;
    const std::int64_t peak = search.bytes(plan, problem);
    plan.techniques.second_level = peak <= plan.budget_bytes;
    if (plan.techniques.second_level) plan.peak_bytes = peak;
  }
  if (problem.range) {
    plan.match_bytes = std::clamp<std::int64_t>((plan.budget_bytes - plan.peak_bytes) / 2, 0, most_match_bytes);
    plan.peak_bytes += plan.match_bytes;
  } else {
    plan.result_bytes =
        problem.queries.rows * options.k * static_cast<std::int64_t>(8 + distance_size(plan.distance_type));
  }
  plan.seconds = search.seconds(plan, problem);
  return plan;
}

SearchPlan make_corpus_plan(const Backend& backend, const Shape& corpus, const KnnOptions& options) {
  // A corpus that is prepared at all is prepared for the filter, however small it is.
  KnnOptions likely = options;
  likely.k = 1;
  ProblemShape problem = knn_problem(corpus, {1, corpus.cols, corpus.dtype}, likely);
  problem.prepared = true;
  Proposal proposal;
  SearchPlan plan = start_plan(backend, problem, likely, proposal);
  plan.corpus_chunk = std::max<std::int64_t>(corpus.rows, 1);
  plan.query_block = plan.multiples.queries;
  plan.query_batch = plan.query_block;
  plan.techniques.second_level = proposal.techniques.second_level;
  plan.peak_bytes = backend.search().prepared_bytes(problem, plan);
  if (plan.peak_bytes > plan.budget_bytes && plan.techniques.second_level) {
    plan.techniques.second_level = false;
    plan.peak_bytes = backend.search().prepared_bytes(problem, plan);
  }
  if (plan.peak_bytes > plan.budget_bytes && plan.techniques.pilot) {  // floats alone rather than nothing
    plan.cascade.erase(plan.cascade.begin());
    plan.techniques.pilot = false;
    plan.peak_bytes = backend.search().prepared_bytes(problem, plan);
  }
  plan.resident = plan.peak_bytes <= plan.budget_bytes && corpus.rows < largest_chunk;
  return plan;
}

}  // namespace vicinal
