// VERIFY: somebody's ids, and distances if there are any, against the contract. Our own search is the truth; rows that
// differ are looked at one by one to tell a wrong answer from another choice among equals.
#include "vicinal/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "core/fpenv.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"
#include "core/parallel.hpp"
#include "core/row_filter.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

class RowJudge {
 public:
  RowJudge(const Points& corpus, const Points& queries, const Claim& claim, const VerifyOptions& options, const Neighbors& truth)
      : corpus_(corpus), queries_(queries), claim_(claim), options_(options), truth_(truth),
        filter_(options.search.eligible, corpus.rows, options.search.first_id, false) {}

  /// The fault of a row and the first rank that shows it; nothing when it is right. A wrong distance weighs more than
  /// another order among equals, which some callers accept.
  std::optional<Verdict::Row> judge(std::int64_t row, double& largest_difference) const {
    const std::int64_t* ids = claim_.ids + row * claim_.k;
    std::optional<Verdict::Row> fault;
    for (std::int64_t i = 0; i < claim_.k && !fault; ++i)
      if (ids[i] != truth_.id(row, i)) fault = Verdict::Row{row, same_distances(row) ? Fault::tie_order : Fault::wrong, i};
    if (claim_.distances == nullptr || (fault && fault->fault == Fault::wrong)) return fault;
    for (std::int64_t i = 0; i < claim_.k; ++i) {
      const double claimed = load_key(claim_.distances, claim_.type, false, row * claim_.k + i), ours = truth_.distance(row, i);
      if (claimed == ours) continue;
      const double difference = std::fabs(claimed - ours) / std::max(std::fabs(ours), 1e-300);
      if (std::isfinite(difference)) largest_difference = std::max(largest_difference, difference);
      if (!(difference <= options_.relative_tolerance)) return Verdict::Row{row, Fault::distance, i};
    }
    return fault;
  }

 private:
  /// The claimed ids, in their order, have exactly the true distances: ranks them as a small corpus of their own.
  bool same_distances(std::int64_t row) const {
    const std::int64_t* ids = claim_.ids + row * claim_.k;
    const auto size = static_cast<std::int64_t>(dtype_size(corpus_.dtype));
    std::vector<std::byte> rows(static_cast<std::size_t>(claim_.k * corpus_.cols * size));
    std::unordered_set<std::int64_t> seen;
    std::int64_t used = 0;
    for (std::int64_t i = 0; i < claim_.k; ++i) {
      const bool missing = ids[i] == -1 && truth_.id(row, i) == -1;
      if (missing) continue;
      if (ids[i] < options_.search.first_id) return false;
      const std::int64_t local = ids[i] - options_.search.first_id;
      if (local >= corpus_.rows || !filter_.allows(row, local) || truth_.id(row, i) == -1 || !seen.insert(ids[i]).second) return false;
      for (std::int64_t c = 0; c < corpus_.cols; ++c)
        std::memcpy(rows.data() + (used * corpus_.cols + c) * size,
                    static_cast<const std::byte*>(corpus_.data) + local * corpus_.row_stride + c * corpus_.col_stride,
                    static_cast<std::size_t>(size));
      ++used;
    }
    Points claimed(rows.data(), corpus_.dtype, used, corpus_.cols);
    claimed.byte_swapped = corpus_.byte_swapped;
    KnnOptions one = options_.search;
    one.k = used;
    one.first_id = 0;
    one.pad = false;
    one.eligible = {};
    one.distance_type = truth_.type();
    one.run.threads = 1;
    one.progress = nullptr;
    if (used == 0) return true;
    const Neighbors ranked = knn(claimed, queries_.slice(row, 1), one);
    for (std::int64_t i = 0; i < used; ++i)
      if (ranked.distance(0, i) != truth_.distance(row, ranked.id(0, i))) return false;
    return true;
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

Verdict verify(const Points& corpus, const Points& queries, const Claim& claim, const VerifyOptions& options) {
  if (claim.rows != queries.rows)
    fail(ErrorCode::invalid_argument, cat("the result has ", claim.rows, " rows, there are ", queries.rows, " queries"));
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
  if (claim.distances != nullptr && with.search.distance_type == DistanceType::automatic && with.search.metric != Metric::hamming &&
      claim.type != DistanceType::u32)
    with.search.distance_type = claim.type;
  Verdict verdict;
  verdict.truth = knn(corpus, queries, with.search);
  verdict.rows = claim.rows;
  const RowJudge judge(corpus, queries, claim, with, verdict.truth);
  std::int64_t common = 0;
  // Looking at faulty rows takes time too: the caller may still stop it. The search has reported its end already.
  const Progress& progress = with.search.progress;
  Team team(1, progress ? Progress([&](std::uint64_t, std::uint64_t total) { return progress(total, total); }) : Progress(),
            with.search.stop, static_cast<std::uint64_t>(claim.rows));
  for (std::int64_t row = 0; row < claim.rows; ++row) {
    team.tick(1);
    common += common_ids(claim.ids + row * claim.k, verdict.truth, row);
    const auto fault = judge.judge(row, verdict.largest_relative_difference);
    if (!fault) {
      ++verdict.correct;
      continue;
    }
    ++(fault->fault == Fault::wrong ? verdict.wrong : fault->fault == Fault::tie_order ? verdict.tie_order : verdict.distance);
    verdict.faults.push_back(*fault);
  }
  if (claim.rows > 0) verdict.recall = static_cast<double>(common) / static_cast<double>(claim.rows * claim.k);
  return verdict;
}

}  // namespace vicinal
