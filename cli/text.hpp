// Numbers for people, and tables of aligned columns.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vicinal/neighbors.hpp"

namespace cli {

double half_value(std::uint16_t bits);                            // an IEEE half, exactly
std::string bytes_text(std::int64_t bytes);                       // "93.1 MiB"
std::string count_text(std::int64_t count);                       // "1,234,567"
std::string seconds_text(double seconds);                         // "0.42 s", "3 min 20 s"
std::string percent_text(double share);                           // "12.5 %"
std::string plural(std::int64_t count, const std::string& word);  // "1 row", "2 rows", "2 queries"

/// Text between single quotes for a POSIX shell and fish alike: a quote ends, escapes itself, begins again.
std::string quoted(const std::string& text);
/// The same where a shell would not take the text as one word.
std::string quoted_word(const std::string& text);

/// Rows of cells, each column as wide as its widest cell; the first is left-aligned, the rest right.
std::string table_text(const std::vector<std::vector<std::string>>& rows);
/// "name   value" lines.
std::string facts_text(const std::vector<std::pair<std::string, std::string>>& facts);

/// The first few queries and the nearest few of each.
std::string neighbors_text(const vicinal::Neighbors& result, std::int64_t queries, std::int64_t nearest);
/// One line on why the answer is exact.
std::string certificate_text(const vicinal::Certificate& certificate);

}  // namespace cli
