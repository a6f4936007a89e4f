// Every word of every instruction set against loops written here from the contract (semantics C2, cpu/isa/kernels.hpp):
// bits where bits are promised, the error bound where it is not. All inputs and outputs end at an inaccessible page,
// so a read or write past an end is a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu/isa/kernels.hpp"
#include "unit/cpu/isa/guarded.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t all_dims[] = {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 37, 63, 64, 65, 100, 127, 128, 129, 300};

using Random = std::mt19937_64;

std::int64_t below(Random& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
}
double signed_unit(Random& random) { return std::uniform_real_distribution<double>(-1, 1)(random); }

// ---- elements: three families of values for each type, and what they mean ----

enum class Family { ordinary, wild, tiny };  // tiny: zeros of both signs, subnormals, products that underflow

void make(Random& random, Family family, double& x) {
  if (family == Family::ordinary) x = signed_unit(random);
  else if (family == Family::wild) x = std::ldexp(signed_unit(random), static_cast<int>(below(random, 1000)) - 500);
  else
    x = below(random, 3) == 0 ? std::copysign(0.0, signed_unit(random))
                              : std::ldexp(signed_unit(random), -500 - static_cast<int>(below(random, 574)));
}
void make(Random& random, Family family, float& x) {
  const double v = signed_unit(random);
  if (family == Family::ordinary) x = static_cast<float>(v);
  else if (family == Family::wild) x = static_cast<float>(std::ldexp(v, static_cast<int>(below(random, 240)) - 120));
  else x = below(random, 3) == 0 ? std::copysign(0.0f, static_cast<float>(v)) : static_cast<float>(std::ldexp(v, -128));
}
void make(Random& random, Family family, f16& x) {
  const std::int64_t exponent = family == Family::ordinary ? 14 + below(random, 2)
                                : family == Family::wild   ? below(random, 31)
                                                           : 0;
  x.bits = static_cast<std::uint16_t>(exponent << 10 | below(random, 1024) | below(random, 2) << 15);
}
void make(Random& random, Family family, bf16& x) {
  const std::int64_t exponent = family == Family::ordinary ? 126 + below(random, 2)
                                : family == Family::wild   ? below(random, 255)
                                                           : 0;
  x.bits = static_cast<std::uint16_t>(exponent << 7 | below(random, 128) | below(random, 2) << 15);
}
void make(Random& random, Family, std::uint8_t& x) { x = static_cast<std::uint8_t>(random()); }
void make(Random& random, Family, std::int8_t& x) { x = static_cast<std::int8_t>(random()); }

double meaning(double x) { return x; }
double meaning(float x) { return x; }
double meaning(std::uint8_t x) { return x; }
double meaning(std::int8_t x) { return x; }
// Sign, exponent and fraction of `fraction_bits`, taken apart by the definition of the format.
double meaning_of_bits(int bits, int fraction_bits, int bias, int top) {
  const int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits >> fraction_bits) & top;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == top) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}
double meaning(f16 x) { return meaning_of_bits(x.bits, 10, 15, 31); }
double meaning(bf16 x) { return meaning_of_bits(x.bits, 7, 127, 255); }

::testing::AssertionResult same_bits(double a, double b) {
  if (std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << std::hexfloat << a << " against " << b;
}

class KernelTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (!kernels().supported()) GTEST_SKIP() << "not run: " << kernels().name;
  }
  const Kernels& kernels() const { return *GetParam(); }
};

// ---- canonical sums ----

/// What a kernel adds up: a metric's sum of a query and a row, or of rows alone.
enum class Summand { squares, products, magnitudes, largest, shifted_products, self_product, shifted_squares, total };
constexpr bool reads_query(Summand summand) { return summand <= Summand::shifted_products; }

double canonical_by_definition(Summand summand, const std::vector<double>& q, const std::vector<double>& r,
                               double shift) {
  std::vector<double> s(32, 0.0);
  for (std::size_t i = 0; i < r.size(); ++i) {
    double& lane = s[i % 32];
    switch (summand) {
      case Summand::squares: {
        const double t = q[i] - r[i];
        lane = std::fma(t, t, lane);
        break;
      }
      case Summand::magnitudes: lane = lane + std::abs(q[i] - r[i]); break;
      case Summand::largest: lane = std::max(lane, std::abs(q[i] - r[i])); break;
      case Summand::products: lane = std::fma(q[i], r[i], lane); break;
      case Summand::shifted_products: {
        const double t = r[i] - shift;
        lane = std::fma(q[i], t, lane);
        break;
      }
      case Summand::self_product: lane = std::fma(r[i], r[i], lane); break;
      case Summand::shifted_squares: {
        const double t = r[i] - shift;
        lane = std::fma(t, t, lane);
        break;
      }
      case Summand::total: lane = lane + r[i]; break;
    }
  }
  for (std::size_t h = 16; h > 0; h /= 2) {
    for (std::size_t j = 0; j < h; ++j) s[j] = summand == Summand::largest ? std::max(s[j], s[j + h]) : s[j] + s[j + h];
  }
  return s[0];
}

/// The kernel of the table; null where there is none for rows of the type.
CanonicalFn kernel_of(const Kernels& kernels, Summand summand, DType dtype) {
  const auto type = static_cast<int>(dtype);
  switch (summand) {
    case Summand::squares: return kernels.canonical[static_cast<int>(Sum::squares)][type];
    case Summand::products: return kernels.canonical[static_cast<int>(Sum::products)][type];
    case Summand::magnitudes: return kernels.canonical[static_cast<int>(Sum::magnitudes)][type];
    case Summand::largest: return kernels.canonical[static_cast<int>(Sum::largest)][type];
    case Summand::shifted_products: return kernels.shifted_products[type];
    case Summand::self_product: return dtype == DType::f64 ? kernels.self_product : nullptr;
    case Summand::shifted_squares: return dtype == DType::f64 ? kernels.shifted_squares : nullptr;
    case Summand::total: return dtype == DType::f64 ? kernels.total : nullptr;
  }
  return nullptr;
}

template <class T>
void check_canonical(const Kernels& kernels, Summand summand, std::int64_t dims, Family family) {
  const CanonicalFn kernel = kernel_of(kernels, summand, dtype_of<T>());
  if (kernel == nullptr) return;
  Random random(static_cast<std::uint64_t>(dims * 64 + static_cast<int>(summand) * 4 + static_cast<int>(family)));
  const bool by_index = below(random, 2) == 0;
  const bool shifted = summand == Summand::shifted_products || summand == Summand::shifted_squares;
  const std::int64_t stored = 1 + below(random, 21), stride = dims + below(random, 3);
  const std::int64_t count = by_index ? 1 + below(random, 40) : stored;
  Guarded<T> rows((stored - 1) * stride + dims);
  for (T& x : rows) make(random, family, x);
  Guarded<double> query(dims), shift(count), out(count);
  for (double& x : query) {
    T t;
    make(random, family, t);
    x = meaning(t);
  }
  for (double& x : shift) make(random, family == Family::wild ? Family::ordinary : family, x);
  Guarded<std::uint32_t> index(count);
  for (std::uint32_t& x : index) x = static_cast<std::uint32_t>(below(random, stored));
  for (double& x : out) x = -7;
  kernel({.query = reads_query(summand) ? query.data() : nullptr,
          .rows = rows.data(),
          .row_stride = stride * static_cast<std::int64_t>(sizeof(T)),
          .index = by_index ? index.data() : nullptr,
          .count = count,
          .dims = dims,
          .shift = shifted ? shift.data() : nullptr,
          .out = out.data()});
  for (std::int64_t i = 0; i < count; ++i) {
    const T* row = rows.data() + (by_index ? static_cast<std::int64_t>(index[i]) : i) * stride;
    std::vector<double> r;
    for (std::int64_t k = 0; k < dims; ++k) r.push_back(meaning(row[k]));
    const double expected = canonical_by_definition(summand, {query.begin(), query.end()}, r, shift[i]);
    ASSERT_TRUE(same_bits(out[i], expected))
        << kernels.name << " summand " << static_cast<int>(summand) << " type " << dtype_name(dtype_of<T>())
        << " d=" << dims << " family " << static_cast<int>(family) << " row " << i;
  }
}

TEST_P(KernelTest, CanonicalSumsHaveTheBitsOfTheDefinition) {
  for (int i = 0; i <= static_cast<int>(Summand::total); ++i) {
    const auto summand = static_cast<Summand>(i);
    for (const std::int64_t dims : all_dims) {
      for (const Family family : {Family::ordinary, Family::wild, Family::tiny}) {
        check_canonical<float>(kernels(), summand, dims, family);
        check_canonical<double>(kernels(), summand, dims, family);
        check_canonical<f16>(kernels(), summand, dims, family);
        check_canonical<bf16>(kernels(), summand, dims, family);
        check_canonical<std::uint8_t>(kernels(), summand, dims, family);
        check_canonical<std::int8_t>(kernels(), summand, dims, family);
      }
    }
  }
}

// One product that underflows from below leaves -0 in a lane. The tail must not touch lanes that it does not reach
// (fma(0, 0, -0) is +0), and a lane without elements is +0, which wins.
TEST_P(KernelTest, AMinusZeroSurvivesUnlessALaneIsEmpty) {
  for (const std::int64_t dims : all_dims) {
    Guarded<double> query(dims), row(dims), out(1);
    for (double& x : query) x = -1e-200;
    for (double& x : row) x = 1e-200;
    kernels().canonical[static_cast<int>(Sum::products)][static_cast<int>(DType::f64)]({.query = query.data(),
                                                                                        .rows = row.data(),
                                                                                        .row_stride = dims * 8,
                                                                                        .index = nullptr,
                                                                                        .count = 1,
                                                                                        .dims = dims,
                                                                                        .shift = nullptr,
                                                                                        .out = out.data()});
    EXPECT_TRUE(same_bits(out[0], dims >= 32 ? -0.0 : 0.0)) << "d=" << dims;
  }
}

// ---- few columns: sums of 32 rows or boxes at a time ----

TEST_P(KernelTest, TheLeastOfTheBoxesOfANode) {
  std::mt19937_64 random(6);
  for (int turn = 0; turn < 200; ++turn) {
    Guarded<double> sums(panel_rows);
    for (double& sum : sums) {
      sum = turn % 3 == 0 ? static_cast<double>(random() % 4) : std::ldexp(static_cast<double>(random()), -64);
      if (turn % 4 == 1 && random() % 2 == 0) sum = HUGE_VAL;
      if (turn == 5) sum = HUGE_VAL;
    }
    const double least = *std::min_element(sums.begin(), sums.end());
    const std::uint32_t lanes = kernels().least_lanes(sums.data());
    for (int i = 0; i < panel_rows; ++i) EXPECT_EQ(lanes >> i & 1, sums[i] == least ? 1u : 0u) << kernels().name;
  }
}

TEST_P(KernelTest, EntriesAreKeptInOrder) {
  std::mt19937_64 random(7);
  using Entries = std::vector<std::pair<double, double>>;
  for (int turn = 0; turn < 300; ++turn) {
    NearestFew nearest;
    Entries want(NearestFew::most, {HUGE_VAL, NearestFew::no_row});
    for (int i = 0; i < NearestFew::most; ++i) {
      nearest.keys[i] = HUGE_VAL;
      nearest.rows[i] = NearestFew::no_row;
    }
    for (int leaf = 0; leaf < 4; ++leaf) {
      std::vector<double> keys, rows;
      for (std::uint64_t i = random() % 33; i > 0; --i) {
        const bool few = turn % 2 == 0;  // keys, so that rows decide
        keys.push_back(turn % 7 == 3 && random() % 3 == 0 ? HUGE_VAL
                                                          : static_cast<double>(random() % (few ? 3 : 1000)));
        rows.push_back(static_cast<double>(random() % 100'000));
        want.emplace_back(keys.back(), rows.back());
      }
      kernels().insert_nearest({keys.data(), rows.data(), static_cast<int>(keys.size()), &nearest});
      std::sort(want.begin(), want.end());
      want.resize(NearestFew::most);
      for (int i = 0; i < NearestFew::most; ++i)
        ASSERT_EQ(std::pair(nearest.keys[i], nearest.rows[i]), want[static_cast<std::size_t>(i)])
            << kernels().name << ", place " << i;
    }
  }
}

TEST_P(KernelTest, SumsOfRowsAndBoxesOfFewColumns) {
  Random random(5);
  const Sum sums_of_three[] = {Sum::squares, Sum::magnitudes, Sum::largest};
  const Summand summands[] = {Summand::squares, Summand::magnitudes, Summand::largest};
  for (int w = 0; w < 3; ++w)
    for (int turn = 0; turn < 40; ++turn) {
      const int width = near_widths[w];
      const Sum sum = sums_of_three[turn % 3];
      const Summand summand = summands[turn % 3];
      const auto family = static_cast<Family>(turn / 3 % 3);
      Guarded<double> query(width), low(width * panel_rows), high(width * panel_rows), sums(panel_rows),
          least(panel_rows);
      for (double& x : query) make(random, family, x);
      for (std::int64_t i = 0; i < width * panel_rows; ++i) {
        make(random, family, low[i]);
        make(random, family, high[i]);
        if (low[i] > high[i]) std::swap(low[i], high[i]);
      }
      const auto sums_at = [&](const double* corner, double limit) {
        const std::uint32_t near = kernels().near_rows[w].of(sum)({query.data(), corner, nullptr, limit, sums.data()});
        for (int i = 0; i < panel_rows; ++i) {
          std::vector<double> row;
          for (int j = 0; j < width; ++j) row.push_back(corner[j * panel_rows + i]);
          EXPECT_TRUE(same_bits(sums[i], canonical_by_definition(summand, {query.begin(), query.end()}, row, 0)))
              << kernels().name << " width " << width;
          EXPECT_EQ(near >> i & 1, sums[i] > limit ? 0u : 1u);
        }
      };
      sums_at(low.data(), HUGE_VAL);
      const double limit = sums[7];
      const std::uint32_t near =
          kernels().near_boxes[w].of(sum)({query.data(), low.data(), high.data(), limit, least.data()});
      // The nearest point of each box is a row of it, and no corner is nearer.
      Guarded<double> nearest(width * panel_rows);
      for (int i = 0; i < width * panel_rows; ++i)
        nearest[i] = std::min(std::max(query[i / panel_rows], low[i]), high[i]);
      sums_at(nearest.data(), limit);
      for (int i = 0; i < panel_rows; ++i) {
        EXPECT_EQ(least[i], sums[i]) << kernels().name << " width " << width;
        EXPECT_EQ(near >> i & 1, least[i] > limit ? 0u : 1u);
      }
      for (const double* corner : {low.data(), high.data()}) {
        sums_at(corner, limit);
        for (int i = 0; i < panel_rows; ++i) EXPECT_LE(least[i], sums[i]);
      }
    }
}

// ---- conversion, scan ----

template <class T>
void check_convert(const Kernels& kernels, const std::vector<T>& values) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{3}, static_cast<std::int64_t>(values.size())}) {
    Guarded<T> from(count);
    Guarded<double> to(count);
    std::copy_n(values.begin(), count, from.begin());
    kernels.convert[static_cast<int>(dtype_of<T>())](from.data(), count, to.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const double expected = meaning(from[i]);
      if (std::isnan(expected)) ASSERT_TRUE(std::isnan(to[i])) << dtype_name(dtype_of<T>()) << ' ' << i;
      else ASSERT_TRUE(same_bits(to[i], expected)) << dtype_name(dtype_of<T>()) << ' ' << i;
    }
  }
}

TEST_P(KernelTest, ConversionIsExactForEverySmallPattern) {
  std::vector<f16> halves;
  std::vector<bf16> bfloats;
  for (int bits = 0; bits < 65536; ++bits) {
    halves.push_back({static_cast<std::uint16_t>(bits)});
    bfloats.push_back({static_cast<std::uint16_t>(bits)});
  }
  check_convert(kernels(), halves);
  check_convert(kernels(), bfloats);
  std::vector<std::uint8_t> bytes;
  std::vector<std::int8_t> chars;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(i));
    chars.push_back(static_cast<std::int8_t>(i - 128));
  }
  check_convert(kernels(), bytes);
  check_convert(kernels(), chars);
  Random random(3);
  std::vector<float> floats = {0.0f, -0.0f, 1e-45f, -1e-45f, 3.4028235e38f, infinite, -infinite, not_a_number};
  std::vector<double> doubles = {0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, HUGE_VAL, -HUGE_VAL, std::nan("")};
  for (int i = 0; i < 1003; ++i) {
    floats.push_back(0);
    doubles.push_back(0);
    make(random, Family::wild, floats.back());
    make(random, Family::wild, doubles.back());
  }
  check_convert(kernels(), floats);
  check_convert(kernels(), doubles);
}

TEST_P(KernelTest, FirstBadFindsTheFirstOfEachKind) {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40}) {
    Guarded<double> values(count);
    for (double& x : values) x = 1.7976931348623157e308;
    values[count / 2] = -5e-324;
    EXPECT_EQ(kernels().first_bad(values.data(), count), -1) << count;
    for (std::int64_t at = count - 1; at >= 0; --at) {
      for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan(""), -std::nan("")}) {
        values[at] = bad;
        EXPECT_EQ(kernels().first_bad(values.data(), count), at) << count;
      }
    }
  }
  EXPECT_EQ(kernels().first_bad(nullptr, 0), -1);
}

// ---- quantize, pack, hamming ----

TEST_P(KernelTest, QuantiseRoundsOnceAndItsFactsAreTheQuantizationErrors) {
  for (const std::int64_t dims : all_dims) {
    for (const Family family : {Family::ordinary, Family::wild}) {
      Random random(static_cast<std::uint64_t>(dims));
      Guarded<double> row(dims), centre(dims);
      Guarded<float> out(dims);
      for (double& x : row) {
        x = signed_unit(random);
        if (family == Family::wild) x = std::ldexp(x, 20 - 5 * static_cast<int>(below(random, 9)));
      }
      for (double& x : centre) x = static_cast<float>(signed_unit(random));
      const double shift = 0.375, scale = family == Family::wild ? 0x1p-9 : 1 / 3.0;
      const RowFacts facts = kernels().quantize({.row = row.data(),
                                                 .centre = centre.data(),
                                                 .shift = shift,
                                                 .scale = scale,
                                                 .dims = dims,
                                                 .out = out.data()});
      RowFacts sum = {};
      for (std::int64_t i = 0; i < dims; ++i) {
        const double moved = (row[i] - shift) * scale, x = moved - centre[i], n = static_cast<float>(x), e = x - n;
        ASSERT_TRUE(same_bits(out[i], static_cast<float>(x))) << dims << ' ' << i;
        sum.xx += x * x, sum.nn += n * n, sum.ee += e * e, sum.e_abs += std::abs(e), sum.n_abs += std::abs(n);
        sum.e_max = std::max(sum.e_max, std::abs(e));
      }
      const auto near = [&](double a, double b, const char* what) {
        EXPECT_NEAR(a, b, 1e-13 * b) << what << " d=" << dims;
      };
      near(facts.xx, sum.xx, "xx");
      near(facts.nn, sum.nn, "nn");
      near(facts.ee, sum.ee, "ee");
      near(facts.e_abs, sum.e_abs, "e_abs");
      near(facts.n_abs, sum.n_abs, "n_abs");
      EXPECT_TRUE(same_bits(facts.e_max, sum.e_max)) << dims;
    }
  }
}

TEST_P(KernelTest, PackPutsRowsSideBySideAndZerosAfterThem) {
  for (const int lanes : {kernels().query_lanes, panel_rows, 1, 5, 16}) {
    for (const std::int64_t dims : all_dims) {
      for (const int count : {lanes, lanes - 1, lanes / 2, 1, 0}) {
        const std::int64_t stride = dims + count % 3;
        Guarded<float> from(count == 0 ? 0 : (count - 1) * stride + dims), to(dims * lanes);
        float next = 0;
        for (float& x : from) x = ++next;
        for (float& x : to) x = -1;
        kernels().pack(from.data(), stride, count, lanes, dims, to.data());
        for (std::int64_t k = 0; k < dims; ++k) {
          for (int i = 0; i < lanes; ++i) {
            ASSERT_EQ(to[k * lanes + i], i < count ? from[i * stride + k] : 0.0f)
                << lanes << " lanes, " << count << " rows, d=" << dims << ", row " << i << ", column " << k;
          }
        }
      }
    }
  }
}

TEST_P(KernelTest, HammingCountsDifferingBits) {
  for (std::int64_t bytes = 1; bytes < 260; bytes += bytes < 70 ? 1 : 21) {
    Random random(static_cast<std::uint64_t>(bytes));
    const std::int64_t stored = 5, stride = bytes + 3;
    const bool by_index = bytes % 2 == 0;
    const std::int64_t count = by_index ? 23 : stored;
    Guarded<std::uint8_t> query(bytes), rows((stored - 1) * stride + bytes);
    Guarded<std::uint32_t> index(count), out(count);
    for (std::uint8_t& x : query) x = static_cast<std::uint8_t>(random());
    for (std::uint8_t& x : rows) x = static_cast<std::uint8_t>(random());
    for (std::uint32_t& x : index) x = static_cast<std::uint32_t>(below(random, stored));
    kernels().hamming({.query = query.data(),
                       .rows = rows.data(),
                       .row_stride = stride,
                       .index = by_index ? index.data() : nullptr,
                       .count = count,
                       .dims = bytes,
                       .out = out.data()});
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t expected = 0;
      const std::uint8_t* row = rows.data() + (by_index ? static_cast<std::int64_t>(index[i]) : i) * stride;
      for (std::int64_t bit = 0; bit < 8 * bytes; ++bit) expected += ((query[bit / 8] ^ row[bit / 8]) >> (bit % 8)) & 1;
      ASSERT_EQ(out[i], expected) << bytes << " bytes, row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, KernelTest, ::testing::Values(&float_plain, &float_avx2, &float_avx512),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace vicinal::cpu
