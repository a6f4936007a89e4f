// Families against selection and order: equal and almost equal keys, ties at the edge of k, hostile orders of rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "conformance/families.hpp"

namespace conformance {
namespace {

void gaussian_plain(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 0, 1);
  fill_gauss(rng, s.queries, 0, 1);
}
// 20 sigma: cast to an integer type this fills its range.
void gaussian_wide(Rng& rng, Scene& s) {
  fill_gauss(rng, s.corpus, 60, 20);
  fill_gauss(rng, s.queries, 60, 20);
}

void all_equal(Rng& rng, Scene& s) {
  fill_gauss(rng, s.queries, 0, 3);
  for (std::int64_t i = 0; i < s.n; ++i)
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] = 1 + static_cast<double>(j);
}

void many_duplicates(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  const std::int64_t distinct = std::max<std::int64_t>(1, s.n / 20);
  for (std::int64_t i = distinct; i < s.n; ++i) std::copy_n(s.row(rng.between(0, distinct - 1)), s.d, s.row(i));
}

void lattice(Rng& rng, Scene& s, std::int64_t low, std::int64_t high) {
  for (double& v : s.corpus) v = static_cast<double>(rng.between(low, high));
  for (double& v : s.queries) v = static_cast<double>(rng.between(low, high));
}
void integer_lattice(Rng& rng, Scene& s) { lattice(rng, s, 0, 3); }
void binary_lattice(Rng& rng, Scene& s) { lattice(rng, s, 0, 1); }
void signed_lattice(Rng& rng, Scene& s) { lattice(rng, s, -2, 2); }

void queries_are_rows(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  for (std::int64_t i = 0; i < s.q; ++i) std::copy_n(s.row(rng.between(0, s.n - 1)), s.d, s.query(i));
}

// Copies of one row at distance about 1 from query 0, each moved so that the squared distance grows by steps of `step`.
void distances_apart(Rng& rng, Scene& s, double step) {
  gaussian_plain(rng, s);
  for (double& v : s.queries) v = nearest(s.dtype, v);
  for (std::int64_t i = 0; i < s.n; ++i) {
    std::copy_n(s.query(0), s.d, s.row(i));
    s.row(i)[0] += 1;
    if (s.d > 1) s.row(i)[1] += std::sqrt(static_cast<double>(rng.between(0, 40)) * step) * (rng.chance(0.5) ? 1 : -1);
    else s.row(i)[0] += static_cast<double>(rng.between(0, 40)) * step / 2;
  }
}
void one_ulp_f32_apart(Rng& rng, Scene& s) { distances_apart(rng, s, 0x1p-23); }
void one_ulp_f64_apart(Rng& rng, Scene& s) { distances_apart(rng, s, 0x1p-52); }
void below_f32_rounding(Rng& rng, Scene& s) { distances_apart(rng, s, 0x1p-30); }
void near_certificate_edge(Rng& rng, Scene& s) { distances_apart(rng, s, 0x1p-22); }

// One base row, copies of it with one coordinate moved by a few units in its last place.
void element_ulps(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  for (std::int64_t i = 1; i < s.n; ++i) {
    std::copy_n(s.row(0), s.d, s.row(i));
    double& v = s.row(i)[rng.between(0, s.d - 1)];
    v = nearest(s.dtype, v);
    if (v != 0) v += std::ldexp(static_cast<double>(rng.between(-3, 3)), std::ilogb(v) - precision(s.dtype) + 1);
  }
}

// `tied` rows share the distance that rank k has; the rest are nearer (k - ahead of them) or far.
void tie_group(Rng& rng, Scene& s, std::int64_t ahead, int order) {
  gaussian_plain(rng, s);
  std::vector<double> q(s.query(0), s.query(0) + s.d);
  for (double& v : q) v = nearest(s.dtype, std::nearbyint(v * 4) / 4);
  for (std::int64_t i = 0; i < s.q; ++i) std::copy(q.begin(), q.end(), s.query(i));
  const std::int64_t near = std::max<std::int64_t>(0, std::min(s.n, s.k) - ahead),
                     tied = std::min(s.n - near, s.k + 40);
  for (std::int64_t i = 0; i < s.n; ++i) {
    std::copy(q.begin(), q.end(), s.row(i));
    const double offset = i < near ? 0.5 : i < near + tied ? 1.0 : 4.0;
    s.row(i)[rng.between(0, s.d - 1)] += rng.chance(0.5) ? offset : -offset;
  }
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(s.n));
  std::iota(permutation.begin(), permutation.end(), 0);
  if (order < 0) std::reverse(permutation.begin(), permutation.end());
  if (order == 0) rng.shuffle(permutation);
  reorder_rows(s, permutation);
}
void tie_at_k_ascending(Rng& rng, Scene& s) { tie_group(rng, s, 1, 1); }
void tie_at_k_descending(Rng& rng, Scene& s) { tie_group(rng, s, 1, -1); }
void tie_at_k_shuffled(Rng& rng, Scene& s) { tie_group(rng, s, 1, 0); }
void tie_after_k_ascending(Rng& rng, Scene& s) { tie_group(rng, s, 0, 1); }
void tie_after_k_descending(Rng& rng, Scene& s) { tie_group(rng, s, 0, -1); }
void tie_after_k_shuffled(Rng& rng, Scene& s) { tie_group(rng, s, 0, 0); }
void tie_spans_k(Rng& rng, Scene& s) { tie_group(rng, s, std::max<std::int64_t>(1, s.k / 2), 0); }

void sorted_by_distance(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  reorder_rows(s, order_by_distance(s));
}
void anti_sorted(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  auto order = order_by_distance(s);
  std::reverse(order.begin(), order.end());
  reorder_rows(s, order);
}
// The nearest rows stand together in the middle: all of a query's survivors come from one tile.
void neighbours_in_one_tile(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  auto order = order_by_distance(s);
  std::rotate(order.begin(), order.begin() + s.n / 2, order.end());
  reorder_rows(s, order);
}

void shell_around_query(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  for (std::int64_t i = 0; i < s.n; ++i) {
    const double norm = std::sqrt(oracle::canonical_dot(s.row(i), s.row(i), s.d));
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] = s.query(0)[j] + s.row(i)[j] / (norm > 0 ? norm : 1);
  }
}
void opposite_pairs(Rng& rng, Scene& s) {
  gaussian_plain(rng, s);
  for (std::int64_t i = 1; i < s.n; i += 2)
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] = -s.row(i - 1)[j];
  std::fill_n(s.query(0), s.d, 0.0);
  s.query(0)[0] = 1;
}
void coordinate_swaps(Rng& rng, Scene& s) {  // the same numbers in another order: equal norms, sums in another order
  gaussian_plain(rng, s);
  for (std::int64_t i = 1; i < s.n; ++i) {
    std::vector<double> values(s.row(0), s.row(0) + s.d);
    rng.shuffle(values);
    std::copy(values.begin(), values.end(), s.row(i));
  }
  for (std::int64_t i = 0; i < s.q; ++i) std::fill_n(s.query(i), s.d, rng.gauss());
}
void scaled_copies(Rng& rng, Scene& s) {  // cosine ties exactly
  gaussian_plain(rng, s);
  for (std::int64_t i = 1; i < s.n; ++i)
    for (std::int64_t j = 0; j < s.d; ++j) s.row(i)[j] = s.row(0)[j] * std::ldexp(1.0, static_cast<int>(i % 7) - 3);
}
void orthogonal_to_query(Rng& rng, Scene& s) {  // every dot is exactly 0
  gaussian_plain(rng, s);
  for (std::int64_t i = 0; i < s.n; ++i)
    for (std::int64_t j = 0; j < s.d; j += 2) s.row(i)[j] = s.d > 1 ? 0 : s.row(i)[j];
  for (std::int64_t i = 0; i < s.q; ++i)
    for (std::int64_t j = 1; j < s.d; j += 2) s.query(i)[j] = 0;
}
}  // namespace

std::vector<Family> tie_families() {
  return {{"gaussian", gaussian_plain},
          {"gaussian_wide", gaussian_wide},
          {"all_equal", all_equal},
          {"many_duplicates", many_duplicates},
          {"integer_lattice", integer_lattice},
          {"binary_lattice", binary_lattice},
          {"signed_lattice", signed_lattice},
          {"queries_are_rows", queries_are_rows},
          {"one_ulp_f32_apart", one_ulp_f32_apart},
          {"one_ulp_f64_apart", one_ulp_f64_apart},
          {"below_f32_rounding", below_f32_rounding},
          {"near_certificate_edge", near_certificate_edge},
          {"element_ulps", element_ulps},
          {"tie_at_k_ascending", tie_at_k_ascending},
          {"tie_at_k_descending", tie_at_k_descending},
          {"tie_at_k_shuffled", tie_at_k_shuffled},
          {"tie_after_k_ascending", tie_after_k_ascending},
          {"tie_after_k_descending", tie_after_k_descending},
          {"tie_after_k_shuffled", tie_after_k_shuffled},
          {"tie_spans_k", tie_spans_k},
          {"sorted_by_distance", sorted_by_distance},
          {"anti_sorted", anti_sorted},
          {"neighbours_in_one_tile", neighbours_in_one_tile},
          {"shell_around_query", shell_around_query},
          {"opposite_pairs", opposite_pairs},
          {"coordinate_swaps", coordinate_swaps},
          {"scaled_copies", scaled_copies},
          {"orthogonal_to_query", orthogonal_to_query}};
}

}  // namespace conformance
