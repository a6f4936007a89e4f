// Names of options, both ways.
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

const char* dtype_name(DType type) noexcept {
  switch (type) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::u8: return "u8";
    case DType::i8: break;
  }
  return "i8";
}

const char* distance_type_name(DistanceType type) noexcept {
  switch (type) {
    case DistanceType::automatic: return "auto";
    case DistanceType::f32: return "f32";
    case DistanceType::f64: return "f64";
    case DistanceType::u32: break;
  }
  return "u32";
}

DistanceType parse_distance_type(std::string_view name) {
  for (DistanceType type : {DistanceType::automatic, DistanceType::f32, DistanceType::f64, DistanceType::u32})
    if (name == distance_type_name(type)) return type;
  refuse_name("distance type", name, {"auto", "f32", "f64", "u32"});
}

Degenerate parse_degenerate(std::string_view name) {
  if (name == "error") return Degenerate::error;
  if (name == "one") return Degenerate::one;
  refuse_name("rule for degenerate rows", name, {"error", "one"});
}

Eligible::Labels parse_label_rule(std::string_view name) {
  if (name == "same") return Eligible::Labels::same;
  if (name == "other") return Eligible::Labels::other;
  refuse_name("label rule", name, {"same", "other"});
}

std::int64_t parse_bytes(std::string_view text) {
  const FpGuard guard;
  const auto refuse = [&]() {
    fail(ErrorCode::invalid_argument,
         cat("memory \"", text, "\" is not a number of bytes; write for example 256MiB, 1.5GB or 268435456"));
  };
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (number.ec != std::errc()) refuse();
  std::string unit;
  for (const char* at = number.ptr; at != end; ++at)
    if (*at != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
  static constexpr struct {
    const char* name;
    double bytes;
  } units[] = {{"", 1},
               {"b", 1},
               {"k", 1024.0},
               {"kib", 1024.0},
               {"kb", 1e3},
               {"m", 1048576.0},
               {"mib", 1048576.0},
               {"mb", 1e6},
               {"g", 1073741824.0},
               {"gib", 1073741824.0},
               {"gb", 1e9},
               {"t", 1099511627776.0},
               {"tib", 1099511627776.0},
               {"tb", 1e12}};
  for (const auto& known : units) {
    if (unit != known.name) continue;
    const double bytes = std::ceil(value * known.bytes);
    if (!(bytes >= 1) || bytes > 9e18) refuse();
    return static_cast<std::int64_t>(bytes);
  }
  refuse();
  return 0;
}

}  // namespace vicinal
