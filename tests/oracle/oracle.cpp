#include "oracle/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace oracle {
namespace {
using vicinal::Degenerate;
using vicinal::DistanceType;
using vicinal::DType;
using vicinal::ErrorCode;
using vicinal::Metric;
constexpr double infinity = std::numeric_limits<double>::infinity();

// 32 lanes from +0, element i into lane i mod 32, then halves folded: 16, 8, 4, 2, 1.
template <class Step, class Join>
double fold(std::int64_t d, Step step, Join join) {
  double s[32] = {};
  for (std::int64_t i = 0; i < d; ++i) s[i % 32] = step(s[i % 32], i);
  for (int h = 16; h >= 1; h /= 2)
    for (int j = 0; j < h; ++j) s[j] = join(s[j], s[j + h]);
  return s[0];
}
double add(double a, double b) { return a + b; }
double larger(double a, double b) { return a > b ? a : b; }

double half_to_double(std::uint16_t bits, int mantissa_bits, int bias) {
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int top = (0x7fff >> mantissa_bits);
  const double sign = (bits & 0x8000) ? -1.0 : 1.0;
  if (exponent == top) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * infinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

double cosine_of(double dot, double qq, double rr) { return std::clamp(1.0 - dot / std::sqrt(qq * rr), 0.0, 2.0); }

// Rows as cosine and correlation see them: centred if asked, with their squared norm and whether they have a direction.
struct Directions {
  Rows rows;
  std::vector<double> square;
  std::vector<bool> degenerate;
  bool any_degenerate = false, out_of_range = false;

  Directions(const Rows& from, bool centred) : rows(from) {
    for (std::int64_t i = 0; i < rows.n; ++i) {
      double* x = rows.value.data() + i * rows.d;
      const auto [low, high] = std::minmax_element(x, x + rows.d);
      const bool lost = centred ? *low == *high : *low == 0 && *high == 0;
      if (centred) {
        const double mean = fold(
                                rows.d, [&](double s, std::int64_t j) { return s + x[j]; }, add) /
                            static_cast<double>(rows.d);
        for (std::int64_t j = 0; j < rows.d; ++j) x[j] = x[j] - mean;
      }
      const double s = canonical_dot(x, x, rows.d);
      square.push_back(s);
      degenerate.push_back(lost);
      any_degenerate = any_degenerate || lost;
      if (!lost && !(s >= std::ldexp(1.0, -500) && s <= std::ldexp(1.0, 500))) out_of_range = true;
    }
  }
};

double round_to(DistanceType type, double value) {
  return type == DistanceType::f32 ? static_cast<float>(value) : value;
}

bool all_finite(const Rows& rows) {
  return std::all_of(rows.value.begin(), rows.value.end(), [](double v) { return std::isfinite(v); });
}

double worst(DistanceType type, Metric metric) {
  if (type == DistanceType::u32) return 4294967295.0;
  return metric == Metric::inner_product ? -infinity : infinity;
}
}  // namespace

double canonical_dot(const double* q, const double* r, std::int64_t d) {
  return fold(
      d, [&](double s, std::int64_t i) { return std::fma(q[i], r[i], s); }, add);
}

double canonical(Metric metric, const double* q, const double* r, std::int64_t d) {
  switch (metric) {
    case Metric::sqeuclidean:
    case Metric::euclidean: {
      const double s = fold(
          d,
          [&](double sum, std::int64_t i) {
            const double t = q[i] - r[i];
            return std::fma(t, t, sum);
          },
          add);
      return metric == Metric::euclidean ? std::sqrt(s) : s;
    }
    case Metric::inner_product: return canonical_dot(q, r, d);
    case Metric::cosine: return cosine_of(canonical_dot(q, r, d), canonical_dot(q, q, d), canonical_dot(r, r, d));
    case Metric::correlation: {
      const Directions a({DType::f64, 1, d, {q, q + d}}, true), b({DType::f64, 1, d, {r, r + d}}, true);
      return cosine_of(canonical_dot(a.rows.row(0), b.rows.row(0), d), a.square[0], b.square[0]);
    }
    case Metric::l1:
      return fold(
          d, [&](double s, std::int64_t i) { return s + std::fabs(q[i] - r[i]); }, add);
    case Metric::linf:
      return fold(
          d, [&](double s, std::int64_t i) { return larger(s, std::fabs(q[i] - r[i])); }, larger);
    case Metric::hamming: {
      int differing = 0;
      for (std::int64_t i = 0; i < d; ++i)
        for (unsigned bits = static_cast<unsigned>(q[i]) ^ static_cast<unsigned>(r[i]); bits != 0; bits >>= 1)
          differing += bits & 1;
      return differing;
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double decode(DType type, const void* element) {
  switch (type) {
    case DType::f32: return load<float>(element);
    case DType::f64: return load<double>(element);
    case DType::f16: return half_to_double(load<std::uint16_t>(element), 10, 15);
    case DType::bf16: return half_to_double(load<std::uint16_t>(element), 7, 127);
    case DType::u8: return load<std::uint8_t>(element);
    case DType::i8: return load<std::int8_t>(element);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Rows decode_rows(DType type, const void* data, std::int64_t n, std::int64_t d) {
  Rows rows{type, n, d, {}};
  const auto* bytes = static_cast<const std::byte*>(data);
  const std::size_t size = vicinal::dtype_size(type), count = static_cast<std::size_t>(n * d);
  rows.value.resize(count);
  for (std::size_t i = 0; i < count; ++i) rows.value[i] = decode(type, bytes + i * size);
  return rows;
}

Answer knn(const Rows& corpus, const Rows& queries, const Question& ask) {
  Answer answer;
  answer.rows = queries.n;
  answer.k = ask.k;
  answer.count = std::min(ask.k, corpus.n);
  const bool wide = corpus.dtype == DType::f64 || queries.dtype == DType::f64;
  answer.type = ask.metric == Metric::hamming         ? DistanceType::u32
                : ask.type != DistanceType::automatic ? ask.type
                : wide                                ? DistanceType::f64
                                                      : DistanceType::f32;
  auto refuse = [&](ErrorCode code) {
    answer.error = code;
    return answer;
  };
  if (ask.k < 1 || corpus.d < 1 || corpus.d != queries.d || (!ask.pad && ask.k > corpus.n))
    return refuse(ErrorCode::invalid_argument);
  if (!all_finite(corpus) || !all_finite(queries)) return refuse(ErrorCode::invalid_value);

  const bool angular = ask.metric == Metric::cosine || ask.metric == Metric::correlation;
  const bool centred = ask.metric == Metric::correlation;
  const Directions a(angular ? queries : Rows{}, centred), b(angular ? corpus : Rows{}, centred);
  const bool out_of_range = a.out_of_range || b.out_of_range;
  if (out_of_range) answer.other_error = ErrorCode::range_error;
  if ((a.any_degenerate || b.any_degenerate) && ask.degenerate == Degenerate::error)
    return refuse(ErrorCode::invalid_value);
  if (out_of_range) return refuse(ErrorCode::range_error);

  auto value = [&](std::int64_t q, std::int64_t r) {
    if (!angular) return canonical(ask.metric, queries.row(q), corpus.row(r), corpus.d);
    const auto qi = static_cast<std::size_t>(q), ri = static_cast<std::size_t>(r);
    if (a.degenerate[qi] || b.degenerate[ri]) return 1.0;
    return cosine_of(canonical_dot(a.rows.row(q), b.rows.row(r), corpus.d), a.square[qi], b.square[ri]);
  };
  const bool descending = ask.metric == Metric::inner_product;
  struct Entry {
    double key;
    std::int64_t id;
  };
  std::vector<Entry> all(static_cast<std::size_t>(corpus.n));
  for (std::int64_t q = 0; q < queries.n; ++q) {
    for (std::int64_t r = 0; r < corpus.n; ++r)
      all[static_cast<std::size_t>(r)] = {round_to(answer.type, value(q, r)), ask.first_id + r};
    std::sort(all.begin(), all.end(), [&](const Entry& x, const Entry& y) {
      if (x.key != y.key) return descending ? x.key > y.key : x.key < y.key;  // -0 and +0 are equal here
      return x.id < y.id;
    });
    for (std::int64_t j = 0; j < ask.k; ++j) {
      const bool found = j < corpus.n;
      const Entry entry = found ? all[static_cast<std::size_t>(j)] : Entry{worst(answer.type, ask.metric), -1};
      if (found && !std::isfinite(entry.key)) return refuse(ErrorCode::range_error);
      answer.ids.push_back(entry.id);
      answer.keys.push_back(entry.key);
    }
  }
  return answer;
}

}  // namespace oracle
