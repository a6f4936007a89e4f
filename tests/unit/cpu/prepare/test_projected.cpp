// Rows and queries in bytes of a transform that projects: what is kept is the projected and rotated row to within its measured quantization error, for both
// in long double; and the directions that are found.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "../../core/rotation_twin.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/prepare/prepare.hpp"
#include "cpu/prepare/prepared_corpus.hpp"
#include "prepare/project.hpp"

namespace vicinal::cpu {
namespace {

using rotations::Real;

struct Projected : testing::TestWithParam<std::int64_t> {
  static constexpr std::int64_t count = 300;

  Projected() : dims(GetParam()), values(static_cast<std::size_t>(count * dims)) {
    std::mt19937_64 random(51);
    std::normal_distribution<double> gauss;
    std::vector<double> weights(static_cast<std::size_t>(3 * dims));
    for (double& weight : weights) weight = gauss(random);
    for (std::int64_t i = 0; i < count; ++i) {
      const double of[3] = {gauss(random), gauss(random), gauss(random)};
      for (std::int64_t c = 0; c < dims; ++c) {
        double value = 7 + 0.3 * gauss(random);
        for (int j = 0; j < 3; ++j) value += 20 * of[j] * weights[static_cast<std::size_t>(j * dims + c)];
        values[static_cast<std::size_t>(i * dims + c)] = static_cast<float>(value);
      }
    }
    spec = {.corpus = Points(values.data(), DType::f32, count, dims), .metric = Metric::euclidean, .k = 10};
    transform = choose_transform(kernels, spec, Precision::int8, thread_pool);
    EXPECT_FALSE(transform.projection.present()) << "transforms are shared with devices, which do not project";
    columns = projected_columns({count, dims, DType::f32});
    Directions directions = choose_directions(kernels, spec, columns - 1, 0, thread_pool);
    Projection projection(dims, directions.rows, [] {});
    EXPECT_TRUE(projection.present());
    transform = projecting(std::move(directions.moved), std::move(projection));
    EXPECT_EQ(transform.columns(), columns);
    model = make_model(kernels, spec, Precision::int8, transform);
    EXPECT_EQ(model->columns, columns);
    EXPECT_TRUE(model->projected);
    EXPECT_EQ(model->transformed, transform.projection.roundings() + transform.rotation.roundings());
    EXPECT_EQ(model->underflow, Projection::underflow);
  }

  PackArgs args() const { return {kernels, spec, Precision::int8, model.get(), &transform, {.second_level = true}}; }
  /// Row i where the filter should see it; `rest`: what the directions leave of it.
  std::vector<Real> moved(std::int64_t i, Real* rest = nullptr) const {
    std::vector<Real> row, out;
    Real square = 0;
    for (std::int64_t c = 0; c < dims; ++c) {
      row.push_back(static_cast<Real>(values[static_cast<std::size_t>(i * dims + c)]) * transform.scale -
                    transform.centre[c]);
      square += row.back() * row.back();
    }
    const Real whole = square;
    for (std::int64_t j = 0; j < columns - 1; ++j) {
      Real sum = 0;
      for (std::int64_t c = 0; c < dims; ++c)
        sum += transform.projection.matrix()[j * transform.projection.stride() + c] * row[static_cast<std::size_t>(c)];
      out.push_back(sum);
      square -= sum * sum;
    }
    out.push_back(sqrtl(std::max<Real>(square, 0)));
    if (rest != nullptr) *rest = out.back() / sqrtl(whole);
    return rotations::rotated(out);
  }
  /// |row - step * bytes|; also the bytes' length.
  Real quantization_error(std::int64_t i, const std::vector<int>& bytes, float step, Real& length) const {
    const std::vector<Real> truth = moved(i);
    Real sum = 0, size = 0;
    for (std::size_t j = 0; j < truth.size(); ++j) {
      const Real rounded = static_cast<Real>(step) * bytes[j], error = truth[j] - rounded;
      sum += error * error;
      size += rounded * rounded;
    }
    length = sqrtl(size);
    return sqrtl(sum);
  }

  std::int64_t dims, columns = 0;
  std::vector<float> values;
  const Kernels& kernels = float_plain;
  SearchSpec spec;
  ThreadPool thread_pool{1, nullptr, {}, 0};
  Transform transform;
  std::unique_ptr<BoundModel> model;
};

TEST_P(Projected, RowsAreWithinTheirQuantizationErrors) {
  PackedRows packed;
  prepare_rows(args(), 0, count, thread_pool, packed);
  const std::int64_t quads = quads_of(columns);
  std::vector<bool> seen(static_cast<std::size_t>(count));
  for (std::int64_t place = 0; place < count; ++place) {
    std::vector<int> bytes;
    for (std::int64_t j = 0; j < columns; ++j) {
      std::uint8_t four[4];
      std::memcpy(four, &packed.quads[(place / panel_rows * quads + j / 4) * panel_rows + place % panel_rows], 4);
      bytes.push_back(four[j % 4] - 128);
    }
    const auto tile = static_cast<std::size_t>(place / tile_rows);
    Real length = 0;
    const Real error = quantization_error(packed.order[place], bytes, packed.steps[tile], length);
    ASSERT_LE(error, packed.tiles[tile].e);
    ASSERT_LE(length, packed.tiles[tile].n);
    ASSERT_LE(error, packed.tiles[tile].n * 0.05) << "the step is that of the tile's largest element";
    ASSERT_LE(packed.terms[place], length * length - error * error);
    seen[packed.order[place]] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), count);
}

TEST_P(Projected, QueriesAreWithinTheirQuantizationErrors) {
  PackedQueries packed;
  const std::vector<std::int64_t> rows = {0, 3, 17, 250, 299};
  prepare_queries(args(), {.points = spec.corpus, .rows = rows, .block = 16, .int8 = &int8_plain}, thread_pool, packed);
  const std::int64_t quads = quads_of(columns), lanes = packed.lanes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto query = static_cast<std::int64_t>(i);
    std::vector<int> bytes;
    for (std::int64_t j = 0; j < columns; ++j) {
      std::int8_t four[4];
      std::memcpy(four, &packed.quads[(query / lanes * quads + j / 4) * lanes + query % lanes], 4);
      bytes.push_back(four[j % 4]);
    }
    const QueryFacts& facts = packed.facts[i];
    Real length = 0;
    const Real error = quantization_error(rows[static_cast<std::size_t>(packed.given(query))], bytes,
                                          packed.steps[static_cast<std::size_t>(query / lanes)], length);
    ASSERT_LE(error, facts.norms.e);
    ASSERT_GE(error + 1e-5L, facts.norms.e * (1 - 1e-9));
    ASSERT_LE(length, facts.norms.n);
    ASSERT_FALSE(facts.integral);
  }
}

TEST_P(Projected, DirectionsAreThoseInWhichRowsDiffer) {
  if (dims < 16) GTEST_SKIP() << "not run: fewer directions than the rows have";
  for (std::int64_t i = 0; i < count; i += 7) {
    Real rest = 0;
    moved(i, &rest);
    ASSERT_LT(rest, 0.2L) << "row " << i;
  }
}

TEST_P(Projected, RowsHaveTheBytesOfQueries) {
  PackedRows rows;
  prepare_rows(args(), 0, count, thread_pool, rows);
  const std::vector<std::int64_t> order(rows.order.data(), rows.order.data() + count);
  PackedQueries queries;
  prepare_queries(args(),
                  {.points = spec.corpus, .rows = order, .block = tile_rows, .int8 = &int8_plain, .steps = &rows.steps},
                  thread_pool, queries);
  const std::int64_t quads = quads_of(columns), lanes = queries.lanes;
  for (std::int64_t at = 0; at < count; ++at)
    for (std::int64_t k = 0; k < quads; ++k) {
      const std::int32_t row = rows.quads[(at / panel_rows * quads + k) * panel_rows + at % panel_rows];
      const std::int64_t panel = at / tile_rows * queries.block_panels + at % tile_rows / lanes;
      ASSERT_EQ(row ^ std::int32_t(0x80808080), queries.quads[(panel * quads + k) * lanes + at % tile_rows % lanes])
          << "position " << at;
    }
}

INSTANTIATE_TEST_SUITE_P(Widths, Projected, testing::Values(4, 9, 16, 33, 130, 300));

// Every table's products, of one row, an odd number and many, and of more directions than a register has room for.
TEST(Projecting, EveryInstructionSetHasTheProducts) {
  std::mt19937_64 random(52);
  std::normal_distribution<double> gauss;
  for (const InstructionSet& set : instruction_sets()) {
    if (!set.supported()) continue;
    for (const std::int64_t dims : {4, 7, 16, 19, 64, 101})
      for (const std::int64_t directions : {1, 3, 4, 5, 8, 31})
        for (const std::int64_t rows : {1, 2, 3, 6}) {
          const std::int64_t stride = Projection::stride_of(dims), out_stride = directions + 1;
          std::vector<float> matrix(static_cast<std::size_t>(directions * stride));
          std::vector<double> values(static_cast<std::size_t>(rows * dims)),
              out(static_cast<std::size_t>(rows * out_stride), 77.0);
          for (std::int64_t j = 0; j < directions; ++j)
            for (std::int64_t i = 0; i < dims; ++i)
              matrix[static_cast<std::size_t>(j * stride + i)] = static_cast<float>(gauss(random));
          for (double& value : values) value = gauss(random);
          set.floats.project({values.data(), rows, dims, matrix.data(), stride, directions, out.data(), out_stride});
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t j = 0; j < directions; ++j) {
              Real sum = 0, size = 0;
              for (std::int64_t i = 0; i < dims; ++i) {
                const Real part = static_cast<Real>(values[static_cast<std::size_t>(r * dims + i)]) *
                                  matrix[static_cast<std::size_t>(j * stride + i)];
                sum += part;
                size += fabsl(part);
              }
              ASSERT_LE(fabsl(sum - out[static_cast<std::size_t>(r * out_stride + j)]), size * (dims + 2) * 0x1p-53L)
                  << set.name << " " << dims << " " << directions << " " << rows;
            }
            ASSERT_EQ(out[static_cast<std::size_t>(r * out_stride + directions)], 77.0) << "what is not its own";
          }
        }
  }
}

// In a graph a row is packed among rows and among queries, by other neighbours: its bits are the same.
TEST(Projecting, ARowsProductsDoNotDependOnItsNeighbours) {
  std::mt19937_64 random(53);
  std::normal_distribution<double> gauss;
  for (const InstructionSet& set : instruction_sets()) {
    if (!set.supported()) continue;
    for (const std::int64_t dims : {5, 64, 101})
      for (const std::int64_t directions : {1, 7, 31}) {
        const std::int64_t rows = 9, stride = Projection::stride_of(dims);
        std::vector<float> matrix(static_cast<std::size_t>(directions * stride));
        std::vector<double> values(static_cast<std::size_t>(rows * dims)),
            all(static_cast<std::size_t>(rows * directions)), alone(static_cast<std::size_t>(directions)), some(all);
        for (std::int64_t j = 0; j < directions; ++j)
          for (std::int64_t i = 0; i < dims; ++i)
            matrix[static_cast<std::size_t>(j * stride + i)] = static_cast<float>(gauss(random));
        for (double& value : values) value = gauss(random);
        const auto project = [&](std::int64_t first, std::int64_t count, double* out) {
          set.floats.project(
              {values.data() + first * dims, count, dims, matrix.data(), stride, directions, out, directions});
        };
        project(0, rows, all.data());
        for (std::int64_t r = 0; r < rows; ++r) {
          project(r, 1, alone.data());
          for (std::int64_t before = 0; before <= std::min<std::int64_t>(r, 4); ++before) {
            project(r - before, before + 1, some.data());
            for (std::int64_t j = 0; j < directions; ++j) {
              const double want = all[static_cast<std::size_t>(r * directions + j)];
              ASSERT_EQ(want, alone[static_cast<std::size_t>(j)]) << set.name << " row " << r;
              ASSERT_EQ(want, some[static_cast<std::size_t>(before * directions + j)]) << set.name << " row " << r;
            }
          }
        }
      }
  }
}

TEST(Projecting, DirectionsOfRowsThatHaveNone) {
  ThreadPool thread_pool(1, nullptr, {}, 0);
  const std::int64_t dims = 20, rows = 50;
  const auto projects = [&](const std::vector<double>& values) {
    const SearchSpec spec{.corpus = Points(values.data(), DType::f64, rows, dims), .metric = Metric::euclidean, .k = 3};
    return Projection(dims, choose_directions(float_plain, spec, 7, 0, thread_pool).rows, [] {}).columns() == 8;
  };
  std::vector<double> values(static_cast<std::size_t>(rows * dims), 3.0);
  EXPECT_TRUE(projects(values)) << "rows that are all equal differ in no direction: directions of zeros";
  values.assign(values.size(), std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(projects(values));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t c = 0; c < dims; ++c)
      values[static_cast<std::size_t>(i * dims + c)] = i % 2 == 0 ? 1e300 : -1e300;
  EXPECT_NO_THROW(projects(values));
}

TEST(Projecting, DirectionsAreAsManyAsProjectedRowsMayHave) {
  ThreadPool thread_pool(1, nullptr, {}, 0);
  std::mt19937_64 random(54);
  std::normal_distribution<float> gauss;
  const std::int64_t dims = 270, rows = 300;
  std::vector<float> values(static_cast<std::size_t>(rows * dims));
  for (float& value : values) value = gauss(random);
  const SearchSpec spec{.corpus = Points(values.data(), DType::f32, rows, dims), .metric = Metric::euclidean, .k = 3};
  for (const std::int64_t count : {most_projected_columns - 1, most_projected_columns, most_projected_columns + 1})
    EXPECT_EQ(choose_directions(instruction_sets().back().floats, spec, count, 0, thread_pool).rows.size(),
              static_cast<std::size_t>(std::min(count, most_projected_columns) * dims));
}

}  // namespace
}  // namespace vicinal::cpu
