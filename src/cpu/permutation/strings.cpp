// Strings as objects: their codes, and for jaccard their tokens as numbers, a pair at a time.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "core/string_metric.hpp"
#include "core/strings.hpp"
#include "core/text.hpp"
#include "cpu/permutation/objects.hpp"
#include "cpu/permutation/pattern.hpp"
#include "cpu/strings/tokens.hpp"
#include "vicinal/search.hpp"

namespace vicinal::cpu {
namespace {

/// A query in the codes of the objects; what they do not have is 0.
struct Asked {
  std::vector<std::uint32_t> codes;
  std::vector<std::uint32_t> tokens;  // numbers of those that objects have, sorted
  std::int64_t token_count = 0;       // the others too
};

/// Lists of numbers one after another.
struct Lists {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint32_t> numbers;
};

class OwnedStrings;

class StringEvaluator final : public DistanceEvaluator {
 public:
  StringEvaluator(const OwnedStrings& objects, const std::vector<Asked>& asked);
  void start(std::int64_t query) override;
  void measure(const std::uint32_t* objects, std::int64_t count, double* values) override;

 private:
  double jaccard(std::int64_t object) const;
  std::int64_t edits(std::int64_t at);
  const OwnedStrings& objects_;
  const std::vector<Asked>& asked_;
  const Asked* query_ = nullptr;
  Pattern pattern_;
};

class StringQueries final : public Queries {
 public:
  StringQueries(const OwnedStrings& objects, std::vector<Asked> asked) : objects_(objects), asked_(std::move(asked)) {}
  std::int64_t count() const noexcept override { return static_cast<std::int64_t>(asked_.size()); }
  std::unique_ptr<DistanceEvaluator> evaluator() const override {
    return std::make_unique<StringEvaluator>(objects_, asked_);
  }

 private:
  const OwnedStrings& objects_;
  std::vector<Asked> asked_;
};

void append_utf8(std::string& text, std::uint32_t symbol) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (symbol >> shift & 0x3F)); };
  if (symbol < 0x80) {
    text += static_cast<char>(symbol);
  } else if (symbol < 0x800) {
    text += static_cast<char>(0xC0 | symbol >> 6);
    tail(0);
  } else if (symbol < 0x10000) {
    text += static_cast<char>(0xE0 | symbol >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | symbol >> 18);
    tail(12), tail(6), tail(0);
  }
}

class OwnedStrings final : public StringObjects {
 public:
  OwnedStrings(const Strings& strings, Metric metric, const StringRules& rules, ThreadPool& thread_pool)
      : metric_(metric), rules_(rules),
        encoding_(strings.encoding == Encoding::bytes ? Encoding::bytes : Encoding::utf8), true_distance_(metric, 0),
        set_([&] {
          const std::vector<std::int64_t> lengths = alphabet_.read(strings, "corpus", rules.max_length, thread_pool);
          return StringSet(strings, lengths, alphabet_, thread_pool);
        }()),
        places_(static_cast<std::size_t>(strings.rows)) {
    for (std::int64_t at = 0; at < set_.count(); ++at) places_[static_cast<std::size_t>(set_.row(at))] = at;
    if (metric == Metric::hamming && set_.count() > 0 && set_.length(0) != set_.longest())
      fail(ErrorCode::invalid_argument, cat("hamming compares strings of one length; the corpus has strings of ",
                                            set_.length(0), " and of ", set_.longest(), " symbols"));
    if (metric == Metric::jaccard) number_tokens();
  }

  std::int64_t count() const noexcept override { return set_.count(); }
  Encoding encoding() const noexcept override { return encoding_; }
  const TrueDistance& true_distance() const noexcept override { return true_distance_; }
  std::int64_t bytes() const noexcept override {
    return set_.symbols() * (set_.narrow() ? 1 : 4) + set_.count() * 24 +
           static_cast<std::int64_t>(tokens_.numbers.size() * 4);
  }

  std::unique_ptr<Queries> some(std::vector<std::int64_t> ids) const override {
    std::vector<Asked> asked(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      set_.with_codes(position(ids[i]),
                      [&](const auto* codes) { asked[i].codes.assign(codes, codes + set_.length(position(ids[i]))); });
      if (metric_ != Metric::jaccard) continue;
      const auto row = static_cast<std::size_t>(ids[i]);
      asked[i].tokens.assign(tokens_.numbers.begin() + tokens_.offsets[row],
                             tokens_.numbers.begin() + tokens_.offsets[row + 1]);
      asked[i].token_count = static_cast<std::int64_t>(asked[i].tokens.size());
    }
    return std::make_unique<StringQueries>(*this, std::move(asked));
  }

  std::unique_ptr<Queries> read(const Strings& queries, ThreadPool& thread_pool) const override {
    const bool bytes = queries.encoding == Encoding::bytes;
    if (queries.rows > 0 && bytes != (encoding_ == Encoding::bytes))
      fail(ErrorCode::invalid_argument, cat("corpus holds ", bytes ? "code points" : "bytes", ", query side ",
                                            bytes ? "bytes" : "code points", "; give both alike"));
    Alphabet alphabet;
    const std::vector<std::int64_t> lengths = alphabet.read(queries, "query", rules_.max_length, thread_pool);
    const StringSet set(queries, lengths, alphabet, thread_pool);
    std::vector<std::uint32_t> ours(static_cast<std::size_t>(alphabet.size()) + 1, 0);
    for (std::uint32_t code = 1; code < ours.size(); ++code) ours[code] = alphabet_.find(alphabet.symbol(code));
    std::vector<Asked> asked(lengths.size());
    for (std::int64_t at = 0; at < set.count(); ++at) {
      Asked& query = asked[static_cast<std::size_t>(set.row(at))];
      if (metric_ == Metric::hamming && set_.count() > 0 && set.length(at) != set_.longest())
        fail(ErrorCode::invalid_argument,
             cat("hamming compares strings of one length; query string ", set.row(at), " has ", set.length(at),
                 " symbols, corpus strings have ", set_.longest()));
      query.codes.resize(static_cast<std::size_t>(set.length(at)));
      set.with_codes(at, [&](const auto* codes) {
        for (std::size_t i = 0; i < query.codes.size(); ++i) query.codes[i] = ours[codes[i]];
      });
      if (metric_ == Metric::jaccard) find_tokens(tokens_of(set, at, alphabet, encoding_, rules_.ngram), ours, query);
    }
    return std::make_unique<StringQueries>(*this, std::move(asked));
  }

  StringList list(const std::vector<std::int64_t>* ids) const override {
    const std::int64_t rows = ids != nullptr ? static_cast<std::int64_t>(ids->size()) : count();
    auto text = std::make_shared<std::string>();
    std::vector<std::int64_t> offsets{0};
    offsets.reserve(static_cast<std::size_t>(rows) + 1);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = position(ids != nullptr ? (*ids)[static_cast<std::size_t>(i)] : i);
      set_.with_codes(at, [&](const auto* codes) {
        for (std::int64_t c = 0; c < set_.length(at); ++c) {
          const std::uint32_t symbol = alphabet_.symbol(codes[c]);
          encoding_ == Encoding::bytes ? void(*text += static_cast<char>(symbol)) : append_utf8(*text, symbol);
        }
      });
      offsets.push_back(static_cast<std::int64_t>(text->size()));
    }
    return {text->data(), std::move(offsets), encoding_, text};
  }

  std::int64_t evaluator_bytes() const noexcept override {
    const std::int64_t longest = set_.longest(), words = (longest + 63) / 64;
    return (alphabet() + 1) * 4 + longest * 4 + words * 8 * (std::min(longest, alphabet()) + 3);
  }

  double exact_seconds(const std::vector<std::int64_t>& ids, std::int64_t k, const Execution& run,
                       const Budget& memory) const override {
    const StringList all = list(nullptr), queries = list(&ids);
    const Neighbors found = vicinal::knn(all.view(), queries.view(),
                                         {.k = k, .metric = metric_, .strings = rules_, .memory = memory, .run = run});
    return (found.stats.seconds - found.stats.prepare_seconds) / static_cast<double>(ids.size());
  }

  std::int64_t position(std::int64_t row) const noexcept { return places_[static_cast<std::size_t>(row)]; }
  const StringSet& set() const noexcept { return set_; }
  const Lists& tokens() const noexcept { return tokens_; }
  Metric metric() const noexcept { return metric_; }
  std::int64_t alphabet() const noexcept { return alphabet_.size(); }

 private:
  void number_tokens() {
    for (std::int64_t row = 0; row < count(); ++row) {
      const auto first = static_cast<std::ptrdiff_t>(tokens_.numbers.size());
      for (Token& token : tokens_of(set_, position(row), alphabet_, encoding_, rules_.ngram))
        tokens_.numbers.push_back(
            numbers_.try_emplace(std::move(token), static_cast<std::uint32_t>(numbers_.size())).first->second);
      std::sort(tokens_.numbers.begin() + first, tokens_.numbers.end());
      tokens_.offsets.push_back(static_cast<std::int64_t>(tokens_.numbers.size()));
    }
  }
  void find_tokens(const std::vector<Token>& tokens, const std::vector<std::uint32_t>& ours, Asked& query) const {
    query.token_count = static_cast<std::int64_t>(tokens.size());
    for (Token token : tokens) {
      for (char32_t& code : token) code = ours[code];
      const auto known = numbers_.find(token);
      if (known != numbers_.end()) query.tokens.push_back(known->second);
    }
    std::sort(query.tokens.begin(), query.tokens.end());
  }

  Metric metric_;
  StringRules rules_;
  Encoding encoding_;
  TrueDistance true_distance_;
  Alphabet alphabet_;
  StringSet set_;
  std::vector<std::int64_t> places_;  // [row]
  std::unordered_map<Token, std::uint32_t> numbers_;
  Lists tokens_;  // jaccard: of each row, sorted
};

StringEvaluator::StringEvaluator(const OwnedStrings& objects, const std::vector<Asked>& asked)
    : objects_(objects), asked_(asked), pattern_(objects.alphabet()) {}

void StringEvaluator::start(std::int64_t query) {
  query_ = &asked_[static_cast<std::size_t>(query)];
  if (objects_.metric() != Metric::jaccard && objects_.metric() != Metric::hamming) pattern_.set(query_->codes);
}

double StringEvaluator::jaccard(std::int64_t object) const {
  const Lists& all = objects_.tokens();
  const std::int64_t first = all.offsets[static_cast<std::size_t>(object)],
                     last = all.offsets[static_cast<std::size_t>(object) + 1];
  std::int64_t shared = 0;
  auto mine = query_->tokens.begin();
  for (auto i = all.numbers.begin() + first; i != all.numbers.begin() + last && mine != query_->tokens.end();) {
    if (*i == *mine) ++shared, ++i, ++mine;
    else if (*i < *mine) ++i;
    else ++mine;
  }
  const std::int64_t either = query_->token_count + (last - first) - shared;
  return either == 0 ? 0.0 : static_cast<double>(either - shared) / static_cast<double>(either);
}

std::int64_t StringEvaluator::edits(std::int64_t at) {
  return objects_.set().with_codes(at, [&](const auto* codes) {
    const std::int64_t length = objects_.set().length(at);
    if (objects_.metric() != Metric::hamming) return pattern_.edits(codes, length);
    std::int64_t differing = 0;
    for (std::int64_t i = 0; i < length; ++i) differing += codes[i] != query_->codes[static_cast<std::size_t>(i)];
    return differing;
  });
}

void StringEvaluator::measure(const std::uint32_t* objects, std::int64_t count, double* values) {
  const auto letters = static_cast<std::int64_t>(query_->codes.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = objects_.position(objects[i]);
    values[i] = objects_.metric() == Metric::jaccard
                    ? jaccard(objects[i])
                    : string_value(objects_.metric(), edits(at), letters, objects_.set().length(at));
  }
}

}  // namespace

std::unique_ptr<StringObjects> open_strings(const Strings& strings, Metric metric, const StringRules& rules,
                                            ThreadPool& thread_pool) {
  return std::make_unique<OwnedStrings>(strings, metric, rules, thread_pool);
}

}  // namespace vicinal::cpu
