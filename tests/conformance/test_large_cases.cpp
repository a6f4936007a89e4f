// Seeded cases of hostile data, as large as the searches that guess thresholds, serve both sides of tiles or begin with
// a few queries alone, beside the same search by every pair ranked: no filter and no guess has a part in that. A failing
// case prints what is needed to run it alone:
// VICINAL_TEST_SEED=S VICINAL_TEST_CASE=N vicinal_conformance --gtest_filter=*LargeCases*
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <tuple>

#include "conformance/families.hpp"
#include "conformance/lists.hpp"
#include "vicinal/corpus.hpp"

namespace conformance {
namespace {

using vicinal::Neighbors;
using vicinal::Points;

enum class Way { at_once, kept, graph, range };
const char* way_name(Way way) {
  static const char* const names[] = {"at once", "kept", "graph", "range"};
  return names[static_cast<int>(way)];
}

/// What a case may have: the reference ranks every pair.
struct Limits {
  std::int64_t least_rows, most_rows, elements, queries, products;
  std::int64_t least_graph, most_graph;  // rows
};
// From 98,304 rows on a device's tiles serve both sides of a graph.
constexpr Limits on_device{4000, 2'000'000, 6'000'000, 4096, 20'000'000'000, 98304, 120000},
    on_host{2000, 60000, 1'500'000, 300, 300'000'000, 500, 1500};

struct LargeCase {
  const Family* family = nullptr;
  Way way = Way::at_once;
  Scene scene;
  vicinal::KnnOptions options;
  Table corpus, queries;
  Filter filter;
  std::string twists;
};

/// Rows and queries are made more hostile than their family is.
std::string twist(Rng& rng, Scene& s) {
  std::string done;
  const auto copy = [&](std::int64_t from, std::int64_t to) { std::copy_n(s.row(from), s.d, s.row(to)); };
  const auto any = [&] { return rng.between(0, s.n - 1); };
  std::vector<std::int64_t> order(static_cast<std::size_t>(s.n));
  std::iota(order.begin(), order.end(), 0);
  if (rng.chance(0.25)) {
    rng.shuffle(order);
    reorder_rows(s, order);
    done += " shuffled";
  } else if (rng.chance(0.15)) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return s.row(a)[0] < s.row(b)[0]; });
    reorder_rows(s, order);
    done += " sorted";
  }
  if (rng.chance(0.25)) {  // a few per cent of the rows about a few of them, for which more look near than may pass
    const double share = std::pow(10.0, -2.5 * rng.uniform()), width = std::pow(10.0, -1 - 6 * rng.uniform());
    const std::int64_t centres = rng.log_between(1, 300);
    std::vector<std::int64_t> at(static_cast<std::size_t>(centres));
    for (std::int64_t& centre : at) centre = any();
    for (std::int64_t i = 0; i < s.n; ++i) {
      if (!rng.chance(share)) continue;
      const std::int64_t centre = rng.pick(at);
      for (std::int64_t j = 0; j < s.d; ++j)
        s.row(i)[j] = s.row(centre)[j] + width * std::fabs(s.row(centre)[j]) * rng.gauss();
    }
    done += " crowded";
  }
  if (rng.chance(0.2)) {
    const double share = std::pow(10.0, -3 * rng.uniform());
    const std::int64_t sources = rng.log_between(1, s.n);
    for (std::int64_t i = 0; i < s.n; ++i)
      if (rng.chance(share)) copy(rng.between(0, sources - 1), i);
    done += " copied";
  }
  if (rng.chance(0.15)) {
    const double share = std::pow(10.0, -1 - 3 * rng.uniform());
    for (std::int64_t i = 0; i < s.n; ++i)
      if (rng.chance(share)) {
        const double times = 1 + 20 * rng.uniform();
        for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] *= times;
      }
    done += " lengthened";
  }
  if (rng.chance(0.3)) {
    const double noise = rng.chance(0.4) ? 0 : std::pow(10.0, -8 * rng.uniform());
    for (std::int64_t q = 0; q < s.q; ++q) {
      const std::int64_t from = any();
      for (std::int64_t j = 0; j < s.d; ++j)
        s.query(q)[j] = s.row(from)[j] + noise * std::fabs(s.row(from)[j]) * rng.gauss();
    }
    done += " queries of rows";
  }
  return done;
}

/// Everything of a case follows from the seed and its number.
LargeCase make_large_case(std::uint64_t seed, std::int64_t number, const Limits& limits, const char* device) {
  Rng rng(seed * 1000003 + static_cast<std::uint64_t>(number) * 7919);
  LargeCase c;
  c.family = &rng.pick(families());
  c.way =
      rng.pick(std::vector<Way>{Way::at_once, Way::at_once, Way::kept, Way::kept, Way::kept, Way::graph, Way::range});
  Scene& s = c.scene;
  Kind kind = rng.pick(all_kinds());
  const std::vector<Metric> products = {Metric::euclidean, Metric::sqeuclidean, Metric::cosine, Metric::inner_product,
                                        Metric::correlation};
  if (kind.metric == Metric::hamming || rng.chance(0.75)) kind.metric = rng.pick(products);  // which filters estimate
  if (rng.chance(0.5)) kind.dtype = DType::f32;
  s.dtype = kind.dtype;
  s.metric = kind.metric;
  const bool graph = c.way == Way::graph;
  s.n =
      graph ? rng.between(limits.least_graph, limits.most_graph) : rng.log_between(limits.least_rows, limits.most_rows);
  s.d = std::min(rng.log_between(2, 800), std::max<std::int64_t>(limits.elements / s.n, 2));
  s.q = graph ? 1 : rng.chance(0.3) ? rng.between(1, 20) : rng.log_between(1, limits.queries);
  s.q = std::clamp<std::int64_t>(limits.products / s.n / s.d, 1, s.q);
  const std::int64_t most_k = std::min<std::int64_t>(s.n - 1, graph ? 100 : 5000);
  s.k = std::min(rng.chance(0.7) ? rng.log_between(1, 100) : rng.log_between(1, most_k), most_k);
  s.resize(s.d);
  c.family->fill(rng, s);
  s.k = std::min(s.k, s.n - 1);
  c.twists = twist(rng, s);
  std::tie(c.corpus, c.queries) = to_tables(s);
  c.options.metric = kind.metric;
  c.options.k = s.k;
  c.options.degenerate = rng.chance(0.9) ? vicinal::Degenerate::one : vicinal::Degenerate::error;
  c.options.run.device = device;
  if (rng.chance(0.2)) c.options.distance_type = vicinal::DistanceType::f64;
  if (!graph && rng.chance(0.15)) {
    c.filter = make_filter(rng, rng.pick(all_conditions), c.corpus.n, c.queries.n);
    c.options.pad = true;
  }
  return c;
}

std::string text_of(const LargeCase& c, std::uint64_t seed, std::int64_t number, const Setting& setting) {
  return std::string(way_name(c.way)) + ", family " + c.family->name + c.twists +
         ", VICINAL_TEST_SEED=" + std::to_string(seed) + " VICINAL_TEST_CASE=" + std::to_string(number) +
         ", n=" + std::to_string(c.corpus.n) + " Q=" + std::to_string(c.queries.n) +
         " d=" + std::to_string(c.corpus.d) + " k=" + std::to_string(c.options.k) + ", " +
         metric_name(c.options.metric) + " " + vicinal::dtype_name(c.corpus.dtype) + " to " +
         vicinal::distance_type_name(c.options.distance_type) +
         (c.filter.name.empty() ? "" : ", eligible " + c.filter.name) + ", " + setting.text();
}

/// The result of a call, or the error that it ended with.
template <class Result>
struct Ended {
  std::optional<Result> result;
  Refusal error;
};
template <class Call>
auto ended(const Call& call) {
  Ended<decltype(call())> end;
  end.error = refusal([&] { end.result.emplace(call()); });
  return end;
}
template <class Result>
std::string errors_differ(const Ended<Result>& got, const Ended<Result>& want) {
  if (got.error.code == want.error.code) return "";
  return "ended with \"" + got.error.message + "\", by every pair with \"" + want.error.message + "\"";
}

/// "" where the lists of the first queries, `rows` of k entries, begin with the same bits, and are certified.
std::string lists_differ(const Ended<Neighbors>& got, const Ended<Neighbors>& want, std::int64_t rows, std::int64_t k) {
  if (std::string fault = errors_differ(got, want); !fault.empty() || got.error.code) return fault;
  const Neighbors &a = *got.result, &b = *want.result;
  if (a.rows() != rows || a.k() != k || a.type() != b.type())
    return std::to_string(a.rows()) + " lists of " + std::to_string(a.k()) + " " +
           vicinal::distance_type_name(a.type());
  if (a.certificate.queries != rows || !a.certificate.all()) return "not all lists are certified";
  if ((a.counts() != nullptr) != (b.counts() != nullptr)) return "one of them counts its entries";
  if (a.counts() != nullptr && k == b.k() &&
      std::memcmp(a.counts(), b.counts(), static_cast<std::size_t>(rows) * 8) != 0)
    return "counts differ";
  const auto bytes = static_cast<std::int64_t>(vicinal::distance_size(a.type()));
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    const bool ids =
        std::memcmp(a.ids() + row * a.k(), b.ids() + row * b.k(), static_cast<std::size_t>(a.k()) * 8) == 0;
    const bool distances = std::memcmp(static_cast<const std::byte*>(a.distances()) + row * a.k() * bytes,
                                       static_cast<const std::byte*>(b.distances()) + row * b.k() * bytes,
                                       static_cast<std::size_t>(a.k() * bytes)) == 0;
    if (ids && distances) continue;
    if (first < 0) first = row;
    ++wrong;
  }
  if (wrong == 0) return "";
  return std::to_string(wrong) + " of " + std::to_string(a.rows()) + " lists differ, the first of query " +
         std::to_string(first);
}
std::string ranges_differ(const Ended<vicinal::CsrNeighbors>& got, const Ended<vicinal::CsrNeighbors>& want) {
  if (std::string fault = errors_differ(got, want); !fault.empty() || got.error.code) return fault;
  const vicinal::CsrNeighbors &a = *got.result, &b = *want.result;
  if (a.rows() != b.rows() || a.type() != b.type()) return "rows or types differ";
  if (a.entries() != b.entries())
    return std::to_string(a.entries()) + " entries, by every pair " + std::to_string(b.entries());
  const auto size = static_cast<std::size_t>(a.entries());
  return std::memcmp(a.offsets(), b.offsets(), static_cast<std::size_t>(a.rows() + 1) * 8) == 0 &&
                 std::memcmp(a.ids(), b.ids(), size * 8) == 0 &&
                 std::memcmp(a.distances(), b.distances(), size * vicinal::distance_size(a.type())) == 0
             ? ""
             : "entries differ";
}

/// Every pair of a graph of many rows takes seconds: tiles that serve one side, filtered in floats by proved thresholds,
/// are beside both sides, and every pair of some rows.
std::string fault_of_graph(Rng& rng, const Points& rows, const vicinal::KnnOptions& options,
                           const vicinal::KnnOptions& plain, std::int64_t& pairs) {
  const bool large = rows.rows > 20000;
  vicinal::GraphOptions one{.search = plain, .include_self = rng.chance(0.3), .symmetry = false};
  one.search.run.filter = large ? "f32" : "canonical";
  const auto want = ended([&] { return vicinal::knn_graph(rows, one); });
  pairs += rows.rows * rows.rows;
  vicinal::GraphOptions graph = one;
  graph.search = options;
  graph.symmetry = true;
  for (int call = 0; call < 2; ++call) {
    const std::string fault =
        lists_differ(ended([&] { return vicinal::knn_graph(rows, graph); }), want, rows.rows, plain.k);
    if (!fault.empty()) return "call " + std::to_string(call) + ": " + fault;
  }
  if (!large || want.error.code) return "";
  const std::int64_t count = 256, first = rng.between(0, rows.rows - count), k = plain.k;
  vicinal::KnnOptions every = plain;
  every.k = k + (one.include_self ? 0 : 1);
  const auto ranked = ended([&] { return vicinal::knn(rows, rows.slice(first, count), every); });
  if (ranked.error.code) return "";  // of the neighbour beyond the list, whose distance is beyond its type
  const Neighbors& lists = *ranked.result;
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t i = 0, at = 0; i < k; ++i, ++at) {
      if (!one.include_self && lists.id(row, at) == first + row) ++at;
      const double distances[] = {want.result->distance(first + row, i), lists.distance(row, at)};
      if (want.result->id(first + row, i) != lists.id(row, at) || std::memcmp(distances, distances + 1, 8) != 0)
        return "the list of row " + std::to_string(first + row) + " differs from that of every pair";
    }
  return "";
}

/// The search in a setting beside every pair; "" where they agree. `pairs` counts those.
std::string fault_of(Rng& rng, const LargeCase& c, const Setting& setting, std::int64_t& pairs) {
  const Points corpus = c.corpus.points(), queries = c.queries.points();
  vicinal::KnnOptions plain = c.options;
  if (!c.filter.name.empty()) plain.eligible = c.filter.view();
  plain.run.filter = "canonical";
  Setting ample = setting;
  ample.memory = Memory::ample;  // but where one call prepares and searches
  const vicinal::KnnOptions options = apply(ample, plain, corpus, queries);
  if (c.way == Way::graph) return fault_of_graph(rng, corpus, options, plain, pairs);
  pairs += corpus.rows * queries.rows;
  const auto want = ended([&] { return vicinal::knn(corpus, queries, plain); });
  if (c.way == Way::range) {
    double radius = 1;
    if (want.result) {  // of about k entries a query
      const std::int64_t row = rng.between(0, queries.rows - 1);
      const std::int64_t entries = want.result->counts() != nullptr ? want.result->counts()[row] : plain.k;
      if (entries > 0) radius = want.result->distance(row, entries - 1);
    }
    vicinal::RangeOptions range{.search = options}, every{.search = plain};
    range.search.pad = every.search.pad = false;
    range.max_results = every.max_results = 50'000'000;
    return ranges_differ(ended([&] { return vicinal::range_search(corpus, queries, radius, range); }),
                         ended([&] { return vicinal::range_search(corpus, queries, radius, every); }));
  }
  if (c.way == Way::at_once) {
    const vicinal::KnnOptions within = apply(setting, options, [&](const vicinal::KnnOptions& asked) {
      return vicinal::plan(shape_of(corpus), shape_of(queries), asked);
    });
    return lists_differ(ended([&] { return vicinal::knn(corpus, queries, within); }), want, queries.rows, plain.k);
  }
  vicinal::CorpusOptions keep;
  keep.metric = options.metric;
  keep.degenerate = options.degenerate;
  keep.run = options.run;
  const auto kept = ended([&] { return std::make_shared<vicinal::Corpus>(corpus, keep); });
  if (kept.error.code)
    return want.error.code == kept.error.code ? "" : "preparing ended with \"" + kept.error.message + '"';
  // What one call leaves in the memory of a device is no part of the next one's answer.
  for (int call = 0; call < 4; ++call) {
    vicinal::KnnOptions some = options;
    Points asked = queries;
    if (call % 2 == 1) {
      some.k = rng.between(1, options.k);
      if (c.filter.name.empty()) asked = queries.slice(0, rng.log_between(1, queries.rows));
    }
    const auto got = ended([&] { return (*kept.result)->knn(asked, some); });
    if (got.error.code && call % 2 == 1 && !want.error.code)
      return "call " + std::to_string(call) + ": " + got.error.message;
    if (call % 2 == 1 && want.error.code) continue;  // of queries that this call has not
    const std::string fault = lists_differ(got, want, asked.rows, some.k);
    if (!fault.empty())
      return "call " + std::to_string(call) + " of " + std::to_string(asked.rows) +
             " queries, k=" + std::to_string(some.k) + ": " + fault;
  }
  return "";
}

void run_large_cases(const Limits& limits, const char* device, std::int64_t count) {
  const std::uint64_t seed = seed_or(20261128);
  const char* single = std::getenv("VICINAL_TEST_CASE");
  const std::int64_t first = single != nullptr ? std::atoll(single) : 0, last = single != nullptr ? first + 1 : count;
  std::int64_t mismatches = 0, pairs = 0;
  const bool host = std::strcmp(device, "cpu") == 0, verbose = std::getenv("VICINAL_TEST_VERBOSE") != nullptr;
  for (std::int64_t number = first; number < last; ++number) {
    const LargeCase c = make_large_case(seed, number, limits, device);
    Rng rng(seed ^ static_cast<std::uint64_t>(number) << 20);
    Setting setting;
    if (host) {
      setting = random_setting(rng);
    } else {
      setting.instruction_set = rng.chance(0.8) ? "auto" : "mma";
      setting.filter =
          rng.pick(std::vector<std::string>{"auto", "auto", "auto", "auto", "auto", "int8", "fp16", "f32"});
      if (rng.chance(0.2)) setting.memory = rng.pick(all_memory);
    }
    if (verbose) {  // before the search, which may end the program
      std::printf("%s\n", text_of(c, seed, number, setting).c_str());
      std::fflush(stdout);
    }
    const std::string fault = fault_of(rng, c, setting, pairs);
    if (fault.empty()) continue;
    if (++mismatches <= 10) ADD_FAILURE() << text_of(c, seed, number, setting) << "\n  " << fault;
  }
  std::printf("%lld large cases on %s, %.3g pairs, %lld mismatches, seed %llu\n", static_cast<long long>(last - first),
              device, static_cast<double>(pairs), static_cast<long long>(mismatches),
              static_cast<unsigned long long>(seed));
}

TEST(LargeCases, HaveTheBitsOfEveryPairRanked) { run_large_cases(on_host, "cpu", scaled(400)); }

TEST(CudaLargeCases, HaveTheBitsOfEveryPairRanked) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  run_large_cases(on_device, "cuda", scaled(40));
}

}  // namespace
}  // namespace conformance
