// See project.hpp.
#include "prepare/project.hpp"

#include <algorithm>
#include <cmath>

#include "prepare/sample.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t most_rows = 1024, most_elements = std::int64_t{1} << 20;
constexpr int rounds = 2;
constexpr double least_left = 1e-9;  // of a row's length, beside the directions before it; less is none of its own

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

std::int64_t sampled_rows(std::int64_t dims) noexcept {
  return std::clamp<std::int64_t>(most_elements / dims, 16, most_rows);
}

using Pair = double __attribute__((vector_size(16)));

double product(const double* x, const double* y, std::int64_t stride) noexcept {
  const auto *a = reinterpret_cast<const Pair*>(x), *b = reinterpret_cast<const Pair*>(y);
  Pair sums[4] = {};
  for (std::int64_t i = 0; i < stride / 2; i += 4)
    for (int j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  const Pair sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return sum[0] + sum[1];
}
void take_away(double* x, double factor, const double* y, std::int64_t stride) noexcept {
  auto* to = reinterpret_cast<Pair*>(x);
  const auto* from = reinterpret_cast<const Pair*>(y);
  for (std::int64_t i = 0; i < stride / 2; ++i) to[i] -= from[i] * factor;
}

/// By Gram and Schmidt; a direction that the ones before it make up becomes zeros.
void orthonormalize(Rows<double>& directions, ThreadPool& thread_pool) {
  for (std::int64_t j = 0; j < directions.count; ++j) {
    double* const row = directions.row(j);
    const double before = std::sqrt(product(row, row, directions.stride));
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t i = 0; i < j; ++i)
        take_away(row, product(row, directions.row(i), directions.stride), directions.row(i), directions.stride);
    const double left = std::sqrt(product(row, row, directions.stride));
    const double factor = left > least_left * before ? 1 / left : 0;
    for (std::int64_t c = 0; c < directions.stride; ++c) row[c] = factor > 0 ? row[c] * factor : 0;
    thread_pool.poll(0);
  }
}

}  // namespace

std::int64_t directions_bytes(std::int64_t dims) noexcept {
  const std::int64_t rows = sampled_rows(dims), count = std::min(most_projected_columns, dims);
  return Rows<double>::bytes(rows, dims) + Rows<double>::bytes(dims, rows) + Rows<double>::bytes(count, dims) +
         Rows<float>::bytes(count, dims) + Rows<float>::bytes(count, rows) + 2 * count * dims * 8;
}

Directions choose_directions(const RowKernels& kernels, const SearchSpec& spec, std::int64_t count,
                             std::int64_t skipped, ThreadPool& thread_pool) {
  const std::int64_t dims = spec.corpus.cols;
  // As of floats: the centre is the mean of each column, whatever the rows are.
  Directions found{.moved = choose_transform(kernels, spec, Precision::f32, thread_pool), .rows = {}};
  const Transform& transform = found.moved;
  if (!transform.usable) return found;
  Sample sample(kernels, spec, sampled_rows(dims), most_elements, thread_pool, skipped);
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
  std::copy_n(rows.values.data(), count * rows.stride, directions.values.data());
  orthonormalize(directions, thread_pool);
  // Each round multiplies the directions by the sample's second moments.
  Rows<float> narrow(count, dims), weights(count, sample.count());
  for (int round = 0; round < rounds; ++round) {
    for (std::int64_t at = 0; at < narrow.values.size(); ++at)
      narrow.values[at] = static_cast<float>(directions.values[at]);
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
    orthonormalize(directions, thread_pool);
  }
  found.rows.resize(static_cast<std::size_t>(count * dims));
  for (std::int64_t j = 0; j < count; ++j)
    std::copy_n(directions.row(j), dims, found.rows.begin() + static_cast<std::ptrdiff_t>(j * dims));
  return found;
}

bool make_projecting(Transform& transform, Directions& directions, std::int64_t columns) {
  const std::int64_t dims = directions.moved.centre.size();
  const auto wanted = static_cast<std::size_t>((columns - 1) * dims);
  if (directions.rows.size() < wanted || wanted == 0) return false;
  Projection projection(dims, std::span(directions.rows).first(wanted));
  if (!projection.present()) return false;
  transform = std::move(directions.moved);
  transform.projection = std::move(projection);
  transform.rotation = Rotation(columns);
  return true;
}

}  // namespace vicinal
