// Families against arithmetic: offsets, quantization errors of the filter's rounding, cancellation, and magnitudes at the ends of
// the element type.
#include <algorithm>
#include <cmath>

#include "conformance/families.hpp"

namespace conformance {
namespace {

void cluster(Rng& rng, Scene& s, double offset) {
  const double sigma = std::pow(10.0, -static_cast<double>(rng.between(0, 12)));
  fill_gauss(rng, s.corpus, offset, sigma);
  fill_gauss(rng, s.queries, offset, sigma);
}
void cluster_offset_1(Rng& rng, Scene& s) { cluster(rng, s, 1); }
void cluster_offset_1e3(Rng& rng, Scene& s) { cluster(rng, s, 1e3); }
void cluster_offset_1e5(Rng& rng, Scene& s) { cluster(rng, s, 1e5); }
void cluster_offset_1e8(Rng& rng, Scene& s) { cluster(rng, s, 1e8); }

void tight_clusters(Rng& rng, Scene& s) {
  const double sigma = std::pow(10.0, -static_cast<double>(rng.between(1, 12)));
  const std::int64_t centres = std::max<std::int64_t>(1, s.n / 50);
  fill_gauss(rng, s.corpus, 0, 1);
  for (std::int64_t i = centres; i < s.n; ++i)
    for (std::int64_t j = 0, c = i % centres; j < s.d; ++j) s.row(i)[j] = s.row(c)[j] + sigma * rng.gauss();
  for (std::int64_t i = 0; i < s.q; ++i)
    for (std::int64_t j = 0, c = rng.between(0, centres - 1); j < s.d; ++j)
      s.query(i)[j] = s.row(c)[j] + sigma * rng.gauss();
}
void cluster_and_outliers(Rng& rng, Scene& s) {
  cluster(rng, s, 100);
  for (std::int64_t i = 0; i < s.n; i += 17)
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] = 1e6 * rng.gauss();
}
// Rows in pairs of which one is the other's negative, so that zero is their centre, and queries close to it: a step of queries is as nothing beside
// that of a tile, which an outlier sets, and most of its rows round to nothing.
void queries_at_the_centre(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  const double outlier = std::pow(10.0, static_cast<double>(rng.between(1, 7)));
  for (std::int64_t i = 0; i + 1 < s.n; i += 2)
    for (std::int64_t j = 0; j < s.d; ++j) {
      if (i == 0) s.row(i)[j] *= outlier;
      s.row(i + 1)[j] = -s.row(i)[j];
    }
  if (s.n % 2 == 1) std::fill_n(s.row(s.n - 1), s.d, 0.0);
  fill_gauss(rng, s.queries, 0, rng.chance(0.3) ? 0 : std::pow(10.0, -static_cast<double>(rng.between(3, 20))));
}

void one_hot_query(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  for (std::int64_t i = 0; i < s.q; ++i) s.query(i)[rng.between(0, s.d - 1)] = rng.chance(0.5) ? 1 : 1000;
}
void one_hot_rows(Rng& rng, Scene& s) {
  fill_gauss(rng, s.queries, 0, 1);
  for (std::int64_t i = 0; i < s.n; ++i) s.row(i)[rng.between(0, s.d - 1)] = static_cast<double>(rng.between(1, 3));
}

// Elements half a unit of `bits` significant bits above a grid point, all quantization errors of one sign: the quantiser's
// error is as large and as aligned as it can be. Rows and queries lie close together.
void midpoints(Rng& rng, Scene& s, int bits) {
  const double unit = std::ldexp(1.0, 1 - bits);
  const double direction = rng.chance(0.5) ? 1 : -1;
  const auto grid = [&] { return 1 + unit * static_cast<double>(rng.between(0, 3)); };
  for (double& v : s.corpus) v = grid() + direction * unit * 0.499;
  for (double& v : s.queries) v = grid() - direction * unit * 0.499;
}
void midpoints_f16(Rng& rng, Scene& s) { midpoints(rng, s, 11); }
void midpoints_bf16(Rng& rng, Scene& s) { midpoints(rng, s, 8); }
void midpoints_f32(Rng& rng, Scene& s) { midpoints(rng, s, 24); }
void midpoints_int8(Rng& rng, Scene& s) {
  for (double& v : s.corpus) v = static_cast<double>(rng.between(-126, 126)) + 0.499;
  for (double& v : s.queries) v = static_cast<double>(rng.between(-126, 126)) - 0.499;
  s.row(0)[0] = s.query(0)[0] = 127;
}

// Large terms of alternating sign around a small sum.
void alternating_cancellation(Rng& rng, Scene& s) {
  for (std::int64_t i = 0; i < s.n; ++i)
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] = (j % 2 ? -1.0 : 1.0) * (1 + 0x1p-6 * rng.uniform());
  for (std::int64_t i = 0; i < s.q; ++i)
    for (std::int64_t j = 0; j < s.d; ++j) s.query(i)[j] = 1 + 0x1p-6 * rng.uniform();
}
void cancellation_then_tail(Rng& rng, Scene& s) {  // a huge pair cancels, the small rest decides
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  if (s.d < 2) return;
  for (std::int64_t i = 0; i < s.n; ++i) s.row(i)[0] = 4096, s.row(i)[1] = -4096;
  for (std::int64_t i = 0; i < s.q; ++i) s.query(i)[0] = s.query(i)[1] = 4096;
}

void powers_of_two(Rng& rng, Scene& s) {
  const int top = s.dtype == DType::f16 ? 14 : 126;
  const auto value = [&] {
    return std::ldexp(rng.chance(0.5) ? 1.0 : -1.0,
                      static_cast<int>(rng.between(s.dtype == DType::f16 ? -14 : -126, top)));
  };
  for (double& v : s.corpus) v = value();
  for (double& v : s.queries) v = value();
}
void powers_of_two_per_row(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  const int reach = s.dtype == DType::f16 ? 10 : 60;
  for (std::int64_t i = 0; i < s.n; ++i) {
    const double scale = std::ldexp(1.0, static_cast<int>(rng.between(-reach, reach)));
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] *= scale;
  }
}
void subnormals_only(Rng& rng, Scene& s) {
  const double unit = min_subnormal(s.dtype);
  for (double& v : s.corpus) v = unit * static_cast<double>(rng.between(-100, 100));
  for (double& v : s.queries) v = unit * static_cast<double>(rng.between(-100, 100));
}
void smallest_normals(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, min_normal(s.dtype) * 2);
  fill_gauss(rng, s.queries, 0, min_normal(s.dtype) * 2);
}
void underflowing_squares(Rng& rng, Scene& s) {  // squares around the smallest f32: keys 0 and subnormal, ties by id
  const double sigma = s.dtype == DType::f16 ? min_subnormal(s.dtype) * 8 : 0x1p-74;
  fill_gauss(rng, s.corpus, 0, sigma);
  fill_gauss(rng, s.queries, 0, sigma);
}
void one_huge_coordinate(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  const std::int64_t column = rng.between(0, s.d - 1);
  const double huge = s.dtype == DType::f16 ? 30000 : 1e15;
  for (std::int64_t i = 0; i < s.n; ++i) s.row(i)[column] = huge;
  for (std::int64_t i = 0; i < s.q; ++i) s.query(i)[column] = huge;
}
void one_huge_row(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  const double huge = s.dtype == DType::f16 ? 20000 : 1e15;
  double* row = s.row(rng.between(0, s.n - 1));
  for (std::int64_t j = 0; j < s.d; ++j) row[j] *= huge;
}
void one_huge_query(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  const double huge = s.dtype == DType::f16 ? 10000 : 1e18;
  for (std::int64_t j = 0; j < s.d; ++j) s.query(0)[j] *= huge;
}

void zero_vectors(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  for (std::int64_t i = 0; i < s.n; i += 1 + rng.between(0, 4)) std::fill_n(s.row(i), s.d, 0.0);
  if (rng.chance(0.5)) std::fill_n(s.query(0), s.d, 0.0);
}
void constant_rows(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  for (std::int64_t i = 0; i < s.n; i += 1 + rng.between(0, 4))
    std::fill_n(s.row(i), s.d, 0.1 * static_cast<double>(i));
  if (rng.chance(0.5)) std::fill_n(s.query(0), s.d, 0.1);
}
void constant_columns(Rng& rng, Scene& s) {
  for (std::int64_t j = 0; j < s.d; ++j) {
    const double value = rng.gauss() * 50, sigma = j % 3 == 0 ? 1 : 0;
    for (std::int64_t i = 0; i < s.n; ++i) s.row(i)[j] = value + sigma * rng.gauss();
    for (std::int64_t i = 0; i < s.q; ++i) s.query(i)[j] = value + sigma * rng.gauss();
  }
}
void almost_constant_rows(Rng& rng, Scene& s) {  // centring for correlation leaves only the last places
  const auto row = [&](double* x) {
    const double base = nearest(s.dtype, 1 + rng.uniform());
    for (std::int64_t j = 0; j < s.d; ++j)
      x[j] = base + std::ldexp(static_cast<double>(rng.between(0, 3)), 1 - precision(s.dtype));
  };
  for (std::int64_t i = 0; i < s.n; ++i) row(s.row(i));
  for (std::int64_t i = 0; i < s.q; ++i) row(s.query(i));
}

void parallel(Rng& rng, Scene& s, double sign) {
  std::vector<double> axis(static_cast<std::size_t>(s.d));
  fill_gauss(rng, axis, 0, 1);
  const double tilt = std::pow(10.0, -static_cast<double>(rng.between(3, 9)));
  const auto tilted = [&](double* x, double factor) {
    for (std::int64_t j = 0; j < s.d; ++j) x[j] = factor * (axis[static_cast<std::size_t>(j)] + tilt * rng.gauss());
  };
  for (std::int64_t i = 0; i < s.n; ++i) tilted(s.row(i), sign * (0.5 + rng.uniform()));
  for (std::int64_t i = 0; i < s.q; ++i) tilted(s.query(i), 1);
}
void near_parallel(Rng& rng, Scene& s) { parallel(rng, s, 1); }
void near_antiparallel(Rng& rng, Scene& s) { parallel(rng, s, -1); }

void signed_zeros(Rng& rng, Scene& s) {
  const auto value = [&] { return rng.chance(0.3) ? (rng.chance(0.5) ? 1.0 : -1.0) : rng.chance(0.5) ? 0.0 : -0.0; };
  for (double& v : s.corpus) v = value();
  for (double& v : s.queries) v = value();
}
void tiny_negative_dots(Rng& rng, Scene& s) {  // f32 keys of both zeros: -0 stays -0, order by id
  const double sigma = s.dtype == DType::f16 ? min_subnormal(s.dtype) : 0x1p-80;
  for (double& v : s.corpus) v = sigma * static_cast<double>(rng.between(-2, 2));
  for (double& v : s.queries) v = sigma * static_cast<double>(rng.between(-2, 2));
}
void largest_finite(Rng& rng, Scene& s) {
  // Sums of f64 products of both signs beyond the range have no value at all: keep one sign there.
  const bool one_sign = s.dtype == DType::f64;
  const auto value = [&] { return max_finite(s.dtype) * (one_sign || rng.chance(0.5) ? 1 : -1); };
  for (double& v : s.corpus) v = rng.chance(0.9) ? value() : 1;
  for (double& v : s.queries) v = rng.chance(0.9) ? value() : 1;
}
void around_f32_overflow(Rng& rng, Scene& s) {  // squared distances straddle the largest f32
  const double edge = s.dtype == DType::f16 ? 3e4 : std::ldexp(1.0, 64) / std::sqrt(static_cast<double>(s.d));
  for (double& v : s.corpus) v = edge * (rng.uniform() - 0.3);
  for (double& v : s.queries) v = edge * (rng.uniform() - 0.7);
}
void far_rows_overflow(Rng& rng, Scene& s) {  // near rows are ordinary, far ones overflow f32 and must not be returned
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  for (std::int64_t i = s.k; i < s.n; i += 3)
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] *= s.dtype == DType::f16 ? 100 : 1e25;
}

// One row so much larger than the rest (and than any sample of them) that its float products overflow half way, though
// the whole sum is finite and of the other sign: the filter sees an infinity and must draw no conclusion.
void overflow_half_way(Rng& rng, Scene& s) {
  s.n = 2500, s.q = std::min<std::int64_t>(s.q, 2), s.k = std::min<std::int64_t>(s.k, 3);
  s.resize(64);
  const bool narrow = s.dtype == DType::f16;
  for (double& v : s.corpus) v = (narrow ? 0x1p-12 : 0x1p-60) * (2 * rng.uniform() - 1);
  for (double& v : s.queries) v = 1;
  double* row = s.row(rng.between(0, s.n - 1));
  const std::int64_t negative = rng.between(18, 31);
  for (std::int64_t j = 0; j < s.d; ++j) row[j] = (narrow ? 0x1p10 : 0x1.ep63) * (j < negative ? -1 : 1);
}

void heavy_tails(Rng& rng, Scene& s) {  // Cauchy
  const auto value = [&] {
    const double b = rng.gauss();
    return std::clamp(rng.gauss() / (b == 0 ? 1 : b), -1e6, 1e6);
  };
  for (double& v : s.corpus) v = value();
  for (double& v : s.queries) v = value();
}
void lognormal(Rng& rng, Scene& s) {
  for (double& v : s.corpus) v = std::exp(1.5 * rng.gauss());
  for (double& v : s.queries) v = std::exp(1.5 * rng.gauss());
}
void wild_norms(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
  const double reach = s.dtype == DType::f16 ? 3 : 10;
  for (std::int64_t i = 0; i < s.n; ++i) {
    const double scale = std::pow(10.0, reach * (2 * rng.uniform() - 1));
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] *= scale;
  }
}
void one_dimension(Rng& rng, Scene& s) {
  s.resize(1);
  fill_gauss(rng, s.corpus, 1, 1);
  fill_gauss(rng, s.queries, 1, 1);
}
void odd_dimension(Rng& rng, Scene& s) {
  s.resize(s.d | 1);
  fill_gauss(rng, s.corpus, 10, 1);
  fill_gauss(rng, s.queries, 10, 1);
}
void small_cube(Rng& rng, Scene& s) {  // dense in few dimensions: distances far below the norms
  s.resize(std::min<std::int64_t>(s.d, 3));
  for (double& v : s.corpus) v = rng.uniform();
  for (double& v : s.queries) v = rng.uniform();
}
void queries_far_away(Rng& rng, Scene& s) {  // all distances agree in the leading places
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, s.dtype == DType::f16 ? 1000 : 1e6, 1);
}
void negative_dots(Rng& rng, Scene& s) {
  for (double& v : s.corpus) v = 1 + rng.uniform();
  for (double& v : s.queries) v = -1 - rng.uniform();
}
}  // namespace

std::vector<Family> number_families() {
  return {{"cluster_offset_1", cluster_offset_1},
          {"cluster_offset_1e3", cluster_offset_1e3},
          {"cluster_offset_1e5", cluster_offset_1e5},
          {"cluster_offset_1e8", cluster_offset_1e8},
          {"tight_clusters", tight_clusters},
          {"cluster_and_outliers", cluster_and_outliers},
          {"queries_at_the_centre", queries_at_the_centre},
          {"one_hot_query", one_hot_query},
          {"one_hot_rows", one_hot_rows},
          {"midpoints_f16", midpoints_f16},
          {"midpoints_bf16", midpoints_bf16},
          {"midpoints_f32", midpoints_f32},
          {"midpoints_int8", midpoints_int8},
          {"alternating_cancellation", alternating_cancellation},
          {"cancellation_then_tail", cancellation_then_tail},
          {"powers_of_two", powers_of_two},
          {"powers_of_two_per_row", powers_of_two_per_row},
          {"subnormals_only", subnormals_only},
          {"smallest_normals", smallest_normals},
          {"underflowing_squares", underflowing_squares},
          {"one_huge_coordinate", one_huge_coordinate},
          {"one_huge_row", one_huge_row},
          {"one_huge_query", one_huge_query},
          {"zero_vectors", zero_vectors},
          {"constant_rows", constant_rows},
          {"constant_columns", constant_columns},
          {"almost_constant_rows", almost_constant_rows},
          {"near_parallel", near_parallel},
          {"near_antiparallel", near_antiparallel},
          {"signed_zeros", signed_zeros},
          {"tiny_negative_dots", tiny_negative_dots},
          {"largest_finite", largest_finite},
          {"around_f32_overflow", around_f32_overflow},
          {"far_rows_overflow", far_rows_overflow},
          {"overflow_half_way", overflow_half_way},
          {"heavy_tails", heavy_tails},
          {"lognormal", lognormal},
          {"wild_norms", wild_norms},
          {"one_dimension", one_dimension},
          {"odd_dimension", odd_dimension},
          {"small_cube", small_cube},
          {"queries_far_away", queries_far_away},
          {"negative_dots", negative_dots}};
}

}  // namespace conformance
