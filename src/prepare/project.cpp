// See project.hpp.
#include "prepare/project.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "prepare/sample.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t most_rows = 1024, most_elements = std::int64_t{1} << 20;
constexpr double least_left = 1e-5;  // of a row's length, beside the directions before it; less is none of its own

/// Numbers of binary64 or single precision, row by row. Those of single precision are aligned for RowKernels::project.
template <class T>
struct Rows {
  std::int64_t count, stride;
  Buffer<T> values;

  Rows(std::int64_t rows, std::int64_t columns)
      : count(rows), stride(Projection::stride_of(columns)), values(rows * stride) {
    std::fill_n(values.data(), values.size(), T{0});
  }
  T* row(std::int64_t i) noexcept { return values.data() + i * stride; }
  static std::int64_t bytes(std::int64_t rows, std::int64_t columns) noexcept {
    return rows * Projection::stride_of(columns) * static_cast<std::int64_t>(sizeof(T));
  }
};

/// It returns how many rows directions are found in: some times as many as directions.
std::int64_t sampled_rows(std::int64_t dims, std::int64_t count) noexcept {
  return std::clamp<std::int64_t>(std::min(most_elements / dims, 8 * count), 16, most_rows);
}

using Pair = double __attribute__((vector_size(16)));

/// x less factor times y, of so many numbers.
void take_away(double* x, double factor, const double* y, std::int64_t count) noexcept {
  auto* to = reinterpret_cast<Pair*>(x);
  const auto* from = reinterpret_cast<const Pair*>(y);
  for (std::int64_t i = 0; i < count / 2; ++i) to[i] -= from[i] * factor;
}

/// By Gram and Schmidt, twice, with products of single precision, which are enough for directions that are kept in it;
/// a direction that the ones before it make up becomes zeros.
void orthonormalize(const RowKernels& kernels, std::int64_t dims, Rows<double>& directions, Rows<float>& narrow,
                    ThreadPool& thread_pool) {
  double products[most_projected_columns];
  const auto length = [&](const double* row) { return std::sqrt(square_of(kernels, row, dims)); };
  for (std::int64_t j = 0; j < directions.count; ++j) {
    double* const row = directions.row(j);
    const double before = length(row);
    for (int pass = 0; pass < 2; ++pass) {
      kernels.project({row, 1, dims, narrow.values.data(), narrow.stride, j, products, j});
      for (std::int64_t i = 0; i < j; ++i) take_away(row, products[i], directions.row(i), directions.stride);
    }
    const double left = length(row), factor = left > least_left * before ? 1 / left : 0;
    for (std::int64_t c = 0; c < dims; ++c) {
      row[c] = factor > 0 ? row[c] * factor : 0;
      narrow.row(j)[c] = static_cast<float>(row[c]);
    }
    thread_pool.poll(0);
  }
}

}  // namespace

std::int64_t projected_columns(const Shape& corpus) noexcept {
  if (corpus.cols < 4 || corpus.rows < 1) return 0;
  const auto half = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(corpus.cols) / 2));
  const std::int64_t columns = std::min<std::int64_t>(128, half);
  return std::min(columns, std::min(corpus.rows, sampled_rows(corpus.cols, columns - 1)) + 1);
}

std::int64_t directions_bytes(std::int64_t dims) noexcept {
  const std::int64_t count = std::min(most_projected_columns, dims), rows = sampled_rows(dims, count);
  return Rows<double>::bytes(rows, dims) + Rows<double>::bytes(dims, rows) + Rows<double>::bytes(count, dims) +
         Rows<float>::bytes(count, dims) + Rows<float>::bytes(count, rows) + 2 * count * dims * 8;
}

Directions choose_directions(const RowKernels& kernels, const SearchSpec& spec, std::int64_t count,
                             std::int64_t skipped, ThreadPool& thread_pool) {
  const std::int64_t dims = spec.corpus.cols;
  count = std::min(count, most_projected_columns);
  // As of floats: the centre is the mean of each column, whatever the rows are.
  Directions found{.moved = choose_transform(kernels, spec, Precision::f32, thread_pool), .rows = {}};
  const Transform& transform = found.moved;
  if (!transform.usable) return found;
  Sample sample(kernels, spec, sampled_rows(dims, count), most_elements, thread_pool, skipped);
  // The sample, row by row and column by column.
  Rows<double> rows(sample.count(), dims), columns(dims, sample.count());
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < sample.count(); ++i) {
    const double* from = sample.row(i);
    if (from == nullptr) continue;
    double* const to = rows.row(used);
    bool usual = true;
    for (std::int64_t c = 0; c < dims; ++c) {
      to[c] = from[c] * transform.scale - transform.centre[c];
      usual = usual && std::fabs(to[c]) < 0x1p10;  // an outlier would be a direction of its own
    }
    if (!usual) continue;
    for (std::int64_t c = 0; c < dims; ++c) columns.row(c)[used] = to[c];
    ++used;
  }
  count = std::min({count, used, dims});
  // Rows themselves are the first directions.
  Rows<double> directions(count, dims);
  Rows<float> narrow(count, dims), weights(count, sample.count());
  std::copy_n(rows.values.data(), count * rows.stride, directions.values.data());
  orthonormalize(kernels, dims, directions, narrow, thread_pool);
  // They are multiplied by the sample's second moments: weights of its rows, then sums of these.
  const auto project = [&](const double* row, Rows<float>& onto, std::int64_t width, const auto& take) {
    thread_pool.poll(0);
    double products[most_projected_columns];
    kernels.project({row, 1, width, onto.values.data(), onto.stride, count, products, count});
    for (std::int64_t j = 0; j < count; ++j) take(j, products[j]);
  };
  thread_pool.for_each(used, [&](std::int64_t i, int /*thread*/) {
    project(rows.row(i), narrow, dims,
            [&](std::int64_t j, double value) { weights.row(j)[i] = static_cast<float>(value); });
  });
  thread_pool.for_each(dims, [&](std::int64_t c, int /*thread*/) {
    project(columns.row(c), weights, used, [&](std::int64_t j, double value) { directions.row(j)[c] = value; });
  });
  orthonormalize(kernels, dims, directions, narrow, thread_pool);
  found.rows.resize(static_cast<std::size_t>(count * dims));
  for (std::int64_t j = 0; j < count; ++j)
    std::copy_n(directions.row(j), dims, found.rows.begin() + static_cast<std::ptrdiff_t>(j * dims));
  return found;
}

Transform projecting(Transform moved, Projection projection) {
  moved.rotation = Rotation(projection.columns());
  moved.projection = std::move(projection);
  return moved;
}

}  // namespace vicinal
