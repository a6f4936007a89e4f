#include "conformance/support.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <stdexcept>

#include <unistd.h>

namespace conformance {

std::uint64_t Rng::bits() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
std::int64_t Rng::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
}
double Rng::uniform() { return std::ldexp(static_cast<double>(bits() >> 11), -53); }
std::int64_t Rng::log_between(std::int64_t low, std::int64_t high) {
  const double a = std::log(static_cast<double>(low)), b = std::log(static_cast<double>(high) + 1);
  return std::clamp(static_cast<std::int64_t>(std::exp(a + (b - a) * uniform())), low, high);
}
double Rng::gauss() {
  const double u = 1 - uniform(), v = uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

const std::vector<DType> all_dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8};

namespace {
// Significant bits and the exponent range of the floating types.
struct Format {
  int bits, lowest, top;
};  // lowest: of the smallest subnormal; top: values stay below 2^top
Format format(DType type) {
  switch (type) {
    case DType::f64: return {53, -1074, 1024};
    case DType::f16: return {11, -24, 16};
    case DType::bf16: return {8, -133, 128};
    default: return {24, -149, 128};
  }
}
bool integral(DType type) { return type == DType::u8 || type == DType::i8; }

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void encode(DType type, double value, std::byte* to) {
  const double v = nearest(type, value);
  switch (type) {
    case DType::f32: return store(to, static_cast<float>(v));
    case DType::f64: return store(to, v);
    case DType::u8: return store(to, static_cast<std::uint8_t>(v));
    case DType::i8: return store(to, static_cast<std::int8_t>(v));
    default: break;
  }
  // Half and bfloat16 from the parts of an exactly representable value.
  const Format f = format(type);
  const int mantissa_bits = f.bits - 1;
  std::uint16_t bits = std::signbit(v) ? 0x8000 : 0;
  if (v != 0) {
    const int exponent = std::ilogb(v), lowest_normal = f.lowest + mantissa_bits;
    const int field = std::max(exponent, lowest_normal - 1) - lowest_normal + 1;
    const int unit = field == 0 ? f.lowest : exponent - mantissa_bits;
    const auto mantissa = static_cast<std::uint16_t>(std::ldexp(std::fabs(v), -unit));
    bits = static_cast<std::uint16_t>(bits | field << mantissa_bits | (mantissa & ((1 << mantissa_bits) - 1)));
  }
  store(to, bits);
}
}  // namespace

double max_finite(DType type) {
  if (type == DType::u8) return 255;
  if (type == DType::i8) return 127;
  const Format f = format(type);
  return std::ldexp(2 - std::ldexp(1.0, 1 - f.bits), f.top - 1);
}
double min_normal(DType type) {
  return integral(type) ? 1 : std::ldexp(1.0, format(type).lowest + format(type).bits - 1);
}
double min_subnormal(DType type) { return integral(type) ? 1 : std::ldexp(1.0, format(type).lowest); }
int precision(DType type) { return type == DType::u8 ? 8 : type == DType::i8 ? 7 : format(type).bits; }

double nearest(DType type, double value) {
  if (type == DType::u8) return std::clamp(std::nearbyint(value), 0.0, 255.0);
  if (type == DType::i8) return std::clamp(std::nearbyint(value), -128.0, 127.0);
  if (value == 0 || type == DType::f64) return value;
  const Format f = format(type);
  const int unit = std::max(std::ilogb(value) - f.bits + 1, f.lowest);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::copysign(std::min(std::fabs(rounded), max_finite(type)), value);
}

Table::Table(DType type, std::int64_t rows, std::int64_t cols, const std::vector<double>& values)
    : dtype(type), n(rows), d(cols), bytes(static_cast<std::size_t>(rows * cols) * vicinal::dtype_size(type)) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows * cols); ++i)
    encode(type, values[i], bytes.data() + i * vicinal::dtype_size(type));
}
void Table::set(std::int64_t row, std::int64_t col, double value) {
  std::byte* to = bytes.data() + static_cast<std::size_t>(row * d + col) * vicinal::dtype_size(dtype);
  if (std::isfinite(value)) return encode(dtype, value, to);
  switch (dtype) {  // NaN and infinity have no nearest value
    case DType::f32: return store(to, static_cast<float>(value));
    case DType::f64: return store(to, value);
    default: break;
  }
  const int mantissa_bits = format(dtype).bits - 1;
  const int top = 0x7fff >> mantissa_bits << mantissa_bits;
  store(to, static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | top | (std::isnan(value) ? 1 : 0)));
}

Table gaussian(Rng& rng, DType type, std::int64_t n, std::int64_t d, double mean, double sigma) {
  std::vector<double> values(static_cast<std::size_t>(n * d));
  for (double& v : values) v = mean + sigma * rng.gauss();
  return {type, n, d, values};
}

const std::vector<Layout> all_layouts = {Layout::strided, Layout::reversed, Layout::column_major, Layout::byte_swapped,
                                         Layout::unaligned};
const char* layout_name(Layout layout) {
  static const char* const names[] = {"strided", "reversed", "column_major", "byte_swapped", "unaligned"};
  return names[static_cast<int>(layout)];
}

Arranged::Arranged(const Table& table, Layout layout) {
  const auto size = static_cast<std::int64_t>(vicinal::dtype_size(table.dtype));
  std::int64_t row = table.d * size, col = size, start = 0;
  switch (layout) {
    case Layout::strided:
      row = (2 * table.d + 3) * size;
      col = 2 * size;
      break;
    case Layout::reversed:
      row = -row;
      col = -col;
      start = (table.n * table.d - 1) * size;
      break;
    case Layout::column_major:
      row = size;
      col = table.n * size;
      break;
    case Layout::byte_swapped: break;
    case Layout::unaligned:
      row += 1;
      start = 1;
      break;
  }
  bytes.resize(static_cast<std::size_t>((2 * table.d + 4) * size * (table.n + 1) + 1), std::byte{0xff});
  for (std::int64_t i = 0; i < table.n; ++i)
    for (std::int64_t j = 0; j < table.d; ++j) {
      const std::byte* from = table.bytes.data() + (i * table.d + j) * size;
      std::byte* to = bytes.data() + start + i * row + j * col;
      if (layout == Layout::byte_swapped) std::reverse_copy(from, from + size, to);
      else std::copy(from, from + size, to);
    }
  points = vicinal::Points(bytes.data() + start, table.dtype, table.n, table.d);
  points.row_stride = row;
  points.col_stride = col;
  points.byte_swapped = layout == Layout::byte_swapped;
}

bool applies(Metric metric, DType type) {
  return vicinal::metric_info(metric).vectors && (metric != Metric::hamming || type == DType::u8);
}
std::string metric_name(Metric metric) { return std::string(vicinal::metric_info(metric).name); }

namespace {
std::string describe(std::int64_t row, std::int64_t rank, std::int64_t id, double distance, std::int64_t want_id,
                     double want_distance) {
  char text[256];
  std::snprintf(text, sizeof text,
                "row %lld rank %lld: got id %lld distance %.17g (%a), want id %lld distance %.17g (%a)",
                static_cast<long long>(row), static_cast<long long>(rank), static_cast<long long>(id), distance,
                distance, static_cast<long long>(want_id), want_distance, want_distance);
  return text;
}
bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }
}  // namespace

std::string difference(const vicinal::Neighbors& got, const oracle::Answer& want, From from) {
  if (got.rows() != want.rows || got.k() != want.k) return "shape differs";
  if (got.type() != want.type) return "distance type differs";
  for (std::int64_t i = 0; i < want.rows; ++i)
    for (std::int64_t j = 0; j < want.k; ++j) {
      const auto at = static_cast<std::size_t>(i * want.k + j);
      if (got.id(i, j) != want.ids[at] || !same_bits(got.distance(i, j), want.keys[at]))
        return describe(i, j, got.id(i, j), got.distance(i, j), want.ids[at], want.keys[at]);
    }
  for (std::size_t i = 0; got.counts() != nullptr && i < want.counts.size(); ++i)
    if (got.counts()[i] != want.counts[i])
      return "row " + std::to_string(i) + ": count " + std::to_string(got.counts()[i]) + ", want " +
             std::to_string(want.counts[i]);
  if (!got.certificate.all() || got.certificate.queries != (from == From::search ? want.rows : 0))
    return "the certificate speaks of " + std::to_string(got.certificate.queries) + " queries";
  return "";
}

std::string difference(const vicinal::Neighbors& got, const vicinal::Neighbors& want) {
  if (got.rows() != want.rows() || got.k() != want.k() || got.type() != want.type()) return "shape or type differs";
  for (std::int64_t i = 0; i < want.rows(); ++i)
    for (std::int64_t j = 0; j < want.k(); ++j)
      if (got.id(i, j) != want.id(i, j) || !same_bits(got.distance(i, j), want.distance(i, j)))
        return describe(i, j, got.id(i, j), got.distance(i, j), want.id(i, j), want.distance(i, j));
  return "";
}

oracle::SearchSpec spec(const vicinal::KnnOptions& options) {
  oracle::SearchSpec ask;
  ask.metric = options.metric;
  ask.k = options.k;
  ask.type = options.distance_type;
  ask.pad = options.pad;
  ask.first_id = options.first_id;
  ask.degenerate = options.degenerate;
  return ask;
}

std::string check(const vicinal::Points& corpus, const vicinal::Points& queries, const vicinal::KnnOptions& options,
                  const oracle::Answer& want) {
  try {
    const vicinal::Neighbors got = vicinal::knn(corpus, queries, options);
    if (want.error) return std::string("answered, want ") + vicinal::error_name(*want.error);
    return difference(got, want);
  } catch (const vicinal::Error& error) {
    if (want.error && (*want.error == error.code() || want.other_error == error.code())) return "";
    return std::string("threw ") + vicinal::error_name(error.code()) + ": " + error.what() +
           (want.error ? std::string(", want ") + vicinal::error_name(*want.error) : std::string(", want an answer"));
  }
}

std::int64_t scaled(std::int64_t count) {
  const char* scale = std::getenv("VICINAL_TEST_SCALE");
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(count) * (scale ? std::atof(scale) : 1.0)));
}

bool in_share(Rng& rng, double least) { return rng.chance(std::max(least, static_cast<double>(scaled(1000)) / 1000)); }
std::uint64_t seed_or(std::uint64_t fallback) {
  const char* seed = std::getenv("VICINAL_TEST_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : fallback;
}

bool has_cuda(int ordinal) {
  const std::vector<vicinal::Device> all = vicinal::devices();
  return std::any_of(all.begin(), all.end(), [&](const vicinal::Device& device) {
    return device.usable && device.name == "cuda:" + std::to_string(ordinal);
  });
}

std::string run_child(const std::string& name, const std::string& argument) {
  char self[4096];
  const auto length = ::readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) throw std::runtime_error("cannot find this program");
  const std::string command =
      "'" + std::string(self, static_cast<std::size_t>(length)) + "' --child " + name + " '" + argument + "' 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start a child");
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  const int status = ::pclose(pipe);
  return status == 0 ? output : output + "[child failed, status " + std::to_string(status) + "]";
}

}  // namespace conformance
