// Numbers and lines of text files, the same in every locale. Rows and columns of text count from 1, as editors and
// spreadsheets count them.
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "io/array.hpp"

namespace vicinal::io {

/// Lines in turn, without their ends (LF or CR LF). A byte order mark before the first one is skipped.
class Lines {
 public:
  explicit Lines(Bytes file) noexcept;
  bool next(std::string_view& line) noexcept;
  std::size_t number() const noexcept { return number_; }  // of the line that next gave last
  std::string_view rest() const noexcept { return rest_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

/// Without blanks (and tabs) at both ends.
std::string_view trimmed(std::string_view text) noexcept;
/// The next word of a line whose words are apart by blanks; empty at the end.
std::string_view next_word(std::string_view& line) noexcept;

/// All of `text` as a number; a plus sign is allowed, "inf" and "nan" are numbers if T can be those.
template <class T>
std::optional<T> number_of(std::string_view text) noexcept {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Whether all of `text` is a number, also one that no double holds.
bool is_number(std::string_view text) noexcept;

/// The shortest text that reads back as the same value of the item's type (of halves and bfloat16: the same f64).
void append_number(std::string& text, Item item, const std::byte* value);
/// Any item that is a vector's, as the shortest text that reads back as the same f64.
void append_f64(std::string& text, Item item, const std::byte* value);

/// Text on its way to a file, in pieces of some size.
class TextSink {
 public:
  explicit TextSink(Sink& out) : out_(out) {}
  std::string& text() noexcept { return text_; }
  /// To be called now and then: passes on what has gathered.
  void spill() {
    if (text_.size() >= most) flush();
  }
  void flush() {
    out_.append(as_bytes(text_.data(), text_.size()));
    text_.clear();
  }

 private:
  static constexpr std::size_t most = 1 << 16;
  Sink& out_;
  std::string text_;
};

}  // namespace vicinal::io
