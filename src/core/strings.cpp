// See strings.hpp. Two passes over the input: one checks and numbers the symbols, one writes codes to their places.
#include "core/strings.hpp"

#include <algorithm>
#include <cstdio>
#include <new>
#include <numeric>

#include "core/divide.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

using Octets = const unsigned char*;

constexpr std::uint32_t no_symbol = UINT32_MAX, replacement = 0xFFFD;

/// The code point at `at`, which moves beyond it; no_symbol, and `at` stays, where there is none.
std::uint32_t next_code_point(Octets& at, Octets end) noexcept {
  const std::uint32_t lead = at[0];
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const int more = lead >= 0xC2 && lead < 0xE0   ? 1
                   : lead >= 0xE0 && lead < 0xF0 ? 2
                   : lead >= 0xF0 && lead < 0xF5 ? 3
                                                 : 0;
  if (more == 0 || end - at <= more) return no_symbol;
  std::uint32_t symbol = lead & (0x3Fu >> more);
  for (int i = 1; i <= more; ++i) {
    const std::uint32_t next = at[i];
    if ((next & 0xC0u) != 0x80) return no_symbol;
    symbol = symbol << 6 | (next & 0x3Fu);
  }
  constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  if (symbol < least[more] || symbol > 0x10FFFF || (symbol >> 11) == 0x1B) return no_symbol;
  at += more + 1;
  return symbol;
}

bool is_code_point(std::uint32_t symbol) noexcept { return symbol <= 0x10FFFF && (symbol >> 11) != 0x1B; }

/// Calls take(symbol) for each symbol of a string that was checked. What another thread has made invalid since is
/// U+FFFD.
template <class Take>
void for_each_symbol(const Strings& strings, std::int64_t row, const Take& take) {
  const std::int64_t first = strings.offsets[row], last = strings.offsets[row + 1];
  if (strings.encoding == Encoding::utf32) {
    const auto* at = static_cast<const std::uint32_t*>(strings.data);
    for (std::int64_t i = first; i < last; ++i) {
      const std::uint32_t symbol = at[i];
      take(is_code_point(symbol) ? symbol : replacement);
    }
    return;
  }
  const auto* const data = static_cast<Octets>(strings.data);
  if (strings.encoding == Encoding::bytes) {
    for (std::int64_t i = first; i < last; ++i) take(data[i]);
    return;
  }
  for (Octets at = data + first, end = data + last; at < end;) {
    const std::uint32_t symbol = next_code_point(at, end);
    at += symbol == no_symbol ? 1 : 0;
    take(symbol == no_symbol ? replacement : symbol);
  }
}

void check_units(const Strings& strings, std::int64_t row, const char* side) {
  const std::int64_t first = strings.offsets[row], last = strings.offsets[row + 1];
  if (strings.encoding == Encoding::utf32) {
    const auto* at = static_cast<const std::uint32_t*>(strings.data);
    for (std::int64_t i = first; i < last; ++i) {
      if (is_code_point(at[i])) continue;
      char hex[16];
      std::snprintf(hex, sizeof hex, "U+%04X", static_cast<unsigned>(at[i]));
      fail(ErrorCode::invalid_value,
           cat(side, " string ", row, " holds ", hex, ", which is no Unicode character; remove it, or compare bytes"));
    }
  } else if (strings.encoding == Encoding::utf8) {
    const std::int64_t bad =
        first_invalid_utf8({static_cast<const char*>(strings.data) + first, static_cast<std::size_t>(last - first)});
    if (bad >= 0)
      fail(ErrorCode::invalid_value,
           cat(side, " string ", row, ": invalid UTF-8 at byte ", bad, "; mend it, or compare bytes"));
  }
}

}  // namespace

std::int64_t first_invalid_utf8(std::string_view text) noexcept {
  const auto* const begin = reinterpret_cast<Octets>(text.data());
  const Octets end = begin + text.size();
  for (Octets at = begin; at < end;)
    if (next_code_point(at, end) == no_symbol) return at - begin;
  return -1;
}

StringList::StringList(std::span<const std::string_view> strings, Encoding encoding) try : encoding_(encoding) {
  const std::size_t unit = encoding == Encoding::utf32 ? 4 : 1;
  std::vector<std::int64_t> offsets{0};
  std::vector<char> joined;
  for (const std::string_view text : strings) {
    joined.insert(joined.end(), text.begin(), text.end());
    offsets.push_back(static_cast<std::int64_t>(joined.size() / unit));
  }
  auto kept = std::make_shared<const std::vector<char>>(std::move(joined));
  data_ = kept->data();
  keeper_ = std::move(kept);
  offsets_ = std::make_shared<const std::vector<std::int64_t>>(std::move(offsets));
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, cat("no memory to keep ", strings.size(), " strings; take fewer at a time"));
}

StringList::StringList(const void* data, std::vector<std::int64_t> offsets, Encoding encoding,
                       std::shared_ptr<const void> keeper)
    : data_(data), encoding_(encoding), offsets_(std::make_shared<const std::vector<std::int64_t>>(std::move(offsets))),
      keeper_(std::move(keeper)) {}

Strings StringList::view() const noexcept {
  if (offsets_ == nullptr || offsets_->empty()) return {.encoding = encoding_};
  return {data_, offsets_->data(), static_cast<std::int64_t>(offsets_->size()) - 1, encoding_, offsets_->back()};
}

void Alphabet::add(std::uint32_t symbol) {
  std::unique_ptr<Page>& page = pages_[symbol >> 8];
  if (!page) page = std::make_unique<Page>();
  std::uint32_t& code = (*page)[symbol & 255];
  if (code != 0) return;
  symbols_.push_back(symbol);
  code = static_cast<std::uint32_t>(symbols_.size());
}

void check_offsets(const Strings& strings, const char* side) {
  if (strings.rows < 0)
    fail(ErrorCode::invalid_argument, cat(side, " has a negative number of strings: ", strings.rows));
  if (strings.rows > 0 && strings.offsets == nullptr)
    fail(ErrorCode::invalid_argument, cat(side, " has ", strings.rows, " strings and no offsets"));
  for (std::int64_t row = 0; row < strings.rows; ++row) {
    const std::int64_t first = strings.offsets[row], last = strings.offsets[row + 1];
    if (first < 0 || last < first) {
      fail(ErrorCode::invalid_argument,
           cat(side, " string ", row, " ends before it begins: offsets ", first, " and ", last));
    }
    if (last > first && strings.data == nullptr)
      fail(ErrorCode::invalid_argument, cat(side, " string ", row, " has no data"));
    if (strings.units >= 0 && last > strings.units) {
      fail(ErrorCode::invalid_argument,
           cat(side, " string ", row, " ends at unit ", last, ", the data have ", strings.units));
    }
  }
}

std::vector<std::int64_t> Alphabet::read(const Strings& strings, const char* side, std::int64_t max_length,
                                         ThreadPool& thread_pool) {
  check_offsets(strings, side);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(strings.rows));
  std::array<bool, 128> seen{};
  for (std::int64_t row = 0; row < strings.rows; ++row) {
    check_units(strings, row, side);
    std::int64_t length = 0;
    for_each_symbol(strings, row, [&](std::uint32_t symbol) {
      ++length;
      if (symbol < seen.size()) {
        if (seen[symbol]) return;
        seen[symbol] = true;
      }
      add(symbol);
    });
    if (length > max_length)
      fail(ErrorCode::invalid_argument,
           cat(side, " string ", row, " has ", length, " symbols, the limit is ", max_length, "; raise max_length"));
    lengths[static_cast<std::size_t>(row)] = length;
    if (row % 1024 == 0) thread_pool.poll(0);
  }
  return lengths;
}

std::int64_t StringSet::bytes(const std::vector<std::int64_t>& lengths, std::int64_t alphabet) {
  const auto rows = static_cast<std::int64_t>(lengths.size());
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) * (alphabet < 256 ? 1 : 4) + 16 * (rows + 1);
}

StringSet::StringSet(const Strings& strings, const std::vector<std::int64_t>& lengths, const Alphabet& alphabet,
                     ThreadPool& thread_pool)
    : narrow_(alphabet.size() < 256), offsets_(strings.rows + 1), rows_(strings.rows) {
  const auto length_of = [&](std::int64_t row) { return lengths[static_cast<std::size_t>(row)]; };
  const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  if (longest < 4 * count()) {  // by counting: places of each length, then rows in turn
    std::vector<std::int64_t> next(static_cast<std::size_t>(longest) + 2, 0);
    for (const std::int64_t length : lengths) ++next[static_cast<std::size_t>(length) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (std::int64_t row = 0; row < count(); ++row) rows_[next[static_cast<std::size_t>(length_of(row))]++] = row;
  } else {
    std::iota(rows_.data(), rows_.data() + count(), std::int64_t{0});
    std::stable_sort(rows_.data(), rows_.data() + count(),
                     [&](std::int64_t a, std::int64_t b) { return length_of(a) < length_of(b); });
  }
  offsets_[0] = 0;
  for (std::int64_t at = 0; at < count(); ++at) offsets_[at + 1] = offsets_[at] + length_of(rows_[at]);
  narrow_ ? void(bytes_ = Buffer<std::uint8_t>(symbols())) : void(words_ = Buffer<std::uint32_t>(symbols()));
  constexpr std::int64_t at_once = 4096;
  // The code of symbols that were not there when the string was measured: another thread changed it.
  constexpr std::uint32_t any_code = 1;
  thread_pool.for_each(divide_up(count(), at_once), [&](std::int64_t piece, int) {
    for (std::int64_t at = piece * at_once; at < std::min(count(), (piece + 1) * at_once); ++at) {
      std::int64_t to = offsets_[at];
      const std::int64_t end = offsets_[at + 1];
      const auto put = [&](std::uint32_t code) {
        narrow_ ? void(bytes_[to] = static_cast<std::uint8_t>(code)) : void(words_[to] = code);
        ++to;
      };
      // Lengths and symbols are those of the first pass: where another thread has changed the data since, the codes of
      // the string are undefined, but they are as many as there is room for, and each is a code.
      for_each_symbol(strings, rows_[at], [&](std::uint32_t symbol) {
        if (to < end) put(std::max(alphabet.find(symbol), any_code));
      });
      while (to < end) put(any_code);
      if (at % 256 == 0) thread_pool.poll(0);
    }
  });
}

std::int64_t StringSet::first_of_length(std::int64_t length) const noexcept {
  const std::int64_t* const rows = rows_.data();
  return std::partition_point(rows, rows + count(),
                              [&](const std::int64_t& row) { return this->length(&row - rows) < length; }) -
         rows;
}

}  // namespace vicinal
