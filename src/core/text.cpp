// Words for messages: see text.hpp.
#include "core/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace vicinal {

std::string bytes_text(std::int64_t bytes) {
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return cat(bytes, " bytes");
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", std::ceil(value * 10) / 10, units[unit]);
  return text;
}

namespace {
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j] ? 1 : 0)});
      diagonal = above;
    }
  }
  return row[b.size()];
}
}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = word.size() / 2 + 2;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(word, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += separator;
    out += word;
  }
  return out;
}

void refuse_name(const char* what, std::string_view name, const std::vector<std::string>& known) {
  refuse_name(what, name, nearest_name(name, known), cat("known: ", joined(known)));
}

void refuse_name(const char* what, std::string_view name, const std::string& meant, const std::string& all) {
  fail(ErrorCode::invalid_argument,
       cat("unknown ", what, " \"", name, "\"; ", meant.empty() ? "" : cat("did you mean \"", meant, "\"? "), all));
}

}  // namespace vicinal
