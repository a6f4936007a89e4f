// See byte_rows.hpp.
#include "prepare/byte_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/text.hpp"

namespace vicinal {
namespace {

bool whole_bytes(const Points& points) {
  if (points.dtype != DType::f32 || points.byte_swapped) return false;
  for (std::int64_t i = 0; i < points.rows; ++i) {
    const auto* row = static_cast<const std::byte*>(points.data) + i * points.row_stride;
    for (std::int64_t c = 0; c < points.cols; ++c) {
      float x;
      std::memcpy(&x, row + c * points.col_stride, sizeof x);
      if (!(x >= 0 && x <= 255 && x == std::floor(x))) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<ByteMatching> byte_matching(const MatchSpec& spec, bool read) {
  const auto all = [&](auto is) {  // that have rows
    return std::all_of(spec.images.begin(), spec.images.end(),
                       [&](const Points& image) { return image.rows == 0 || is(image); });
  };
  const auto all_of = [&](DType type) { return all([&](const Points& image) { return image.dtype == type; }); };
  ByteMatching matching;
  for (const Points& image : spec.images)
    if (image.rows > 0) matching.columns = image.cols;
  if (spec.metric == Metric::hamming) {
    matching.form = ByteForm::bits;
    matching.columns *= 8;
  } else if (spec.rule.key == MatchKey::product) {
    matching.kind = ScoreKind::product;
  } else if (spec.metric != Metric::sqeuclidean && spec.metric != Metric::euclidean) {
    return std::nullopt;
  } else if (all_of(DType::i8)) {
    matching.form = ByteForm::shifted;
  } else if (!all_of(DType::u8)) {
    if (!read || !all(whole_bytes)) return std::nullopt;
    matching.form = ByteForm::rounded;
  }
  if (spec.metric == Metric::euclidean) matching.kind = ScoreKind::root;
  if (matching.columns > most_byte_columns) return std::nullopt;
  return matching;
}

PairWaves::PairWaves(const MatchSpec& spec, std::function<std::int64_t(std::int64_t)> bytes, std::int64_t budget)
    : spec_(spec), bytes_(std::move(bytes)), budget_(budget), wanted_(spec.images.size()) {
  std::int64_t all = 0, largest = 1;
  const auto rows = [&](std::int64_t image) { return spec.images[static_cast<std::size_t>(image)].rows; };
  for (std::size_t p = 0; p < spec.pairs.size(); ++p) {
    if (rows(spec.pairs[p][0]) == 0 || rows(spec.pairs[p][1]) == 0) continue;
    order_.push_back(static_cast<std::int64_t>(p));
    for (const std::int64_t image : spec.pairs[p]) {
      if (!wanted_[static_cast<std::size_t>(image)]) all += bytes_(image);
      wanted_[static_cast<std::size_t>(image)] = true;
      largest = std::max(largest, bytes_(image));
    }
  }
  if (all <= budget) return;
  // Neighbours in the order share their images: squares of the table of pairs, of half the budget a side.
  const std::int64_t side = std::max<std::int64_t>(budget / 2 / largest, 1);
  const auto square = [&](std::int64_t p) {
    const auto [a, b] = spec.pairs[static_cast<std::size_t>(p)];
    return std::pair(a / side, b / side);
  };
  std::stable_sort(order_.begin(), order_.end(), [&](std::int64_t p, std::int64_t q) { return square(p) < square(q); });
}

std::span<const std::int64_t> PairWaves::next() {
  std::fill(wanted_.begin(), wanted_.end(), false);
  std::int64_t total = 0;
  const std::size_t first = done_;
  for (; done_ < order_.size(); ++done_) {
    const auto [a, b] = spec_.pairs[static_cast<std::size_t>(order_[done_])];
    std::int64_t more = wanted_[static_cast<std::size_t>(a)] ? 0 : bytes_(a);
    if (b != a && !wanted_[static_cast<std::size_t>(b)]) more += bytes_(b);
    if (total + more > budget_ && done_ == first)
      fail(ErrorCode::memory_budget,
           cat("images ", a, " and ", b, " together need ", bytes_text(more), ", the budget is ", bytes_text(budget_)));
    if (total + more > budget_) break;
    total += more;
    wanted_[static_cast<std::size_t>(a)] = wanted_[static_cast<std::size_t>(b)] = true;
  }
  return {order_.data() + first, done_ - first};
}

}  // namespace vicinal
