// jaccard: 1 - (tokens in both) / (tokens in either) of the sets of tokens, 0 for two
// empty sets. An inverted index lists the rows of each token; a query counts the rows
// on the lists of its own tokens, so rows that share nothing with it cost nothing.
#include <algorithm>
#include <unordered_map>

#include "cpu/strings/scanner.hpp"
#include "cpu/strings/tokens.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t token_bytes = 96;  // of a token in the dictionary, with its list

class JaccardScanner final : public Scanner {
 public:
  JaccardScanner(const StringSearchSpec& spec, ThreadPool& thread_pool)
      : spec_(spec), thread_pool_(thread_pool), rows_(spec.corpus.count()), sizes_(rows_) {
    for (std::int64_t at = 0; at < rows_; ++at) {
      const std::int64_t row = spec.corpus.row(at);
      const std::vector<Token> tokens = tokens_of(spec.corpus, at, spec.alphabet, spec.encoding, spec.ngram);
      sizes_[row] = static_cast<std::uint32_t>(tokens.size());
      for (const Token& token : tokens) lists_[token].push_back(row);
      if (at % 256 == 0) thread_pool.poll(0);
    }
    for (auto& [token, list] : lists_) std::sort(list.begin(), list.end());
    for (int worker = 0; worker < thread_pool.threads(); ++worker)
      shared_.emplace_back(static_cast<std::size_t>(rows_), 0);
  }

  ScanCounts scan(const QueryGroup& group, int worker) override {
    std::vector<std::uint32_t>& shared = shared_[static_cast<std::size_t>(worker)];
    const std::int64_t begin = rows_ * group.part / group.parts, end = rows_ * (group.part + 1) / group.parts;
    ScanCounts counts;
    std::vector<std::int64_t> met;
    for (std::size_t i = 0; i < group.pools.size(); ++i) {
      const std::vector<Token> tokens = tokens_of(spec_.queries, group.first + static_cast<std::int64_t>(i),
                                                  spec_.alphabet, spec_.encoding, spec_.ngram);
      StringPool& pool = group.pools[i];
      met.clear();
      for (const Token& token : tokens) {
        const auto list = lists_.find(token);
        if (list == lists_.end()) continue;
        for (auto row = std::lower_bound(list->second.begin(), list->second.end(), begin);
             row != list->second.end() && *row < end; ++row)
          if (shared[static_cast<std::size_t>(*row)]++ == 0) met.push_back(*row);
      }
      for (const std::int64_t row : met) take(pool, tokens.size(), shared[static_cast<std::size_t>(row)], row, counts);
      add_rest(pool, tokens.size(), shared, begin, end, counts);
      for (const std::int64_t row : met) shared[static_cast<std::size_t>(row)] = 0;
      thread_pool_.poll(static_cast<std::uint64_t>(end - begin));
    }
    return counts;
  }

 private:
  void take(StringPool& pool, std::size_t tokens, std::uint32_t shared, std::int64_t row, ScanCounts& counts) const {
    const std::int64_t either = static_cast<std::int64_t>(tokens) + sizes_[row] - shared;
    const double value = either == 0 ? 0.0 : static_cast<double>(either - shared) / static_cast<double>(either);
    const double key = fold_key(value, spec_.type, false);
    ++counts.computed;
    if (!pool.wants(key, row)) return;
    pool.take(key, row);
    ++counts.within;
  }

  /// Rows that share no token: at distance 1, or at 0 where neither side has any. By id, so that what is full ends it.
  void add_rest(StringPool& pool, std::size_t tokens, const std::vector<std::uint32_t>& shared, std::int64_t begin,
                std::int64_t end, ScanCounts& counts) const {
    if (tokens > 0 && pool.limit() < 1) return;
    for (std::int64_t row = begin; row < end; ++row) {
      if (shared[static_cast<std::size_t>(row)] != 0) continue;
      if (tokens > 0 && !pool.wants(1.0, row)) return;
      take(pool, tokens, 0, row, counts);
    }
  }

  const StringSearchSpec& spec_;
  ThreadPool& thread_pool_;
  std::int64_t rows_;
  Buffer<std::uint32_t> sizes_;
  std::unordered_map<Token, std::vector<std::int64_t>> lists_;
  std::vector<std::vector<std::uint32_t>> shared_;
};

std::unique_ptr<Scanner> open_jaccard(const StringSearchSpec& spec, const Myers& /*myers*/, ThreadPool& thread_pool) {
  return std::make_unique<JaccardScanner>(spec, thread_pool);
}

/// Every symbol may begin a token of its own.
std::int64_t jaccard_bytes(const StringSizes& sizes, const Myers& /*myers*/, int threads) {
  return sizes.symbols * token_bytes + sizes.rows * 4 + threads * (sizes.rows * 12 + sizes.longest_query * token_bytes);
}

}  // namespace

const StringMetric jaccard = {Metric::jaccard, open_jaccard, jaccard_bytes};

}  // namespace vicinal::cpu
