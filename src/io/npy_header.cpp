// The header of a .npy array: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, keys in any order.
// A reader of exactly that much Python, strict enough that damage is noticed.
#include <algorithm>
#include <charconv>

#include "io/message.hpp"
#include "io/npy.hpp"

namespace vicinal::io {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";

class Parser {
 public:
  Parser(const std::string& where, std::string_view text) : where_(where), text_(text) {}

  void parse(NpyHeader& header) {
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : 3;
      if (which == 3) broken(cat("unknown key '", printable(key, 32), "'"));
      if (seen[which]) broken(cat("key '", key, "' twice"));
      seen[which] = true;
      if (which == 0) descr(header);
      if (which == 1) header.fortran_order = boolean();
      if (which == 2) header.shape = tuple();
      if (header.dtype == "structured") return;  // its fields are of no use here
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty()) broken("text after the dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) broken("needs the keys descr, fortran_order and shape");
  }

 private:
  [[noreturn]] void broken(const std::string& what) const {
    fail(ErrorCode::format_error, where_, "npy header: ", what);
  }

  void skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n' || text_.front() == '\t'))
      text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) broken(cat("expected '", c, "' before \"", printable(text_, 24), "\""));
  }

  std::string_view string() {
    skip_space();
    const char quote = text_.empty() ? '\0' : text_.front();
    if (quote != '\'' && quote != '"') broken(cat("expected a string before \"", printable(text_, 24), "\""));
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) broken("a string does not end");
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(0, word.size()) != word) continue;
      text_.remove_prefix(word.size());
      return word == "True";
    }
    broken("fortran_order is neither True nor False");
  }

  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::uint64_t value = 0;
      const auto [end, problem] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (problem != std::errc() || value > static_cast<std::uint64_t>(INT64_MAX)) {
        broken(cat("shape holds \"", printable(text_, 24), "\", no size of an array"));
      }
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      accept('L');  // as Python 2 wrote long integers
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  void descr(NpyHeader& header);

  const std::string& where_;
  std::string_view text_;
};

/// Types that exist and that no call takes, for a message that names them as NumPy does.
std::string foreign_name(char kind, unsigned size) {
  const std::uint64_t bits = std::uint64_t{8} * size;
  switch (kind) {
    case 'O': return "object";
    case 'b': return "bool";
    case 'c': return cat("complex", bits);
    case 'f': return cat("float", bits);
    case 'S':
    case 'a': return cat("bytes (S", size, ")");
    case 'U': return cat("str (U", size, ")");
    case 'V': return cat("void (V", size, ")");
    case 'M': return "datetime64";
    case 'm': return "timedelta64";
    default: return "";
  }
}

std::optional<Item> item_of_descr(char kind, unsigned size) {
  const int rank = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
  if (rank < 0) return std::nullopt;
  static constexpr Item signed_items[] = {Item::i8, Item::i16, Item::i32, Item::i64};
  static constexpr Item unsigned_items[] = {Item::u8, Item::u16, Item::u32, Item::u64};
  static constexpr Item float_items[] = {Item::f16, Item::f16, Item::f32, Item::f64};
  if (kind == 'i') return signed_items[rank];
  if (kind == 'u') return unsigned_items[rank];
  if (kind == 'f' && rank > 0) return float_items[rank];
  return std::nullopt;
}

void Parser::descr(NpyHeader& header) {
  skip_space();
  if (!text_.empty() && text_.front() == '[') {
    header.dtype = "structured";
    return;
  }
  const std::string_view text = string();
  const auto unknown = [&] { broken(cat("unknown descr '", printable(text, 32), "'")); };
  if (text.size() < 2 || std::string_view("<>|=").find(text[0]) == std::string_view::npos) unknown();
  const char kind = text[1];
  unsigned size = 0;
  const auto [end, problem] = std::from_chars(text.data() + 2, text.data() + text.size(), size);
  const bool sized = problem == std::errc() && (end == text.data() + text.size() || *end == '[');
  if (!sized && kind != 'O') unknown();

  header.item = item_of_descr(kind, size);
  header.dtype = header.item ? item_name(*header.item) : foreign_name(kind, size);
  if (header.dtype.empty()) unknown();
  header.swapped = text[0] == '>' && header.item && value_size(*header.item) > 1;
}

}  // namespace

std::string NpyHeader::shape_text() const {
  std::string text = "(";
  const std::size_t shown = std::min<std::size_t>(shape.size(), 8);
  for (std::size_t i = 0; i < shown; ++i) text += cat(i == 0 ? "" : ", ", shape[i]);
  if (shown < shape.size()) text += ", ...";
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::uint64_t npy_data_offset(Bytes beginning) noexcept {
  if (beginning.size() < 10 || std::memcmp(beginning.data(), npy_magic.data(), npy_magic.size()) != 0) return 0;
  if (std::to_integer<int>(beginning[6]) == 1) return 10u + load<std::uint16_t>(beginning.data() + 8);
  return beginning.size() < 12 ? 0 : 12u + std::uint64_t{load<std::uint32_t>(beginning.data() + 8)};
}

NpyHeader npy_header(const std::string& where, Bytes beginning, std::uint64_t size) {
  const std::size_t known = std::min(beginning.size(), npy_magic.size());
  if (known == 0 || std::memcmp(beginning.data(), npy_magic.data(), known) != 0) {
    fail(ErrorCode::format_error, where, "not an npy array (", first_bytes(beginning), ")");
  }
  const auto version = [&](std::size_t i) { return std::to_integer<int>(beginning[i]); };
  if (beginning.size() >= 8 && (version(6) == 0 || version(6) > 3 || version(7) != 0)) {
    fail(version(6) > 3 ? ErrorCode::version_error : ErrorCode::format_error, where, "npy version ", version(6), ".",
         version(7), ", this build reads 1.0, 2.0 and 3.0");
  }
  NpyHeader header;
  const std::uint64_t data_offset = npy_data_offset(beginning);
  const std::uint64_t fixed = data_offset != 0 && version(6) == 1 ? 10 : 12;
  if (data_offset > fixed + npy_largest_header) {
    fail(ErrorCode::format_error, where, "npy header of ", data_offset - fixed, " bytes, the limit is ",
         npy_largest_header);
  }
  if (data_offset == 0 || data_offset > size || data_offset > beginning.size()) {
    fail(ErrorCode::format_error, where, "truncated in the npy header: the file has ", size, " bytes");
  }
  header.data_offset = data_offset;
  const auto* text = reinterpret_cast<const char*>(beginning.data());
  Parser(where, {text + fixed, data_offset - fixed}).parse(header);
  return header;
}

}  // namespace vicinal::io
