#include "conformance/lists.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace conformance {
using vicinal::KnnOptions;

const std::vector<Condition> all_conditions = {Condition::none,     Condition::id_range,   Condition::id_list,
                                               Condition::bitmap,   Condition::same_label, Condition::other_label,
                                               Condition::together, Condition::last_row,   Condition::no_row};

vicinal::Eligible Filter::view() const {
  vicinal::Eligible eligible;
  eligible.first = plain.first;
  eligible.last = plain.last;
  if (plain.ids) eligible.ids = ids;
  if (plain.rows) eligible.bitmap = bitmap;
  eligible.labels = plain.labels;
  eligible.corpus_labels = plain.corpus_labels;
  eligible.query_labels = plain.query_labels;
  return eligible;
}
void Filter::put(KnnOptions& options, oracle::SearchSpec& spec) const {
  options.eligible = view();
  spec.eligible = plain;
}

namespace {
void set_rows(Filter& filter, const std::vector<bool>& rows) {
  filter.plain.rows = rows;
  filter.bitmap.assign((rows.size() + 63) / 64, ~std::uint64_t{0});
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!rows[i]) filter.bitmap[i / 64] &= ~(std::uint64_t{1} << i % 64);
}
void set_labels(Rng& rng, Filter& filter, std::int64_t rows, std::int64_t queries, vicinal::Eligible::Labels rule) {
  filter.plain.labels = rule;
  const std::int64_t kinds = rng.between(1, 4);
  const auto label = [&] { return rng.chance(0.1) ? INT64_MIN : rng.between(-1, kinds - 2); };
  for (std::int64_t i = 0; i < rows; ++i) filter.plain.corpus_labels.push_back(label());
  for (std::int64_t i = 0; i < queries; ++i) filter.plain.query_labels.push_back(label());
}
void set_range(Rng& rng, Filter& filter, std::int64_t rows, std::int64_t first_id) {
  filter.plain.first = std::max<std::int64_t>(0, first_id + rng.between(-3, rows / 2));
  filter.plain.last = first_id + rng.between(rows / 2, rows + 3);
}
void set_ids(Rng& rng, Filter& filter, std::int64_t rows, std::int64_t first_id, double share) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (bool again = rng.chance(share); again; again = rng.chance(0.2)) filter.ids.push_back(first_id + i);
  for (const std::int64_t foreign : {first_id - 1, first_id + rows, first_id + rows + 12345, INT64_MAX})
    if (foreign >= 0) filter.ids.push_back(foreign);
  rng.shuffle(filter.ids);
  filter.plain.ids = std::set<std::int64_t>(filter.ids.begin(), filter.ids.end());
}
std::vector<bool> random_rows(Rng& rng, std::int64_t rows, double share) {
  std::vector<bool> chosen(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = rng.chance(share);
  return chosen;
}
}  // namespace

Filter only_rows(const std::vector<bool>& rows) {
  Filter filter{"only these rows", {}, {}, {}};
  set_rows(filter, rows);
  return filter;
}

Filter make_filter(Rng& rng, Condition condition, std::int64_t rows, std::int64_t queries, std::int64_t first_id) {
  using Labels = vicinal::Eligible::Labels;
  static const char* const names[] = {"none",        "id range", "id list",  "bitmap", "same label",
                                      "other label", "together", "last row", "no row"};
  Filter filter{names[static_cast<int>(condition)], {}, {}, {}};
  const double share = rng.pick(std::vector<double>{0.02, 0.3, 0.9});
  switch (condition) {
    case Condition::none: break;
    case Condition::id_range: set_range(rng, filter, rows, first_id); break;
    case Condition::id_list: set_ids(rng, filter, rows, first_id, share); break;
    case Condition::bitmap: set_rows(filter, random_rows(rng, rows, share)); break;
    case Condition::same_label: set_labels(rng, filter, rows, queries, Labels::same); break;
    case Condition::other_label: set_labels(rng, filter, rows, queries, Labels::other); break;
    case Condition::together:
      set_range(rng, filter, rows, first_id);
      set_ids(rng, filter, rows, first_id, 0.8);
      set_rows(filter, random_rows(rng, rows, 0.7));
      set_labels(rng, filter, rows, queries, rng.chance(0.5) ? Labels::same : Labels::other);
      break;
    case Condition::last_row: filter.plain.first = filter.plain.last = first_id + rows - 1; break;
    case Condition::no_row:
      if (rng.chance(0.5)) filter.plain.ids.emplace();
      else set_rows(filter, std::vector<bool>(static_cast<std::size_t>(rows), false));
      break;
  }
  return filter;
}

KnnOptions apply(const Setting& setting, KnnOptions options, const Planner& plan) {
  options.run.instruction_set = setting.instruction_set;
  options.run.filter = setting.filter;
  options.run.threads = setting.threads;
  options.proof = setting.proof;
  if (setting.memory == Memory::ample) return options;
  std::int64_t budget = 0;
  refusal([&] {
    const vicinal::Plan made = plan(options);
    budget = setting.memory == Memory::least ? made.minimum_bytes : std::max(made.minimum_bytes, made.peak_bytes / 3);
  });
  options.memory.host = budget;
  return options;
}

std::string difference(const vicinal::CsrNeighbors& got, const oracle::Lists& want) {
  if (got.rows() != want.rows) return "rows: got " + std::to_string(got.rows()) + ", want " + std::to_string(want.rows);
  if (got.type() != want.type) return "distance type differs";
  const auto entry = [](std::int64_t id, double key) {
    char text[96];
    std::snprintf(text, sizeof text, "id %lld distance %.17g (%a)", static_cast<long long>(id), key, key);
    return std::string(text);
  };
  if (want.rows > 0 && got.offsets()[0] != 0) return "the first offset is not 0";
  for (std::int64_t i = 0; i < want.rows; ++i) {
    const auto start = want.offsets[static_cast<std::size_t>(i)], end = want.offsets[static_cast<std::size_t>(i + 1)];
    for (std::int64_t j = 0; j < std::min(got.count(i), end - start); ++j) {
      const auto at = static_cast<std::size_t>(start + j);
      const double a = got.distance(i, j), b = want.keys[at];
      if (got.id(i, j) != want.ids[at] || std::memcmp(&a, &b, sizeof a) != 0)
        return "row " + std::to_string(i) + " rank " + std::to_string(j) + ": got " + entry(got.id(i, j), a) +
               ", want " + entry(want.ids[at], b);
    }
    if (got.count(i) != end - start)
      return "row " + std::to_string(i) + ": " + std::to_string(got.count(i)) + " entries, want " +
             std::to_string(end - start);
  }
  if (got.entries() != static_cast<std::int64_t>(want.ids.size())) return "number of entries differs";
  return "";
}

namespace {
template <class Search, class Compare, class Want>
std::string outcome(Search search, Compare compare, const Want& want) {
  try {
    const auto got = search();
    if (want.error) return std::string("answered, want ") + vicinal::error_name(*want.error);
    return compare(got);
  } catch (const vicinal::Error& error) {
    if (want.error && (*want.error == error.code() || want.other_error == error.code())) return "";
    return std::string("threw ") + vicinal::error_name(error.code()) + ": " + error.what() +
           (want.error ? std::string(", want ") + vicinal::error_name(*want.error) : std::string(", want an answer"));
  }
}
}  // namespace

std::string check_graph(const vicinal::Points& rows, const vicinal::GraphOptions& options, const oracle::Answer& want) {
  return outcome([&] { return vicinal::knn_graph(rows, options); },
                 [&](const vicinal::Neighbors& got) { return difference(got, want); }, want);
}
std::string check_range(const vicinal::Points& corpus, const vicinal::Points& queries, double radius,
                        const vicinal::RangeOptions& options, const oracle::Lists& want) {
  return outcome([&] { return vicinal::range_search(corpus, queries, radius, options); },
                 [&](const vicinal::CsrNeighbors& got) {
                   return got.certificate.all() ? difference(got, want) : std::string("not every query is certified");
                 },
                 want);
}
std::string check_graph(const Setting& setting, const vicinal::Points& rows, vicinal::GraphOptions options,
                        const oracle::Answer& want) {
  options.search = apply(setting, options.search, [&](const KnnOptions& search) {
    vicinal::GraphOptions probe = options;
    probe.search = search;
    return vicinal::plan_graph(shape_of(rows), probe);
  });
  return check_graph(rows, options, want);
}
std::string check_range(const Setting& setting, const vicinal::Points& corpus, const vicinal::Points& queries,
                        double radius, vicinal::RangeOptions options, const oracle::Lists& want) {
  options.search = apply(setting, options.search, [&](const KnnOptions& search) {
    vicinal::RangeOptions probe = options;
    probe.search = search;
    return vicinal::plan_range(shape_of(corpus), shape_of(queries), probe);
  });
  return check_range(corpus, queries, radius, options, want);
}

std::vector<Setting> every_setting() {
  static Rng share(20);  // others for every kind, where VICINAL_TEST_SCALE asks for a part of them
  std::vector<Setting> settings;
  for (const std::string& set : instruction_sets())
    for (const int threads : all_threads)
      for (const Memory memory : all_memory)
        // Few queries may skip the filter on their own; here it is forced.
        if (in_share(share, 0.15))
          settings.push_back({set, filters().front(), threads, memory, vicinal::Proof::certified});
  return settings;
}

}  // namespace conformance
