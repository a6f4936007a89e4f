#include "cpu/strings/tokens.hpp"

#include <algorithm>

namespace vicinal::cpu {
namespace {

/// The White_Space property of Unicode; of bytes, ASCII's.
bool white_space(std::uint32_t symbol, Encoding encoding) {
  if ((symbol >= 9 && symbol <= 13) || symbol == 32) return true;
  if (encoding == Encoding::bytes) return false;
  return symbol == 0x85 || symbol == 0xA0 || symbol == 0x1680 || (symbol >= 0x2000 && symbol <= 0x200A) ||
         symbol == 0x2028 || symbol == 0x2029 || symbol == 0x202F || symbol == 0x205F || symbol == 0x3000;
}

}  // namespace

std::vector<Token> tokens_of(const StringSet& set, std::int64_t at, const Alphabet& alphabet, Encoding encoding,
                             std::int64_t ngram) {
  Token codes;
  set.with_codes(at, [&](const auto* from) { codes.assign(from, from + set.length(at)); });
  std::vector<Token> tokens;
  if (ngram > 0) {
    const auto n = static_cast<std::size_t>(ngram);
    if (!codes.empty() && codes.size() <= n) tokens.push_back(codes);  // too short for one: it is its own
    for (std::size_t i = 0; codes.size() > n && i + n <= codes.size(); ++i) tokens.push_back(codes.substr(i, n));
  } else {
    Token token;
    for (const char32_t code : codes) {
      if (!white_space(alphabet.symbol(code), encoding)) {
        token += code;
      } else if (!token.empty()) {
        tokens.push_back(std::move(token));
        token.clear();
      }
    }
    if (!token.empty()) tokens.push_back(std::move(token));
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace vicinal::cpu
