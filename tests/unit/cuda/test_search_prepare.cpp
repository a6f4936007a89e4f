// What a device prepares, on the emulator: the transform, the measures and the bytes of rows beside plain loops over fp64, and rows that the
// contract refuses wherever they are.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "prepare/transform.hpp"
#include "unit/cuda/emulated_search.hpp"

namespace prepare_tests {
namespace {

using namespace emulated_search;
using Device = emulated_search::Device;
using cuda::packed_width;
using cuda::tile_rows;

/// Rows of any element type, and the same in fp64.
struct Rows {
  std::vector<std::byte> bytes;
  std::vector<double> values;
  Points points;

  Rows(DType type, std::int64_t rows, std::int64_t cols, const std::vector<double>& from) : values(from) {
    const auto size = static_cast<std::int64_t>(dtype_size(type));
    bytes.resize(static_cast<std::size_t>(rows * cols * size));
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      std::byte* const to = bytes.data() + i * size;
      double& value = values[static_cast<std::size_t>(i)];
      const auto put = [&](auto element) {
        std::memcpy(to, &element, sizeof element);
        value = static_cast<double>(element);
      };
      switch (type) {
        case DType::f32: put(static_cast<float>(value)); break;
        case DType::f64: put(value); break;
        case DType::f16:
        case DType::bf16: {
          // Upper bits of single precision; as a half the value is another one.
          const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
          std::memcpy(to, &bits, 2);
          value = type == DType::bf16
                      ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16))
                      : static_cast<double>(cuda::emulated::widen(bits, false));
          break;
        }
        case DType::u8: put(static_cast<std::uint8_t>(std::lround(std::fabs(value) * 50) % 256)); break;
        case DType::i8: put(static_cast<std::int8_t>(std::lround(value * 30) % 128)); break;
      }
    }
    points = Points(bytes.data(), type, rows, cols);
  }
  const double* row(std::int64_t i) const { return values.data() + i * points.cols; }
};

std::vector<double> normals(unsigned seed, std::int64_t count, double offset = 0, double spread = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = offset + spread * normal(random);
  return values;
}

/// Rows that the device has prepared, on their own or for a filter.
struct Prepared {
  SearchSpec spec;
  ThreadPool thread_pool{1, nullptr, {}, 1};
  Device device;
  cuda::DeviceBuffer<cuda::Counters, Device> counters{device};
  cuda::DeviceBuffer<float, Device> centre{device};
  std::optional<cuda::MatrixPreparer<Device>> preparer;
  cuda::DeviceTransform transform;
  cuda::PreparedMatrixBuffers<Device> rows{device};
  BoundModel model;

  Prepared(const Points& points, Metric metric, Precision precision = Precision::int8, bool filters = true,
           std::int64_t spare_bytes = INT64_MAX)
      : spec{.corpus = points, .metric = metric, .degenerate = Degenerate::one},
        model(metric, DistanceType::f32, points.cols, 1, 0) {
    device.zero(counters.reserve(1), sizeof(cuda::Counters));
    preparer.emplace(device, spec, precision, thread_pool, counters.data(), spare_bytes);
    if (filters) transform = preparer->choose(centre);
    model = cuda::model_of(metric, spec.type, points.cols, transform.scale, precision);
    preparer->make(rows, {.points = points, .filters = filters, .model = model, .transform = transform, .longest = 10});
  }
};

void expect_transform_of_host(const Rows& rows, Metric metric, Precision precision = Precision::int8) {
  SearchSpec spec{.corpus = rows.points, .metric = metric, .degenerate = Degenerate::one};
  ThreadPool thread_pool(1, nullptr, {}, 1);
  const Transform want = choose_transform(best_row_kernels(), spec, precision, thread_pool);
  Device device;
  cuda::DeviceBuffer<float, Device> centre(device);
  cuda::MatrixPreparer<Device> preparer(device, spec, precision, thread_pool, nullptr);
  const cuda::DeviceTransform got = preparer.choose(centre);
  EXPECT_EQ(got.scale, want.scale);
  EXPECT_EQ(got.integral, want.integral_step);
  EXPECT_EQ(got.usable, want.usable);
  for (std::int64_t i = 0; i < cuda::centre_columns(rows.points.cols); ++i) {
    const double wanted = i < rows.points.cols ? want.centre[i] : 0.0;
    EXPECT_NEAR(static_cast<double>(got.centre[i]), wanted, std::fabs(wanted) * 0x1p-22 + 0x1p-40) << "column " << i;
  }
}

TEST(CudaPrepare, TheTransformIsTheHosts) {
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation})
    for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8, DType::i8})
      for (const std::int64_t cols : {1, 37, 130}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(metric) << " " << dtype_name(type) << " " << cols);
        expect_transform_of_host(Rows(type, 1500, cols, normals(1, 1500 * cols, 2)), metric);
        if (sampled()) break;
      }
  for (const Precision precision : {Precision::fp16, Precision::f32})
    expect_transform_of_host(Rows(DType::f32, 90, 12, normals(2, 90 * 12, 5)), Metric::euclidean, precision);
}

TEST(CudaPrepare, TheTransformOfOddTables) {
  const std::int64_t cols = 12, count = 300;
  std::vector<double> values = normals(3, count * cols);
  const auto as = [&](DType type) { expect_transform_of_host(Rows(type, count, cols, values), Metric::euclidean); };
  std::fill_n(values.begin() + 40 * cols, 3 * cols, 1e30);  // rows that do not choose it
  as(DType::f32);
  values[77 * cols] = std::numeric_limits<double>::quiet_NaN();
  values[78 * cols + 1] = -infinite;
  as(DType::f32);
  for (double& value : values) value = 1e-40;  // of subnormals, all alike
  values[5] = 3e-40;
  as(DType::f32);
  for (double& value : values) value = std::round(value * 1e40) * 3 - 40;  // whole
  as(DType::f32);
  values[5] = 1000;  // not within a byte
  as(DType::f32);
  for (double& value : values) value = 1e250;
  values[3] = 2e250;
  as(DType::f64);
  std::fill(values.begin(), values.end(), infinite);
  as(DType::f64);
  std::fill(values.begin(), values.end(), 0.0);
  as(DType::f64);
  expect_transform_of_host(Rows(DType::f32, count, cols, values), Metric::cosine);  // no row has a direction
  expect_transform_of_host(Rows(DType::f32, 1, 1, {7}), Metric::euclidean);
}

TEST(CudaPrepare, ManyEqualRowsAreSeen) {
  const std::int64_t cols = 9, count = 700;
  for (const int alike : {0, 20, 40, 100}) {
    std::vector<double> values = normals(4, count * cols);
    for (std::int64_t r = 0; r < count; ++r)
      if (r % 100 < alike) std::fill_n(values.begin() + r * cols, cols, r % 2 == 0 ? 0.0 : -0.0);
    const Rows rows(DType::f32, count, cols, values);
    EXPECT_EQ(Prepared(rows.points, Metric::euclidean).transform.duplicates, alike >= 40) << alike;
  }
}

TEST(CudaPrepare, CopiesAreMarkedWhereTheBudgetHasRoomForIt) {
  // Ten kinds of 70 rows each, of which lists of ten need eleven.
  const std::int64_t cols = 9, count = 700;
  std::vector<double> values = normals(4, count * cols);
  for (std::int64_t i = 10 * cols; i < count * cols; ++i) values[i] = values[i % (10 * cols)];
  const Rows rows(DType::f32, count, cols, values);
  const std::int64_t bytes = cuda::DuplicateMarks<Device>::bytes(count);
  EXPECT_EQ(bytes, 2048 * 8 + count * 5);
  for (const bool room : {true, false}) {
    const Prepared prepared(rows.points, Metric::euclidean, Precision::int8, true, room ? bytes : bytes - 1);
    ASSERT_TRUE(prepared.transform.duplicates);
    std::int64_t left_out = 0;
    for (std::int64_t position = 0; position < count; ++position)
      left_out +=
          std::isinf(prepared.rows.matrix.tile_metadata[position / cuda::tile_rows].terms[position % cuda::tile_rows]);
    EXPECT_EQ(left_out > 0, room);
    EXPECT_LE(left_out, count - 110);
  }
}

TEST(CudaPrepare, NormsAreCanonicalAndSizesCoverTheirRows) {
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation})
    for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8, DType::i8})
      for (const std::int64_t cols : {1, 3, 32, 100, 131, 260}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(metric) << " " << dtype_name(type) << " " << cols);
        const std::int64_t count = 37;
        const Rows rows(type, count, cols, normals(5, count * cols, 1));
        Prepared prepared(rows.points, metric);
        const cuda::PreparedMatrix& matrix = prepared.rows.matrix;
        if ((type == DType::u8 || type == DType::i8) && metric == Metric::euclidean) continue;  // no sizes are taken
        for (std::int64_t r = 0; r < count; ++r) {
          double shift = 0, factor = prepared.transform.scale;
          if (needs_norms(metric)) {
            const SelfProduct want = self_product(best_row_kernels(), rows.row(r), cols, prepared.spec, type);
            ASSERT_EQ(matrix.self[r], want.self) << "row " << r;
            if (metric == Metric::correlation) {
              ASSERT_EQ(matrix.mean[r], want.mean) << "row " << r;
            }
            const Affine map = affine(metric, want, 1);
            shift = map.shift, factor = map.factor;
          }
          double size = 0;
          for (std::int64_t i = 0; i < cols; ++i)
            size = std::max(
                size, std::fabs((rows.row(r)[i] - shift) * factor - static_cast<double>(prepared.transform.centre[i])));
          ASSERT_GE(static_cast<double>(matrix.sizes[r]), size - 0x1p-50) << "row " << r;
          ASSERT_LE(static_cast<double>(matrix.sizes[r]), size * (1 + 0x1p-20) + 0x1p-50) << "row " << r;
        }
        if (sampled() && cols == 32) break;
      }
}

/// Bytes, errors and norms of prepared rows, beside what a loop over each row says.
void expect_packed(const Rows& rows, Metric metric) {
  Prepared prepared(rows.points, metric);
  const cuda::PreparedMatrix& matrix = prepared.rows.matrix;
  const std::int64_t cols = rows.points.cols, width = packed_width(cols);
  const int slab = width == 64 ? 64 : 128;
  std::set<std::uint32_t> seen;
  for (std::int64_t position = 0; position < matrix.tiles() * tile_rows; ++position) {
    const std::int64_t tile = position / tile_rows, r = position % tile_rows;
    const bool there = position < matrix.count;
    const cuda::TileMetadata& metadata = matrix.tile_metadata[tile];
    const std::int64_t row = there ? matrix.order[position] : 0;
    if (there) seen.insert(matrix.order[position]);
    double shift = 0, factor = prepared.transform.scale, ee = 0, nn = 0, xx = 0;
    if (needs_norms(metric)) {
      const SelfProduct self = self_product(best_row_kernels(), rows.row(row), cols, prepared.spec, rows.points.dtype);
      const Affine map = affine(metric, self, 1);
      shift = map.shift, factor = map.factor;
    }
    const double step = static_cast<double>(metadata.step);
    for (std::int64_t col = 0; col < width; ++col) {
      const auto in_slab = static_cast<int>(col % slab);
      const int byte = matrix.bytes[tile * tile_rows * width + col / slab * slab * tile_rows + r * slab +
                                    cuda::swizzled_chunk(slab, static_cast<int>(r), in_slab / 16) * 16 + in_slab % 16];
      if (!there || col >= cols) {
        ASSERT_EQ(byte, 0) << "position " << position << ", column " << col;
        continue;
      }
      const double x = (rows.row(row)[col] - shift) * factor - static_cast<double>(prepared.transform.centre[col]),
                   e = x - byte * step;
      ASSERT_LE(std::fabs(e), step * (0.5 + 0x1p-15)) << "position " << position << ", column " << col;
      ee += e * e;
      nn += byte * step * (byte * step);
      xx += x * x;
    }
    if (!there) {
      ASSERT_EQ(static_cast<double>(metadata.terms[r]), infinite);
      continue;
    }
    ASSERT_GE(metadata.maxima.e, std::sqrt(ee));
    ASSERT_GE(metadata.maxima.n, std::sqrt(nn) * (1 - 0x1p-50));
    if (prepared.model.sum == Sum::squares && !(needs_norms(metric) && matrix.self[row] < 0)) {
      // The lesser of two squares, of which the tile keeps how far the second is below the first.
      const double square = std::min(nn - ee, xx);
      ASSERT_LE(static_cast<double>(metadata.terms[r]), square + 0x1p-40 * nn);
      ASSERT_GE(static_cast<double>(metadata.terms[r]), square - 0x1p-20 * nn - 0x1p-20 * ee - 0x1p-100);
      ASSERT_GE(metadata.maxima.lowered, nn - ee - xx - 0x1p-40 * nn);
    }
  }
  ASSERT_EQ(static_cast<std::int64_t>(seen.size()), matrix.count);
}

TEST(CudaPrepare, BytesAreTheNearestMultiples) {
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation})
    for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8, DType::i8})
      for (const std::int64_t cols : {3, 64, 100, 131, 260}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(metric) << " " << dtype_name(type) << " " << cols);
        expect_packed(Rows(type, 150, cols, normals(6, 150 * cols, 1)), metric);
        if (sampled() && cols == 64) break;
      }
  // Whole numbers in floats, and subnormals.
  std::vector<double> values = normals(7, 200 * 20);
  for (double& value : values) value = std::round(value * 30);
  expect_packed(Rows(DType::f32, 200, 20, values), Metric::euclidean);
  for (double& value : values) value *= 1e-42;
  expect_packed(Rows(DType::f32, 200, 20, values), Metric::euclidean);
}

TEST(CudaPrepare, WholeBytesHaveNoError) {
  for (const DType type : {DType::u8, DType::i8})
    for (const std::int64_t cols : {20, 77}) {
      const Rows rows(type, 300, cols, normals(8, 300 * cols));
      Prepared prepared(rows.points, Metric::sqeuclidean);
      ASSERT_GT(prepared.transform.integral, 0);
      for (std::int64_t tile = 0; tile < prepared.rows.matrix.tiles(); ++tile) {
        const cuda::TileMetadata& metadata = prepared.rows.matrix.tile_metadata[tile];
        EXPECT_EQ(static_cast<double>(metadata.step), prepared.transform.integral);
        EXPECT_LE(metadata.maxima.e, metadata.maxima.n * 0x1p-40);
      }
    }
}

/// The error of a search names the row and the column.
void expect_refused(const Points& corpus, const Points& queries, const Ask& ask, std::int64_t row, std::int64_t col,
                    const char* what) {
  try {
    by_device(corpus, queries, ask);
    ADD_FAILURE() << "row " << row << ", column " << col << " was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_value);
    const std::string text = cat("corpus row ", row, ", column ", col, " is ", what, " (1 bad row in all)");
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(CudaPrepare, ValuesThatAreNotFiniteAreFoundInEveryPlace) {
  const std::int64_t rows = 70;
  for (const Metric metric :
       {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation, Metric::l1, Metric::linf})
    for (const std::int64_t cols : {36, 41}) {
      const bool filters = metric != Metric::l1 && metric != Metric::linf;
      std::vector<float> corpus = gaussian(13, rows * cols), queries = gaussian(14, 5 * cols);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t col = i * 7 % cols;
        const float bad = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : i % 3 == 1 ? INFINITY : -INFINITY;
        const float was = std::exchange(corpus[static_cast<std::size_t>(i * cols + col)], bad);
        for (const bool filter : {true, false}) {
          if (filter && !filters) continue;
          for (const std::int64_t asked : {1, 5}) {
            SCOPED_TRACE(testing::Message()
                         << static_cast<int>(metric) << (filter ? ", filtered" : "") << ", " << asked);
            expect_refused(
                view(corpus, cols), view(queries, cols).slice(0, asked),
                {.options = {.k = 3, .metric = metric}, .chunk = i % 2 == 0 ? INT64_MAX : 32, .filter = filter}, i, col,
                i % 3 == 0 ? "NaN" : "infinite");
          }
        }
        corpus[static_cast<std::size_t>(i * cols + col)] = was;
        if (sampled()) i += 22;
      }
    }
}

TEST(CudaPrepare, InfiniteSumsOfFiniteRowsAreNoBadRows) {
  // In f64 a square may leave the range: the distance is refused, not the row.
  const std::int64_t cols = 8;
  std::vector<double> corpus(40 * cols, 1.0), queries(cols, 0.0);
  corpus[7 * cols] = 1e200;
  // Where it is the farthest of the list, whoever searches piece by piece may go on; not where a product beyond the type is the nearest.
  const auto refused = [&](const KnnOptions& options) {
    try {
      by_device(Points(corpus.data(), DType::f64, 40, cols), Points(queries.data(), DType::f64, 1, cols),
                {.options = options, .filter = false});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::range_error) << error.what();
      return dynamic_cast<const FarthestInfinite*>(&error) != nullptr;
    }
    return false;
  };
  EXPECT_TRUE(refused({.k = 40}));
  queries[0] = -1e200;
  EXPECT_TRUE(refused({.k = 40, .metric = Metric::inner_product}));
  queries[0] = 1e200;
  EXPECT_FALSE(refused({.k = 40, .metric = Metric::inner_product}));
  EXPECT_FALSE(refused({.k = 1, .metric = Metric::inner_product}));
}

TEST(CudaPrepare, EveryPairByFoursHasTheBitsOfTheCpu) {
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation})
    for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::u8, DType::i8})
      for (const std::int64_t cols : {4, 60, 132}) {
        const Rows corpus(type, 61, cols, normals(15, 61 * cols, 1)), queries(type, 9, cols, normals(16, 9 * cols, 1));
        for (const std::int64_t asked : {1, 9}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(metric) << " " << dtype_name(type) << " " << cols);
          Ask ask{.options = {.k = 6, .metric = metric, .degenerate = Degenerate::one}, .filter = false};
          compare(corpus.points, queries.points.slice(0, asked), ask);
        }
        if (sampled() && cols == 60) break;
      }
}

TEST(CudaPrepare, StridedAndSwappedRowsOfTheHost) {
  const std::int64_t cols = 20, count = 400;
  const std::vector<float> values = gaussian(17, 2 * count * (cols + 3), 4), queries = gaussian(18, 6 * cols, 4);
  Points strided(values.data(), DType::f32, count, cols);
  strided.row_stride = 2 * (cols + 3) * 4;
  compare(strided, view(queries, cols), {.options = {.k = 8}});
  Points transposed(values.data(), DType::f32, count, cols);
  transposed.row_stride = 4;
  transposed.col_stride = count * 4;
  compare(transposed, view(queries, cols), {.options = {.k = 8}});
}

TEST(CudaPrepare, ChosenRowsAreSideBySideWhereverTheirTableIs) {
  const Rows table(DType::f32, 40, 6, normals(77, 40 * 6));
  Points inner(table.points.data, DType::f32, 40, 4);  // of each row its first four
  inner.row_stride = 6 * 4;
  Device device;
  cuda::DeviceBuffer<std::byte, Device> there(device);
  std::memcpy(there.reserve(40 * 6 * 4), table.bytes.data(), table.bytes.size());
  Points held = inner;
  held.data = there.data();
  cuda::ChosenRows<Device> chosen(device);
  for (const Points& from : {inner, held})
    for (const std::vector<std::int64_t>& which : {std::vector<std::int64_t>{39, 0, 7, 7, 8}, {}, {3}}) {
      const Points got = chosen.gather(from, which);
      ASSERT_EQ(got.rows, static_cast<std::int64_t>(which.size()));
      EXPECT_EQ(got.row_stride, 16);
      for (std::size_t i = 0; i < which.size(); ++i)
        EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(got.data) + i * 16, table.bytes.data() + which[i] * 24, 16),
                  0);
    }
  EXPECT_EQ(device.seen.gathered, 6);  // one launch for all rows, none for none
}

TEST(CudaPrepare, QueriesThatAreRowsOfTheCorpusAreReadWhereThatIs) {
  const std::vector<float> values(60);
  const float there[60] = {};
  const Points table(values.data(), DType::f32, 12, 5);
  const auto same = [](const Points& a, const Points& b) {
    return a.data == b.data && a.rows == b.rows && a.cols == b.cols && a.row_stride == b.row_stride &&
           a.dtype == b.dtype;
  };
  const Points all = cuda::rows_on_device(table, table, there),
               some = cuda::rows_on_device(table.slice(3, 9), table, there);
  EXPECT_TRUE(same(all, Points(there, DType::f32, 12, 5)));
  EXPECT_TRUE(same(some, Points(there + 15, DType::f32, 9, 5)));
  EXPECT_TRUE(same(cuda::rows_on_device(table, table, nullptr), table));  // the corpus is not there
  // Not a run of its rows: beyond the last, between two, in front, of other strides, of another type.
  Points reversed = table.slice(11, 12);
  reversed.row_stride = -reversed.row_stride;
  const Points others[] = {
      table.slice(3, 10), Points(values.data() + 1, DType::f32, 2, 5), Points(values.data() - 5, DType::f32, 2, 5),
      reversed,           Points(values.data(), DType::i8, 12, 5),     Points(values.data(), DType::f32, 12, 4)};
  for (const Points& queries : others) EXPECT_TRUE(same(cuda::rows_on_device(queries, table, there), queries));
  EXPECT_TRUE(same(cuda::rows_on_device(reversed, reversed, there), reversed));
}

}  // namespace
}  // namespace prepare_tests
