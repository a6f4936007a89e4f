// Selection: every algorithm that is listed, on every device that is here, equals a full stable sort to the bit, over families of
// rows that break selections, around the sizes at which algorithms change gear.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stop_token>

#include "conformance/settings.hpp"
#include "oracle/select.hpp"
#include "vicinal/device.hpp"
#include "vicinal/select.hpp"

namespace conformance {
namespace {

using vicinal::Selection;
using vicinal::SelectOptions;
using vicinal::Values;
using vicinal::ValueType;

constexpr ValueType all_types[] = {ValueType::f32, ValueType::f64, ValueType::f16, ValueType::bf16,
                                   ValueType::u8,  ValueType::i8,  ValueType::u16, ValueType::i16,
                                   ValueType::u32, ValueType::i32, ValueType::u64, ValueType::i64};

/// Rows as bits, dense.
struct Sheet {
  ValueType type;
  std::int64_t rows, cols;
  std::vector<std::byte> bytes;

  Sheet(ValueType t, std::int64_t r, std::int64_t c)
      : type(t), rows(r), cols(c), bytes(static_cast<std::size_t>(r * c) * vicinal::value_size(t)) {}
  Values values() const { return {bytes.data(), type, rows, cols}; }
  void set(std::int64_t at, std::uint64_t bits) {
    const std::size_t size = vicinal::value_size(type);
    std::memcpy(bytes.data() + static_cast<std::size_t>(at) * size, &bits, size);  // little-endian
  }
};

struct FloatForm {
  std::uint64_t sign, infinity;
};
std::optional<FloatForm> float_form(ValueType type) {
  switch (type) {
    case ValueType::f32: return FloatForm{0x80000000u, 0x7f800000u};
    case ValueType::f64: return FloatForm{0x8000000000000000u, 0x7ff0000000000000u};
    case ValueType::f16: return FloatForm{0x8000u, 0x7c00u};
    case ValueType::bf16: return FloatForm{0x8000u, 0x7f80u};
    default: return std::nullopt;
  }
}

/// Bits of the value of `rank` in an increasing series of finite values of the type, spread over its range.
std::uint64_t series(ValueType type, std::uint64_t rank) {
  const int width = static_cast<int>(vicinal::value_size(type)) * 8;
  const std::uint64_t all = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  if (const auto form = float_form(type)) {
    const std::uint64_t half = form->infinity - 1;  // positive finite values
    rank %= 2 * half;
    return rank < half ? form->sign | (half - 1 - rank) : rank - half;
  }
  const bool is_signed =
      type == ValueType::i8 || type == ValueType::i16 || type == ValueType::i32 || type == ValueType::i64;
  return (is_signed ? rank ^ sign : rank) & all;
}

enum class Family {
  random,
  bits,
  equal,
  ascending,
  descending,
  few,
  zeros,
  infinities,
  one_outlier,
  denormals,
  nan_rich,
  all_nan,
  ties_at_k
};
constexpr Family all_families[] = {Family::random,      Family::bits,      Family::equal,    Family::ascending,
                                   Family::descending,  Family::few,       Family::zeros,    Family::infinities,
                                   Family::one_outlier, Family::denormals, Family::nan_rich, Family::all_nan,
                                   Family::ties_at_k};
constexpr const char* family_names[] = {"random",   "bits",    "equal",      "ascending",   "descending",
                                        "few",      "zeros",   "infinities", "one outlier", "denormals",
                                        "NaN rich", "all NaN", "ties at k"};

std::uint64_t nan_bits(const FloatForm& form, Rng& rng) {
  return form.infinity | (1 + rng.bits() % (form.infinity & (~form.infinity + 1)) / 2) |
         (rng.chance(0.5) ? form.sign : 0);
}

Sheet make(Family family, ValueType type, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Rng rng(seed);
  Sheet sheet(type, rows, cols);
  const auto form = float_form(type);
  const std::uint64_t step =
      std::max<std::uint64_t>(1, vicinal::value_size(type) >= 4 ? 0x1234567u : vicinal::value_size(type));
  const std::uint64_t middle = form ? form->infinity - 1 : 0;  // +0 in the series of floats
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint64_t start = rng.bits() % 1000;
    for (std::int64_t col = 0; col < cols; ++col) {
      std::uint64_t bits = 0;
      switch (family) {
        case Family::random: bits = series(type, rng.bits()); break;
        case Family::bits: bits = rng.bits(); break;
        case Family::equal: bits = series(type, middle + start); break;
        case Family::ascending:
          bits = series(type, middle / 2 + start + static_cast<std::uint64_t>(col) * step / 64);
          break;
        case Family::descending:
          bits = series(type, middle / 2 + start + static_cast<std::uint64_t>(cols - col) * step / 64);
          break;
        case Family::few: bits = series(type, middle + rng.bits() % 4 * 3); break;
        case Family::zeros: bits = form && rng.chance(0.5) ? form->sign : 0; break;
        case Family::infinities:
          bits = form ? form->infinity | (rng.chance(0.3) ? form->sign : 0)
                      : series(type, rng.chance(0.5) ? 0 : ~std::uint64_t{0});
          break;
        case Family::one_outlier: bits = series(type, col == cols * 2 / 3 ? 7 : middle + start + 100); break;
        case Family::denormals:
          bits = form ? (1 + rng.bits() % 50) | (rng.chance(0.5) ? form->sign : 0) : rng.bits() % 50;
          break;
        case Family::nan_rich: bits = form && rng.chance(0.9) ? nan_bits(*form, rng) : series(type, rng.bits()); break;
        case Family::all_nan: bits = form ? nan_bits(*form, rng) : ~std::uint64_t{0}; break;
        case Family::ties_at_k: bits = series(type, middle + (rng.chance(0.02) ? rng.bits() % 100 : 200)); break;
      }
      sheet.set(row * cols + col, bits);
    }
  }
  return sheet;
}

struct Runner {
  std::string device, algorithm, instruction_set = "auto";
  std::string text() const { return device + " " + algorithm + " " + instruction_set; }
};

/// Every algorithm by name, and auto, where it runs here.
std::vector<Runner> runners() {
  std::vector<Runner> all;
  for (const vicinal::Device& device : vicinal::devices()) {
    if (!device.usable || device.name == "cuda:1") continue;
    const std::string kind = device.name.substr(0, device.name.find(':'));
    for (const vicinal::SelectAlgorithm& algorithm : vicinal::select_algorithms()) {
      if (algorithm.devices.find(kind) == std::string_view::npos) continue;
      if (kind == "cpu" && algorithm.name == "threshold") {
        for (const std::string& isa : instruction_sets())
          all.push_back({device.name, std::string(algorithm.name), isa});
      } else {
        all.push_back({device.name, std::string(algorithm.name)});
      }
    }
  }
  return all;
}

/// Steps of the slowest sorts on a row, about.
double cost(const Runner& runner, std::int64_t cols, std::int64_t k) {
  const bool square = runner.algorithm == "bubble" || runner.algorithm == "insertion";
  return static_cast<double>(cols) * (square ? static_cast<double>(k) : 20);
}

testing::AssertionResult equal_to_oracle(const Runner& runner, const Values& values, std::int64_t k, bool largest,
                                         const oracle::Selected& truth, int threads = 2) {
  Selection got;
  try {
    got = vicinal::select_k(
        values, {.k = k,
                 .largest = largest,
                 .algorithm = runner.algorithm,
                 .run = {.device = runner.device, .threads = threads, .instruction_set = runner.instruction_set}});
  } catch (const vicinal::Error& error) {
    if (runner.algorithm.rfind("sieve", 0) == 0 &&
        std::string(error.what()).find("cannot take this selection") != std::string::npos)
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << runner.text() << ": " << error.what();
  }
  const std::size_t size = vicinal::value_size(values.type);
  for (std::int64_t i = 0; i < values.rows * k; ++i) {
    if (got.ids()[i] != truth.ids[static_cast<std::size_t>(i)])
      return testing::AssertionFailure() << runner.text() << ", " << vicinal::value_type_name(values.type) << " "
                                         << values.rows << " x " << values.cols << ", k=" << k
                                         << (largest ? " largest" : "") << ": row " << i / k << " rank " << i % k
                                         << " is " << got.ids()[i] << ", should be "
                                         << truth.ids[static_cast<std::size_t>(i)];
    if (std::memcmp(static_cast<const std::byte*>(got.values()) + static_cast<std::size_t>(i) * size,
                    truth.values.data() + static_cast<std::size_t>(i) * size, size) != 0)
      return testing::AssertionFailure() << runner.text() << ", k=" << k << ": row " << i / k << " rank " << i % k
                                         << ": the value's bits differ";
  }
  return testing::AssertionSuccess();
}

void check_families(const std::vector<Runner>& all, ValueType type, std::int64_t rows, std::int64_t cols,
                    const std::vector<std::int64_t>& ks, std::uint64_t seed) {
  Rng share(seed * 64 + static_cast<std::uint64_t>(type));
  for (Family family : all_families) {
    const Sheet sheet = make(family, type, rows, cols, seed + static_cast<std::uint64_t>(family));
    for (bool largest : {false, true}) {
      if (!in_share(share)) continue;
      const oracle::Selected whole = oracle::select_k(sheet.values(), cols, largest);
      for (std::int64_t k : ks) {
        if (k < 1 || k > cols) continue;
        oracle::Selected truth;
        const std::size_t size = vicinal::value_size(type);
        for (std::int64_t row = 0; row < rows; ++row) {
          truth.ids.insert(truth.ids.end(), whole.ids.begin() + row * cols, whole.ids.begin() + row * cols + k);
          truth.values.insert(
              truth.values.end(),
              whole.values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row * cols) * size),
              whole.values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row * cols + k) * size));
        }
        for (const Runner& runner : all) {
          if (cost(runner, cols, k) > 3e6) continue;
          ASSERT_TRUE(equal_to_oracle(runner, sheet.values(), k, largest, truth))
              << family_names[static_cast<int>(family)] << " seed " << seed;
        }
      }
    }
  }
}

TEST(Select, EveryAlgorithmOnEveryFamilyAndType) {
  for (ValueType type : all_types) {
    SCOPED_TRACE(vicinal::value_type_name(type));
    check_families(runners(), type, 3, 700, {1, 2, 31, 33, 256, 699, 700}, 1);
  }
}

TEST(Select, EdgesOfKAndRow) {
  for (ValueType type : {ValueType::f32, ValueType::i64}) {
    for (std::int64_t cols : {1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257})
      check_families(runners(), type, 2, cols, {1, 2, 31, 32, 33, 255, 256, 257, cols - 1, cols},
                     static_cast<std::uint64_t>(cols));
    check_families(runners(), type, 2, 5000, {32, 257, 1000, 2047, 2048, 2049, 3000, 4999, 5000}, 5000);
  }
}

TEST(Select, LongRows) {
  std::vector<Runner> fast = runners();
  std::erase_if(fast,
                [](const Runner& runner) { return runner.algorithm == "bubble" || runner.algorithm == "insertion"; });
  for (ValueType type : {ValueType::f32, ValueType::f16, ValueType::u8, ValueType::f64})
    check_families(fast, type, 1, 40001, {1, 10, 1000}, 9);
}

/// Shapes of which a device has a way of its own, sieve_parts; its limits are 65,536 columns and k = 128.
TEST(Select, AFewRowsOfMediumLength) {
  Rng share(12);
  int n = 0;
  for (const Runner& runner : runners()) {
    const bool parts = runner.algorithm == "sieve_parts";
    if (!parts && runner.algorithm != "auto") continue;
    for (const Family family : all_families) {
      for (const ValueType type : {ValueType::f32, ValueType::i32, ValueType::u32}) {
        const std::int64_t cols = ++n % 3 == 0 ? 65536
                                  : n % 3 == 1 ? 262148
                                               : 90004,
                           rows = 1 + n % 3, k = n % 4 == 0 ? 128 : 1 + n * 7 % 120;
        if (!parts && !in_share(share)) continue;
        const Sheet sheet = make(family, type, rows, cols, static_cast<std::uint64_t>(n));
        ASSERT_TRUE(
            equal_to_oracle(runner, sheet.values(), k, n % 2 == 0, oracle::select_k(sheet.values(), k, n % 2 == 0)))
            << family_names[static_cast<int>(family)];
      }
    }
  }
}

TEST(Select, OneLongRowInParts) {
  Rng share(11);
  for (Family family : {Family::random, Family::few, Family::ascending, Family::descending, Family::nan_rich}) {
    if (!in_share(share)) continue;
    const Sheet sheet = make(family, ValueType::f32, 1, 3000017, 77);
    const oracle::Selected truth = oracle::select_k(sheet.values(), 3000, false);
    for (int threads : {1, 2, 7})
      for (const std::string& isa : instruction_sets())
        ASSERT_TRUE(equal_to_oracle({"cpu", "auto", isa}, sheet.values(), 3000, false, truth, threads))
            << family_names[static_cast<int>(family)] << " threads " << threads;
  }
}

TEST(Select, MoreValuesThanTheGuessExpects) {
  // The places that a sample looks at hold large values, the others small ones, and the other way round: either guess is wrong.
  for (bool low : {false, true}) {
    Sheet sheet(ValueType::f32, 1, 400000);
    Rng rng(5);
    for (std::int64_t i = 0; i < sheet.cols; ++i) {
      const bool sampled = i / 1000 % 7 == 0;
      sheet.set(i, series(ValueType::f32, 0x7f800000u + rng.bits() % 1000 + (sampled == low ? 0 : 5000)));
    }
    const oracle::Selected truth = oracle::select_k(sheet.values(), 1000, false);
    for (const std::string& isa : instruction_sets())
      ASSERT_TRUE(equal_to_oracle({"cpu", "threshold", isa}, sheet.values(), 1000, false, truth));
  }
}

TEST(Select, StridesByteOrderAndAlignment) {
  for (ValueType type : all_types) {
    const Sheet sheet = make(Family::random, type, 5, 300, 3);
    const auto size = static_cast<std::int64_t>(vicinal::value_size(type));
    const oracle::Selected truth = oracle::select_k(sheet.values(), 20, false);
    for (const Runner& runner : runners()) {
      // Column-major, one byte off, and swapped.
      std::vector<std::byte> other(sheet.bytes.size() + 1);
      for (std::int64_t row = 0; row < 5; ++row)
        for (std::int64_t col = 0; col < 300; ++col) {
          std::byte* to = other.data() + 1 + (col * 5 + row) * size;
          std::memcpy(to, sheet.bytes.data() + (row * 300 + col) * size, static_cast<std::size_t>(size));
          std::reverse(to, to + size);
        }
      Values odd = sheet.values();
      odd.data = other.data() + 1;
      odd.row_stride = size;
      odd.col_stride = 5 * size;
      odd.byte_swapped = true;
      ASSERT_TRUE(equal_to_oracle(runner, odd, 20, false, truth));
      // Backwards rows: the order of positions turns round with them.
      Values back = sheet.values();
      back.data = sheet.bytes.data() + 299 * size;
      back.col_stride = -size;
      ASSERT_TRUE(equal_to_oracle(runner, back, 20, true, oracle::select_k(back, 20, true)));
    }
  }
}

TEST(Select, PayloadUnsortedAndHalfResults) {
  const Sheet sheet = make(Family::few, ValueType::f32, 4, 900, 8);
  std::vector<std::uint64_t> big(4 * 900);
  std::iota(big.begin(), big.end(), 1000000007u);
  std::vector<std::uint8_t> small(4 * 900);
  for (std::size_t i = 0; i < small.size(); ++i) small[i] = static_cast<std::uint8_t>(i * 37);
  const oracle::Selected truth = oracle::select_k(sheet.values(), 100, false);
  for (const Runner& runner : runners()) {
    if (runner.algorithm == "sieve_parts") continue;  // not for rows so short
    SCOPED_TRACE(runner.text());
    SelectOptions options{.k = 100,
                          .algorithm = runner.algorithm,
                          .run = {.device = runner.device, .instruction_set = runner.instruction_set}};
    const Selection wide = vicinal::select_k(sheet.values(), options,
                                             {.data = big.data(), .item_size = 8, .row_stride = 7200, .col_stride = 8});
    const Selection narrow = vicinal::select_k(
        sheet.values(), options, {.data = small.data(), .item_size = 1, .row_stride = 900, .col_stride = 1});
    options.sorted = false;
    const Selection loose = vicinal::select_k(sheet.values(), options);
    std::vector<float> values(400);
    vicinal::select_k_into({.values = values.data(), .rows = 4, .k = 100}, sheet.values(), options);
    for (std::int64_t row = 0; row < 4; ++row) {
      std::vector<std::int64_t> some(loose.ids() + row * 100, loose.ids() + row * 100 + 100);
      std::sort(some.begin(), some.end());
      std::vector<std::int64_t> due(truth.ids.begin() + row * 100, truth.ids.begin() + row * 100 + 100);
      for (std::int64_t rank = 0; rank < 100; ++rank) {
        const std::int64_t id = due[static_cast<std::size_t>(rank)];
        ASSERT_EQ(wide.id(row, rank), id);
        ASSERT_EQ(static_cast<const std::uint64_t*>(wide.payload())[row * 100 + rank],
                  big[static_cast<std::size_t>(row * 900 + id)]);
        ASSERT_EQ(static_cast<const std::uint8_t*>(narrow.payload())[row * 100 + rank],
                  small[static_cast<std::size_t>(row * 900 + id)]);
      }
      std::sort(due.begin(), due.end());
      ASSERT_EQ(some, due);
    }
  }
}

template <class Call>
vicinal::Error refused(const Call& call) {
  try {
    call();
  } catch (const vicinal::Error& error) {
    return error;
  }
  return {vicinal::ErrorCode::internal, "nothing was refused"};
}

TEST(Select, RefusalsNameTheValueAndTheWayOut) {
  const Sheet sheet = make(Family::random, ValueType::f32, 2, 10, 1);
  const auto message = [&](SelectOptions options) {
    const vicinal::Error error = refused([&] { vicinal::select_k(sheet.values(), options); });
    return std::string(vicinal::error_name(error.code())) + ": " + error.what();
  };
  EXPECT_EQ(message({.k = 0}), "InvalidArgument: k must be >= 1, got 0");
  EXPECT_EQ(message({.k = 11}), "InvalidArgument: k=11 exceeds the 10 values of a row");
  EXPECT_NE(message({.k = 1, .algorithm = "bitonik"}).find("did you mean \"bitonic\"? known: auto, threshold"),
            std::string::npos)
      << message({.k = 1, .algorithm = "bitonik"});
  EXPECT_NE(message({.k = 1, .algorithm = "quick_block", .run = {.device = "cpu"}}).find("runs on CUDA only"),
            std::string::npos);
  EXPECT_EQ(message({.k = 1, .run = {.threads = -1}}), "InvalidArgument: threads must be >= 0, got -1");
  const vicinal::Error payload =
      refused([&] { vicinal::select_k(sheet.values(), {.k = 1}, {.data = sheet.bytes.data(), .item_size = 3}); });
  EXPECT_NE(std::string(payload.what()).find("items of 3 bytes"), std::string::npos);
  const vicinal::Error room = refused([&] { vicinal::select_k_into({.rows = 2, .k = 3}, sheet.values(), {.k = 4}); });
  EXPECT_NE(std::string(room.what()).find("room for 2 x 3"), std::string::npos);
  std::stop_source stop;
  stop.request_stop();
  const Sheet large = make(Family::random, ValueType::f32, 1, 3000000, 1);
  EXPECT_EQ(refused([&] { vicinal::select_k(large.values(), {.k = 5, .stop = stop.get_token()}); }).code(),
            vicinal::ErrorCode::cancelled);
}

TEST(Select, NoRowsIsAnEmptyResult) {
  const Selection none = vicinal::select_k(Values(nullptr, ValueType::i16, 0, 5), {.k = 3});
  EXPECT_EQ(none.rows(), 0);
  EXPECT_EQ(none.k(), 3);
}

TEST(Select, TheCatalogueStartsWithAuto) {
  ASSERT_FALSE(vicinal::select_algorithms().empty());
  EXPECT_EQ(vicinal::select_algorithms().front().name, "auto");
  for (const vicinal::SelectAlgorithm& algorithm : vicinal::select_algorithms()) EXPECT_FALSE(algorithm.about.empty());
}

}  // namespace
}  // namespace conformance
