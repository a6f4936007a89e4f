// See propose.hpp. No answer depends on anything here.
#include "cpu/propose/propose.hpp"

#include <algorithm>
#include <cmath>

#include "core/bound.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "cpu/bits/panels.hpp"
#include "cpu/filter/refine.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/kd_tree/kd_tree.hpp"
#include "cpu/prepare/precision.hpp"
#include "cpu/propose/costs.hpp"
#include "cpu/propose/pilot.hpp"
#include "prepare/load.hpp"
#include "prepare/project.hpp"

namespace vicinal::cpu {
namespace {

constexpr double candidate_cycles = 12;
constexpr double int8_prepare = 2,
                 int8_spread = 2.5;  // of what floats take: passes over the rows; rows that bytes cannot tell apart
constexpr std::int64_t least_int8_dims = 16;     // below, the test costs more than the product
constexpr std::int64_t least_second_dims = 256;  // below, a canonical distance costs little more than a second code
constexpr std::int64_t likely_matches = 1024;    // of a query in a range search, whose result is not known before
constexpr std::int64_t second_gain =
    4;  // answers that must be asked for, a row, before its second code pays in one call

constexpr double tree_cycles_per_row = 20, tree_cycles_per_query = 3000,
                 tree_cycles_per_neighbor = 200;  // where boxes tell rows apart
constexpr std::int64_t least_tree_rows = 1024, least_tree_queries = 512;

constexpr double lone_seconds = 1e-4;  // searches this short are one thread's: others would take as long to wake

// Each core packs and filters so many bytes of a chunk, or checks and ranks so many. Emerald Rapids (2 MiB a core), 400,000
// x 128, one and two threads, 2026-11: of 20 queries chunks of 4 to 16 MiB take .6 to .75 of the time of all rows at once,
// of one query chunks of .25 to 2 MiB .65 to .8.
constexpr std::int64_t packed_chunk_bytes = std::int64_t{4} << 20, read_chunk_bytes = std::int64_t{1} << 19;
// Rows of fewer bytes for each core are not cut: threads meet at the end of each chunk, and that takes as long as reading
// so little once more (13 MB on each of 16 cores: 1.1 of the time).
constexpr std::int64_t least_read_bytes = std::int64_t{1} << 25;
constexpr std::int64_t least_chunk_neighbors = 64;  // rows of a chunk for each that is looked for, as it ranks so many
constexpr std::int64_t most_chunk_queries = 256;    // more take so long that preparing counts for little

constexpr std::int64_t pair_bytes = std::int64_t{3} << 20;  // packed rows of one of two blocks that meet
constexpr std::int64_t most_symmetric_tiles = 8;
constexpr std::int64_t least_symmetric_dims = 16;  // below, testing both sides costs what the product saves

struct Costs {
  double canonical, filter, bytes, tree;
};
Left likely_left(double k) { return {int8_spread * 1.3 * k, 1.3 * k}; }

// Where bytes are multiplied in less than a third of the time of floats, what is left takes the time.
constexpr double predicted_gain = 3;
constexpr double gain_of_few = 2;          // of the tiles that serve few queries
constexpr double queries_a_reading = 256;  // rows come from memory once for so many

/// projected: columns of the filter's rows in bytes; 0: all.
Costs costs_of(const ProblemShape& problem, const InstructionSet& set, bool symmetric = false,
               const Left* sampled = nullptr, std::int64_t projected = 0) {
  const double n = static_cast<double>(problem.corpus.rows), d = static_cast<double>(problem.corpus.cols);
  const double q = static_cast<double>(problem.queries.rows),
               k = static_cast<double>(std::max<std::int64_t>(problem.k, 1));
  const Left left = sampled != nullptr ? *sampled : likely_left(k);
  const auto candidates = [&](double most) {
    return most * (2 + std::log2(std::max(n / most, 1.0))) * candidate_cycles;
  };
  const double floats = candidates(sampled != nullptr ? std::max(k, left.floats) : k);
  const double bytes = sampled != nullptr ? candidates(std::max(k, left.bytes)) : int8_spread * floats;
  const double prepare = problem.prepared ? 0 : n * costs::reading(d);
  // Products, or reading rows that are kept, whichever takes longer; in one call they have just been prepared.
  const auto filtering = [&](double pair, double columns, double element_bytes) {
    const double bytes = n * columns * element_bytes;
    const double read =
        problem.prepared && bytes > costs::held_bytes ? bytes * std::ceil(q / queries_a_reading) * costs::read_byte : 0;
    return std::max(q * n * pair / (symmetric ? 2 : 1), read / set.slowness);
  };
  const double columns = projected > 0 ? static_cast<double>(projected) : d;
  const double float_pairs = filtering(costs::float_pair(d), d, 4);
  const bool few = problem.queries.rows <= few_int8_queries && set.int8.of_few != nullptr;
  const double gain = std::min(few ? std::max(set.int8_gain, gain_of_few) : set.int8_gain, predicted_gain);
  const double int8_pairs = filtering(costs::int8_pair(columns, gain), columns, 1);
  return {q * n * costs::canonical_pair(d), prepare + float_pairs + q * (floats + left.floats * costs::reranked_row(d)),
          int8_prepare * prepare + int8_pairs + q * (bytes + left.bytes * costs::reranked_row(d)),
          (problem.prepared ? 0 : n * tree_cycles_per_row * std::log2(n + 1)) +
              q * (tree_cycles_per_query + k * tree_cycles_per_neighbor)};
}

/// It predicts the cycles of the precision that a search begins with, on one core.
double cycles(const ProblemShape& problem, const SearchPlan& plan, const Left* sampled) {
  const InstructionSet& set = find_instruction_set(plan.instruction_set);
  const Costs cost = costs_of(problem, set, plan.symmetric, sampled, plan.projected);
  if (plan.techniques.kd_tree) return cost.tree;
  if (plan.techniques.bit_counts) {
    const double n = static_cast<double>(problem.corpus.rows), d = static_cast<double>(problem.corpus.cols);
    const bool packed = problem.made != nullptr && problem.made->techniques.bit_counts;
    return n * ((packed ? 0 : costs::packed_bits(d)) + static_cast<double>(problem.queries.rows) * costs::bit_pair(d));
  }
  switch (precision_of(plan.cascade.front())) {
    case Precision::int8: return cost.bytes * static_cast<double>(plan.passes);
    case Precision::f32: return cost.filter * static_cast<double>(plan.passes);
    case Precision::fp16:
    case Precision::canonical: break;
  }
  return cost.canonical;
}

/// int8 can estimate products alone, and their sums must fit 32 bits.
bool takes_bytes(const ProblemShape& problem) {
  return has_products(filter_sum_of(problem.metric)) && problem.corpus.cols <= most_int8_dims;
}

/// It throws Unsupported for a filter by name that only other devices have.
void check_host_filter(const std::string& filter) {
  for (const PrecisionRow& row : precision_rows) {
    if (filter != row.name || find_host_precision(row.precision) != nullptr) continue;
    std::vector<std::string> here{"auto"};
    for (const HostPrecision& one : host_precisions) here.push_back(precision_name(one.precision));
    fail(ErrorCode::unsupported, cat("filter ", filter, " does not run on cpu; filters there: ", joined(here)));
  }
}

/// The precision that a search begins with. Those of the host that are finer follow it.
Precision first_precision(const ProblemShape& problem, const Execution& run, Proof proof, const InstructionSet& set) {
  if (ranks_every_pair(problem, run, proof)) return Precision::canonical;
  const bool any = run.filter == "auto";
  check_host_filter(run.filter);
  const Costs cost = costs_of(problem, set);
  const bool pays = cost.filter < cost.canonical && problem.k * 3 < std::max<std::int64_t>(problem.corpus.rows, 1);
  if (any && !pays && !problem.prepared) return Precision::canonical;  // what is kept is packed already
  const bool waiting = problem.prepared && problem.queries.rows <= most_byte_queries(problem.corpus, set.slowness);
  const bool narrow = (set.int8_gain > 1 || waiting) && problem.corpus.cols >= least_int8_dims;
  // Where bytes are no faster than floats, fewer of them may be.
  const double served = problem.prepared ? infinite : static_cast<double>(problem.queries.rows);
  const bool fewer = may_project(problem.corpus, problem.metric, served, set.int8_gain);
  const Costs paired = problem.symmetric ? costs_of(problem, set, true) : cost;
  const Precision asked = precision_of(run.filter);
  const bool coded = any ? fewer || (narrow && (problem.prepared || paired.bytes < paired.filter)) : !in_floats(asked);
  if (!coded || !takes_bytes(problem)) return Precision::f32;
  return in_codes(asked) ? asked : Precision::int8;
}

/// A second code takes a pass over all rows, and saves most of the canonical distances of some k rows a query. Bytes
/// that are forced by name have it in few columns too, which is for tests.
bool takes_second(const ProblemShape& problem, const Execution& run) {
  const bool many = problem.corpus.cols >= least_second_dims || run.filter != "auto";
  return many && (problem.prepared || problem.queries.rows * (problem.range ? likely_matches : problem.k) >=
                                          second_gain * problem.corpus.rows);
}

/// A tree costs as much as comparing the rows with some hundreds of queries. Ranked at once, they need no filter. A
/// prepared corpus has a tree or has none, whatever this search would have chosen.
bool takes_tree(const ProblemShape& problem, const Execution& run, Proof proof) {
  if (problem.made != nullptr && !problem.made->techniques.kd_tree) return false;
  return run.filter == "auto" && proof != Proof::exhaustive && problem.corpus.cols <= most_kd_tree_dims &&
         problem.corpus.rows >= least_tree_rows && (problem.prepared || problem.queries.rows >= least_tree_queries) &&
         row_of(problem.metric).filter == FilterRows::plain && sum_of(problem.metric) != Sum::products;
}

/// Counts of bits are canonical values, and every pair's is
/// computed; ranked one by one where that is asked for by name.
bool takes_bit_counts(const ProblemShape& problem, const Execution& run, Proof proof) {
  return run.filter != precision_name(Precision::canonical) && proof != Proof::exhaustive &&
         sum_of(problem.metric) == Sum::bits && problem.corpus.cols <= most_counted_bytes;
}

/// It returns how many rows one call prepares and searches at a time, so that caches hold them: written to memory and
/// read again they take longer, and new memory is cleared first. packed: as floats; else read twice. 0: all rows. Bytes, which
/// guess thresholds from the share of all rows that they have met, are not cut; nor are rows of a product, which may leave
/// f64 before a later row is seen to be no number, and that is to be said first.
std::int64_t cached_rows(const ProblemShape& problem, bool packed, int threads) {
  const Shape& corpus = problem.corpus;
  const bool may_fail = sum_of(problem.metric) == Sum::products && !needs_norms(problem.metric);
  if (problem.prepared || problem.symmetric || may_fail || (!packed && holds_bytes(corpus.dtype)) ||
      problem.queries.rows > most_chunk_queries)
    return 0;
  const auto element = packed ? std::int64_t{4} : static_cast<std::int64_t>(dtype_size(corpus.dtype));
  const std::int64_t row = std::max<std::int64_t>(corpus.cols * element, 1);
  if (!packed && corpus.rows / threads * row < least_read_bytes) return 0;
  const std::int64_t bytes = packed ? packed_chunk_bytes * (threads + 1) : read_chunk_bytes * threads;
  const std::int64_t rows = std::max(bytes / row, least_chunk_neighbors * problem.k);
  return 2 * rows <= corpus.rows ? rows : 0;
}

/// Blocks are large, so that a block's queries are fetched seldom.
std::int64_t symmetric_tiles(const ProblemShape& problem) {
  if (!problem.symmetric || problem.corpus.cols < least_symmetric_dims) return 0;
  return std::clamp<std::int64_t>(pair_bytes / (problem.corpus.cols * 4) / tile_rows, 1, most_symmetric_tiles);
}

}  // namespace

Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) {
  const InstructionSet& set = find_instruction_set(run.instruction_set);
  Proposal proposal;
  proposal.multiples = {.queries = set.floats.query_lanes, .rows = tile_rows};
  const Precision first = first_precision(problem, run, proof, set);
  proposal.techniques.kd_tree = takes_tree(problem, run, proof);
  proposal.techniques.bit_counts = takes_bit_counts(problem, run, proof);
  proposal.cascade.reserve(std::size(host_precisions));
  for (const HostPrecision& one : host_precisions) {
    const bool filtered = !proposal.techniques.kd_tree && problem.has_rows_of(one.precision);
    if (one.precision >= first && (filtered || !has_filter(one.precision)))
      proposal.cascade.push_back(precision_name(one.precision));
  }
  const bool int8 = in_codes(precision_of(proposal.cascade.front())), filters = proposal.cascade.size() > 1;
  proposal.techniques.pilot = int8 && run.filter == "auto" && proposal.cascade.size() > 2;
  proposal.rotated = int8 && run.filter == rotated_filter;
  if (int8 && run.filter == projected_filter) proposal.projected = projected_columns(problem.corpus);
  proposal.techniques.second_level = int8 && takes_second(problem, run);
  proposal.symmetric_tiles = filters ? symmetric_tiles(problem) : 0;
  proposal.set_slots(problem, int8);
  if (!int8 && !proposal.techniques.kd_tree && !proposal.techniques.bit_counts)
    proposal.arriving_rows = cached_rows(problem, filters, threads_for(run.threads));
  SearchPlan alone;
  alone.instruction_set = run.instruction_set;
  alone.cascade = proposal.cascade;
  alone.techniques = proposal.techniques;
  if (predicted_seconds(alone, problem) < lone_seconds) proposal.most_threads = 1;
  return proposal;
}

double predicted_seconds(const SearchPlan& plan, const ProblemShape& problem, const Left* sampled) {
  return cycles(problem, plan, sampled) / costs::clock_hz / plan.threads *
         find_instruction_set(plan.instruction_set).slowness;
}

/// Where the sample says that neither int8 nor floats exclude
/// enough, every pair will be ranked, and the time is that of both.
void sample_rows(SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec) {
  const Precision first = precision_of(plan.cascade.front());
  const Sum sum = filter_sum_of(spec.metric);
  if (plan.techniques.kd_tree || !has_filter(first) || (sum != Sum::squares && sum != Sum::products)) return;
  ThreadPool thread_pool(1, nullptr, {}, 0);
  const InstructionSet& set = find_instruction_set(plan.instruction_set);
  Transform transform = choose_transform(set.floats, spec, first, thread_pool);
  const Outlook outlook = look({set.floats, spec, plan.techniques.second_level, static_cast<double>(plan.query_batch),
                                set.int8_gain, set.slowness, in_codes(first) && plan.techniques.pilot},
                               transform, thread_pool);
  if (outlook.sampled == 0 && outlook.int8_pays) return;
  const bool bytes = in_codes(first) && (outlook.int8_pays || !plan.techniques.pilot);
  if (in_codes(first) && !bytes) {
    plan.cascade.erase(plan.cascade.begin());
    plan.techniques.second_level = false;
  }
  plan.rotated |= plan.techniques.pilot && bytes && outlook.rotated;
  if (plan.techniques.pilot && bytes) plan.projected = outlook.projected;
  plan.techniques.pilot = false;
  if (outlook.sampled == 0) return void(plan.seconds = predicted_seconds(plan, problem));
  const double n = static_cast<double>(spec.corpus.rows);
  Left left{outlook.left_int8, outlook.left_f32};
  plan.sampled_rows = outlook.sampled;
  plan.left_rows = static_cast<std::int64_t>(std::min(n, bytes ? left.bytes : left.floats));
  if (plan.techniques.second_level) left.bytes = left.bytes / static_cast<double>(refinements_a_rank) + left.floats;
  plan.seconds = predicted_seconds(plan, problem, &left);
  if (bytes || left.floats * costs::least_excluded <= n) return;
  SearchPlan all = plan;
  all.cascade = {plan.cascade.back()};
  plan.seconds += predicted_seconds(all, problem);
}

}  // namespace vicinal::cpu
