// See json_value.hpp.
#include "json_value.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace cli {
namespace {

// nlohmann/json writes what has rules: numbers that read back as the same bits, escapes, text that is not UTF-8. It is
// a matter of seconds a file that includes it, so this is the only one.
using Library = nlohmann::json;

}  // namespace

Json::Json() : Json(Kind::plain, "null") {}
Json::Json(bool value) : Json(Kind::plain, value ? "true" : "false") {}
Json::Json(double value) : Json(Kind::plain, Library(value).dump()) {}
Json::Json(std::initializer_list<Member> members) : kind_(Kind::object), members_(members) {}
Json::Json(Kind kind, std::string text) : kind_(kind), text_(std::move(text)) {}

Json Json::array() { return {Kind::array, ""}; }

std::string Json::quoted(std::string_view text) {
  return Library(text).dump(-1, ' ', false, Library::error_handler_t::replace);
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
