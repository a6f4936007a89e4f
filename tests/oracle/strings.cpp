// See strings.hpp.
#include "oracle/strings.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace oracle {

std::int64_t levenshtein(const Text& a, const Text& b) {
  std::vector<std::int64_t> above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::int64_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    row[0] = static_cast<std::int64_t>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j)
      row[j + 1] = std::min({above[j + 1] + 1, row[j] + 1, above[j] + (a[i] == b[j] ? 0 : 1)});
    above.swap(row);
  }
  return above[b.size()];
}

double normalized_levenshtein(const Text& a, const Text& b) {
  if (a.empty() && b.empty()) return 0;
  const auto edits = static_cast<double>(levenshtein(a, b));
  return 2 * edits / (static_cast<double>(a.size()) + static_cast<double>(b.size()) + edits);
}

std::int64_t differing(const Text& a, const Text& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

namespace {
std::set<Text> tokens(const Text& text, std::int64_t ngram) {
  std::set<Text> found;
  const auto n = static_cast<std::size_t>(ngram);
  if (ngram > 0) {
    if (!text.empty() && text.size() < n) found.insert(text);
    for (std::size_t i = 0; i + n <= text.size(); ++i) found.insert(text.substr(i, n));
    return found;
  }
  const Text blanks =
      U" \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
      U"\u202f\u205f\u3000";
  for (std::size_t at = text.find_first_not_of(blanks); at != Text::npos; at = text.find_first_not_of(blanks, at)) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    found.insert(text.substr(at, end - at));
    at = end;
  }
  return found;
}
}  // namespace

double jaccard(const Text& a, const Text& b, std::int64_t ngram) {
  const std::set<Text> left = tokens(a, ngram), right = tokens(b, ngram);
  std::set<Text> either = left;
  either.insert(right.begin(), right.end());
  if (either.empty()) return 0;
  const auto all = static_cast<double>(either.size()), shared = static_cast<double>(left.size() + right.size()) - all;
  return (all - shared) / all;
}

double string_key(const std::string& metric, const Text& a, const Text& b, std::int64_t ngram, bool f64) {
  if (metric == "levenshtein") return static_cast<double>(levenshtein(a, b));
  if (metric == "hamming") return static_cast<double>(differing(a, b));
  const double value = metric == "jaccard" ? jaccard(a, b, ngram) : normalized_levenshtein(a, b);
  return f64 ? value : static_cast<double>(static_cast<float>(value));
}

std::vector<Entry> ranked_strings(const std::vector<Text>& corpus, const Text& query, const std::string& metric,
                                  std::int64_t ngram, bool f64, const std::function<bool(std::int64_t row)>& allows) {
  std::vector<Entry> all;
  for (std::size_t row = 0; row < corpus.size(); ++row)
    if (allows(static_cast<std::int64_t>(row)))
      all.push_back({string_key(metric, query, corpus[row], ngram, f64), static_cast<std::int64_t>(row)});
  std::sort(all.begin(), all.end(),
            [](const Entry& a, const Entry& b) { return a.key != b.key ? a.key < b.key : a.id < b.id; });
  return all;
}

}  // namespace oracle
