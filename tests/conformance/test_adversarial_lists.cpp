// The adversarial families once more, as graphs and as ranges: every row a query against all, lists of any length, radii
// on the edge of a returned value. A failing case is run alone with
// VICINAL_TEST_SEED=S VICINAL_TEST_CASE=N vicinal_conformance --gtest_filter=AdversarialLists.*
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "conformance/families.hpp"
#include "conformance/lists.hpp"

namespace conformance {
namespace {

struct ListCase {
  const Family* family = nullptr;
  Kind kind{};
  Table corpus, queries;
  vicinal::KnnOptions options;
  std::string text() const {
    return std::string("family ") + family->name + ", n=" + std::to_string(corpus.n) +
           " Q=" + std::to_string(queries.n) + " d=" + std::to_string(corpus.d) + " k=" + std::to_string(options.k) +
           ", " + kind.text() + " to " + vicinal::distance_type_name(options.distance_type) +
           (options.degenerate == vicinal::Degenerate::one ? ", degenerate=one" : "") + (options.pad ? ", pad" : "");
  }
};

// Everything of a case follows from the generator, and that from (seed, number). `work` bounds rows x queries x columns,
// where the queries of a graph are its rows.
ListCase make_case(Rng& rng, std::int64_t number, bool graph) {
  ListCase c;
  c.family = &families()[static_cast<std::size_t>(number) % families().size()];
  c.kind = rng.pick(all_kinds());
  Scene s;
  s.dtype = c.kind.dtype, s.metric = c.kind.metric;
  s.n = rng.log_between(1, graph ? 500 : 2500);
  s.q = rng.log_between(1, graph ? 4 : 12);
  s.d = rng.log_between(1, 160);
  const auto work = [&] { return graph ? s.n * s.n * s.d / 4 : s.n * s.q * s.d; };
  while (work() > 250000) (s.q > 2 ? s.q : s.d > 2 ? s.d : s.n) /= 2;
  s.k = std::clamp<std::int64_t>(rng.chance(0.2) ? s.n - 1 : rng.log_between(1, s.n), 1, s.n);
  s.resize(s.d);
  c.family->fill(rng, s);
  std::tie(c.corpus, c.queries) = to_tables(s);
  c.options.metric = c.kind.metric;
  c.options.k = s.k;
  if (c.kind.metric != Metric::hamming && rng.chance(0.4))
    c.options.distance_type = rng.chance(0.6) ? vicinal::DistanceType::f64 : vicinal::DistanceType::f32;
  if (rng.chance(0.4)) c.options.degenerate = vicinal::Degenerate::one;
  if (rng.chance(0.2)) c.options.pad = true, c.options.k = s.k + rng.between(0, 3);
  return c;
}

// The queries become rows too: what was aimed at them is aimed at rows now.
Table all_rows(const ListCase& c) {
  Table rows = c.corpus;
  constexpr std::int64_t most = 600;  // a family may ask for more than a graph can be checked with
  if (rows.n > most) {
    rows.bytes.resize(rows.bytes.size() / static_cast<std::size_t>(rows.n) * most);
    rows.n = most;
  }
  rows.bytes.insert(rows.bytes.end(), c.queries.bytes.begin(), c.queries.bytes.end());
  rows.n += c.queries.n;
  return rows;
}

double draw_radius(Rng& rng, const ListCase& c, const oracle::SearchSpec& asked) {
  if (rng.chance(0.12)) return rng.pick(std::vector<double>{0, -0.0, -1, 1, INFINITY, -INFINITY, 5e-324, 3e38, 1e300});
  const oracle::Rows corpus = c.corpus.rows(), queries = c.queries.rows();
  const oracle::Keys keys(corpus, queries, asked);
  if (keys.error) return 1;
  const double at = keys(rng.between(0, queries.n - 1), rng.between(0, corpus.n - 1));
  switch (rng.between(0, 5)) {
    case 0: return std::nextafter(at, INFINITY);
    case 1: return std::nextafter(at, -INFINITY);
    case 2: return at * (1 + 0x1p-26);  // between two f32
    default: return at;
  }
}

struct Tally {
  std::uint64_t seed;
  std::int64_t cases = 0, errors_due = 0, mismatches = 0;
  void add(const std::string& fault, bool due, const std::string& text) {
    ++cases;
    errors_due += due;
    if (!fault.empty() && ++mismatches <= 10)
      ADD_FAILURE() << "seed " << seed << ", case " << cases - 1 << ", " << text << "\n  " << fault;
  }
  void close(const char* what) const {
    std::printf("%lld adversarial %s (%lld of them errors that are due), %lld mismatches, seed %llu\n",
                static_cast<long long>(cases), what, static_cast<long long>(errors_due),
                static_cast<long long>(mismatches), static_cast<unsigned long long>(seed));
    EXPECT_EQ(mismatches, 0);
  }
};
/// Calls body(rng, number) for each case, or for the one that VICINAL_TEST_CASE names.
template <class Body>
void for_each_case(std::uint64_t seed, std::int64_t count, Tally& tally, Body body) {
  const char* single = std::getenv("VICINAL_TEST_CASE");
  const std::int64_t first = single ? std::atoll(single) : 0, last = single ? first + 1 : scaled(count);
  tally.cases = first;
  for (std::int64_t number = first; number < last; ++number) {
    Rng rng(seed * 1000003 + static_cast<std::uint64_t>(number));
    body(rng, number);
  }
  tally.cases -= first;
}

TEST(AdversarialLists, GraphsHaveTheBitsOfTheOracle) {
  Tally tally{seed_or(20250701)};
  for_each_case(tally.seed, 1400, tally, [&](Rng& rng, std::int64_t number) {
    const ListCase c = make_case(rng, number, true);
    const Table rows = all_rows(c);
    vicinal::GraphOptions options;
    options.search = c.options;
    options.include_self = rng.chance(0.15);
    options.symmetry = rng.chance(0.7);
    if (!options.search.pad) options.search.k = std::min(options.search.k, std::max<std::int64_t>(1, rows.n - 1));
    oracle::SearchSpec asked = spec(options.search);
    Filter filter = make_filter(rng, rng.chance(0.75) ? Condition::none : rng.pick(all_conditions), rows.n, rows.n);
    filter.plain.query_labels.clear();  // those of the rows
    filter.put(options.search, asked);
    const Setting setting = random_setting(rng);
    const oracle::Answer want = oracle::graph(rows.rows(), asked, options.include_self);
    std::string fault = check_graph(setting, rows.points(), options, want);
    if (fault.empty() && !want.error && rng.chance(0.3)) {
      const vicinal::Neighbors graph = vicinal::knn_graph(rows.points(), options);
      for (const bool both : {false, true})
        fault +=
            difference(vicinal::symmetrize(graph, both ? vicinal::Symmetrize::mutual : vicinal::Symmetrize::either),
                       oracle::symmetrized(want, both));
    }
    tally.add(fault, want.error.has_value(),
              c.text() + ", " + std::to_string(rows.n) + " rows, filter " + filter.name +
                  (options.include_self ? ", with self" : "") + (options.symmetry ? ", symmetry" : "") + ", " +
                  setting.text());
  });
  tally.close("graphs");
}

TEST(AdversarialLists, RangesHaveTheBitsOfTheOracle) {
  Tally tally{seed_or(20250702)};
  for_each_case(tally.seed, 1400, tally, [&](Rng& rng, std::int64_t number) {
    const ListCase c = make_case(rng, number, false);
    vicinal::RangeOptions options;
    options.search = c.options;
    if (rng.chance(0.1)) options.search.first_id = rng.chance(0.5) ? 1000 : std::int64_t{1} << 40;
    oracle::SearchSpec asked = spec(options.search);
    const double radius = draw_radius(rng, c, asked);
    Filter filter = make_filter(rng, rng.chance(0.75) ? Condition::none : rng.pick(all_conditions), c.corpus.n,
                                c.queries.n, options.search.first_id);
    filter.put(options.search, asked);
    const Setting setting = random_setting(rng);
    const oracle::Lists want = oracle::range(c.corpus.rows(), c.queries.rows(), radius, asked);
    char at[64];
    std::snprintf(at, sizeof at, "%.17g (%a)", radius, radius);
    tally.add(check_range(setting, c.corpus.points(), c.queries.points(), radius, options, want),
              want.error.has_value(), c.text() + ", radius " + at + ", filter " + filter.name + ", " + setting.text());
  });
  tally.close("ranges");
}

}  // namespace
}  // namespace conformance
