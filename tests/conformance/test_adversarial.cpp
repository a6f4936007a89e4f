// At least 20,000 seeded cases over all families, metrics, types and settings; ids and distances, or the error that is
// due, compared bit for bit with the oracle. A failing case prints what is needed to run it alone:
// VICINAL_TEST_SEED=S VICINAL_TEST_CASE=N vicinal_conformance --gtest_filter=Adversarial.*
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <tuple>

#include "conformance/families.hpp"
#include "conformance/settings.hpp"

namespace conformance {
namespace {

struct Case {
  const Family* family = nullptr;
  Scene scene;
  vicinal::KnnOptions options;
  Table corpus, queries;
  std::string text(std::uint64_t seed, std::int64_t number, const Setting& setting) const {
    return std::string("family ") + family->name + ", seed " + std::to_string(seed) + ", case " +
           std::to_string(number) + ", n=" + std::to_string(corpus.n) + " Q=" + std::to_string(queries.n) +
           " d=" + std::to_string(corpus.d) + " k=" + std::to_string(options.k) + ", " + metric_name(options.metric) +
           " " + vicinal::dtype_name(corpus.dtype) + " against " + vicinal::dtype_name(queries.dtype) + " to " +
           vicinal::distance_type_name(options.distance_type) +
           (options.degenerate == vicinal::Degenerate::one ? ", degenerate=one" : "") + ", " + setting.text();
  }
};

std::int64_t draw_k(Rng& rng, std::int64_t n) {
  const std::vector<std::int64_t> ks = {1, 2, 10, 31, 32, 33, 64, 100, 129, n - 1, n, rng.log_between(1, n)};
  return std::clamp<std::int64_t>(rng.pick(ks), 1, n);
}

// Everything of a case follows from (seed, number), so any case can be run alone.
Case make_case(std::uint64_t seed, std::int64_t number) {
  Rng rng(seed * 1000003 + static_cast<std::uint64_t>(number));
  Case c;
  c.family = &families()[static_cast<std::size_t>(number) % families().size()];
  const Kind kind = rng.pick(all_kinds());
  Scene& s = c.scene;
  s.dtype = kind.dtype;
  s.metric = kind.metric;
  s.n = rng.log_between(1, 3000);
  s.q = rng.log_between(1, 12);
  s.d = rng.log_between(1, 160);
  while (s.n * s.q * s.d > 250000) (s.q > 2 ? s.q : s.d > 2 ? s.d : s.n) /= 2;
  s.k = draw_k(rng, s.n);
  s.resize(s.d);
  c.family->fill(rng, s);
  std::tie(c.corpus, c.queries) = to_tables(s);
  if (kind.metric != Metric::hamming && rng.chance(0.06)) {
    Scene other = s;
    other.dtype = rng.pick(all_dtypes);
    c.queries = to_tables(other).second;
  }
  c.options.metric = kind.metric;
  c.options.k = s.k;
  if (kind.metric != Metric::hamming && rng.chance(0.4))
    c.options.distance_type = rng.chance(0.6) ? vicinal::DistanceType::f64 : vicinal::DistanceType::f32;
  if (rng.chance(0.3)) c.options.degenerate = vicinal::Degenerate::one;
  if (rng.chance(0.1)) c.options.pad = true, c.options.k = s.k + rng.between(0, 3);
  if (rng.chance(0.1)) c.options.first_id = rng.between(0, 1) ? 1000 : std::int64_t{1} << 40;
  return c;
}

TEST(Adversarial, ThereAreAtLeastFortyFamiliesWithDistinctNames) {
  std::set<std::string> names;
  for (const Family& family : families()) names.insert(family.name);
  EXPECT_EQ(names.size(), families().size());
  EXPECT_GE(names.size(), 40u);
}

TEST(Adversarial, EveryCaseHasTheBitsOfTheOracle) {
  const std::uint64_t seed = seed_or(20240601);
  const char* single = std::getenv("VICINAL_TEST_CASE");
  const std::int64_t first = single ? std::atoll(single) : 0, last = single ? first + 1 : scaled(20480);
  std::int64_t mismatches = 0, errors_due = 0;
  for (std::int64_t number = first; number < last; ++number) {
    const Case c = make_case(seed, number);
    Rng rng(seed ^ static_cast<std::uint64_t>(number) << 20);
    const Setting setting = random_setting(rng);
    const oracle::Answer want = oracle::knn(c.corpus.rows(), c.queries.rows(), question(c.options));
    errors_due += want.error.has_value();
    std::string fault;
    try {
      fault = check(c.corpus.points(), c.queries.points(),
                    apply(setting, c.options, c.corpus.points(), c.queries.points()), want);
    } catch (const vicinal::Error& error) {
      fault = std::string("plan threw ") + error.what();
    }
    if (fault.empty()) continue;
    if (++mismatches <= 10) ADD_FAILURE() << c.text(seed, number, setting) << "\n  " << fault;
  }
  std::printf("%lld adversarial cases (%lld of them errors that are due), %zu families, %lld mismatches, seed %llu\n",
              static_cast<long long>(last - first), static_cast<long long>(errors_due), families().size(),
              static_cast<long long>(mismatches), static_cast<unsigned long long>(seed));
  EXPECT_EQ(mismatches, 0);
}

}  // namespace
}  // namespace conformance
