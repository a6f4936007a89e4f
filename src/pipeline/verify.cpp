// VERIFY: another tool's ids, and distances if there are any, against the contract. Our own search is the truth; rows
// that differ are looked at one by one to tell a wrong answer from another choice among equals.
#include "vicinal/verify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_set>

#include "core/fpenv.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"
#include "core/parallel.hpp"
#include "core/row_filter.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/rows.hpp"
#include "pipeline/searches.hpp"

namespace vicinal {
namespace {

class RowJudge {
 public:
  RowJudge(const Points& corpus, const Points& queries, const Claim& claim, const VerifyOptions& options,
           const Neighbors& truth)
      : corpus_(corpus), queries_(queries), claim_(claim), options_(options), truth_(truth),
        filter_(options.search.eligible, corpus.rows, options.search.first_id, false) {}

  struct Judgment {
    std::optional<Verdict::Row> fault;
    bool near_tie = false;  // no fault, and yet other ids than the truth's
  };

  /// The judgment of a row; a fault comes with the first rank that shows it. A wrong distance weighs more than another
  /// order among equals, which some callers accept.
  Judgment judge(std::int64_t row, double& largest_difference) const {
    const std::int64_t* ids = claim_.ids + row * claim_.k;
    const double tolerance = options_.relative_tolerance;
    const auto differs = [&](std::int64_t i) { return ids[i] != truth_.id(row, i); };
    std::int64_t first = 0;
    while (first < claim_.k && !differs(first)) ++first;
    Judgment judgment;
    // The contract's distances of the claimed ids; those of the truth where all ids are its own.
    std::vector<double> own;
    if (first < claim_.k) {
      own = distances_of(row);
      for (std::int64_t i = 0; i < claim_.k; ++i) {
        const double mine = own[static_cast<std::size_t>(i)], ours = truth_.distance(row, i);
        if ((ids[i] == -1 && truth_.id(row, i) == -1) || within(mine, ours, tolerance)) continue;
        judgment.fault = Verdict::Row{row, Fault::wrong, i, mine, ours};
        return judgment;
      }
      // Distances that the tolerance calls equal have no order among themselves.
      if (tolerance > 0) judgment.near_tie = true;
      else
        judgment.fault = Verdict::Row{row, Fault::tie_order, first, own[static_cast<std::size_t>(first)],
                                      truth_.distance(row, first)};
    }
    if (claim_.distances == nullptr) return judgment;
    for (std::int64_t i = 0; i < claim_.k; ++i) {
      const double claimed = load_key(claim_.distances, claim_.type, false, row * claim_.k + i);
      const double ours = own.empty() || ids[i] == -1 ? truth_.distance(row, i) : own[static_cast<std::size_t>(i)];
      if (claimed == ours) continue;
      const double difference = relative(claimed, ours);
      if (std::isfinite(difference)) largest_difference = std::max(largest_difference, difference);
      if (difference <= tolerance) continue;
      judgment.fault = Verdict::Row{row, Fault::distance, i, claimed, ours};
      judgment.near_tie = false;
      return judgment;
    }
    return judgment;
  }

 private:
  static double relative(double value, double ours) {
    return std::fabs(value - ours) / std::max(std::fabs(ours), 1e-300);
  }
  static bool within(double value, double ours, double tolerance) {
    return value == ours || relative(value, ours) <= tolerance;
  }

  /// The contract's distance of each claimed id, NaN where it is no row that may answer or stands in the list before.
  /// The rows are ranked as a small corpus of their own, in binary64: a claimed row may be farther than any result can
  /// be.
  std::vector<double> distances_of(std::int64_t row) const {
    // Each id is read once: another thread may change them, and a row is looked up by what was checked.
    const std::vector<std::int64_t> ids(claim_.ids + row * claim_.k, claim_.ids + (row + 1) * claim_.k);
    std::vector<std::int64_t> ranks, chosen;  // of the claimed rows in the list, and their numbers
    std::unordered_set<std::int64_t> seen;
    for (std::int64_t i = 0; i < claim_.k; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      if (id < options_.search.first_id) continue;
      const std::int64_t local = id - options_.search.first_id;
      if (local >= corpus_.rows || !filter_.allows(row, local) || !seen.insert(id).second) continue;
      ranks.push_back(i);
      chosen.push_back(local);
    }
    std::vector<double> distances(static_cast<std::size_t>(claim_.k), std::numeric_limits<double>::quiet_NaN());
    if (ranks.empty()) return distances;
    std::vector<std::byte> rows;
    const Points claimed = gather_rows(corpus_, chosen, rows);
    KnnOptions one = options_.search;
    one.first_id = 0;
    one.pad = false;
    one.eligible = {};
    one.distance_type = truth_.type() == DistanceType::u32 ? DistanceType::u32 : DistanceType::f64;
    one.run = {.device = "cpu", .threads = 1, .instruction_set = "plain", .filter = "canonical"};
    one.progress = nullptr;
    const std::vector<double> found = distances_to(claimed, queries_.slice(row, 1), one);
    for (std::size_t i = 0; i < ranks.size(); ++i)  // rounded once, as a result of the truth's type is
      distances[static_cast<std::size_t>(ranks[i])] =
          truth_.type() == DistanceType::f32 ? static_cast<double>(static_cast<float>(found[i])) : found[i];
    return distances;
  }

  /// The distance of each row from the query; infinite where the metric leaves binary64.
  static std::vector<double> distances_to(const Points& rows, const Points& query, KnnOptions options) try {
    options.k = rows.rows;
    const Neighbors ranked = knn(rows, query, options);
    std::vector<double> distances(static_cast<std::size_t>(rows.rows));
    for (std::int64_t i = 0; i < ranked.k(); ++i)
      distances[static_cast<std::size_t>(ranked.id(0, i))] = ranked.distance(0, i);
    return distances;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::range_error) throw;
    if (rows.rows == 1) return {descending(options.metric) ? -HUGE_VAL : HUGE_VAL};
    std::vector<double> distances;
    for (std::int64_t i = 0; i < rows.rows; ++i)
      distances.push_back(distances_to(rows.slice(i, 1), query, options).front());
    return distances;
  }

  const Points& corpus_;
  const Points& queries_;
  const Claim& claim_;
  const VerifyOptions& options_;
  const Neighbors& truth_;
  RowFilter filter_;
};

std::int64_t common_ids(const std::int64_t* claimed, const Neighbors& truth, std::int64_t row) {
  std::unordered_set<std::int64_t> known;
  for (std::int64_t i = 0; i < truth.k(); ++i) known.insert(truth.id(row, i));
  std::int64_t common = 0;
  for (std::int64_t i = 0; i < truth.k(); ++i) common += static_cast<std::int64_t>(known.erase(claimed[i]));
  return common;
}

}  // namespace

Verdict verify(const Points& corpus, const Prepared& prepared, const Points& queries, const Claim& claim,
               const VerifyOptions& options) {
  if (claim.rows != queries.rows)
    fail(ErrorCode::invalid_argument,
         cat("the result has ", claim.rows, " rows, there are ", queries.rows, " queries"));
  if (!(options.relative_tolerance >= 0))
    fail(ErrorCode::invalid_argument, cat("relative tolerance must be >= 0, got ", options.relative_tolerance));
  if (claim.k < 1) fail(ErrorCode::invalid_argument, cat("the result has ", claim.k, " columns; it needs at least 1"));
  const Backend& backend = find_backend(options.search.run.device);
  check_host(backend, corpus, "corpus", "verify");
  check_host(backend, queries, "query", "verify");
  FpGuard guard;
  VerifyOptions with = options;
  with.search.k = claim.k;
  with.search.pad = true;
  if (claim.distances != nullptr && with.search.distance_type == DistanceType::automatic &&
      with.search.metric != Metric::hamming && claim.type != DistanceType::u32)
    with.search.distance_type = claim.type;
  Verdict verdict;
  verdict.truth = knn(corpus, prepared, queries, with.search);
  verdict.rows = claim.rows;
  const RowJudge judge(corpus, queries, claim, with, verdict.truth);
  std::int64_t common = 0;
  // Looking at faulty rows takes time too: the caller may still stop it. The search has reported its end already.
  const Progress& progress = with.search.progress;
  ThreadPool thread_pool(
      1, progress ? Progress([&](std::uint64_t, std::uint64_t total) { return progress(total, total); }) : Progress(),
      with.search.stop, static_cast<std::uint64_t>(claim.rows));
  for (std::int64_t row = 0; row < claim.rows; ++row) {
    thread_pool.poll(1);
    common += common_ids(claim.ids + row * claim.k, verdict.truth, row);
    const auto [fault, near_tie] = judge.judge(row, verdict.largest_relative_difference);
    if (!fault) {
      ++verdict.correct;
      verdict.near_ties += static_cast<std::int64_t>(near_tie);
      continue;
    }
    ++(fault->fault == Fault::wrong       ? verdict.wrong
       : fault->fault == Fault::tie_order ? verdict.tie_order
                                          : verdict.distance);
    verdict.faults.push_back(*fault);
  }
  if (claim.rows > 0) verdict.recall = static_cast<double>(common) / static_cast<double>(claim.rows * claim.k);
  return verdict;
}

Verdict verify(const Points& corpus, const Points& queries, const Claim& claim, const VerifyOptions& options) {
  return verify(corpus, Prepared(), queries, claim, options);
}

}  // namespace vicinal
