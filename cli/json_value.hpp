// A JSON value as it is built to be printed: nothing here reads JSON. Members keep the order of writing, so that
// transcripts are readable; a number that JSON has no word for (infinite, NaN) is null.
#pragma once
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

class Json {
 public:
  struct Member;

  Json();  // null
  Json(bool value);
  Json(double value);
  template <std::integral Integer>
  Json(Integer value);
  /// Bytes that are not UTF-8 are replaced, since JSON cannot carry them.
  template <std::convertible_to<std::string_view> Text>
  Json(const Text& text);
  template <class T>
  Json(const std::vector<T>& values);
  /// {{"name", value}, ...}
  Json(std::initializer_list<Member> members);
  static Json array();

  /// The member of that name, null until something is assigned to it. Makes an object of a null.
  Json& operator[](std::string_view name);
  /// To an array.
  void push_back(const Json& value);
  /// The whole value, on one line.
  std::string text() const;

 private:
  enum class Kind { plain, array, object };
  Json(Kind kind, std::string text);
  static std::string quoted(std::string_view text);

  Kind kind_;
  std::string text_;  // of a plain value; of the elements of an array, with commas
  std::vector<Member> members_;
};

struct Json::Member {
  std::string name;
  Json value;
};

template <std::integral Integer>
Json::Json(Integer value) : Json(Kind::plain, std::to_string(value)) {}

template <std::convertible_to<std::string_view> Text>
Json::Json(const Text& text) : Json(Kind::plain, quoted(text)) {}

template <class T>
Json::Json(const std::vector<T>& values) : Json(Kind::array, "") {
  for (const T& value : values) push_back(value);
}

}  // namespace cli
