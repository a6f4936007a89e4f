// See saved_lists.hpp.
#include "pipeline/saved_lists.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/key.hpp"
#include "core/metric.hpp"
#include "pipeline/merge.hpp"
#include "prepare/check.hpp"
#include "vicinal/error.hpp"
#include "vicinal/search.hpp"

namespace vicinal {

using io::Bytes;

Lists load_lists(const Walk& walk, std::int64_t k, DistanceType type, std::int64_t corpus_rows, ListFile& file) {
  Lists lists;
  PieceHead expected = walk.head;
  expected.first_row = 0;
  expected.tier = file.tier;
  const auto piece = walk.folder->load(file.path, expected, corpus_rows);
  const auto entries = static_cast<std::size_t>(expected.queries * k);
  if (!piece || piece->head.width != k || piece->payload.size() != entries * (8 + distance_size(type))) return lists;
  lists = {Neighbors(expected.queries, k, type, false), piece->head.end_row, piece->head.redone};
  const NeighborsView view = lists.list.view();
  std::memcpy(view.ids, piece->payload.data(), entries * 8);
  std::memcpy(view.distances, piece->payload.data() + entries * 8, entries * distance_size(type));
  file.rows_digest = piece->head.rows_digest;
  return lists;
}

void save_lists(const Walk& walk, const Lists& lists, const ListFile& file) {
  PieceHead head = walk.head;
  head.first_row = 0;
  head.end_row = lists.rows_done;
  head.redone = lists.redone;
  head.width = lists.list.k();
  head.tier = file.tier;
  head.rows_digest = file.rows_digest;
  const auto entries = static_cast<std::size_t>(lists.list.rows() * lists.list.k());
  const Bytes parts[] = {
      {reinterpret_cast<const std::byte*>(lists.list.ids()), entries * 8},
      {static_cast<const std::byte*>(lists.list.distances()), entries * distance_size(lists.list.type())}};
  walk.folder->save(file.path, head, parts);
}

namespace {

/// The lists of a piece, which may hold rows that those of the whole have not, at distances beyond their type: such a
/// list ends before them.
class FiniteLists {
 public:
  /// end: id of the entry after the last of such a list.
  FiniteLists(const Points& part, const Points& queries, const KnnOptions& options, std::int64_t end)
      : part_(part), queries_(queries), options_(options), end_(end) {}

  Neighbors find() {
    if (auto all = search(0, queries_.rows, options_.k)) return std::move(*all);
    found_ = Neighbors(queries_.rows, options_.k,
                       resolve_distance_type(options_.distance_type, options_.metric, part_.dtype, queries_.dtype),
                       options_.pad);
    divide(0, queries_.rows);
    found_.certificate.queries = found_.certificate.proven = queries_.rows;  // of their entries, each found by a search
    found_.stats.pairs = part_.rows * queries_.rows;
    const NeighborsView out = found_.view();
    for (std::int64_t q = 0; out.counts != nullptr && q < out.rows; ++q)
      out.counts[q] = std::count_if(out.ids + q * out.k, out.ids + (q + 1) * out.k, [](auto id) { return id >= 0; });
    return std::move(found_);
  }

 private:
  /// The k nearest of queries [first, first + count); none where the farthest of a list are beyond the type. Any other
  /// error is the whole search's.
  std::optional<Neighbors> search(std::int64_t first, std::int64_t count, std::int64_t k) try {
    KnnOptions own = options_;
    own.k = k;
    if (!own.eligible.query_labels.empty())
      own.eligible.query_labels =
          own.eligible.query_labels.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    if (own.progress && count < queries_.rows)
      own.progress = [this](std::uint64_t, std::uint64_t) { return options_.progress(0, 1); };
    Neighbors lists = knn(part_, queries_.slice(first, count), own);
    found_.stats = lists.stats;
    found_.certificate.precisions = lists.certificate.precisions;
    return lists;
  } catch (const FarthestInfinite&) {
    return std::nullopt;
  }

  void divide(std::int64_t first, std::int64_t count) {
    const std::int64_t half = count / 2;
    if (half > 0) {
      for (const auto& [begin, rows] : {std::pair{first, half}, std::pair{first + half, count - half}})
        if (const auto lists = search(begin, rows, options_.k))
          copy_entries(*lists, 0, rows * options_.k, found_.view(), begin * options_.k);
        else divide(begin, rows);
      return;
    }
    std::int64_t finite = 0, beyond = options_.k;  // entries
    while (beyond - finite > 1) {
      const std::int64_t k = finite + (beyond - finite) / 2;
      if (const auto list = search(first, 1, k)) {
        copy_entries(*list, 0, k, found_.view(), first * options_.k);
        finite = k;
      } else {
        beyond = k;
      }
    }
    const NeighborsView out = found_.view();
    for (std::int64_t i = finite; i < options_.k; ++i)
      store_missing(out.type, descending(options_.metric), out.ids, out.distances, first * options_.k + i);
    out.ids[first * options_.k + finite] = end_;
  }

  const Points &part_, &queries_;
  const KnnOptions& options_;
  std::int64_t end_;
  Neighbors found_;
};

}  // namespace

Neighbors knn_of_part(const Points& part, const Points& queries, const KnnOptions& options) {
  return FiniteLists(part, queries, options, beyond_type).find();
}

void extend_lists(Walk& walk, const KnnOptions& options, Lists& lists) {
  Neighbors found;
  const std::int64_t rows =
      walk.part(lists.rows_done, [&](const Points& part, const Points& queries, const KnnOptions& with) {
        found = FiniteLists(part, queries, with, -1).find();
      });
  walk.note(found.stats, found.certificate);
  lists.redone = std::min(lists.redone + found.certificate.redone, found.rows());
  if (lists.rows_done == 0) {
    lists.list = std::move(found);
  } else {
    const NeighborsView both[] = {lists.list.view(), found.view()};
    Neighbors merged(found.rows(), options.k, found.type(), false);
    merge_found(both, options.metric, merged.view(), threads_for(options.run.threads));
    lists.list = std::move(merged);
  }
  lists.rows_done += rows;
}

void copy_entries(const Neighbors& list, std::int64_t from, std::int64_t count, const NeighborsView& out,
                  std::int64_t at) {
  const std::size_t size = distance_size(list.type());
  std::memcpy(out.ids + at, list.ids() + from, static_cast<std::size_t>(count) * 8);
  std::memcpy(static_cast<std::byte*>(out.distances) + static_cast<std::size_t>(at) * size,
              static_cast<const std::byte*>(list.distances()) + static_cast<std::size_t>(from) * size,
              static_cast<std::size_t>(count) * size);
}

void copy_without_self(const Neighbors& wide, std::int64_t first, std::int64_t k, const NeighborsView& out,
                       int threads) {
  for_lists(wide.rows(), wide.k(), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t* const ids = wide.ids() + i * wide.k();
      const std::int64_t self = wide.k() == k ? k : std::min(std::find(ids, ids + k, first + i) - ids, k);
      copy_entries(wide, i * wide.k(), self, out, (first + i) * k);
      copy_entries(wide, i * wide.k() + self + 1, k - self, out, (first + i) * k + self);
    }
  });
}

void complete_lists(const NeighborsView& out, const RowFilter& filter, std::int64_t corpus_rows, Metric metric,
                    int threads) {
  for_lists(out.rows, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t q = begin; q < end; ++q) {
      const std::int64_t eligible = std::min(out.k, filter.all() ? corpus_rows : filter.count(q));
      if (eligible > 0 && out.ids[q * out.k + eligible - 1] < 0) {
        SearchSpec spec;
        spec.metric = metric;
        spec.type = out.type;
        report_infinite(spec, ListEnd::farthest);
      }
      if (out.counts != nullptr) out.counts[q] = eligible;
    }
  });
}

}  // namespace vicinal
