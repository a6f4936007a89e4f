// One string against others, a pair at a time: the bit-parallel programme of Myers
// with the query as the pattern, for candidates that come from anywhere. (Searches
// hold many words against a letter at once: src/cpu/strings/myers.hpp. Same numbers.)
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace vicinal::cpu {

class Pattern {
 public:
  /// Codes of texts are 1 to `alphabet`; those of patterns may be 0, which equals nothing.
  explicit Pattern(std::int64_t alphabet) : slots_(static_cast<std::size_t>(alphabet) + 1, 0) {}

  void set(const std::vector<std::uint32_t>& codes) {
    for (const std::uint32_t code : codes_) slots_[code] = 0;
    codes_ = codes;
    words_ = (codes.size() + 63) / 64;
    masks_.assign(words_, 0);  // slot 0: symbols that the pattern has not
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (codes[i] == 0) continue;
      std::uint32_t& slot = slots_[codes[i]];
      if (slot == 0) {
        slot = static_cast<std::uint32_t>(masks_.size() / words_);
        masks_.resize(masks_.size() + words_, 0);
      }
      masks_[slot * words_ + i / 64] |= std::uint64_t{1} << (i % 64);
    }
    vertical_.resize(2 * words_);
  }

  template <class Code>
  std::int64_t edits(const Code* text, std::int64_t length) {
    if (codes_.empty()) return length;
    return words_ == 1 ? one_word(text, length) : many_words(text, length);
  }

 private:
  template <class Code>
  std::int64_t one_word(const Code* text, std::int64_t length) const {
    std::uint64_t plus = ~std::uint64_t{0}, minus = 0;
    const int last = static_cast<int>(codes_.size()) - 1;
    std::int64_t edits = static_cast<std::int64_t>(codes_.size());
    for (std::int64_t i = 0; i < length; ++i) {
      const std::uint64_t equal = masks_[slots_[text[i]]];
      const std::uint64_t xv = equal | minus, xh = (((equal & plus) + plus) ^ plus) | equal;
      std::uint64_t ph = minus | ~(xh | plus), mh = plus & xh;
      edits += static_cast<std::int64_t>(ph >> last & 1) - static_cast<std::int64_t>(mh >> last & 1);
      ph = ph << 1 | 1;
      mh <<= 1;
      plus = mh | ~(xv | ph);
      minus = ph & xv;
    }
    return edits;
  }

  template <class Code>
  std::int64_t many_words(const Code* text, std::int64_t length) {
    std::fill_n(vertical_.begin(), words_, ~std::uint64_t{0});
    std::fill_n(vertical_.begin() + static_cast<std::ptrdiff_t>(words_), words_, std::uint64_t{0});
    std::uint64_t* const plus = vertical_.data();
    std::uint64_t* const minus = plus + words_;
    const int last = static_cast<int>((codes_.size() - 1) % 64);
    std::int64_t edits = static_cast<std::int64_t>(codes_.size());
    for (std::int64_t i = 0; i < length; ++i) {
      const std::uint64_t* const equals = masks_.data() + slots_[text[i]] * words_;
      std::uint64_t plus_in = 1, minus_in = 0;  // the row above the word
      for (std::size_t w = 0; w < words_; ++w) {
        const std::uint64_t xv = equals[w] | minus[w], equal = equals[w] | minus_in;
        const std::uint64_t xh = (((equal & plus[w]) + plus[w]) ^ plus[w]) | equal;
        std::uint64_t ph = minus[w] | ~(xh | plus[w]), mh = plus[w] & xh;
        if (w + 1 == words_)
          edits += static_cast<std::int64_t>(ph >> last & 1) - static_cast<std::int64_t>(mh >> last & 1);
        const std::uint64_t plus_out = ph >> 63, minus_out = mh >> 63;
        ph = ph << 1 | plus_in;
        mh = mh << 1 | minus_in;
        plus[w] = mh | ~(xv | ph);
        minus[w] = ph & xv;
        plus_in = plus_out;
        minus_in = minus_out;
      }
    }
    return edits;
  }

  std::vector<std::uint32_t> slots_, codes_;
  std::vector<std::uint64_t> masks_, vertical_;
  std::size_t words_ = 0;
};

}  // namespace vicinal::cpu
