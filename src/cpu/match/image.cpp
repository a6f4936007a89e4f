// See image.hpp. With a row's bytes r, a query's q - 128 as signed bytes and acc the sum of their products:
//   q.r = acc + 128 sum r      -(q - r)^2 = 2 acc + (256 sum r - r.r) - q.q
#include "cpu/match/image.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/divide.hpp"

namespace vicinal::cpu {
namespace {

template <class T>
T element(const Points& points, std::int64_t row, std::int64_t column) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(points.data) + row * points.row_stride + column * points.col_stride,
              sizeof value);
  return value;
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

std::int64_t panels_of(std::int64_t rows, std::int64_t lanes) noexcept { return divide_up(rows, lanes); }

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

std::int64_t PackedImage::bytes(std::int64_t rows, const ByteMatching& matching, const MatchKernel& kernel) noexcept {
  const std::int64_t padded_rows = panels_of(rows, panel_rows) * panel_rows,
                     padded_queries = panels_of(rows, kernel.query_lanes) * kernel.query_lanes;
  return 4 * (padded_rows * (quads_of(matching) + 1) +
              padded_queries * (query_width(kernel.layout, quads_of(matching)) + 1));
}

PackedImage::PackedImage(const Points& points, const ByteMatching& matching, const MatchKernel& kernel)
    : rows(points.rows), row_panels(panels_of(rows, panel_rows)), query_panels(panels_of(rows, kernel.query_lanes)) {
  const std::int64_t quads = quads_of(matching), lanes = kernel.query_lanes, words = query_width(kernel.layout, 1);
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
