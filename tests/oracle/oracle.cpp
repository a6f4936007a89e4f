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
    case Metric::jensen_shannon:  // of an index alone: tests/unit/core/test_measures.cpp
    case Metric::kullback_leibler:
    case Metric::hellinger:
    case Metric::emd:
    case Metric::dtw:
    case Metric::levenshtein:
    case Metric::normalized_levenshtein:
    case Metric::jaccard: break;  // of strings: oracle/strings.cpp
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

bool Eligible::admits(std::int64_t query, std::int64_t row, std::int64_t first_id) const {
  const std::int64_t id = first_id + row;
  const auto q = static_cast<std::size_t>(query), r = static_cast<std::size_t>(row);
  if (id < first || id > last) return false;
  if (ids && ids->count(id) == 0) return false;
  if (rows && !(*rows)[r]) return false;
  if (labels == vicinal::Eligible::Labels::ignored) return true;
  return (corpus_labels[r] == query_labels[q]) == (labels == vicinal::Eligible::Labels::same);
}

struct Keys::Prepared {
  const Rows &corpus, &queries;
  Metric metric;
  bool angular, centred;
  Directions a, b;
  Prepared(const Rows& c, const Rows& q, Metric m)
      : corpus(c), queries(q), metric(m), angular(m == Metric::cosine || m == Metric::correlation),
        centred(m == Metric::correlation), a(angular ? q : Rows{}, centred), b(angular ? c : Rows{}, centred) {}
};
Keys::~Keys() = default;

Keys::Keys(const Rows& corpus, const Rows& queries, const SearchSpec& ask) {
  const bool wide = corpus.dtype == DType::f64 || queries.dtype == DType::f64;
  type = ask.metric == Metric::hamming         ? DistanceType::u32
         : ask.type != DistanceType::automatic ? ask.type
         : wide                                ? DistanceType::f64
                                               : DistanceType::f32;
  if (corpus.d < 1 || corpus.d != queries.d) {
    error = ErrorCode::invalid_argument;
    return;
  }
  if (!all_finite(corpus) || !all_finite(queries)) {
    error = ErrorCode::invalid_value;
    return;
  }
  prepared_ = std::make_unique<Prepared>(corpus, queries, ask.metric);
  const bool out_of_range = prepared_->a.out_of_range || prepared_->b.out_of_range;
  const bool degenerate = prepared_->a.any_degenerate || prepared_->b.any_degenerate;
  if (out_of_range) error = other_error = ErrorCode::range_error;
  if (degenerate && ask.degenerate == Degenerate::error) error = ErrorCode::invalid_value;
}

double Keys::operator()(std::int64_t q, std::int64_t r) const {
  const Prepared& p = *prepared_;
  const std::int64_t d = p.corpus.d;
  if (!p.angular) return round_to(type, canonical(p.metric, p.queries.row(q), p.corpus.row(r), d));
  const auto qi = static_cast<std::size_t>(q), ri = static_cast<std::size_t>(r);
  if (p.a.degenerate[qi] || p.b.degenerate[ri]) return 1.0;
  return round_to(type, cosine_of(canonical_dot(p.a.rows.row(q), p.b.rows.row(r), d), p.a.square[qi], p.b.square[ri]));
}

std::vector<Entry> ranked(const Keys& keys, std::int64_t rows, std::int64_t query, const SearchSpec& ask) {
  std::vector<Entry> all;
  for (std::int64_t r = 0; r < rows; ++r)
    if (ask.eligible.admits(query, r, ask.first_id) && !(ask.without_self && r == query))
      all.push_back({keys(query, r), ask.first_id + r});
  const bool descending = ask.metric == Metric::inner_product;
  std::sort(all.begin(), all.end(), [&](const Entry& x, const Entry& y) {
    if (x.key != y.key) return descending ? x.key > y.key : x.key < y.key;  // -0 and +0 are equal here
    return x.id < y.id;
  });
  return all;
}

Answer knn(const Rows& corpus, const Rows& queries, const SearchSpec& ask) {
  const Keys keys(corpus, queries, ask);
  Answer answer;
  answer.type = keys.type;
  answer.rows = queries.n;
  answer.k = ask.k;
  answer.error = keys.error;
  answer.other_error = keys.other_error;
  const auto refuse = [&](ErrorCode code, std::optional<ErrorCode> other = {}) {
    answer.error = code;
    answer.other_error = other;
    return answer;
  };
  if (ask.k < 1 || (!ask.pad && ask.k > corpus.n)) return refuse(ErrorCode::invalid_argument);
  for (std::int64_t q = 0; q < queries.n; ++q) {
    std::int64_t count = 0;
    for (std::int64_t r = 0; r < corpus.n; ++r)
      count += ask.eligible.admits(q, r, ask.first_id) && !(ask.without_self && r == q);
    if (count < ask.k && !ask.pad) return refuse(ErrorCode::invalid_argument, answer.error);
    answer.counts.push_back(std::min(count, ask.k));
  }
  if (answer.error) return answer;

  for (std::int64_t q = 0; q < queries.n; ++q) {
    const std::vector<Entry> all = ranked(keys, corpus.n, q, ask);
    for (std::size_t j = 0; j < static_cast<std::size_t>(ask.k); ++j) {
      const Entry entry = j < all.size() ? all[j] : Entry{worst(answer.type, ask.metric), -1};
      if (j < all.size() && !std::isfinite(entry.key)) return refuse(ErrorCode::range_error);
      answer.ids.push_back(entry.id);
      answer.keys.push_back(entry.key);
    }
  }
  return answer;
}

}  // namespace oracle
