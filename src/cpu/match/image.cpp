// See image.hpp. With a row's bytes r, a query's q - 128 as signed bytes and acc the sum of their products:
//   q.r = acc + 128 sum r      -(q - r)^2 = 2 acc + (256 sum r - r.r) - q.q
#include "cpu/match/image.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace vicinal::cpu {
namespace {

/// Sums of products and terms stay within 32 bits.
constexpr std::int64_t most_columns = 16384;
/// Of an absent row or query; two of them are the least score.
constexpr std::int32_t absent_term = -(1 << 30);

template <class T>
T element(const Points& points, std::int64_t row, std::int64_t column) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(points.data) + row * points.row_stride + column * points.col_stride,
              sizeof value);
  return value;
}

bool whole_bytes(const Points& points) {
  if (points.dtype != DType::f32 || points.byte_swapped) return false;
  for (std::int64_t i = 0; i < points.rows; ++i)
    for (std::int64_t c = 0; c < points.cols; ++c)
      if (const auto x = element<float>(points, i, c); !(x >= 0 && x <= 255 && x == std::floor(x))) return false;
  return true;
}

/// The bytes of one row, zeros up to a whole quad.
void read_row(const Points& points, std::int64_t row, ByteForm form, std::vector<std::uint8_t>& bytes) {
  for (std::int64_t c = 0; c < points.cols; ++c) {
    switch (form) {
      case ByteForm::plain: bytes[static_cast<std::size_t>(c)] = element<std::uint8_t>(points, row, c); break;
      case ByteForm::shifted:
        bytes[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(element<std::int8_t>(points, row, c) + 128);
        break;
      case ByteForm::bits:
        for (int bit = 0; bit < 8; ++bit)
          bytes[static_cast<std::size_t>(8 * c + bit)] = element<std::uint8_t>(points, row, c) >> bit & 1;
        break;
      case ByteForm::rounded:
        bytes[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(element<float>(points, row, c));
        break;
    }
  }
}

std::int64_t panels_of(std::int64_t rows, std::int64_t lanes) noexcept { return (rows + lanes - 1) / lanes; }

/// A quad of a query in its panel: four signed bytes in a word, or two words of 16-bit numbers.
void put_query(std::int32_t* to, const std::int8_t* quad, QueryLayout layout) {
  if (layout != QueryLayout::halves) {
    std::memcpy(to, quad, 4);
    return;
  }
  const std::int16_t even[] = {quad[0], quad[2]}, odd[] = {quad[1], quad[3]};
  std::memcpy(to, even, 4);
  std::memcpy(to + 1, odd, 4);
}

}  // namespace

double ByteMatching::key(std::int32_t score) const noexcept {
  const auto square = static_cast<double>(-std::int64_t{score});  // never -0
  switch (kind) {
    case ScoreKind::square: break;
    case ScoreKind::root: return std::sqrt(square);
    case ScoreKind::product: return score;
  }
  return square;
}

std::optional<ByteMatching> byte_matching(const MatchSpec& spec) {
  const auto all = [&](auto is) { return std::all_of(spec.images.begin(), spec.images.end(), is); };
  const auto all_of = [&](DType type) { return all([&](const Points& image) { return image.dtype == type; }); };
  ByteMatching matching;
  for (const Points& image : spec.images)
    if (image.rows > 0) matching.columns = image.cols;
  const bool squares = spec.metric == Metric::sqeuclidean || spec.metric == Metric::euclidean;
  if (spec.metric == Metric::hamming) {
    matching.form = ByteForm::bits;
    matching.columns *= 8;
  } else if (spec.rule.key == MatchKey::product) {
    matching.kind = ScoreKind::product;
  } else if (!squares) {
    return std::nullopt;
  } else if (all_of(DType::i8)) {
    matching.form = ByteForm::shifted;
  } else if (!all_of(DType::u8)) {
    if (!all(whole_bytes)) return std::nullopt;
    matching.form = ByteForm::rounded;
  }
  if (spec.metric == Metric::euclidean) matching.kind = ScoreKind::root;
  if (matching.columns > most_columns) return std::nullopt;
  return matching;
}

std::int64_t PackedImage::bytes(std::int64_t rows, const ByteMatching& matching, const BestTwoKernel& kernel) noexcept {
  const std::int64_t row_places = panels_of(rows, panel_rows) * panel_rows,
                     query_places = panels_of(rows, kernel.query_lanes) * kernel.query_lanes;
  return 4 * (row_places * (matching.quads() + 1) + query_places * (query_width(kernel.layout, matching.quads()) + 1));
}

PackedImage::PackedImage(const Points& points, const ByteMatching& matching, const BestTwoKernel& kernel)
    : rows(points.rows), row_panels(panels_of(rows, panel_rows)), query_panels(panels_of(rows, kernel.query_lanes)) {
  const std::int64_t quads = matching.quads(), lanes = kernel.query_lanes, words = query_width(kernel.layout, 1);
  panels = Buffer<std::int32_t>(row_panels * panel_rows * quads);
  queries = Buffer<std::int32_t>(query_panels * lanes * quads * words);
  row_term = Buffer<std::int32_t>(row_panels * panel_rows);
  query_term = Buffer<std::int32_t>(query_panels * lanes);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(4 * quads));
  std::vector<std::int8_t> lowered(bytes.size());
  for (std::int64_t i = 0; i < std::max(row_panels * panel_rows, query_panels * lanes); ++i) {
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
    if (i < rows) read_row(points, i, matching.form, bytes);
    std::int32_t sum = 0, square = 0;
    for (std::size_t c = 0; c < bytes.size(); ++c) {
      sum += bytes[c];
      square += bytes[c] * bytes[c];
      lowered[c] = static_cast<std::int8_t>(bytes[c] - 128);
    }
    const std::int32_t absent = i < rows || !matching.doubled() ? 0 : absent_term;
    if (i < row_panels * panel_rows) {
      row_term[i] = absent + (matching.doubled() ? 256 * sum - square : 128 * sum);
      for (std::int64_t k = 0; k < quads; ++k)
        std::memcpy(&panels[(i / panel_rows * quads + k) * panel_rows + i % panel_rows],
                    &bytes[static_cast<std::size_t>(4 * k)], 4);
    }
    if (i < query_panels * lanes) {
      query_term[i] = absent - (matching.doubled() ? square : 0);
      for (std::int64_t k = 0; k < quads; ++k)
        put_query(&queries[((i / lanes * quads + k) * lanes + i % lanes) * words],
                  &lowered[static_cast<std::size_t>(4 * k)], kernel.layout);
    }
  }
}

}  // namespace vicinal::cpu
