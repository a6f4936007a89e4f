// More rows than 32 bits name, on a CUDA device: 4.4e9 rows of 4 bytes, every value of 32 bits once in the first 2^32
// of them and rows i and i + 2^32 equal. So the answer is known without a search: rows of a value are found by undoing
// what made them. Needs 17.6 GB of the host's memory, for half a minute.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "conformance/settings.hpp"

namespace conformance {
namespace {

constexpr std::int64_t beyond = std::int64_t{1} << 32, many = 4400000000, columns = 4;

// A permutation of 32 bits, and back.
constexpr std::uint32_t odd = 2654435761u, other = 2246822519u;
constexpr std::uint32_t inverse_of(std::uint32_t factor) {
  std::uint32_t inverse = factor;
  for (int i = 0; i < 5; ++i) inverse *= 2 - factor * inverse;
  return inverse;
}
std::uint32_t value_of(std::int64_t row) {
  auto value = static_cast<std::uint32_t>(row) * odd;
  value ^= value >> 16;
  return value * other;
}
std::uint32_t row_of(std::uint32_t value) {
  value *= inverse_of(other);
  value ^= value >> 16;
  return value * inverse_of(odd);
}

std::int64_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  std::string name;
  for (std::int64_t kilobytes = 0; info >> name >> kilobytes; info.ignore(100, '\n'))
    if (name == "MemAvailable:") return kilobytes << 10;
  return 0;
}

/// What is within distance 2 of a value, as (squared distance, row) in the order of an answer.
std::vector<std::pair<int, std::int64_t>> near(std::uint32_t value) {
  std::vector<std::pair<int, std::int64_t>> all;
  for (int code = 0; code < 625; ++code) {
    int squared = 0;
    std::uint32_t there = 0;
    bool byte = true;
    for (int c = 0, rest = code; c < columns; ++c, rest /= 5) {
      const int moved = static_cast<int>(value >> 8 * c & 255) + rest % 5 - 2;
      squared += (rest % 5 - 2) * (rest % 5 - 2);
      byte = byte && moved >= 0 && moved < 256;
      there |= static_cast<std::uint32_t>(moved & 255) << 8 * c;
    }
    if (!byte || squared > 4) continue;
    for (std::int64_t row = row_of(there); row < many; row += beyond) all.emplace_back(squared, row);
  }
  std::sort(all.begin(), all.end());
  return all;
}

class CudaManyRows : public testing::Test {
 protected:
  void SetUp() override {
    for (const vicinal::Device& device : vicinal::devices())
      if (device.usable && device.name.rfind("cuda:", 0) == 0 && device_.empty()) device_ = device.name;
    if (device_.empty()) GTEST_SKIP() << "no CUDA device here";
    if (scaled(1000) < 1000) GTEST_SKIP() << "VICINAL_TEST_SCALE asks for a part of the tests";
    constexpr std::int64_t needed = many * columns + (std::int64_t{4} << 30);
    if (available_bytes() < needed)
      GTEST_SKIP() << "needs " << needed << " bytes of the host's memory, " << available_bytes() << " are available";
    data_ = mmap(nullptr, many * columns, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(data_, MAP_FAILED);
    const auto count = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::thread> threads;
    for (std::int64_t t = 0; t < count; ++t)
      threads.emplace_back([=, this] {
        for (std::int64_t row = many * t / count; row < many * (t + 1) / count; ++row)
          static_cast<std::uint32_t*>(data_)[row] = value_of(row);
      });
    for (std::thread& thread : threads) thread.join();
  }
  void TearDown() override {
    if (data_ != MAP_FAILED) munmap(data_, many * columns);
  }

  vicinal::Points corpus() const { return {data_, DType::u8, many, columns}; }
  /// Rows at both ends and around 2^32, and some between.
  static std::vector<std::uint32_t> asked() {
    std::vector<std::uint32_t> values;
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{104}, std::int64_t{105032703}, beyond - 1, beyond,
                                   beyond + 104, many - 1, many / 2, std::int64_t{2147483648}})
      values.push_back(value_of(row));
    return values;
  }

  std::string device_;
  void* data_ = MAP_FAILED;
};

TEST_F(CudaManyRows, NeighboursAndMatchesHaveTheirRowsAndTiesTheirOrder) {
  for (const std::uint32_t value : {0u, 1u, 0xffffffffu, 123456789u}) ASSERT_EQ(value_of(row_of(value)), value);
  const std::vector<std::uint32_t> values = asked();
  const auto count = static_cast<std::int64_t>(values.size());
  const vicinal::Points queries(values.data(), DType::u8, count, columns);
  for (const std::string filter : {"int8", "auto", "f32", "canonical"})
    for (const std::int64_t k : {1, 2, 12}) {
      if (filter != "int8" && k != 12) continue;
      vicinal::KnnOptions options{.k = k, .first_id = 7};
      options.run.device = device_;
      options.run.filter = filter;
      const vicinal::Neighbors got = vicinal::knn(corpus(), queries, options);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto want = near(values[static_cast<std::size_t>(i)]);
        ASSERT_GE(static_cast<std::int64_t>(want.size()), k);
        for (std::int64_t rank = 0; rank < k; ++rank) {
          ASSERT_EQ(got.id(i, rank), 7 + want[static_cast<std::size_t>(rank)].second)
              << filter << ", k " << k << ", query " << i << ", rank " << rank;
          ASSERT_EQ(got.distance(i, rank), std::sqrt(static_cast<float>(want[static_cast<std::size_t>(rank)].first)));
        }
      }
      EXPECT_EQ(got.certificate.queries, count);
    }
  vicinal::RangeOptions options;
  options.search.run.device = device_;
  const vicinal::CsrNeighbors got = vicinal::range_search(corpus(), queries, 2, options);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto want = near(values[static_cast<std::size_t>(i)]);
    ASSERT_EQ(got.count(i), static_cast<std::int64_t>(want.size())) << "query " << i;
    for (std::size_t at = 0; at < want.size(); ++at)
      ASSERT_EQ(got.ids()[got.offsets()[i] + static_cast<std::int64_t>(at)], want[at].second)
          << "query " << i << ", match " << at;
  }
}

/// The self-test of a device passes, so that what it says it multiplies by is what ran.
TEST(CudaInstructionSets, AForcedOneIsTheOneThatRan) {
  Rng rng(3);
  const Table corpus = gaussian(rng, DType::f32, 6000, 16), queries = gaussian(rng, DType::f32, 40, 16);
  int ran = 0;
  for (const vicinal::Device& device : vicinal::devices()) {
    if (!device.usable || device.name.rfind("cuda:", 0) != 0) continue;
    for (const char* set : {"auto", "wgmma", "mma"}) {
      vicinal::KnnOptions options{.k = 10};
      options.run.device = device.name;
      options.run.filter = "int8";
      options.run.instruction_set = set;
      std::string planned;
      try {
        planned = vicinal::plan(shape_of(corpus.points()), shape_of(queries.points()), options).instruction_set;
      } catch (const vicinal::Error& error) {
        EXPECT_STREQ(set, "wgmma") << error.what();  // which not every device has
        continue;
      }
      const vicinal::Neighbors got = vicinal::knn(corpus.points(), queries.points(), options);
      EXPECT_EQ(got.stats.instruction_set, planned);
      for (const std::string& note : got.stats.notes) EXPECT_EQ(note.find("self-test"), std::string::npos) << note;
      ++ran;
    }
  }
  if (ran == 0) GTEST_SKIP() << "no CUDA device here";
}

}  // namespace
}  // namespace conformance
