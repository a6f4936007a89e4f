// The judges judged: exact arithmetic against 128-bit integers, the fp64 oracle against exact arithmetic within the
// contract's bound, and the oracle against the frozen answers. The library is not searched here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "conformance/golden.hpp"
#include "conformance/support.hpp"
#include "oracle/exact.hpp"

namespace conformance {
namespace {
using oracle::Exact;

TEST(Oracle, ExactArithmeticAgreesWithWideIntegers) {
  Rng rng(11);
  for (int trial = 0; trial < 20000; ++trial) {
    const auto a = static_cast<std::int64_t>(rng.bits()) >> rng.between(0, 63),
               b = static_cast<std::int64_t>(rng.bits()) >> rng.between(0, 63);
    const auto exact = [](std::int64_t v) {
      return Exact(static_cast<double>(v >> 32)).times_power(32) + Exact(static_cast<double>(v & 0xffffffff));
    };
    const Exact x = exact(a), y = exact(b);
    __extension__ using Wide = __int128;
    const Wide product = static_cast<Wide>(a) * b, sum = static_cast<Wide>(a) + b;
    ASSERT_EQ((x * y).to_f64(), static_cast<double>(product)) << a << " * " << b;
    ASSERT_EQ((x * y).to_f32(), static_cast<double>(static_cast<float>(product))) << a << " * " << b;
    ASSERT_EQ((x + y).to_f64(), static_cast<double>(sum)) << a << " + " << b;
    ASSERT_EQ((x - y).sign(), (a > b) - (a < b)) << a << " - " << b;
  }
}

TEST(Oracle, ExactRoundingKeepsSubnormalsAndOverflow) {
  EXPECT_EQ(Exact(0x1p-149).to_f32(), 0x1p-149);
  EXPECT_EQ(Exact(0x1p-150).to_f32(), 0.0);  // half of the smallest: ties to even
  EXPECT_EQ(Exact(0x1.8p-150).to_f32(), 0x1p-149);
  EXPECT_EQ(Exact(0x1.ffffffp127).to_f32(), INFINITY);
  EXPECT_EQ(Exact(0x1.fffffefffffp127).to_f32(), 0x1.fffffep127);
  EXPECT_EQ((Exact(1) + Exact(0x1p-60)).to_f64(), 1.0);
  EXPECT_EQ((Exact(1) + Exact(0x1p-53)).to_f64(), 1.0);
  EXPECT_EQ((Exact(1) + Exact(0x1p-53) + Exact(0x1p-200)).to_f64(), 1 + 0x1p-52);
}

TEST(Oracle, EveryBitPatternOfTheNarrowTypesSurvivesRounding) {
  for (const DType type : {DType::f16, DType::bf16})
    for (int bits = 0; bits < 0x10000; ++bits) {
      const auto pattern = static_cast<std::uint16_t>(bits);
      const double value = oracle::decode(type, &pattern);
      if (!std::isfinite(value)) continue;
      const Table table(type, 1, 1, {value});
      ASSERT_EQ(std::memcmp(table.bytes.data(), &pattern, 2), 0) << vicinal::dtype_name(type) << " pattern " << bits;
    }
  EXPECT_EQ(nearest(DType::f16, 65519.99), 65504.0);
  EXPECT_EQ(nearest(DType::f16, 1 + 0x1p-11), 1.0);
  EXPECT_EQ(nearest(DType::f16, 1 + 0x1.8p-10), 1 + 0x1p-9);
  EXPECT_EQ(nearest(DType::bf16, 1 + 0x1p-8), 1.0);
}

TEST(Oracle, AgreesWithTheFrozenAnswersToTheBit) {
  const auto files = golden_files();
  ASSERT_GE(files.size(), 13u);
  std::int64_t pairs = 0;
  for (const GoldenFile& file : files)
    for (const GoldenPair& pair : file.pairs) {
      const oracle::Answer got = oracle::knn(file.corpus.rows(), file.queries.rows(), spec(pair.options));
      ASSERT_FALSE(got.error) << file.name << " " << pair.name;
      EXPECT_EQ(got.type, pair.answer.type) << file.name << " " << pair.name;
      EXPECT_EQ(got.ids, pair.answer.ids) << file.name << " " << pair.name;
      EXPECT_EQ(std::memcmp(got.keys.data(), pair.answer.keys.data(), got.keys.size() * sizeof(double)), 0)
          << file.name << " " << pair.name;
      ++pairs;
    }
  EXPECT_GE(pairs, 170);
}

// |value - truth| <= (d/32 + 8) 2^-53 size, in integers.
bool within_bound(const Exact& value, const Exact& truth, const Exact& size, std::int64_t d) {
  return (value - truth).absolute().times_power(5 + 53) <= size * Exact(static_cast<double>(d + 256));
}

// The f32 key is the correctly rounded exact value unless a rounding boundary lies within the bound of it.
bool rounds_alike(double canonical, const Exact& truth, const Exact& size, std::int64_t d) {
  const double key = static_cast<float>(canonical);
  if (key == truth.to_f32()) return true;
  const Exact slack = size * Exact(static_cast<double>(d + 256)).times_power(-58);
  return (truth - slack).to_f32() <= key && key <= (truth + slack).to_f32();
}

std::vector<double> draw(Rng& rng, DType type, std::int64_t d, int style) {
  std::vector<double> x(static_cast<std::size_t>(d));
  for (double& v : x) {
    if (style == 0) v = rng.gauss();
    if (style == 1) v = 1000 + 0.01 * rng.gauss();
    if (style == 2) v = std::ldexp(rng.gauss(), static_cast<int>(rng.between(-20, 20)));
    if (style == 3) v = static_cast<double>(rng.between(-3, 3));
    if (type == DType::u8 || type == DType::i8) v = v * 20 + 64;
    v = nearest(type, v);
  }
  return x;
}

TEST(Oracle, CanonicalValuesLieWithinTheBoundOfTheExactOnes) {
  Rng rng(12);
  for (const DType type : all_dtypes)
    for (int trial = 0; trial < 200; ++trial) {
      const std::int64_t d = rng.log_between(1, 300);
      const int style = static_cast<int>(rng.between(0, 3));
      const auto q = draw(rng, type, d, style), r = draw(rng, type, d, style);
      const auto value = [&](Metric metric) { return oracle::canonical(metric, q.data(), r.data(), d); };
      struct Case {
        Metric metric;
        Exact truth, size;
      };
      const Exact square = oracle::exact_sqdist(q.data(), r.data(), d), sum = oracle::exact_l1(q.data(), r.data(), d);
      const Exact largest = oracle::exact_linf(q.data(), r.data(), d);
      const Exact dot = oracle::exact_dot(q.data(), r.data(), d),
                  dot_size = oracle::exact_dot_size(q.data(), r.data(), d);
      for (const Case& c : {Case{Metric::sqeuclidean, square, square}, Case{Metric::l1, sum, sum},
                            Case{Metric::linf, largest, largest}, Case{Metric::inner_product, dot, dot_size}}) {
        EXPECT_TRUE(within_bound(value(c.metric), c.truth, c.size, d))
            << metric_name(c.metric) << " " << vicinal::dtype_name(type) << " d=" << d;
        EXPECT_TRUE(rounds_alike(value(c.metric), c.truth, c.size, d))
            << metric_name(c.metric) << " " << vicinal::dtype_name(type) << " d=" << d;
      }
      // euclidean: the f32 key v is right if the square lies between the squared midpoints around v, give or take the bound.
      const double key = static_cast<float>(value(Metric::euclidean));
      const double below = (std::nextafterf(static_cast<float>(key), -1.0f) + key) / 2,
                   above = (std::nextafterf(static_cast<float>(key), INFINITY) + key) / 2;
      const Exact slack = square * Exact(static_cast<double>(d + 512)).times_power(-57);
      const bool rounds_right =
          Exact(below) * Exact(below) <= square + slack && square - slack <= Exact(above) * Exact(above);
      EXPECT_TRUE(key == 0 || rounds_right) << "euclidean " << vicinal::dtype_name(type) << " d=" << d;
    }
}

// |canonical - (1 - g / sqrt(ab))| <= (d/16 + 12) 2^-53, squared into integers.
TEST(Oracle, CosineLiesWithinItsBoundOfTheExactValue) {
  Rng rng(13);
  const auto at_most = [](const Exact& g, const Exact& x, const Exact& ab) {  // g / sqrt(ab) <= x
    if (g.sign() != x.sign()) return g.sign() < x.sign();
    const bool smaller = g * g <= x * x * ab, larger = x * x * ab <= g * g;
    return g.sign() >= 0 ? smaller : larger;
  };
  for (const DType type : all_dtypes)
    for (int trial = 0; trial < 200; ++trial) {
      const std::int64_t d = rng.log_between(2, 200);
      auto q = draw(rng, type, d, static_cast<int>(rng.between(0, 2))), r = rng.chance(0.5) ? draw(rng, type, d, 0) : q;
      q[0] = r[0] = 1;  // no zero row
      if (rng.chance(0.5)) r[1] = nearest(type, r[1] * (1 + 0x1p-7));
      const Exact g = oracle::exact_dot(q.data(), r.data(), d);
      const Exact ab = oracle::exact_dot(q.data(), q.data(), d) * oracle::exact_dot(r.data(), r.data(), d);
      const Exact similarity = Exact(1) - Exact(oracle::canonical(Metric::cosine, q.data(), r.data(), d));
      const Exact slack = Exact(static_cast<double>(d + 192)).times_power(-57);
      EXPECT_TRUE(at_most(g, similarity + slack, ab) && !at_most(g, similarity - slack, ab))
          << vicinal::dtype_name(type) << " d=" << d;
    }
}

TEST(Oracle, SmallIntegerOrderIsTheExactOrder) {
  Rng rng(14);
  for (const DType type : all_dtypes) {
    std::vector<double> values(60 * 7);
    for (double& v : values) v = static_cast<double>(rng.between(0, 3));
    const Table table(type, 60, 7, values);
    const oracle::Rows rows = table.rows();
    const oracle::Answer answer = oracle::knn(rows, rows, {Metric::sqeuclidean, 60, vicinal::DistanceType::f64});
    for (std::int64_t i = 0; i < 60; ++i)
      for (std::int64_t j = 0; j + 1 < 60; ++j) {
        const auto at = static_cast<std::size_t>(i * 60 + j);
        const Exact a = oracle::exact_sqdist(rows.row(i), rows.row(answer.ids[at]), 7),
                    b = oracle::exact_sqdist(rows.row(i), rows.row(answer.ids[at + 1]), 7);
        ASSERT_TRUE(a < b || (a == b && answer.ids[at] < answer.ids[at + 1])) << "row " << i << " rank " << j;
        ASSERT_EQ(a.to_f64(), answer.keys[at]);
      }
  }
}

}  // namespace
}  // namespace conformance
