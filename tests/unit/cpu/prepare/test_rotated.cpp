// Rows and queries in bytes of a transform that rotates: what is kept is the rotated row to within its measured quantization error, for the plain rotation in long double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "../../core/rotation_twin.hpp"
#include "cpu/prepare/prepare.hpp"
#include "cpu/prepare/prepared_corpus.hpp"

namespace vicinal::cpu {
namespace {

using rotations::Real;

struct Rotated : testing::TestWithParam<std::int64_t> {
  static constexpr std::int64_t count = 300;

  Rotated() : dims(GetParam()), values(static_cast<std::size_t>(count * dims)) {
    std::mt19937_64 random(45);
    std::normal_distribution<double> gauss;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(7 + gauss(random) * (i % static_cast<std::size_t>(dims) == 2 ? 500 : 1));
    spec = {.corpus = Points(values.data(), DType::f32, count, dims), .metric = Metric::euclidean, .k = 10};
    transform = choose_transform(kernels, spec, Precision::int8, thread_pool);
    EXPECT_FALSE(transform.rotation.present()) << "transforms are shared with devices, which do not rotate";
    transform.rotation = Rotation(dims);
    model = make_model(kernels, spec, Precision::int8, transform);
    EXPECT_EQ(model->transformed, transform.rotation.roundings());
  }

  PackArgs args() const { return {kernels, spec, Precision::int8, model.get(), &transform, {.second_level = true}}; }
  /// Row i where the filter should see it.
  std::vector<Real> moved(std::int64_t i) const {
    std::vector<Real> row;
    for (std::int64_t j = 0; j < dims; ++j)
      row.push_back(static_cast<Real>(values[static_cast<std::size_t>(i * dims + j)]) * transform.scale -
                    transform.centre[j]);
    return rotations::rotated(row);
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

  std::int64_t dims;
  std::vector<float> values;
  const Kernels& kernels = float_plain;
  SearchSpec spec;
  ThreadPool thread_pool{1, nullptr, {}, 0};
  Transform transform;
  std::unique_ptr<BoundModel> model;
};

TEST_P(Rotated, RowsAreWithinTheirQuantizationErrors) {
  PackedRows packed;
  prepare_rows(args(), 0, count, thread_pool, packed);
  const std::int64_t quads = quads_of(dims);
  for (std::int64_t place = 0; place < count; ++place) {
    std::vector<int> bytes;
    for (std::int64_t j = 0; j < dims; ++j) {
      std::uint8_t four[4];
      std::memcpy(four, &packed.quads[(place / panel_rows * quads + j / 4) * panel_rows + place % panel_rows], 4);
      bytes.push_back(four[j % 4] - 128);
    }
    const auto tile = static_cast<std::size_t>(place / tile_rows);
    Real length = 0;
    const Real error = quantization_error(packed.order[place], bytes, packed.steps[tile], length);
    ASSERT_LE(error, packed.tiles[tile].e);
    ASSERT_GE(error, packed.tiles[tile].e / 4) << "the step of a large column is not that of all";
    ASSERT_LE(length, packed.tiles[tile].n);
    ASSERT_LE(packed.terms[place], length * length - error * error);
  }
}

TEST_P(Rotated, QueriesAreWithinTheirQuantizationErrors) {
  PackedQueries packed;
  const std::vector<std::int64_t> rows = {0, 3, 17, 250, 299};
  prepare_queries(args(), {.points = spec.corpus, .rows = rows, .block = 16, .int8 = &int8_plain}, thread_pool, packed);
  ASSERT_EQ(int8_plain.layout, QueryLayout::quads);
  const std::int64_t quads = quads_of(dims), lanes = packed.lanes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto query = static_cast<std::int64_t>(i);
    std::vector<int> bytes;
    for (std::int64_t j = 0; j < dims; ++j) {
      std::int8_t four[4];
      std::memcpy(four, &packed.quads[(query / lanes * quads + j / 4) * lanes + query % lanes], 4);
      bytes.push_back(four[j % 4]);
    }
    const QueryFacts& facts = packed.facts[i];
    Real length = 0;
    const Real error = quantization_error(rows[static_cast<std::size_t>(packed.given(query))], bytes,
                                          packed.steps[static_cast<std::size_t>(query / lanes)], length);
    ASSERT_LE(error, facts.norms.e);
    ASSERT_GE(error, facts.norms.e * (1 - 1e-9));
    ASSERT_LE(length, facts.norms.n);
    ASSERT_FALSE(facts.integral);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, Rotated, testing::Values(16, 33, 96, 128, 300));

}  // namespace
}  // namespace vicinal::cpu
