// MERGE: k-lists of parts of a corpus to the k-list of the whole. Associative and commutative, because (key, id) is a
// total order and the key is what was returned.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/fpenv.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"
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

}  // namespace

void merge_found(std::span<const NeighborsView> parts, Metric metric, const NeighborsView& out) {
  FpGuard guard;
  const bool descends = descending(metric);
  struct Head {
    const NeighborsView* part;
    std::int64_t at, end;
    Entry entry;
  };
  std::vector<Head> heads;
  const auto load = [&](Head& head) {
    if (head.at == head.end || head.part->ids[head.at] < 0) return false;
    head.entry = {load_key(head.part->distances, head.part->type, descends, head.at), head.part->ids[head.at]};
    return true;
  };
  for (std::int64_t row = 0; row < out.rows; ++row) {
    heads.clear();
    for (const NeighborsView& part : parts) {
      Head head{&part, row * part.k, (row + 1) * part.k, {}};
      if (load(head)) heads.push_back(head);
    }
    std::int64_t at = row * out.k;
    for (; at < (row + 1) * out.k && !heads.empty(); ++at) {
      const auto least = std::min_element(heads.begin(), heads.end(),
                                          [](const Head& a, const Head& b) { return before(a.entry, b.entry); });
      out.ids[at] = least->entry.id;
      store_key(least->entry.key, out.type, descends, out.distances, at);
      ++least->at;
      if (!load(*least)) heads.erase(least);
    }
    if (out.counts != nullptr) out.counts[row] = at - row * out.k;
    for (; at < (row + 1) * out.k; ++at) store_missing(out.type, descends, out.ids, out.distances, at);
  }
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
  for (std::int64_t row = 0; row < out.rows; ++row) {
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
  return result;
}

}  // namespace vicinal
