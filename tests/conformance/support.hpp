// What every conformance test needs: seeded random numbers that are the same on every machine, tables of any element
// type made from real values, the same table laid out in awkward ways, and the comparison of bits with the oracle.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/oracle.hpp"
#include "vicinal/vicinal.hpp"

namespace conformance {
using vicinal::DType;
using vicinal::Metric;

/// SplitMix64: every test names its seed, so every failure can be run again.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  /// Integer in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high);
  /// Integer in [low, high], small values as likely as large ones decade by decade.
  std::int64_t log_between(std::int64_t low, std::int64_t high);
  double uniform();  // [0, 1)
  double gauss();
  bool chance(double probability) { return uniform() < probability; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1))]);
  }

 private:
  std::uint64_t state_;
};

extern const std::vector<DType> all_dtypes;
double max_finite(DType type);
double min_normal(DType type);     // 1 for integers
double min_subnormal(DType type);  // 1 for integers
int precision(DType type);         // significant bits; 8 for u8, 7 for i8
/// The value of `type` nearest to `value`, saturated, ties to even.
double nearest(DType type, double value);

/// A dense table that owns its elements.
struct Table {
  DType dtype = DType::f32;
  std::int64_t n = 0, d = 0;
  std::vector<std::byte> bytes;

  Table() = default;
  /// Each value is rounded to the type.
  Table(DType type, std::int64_t rows, std::int64_t cols, const std::vector<double>& values);
  vicinal::Points points() const { return {bytes.data(), dtype, n, d}; }
  oracle::Rows rows() const { return oracle::decode_rows(dtype, bytes.data(), n, d); }
  void set(std::int64_t row, std::int64_t col, double value);
};
Table gaussian(Rng& rng, DType type, std::int64_t n, std::int64_t d, double mean = 0, double sigma = 1);

enum class Layout { strided, reversed, column_major, byte_swapped, unaligned };
extern const std::vector<Layout> all_layouts;
const char* layout_name(Layout layout);
/// The same elements stored differently; the points live as long as the object.
struct Arranged {
  std::vector<std::byte> bytes;
  vicinal::Points points;
  Arranged(const Table& table, Layout layout);
};

/// Metrics that are defined for rows of this type (hamming takes u8 and nothing else; some compare strings alone).
bool applies(Metric metric, DType type);
std::string metric_name(Metric metric);

/// "" if every id and every bit of every distance agree and the certificate is what it must be (all queries of a
/// search, none of a merge), else the first place where they do not.
enum class From { search, merge };
std::string difference(const vicinal::Neighbors& got, const oracle::Answer& want, From from = From::search);
std::string difference(const vicinal::Neighbors& got, const vicinal::Neighbors& want);
/// Searches, and compares the result or the error code with the oracle's.
std::string check(const vicinal::Points& corpus, const vicinal::Points& queries, const vicinal::KnnOptions& options,
                  const oracle::Answer& want);
oracle::SearchSpec spec(const vicinal::KnnOptions& options);

/// VICINAL_TEST_SCALE multiplies the number of sampled cases; 1 by default.
std::int64_t scaled(std::int64_t count);
/// One of many like it, of which VICINAL_TEST_SCALE asks for a share, and the test for `least` at least.
bool in_share(Rng& rng, double least = 0);
/// VICINAL_TEST_SEED, or the given one.
std::uint64_t seed_or(std::uint64_t fallback);
/// It tells whether the CUDA device of this number can be searched on.
bool has_cuda(int ordinal = 0);

/// Message and code of the vicinal::Error that `call` throws; the code is empty if it throws nothing.
struct Refusal {
  std::optional<vicinal::ErrorCode> code;
  std::string message = "no error";
};
template <class Call>
Refusal refusal(Call call) {
  try {
    call();
  } catch (const vicinal::Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

/// Runs `name` in a fresh copy of this program (main.cpp lists the jobs) and returns what it printed.
std::string run_child(const std::string& name, const std::string& argument);

}  // namespace conformance
