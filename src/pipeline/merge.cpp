// MERGE: k-lists of parts of a corpus to the k-list of the whole. Associative and commutative, because (key, id) is a
// total order and the key is what was returned.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/divide.hpp"
#include "core/fpenv.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "pipeline/merge.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

void check_parts(std::span<const NeighborsView> parts) {
  if (parts.empty()) fail(ErrorCode::invalid_argument, "nothing to merge: no parts");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].rows != parts[0].rows)
      fail(ErrorCode::invalid_argument, cat("part ", i, " has ", parts[i].rows, " rows, part 0 has ", parts[0].rows));
    if (parts[i].type != parts[0].type)
      fail(ErrorCode::invalid_argument, cat("part ", i, " holds ", distance_type_name(parts[i].type),
                                            " distances, part 0 ", distance_type_name(parts[0].type)));
  }
}

void refuse_repeated_id(std::vector<Entry>& best, std::int64_t row) {
  std::sort(best.begin(), best.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  const auto twin =
      std::adjacent_find(best.begin(), best.end(), [](const Entry& a, const Entry& b) { return a.id == b.id; });
  if (twin != best.end())
    fail(ErrorCode::invalid_argument,
         cat("row ", row, ": id ", twin->id, " is in two parts; search each part with its own first_id"));
}

/// A Head stands at the next entry of a row in the list of a part.
struct Head {
  const NeighborsView* part;
  std::int64_t at, end;
  Entry entry;
  /// False: there is no more.
  bool load(bool descends) {
    if (at == end || part->ids[at] < 0) return false;
    entry = {load_key(part->distances, part->type, descends, at), part->ids[at]};
    return true;
  }
};

void merge_row(std::span<const NeighborsView> parts, std::int64_t row, bool descends, const NeighborsView& out,
               std::vector<Head>& heads) {
  heads.clear();
  for (const NeighborsView& part : parts) {
    Head head{&part, row * part.k, (row + 1) * part.k, {}};
    if (head.load(descends)) heads.push_back(head);
  }
  std::int64_t at = row * out.k;
  for (; at < (row + 1) * out.k && !heads.empty(); ++at) {
    const auto least = std::min_element(heads.begin(), heads.end(),
                                        [](const Head& a, const Head& b) { return before(a.entry, b.entry); });
    out.ids[at] = least->entry.id;
    store_key(least->entry.key, out.type, descends, out.distances, at);
    ++least->at;
    if (!least->load(descends)) heads.erase(least);
  }
  if (out.counts != nullptr) out.counts[row] = at - row * out.k;
  for (; at < (row + 1) * out.k; ++at) store_missing(out.type, descends, out.ids, out.distances, at);
}

}  // namespace

void for_lists(std::int64_t rows, std::int64_t entries, int threads,
               FunctionRef<void(std::int64_t first, std::int64_t last)> body) {
  constexpr std::int64_t entries_at_once = 4096;
  const std::int64_t at_once = std::max<std::int64_t>(entries_at_once / std::max<std::int64_t>(entries, 1), 1),
                     runs = divide_up(rows, at_once);
  ThreadPool thread_pool(static_cast<int>(std::clamp<std::int64_t>(runs, 1, threads)), nullptr, {}, 0);
  thread_pool.for_runs(rows, at_once, body);
}

void merge_found(std::span<const NeighborsView> parts, Metric metric, const NeighborsView& out, int threads) {
  const bool descends = descending(metric);
  for_lists(out.rows, out.k * std::ssize(parts), threads, [&](std::int64_t first, std::int64_t last) {
    std::vector<Head> heads;
    for (std::int64_t row = first; row < last; ++row) merge_row(parts, row, descends, out, heads);
  });
}

Neighbors merge(std::span<const NeighborsView> parts, const MergeOptions& options) {
  FpGuard guard;
  check_parts(parts);
  std::int64_t k = options.k;
  if (k < 0) fail(ErrorCode::invalid_argument, cat("k must be >= 1, got ", k));
  if (k == 0)
    for (const NeighborsView& part : parts) k = std::max(k, part.k);
  const bool descends = descending(options.metric);
  const DistanceType type = parts[0].type;
  Neighbors result(parts[0].rows, k, type, options.pad);
  const NeighborsView out = result.view();
  std::vector<Entry> all, best;
  ThreadPool thread_pool(1, options.progress, options.stop, static_cast<std::uint64_t>(out.rows));
  for (std::int64_t row = 0; row < out.rows; ++row) {
    thread_pool.poll(1);
    all.clear();
    for (const NeighborsView& part : parts)
      for (std::int64_t i = row * part.k; i < (row + 1) * part.k; ++i) {
        if (part.ids[i] < 0) continue;
        all.push_back({load_key(part.distances, type, descends, i), part.ids[i]});
        if (std::isnan(all.back().key))
          fail(ErrorCode::invalid_value,
               cat("row ", row, ", id ", part.ids[i], ": the distance is NaN; only results of a search can be merged"));
      }
    const auto found = std::min(k, static_cast<std::int64_t>(all.size()));
    if (found < k && !options.pad)
      fail(ErrorCode::invalid_argument,
           cat("k=", k, " exceeds the ", found, " entries of row ", row, " in all parts (use pad)"));
    std::partial_sort(all.begin(), all.begin() + found, all.end(), before);
    for (std::int64_t i = 0; i < found; ++i) {
      out.ids[row * k + i] = all[static_cast<std::size_t>(i)].id;
      store_key(all[static_cast<std::size_t>(i)].key, type, descends, out.distances, row * k + i);
    }
    for (std::int64_t i = found; i < k; ++i) store_missing(type, descends, out.ids, out.distances, row * k + i);
    if (out.counts != nullptr) out.counts[row] = found;
    best.assign(all.begin(), all.begin() + found);
    refuse_repeated_id(best, row);
  }
  thread_pool.finish();
  return result;
}

}  // namespace vicinal
