// Human-readable forms; nothing here is meant to be parsed (that is what --json is for).
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cli {

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x8000) != 0 ? -value : value;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes) < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::ptrdiff_t first = count < 0 ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string seconds_text(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string percent_text(double share) { return fmt::format("{:.3g} %", 100 * share); }

std::string plural(std::int64_t count, const std::string& word) {
  if (count == 1) return "1 " + word;
  const std::string several = word.ends_with('y')    ? word.substr(0, word.size() - 1) + "ies"
                              : word.ends_with("ch") ? word + "es"
                                                     : word + "s";
  return count_text(count) + " " + several;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string quoted_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  return !text.empty() && text.find_first_not_of(plain) == std::string::npos ? text : quoted(text);
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += c == 0 ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("  {:>{}}", row[c], widths[c]);
    }
    text += line + "\n";
  }
  return text;
}

std::string facts_text(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::size_t width = 0;
  for (const auto& fact : facts) width = std::max(width, fact.first.size());
  std::string text;
  for (const auto& fact : facts) text += fmt::format("{:<{}}  {}\n", fact.first, width, fact.second);
  return text;
}

std::string neighbors_text(const vicinal::Neighbors& result, std::int64_t queries, std::int64_t nearest) {
  queries = std::min(queries, result.rows());
  nearest = std::min(nearest, result.k());
  const bool whole = result.type() == vicinal::DistanceType::u32;
  std::vector<std::vector<std::string>> rows(1, {"query"});
  for (std::int64_t rank = 0; rank < nearest; ++rank) {
    rows[0].push_back(rank == 0 ? "nearest id" : "id");
    rows[0].push_back("distance");
  }
  for (std::int64_t query = 0; query < queries; ++query) {
    std::vector<std::string> row = {std::to_string(query)};
    for (std::int64_t rank = 0; rank < nearest; ++rank) {
      const std::int64_t id = result.id(query, rank);
      row.push_back(id < 0 ? "-" : std::to_string(id));
      const double distance = result.distance(query, rank);
      row.push_back(whole ? fmt::format("{:.0f}", distance) : fmt::format("{:#.6g}", distance));
    }
    rows.push_back(std::move(row));
  }
  std::string text = table_text(rows);
  const std::int64_t more_queries = result.rows() - queries, more_ranks = result.k() - nearest;
  if (more_queries > 0) text += "and " + plural(more_queries, "query") + " more";
  if (more_ranks > 0) {
    text += (more_queries > 0 ? "; " : "and ") + plural(more_ranks, "neighbour") + " more a query";
  }
  return more_queries > 0 || more_ranks > 0 ? text + "\n" : text;
}

std::string certificate_text(const vicinal::Certificate& certificate) {
  if (certificate.queries == 0) return "certified exact: nothing was asked";
  const std::string first = certificate.precisions.empty() ? "the first precision" : certificate.precisions.front();
  std::string text = fmt::format("certified exact: {} of {} proved by {}", count_text(certificate.proven),
                                 plural(certificate.queries, "query"), first);
  if (certificate.redone > 0)
    text += fmt::format(", {} certified at a finer precision", count_text(certificate.redone));
  return text;
}

}  // namespace cli
