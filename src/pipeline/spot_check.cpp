// See spot_check.hpp.
#include "pipeline/spot_check.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "core/key.hpp"
#include "core/metric.hpp"
#include "core/text.hpp"
#include "pipeline/certify.hpp"
#include "pipeline/rows.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t sampled_rows = 32, queries_at_once = 64;

thread_local bool checking = false;  // the search that ranks the sample is not checked itself

/// Rows of the corpus drawn at random, others at each call.
std::vector<std::int64_t> draw_rows(std::int64_t rows) {
  static std::atomic<std::uint64_t> calls{0};
  std::uint64_t state = calls.fetch_add(1) * 0x632BE59BD9B4E019u;
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(std::min(rows, sampled_rows)));
  for (std::int64_t& row : drawn) {
    std::uint64_t bits = state += 0x9E3779B97F4A7C15u;  // SplitMix64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    row = static_cast<std::int64_t>((bits ^ bits >> 31) % static_cast<std::uint64_t>(rows));
  }
  return drawn;
}

/// One list of an answer, whatever holds it.
struct List {
  std::int64_t query;
  const std::int64_t* ids;
  const void* distances;
  std::int64_t first, count;  // entries of both arrays
};

class Checker {
 public:
  Checker(const SearchSpec& spec, const Points& queries)
      : spec_(spec), queries_(queries), descends_(descending(spec.metric)), drawn_(draw_rows(spec.corpus.rows)),
        sample_(gather_rows(spec.corpus, drawn_, bytes_)) {}

  /// lists(query): the list of each query. cut: the last key that belongs into a list that holds what it must.
  template <class Lists, class Cut>
  void run(const Lists& lists, const Cut& cut) {
    for (std::int64_t first = 0; first < queries_.rows; first += queries_at_once) {
      const std::int64_t count = std::min(queries_at_once, queries_.rows - first);
      const std::optional<Neighbors> ranked = rank(queries_.slice(first, count));
      for (std::int64_t query = first; query < first + count; ++query) {
        const List list = lists(query);
        check_list(list);
        if (ranked) check_sample(list, *ranked, query - first, cut(list));
      }
    }
  }

  Entry entry(const List& list, std::int64_t i) const {
    return {load_key(list.distances, spec_.type, descends_, list.first + i), list.ids[list.first + i]};
  }
  [[noreturn]] static void refuse(std::int64_t query, const std::string& why) {
    fail(ErrorCode::internal,
         cat("spot check: query ", query, ": ", why, "; where no array changed during the call, please report it"));
  }

 private:
  /// Canonical values of the sample for these queries, in fp64; nothing where one of them leaves it.
  std::optional<Neighbors> rank(const Points& queries) const {
    KnnOptions options;
    options.metric = spec_.metric;
    options.degenerate = spec_.degenerate;
    options.k = sample_.rows;
    if (spec_.metric != Metric::hamming) options.distance_type = DistanceType::f64;
    options.proof = Proof::exhaustive;
    options.run = {.device = "cpu",
                   .threads = 1,
                   .instruction_set = cpu_backend().device().facts().instruction_sets.back(),
                   .filter = "canonical"};
    checking = true;
    try {
      Neighbors ranked = knn(sample_, queries, options);
      checking = false;
      return ranked;
    } catch (const Error& error) {
      checking = false;
      if (error.code() == ErrorCode::range_error) return std::nullopt;
      throw;
    } catch (...) {
      checking = false;
      throw;
    }
  }

  void check_list(const List& list) {
    ids_.assign(list.ids + list.first, list.ids + list.first + list.count);
    for (std::int64_t i = 0; i < list.count; ++i) {
      const std::int64_t row = ids_[static_cast<std::size_t>(i)] - spec_.first_id;
      if (row < 0 || row >= spec_.corpus.rows) refuse(list.query, cat("id ", row + spec_.first_id, " is of no row"));
      if (!spec_.filter.allows(list.query, row))
        refuse(list.query, cat("id ", row + spec_.first_id, " is not eligible"));
      if (i > 0 && !before(entry(list, i - 1), entry(list, i)))
        refuse(list.query, cat("entries ", i - 1, " and ", i, " are out of order"));
    }
    std::sort(ids_.begin(), ids_.end());
    const auto twice = std::adjacent_find(ids_.begin(), ids_.end());
    if (twice != ids_.end()) refuse(list.query, cat("id ", *twice, " is listed twice"));
  }

  void check_sample(const List& list, const Neighbors& ranked, std::int64_t at, const Entry& cut) const {
    for (std::int64_t i = 0; i < ranked.k(); ++i) {
      const std::int64_t row = drawn_[static_cast<std::size_t>(ranked.id(at, i))];
      if (!spec_.filter.allows(list.query, row)) continue;
      const Entry sampled{fold_key(ranked.distance(at, i), spec_.type, descends_), spec_.first_id + row};
      const bool listed = std::binary_search(ids_.begin(), ids_.end(), sampled.id);
      if (!listed && before(sampled, cut))
        refuse(list.query, cat("row ", sampled.id, " is nearer than the last entry, and missing"));
      if (listed && !listed_at(list, sampled))
        refuse(list.query, cat("row ", sampled.id, " is listed at another distance than its own"));
    }
  }

  bool listed_at(const List& list, const Entry& sampled) const {
    for (std::int64_t i = 0; i < list.count; ++i)
      if (const Entry one = entry(list, i); one.id == sampled.id) return one.key == sampled.key;
    return false;
  }

  const SearchSpec& spec_;
  const Points& queries_;
  bool descends_;
  std::vector<std::int64_t> drawn_;
  std::vector<std::byte> bytes_;
  Points sample_;
  std::vector<std::int64_t> ids_;  // of the list that is looked at, sorted
};

}  // namespace

bool spot_checks() {
#if !defined(VICINAL_DEBUG)
  const char* const asked = std::getenv("VICINAL_SPOT_CHECK");
  if (asked == nullptr || *asked == '\0') return false;
#endif
  return !checking;
}

void spot_check(const NeighborsView& out, const SearchSpec& spec, const Points& queries) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  constexpr Entry beyond{infinite, INT64_MAX};
  if (queries.rows == 0) return;
  const auto list_of = [&](std::int64_t query) {
    return List{query, out.ids, out.distances, query * out.k, needed_rows(spec, query)};
  };
  for (std::int64_t query = 0; query < queries.rows; ++query) {
    const std::int64_t needed = needed_rows(spec, query);
    if (out.counts != nullptr && out.counts[query] != needed)
      Checker::refuse(query, cat("counts ", out.counts[query], " rows of ", needed));
    for (std::int64_t i = query * out.k + needed; i < (query + 1) * out.k; ++i)
      if (out.ids[i] != -1) Checker::refuse(query, cat("id ", out.ids[i], " stands where nothing is left"));
  }
  if (spec.corpus.rows == 0) return;
  Checker checker(spec, queries);
  checker.run(list_of, [&](const List& list) {
    return list.count < spec.k ? beyond : list.count == 0 ? Entry{-infinite, 0} : checker.entry(list, list.count - 1);
  });
}

void spot_check(const CsrNeighbors& out, const SearchSpec& spec, const Points& queries) {
  if (queries.rows == 0 || spec.corpus.rows == 0) return;
  const double radius = descending(spec.metric) ? -*spec.radius : *spec.radius;
  const Entry last{radius, INT64_MAX};
  Checker checker(spec, queries);
  checker.run(
      [&](std::int64_t query) {
        const std::int64_t first = out.offsets()[query], count = out.offsets()[query + 1] - first;
        const List list{query, out.ids(), out.distances(), first, count};
        if (count > 0 && !before(checker.entry(list, count - 1), last))
          Checker::refuse(query, "a row beyond the radius is listed");
        return list;
      },
      [&](const List&) { return last; });
}

}  // namespace vicinal
