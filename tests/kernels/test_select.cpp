// The kernels of selection against the full stable sort, bit for bit: every algorithm, type and family, edges of k and of shared
// memory, strides, payloads, batches. VICINAL_SIMT_SEED draws the order of lanes.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "kernels/emulated.hpp"
#include "kernels/inputs.hpp"
#include "oracle/select.hpp"

namespace {

using inputs::Family;
using vicinal::Values;
using vicinal::ValueType;

/// All that algorithm.def lists for CUDA.
std::vector<const char*> algorithms_of_cuda() {
  constexpr bool cpu = false, cuda = true, cpu_and_cuda = true;
  std::vector<const char*> names;
#define VICINAL_SELECT(name, devices, ...) \
  if (devices) names.push_back(#name);
#include "select/algorithm.def"
#undef VICINAL_SELECT
  return names;
}
const std::vector<const char*> algorithms = algorithms_of_cuda();

struct Case {
  const char* algorithm = "auto";
  ValueType type = ValueType::f32;
  Family family = Family::random;
  std::int64_t rows = 2, cols = 100, k = 10;
  bool largest = false, sorted = true;
  bool values = true, ids = true;
  std::int64_t payload = 0;  // bytes an item
  std::int64_t col_step = 1,
               gap = 0;  // elements from a value to the next, and between rows; a negative step walks backwards
  emulated::Machine machine;
};

std::string text(const Case& c) {
  return std::string(c.algorithm) + " " + inputs::name(c.type) + " " + inputs::name(c.family) + " " +
         std::to_string(c.rows) + " x " + std::to_string(c.cols) + " k=" + std::to_string(c.k) +
         (c.largest ? " largest" : "") + (c.sorted ? "" : " unsorted") + (c.ids ? "" : " values alone") +
         ", VICINAL_SIMT_SEED=" + std::to_string(simt::seed());
}

/// Entries of a row, each as (id, bits of value and payload), for comparison of sets.
using Entry = std::tuple<std::int64_t, std::string, std::string>;

std::optional<emulated::Selected> check(const Case& c) {
  SCOPED_TRACE(text(c));
  const auto size = static_cast<std::int64_t>(vicinal::value_size(c.type));
  const std::int64_t step = std::abs(c.col_step), width = (c.cols - 1) * step + 1 + c.gap;
  const std::vector<std::byte> data =
      inputs::make(c.family, c.type, c.rows, width, 7 + static_cast<std::uint64_t>(c.cols));
  Values values(data.data() + (c.col_step < 0 ? (c.cols - 1) * step * size : 0), c.type, c.rows, c.cols);
  values.row_stride = width * size;
  values.col_stride = c.col_step * size;
  std::vector<std::byte> payload(static_cast<std::size_t>(c.rows * c.cols * c.payload));
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 2654435761u >> 13);

  const auto results = static_cast<std::size_t>(c.rows * c.k);
  std::vector<std::byte> out_values(results * static_cast<std::size_t>(size)),
      out_payload(results * static_cast<std::size_t>(c.payload));
  std::vector<std::int64_t> out_ids(results, -1);
  vicinal::cuda::SelectArgs task;
  task.values = values;
  if (c.payload != 0) task.payload = {payload.data(), c.payload, c.cols * c.payload, c.payload};
  task.out = {c.values ? out_values.data() : nullptr, c.ids ? out_ids.data() : nullptr,
              c.payload != 0 ? out_payload.data() : nullptr, c.rows, c.k};
  task.k = c.k;
  task.largest = c.largest;
  task.sorted = c.sorted;
  task.algorithm = c.algorithm;
  if (vicinal::cuda::refusal<emulated::Launch>(task) != nullptr) return {};
  const emulated::Selected plan = emulated::select(task, c.machine);

  const oracle::Selected want = oracle::select_k(values, c.k, c.largest);
  const auto bytes = [](const auto& from, std::size_t at, std::int64_t item) {
    return std::string(reinterpret_cast<const char*>(from.data()) + at * static_cast<std::size_t>(item),
                       static_cast<std::size_t>(item));
  };
  for (std::int64_t r = 0; r < c.rows; ++r) {
    std::vector<Entry> is, should;
    for (std::int64_t i = 0; i < c.k; ++i) {
      const auto at = static_cast<std::size_t>(r * c.k + i);
      const auto source = static_cast<std::size_t>(r * c.cols + want.ids[at]);
      is.emplace_back(c.ids ? out_ids[at] : 0, c.values ? bytes(out_values, at, size) : "",
                      bytes(out_payload, at, c.payload));
      should.emplace_back(c.ids ? want.ids[at] : 0, c.values ? bytes(want.values, at, size) : "",
                          bytes(payload, source, c.payload));
    }
    if (!c.sorted) {
      std::sort(is.begin(), is.end());
      std::sort(should.begin(), should.end());
    }
    const auto wrong = std::mismatch(is.begin(), is.end(), should.begin()).first - is.begin();
    EXPECT_EQ(wrong, c.k) << "row " << r << ": id "
                          << std::get<0>(is[static_cast<std::size_t>(std::min(wrong, c.k - 1))]) << " for "
                          << std::get<0>(should[static_cast<std::size_t>(std::min(wrong, c.k - 1))]);
    if (wrong != c.k) break;
  }
  return plan;
}

class Algorithm : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Select, Algorithm, testing::ValuesIn(algorithms),
                         [](const auto& at) { return std::string(at.param); });

TEST_P(Algorithm, EveryTypeAndFamily) {
  int n = 0;
  for (const ValueType type : inputs::types) {
    for (int f = 0; f < static_cast<int>(Family::count); ++f, ++n) {
      Case c;
      c.algorithm = GetParam();
      c.type = type;
      c.family = static_cast<Family>(f);
      c.cols = 300 + n % 7;
      c.k = n % 3 == 0 ? 33 : 5 + n % 40;
      c.rows = 1 + n % 2;
      c.largest = n / 2 % 2 == 1;
      c.sorted = n % 5 != 0;
      c.payload = n % 4 == 0 ? 1 << n / 4 % 4 : 0;
      check(c);
    }
  }
}

TEST_P(Algorithm, EdgesOfShape) {
  int n = 0;
  for (const std::int64_t cols : {1, 2, 31, 32, 33, 64, 255, 256, 257, 1023, 1025}) {
    for (const std::int64_t k : {std::int64_t{1}, std::int64_t{2}, std::int64_t{31}, std::int64_t{32}, std::int64_t{33},
                                 std::int64_t{255}, std::int64_t{256}, std::int64_t{257}, cols - 1, cols}) {
      if (k < 1 || k > cols) continue;
      Case c;
      c.algorithm = GetParam();
      c.type = ++n % 2 == 0 ? ValueType::f32 : ValueType::i64;
      c.family = n % 3 == 0 ? Family::few : Family::random;
      c.rows = 1;
      c.cols = cols;
      c.k = k;
      c.largest = n % 4 == 1;
      c.sorted = n % 7 != 0;
      check(c);
    }
  }
}

TEST_P(Algorithm, LongerThanSharedMemory) {
  int n = 0;
  for (const auto& [cols, k] : {std::pair{4095, 7},
                                {4097, 64},
                                {9000, 2047},
                                {9000, 2048},
                                {8193, 2049},
                                {10000, 3000},
                                {5000, 5000},
                                {16500, 1}}) {
    Case c;
    c.algorithm = GetParam();
    c.type = ++n % 3 == 0 ? ValueType::f64 : ValueType::f32;
    c.family = n == 4 ? Family::descending : n == 2 ? Family::few : Family::random;
    c.rows = 1;
    c.cols = cols;
    c.k = k;
    check(c);
  }
}

TEST_P(Algorithm, StridesBatchesAndParts) {
  int n = 0;
  for (const std::int64_t step : {1, 3, -1, -2}) {
    for (const ValueType type : {ValueType::f32, ValueType::f16, ValueType::u64}) {
      Case c;
      c.algorithm = GetParam();
      c.type = type;
      c.family = ++n % 2 == 0 ? Family::zeros : Family::random;
      c.rows = 30;
      c.cols = 90;
      c.k = 6;
      c.col_step = step;
      c.gap = n % 3;
      c.machine.most_bytes = n % 3 == 0 ? std::int64_t{1} << 30 : n % 3 == 1 ? 20000 : 1;
      c.payload = n % 2 == 0 ? 2 : 0;
      c.values = n % 5 != 0;
      c.sorted = n % 4 != 0;
      const auto plan = check(c);
      if (!plan) continue;
      EXPECT_LE(plan->batch, c.rows);
      if (c.machine.most_bytes == 1) {
        EXPECT_EQ(plan->batch, 1);
      }
    }
  }
}

TEST_P(Algorithm, ManyRowsInFewBlocks) {
  Case c;
  c.algorithm = GetParam();
  c.rows = 70;   // more than blocks_for(rows, 1), so that blocks go on to another row
  c.cols = 700;  // every warp of a block has words on both sides of the k-th
  c.k = 350;
  c.sorted = false;
  check(c);
}

/// Values alone: quick moves keys without positions, and the signs of zeros and the bits of NaN come back.
TEST(ValuesAlone, EveryTypeAndFamily) {
  int n = 0;
  for (const char* algorithm : {"quick_warp", "quick_block", "radix"}) {
    for (const ValueType type : inputs::types) {
      for (int f = 0; f < static_cast<int>(Family::count); ++f, ++n) {
        Case c;
        c.algorithm = algorithm;
        c.type = type;
        c.family = static_cast<Family>(f);
        c.rows = 2;
        c.cols = 350 + n % 5;
        c.k = n % 6 == 0 ? c.cols : 20 + n % 30;
        c.largest = n % 2 == 1;
        c.sorted = n % 3 != 0;
        c.ids = false;
        const auto plan = check(c);
        ASSERT_TRUE(plan);
        EXPECT_EQ(plan->form == vicinal::cuda::FormName::alone32 || plan->form == vicinal::cuda::FormName::alone64,
                  n < 2 * 12 * 12);
      }
    }
  }
}

TEST(Select, OrderOfLanesDoesNotMatter) {
  const std::uint64_t before = simt::seed();
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    simt::set_seed(seed);
    simt::shuffle_blocks(seed % 2 == 0);
    for (const char* algorithm : algorithms) {
      Case c;
      c.algorithm = algorithm;
      c.cols = 2100;
      c.k = 40;
      c.family = seed % 2 == 0 ? Family::few : Family::random;
      check(c);
    }
  }
  simt::shuffle_blocks(false);
  simt::set_seed(before);
}

/// Inputs against the sampled pivots must not cost a pass for each word: lanes would be at it for minutes.
TEST(Quick, PassesAreBounded) {
  for (const char* algorithm : {"quick_warp", "quick_block"}) {
    for (const Family family : {Family::equal, Family::ascending, Family::descending, Family::outlier, Family::few}) {
      for (const bool ids : {true, false}) {
        Case c;
        c.algorithm = algorithm;
        c.family = family;
        c.rows = 1;
        c.cols = 20000;
        c.k = 100;
        c.ids = ids;
        check(c);
      }
    }
  }
}

/// A name that led to another algorithm's kernels would give the same answers: each has launched one that no other launches.
TEST(Select, EveryAlgorithmOfTheListLaunchesKernelsOfItsOwn) {
  std::map<const void*, std::set<std::string>> launched;
  for (const char* algorithm : algorithms) {
    for (const std::int64_t cols : {100, 3000, 1 << 16}) {
      Case c;
      c.algorithm = algorithm;
      c.rows = 1;
      c.cols = cols;
      const auto ran = check(c);
      if (!ran) continue;
      EXPECT_STREQ(ran->algorithm, algorithm);
      for (const void* kernel : ran->kernels) launched[kernel].insert(algorithm);
    }
  }
  for (const char* algorithm : algorithms) {
    int own = 0;
    for (const auto& [kernel, names] : launched) own += names == std::set<std::string>{algorithm} ? 1 : 0;
    EXPECT_GT(own, 0) << algorithm;
  }
}

TEST(Select, PlanIsWithinItsBytes) {
  for (const char* algorithm : algorithms) {
    for (const std::int64_t rows : {1, 1000, 5000000}) {
      for (const std::int64_t cols : {10ll, 1ll << 20, 5ll << 30}) {
        for (const std::int64_t k : {std::int64_t{1}, std::int64_t{10}, cols / 2}) {
          vicinal::cuda::SelectArgs task;
          std::int64_t id = 0;
          task.values = Values(nullptr, ValueType::f32, rows, cols);
          task.k = k;
          task.algorithm = algorithm;
          task.out.ids = &id;
          const auto plan = vicinal::cuda::plan_select<emulated::Launch>(task, 132, std::int64_t{2} << 30);
          EXPECT_GE(plan.batch, 1);
          EXPECT_GE(plan.workers, 1);
          if (plan.kernel->select_and_emit == nullptr) {
            EXPECT_GE(plan.bytes, plan.batch * k * 8);
          }
          if (plan.batch > 1) {
            EXPECT_LE(plan.bytes, (std::int64_t{2} << 30) + 512)
                << algorithm << " " << rows << " x " << cols << " k=" << k;
          }
          EXPECT_EQ(plan.form, cols > 0xffffffffll ? vicinal::cuda::FormName::wide : vicinal::cuda::FormName::packed);
        }
      }
    }
  }
}

}  // namespace
