// Names and numbers as people type them: metrics and their aliases, types, bytes; and what is said to a misspelt one.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/support.hpp"

namespace conformance {
namespace {
using vicinal::ErrorCode;

TEST(Names, EveryMetricByNameAndAlias) {
  for (const vicinal::MetricInfo& info : vicinal::metrics()) {
    EXPECT_EQ(vicinal::parse_metric(info.name), info.metric);
    for (const auto alias : info.aliases) EXPECT_EQ(vicinal::parse_metric(alias), info.metric) << alias;
    EXPECT_EQ(&vicinal::metric_info(info.metric), &info);
    EXPECT_EQ(info.descending, info.metric == Metric::inner_product) << info.name;
    EXPECT_FALSE(info.formula.empty());
  }
  EXPECT_EQ(vicinal::parse_metric("cityblock"), Metric::l1);
  EXPECT_EQ(vicinal::parse_metric("manhattan"), Metric::l1);
  EXPECT_EQ(vicinal::parse_metric("chebyshev"), Metric::linf);
}

TEST(Names, MisspeltOptionsAndRulesAreAnsweredWithTheNearestAndAll) {
  const auto said = [](const auto& parse) {
    const Refusal got = refusal(parse);
    EXPECT_EQ(got.code, ErrorCode::invalid_argument) << got.message;
    return got.message;
  };
  EXPECT_EQ(said([] { vicinal::parse_distance_type("f6"); }),
            "unknown distance type \"f6\"; did you mean \"f64\"? known: auto, f32, f64, u32");
  EXPECT_EQ(said([] { vicinal::parse_degenerate("eror"); }),
            "unknown rule for degenerate rows \"eror\"; did you mean \"error\"? known: error, one");
  EXPECT_EQ(said([] { vicinal::parse_label_rule("samme"); }),
            "unknown label rule \"samme\"; did you mean \"same\"? known: same, other");
  EXPECT_EQ(said([] { vicinal::parse_label_rule("indifferent"); }),
            "unknown label rule \"indifferent\"; known: same, other");
  EXPECT_EQ(said([] { vicinal::parse_mutual("neerest"); }),
            "unknown mutual \"neerest\"; did you mean \"nearest\"? known: tested (Python: True), nearest, one_way "
            "(Python: False)");
  EXPECT_EQ(
      said([] { vicinal::match_preset("openvc"); }),
      "unknown preset \"openvc\"; did you mean \"opencv\"? known: colmap, colmap-cpu, hloc, opencv, kornia, vlfeat");
  EXPECT_EQ(vicinal::parse_label_rule("same"), vicinal::Eligible::Labels::same);
  EXPECT_EQ(vicinal::parse_label_rule("other"), vicinal::Eligible::Labels::other);
}

TEST(Names, ForeignAndMisspeltMetricsAreAnsweredWithTheNearest) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"l2sq", "sqeuclidean"},  {"l2", "euclidean"},   {"ip", "inner_product"},
      {"dot", "inner_product"}, {"angular", "cosine"}, {"euclidian", "euclidean"},
      {"cosin", "cosine"},      {"haming", "hamming"}, {"manhatan", "manhattan"}};
  for (const auto& [typed, meant] : cases) {
    const Refusal got = refusal([&, name = typed] { vicinal::parse_metric(name); });
    ASSERT_EQ(got.code, ErrorCode::invalid_argument) << typed;
    EXPECT_NE(got.message.find(std::string("unknown metric \"") + typed + "\""), std::string::npos) << got.message;
    EXPECT_NE(got.message.find(std::string("did you mean \"") + meant), std::string::npos) << got.message;
    for (const vicinal::MetricInfo& info : vicinal::metrics())
      EXPECT_NE(got.message.find(info.name), std::string::npos) << got.message;
  }
  EXPECT_EQ(refusal([] { vicinal::parse_metric(""); }).code, ErrorCode::invalid_argument);
  // Which call takes which: each name after the kind that it is of.
  const std::string text = refusal([] { vicinal::parse_metric("zzzzzzzzz"); }).message;
  const std::size_t vectors = text.find("of vectors: "), strings = text.find("; of strings: "),
                    indexes = text.find("; of permutation indexes");
  ASSERT_TRUE(vectors < strings && strings < indexes && indexes < text.size()) << text;
  for (const vicinal::MetricInfo& info : vicinal::metrics()) {
    const std::string name = " " + std::string(info.name);
    const auto listed = [&](std::size_t from, std::size_t to) {
      const std::string part = text.substr(from, to - from) + ",";
      return part.find(name + ",") != std::string::npos;
    };
    EXPECT_EQ(listed(vectors, strings), info.vectors) << info.name;
    EXPECT_EQ(listed(strings, indexes), info.strings) << info.name;
    EXPECT_EQ(listed(indexes, text.size()), !info.vectors && !info.strings) << info.name;
  }
}

TEST(Names, Bytes) {
  EXPECT_EQ(vicinal::parse_bytes("268435456"), 268435456);
  EXPECT_EQ(vicinal::parse_bytes("256MiB"), 256 << 20);
  EXPECT_EQ(vicinal::parse_bytes("1.5 GB"), 1500000000);
  EXPECT_EQ(vicinal::parse_bytes("2GiB"), std::int64_t{2} << 30);
  EXPECT_GT(vicinal::parse_bytes("64k"), 63999);
  EXPECT_EQ(vicinal::parse_bytes("256mib"), 256 << 20);
  for (const char* wrong :
       {"", "MiB", "-5", "12x", "1e", "nan", "inf", "5 5", "99999999999999999999", "9e30GB", "1,5GB", "0x10"})
    EXPECT_EQ(refusal([&] { vicinal::parse_bytes(wrong); }).code, ErrorCode::invalid_argument) << wrong;
}

TEST(Names, DistanceTypesAndDegenerate) {
  using vicinal::DistanceType;
  for (const DistanceType type : {DistanceType::automatic, DistanceType::f32, DistanceType::f64, DistanceType::u32})
    EXPECT_EQ(vicinal::parse_distance_type(vicinal::distance_type_name(type)), type);
  EXPECT_EQ(refusal([] { vicinal::parse_distance_type("f16"); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(vicinal::parse_degenerate("error"), vicinal::Degenerate::error);
  EXPECT_EQ(vicinal::parse_degenerate("one"), vicinal::Degenerate::one);
  EXPECT_EQ(refusal([] { vicinal::parse_degenerate("zero"); }).code, ErrorCode::invalid_argument);
  EXPECT_STREQ(vicinal::dtype_name(DType::bf16), "bf16");
  EXPECT_STREQ(vicinal::error_name(ErrorCode::memory_budget), "MemoryBudget");
}

TEST(Names, AutomaticDistanceTypes) {
  using vicinal::DistanceType;
  for (const DType a : all_dtypes)
    for (const DType b : all_dtypes)
      EXPECT_EQ(vicinal::resolve_distance_type(DistanceType::automatic, Metric::l1, a, b),
                a == DType::f64 || b == DType::f64 ? DistanceType::f64 : DistanceType::f32);
  EXPECT_EQ(vicinal::resolve_distance_type(DistanceType::automatic, Metric::hamming, DType::u8, DType::u8),
            DistanceType::u32);
  EXPECT_EQ(vicinal::resolve_distance_type(DistanceType::f32, Metric::l1, DType::f64, DType::f64), DistanceType::f32);
}

}  // namespace
}  // namespace conformance
