// The plain table: every word of kernels.hpp as the loop that defines it, for any CPU. The vector files are tested
// against this one, and canonical sums must agree with it to the bit. Slow by design, std::fma above all: without
// fused hardware it is a library call, and only the filter's products are worth avoiding it for.
// Everything has internal linkage: no function here may be merged with a copy made for another instruction set.
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int lanes = 32;  // of a canonical sum (C2)
constexpr int query_lanes = 4;

// ---- elements, exactly as fp64 ----

double value(float x) { return x; }
double value(double x) { return x; }
double value(std::uint8_t x) { return x; }
double value(std::int8_t x) { return x; }
double value(bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

double value(f16 x) {
  const int exponent = (x.bits >> 10) & 31;
  const int fraction = x.bits & 1023;
  double magnitude = 0;
  if (exponent == 31) magnitude = fraction != 0 ? std::nan("") : HUGE_VAL;
  else if (exponent == 0) magnitude = std::ldexp(fraction, -24);
  else magnitude = std::ldexp(fraction + 1024, exponent - 25);
  return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class T>
void convert(const void* from, std::int64_t count, double* to) {
  const T* x = static_cast<const T*>(from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = value(x[i]);
}

// ---- canonical sums ----

/// The primitives of core/sums.hpp, as plainly as they can be said.
template <class T>
struct Numbers {
  using Value = T;
  static T fma(T a, T b, T c) { return std::fma(a, b, c); }
  static T abs(T a) { return std::fabs(a); }
  static T max(T a, T b) { return b > a ? b : a; }
  static T max_abs(T a, T b) { return max(a, abs(b)); }
};
using Doubles = Numbers<double>;
#include "cpu/isa/generic/summands.inc"

template <class Summand, class T>
void canonical(const CanonicalArgs& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::int64_t row = a.index != nullptr ? a.index[i] : i;
    const T* r = reinterpret_cast<const T*>(static_cast<const std::byte*>(a.rows) + row * a.row_stride);
    const double shift = a.shift != nullptr ? a.shift[i] : 0;
    double s[lanes] = {};
    for (std::int64_t k = 0; k < a.dims; ++k) {
      const double q = Summand::reads_query ? a.query[k] : 0;
      s[k % lanes] = Summand::step(s[k % lanes], q, value(r[k]), shift);
    }
    for (int h = lanes / 2; h > 0; h /= 2) {
      for (int j = 0; j < h; ++j) s[j] = sum_join<Summand::sum, Doubles>(s[j], s[j + h]);
    }
    a.out[i] = s[0];
  }
}

// ---- tiles ----

struct Floats : Numbers<float> {
  // A multiplication and an addition: two roundings an element, at most 2 * dims in the chain, which is what the
  // bound allows this table. std::fma here would make the filter slower than the scan that it is to spare.
  static float fma(float a, float b, float c) { return c + a * b; }
};
template <Sum sum>
struct FloatSum {
  static float step(float s, float q, float r) { return sum_step<sum, Floats>(s, q, r); }
};

template <class Summand>
void tile(const TileArgs& a) {
  for (int query = 0; query < a.query_panels * query_lanes; ++query) {
    const float* q = a.queries + (query / query_lanes) * a.dims * query_lanes + query % query_lanes;
    for (int panel = 0; panel < a.row_panels; ++panel) {
      const float* r = a.rows + panel * a.dims * panel_rows;
      float t[panel_rows] = {};
      for (std::int64_t k = 0; k < a.dims; ++k) {
        const float qk = q[k * query_lanes];
        for (int j = 0; j < panel_rows; ++j) t[j] = Summand::step(t[j], qk, r[k * panel_rows + j]);
      }
      // In fp64 the product is exact; against fma only the sum's own rounding is added, 2^-29 of u.
      const auto finished = [&](float sum, float term) {
        return static_cast<float>(static_cast<double>(a.multiplier) * static_cast<double>(sum) +
                                  static_cast<double>(term));
      };
      if (a.distances != nullptr) {
        if (query > 0) return;
        for (int j = 0; j < panel_rows; ++j)
          a.distances[panel * panel_rows + j] = finished(t[j], a.row_term[panel * panel_rows + j]);
        continue;
      }
      std::uint32_t rows = 0;
      std::uint32_t columns = 0;
      float u[panel_rows];
      for (int j = 0; j < panel_rows; ++j) {
        const int row = panel * panel_rows + j;
        if (a.column_thresholds != nullptr) {
          u[j] = finished(t[j], a.query_term[query]);
          if (!(u[j] > a.column_thresholds[row])) columns |= 1u << j;
        }
        t[j] = finished(t[j], a.row_term[row]);
        if (!(t[j] > a.thresholds[query])) rows |= 1u << j;
      }
      if (rows != 0) a.on_hit(a.context, query, panel, rows, t);
      if (columns != 0) a.on_column_hit(a.context, query, panel, columns, u);
    }
  }
}

void lower_groups(const float* t, int panels, float* groups) {
  for (int row = 0; row < panels * panel_rows; ++row)
    if (t[row] < groups[row % distance_groups]) groups[row % distance_groups] = t[row];
}

std::uint32_t rows_within(const float* t, float threshold) {
  std::uint32_t rows = 0;
  for (int j = 0; j < panel_rows; ++j)
    if (!(t[j] > threshold)) rows |= 1u << j;
  return rows;
}

// ---- preparation ----

RowFacts quantize(const QuantizeArgs& a) {
  RowFacts f = {};
  for (std::int64_t i = 0; i < a.dims; ++i) {
    const double x = (a.row[i] - a.shift) * a.scale - a.centre[i];
    a.out[i] = static_cast<float>(x);
    const double n = a.out[i];
    const double e = x - n;
    f.xx += x * x;
    f.nn += n * n;
    f.ee += e * e;
    f.e_abs += std::fabs(e);
    f.e_max = std::fmax(f.e_max, std::fabs(e));
    f.n_abs += std::fabs(n);
  }
  return f;
}

template <class T>
double moved(const Int8QuantizeArgs& a, std::int64_t i) {
  return (value(static_cast<const T*>(a.row)[i]) - a.shift) * a.scale - a.centre[i];
}

template <class T>
double largest_moved(const Int8QuantizeArgs& a) {
  double most = 0;
  for (std::int64_t i = 0; i < a.dims; ++i) {
    const double x = moved<T>(a, i);
    if (!std::isfinite(x)) return std::nan("");
    most = std::fmax(most, std::fabs(x));
  }
  return most;
}

template <class T>
Int8Facts quantize_int8(const Int8QuantizeArgs& a) {
  Int8Facts f = {};
  for (std::int64_t i = 0; i < a.dims; ++i) {
    const double x = moved<T>(a, i);
    const double n = std::nearbyint(std::fmin(std::fmax(x * a.inverse, -128.0), 127.0));
    const double e = x - n * a.step;
    a.out[i] = static_cast<std::int8_t>(n);
    f.facts.xx += x * x;
    f.facts.nn += n * n;
    f.facts.ee += e * e;
    f.sum += static_cast<std::int64_t>(n);
  }
  f.facts.nn *= a.step * a.step;
  return f;
}

double nearest(double x, double low, double high) { return std::nearbyint(std::fmin(std::fmax(x, low), high)); }

template <class T>
SecondFacts second_row(const Int8QuantizeArgs& a) {
  SecondFacts f = {};
  for (std::int64_t i = 0; i < a.dims; ++i) {
    const double x = moved<T>(a, i);
    const double n = nearest(x * a.inverse, -128, 127);
    const double quantization_error = x - n * a.step;
    const double coarse = nearest((n + 120.5) / 16, 0, 15),
                 fine = nearest(quantization_error * a.inverse * 16 + 7.5, 0, 15);
    a.out[i] = static_cast<std::int8_t>(static_cast<int>(16 * coarse + fine));
    const double of_row = x - a.step * (16 * coarse - 120.5),
                 of_quantization_error = quantization_error - a.step * ((fine - 7.5) / 16);
    f.coarse += of_row * of_row;
    f.fine += of_quantization_error * of_quantization_error;
  }
  return f;
}

SecondFacts second_query(const Int8QuantizeArgs& a) {
  SecondFacts f = {};
  for (std::int64_t i = 0; i < a.dims; ++i) {
    const double x = moved<double>(a, i);
    const double quantization_error = x - nearest(x * a.inverse, -128, 127) * a.step;
    const double j = nearest(quantization_error * a.inverse * 256, -128, 127), p = a.step * (j / 256);
    a.out[i] = static_cast<std::int8_t>(j);
    f.coarse += p * p;
    f.fine += (quantization_error - p) * (quantization_error - p);
    f.sum += static_cast<std::int64_t>(j);
  }
  return f;
}

void pack(const float* from, std::int64_t stride, int count, int width, std::int64_t dims, float* to) {
  for (std::int64_t k = 0; k < dims; ++k) {
    for (int i = 0; i < width; ++i) to[k * width + i] = i < count ? from[i * stride + k] : 0.0f;
  }
}

void pack_quads(const std::int8_t* from, int count, std::int64_t quads, std::int32_t* to) {
  for (std::int64_t k = 0; k < quads; ++k) {
    for (int i = 0; i < panel_rows; ++i) {
      std::uint8_t bytes[4] = {};
      for (int j = 0; j < 4 && i < count; ++j)
        bytes[j] = static_cast<std::uint8_t>(from[4 * (i * quads + k) + j] + 128);
      std::memcpy(&to[k * panel_rows + i], bytes, 4);
    }
  }
}

void hamming(const HammingArgs& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::int64_t row = a.index != nullptr ? a.index[i] : i;
    const std::uint8_t* r = a.rows + row * a.row_stride;
    std::uint32_t differing = 0;
    std::int64_t k = 0;
    for (; k + 8 <= a.dims; k += 8) {
      std::uint64_t x;
      std::uint64_t y;
      std::memcpy(&x, a.query + k, 8);
      std::memcpy(&y, r + k, 8);
      differing += static_cast<std::uint32_t>(std::popcount(x ^ y));
    }
    for (; k < a.dims; ++k) {
      differing += static_cast<std::uint32_t>(std::popcount(static_cast<unsigned>(a.query[k] ^ r[k])));
    }
    a.out[i] = differing;
  }
}

void project(const ProjectArgs& a) {
  for (std::int64_t r = 0; r < a.row_count; ++r) {
    for (std::int64_t j = 0; j < a.count; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < a.dims; ++i)
        sum += a.rows[r * a.dims + i] * static_cast<double>(a.matrix[j * a.stride + i]);
      a.out[r * a.out_stride + j] = sum;
    }
  }
}

template <Sum sum, int width, bool boxes>
std::uint32_t near_sums(const NearArgs& a) {
  std::uint32_t near = 0;
  for (int i = 0; i < panel_rows; ++i) {
    double s[width];
    for (int j = 0; j < width; ++j) {
      const double q = a.query[j];
      const double low = a.low[j * panel_rows + i];
      if constexpr (boxes) {
        const double over = q - a.high[j * panel_rows + i];
        const double gap = low - q > over ? low - q : over;
        s[j] = sum_step<sum, Doubles>(0, gap > 0 ? gap : 0, 0);
      } else {
        s[j] = sum_step<sum, Doubles>(0, q, low);
      }
    }
    for (int h = width / 2; h > 0; h /= 2) {
      for (int j = 0; j < h; ++j) s[j] = sum_join<sum, Doubles>(s[j], s[j + h]);
    }
    a.sums[i] = s[0];
    if (!(s[0] > a.threshold_sum)) near |= 1u << i;
  }
  return near;
}

std::uint32_t least_lanes(const double* sums) {
  double least = sums[0];
  for (int i = 1; i < panel_rows; ++i) least = sums[i] < least ? sums[i] : least;
  std::uint32_t lanes = 0;
  for (int i = 0; i < panel_rows; ++i)
    if (!(sums[i] > least)) lanes |= 1u << i;
  return lanes;
}

void insert_nearest(const InsertArgs& a) {
  double *const keys = a.nearest->keys, *const rows = a.nearest->rows;
  for (int i = 0; i < a.count; ++i) {
    const double key = a.keys[i], row = a.rows[i];
    const auto comes_before = [&](int at) { return key < keys[at] || (key == keys[at] && row < rows[at]); };
    int at = NearestFew::most;
    for (; at > 0 && comes_before(at - 1); --at) {
      if (at == NearestFew::most) continue;
      keys[at] = keys[at - 1];
      rows[at] = rows[at - 1];
    }
    if (at == NearestFew::most) continue;
    keys[at] = key;
    rows[at] = row;
  }
}

std::int64_t first_bad(const double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return i;
  }
  return -1;
}

bool supported() { return true; }

#include "cpu/isa/generic/table.inc"

}  // namespace

constexpr Kernels float_plain = table_of("plain", false);
static_assert(float_plain.complete());

}  // namespace vicinal::cpu
