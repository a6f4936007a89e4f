// See match_guide.hpp.
#include "pipeline/match_guide.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/text.hpp"

namespace vicinal {
namespace {

using Place = MatchGuide::Place;

constexpr std::int64_t first_list = 64, list_growth = 8;
constexpr std::int64_t entries_at_once = std::int64_t{1} << 23;  // of lists: 128 MiB

/// Whether two places may be a match. What is infinite or no number is none.
class Allowed {
 public:
  Allowed(const MatchGuide& guide, bool back) : guide_(guide), back_(back) {}

  bool operator()(std::int64_t asked, std::int64_t row) const {
    const Place &a = guide_.a[static_cast<std::size_t>(back_ ? row : asked)],
                &b = guide_.b[static_cast<std::size_t>(back_ ? asked : row)];
    const double most = guide_.max_error * guide_.max_error;
    switch (guide_.by) {
      case MatchGuide::By::places: return true;
      case MatchGuide::By::homography: return transfer_error(a, b) <= most;
      case MatchGuide::By::fundamental: return sampson_error(a, b) <= most;
    }
    return false;
  }
  /// Whether a second best counts beside this best.
  bool apart(std::int64_t best, std::int64_t second) const {
    if (guide_.apart == 0) return true;
    const std::span<const Place> places = back_ ? guide_.a : guide_.b;
    const Place &one = places[static_cast<std::size_t>(best)], &other = places[static_cast<std::size_t>(second)];
    return square(one[0] - other[0]) + square(one[1] - other[1]) >= square(guide_.apart);
  }

 private:
  static double square(double x) { return x * x; }
  double row(int number, const Place& place) const {
    const double* const m = guide_.matrix.data() + 3 * number;
    return m[0] * place[0] + m[1] * place[1] + m[2];
  }
  double column(int number, const Place& place) const {
    const double* const m = guide_.matrix.data() + number;
    return m[0] * place[0] + m[3] * place[1] + m[6];
  }
  /// Squared pixels from H a to b.
  double transfer_error(const Place& a, const Place& b) const {
    const double depth = row(2, a);
    return square(row(0, a) / depth - b[0]) + square(row(1, a) / depth - b[1]);
  }
  /// (b^T F a)^2 over the squared gradients of it by both places (Hartley and Zisserman 2004, 11.4.3).
  double sampson_error(const Place& a, const Place& b) const {
    const double x = row(0, a), y = row(1, a), product = b[0] * x + b[1] * y + row(2, a);
    return square(product) / (square(x) + square(y) + square(column(0, b)) + square(column(1, b)));
  }

  const MatchGuide& guide_;
  bool back_;
};

/// These rows, side by side in memory of their own.
struct RowsOf {
  std::vector<std::byte> bytes;
  Points points;

  RowsOf(const Points& source, std::span<const std::int64_t> rows) {
    const auto size = static_cast<std::int64_t>(dtype_size(source.dtype));
    bytes.resize(rows.size() * static_cast<std::size_t>(source.cols * size));
    std::byte* to = bytes.data();
    for (const std::int64_t row : rows) {
      const auto* from = static_cast<const std::byte*>(source.data) + row * source.row_stride;
      for (std::int64_t col = 0; col < source.cols; ++col, to += size)
        std::memcpy(to, from + col * source.col_stride, static_cast<std::size_t>(size));
    }
    points = Points(bytes.data(), source.dtype, std::ssize(rows), source.cols);
    points.byte_swapped = source.byte_swapped;
  }
};

/// Reads one list; true when it tells best and second, or is complete.
bool read_list(const Neighbors& found, std::int64_t line, std::int64_t asked, const Allowed& allowed, std::int64_t rows,
               BestTwo& best) {
  const std::int64_t k = std::min(found.k(), rows);
  best = {-1, 0, std::numeric_limits<double>::quiet_NaN()};
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t row = found.id(line, i);
    if (!allowed(asked, row)) continue;
    if (best.id < 0) {
      best.id = row;
      best.best = found.distance(line, i);
    } else if (allowed.apart(best.id, row)) {
      best.second = found.distance(line, i);
      return true;
    }
  }
  return k == rows;
}

[[noreturn]] void refuse(std::size_t pair, const std::string& what) {
  fail(ErrorCode::invalid_argument, cat("guide ", pair, ": ", what));
}

}  // namespace

void check_guides(std::span<const MatchGuide> guides, std::span<const Points> images,
                  std::span<const ImagePair> pairs) {
  if (guides.empty()) return;
  if (guides.size() != pairs.size())
    fail(ErrorCode::invalid_argument, cat(guides.size(), " guides for ", pairs.size(), " pairs; give one a pair"));
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const MatchGuide& guide = guides[p];
    for (int side = 0; side < 2; ++side) {
      const std::span<const Place> places = side == 0 ? guide.a : guide.b;
      const std::int64_t rows = images[static_cast<std::size_t>(pairs[p][static_cast<std::size_t>(side)])].rows;
      if (std::ssize(places) != rows)
        refuse(p, cat(places.size(), " places for the ", rows, " rows of image ",
                      pairs[p][static_cast<std::size_t>(side)]));
      for (const Place& place : places)
        if (!std::isfinite(place[0]) || !std::isfinite(place[1]))
          refuse(p, cat("place ", &place - places.data(), " of image ", pairs[p][static_cast<std::size_t>(side)],
                        " is no number"));
    }
    if (!(guide.max_error > 0)) refuse(p, cat("max_error must be > 0 pixels, got ", guide.max_error));
    if (!(guide.apart >= 0)) refuse(p, cat("apart must be >= 0 pixels, got ", guide.apart));
    for (const double value : guide.matrix)
      if (!std::isfinite(value)) refuse(p, cat("a value of the matrix is ", value));
  }
}

std::vector<BestTwo> guided_best_two(const Points& asked, std::int64_t rows, const MatchGuide& guide, bool back,
                                     const NearestRows& nearest) {
  const Allowed allowed(guide, back);
  std::vector<BestTwo> best(static_cast<std::size_t>(asked.rows));
  std::vector<std::int64_t> left(best.size());
  std::iota(left.begin(), left.end(), 0);
  for (std::int64_t k = std::min(first_list, rows); !left.empty(); k = std::min(k * list_growth, rows)) {
    std::vector<std::int64_t> again;
    const auto step = static_cast<std::size_t>(std::max<std::int64_t>(1, entries_at_once / k));
    for (std::size_t first = 0; first < left.size(); first += step) {
      const auto part = std::span(left).subspan(first, std::min(step, left.size() - first));
      const RowsOf copied(asked, part);
      const Neighbors found = nearest(copied.points, k);
      for (std::size_t i = 0; i < part.size(); ++i)
        if (!read_list(found, static_cast<std::int64_t>(i), part[i], allowed, rows,
                       best[static_cast<std::size_t>(part[i])]))
          again.push_back(part[i]);
    }
    left = std::move(again);
  }
  return best;
}

}  // namespace vicinal
