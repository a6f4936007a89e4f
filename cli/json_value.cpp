// See json_value.hpp.
#include "json_value.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace cli {
namespace {

/// How many bytes the first character of text has; of a broken one, how many there are before the fault, negative.
int character_length(std::string_view text) {
  const auto byte = [&](int i) {
    return static_cast<std::size_t>(i) < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return -1;
  const int length = first < 0xE0 ? 2 : (first < 0xF0 ? 3 : 4);
  for (int i = 1; i < length; ++i) {
    unsigned least = 0x80, most = 0xBF;
    if (i == 1 && first == 0xE0) least = 0xA0;  // below: what two bytes can say
    if (i == 1 && first == 0xED) most = 0x9F;   // above: half of a surrogate pair
    if (i == 1 && first == 0xF0) least = 0x90;  // below: what three bytes can say
    if (i == 1 && first == 0xF4) most = 0x8F;   // above: beyond the last character
    if (byte(i) < least || byte(i) > most) return -i;
  }
  return length;
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text = fmt::format("{}", value);  // the shortest text that reads back as the same bits
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // a reader sees that it is no integer
  return text;
}

}  // namespace

Json::Json() : Json(Kind::plain, "null") {}
Json::Json(bool value) : Json(Kind::plain, value ? "true" : "false") {}
Json::Json(double value) : Json(Kind::plain, number(value)) {}
Json::Json(std::initializer_list<Member> members) : kind_(Kind::object), members_(members) {}
Json::Json(Kind kind, std::string text) : kind_(kind), text_(std::move(text)) {}

Json Json::array() { return {Kind::array, ""}; }

std::string Json::quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const int length = character_length(text);
    const std::string_view character = text.substr(0, static_cast<std::size_t>(std::abs(length)));
    text.remove_prefix(character.size());
    const auto first = static_cast<unsigned char>(character[0]);
    if (length < 0) out += "\xEF\xBF\xBD";
    else if (first == '"' || first == '\\') out += std::string("\\") + character[0];
    else if (first == '\n') out += "\\n";
    else if (first == '\t') out += "\\t";
    else if (first < 0x20) out += fmt::format("\\u{:04x}", first);
    else out += character;
  }
  return out + "\"";
}

Json& Json::operator[](std::string_view name) {
  kind_ = Kind::object;
  for (Member& member : members_) {
    if (member.name == name) return member.value;
  }
  return members_.emplace_back(Member{std::string(name), Json()}).value;
}

void Json::push_back(const Json& value) {
  if (!text_.empty()) text_ += ',';
  text_ += value.text();
}

std::string Json::text() const {
  if (kind_ == Kind::plain) return text_;
  if (kind_ == Kind::array) return "[" + text_ + "]";
  std::string out;
  for (const Member& member : members_)
    out += (out.empty() ? "" : ",") + quoted(member.name) + ":" + member.value.text();
  return "{" + out + "}";
}

}  // namespace cli
