// See text.hpp.
#include "io/text.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "io/message.hpp"

namespace vicinal::io {
namespace {

template <class T>
void append(std::string& text, T value) {
  char digits[40];
  const auto [end, fault] = std::to_chars(digits, digits + sizeof digits, value);
  if (fault != std::errc{}) throw Error(ErrorCode::internal, "a number that needs more than 40 characters");
  text.append(digits, end);
}

/// Exact: every half is a double.
double from_half(std::uint16_t bits) noexcept {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value;
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : std::nan("");
  else value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

Lines::Lines(Bytes file) noexcept : rest_(reinterpret_cast<const char*>(file.data()), file.size()) {
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
}

bool Lines::next(std::string_view& line) noexcept {
  if (rest_.empty()) return false;
  const std::size_t end = rest_.find('\n');
  line = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++number_;
  return true;
}

bool is_number(std::string_view text) noexcept {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return (fault == std::errc{} || fault == std::errc::result_out_of_range) && end == text.data() + text.size();
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr const char* blanks = " \t";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view next_word(std::string_view& line) noexcept {
  constexpr const char* blanks = " \t";
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const std::size_t end = std::min(line.find_first_of(blanks), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

void append_number(std::string& text, Item item, const std::byte* value) {
  switch (item) {
    case Item::f32: return append(text, load<float>(value));
    case Item::f64: return append(text, load<double>(value));
    case Item::f16:
    case Item::bf16: return append_f64(text, item, value);
    case Item::i8: return append(text, static_cast<int>(load<std::int8_t>(value)));
    case Item::u8: return append(text, static_cast<int>(load<std::uint8_t>(value)));
    case Item::i16: return append(text, load<std::int16_t>(value));
    case Item::u16: return append(text, load<std::uint16_t>(value));
    case Item::i32: return append(text, load<std::int32_t>(value));
    case Item::u32: return append(text, load<std::uint32_t>(value));
    case Item::i64: return append(text, load<std::int64_t>(value));
    case Item::u64: return append(text, load<std::uint64_t>(value));
  }
}

void append_f64(std::string& text, Item item, const std::byte* value) {
  switch (item) {
    case Item::f32: return append(text, static_cast<double>(load<float>(value)));
    case Item::f16: return append(text, from_half(load<std::uint16_t>(value)));
    case Item::bf16:
      return append(text, static_cast<double>(std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(value)} << 16)));
    case Item::f64:
    case Item::u8:
    case Item::i8:
    case Item::u16:
    case Item::i16:
    case Item::u32:
    case Item::i32:
    case Item::u64:
    case Item::i64: break;
  }
  return append_number(text, item, value);
}

}  // namespace vicinal::io
