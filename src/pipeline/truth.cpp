// TRUTH: k-lists of a base in several matrices, as one walk over all of them: a running list at row n is the truth of
// the first n rows.
#include "pipeline/truth.hpp"

#include <algorithm>
#include <cstring>

#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/rows.hpp"
#include "pipeline/saved_lists.hpp"

namespace vicinal {
namespace {

constexpr const char* what = "ground truth";

void check_base(const Backend& backend, const RowParts& base, const Points& queries, const KnnOptions& options) {
  for (const Points& part : base.parts()) {
    check_view(part, "base");
    check_host(backend, part, "base", what);
  }
  check_view(queries, "query");
  check_host(backend, queries, "query", what);
  check_shapes(base.shape(), shape_of(queries), options.metric);
  check_reach(backend, options.eligible);
  check_options(base.shape(), shape_of(queries), options);
}

/// One walk over the base: lists of every tier of every block of queries.
class TruthWalk {
 public:
  TruthWalk(const RowParts& base, const Points& queries, const TruthOptions& options, const Grid& grid,
            const std::vector<std::int64_t>& cuts, const Plan& plan)
      : base_(base), options_(options), search_(options.search), cuts_(cuts), type_(plan.distance_type),
        saved_every_(grid.saved_every), thread_pool_(plan.threads, nullptr, options.search.stop, 1),
        walk_(cat("ground truth, k=", options.search.k), base, queries, options.search, plan, options.directory, grid,
              key(queries, grid)) {}

  void run(GroundTruth& truth) {
    for (std::int64_t number = 0; number < walk_.blocks(); ++number) {
      const Points& block = walk_.block(number);
      digests_.restart();
      Lists lists = load(truth);
      while (lists.rows_done < base_.rows()) {
        extend_lists(walk_, search_, lists);
        save(lists, truth);
      }
      if (base_.rows() == 0) {
        lists.list = knn(base_.parts().front(), block, search_);
        take(lists.list, truth.tiers.back());
      }
      walk_.redone(lists.redone);
    }
  }
  Walk& walk() noexcept { return walk_; }

 private:
  /// The key is of all that the answer depends on but the values of the base, whose digest is saved with the lists: so
  /// no run reads the base twice but for what it goes on from.
  io::Digest128 key(const Points& queries, const Grid& grid) {
    if (options_.directory.empty()) return {};
    std::vector<std::int64_t> words{3, search_.k, static_cast<std::int64_t>(type_), grid.block};
    for (const Points& part : base_.parts()) words.push_back(part.rows);
    words.insert(words.end(), cuts_.begin(), cuts_.end());
    return piece_key(base_.parts().front().slice(0, 0), queries, search_, words, thread_pool_);
  }

  void take(const Neighbors& list, Tier& tier) {
    copy_entries(list, 0, list.rows() * search_.k, tier.nearest.view(), walk_.first_query() * search_.k);
  }

  /// The block's lists and those of the tiers that they have passed, where all of them were saved and are of these
  /// rows.
  Lists load(GroundTruth& truth) {
    if (!walk_.folder) return {};
    ListFile file = ListFile::of(walk_);
    Lists lists = load_lists(walk_, search_.k, type_, base_.rows(), file);
    if (lists.rows_done == 0) return lists;
    if (digests_.of(base_, lists.rows_done, thread_pool_) != file.rows_digest)
      fail(ErrorCode::invalid_argument,
           cat(file.path,
               " belongs to other rows: the base has changed since; name another directory, or remove this one"));
    for (std::size_t i = 0; i < cuts_.size() && cuts_[i] <= lists.rows_done; ++i) {
      ListFile tier_file = ListFile::of(walk_, cuts_[i]);
      const Lists tier = load_lists(walk_, search_.k, type_, base_.rows(), tier_file);
      if (tier.rows_done != cuts_[i] || digests_.of(base_, cuts_[i], thread_pool_) != tier_file.rows_digest) {
        digests_.restart();
        return {};
      }
      take(tier.list, truth.tiers[i]);
    }
    walk_.resumed(lists.rows_done);
    return lists;
  }

  /// A tier is saved before the lists that have passed it.
  void save(const Lists& lists, GroundTruth& truth) {
    const auto cut = std::find(cuts_.begin(), cuts_.end(), lists.rows_done);
    if (cut != cuts_.end()) take(lists.list, truth.tiers[static_cast<std::size_t>(cut - cuts_.begin())]);
    const double now = now_seconds();
    if (!walk_.folder || (cut == cuts_.end() && now - saved_at_ < saved_every_)) return;
    saved_at_ = now;
    ListFile file = ListFile::of(walk_);
    file.rows_digest = digests_.of(base_, lists.rows_done, thread_pool_);
    if (cut != cuts_.end()) {
      ListFile tier_file = ListFile::of(walk_, *cut);
      tier_file.rows_digest = file.rows_digest;
      save_lists(walk_, lists, tier_file);
    }
    save_lists(walk_, lists, file);
  }

  const RowParts& base_;
  const TruthOptions& options_;
  const KnnOptions& search_;
  const std::vector<std::int64_t>& cuts_;  // rows of the tiers
  DistanceType type_;
  double saved_every_, saved_at_ = 0;  // seconds
  ThreadPool thread_pool_;             // of the digests
  RowDigests digests_;
  Walk walk_;
};

/// Labels and masks of the whole base are those of the last tier too, beyond which no row is looked at.
TruthOptions up_to_last_tier(TruthOptions options, std::span<const Points> base, std::int64_t rows) {
  std::int64_t all = 0;
  for (const Points& part : base) all += part.rows;
  Eligible& eligible = options.search.eligible;
  if (eligible.bitmap_rows == all) eligible.bitmap_rows = rows;
  if (std::ssize(eligible.corpus_labels) == all)
    eligible.corpus_labels = eligible.corpus_labels.first(static_cast<std::size_t>(rows));
  return options;
}

}  // namespace

GroundTruth lists_in_pieces(std::span<const Points> base, const Points& queries, const TruthOptions& asked,
                            const Grid& grid) {
  const double start = now_seconds();
  const RowParts parts(base, asked.tiers, asked.names);
  const TruthOptions options = up_to_last_tier(asked, base, parts.rows());
  const KnnOptions& search = options.search;
  check_base(find_backend(search.run.device), parts, queries, search);
  const Plan whole = plan(parts.shape(), shape_of(queries), search);
  const std::vector<std::int64_t> cuts =
      options.tiers.empty() ? std::vector<std::int64_t>{parts.rows()} : options.tiers;
  GroundTruth truth;
  std::vector<std::uint64_t> words;
  for (const std::int64_t rows : cuts) {
    const KnnOptions prefix = piece_options(search, 0, rows, 0, queries.rows, words);
    const RowFilter filter(prefix.eligible, rows, search.first_id, false);
    if (search.k > rows && !search.pad)
      fail(ErrorCode::invalid_argument, cat("k=", search.k, " exceeds the n=", rows, " rows of a tier (use pad)"));
    check_k(filter, rows, queries.rows, search.k, search.pad);
    truth.tiers.push_back({rows, Neighbors(queries.rows, search.k, whole.distance_type, search.pad)});
  }
  TruthWalk walk(parts, queries, options, grid, cuts, whole);
  walk.run(truth);
  walk.walk().close(truth.certificate, truth.stats, start);
  return truth;
}

GroundTruth truth_in_pieces(std::span<const Points> base, const Points& queries, const TruthOptions& options,
                            const Grid& grid) {
  GroundTruth truth = lists_in_pieces(base, queries, options, grid);
  const KnnOptions& search = options.search;
  std::vector<std::uint64_t> words;
  for (const Tier& tier : truth.tiers) {
    const KnnOptions prefix = piece_options(search, 0, tier.rows, 0, queries.rows, words);
    complete_lists(tier.nearest.view(), RowFilter(prefix.eligible, tier.rows, search.first_id, false), tier.rows,
                   search.metric, threads_for(search.run.threads));
  }
  return truth;
}

Grid truth_grid(const Shape& base, const Shape& queries, const TruthOptions& options) {
  constexpr std::int64_t all = std::int64_t{1} << 40;
  if (!options.directory.empty()) {
    Grid grid = Grid::of(base, queries, options.search.k);
    grid.saved_every = Pace::target / 2;  // files of a base may be many, and the disk slow
    return grid;
  }
  return {std::max<std::int64_t>(queries.rows, 1), all, all, [] { return 0.0; }};
}

Progress part_of_progress(const Progress& progress, std::uint64_t before, std::uint64_t all) {
  if (!progress) return nullptr;
  return [progress, before, all](std::uint64_t done, std::uint64_t) { return progress(before + done, all); };
}

std::vector<std::int64_t> sampled_queries(std::int64_t queries, std::int64_t wanted) {
  const std::int64_t count = std::min(queries, wanted);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) chosen.push_back((2 * i + 1) * queries / (2 * count));
  return chosen;
}

void verify_sample(GroundTruth& truth, std::span<const Points> base, const Points& queries,
                   const TruthOptions& options) {
  truth.verified = sampled_queries(queries.rows, options.verified_queries);
  if (truth.verified.empty()) return;
  std::vector<std::byte> rows;
  const Points sample = gather_rows(queries, truth.verified, rows);
  TruthOptions oracle = options;
  oracle.directory.clear();
  oracle.search.proof = Proof::exhaustive;
  std::vector<std::int64_t> labels;
  for (const std::int64_t query : truth.verified)
    if (!options.search.eligible.query_labels.empty())
      labels.push_back(options.search.eligible.query_labels[static_cast<std::size_t>(query)]);
  oracle.search.eligible.query_labels = labels;
  const GroundTruth expected =
      truth_in_pieces(base, sample, oracle, truth_grid(shape_of(base.front()), shape_of(sample), oracle));
  for (std::size_t i = 0; i < truth.tiers.size(); ++i) {
    const Neighbors &found = truth.tiers[i].nearest, &right = expected.tiers[i].nearest;
    const std::int64_t k = found.k();
    const auto bytes = static_cast<std::size_t>(k) * distance_size(found.type());
    for (std::size_t s = 0; s < truth.verified.size(); ++s) {
      const std::int64_t query = truth.verified[s], at = static_cast<std::int64_t>(s);
      const auto* distances = static_cast<const std::byte*>(found.distances());
      const auto* wanted = static_cast<const std::byte*>(right.distances());
      if (std::memcmp(found.ids() + query * k, right.ids() + at * k, static_cast<std::size_t>(k) * 8) == 0 &&
          std::memcmp(distances + static_cast<std::size_t>(query) * bytes, wanted + s * bytes, bytes) == 0)
        continue;
      fail(ErrorCode::internal, cat("query ", query, ", tier of ", truth.tiers[i].rows,
                                    " rows: ranking every row gives another list; where no array changed during the "
                                    "call and older lists were exact, please report it"));
    }
  }
}

GroundTruth ground_truth(std::span<const Points> base, const Points& queries, const TruthOptions& options) {
  if (options.verified_queries < 0)
    fail(ErrorCode::invalid_argument, cat("verified_queries must be >= 0, got ", options.verified_queries));
  const double start = now_seconds();
  const Shape shape = RowParts(base, options.tiers, options.names).shape();
  const auto pairs = static_cast<std::uint64_t>(shape.rows) * static_cast<std::uint64_t>(queries.rows);
  const auto sample = static_cast<std::uint64_t>(shape.rows) *
                      static_cast<std::uint64_t>(std::min(queries.rows, options.verified_queries));
  TruthOptions search = options;
  search.search.progress = part_of_progress(options.search.progress, 0, pairs + sample);
  GroundTruth truth = truth_in_pieces(base, queries, search, truth_grid(shape, shape_of(queries), options));
  search.search.progress = part_of_progress(options.search.progress, pairs, pairs + sample);
  verify_sample(truth, base, queries, search);
  truth.stats.seconds = now_seconds() - start;
  return truth;
}

Neighbors first_neighbors(const Neighbors& lists, std::int64_t k) {
  if (k < 1 || k > lists.k())
    fail(ErrorCode::invalid_argument, cat("k must be 1 to ", lists.k(), ", the width of the lists, got ", k));
  Neighbors first(lists.rows(), k, lists.type(), lists.counts() != nullptr);
  const NeighborsView out = first.view();
  for (std::int64_t row = 0; row < lists.rows(); ++row) {
    copy_entries(lists, row * lists.k(), k, out, row * k);
    if (out.counts != nullptr) out.counts[row] = std::min(k, lists.counts()[row]);
  }
  first.certificate = lists.certificate;
  first.stats = lists.stats;
  return first;
}

}  // namespace vicinal
