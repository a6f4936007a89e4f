// Searches of strings against full tables of edits: words, accents, empty and equal strings, long texts with few edits, every
// instruction set and number of threads; ranges, graphs, eligible rows; what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "conformance/lists.hpp"
#include "oracle/strings.hpp"

namespace conformance {
namespace {
using oracle::Text;
using vicinal::Encoding;
using vicinal::ErrorCode;
using vicinal::KnnOptions;
using vicinal::StringList;

std::string utf8(const Text& text) {
  std::string out;
  for (const char32_t c : text) {
    const auto u = static_cast<std::uint32_t>(c);
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (u < 0x80) {
      put(u);
    } else if (u < 0x800) {
      put(0xC0 | u >> 6), put(0x80 | (u & 63));
    } else if (u < 0x10000) {
      put(0xE0 | u >> 12), put(0x80 | (u >> 6 & 63)), put(0x80 | (u & 63));
    } else {
      put(0xF0 | u >> 18), put(0x80 | (u >> 12 & 63)), put(0x80 | (u >> 6 & 63)), put(0x80 | (u & 63));
    }
  }
  return out;
}

StringList listed(const std::vector<Text>& texts, Encoding encoding = Encoding::utf8) {
  std::vector<std::string> kept;
  for (const Text& text : texts) {
    if (encoding == Encoding::utf8) kept.push_back(utf8(text));
    else if (encoding == Encoding::utf32)
      kept.emplace_back(reinterpret_cast<const char*>(text.data()), text.size() * 4);
    else kept.emplace_back(text.begin(), text.end());
  }
  return {std::vector<std::string_view>(kept.begin(), kept.end()), encoding};
}

/// What strings may look like: `symbols` of an alphabet that starts at `from`, lengths in [low, high].
struct Style {
  const char* name;
  std::uint32_t from, symbols;
  std::int64_t low, high;
};
const std::vector<Style> styles = {
    {"words", 'a', 26, 1, 14}, {"short", 'a', 3, 0, 3},       {"mixed", 'a', 5, 0, 70},
    {"DNA", 'A', 4, 25, 40},   {"accents", 0xC0, 400, 0, 12}, {"emoji", 0x1F300, 40, 3, 20},
    {"edges", 'a', 2, 60, 68}, {"texts", ' ', 60, 50, 420},   {"ideograms", 0x4E00, 3000, 2, 150},
    {"codes", 'a', 4, 24, 24}, {"reads", 'A', 4, 149, 150}};

Text random_text(Rng& rng, const Style& style) {
  Text text(static_cast<std::size_t>(rng.between(style.low, style.high)), U'?');
  for (char32_t& c : text)
    c = static_cast<char32_t>(style.from + static_cast<std::uint32_t>(rng.between(0, style.symbols - 1)));
  return text;
}
/// A few random edits.
Text edited(Rng& rng, Text text, std::int64_t edits, const Style& style) {
  for (; edits > 0; --edits) {
    const auto at = static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(text.size())));
    const char32_t c =
        static_cast<char32_t>(style.from + static_cast<std::uint32_t>(rng.between(0, style.symbols - 1)));
    const std::int64_t kind = rng.between(0, 2);
    if (kind == 0) text.insert(at, 1, c);
    else if (at < text.size() && kind == 1) text.erase(at, 1);
    else if (at < text.size()) text[at] = c;
  }
  return text;
}
/// Random strings, near copies of some of them, and duplicates.
std::vector<Text> corpus_of(Rng& rng, const Style& style, std::int64_t n) {
  std::vector<Text> texts;
  while (static_cast<std::int64_t>(texts.size()) < n) {
    if (texts.empty() || rng.chance(0.6)) texts.push_back(random_text(rng, style));
    else
      texts.push_back(
          edited(rng, texts[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(texts.size()) - 1))],
                 rng.between(0, 3), style));
  }
  return texts;
}
std::vector<Text> queries_of(Rng& rng, const Style& style, const std::vector<Text>& corpus, std::int64_t n) {
  std::vector<Text> queries;
  for (std::int64_t i = 0; i < n; ++i) {
    if (i % 5 == 4)
      queries.push_back(random_text(
          rng, {"", style.from + 1, style.symbols, 0, style.high + 9}));  // partly of no symbol of the corpus
    else queries.push_back(edited(rng, rng.pick(corpus), rng.between(0, 4), style));
  }
  return queries;
}

KnnOptions ask(Metric metric, std::int64_t k, std::int64_t ngram = 0) {
  KnnOptions options;
  options.metric = metric;
  options.k = k;
  options.strings.ngram = ngram;
  options.strings.max_length = 2'000'000;
  return options;
}
std::string name_of(Metric metric) { return std::string(vicinal::metric_info(metric).name); }

using Allows = std::function<bool(std::int64_t, std::int64_t)>;
const Allows everyone = [](std::int64_t, std::int64_t) { return true; };

/// All pairs ranked, so that one table serves every k and radius.
std::vector<std::vector<oracle::Entry>> rank_all(const std::vector<Text>& corpus, const std::vector<Text>& queries,
                                                 const KnnOptions& options, const Allows& allows = everyone) {
  std::vector<std::vector<oracle::Entry>> all;
  for (std::size_t q = 0; q < queries.size(); ++q)
    all.push_back(oracle::ranked_strings(corpus, queries[q], name_of(options.metric), options.strings.ngram,
                                         options.distance_type == vicinal::DistanceType::f64,
                                         [&](std::int64_t row) { return allows(static_cast<std::int64_t>(q), row); }));
  return all;
}

std::string compare(const vicinal::Neighbors& got, const std::vector<std::vector<oracle::Entry>>& want,
                    std::int64_t first_id = 0) {
  for (std::int64_t q = 0; q < got.rows(); ++q)
    for (std::int64_t i = 0; i < got.k(); ++i) {
      const auto& ranked = want[static_cast<std::size_t>(q)];
      const bool missing = i >= static_cast<std::int64_t>(ranked.size());
      const std::int64_t id = missing ? -1 : ranked[static_cast<std::size_t>(i)].id + first_id;
      if (got.id(q, i) != id || (!missing && got.distance(q, i) != ranked[static_cast<std::size_t>(i)].key))
        return "query " + std::to_string(q) + " rank " + std::to_string(i) + ": id " + std::to_string(got.id(q, i)) +
               " at " + std::to_string(got.distance(q, i)) + ", not " + std::to_string(id) + " at " +
               (missing ? "none" : std::to_string(ranked[static_cast<std::size_t>(i)].key));
    }
  return got.certificate.all() && got.certificate.queries == got.rows() ? ""
                                                                        : "the certificate is not that of every query";
}
std::string compare(const vicinal::CsrNeighbors& got, const std::vector<std::vector<oracle::Entry>>& want,
                    double radius) {
  for (std::int64_t q = 0; q < got.rows(); ++q) {
    std::int64_t i = 0;
    for (const oracle::Entry& entry : want[static_cast<std::size_t>(q)]) {
      if (!(entry.key <= radius)) break;
      if (i >= got.count(q) || got.id(q, i) != entry.id || got.distance(q, i) != entry.key)
        return "query " + std::to_string(q) + " entry " + std::to_string(i) + " of " + std::to_string(got.count(q)) +
               " is not id " + std::to_string(entry.id);
      ++i;
    }
    if (i != got.count(q))
      return "query " + std::to_string(q) + " has " + std::to_string(got.count(q)) + " matches, not " +
             std::to_string(i);
  }
  return "";
}

class StringSearch : public testing::TestWithParam<Metric> {
 protected:
  KnnOptions options(std::int64_t k, std::int64_t ngram = 0) const {
    return ask(GetParam(), k, GetParam() == Metric::jaccard ? ngram : 0);
  }
  std::vector<Style> of_metric() const {
    if (GetParam() != Metric::hamming) return styles;
    std::vector<Style> fixed;
    for (const Style& style : styles) fixed.push_back({style.name, style.from, style.symbols, style.high, style.high});
    return fixed;
  }
  /// Strings of one length where the metric wants that.
  std::vector<Text> even(std::vector<Text> texts, const Style& style) const {
    if (GetParam() == Metric::hamming)
      for (Text& text : texts) text.resize(static_cast<std::size_t>(style.high), static_cast<char32_t>(style.from));
    return texts;
  }
};

TEST_P(StringSearch, EveryInstructionSetAndThreadCountHasTheBitsOfTheOracle) {
  Rng rng(seed_or(900)), share(24);
  for (const Style& style : of_metric()) {
    const std::int64_t n = style.high > 64 ? scaled(150) : scaled(420);
    const std::vector<Text> corpus = even(corpus_of(rng, style, n), style),
                            queries = even(queries_of(rng, style, corpus, 11), style);
    const StringList c = listed(corpus), q = listed(queries);
    const std::int64_t ngram = rng.between(0, 3);
    const auto want = rank_all(corpus, queries, options(1, ngram));
    for (const std::string& set : instruction_sets())
      for (const int threads : all_threads)
        for (const std::int64_t k : {std::int64_t{1}, std::int64_t{5}, n}) {
          if (!in_share(share, 0.15)) continue;
          KnnOptions wanted = options(k, ngram);
          wanted.run.instruction_set = set;
          wanted.run.threads = threads;
          const vicinal::Neighbors got = vicinal::knn(c.view(), q.view(), wanted);
          ASSERT_EQ(compare(got, want), "") << style.name << " " << set << " threads " << threads << " k " << k;
          ASSERT_EQ(got.stats.instruction_set, set);
        }
  }
}

TEST_P(StringSearch, RangesOnAReturnedValueAndBeside) {
  Rng rng(seed_or(901));
  for (const Style& style : of_metric()) {
    const std::vector<Text> corpus = even(corpus_of(rng, style, scaled(150)), style),
                            queries = even(queries_of(rng, style, corpus, 6), style);
    const StringList c = listed(corpus), q = listed(queries);
    const auto want = rank_all(corpus, queries, options(1, 2));
    const double some = want[0][want[0].size() / 3].key;
    for (const double radius : {-1.0, 0.0, 1.0, 2.0, 3.0, some, std::nextafter(some, 0.0), std::nextafter(some, 9e9),
                                0.5, 1e300, static_cast<double>(INFINITY)}) {
      vicinal::RangeOptions wanted{.search = options(1, 2)};
      wanted.search.run.instruction_set = rng.pick(instruction_sets());
      wanted.search.run.threads = rng.pick(all_threads);
      ASSERT_EQ(compare(vicinal::range_search(c.view(), q.view(), radius, wanted), want, radius), "")
          << style.name << " radius " << radius;
    }
  }
}

TEST_P(StringSearch, GraphsLeaveOutTheRowItself) {
  Rng rng(seed_or(902));
  const Style style = of_metric()[0];
  const std::vector<Text> rows = even(corpus_of(rng, style, 150), style);
  for (const bool include : {false, true}) {
    const auto want =
        rank_all(rows, rows, options(1), [&](std::int64_t query, std::int64_t row) { return include || query != row; });
    vicinal::GraphOptions wanted{.search = options(7), .include_self = include};
    wanted.search.run.threads = 2;
    EXPECT_EQ(compare(vicinal::knn_graph(listed(rows).view(), wanted), want), "");
    wanted.search.k = 151;
    EXPECT_EQ(refusal([&] { vicinal::knn_graph(listed(rows).view(), wanted); }).code, ErrorCode::invalid_argument);
    wanted.search.pad = true;
    EXPECT_EQ(compare(vicinal::knn_graph(listed(rows).view(), wanted), want), "");
  }
}

TEST_P(StringSearch, EligibleRowsPaddingAndIds) {
  Rng rng(seed_or(903));
  const Style style = of_metric()[0];
  const std::vector<Text> corpus = even(corpus_of(rng, style, 130), style),
                          queries = even(queries_of(rng, style, corpus, 9), style);
  for (const Condition condition : all_conditions) {
    const std::int64_t first_id = rng.between(0, 1) * 1000;
    const Filter filter = make_filter(rng, condition, 130, 9, first_id);
    KnnOptions wanted = options(20);
    wanted.first_id = first_id;
    wanted.pad = true;
    wanted.eligible = filter.view();
    const auto want = rank_all(corpus, queries, wanted, [&](std::int64_t query, std::int64_t row) {
      return filter.plain.admits(query, row, first_id);
    });
    const vicinal::Neighbors got = vicinal::knn(listed(corpus).view(), listed(queries).view(), wanted);
    EXPECT_EQ(compare(got, want, first_id), "") << filter.name;
    for (std::int64_t q = 0; q < 9; ++q)
      EXPECT_EQ(got.counts()[q],
                std::min<std::int64_t>(20, static_cast<std::int64_t>(want[static_cast<std::size_t>(q)].size())))
          << filter.name;
  }
}

TEST_P(StringSearch, EncodingsAndPartsAreOneAnswer) {
  Rng rng(seed_or(904));
  const Style style = {"latin", 0xC0, 50, GetParam() == Metric::hamming ? 9 : 0, 9};
  const std::vector<Text> corpus = even(corpus_of(rng, style, 200), style),
                          queries = even(queries_of(rng, style, corpus, 8), style);
  std::vector<Text> latin = queries;
  for (Text& text : latin)
    for (char32_t& c : text) c = std::min<char32_t>(c, 255);
  const KnnOptions wanted = options(9);
  const auto want = rank_all(corpus, latin, wanted);
  for (const Encoding encoding : {Encoding::utf8, Encoding::utf32, Encoding::bytes})
    EXPECT_EQ(compare(vicinal::knn(listed(corpus, encoding).view(), listed(latin, encoding).view(), wanted), want), "");
  std::vector<vicinal::Neighbors> parts;
  std::vector<vicinal::NeighborsView> views;
  for (const std::int64_t first : {0, 70, 130}) {
    const std::int64_t last = first == 0 ? 70 : first == 70 ? 130 : 200;
    KnnOptions part = wanted;
    part.first_id = first;
    parts.push_back(
        vicinal::knn(listed({corpus.begin() + first, corpus.begin() + last}).view(), listed(latin).view(), part));
  }
  for (const vicinal::Neighbors& part : parts) views.push_back(part.view());
  vicinal::Neighbors merged = vicinal::merge(views, {.k = 9, .metric = GetParam()});
  merged.certificate = parts[0].certificate;
  EXPECT_EQ(compare(merged, want), "");
}

std::vector<Metric> string_metrics() {
  std::vector<Metric> found;
  for (const vicinal::MetricInfo& info : vicinal::metrics())
    if (info.strings) found.push_back(info.metric);
  return found;
}
INSTANTIATE_TEST_SUITE_P(All, StringSearch, testing::ValuesIn(string_metrics()),
                         [](const auto& info) { return name_of(info.param); });

TEST(Strings, LongTextsByStrips) {
  Rng rng(seed_or(905));
  const Style style{"long", 'a', 4, 500, 1300};
  std::vector<Text> corpus;
  for (int i = 0; i < 6; ++i) corpus.push_back(random_text(rng, style));
  for (int i = 0; i < 12; ++i)
    corpus.push_back(edited(rng, corpus[static_cast<std::size_t>(i % 6)], rng.between(0, 200), style));
  corpus.emplace_back();
  corpus.push_back(Text(1024, U'a'));
  corpus.push_back(Text(1025, U'b'));
  const std::vector<Text> queries = {corpus[3], edited(rng, corpus[5], 90, style), Text(1024, U'a'), Text(),
                                     Text(1, U'b')};
  for (const Metric metric : {Metric::levenshtein, Metric::normalized_levenshtein}) {
    const auto want = rank_all(corpus, queries, ask(metric, 1));
    for (const std::string& set : instruction_sets())
      for (const std::int64_t k : {1, 4, 21}) {
        KnnOptions wanted = ask(metric, k);
        wanted.run.instruction_set = set;
        ASSERT_EQ(compare(vicinal::knn(listed(corpus).view(), listed(queries).view(), wanted), want), "")
            << set << " k " << k;
      }
    for (const double radius : {0.0, 3.0, 64.0, 100.0, 700.0, 0.05})
      ASSERT_EQ(compare(vicinal::range_search(listed(corpus).view(), listed(queries).view(), radius,
                                              {.search = ask(metric, 1)}),
                        want, radius),
                "")
          << radius;
  }
}

// Some letters at one end less, as many at the other more: the cheapest way leaves the diagonal as far as its cost allows, so a
// radius of just that cost needs every diagonal of a band.
TEST(Strings, RotatedTextsAtJustTheirDistance) {
  Rng rng(seed_or(908));
  for (const std::int64_t length : {17, 31, 64, 90}) {
    const Style style{"rotated", 'a', 26, length, length};
    std::vector<Text> corpus, queries;
    for (int i = 0; i < 64; ++i) corpus.push_back(random_text(rng, style));
    for (std::size_t turn = 1; turn <= 8; ++turn) {
      const Text& text = corpus[turn * 5];
      queries.push_back(text.substr(turn) + text.substr(0, turn));
      queries.push_back(text.substr(text.size() - turn) + text.substr(0, text.size() - turn));
      queries.push_back(text.substr(turn));
      queries.push_back(text.substr(0, text.size() - turn) + Text(2 * turn, U'!'));
    }
    const StringList c = listed(corpus), q = listed(queries);
    const auto want = rank_all(corpus, queries, ask(Metric::levenshtein, 1));
    for (const std::string& set : instruction_sets())
      for (std::int64_t radius = 0; radius <= 18; ++radius) {
        vicinal::RangeOptions wanted{.search = ask(Metric::levenshtein, 1)};
        wanted.search.run.instruction_set = set;
        const vicinal::CsrNeighbors got =
            vicinal::range_search(c.view(), q.view(), static_cast<double>(radius), wanted);
        ASSERT_EQ(compare(got, want, static_cast<double>(radius)), "")
            << set << " length " << length << " radius " << radius;
      }
  }
}

TEST(Strings, AMillionLetters) {
  Rng rng(seed_or(906));
  const Style style{"genome", 'A', 4, 1'000'000, 1'000'000};
  const std::int64_t length = sanitized ? 60'000 : 1'000'000;
  Text genome = random_text(rng, style);
  genome.resize(static_cast<std::size_t>(length));
  Text changed = genome;  // substitutions alone, far apart: no other way is shorter
  for (std::size_t i = 0; i < 40; ++i) changed[i * 1000 + 17] = changed[i * 1000 + 17] == U'A' ? U'C' : U'A';
  const Text shorter = genome.substr(0, genome.size() - 33);
  KnnOptions wanted = ask(Metric::levenshtein, 3);
  const vicinal::Neighbors got =
      vicinal::knn(listed({shorter, changed, genome}).view(), listed({genome}).view(), wanted);
  EXPECT_EQ(got.id(0, 0), 2);
  EXPECT_EQ(got.distance(0, 0), 0);
  EXPECT_EQ(got.id(0, 1), 0);
  EXPECT_EQ(got.distance(0, 1), 33);
  EXPECT_EQ(got.id(0, 2), 1);
  EXPECT_EQ(got.distance(0, 2), 40);
  // Long strings and short queries: on a device a kernel has both, and leaves the long query to the host.
  const StringList corpus = listed({shorter, changed, genome, U"", genome.substr(7, 800)}),
                   queries = listed({genome.substr(7, 900), U"", genome});
  const vicinal::Neighbors by_cpu = vicinal::knn(corpus.view(), queries.view(), wanted);
  for (const vicinal::Device& device : vicinal::devices()) {
    if (!device.usable || device.name == "cpu") continue;
    KnnOptions there = wanted;
    there.run.device = device.name;
    EXPECT_EQ(difference(vicinal::knn(corpus.view(), queries.view(), there), by_cpu), "") << device.name;
  }
  wanted.strings.max_length = length - 1;
  wanted.k = 1;
  const Refusal long_one = refusal([&] {
    vicinal::knn(listed({shorter, changed}).view(), listed({shorter}).view(), wanted);
  });
  EXPECT_EQ(long_one.code, ErrorCode::invalid_argument);
  EXPECT_NE(long_one.message.find("corpus string 1 has " + std::to_string(length) + " symbols"), std::string::npos)
      << long_one.message;
}

// On a machine with a device: the same as the CPU, to the bit. Elsewhere its code runs on the emulator (tests/unit/cuda).
TEST(CudaStrings, BitsOfTheCpu) {
  Rng rng(seed_or(909));
  bool any = false;
  for (const vicinal::Device& device : vicinal::devices()) {
    if (!device.usable || device.name.rfind("cuda", 0) != 0) continue;
    any = true;
    for (const Style& style : styles) {
      const std::vector<Text> corpus = corpus_of(rng, style, std::max<std::int64_t>(100, scaled(3000)));
      std::vector<Text> queries = queries_of(rng, style, corpus, 300);
      queries.insert(queries.begin() + 7,
                     {Text(1024, U'a'), Text(1025, U'b'), Text(3000, U'a')});  // the last two are for the host
      const StringList c = listed(corpus), q = listed(queries);
      for (const std::int64_t k : {1, 5, 60}) {
        KnnOptions wanted = ask(Metric::levenshtein, k);
        const vicinal::Neighbors want = vicinal::knn(c.view(), q.view(), wanted);
        wanted.run.device = device.name;
        ASSERT_EQ(difference(vicinal::knn(c.view(), q.view(), wanted), want), "")
            << device.name << " " << style.name << " k " << k;
      }
      for (const double radius : {0.0, 2.0, 30.0}) {
        vicinal::RangeOptions wanted{.search = ask(Metric::levenshtein, 1)};
        const vicinal::CsrNeighbors want = vicinal::range_search(c.view(), q.view(), radius, wanted);
        wanted.search.run.device = device.name;
        const vicinal::CsrNeighbors got = vicinal::range_search(c.view(), q.view(), radius, wanted);
        ASSERT_EQ(got.entries(), want.entries()) << device.name << " " << style.name << " radius " << radius;
        for (std::int64_t row = 0; row < want.rows(); ++row) {
          ASSERT_EQ(got.count(row), want.count(row));
          for (std::int64_t i = 0; i < want.count(row); ++i) {
            ASSERT_EQ(got.id(row, i), want.id(row, i));
            ASSERT_EQ(got.distance(row, i), want.distance(row, i));
          }
        }
      }
      for (const Metric metric : {Metric::levenshtein, Metric::normalized_levenshtein, Metric::jaccard}) {
        KnnOptions wanted = ask(metric, 2);  // which no kernel takes
        wanted.eligible.first = 3;
        const vicinal::Neighbors want = vicinal::knn(c.view(), q.view(), wanted);
        wanted.run.device = device.name;
        const vicinal::Neighbors got = vicinal::knn(c.view(), q.view(), wanted);
        ASSERT_EQ(difference(got, want), "") << device.name << " " << style.name << " " << metric_name(metric);
        EXPECT_FALSE(got.stats.notes.empty());
      }
      vicinal::GraphOptions graph{.search = ask(Metric::levenshtein, 4)};
      const vicinal::Neighbors want = vicinal::knn_graph(c.view(), graph);
      graph.search.run.device = device.name;
      ASSERT_EQ(difference(vicinal::knn_graph(c.view(), graph), want), "") << device.name << " " << style.name;
    }
  }
  if (!any) GTEST_SKIP() << "no CUDA device here";
}

TEST(Strings, F64OnRequestAndAllEqual) {
  Rng rng(seed_or(907));
  const std::vector<Text> corpus = corpus_of(rng, styles[0], 90), queries = queries_of(rng, styles[0], corpus, 6),
                          same(70, U"same");
  for (const Metric metric : {Metric::normalized_levenshtein, Metric::jaccard}) {
    KnnOptions wanted = ask(metric, 12, metric == Metric::jaccard ? 2 : 0);
    wanted.distance_type = vicinal::DistanceType::f64;
    const vicinal::Neighbors got = vicinal::knn(listed(corpus).view(), listed(queries).view(), wanted);
    EXPECT_EQ(got.type(), vicinal::DistanceType::f64);
    EXPECT_EQ(compare(got, rank_all(corpus, queries, wanted)), "");
  }
  const vicinal::Neighbors got =
      vicinal::knn(listed(same).view(), listed({U"same", U"sane"}).view(), ask(Metric::levenshtein, 9));
  for (std::int64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(got.id(0, i), i);
    EXPECT_EQ(got.distance(1, i), 1);
  }
}

TEST(Strings, NothingToSearchIsAnswered) {
  const StringList none, some = listed({U"a", U""});
  EXPECT_EQ(vicinal::knn(some.view(), none.view(), ask(Metric::levenshtein, 2)).rows(), 0);
  KnnOptions padded = ask(Metric::levenshtein, 2);
  EXPECT_EQ(refusal([&] { vicinal::knn(none.view(), some.view(), padded); }).code, ErrorCode::invalid_argument);
  padded.pad = true;
  const vicinal::Neighbors got = vicinal::knn(none.view(), some.view(), padded);
  EXPECT_EQ(got.id(1, 1), -1);
  EXPECT_EQ(got.distance(0, 0), 4294967295.0);
  EXPECT_EQ(vicinal::range_search(none.view(), some.view(), 3, {.search = padded}).entries(), 0);
}

TEST(Strings, WhatIsRefused) {
  const StringList words = listed({U"one", U"three"}), bytes = listed({U"one"}, Encoding::bytes);
  const auto said = [&](const vicinal::Strings& corpus, const vicinal::Strings& queries, const KnnOptions& options,
                        ErrorCode code, const std::string& what) {
    const Refusal got = refusal([&] { vicinal::knn(corpus, queries, options); });
    EXPECT_EQ(got.code, code) << got.message;
    EXPECT_NE(got.message.find(what), std::string::npos) << got.message;
  };
  const KnnOptions plain = ask(Metric::levenshtein, 1);
  said(words.view(), words.view(), ask(Metric::euclidean, 1), ErrorCode::invalid_argument,
       "euclidean compares vectors");
  said(words.view(), words.view(), ask(Metric::hamming, 1), ErrorCode::invalid_argument,
       "corpus string 1 has 5 symbols, corpus string 0 has 3");
  said(words.view(), bytes.view(), plain, ErrorCode::invalid_argument, "corpus holds code points, query side bytes");
  said(words.view(), words.view(), ask(Metric::levenshtein, 3), ErrorCode::invalid_argument,
       "k=3 exceeds the n=2 rows of the corpus");
  said(words.view(), words.view(), ask(Metric::levenshtein, 1, 2), ErrorCode::invalid_argument, "ngram is for jaccard");
  KnnOptions wide = plain;
  wide.distance_type = vicinal::DistanceType::f32;
  said(words.view(), words.view(), wide, ErrorCode::invalid_argument, "levenshtein distances are u32");
  KnnOptions poor = plain;
  poor.memory.host = 100;
  said(words.view(), words.view(), poor, ErrorCode::memory_budget, "needs at least");
  poor.memory.host = vicinal::plan(words.view(), words.view(), plain).minimum_bytes;
  EXPECT_EQ(vicinal::knn(words.view(), words.view(), poor).id(1, 0), 1);

  const std::uint32_t surrogate[] = {'a', 0xD800, 'b'}, beyond[] = {0x110000};
  const std::int64_t three[] = {0, 1, 3}, one[] = {0, 1};
  said({surrogate, three, 2, Encoding::utf32}, words.view(), plain, ErrorCode::invalid_value,
       "corpus string 1 holds U+D800");
  said(words.view(), {beyond, one, 1, Encoding::utf32}, plain, ErrorCode::invalid_value,
       "query string 0 holds U+110000");
  for (const char* wrong : {"ab\xFF", "ab\xC3", "ab\xC0\x80", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80", "ab\xE2\x82",
                            "ab\x80", "ab\xF0\x80\x80\x80"}) {
    const std::string_view text[] = {wrong};
    said(StringList(text).view(), words.view(), plain, ErrorCode::invalid_value,
         "corpus string 0: invalid UTF-8 at byte 2");
    EXPECT_EQ(vicinal::knn(StringList(text, Encoding::bytes).view(), bytes.view(), plain).rows(), 1);
  }
  const std::int64_t backward[] = {3, 1};
  said({"abc", backward, 1, Encoding::bytes}, bytes.view(), plain, ErrorCode::invalid_argument,
       "corpus string 0 ends before it begins");

  EXPECT_EQ(refusal([&] { vicinal::range_search(words.view(), words.view(), std::nan(""), {.search = plain}); }).code,
            ErrorCode::invalid_argument);
  const Refusal many =
      refusal([&] { vicinal::range_search(words.view(), words.view(), 9, {.search = plain, .max_results = 3}); });
  EXPECT_EQ(many.code, ErrorCode::capacity_exceeded);
  EXPECT_NE(many.message.find("the result has 4 matches, max_results is 3"), std::string::npos) << many.message;

  const float numbers[] = {1, 2};
  const Refusal vectors = refusal([&] {
    vicinal::knn(vicinal::MatrixView<float>{numbers, 1, 2}, vicinal::MatrixView<float>{numbers, 1, 2},
                 ask(Metric::jaccard, 1));
  });
  EXPECT_EQ(vectors.code, ErrorCode::invalid_argument);
  EXPECT_NE(vectors.message.find("jaccard compares strings, corpus holds rows of f32"), std::string::npos)
      << vectors.message;

  KnnOptions stopped = plain;
  stopped.progress = [](std::uint64_t, std::uint64_t) { return false; };
  said(words.view(), words.view(), stopped, ErrorCode::cancelled, "cancelled");
}

}  // namespace
}  // namespace conformance
