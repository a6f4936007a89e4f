// Sieve against the full stable sort where its guess goes wrong on purpose: too low, so that fewer than k words are kept; too high,
// so that memory overflows; and long rows, whose sample is of many blocks.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "cuda/select/merge.cuh"
#include "cuda/select/sieve_grid.cuh"
#include "cuda/select/sieve_parts.cuh"
#include "kernels/emulated.hpp"
#include "kernels/inputs.hpp"
#include "oracle/select.hpp"

namespace {

using vicinal::Values;
using vicinal::ValueType;

/// Every id and every value of the selection.
void check(const char* algorithm, const Values& values, std::int64_t k, bool largest = false) {
  SCOPED_TRACE(std::string(algorithm) + " " + inputs::name(values.type) + " " + std::to_string(values.rows) + " x " +
               std::to_string(values.cols) + " k=" + std::to_string(k) +
               ", VICINAL_SIMT_SEED=" + std::to_string(simt::seed()));
  const std::size_t size = vicinal::value_size(values.type), results = static_cast<std::size_t>(values.rows * k);
  std::vector<std::byte> out(results * size);
  std::vector<std::int64_t> ids(results, -1);
  vicinal::cuda::SelectArgs task;
  task.values = values;
  task.out = {out.data(), ids.data(), nullptr, values.rows, k};
  task.k = k;
  task.largest = largest;
  task.algorithm = algorithm;
  ASSERT_EQ(vicinal::cuda::refusal<emulated::Launch>(task), nullptr);
  emulated::select(task, {});
  const oracle::Selected want = oracle::select_k(values, k, largest);
  EXPECT_EQ(ids, want.ids);
  EXPECT_EQ(std::memcmp(out.data(), want.values.data(), out.size()), 0);
}

std::vector<float> between_one_and_two(std::int64_t count) {
  std::mt19937 random(3);
  std::vector<float> row(static_cast<std::size_t>(count));
  for (float& value : row) value = 1 + static_cast<float>(random() >> 8) / (1 << 24);
  return row;
}

/// Calls body(column) for the first `count` samples that `blocks` blocks take of a row.
template <class Body>
void each_sample(const vicinal::cuda::SpeculativeThreshold& speculative, std::int64_t row, std::int64_t cols,
                 int blocks, std::int64_t count, const Body& body) {
  const std::int64_t runs = std::int64_t{speculative.samples} / speculative.run * blocks,
                     stratum = cols / runs / speculative.run * speculative.run;
  for (std::int64_t i = 0; i < count; ++i)
    body(vicinal::cuda::sieve_sample_column(row, i / speculative.run, stratum, speculative.run) + i % speculative.run);
}

struct Way {
  const char* algorithm;
  std::int64_t cols, k, samples;
};
constexpr Way ways[] = {{"sieve_block", 40000, 100, vicinal::cuda::sieve_block_samples},
                        {"sieve_grid", 40000, 100, 4096},
                        {"sieve_grid", 40000, 5000, 4096}};

TEST(Sieve, AGuessThatIsTooLow) {
  for (const Way& way : ways) {
    const auto speculative = vicinal::cuda::speculate(way.cols, way.k, way.samples, 1, 8);
    ASSERT_GT(speculative.samples, 0);
    std::vector<float> rows = between_one_and_two(2 * way.cols);
    // As many samples as decide the guess are the smallest values of all, and too few to be the answer. The second row is ordinary.
    const std::int64_t low = std::min<std::int64_t>(speculative.most_rank, way.k - 1);
    each_sample(speculative, 0, way.cols, 1, low, [&](std::int64_t col) { rows[static_cast<std::size_t>(col)] -= 1; });
    if (low < way.k) check(way.algorithm, Values(rows.data(), ValueType::f32, 2, way.cols), way.k);
  }
}

TEST(Sieve, AGuessThatIsTooHigh) {
  for (const Way& way : ways) {
    const auto speculative = vicinal::cuda::speculate(way.cols, way.k, way.samples, 1, 8);
    std::vector<float> rows = between_one_and_two(way.cols);
    // No sample sees the small values, which are most of the row.
    for (float& value : rows) value -= 1;
    each_sample(speculative, 0, way.cols, 1, speculative.samples,
                [&](std::int64_t col) { rows[static_cast<std::size_t>(col)] += 1; });
    check(way.algorithm, Values(rows.data(), ValueType::f32, 1, way.cols), way.k);
    for (float& value : rows) value = 1;
    check(way.algorithm, Values(rows.data(), ValueType::f32, 1, way.cols), way.k);
  }
}

TEST(Sieve, EveryFamilyOfLongRows) {
  int n = 0;
  for (const Way& way : ways) {
    for (int f = 0; f < static_cast<int>(inputs::Family::count); ++f) {
      for (const ValueType type : {ValueType::f32, ValueType::u8, ValueType::bf16, ValueType::f64}) {
        if (type == ValueType::f64 && way.k > 2048 && way.algorithm == std::string("sieve_block")) continue;
        ++n;
        const std::int64_t cols = way.cols - n % 37;
        const auto data = inputs::make(static_cast<inputs::Family>(f), type, 1, cols, static_cast<std::uint64_t>(n));
        check(way.algorithm, Values(data.data(), type, 1, cols), n % 3 == 0 ? way.k : 7 + n % 50, n % 2 == 0);
      }
    }
  }
}

TEST(Sieve, WhatServedARowMisleadsTheNext) {
  int n = 0;
  for (const auto& [cols, k] :
       {std::pair{1024, 100}, {1024, 228}, {700, 20}, {8192, 100}, {8192, 1800}, {4000, 250}, {1028, 1}}) {
    for (const ValueType type : {ValueType::f32, ValueType::u8, ValueType::bf16, ValueType::i32, ValueType::i16}) {
      const bool strided = ++n % 4 == 0;
      const std::int64_t rows = 2 * static_cast<int>(inputs::Family::count), width = strided ? 2 * cols : cols;
      const auto size = static_cast<std::int64_t>(vicinal::value_size(type));
      std::vector<std::byte> data;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto family = static_cast<inputs::Family>(row % static_cast<int>(inputs::Family::count));
        const auto one = inputs::make(family, type, 1, width, static_cast<std::uint64_t>(n + row));
        data.insert(data.end(), one.begin(), one.end());
      }
      Values values(data.data(), type, rows, cols);
      values.row_stride = width * size;
      values.col_stride = strided ? 2 * size : size;
      check("sieve_rows", values, k, n % 2 == 0);
    }
  }
}

TEST(Sieve, RowsThatStartAnywhere) {
  for (const char* algorithm : {"sieve_rows", "sieve_block", "sieve_grid"}) {
    for (const ValueType type : {ValueType::f32, ValueType::i16, ValueType::u8}) {
      for (const std::int64_t start : {1, 3, 15}) {
        for (const std::int64_t cols : {5, 16, 17, 100, 1000}) {
          const auto size = static_cast<std::int64_t>(vicinal::value_size(type));
          const auto data = inputs::make(inputs::Family::random, type, 1, 4 * (cols + 1) + 16,
                                         static_cast<std::uint64_t>(cols + start));
          Values values(data.data() + start * size, type, 3, cols);
          values.row_stride = (cols + 1) * size;
          check(algorithm, values, std::min<std::int64_t>(cols, 20), start == 3);
        }
      }
    }
  }
}

TEST(Sieve, OneVeryLongRow) {
  const std::int64_t cols = (std::int64_t{1} << 21) + 13;
  const auto plan = vicinal::cuda::sieve_grid_plan(cols, 100, 4, vicinal::cuda::FormName::packed);
  EXPECT_GT(plan.samplers, 1);
  EXPECT_LT(plan.most_found, cols / 50);
  const std::vector<float> row = between_one_and_two(cols);
  check("sieve_grid", Values(row.data(), ValueType::f32, 1, cols), 100);
  check("sieve_grid", Values(row.data(), ValueType::f32, 1, cols), 5000, true);
}

/// Launches, and tells whether the guess of the first row was sound when the finish began.
struct Watch {
  emulated::Launch launch;
  bool sound = false;
  template <class Args>
  void operator()(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
                  const std::type_identity_t<Args>& args) {
    launch(blocks, threads, shared, kernel, args);
    if constexpr (std::is_same_v<Args, vicinal::cuda::SieveGrid<vicinal::cuda::Packed>>)
      sound = vicinal::cuda::sieve_sound(args, 0);
  }
};

/// A guess that is not sound costs a row its speed, a thousand times: the families of rows must not do that to the samples of many blocks.
TEST(Sieve, GuessesOfManyBlocksAreSound) {
  const std::int64_t cols = (std::int64_t{1} << 21) + 13, k = 100;
  const auto plan = vicinal::cuda::sieve_grid_plan(cols, k, 4, vicinal::cuda::FormName::packed);
  ASSERT_GT(plan.samplers, 1);
  for (const inputs::Family family : {inputs::Family::random, inputs::Family::equal, inputs::Family::ascending,
                                      inputs::Family::descending, inputs::Family::few}) {
    const auto data = inputs::make(family, ValueType::f32, 1, cols, 5);
    const Values values(data.data(), ValueType::f32, 1, cols);
    std::vector<std::uint64_t> found(static_cast<std::size_t>(plan.most_found)), spare(1 << 16);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(k));
    vicinal::cuda::SelectBatch batch;
    batch.rows = vicinal::cuda::device_rows(values, false);
    batch.k = k;
    batch.list = found.data();
    batch.workspace = spare.data();
    batch.multiprocessors = 4;
    vicinal::cuda::Emission out;
    out.ids = ids.data();
    Watch watch;
    vicinal::cuda::run_sieve_grid(watch, batch, out);
    EXPECT_TRUE(watch.sound) << inputs::name(family);
    EXPECT_EQ(ids, oracle::select_k(values, k, false).ids) << inputs::name(family);
  }
}

TEST(Sieve, PartsOfEveryFamily) {
  int n = 0;
  for (int f = 0; f < static_cast<int>(inputs::Family::count); ++f) {
    const ValueType type = f % 3 == 0 ? ValueType::i32 : f % 3 == 1 ? ValueType::f32 : ValueType::u32;
    for (const ValueType one : {ValueType::f32, type}) {
      ++n;
      const std::int64_t cols = (n % 2 == 0 ? 1 << 16 : 1 << 17) + 4 * (n % 5);
      const auto data =
          inputs::make(static_cast<inputs::Family>(f), one, n % 2 + 1, cols, static_cast<std::uint64_t>(n));
      check("sieve_parts", Values(data.data(), one, n % 2 + 1, cols), n % 3 == 0 ? 128 : 1 + n % 100, n % 2 == 0);
    }
  }
  const std::vector<float> row = between_one_and_two((1 << 20) + 3);
  check("sieve_parts", Values(row.data(), ValueType::f32, 1, (1 << 20) + 3), 100);
}

/// Launches, and tells what the finish of one row has to do.
struct WatchParts {
  emulated::Launch launch;
  bool sound = false;
  template <class Args>
  void operator()(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
                  const std::type_identity_t<Args>& args) {
    launch(blocks, threads, shared, kernel, args);
  }
  template <class Args>
  void next(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
            const std::type_identity_t<Args>& args) {
    std::vector<std::uint64_t> found(args.found, args.found + args.parts * vicinal::cuda::sieve_part_slots);
    std::sort(found.begin(), found.end());
    sound = found[static_cast<std::size_t>(args.one.k - 1)] <=
            *std::min_element(args.thresholds, args.thresholds + args.parts);
    launch(blocks, threads, shared, kernel, args);
  }
};

/// A part that holds more of the answer than it can say costs a row its speed: the families of rows must not do that.
TEST(Sieve, PartsOfTheFamiliesAreSound) {
  const std::int64_t cols = 1 << 18, k = 128;
  for (const inputs::Family family : {inputs::Family::random, inputs::Family::equal, inputs::Family::ascending,
                                      inputs::Family::descending, inputs::Family::few}) {
    const auto data = inputs::make(family, ValueType::f32, 1, cols, 5);
    const Values values(data.data(), ValueType::f32, 1, cols);
    std::vector<std::uint64_t> spare(1 << 14);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(k));
    vicinal::cuda::SelectBatch batch;
    batch.rows = vicinal::cuda::device_rows(values, false);
    batch.k = k;
    batch.workspace = spare.data();
    vicinal::cuda::Emission out;
    out.ids = ids.data();
    WatchParts watch;
    vicinal::cuda::run_sieve_parts(watch, batch, out);
    EXPECT_TRUE(watch.sound) << inputs::name(family);
    EXPECT_EQ(ids, oracle::select_k(values, k, false).ids) << inputs::name(family);
  }
}

TEST(Sieve, APartThatHoldsTheAnswer) {
  const std::int64_t cols = 1 << 16;
  const int parts = vicinal::cuda::sieve_parts(cols);
  for (const int values : {8, 16, 24, 33, 100, 200}) {
    std::vector<float> rows = between_one_and_two(2 * cols);
    for (int i = 0; i < values; ++i)  // the smallest of the second row are in one part
      rows[static_cast<std::size_t>(cols + 8 * vicinal::cuda::sieve_part_place(1, 5, i / 8, parts) + i % 8)] -= 1;
    check("sieve_parts", Values(rows.data(), ValueType::f32, 2, cols), 100);
    check("sieve_parts", Values(rows.data(), ValueType::f32, 2, cols), 20, true);
  }
}

TEST(Sieve, PartsRefuse) {
  const std::vector<float> row = between_one_and_two(1 << 17);
  const auto refused = [&](const Values& values, std::int64_t k) {
    vicinal::cuda::SelectArgs task;
    task.values = values;
    task.k = k;
    task.algorithm = "sieve_parts";
    const char* why = vicinal::cuda::refusal<emulated::Launch>(task);
    return std::string(why != nullptr ? why : "");
  };
  EXPECT_EQ(refused(Values(row.data(), ValueType::f32, 1, 1 << 16), 128), "");
  EXPECT_EQ(refused(Values(row.data(), ValueType::f32, 1, 1 << 16), 129), "its k is at most 128");
  EXPECT_EQ(refused(Values(row.data(), ValueType::f32, 1, 65535), 1), "its rows have 65,536 to 4,194,304 columns");
  EXPECT_EQ(refused(Values(row.data(), ValueType::f16, 1, 1 << 16), 1), "it is for values of 4 bytes");
  EXPECT_NE(refused(Values(row.data() + 1, ValueType::f32, 1, 1 << 16), 1), "");
  EXPECT_NE(refused(Values(row.data(), ValueType::f32, 2, 65537), 1), "");  // rows of no multiple of 16 bytes
}

TEST(Sieve, GuessesLeaveRoom) {
  for (const std::int64_t cols : {1000ll, 20000ll, 1ll << 20, 1ll << 28, 1ll << 33}) {
    for (const std::int64_t k : {1ll, 10ll, 100ll, 1000ll, 100000ll}) {
      if (k > cols) continue;
      const auto plan = vicinal::cuda::sieve_grid_plan(
          cols, k, 4, cols > 0xffffffffll ? vicinal::cuda::FormName::wide : vicinal::cuda::FormName::packed);
      EXPECT_GE(plan.most_found, k);
      EXPECT_LE(plan.most_found, cols);
      EXPECT_LE(plan.samplers * plan.kept, 8192);
      if (plan.speculative.samples == 0) continue;
      const double expected = static_cast<double>(plan.speculative.rank) * static_cast<double>(cols) /
                              (static_cast<double>(plan.speculative.samples) * plan.samplers);
      EXPECT_GT(expected, static_cast<double>(k)) << cols << " " << k;
      EXPECT_GT(static_cast<double>(plan.most_found), expected) << cols << " " << k;
    }
  }
}

}  // namespace
