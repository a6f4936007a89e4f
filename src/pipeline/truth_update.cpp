// TRUTH after rows came and went: old lists, what is new merged into them, and searches of what lost too much.
#include <algorithm>

#include "core/fpenv.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/rows.hpp"
#include "pipeline/saved_lists.hpp"
#include "pipeline/truth.hpp"
#include "vicinal/error.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

std::int64_t rows_of(std::span<const Points> parts) {
  std::int64_t rows = 0;
  for (const Points& part : parts) rows += part.rows;
  return rows;
}

class Update {
 public:
  Update(const TruthUpdate& update, const Points& queries, const TruthOptions& options)
      : update_(update), queries_(queries), options_(options), first_id_(options.search.first_id),
        old_rows_(rows_of(update.base)), rows_(old_rows_ + rows_of(update.inserted)),
        descends_(descending(options.search.metric)), all_(update.base.begin(), update.base.end()) {
    all_.insert(all_.end(), update.inserted.begin(), update.inserted.end());
    check();
    mark_deleted();
  }

  GroundTruth run() {
    const double start = now_seconds();
    split();
    if (lost_.empty() && !options_.directory.empty())
      PieceFolder(options_.directory, PieceHead{});  // nothing will be saved: what is there is another search's
    const auto chosen = static_cast<std::uint64_t>(std::ssize(lost_));
    const std::uint64_t of_new = static_cast<std::uint64_t>(rows_ - old_rows_) * (queries() - chosen);
    const std::uint64_t again = static_cast<std::uint64_t>(rows_) * chosen;
    const std::uint64_t sample = static_cast<std::uint64_t>(rows_) *
                                 static_cast<std::uint64_t>(std::min(queries_.rows, options_.verified_queries));
    const std::uint64_t total = of_new + again + sample;

    GroundTruth truth;
    truth.tiers.push_back(
        {rows_, Neighbors(queries_.rows, options_.search.k, update_.lists.type, options_.search.pad)});
    truth.kept = std::ssize(kept_);
    search_lost(truth, total);
    merge_inserted(truth, again, total);
    const RowFilter filter(whole_options().search.eligible, rows_, first_id_, false);
    complete_lists(truth.tiers.back().nearest.view(), filter, rows_, options_.search.metric,
                   threads_for(options_.search.run.threads));
    TruthOptions sampled = whole_options();
    sampled.search.progress = part_of_progress(options_.search.progress, of_new + again, total);
    verify_sample(truth, all_, queries_, sampled);
    truth.stats.notes.push_back(cat(lost_.size(), " of ", queries_.rows,
                                    " queries lost rows beyond their lists and were searched again over all ",
                                    remaining_, " rows"));
    truth.stats.seconds = now_seconds() - start;
    return truth;
  }

 private:
  std::uint64_t queries() const noexcept { return static_cast<std::uint64_t>(queries_.rows); }

  void check() const {
    const NeighborsView& lists = update_.lists;
    const KnnOptions& search = options_.search;
    if (!options_.tiers.empty()) refuse("an update has no tiers; find the truth of each of them");
    const Eligible& eligible = search.eligible;
    if (eligible.first != 0 || eligible.last != INT64_MAX || eligible.ids || eligible.bitmap ||
        eligible.labels != Eligible::Labels::ignored)
      refuse("an update takes no eligible rows; those that are deleted may not answer");
    if (options_.verified_queries < 0) refuse(cat("verified_queries must be >= 0, got ", options_.verified_queries));
    if (lists.rows != queries_.rows)
      refuse(cat("the old lists have ", lists.rows, " rows, there are ", queries_.rows, " queries"));
    if (lists.k < search.k)
      refuse(cat("the old lists have k=", lists.k, ", k=", search.k, " was asked for; find the truth anew"));
    if (update_.base.empty()) refuse("the base has no parts");
    const DistanceType type =
        resolve_distance_type(search.distance_type, search.metric, update_.base.front().dtype, queries_.dtype);
    if (lists.type != type)
      refuse(cat("the old lists hold ", distance_type_name(lists.type), " distances, this search finds ",
                 distance_type_name(type), "; set distance_type"));
    for (std::int64_t i = 0; i < lists.rows * lists.k; ++i)
      if (lists.ids[i] != -1 && (lists.ids[i] < first_id_ || lists.ids[i] - first_id_ >= old_rows_))
        refuse(cat("the old list of query ", i / lists.k, " has id ", lists.ids[i], ", the base has ids ", first_id_,
                   " to ", first_id_ + old_rows_ - 1));
  }

  void mark_deleted() {
    remains_.assign(static_cast<std::size_t>((rows_ + 63) / 64), ~std::uint64_t{0});
    remaining_ = rows_;
    for (const std::int64_t id : update_.deleted) {
      const std::int64_t row = id - first_id_;
      if (id < first_id_ || row >= rows_)
        refuse(cat("id ", id, " is to be deleted, there are ids ", first_id_, " to ", first_id_ + rows_ - 1));
      std::uint64_t& word = remains_[static_cast<std::size_t>(row / 64)];
      const std::uint64_t bit = std::uint64_t{1} << row % 64;
      remaining_ -= (word & bit) != 0 ? 1 : 0;
      word &= ~bit;
    }
    if (options_.search.k > (queries_.rows > 0 ? remaining_ : rows_) && !options_.search.pad)
      refuse(cat("k=", options_.search.k, " exceeds the ", remaining_, " rows that remain (use pad)"));
  }

  bool remains(std::int64_t id) const {
    const std::int64_t row = id - first_id_;
    return (remains_[static_cast<std::size_t>(row / 64)] >> row % 64 & 1) != 0;
  }

  /// A list that keeps k entries is the exact list of the old rows that remain; so is one that had them all, with room
  /// to spare.
  void split() {
    const NeighborsView& lists = update_.lists;
    for (std::int64_t query = 0; query < lists.rows; ++query) {
      std::int64_t left = 0;
      bool had_all = false;
      for (std::int64_t i = query * lists.k; i < (query + 1) * lists.k; ++i) {
        had_all |= lists.ids[i] == -1;
        left += lists.ids[i] != -1 && remains(lists.ids[i]) ? 1 : 0;
      }
      (left >= options_.search.k || had_all ? kept_ : lost_).push_back(query);
    }
  }

  /// What remains of the old lists of the kept queries.
  Neighbors old_lists() const {
    const FpGuard guard;  // distances are converted
    const NeighborsView& lists = update_.lists;
    Neighbors old(std::ssize(kept_), lists.k, lists.type, false);
    const NeighborsView out = old.view();
    for (std::int64_t row = 0; row < out.rows; ++row) {
      const std::int64_t from = kept_[static_cast<std::size_t>(row)] * lists.k;
      std::int64_t at = row * lists.k;
      for (std::int64_t i = from; i < from + lists.k; ++i) {
        if (lists.ids[i] == -1 || !remains(lists.ids[i])) continue;
        out.ids[at] = lists.ids[i];
        store_key(load_key(lists.distances, lists.type, descends_, i), lists.type, descends_, out.distances, at++);
      }
      for (; at < (row + 1) * lists.k; ++at) store_missing(lists.type, descends_, out.ids, out.distances, at);
    }
    return old;
  }

  /// The options of a search over all rows that remain.
  TruthOptions whole_options() const {
    TruthOptions options = options_;
    options.search.distance_type = update_.lists.type;
    if (remaining_ < rows_) options.search.eligible.bitmap = remains_;
    return options;
  }

  void merge_inserted(GroundTruth& truth, std::uint64_t before, std::uint64_t total) {
    if (kept_.empty()) return;
    const Neighbors old = old_lists();
    std::vector<NeighborsView> parts{old.view()};
    GroundTruth found;
    if (rows_ > old_rows_) {
      std::vector<std::byte> memory;
      std::vector<std::uint64_t> words;
      const Points asked = gather_rows(queries_, kept_, memory);
      TruthOptions options = options_;
      options.directory.clear();
      options.names.erase(options.names.begin(),
                          options.names.begin() + std::min(std::ssize(options.names), std::ssize(update_.base)));
      options.search = piece_options(whole_options().search, old_rows_, rows_ - old_rows_, 0, asked.rows, words);
      options.search.progress = part_of_progress(options_.search.progress, before, total);
      found = lists_in_pieces(update_.inserted, asked, options,
                              truth_grid(shape_of(update_.inserted.front()), shape_of(asked), options));
      parts.push_back(found.nearest().view());
      if (lost_.empty()) truth.stats = found.stats;
    }
    place(merge(parts, {.k = options_.search.k, .metric = options_.search.metric, .pad = true}), kept_, truth);
  }

  void search_lost(GroundTruth& truth, std::uint64_t total) {
    if (lost_.empty()) return;
    std::vector<std::byte> memory;
    const Points asked = gather_rows(queries_, lost_, memory);
    TruthOptions options = whole_options();
    options.search.progress = part_of_progress(options_.search.progress, 0, total);
    const GroundTruth found =
        truth_in_pieces(all_, asked, options, truth_grid({rows_, asked.cols, asked.dtype}, shape_of(asked), options));
    place(found.nearest(), lost_, truth);
    truth.certificate = found.certificate;
    truth.stats = found.stats;
  }

  void place(const Neighbors& lists, const std::vector<std::int64_t>& where, GroundTruth& truth) const {
    const NeighborsView out = truth.tiers.back().nearest.view();
    for (std::int64_t row = 0; row < lists.rows(); ++row)
      copy_entries(lists, row * lists.k(), lists.k(), out, where[static_cast<std::size_t>(row)] * lists.k());
  }

  const TruthUpdate& update_;
  const Points& queries_;
  const TruthOptions& options_;
  std::int64_t first_id_, old_rows_, rows_, remaining_ = 0;
  bool descends_;
  std::vector<Points> all_;                // base and inserted rows
  std::vector<std::uint64_t> remains_;     // a bit a row
  std::vector<std::int64_t> kept_, lost_;  // queries
};

}  // namespace

GroundTruth update_ground_truth(const TruthUpdate& update, const Points& queries, const TruthOptions& options) {
  return Update(update, queries, options).run();
}

}  // namespace vicinal
