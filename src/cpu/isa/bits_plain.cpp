// Counts of differing bits as the loop that defines them (bits.hpp),
// for any CPU; the vector files are tested against this one.
#include "cpu/isa/bits.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 4;

/// The ones of a word, in steps that a compiler makes vectors of: pairs of bits, nibbles, bytes.
constexpr std::int32_t ones(std::uint32_t x) noexcept {
  x -= x >> 1 & 0x55555555U;
  x = (x & 0x33333333U) + (x >> 2 & 0x33333333U);
  x = (x + (x >> 4)) & 0x0F0F0F0FU;
  x += x >> 8;
  return static_cast<std::int32_t>((x + (x >> 16)) & 63);
}

void tile(const BitTileArgs& a) {
  for (int query = 0; query < a.query_count; ++query) {
    const int lane = query % query_lanes, first = query - lane;
    const int lanes = a.query_count - first < query_lanes ? a.query_count - first : query_lanes;
    const std::int32_t* q = a.queries + first * a.words + lane;
    for (int panel = 0; panel < a.row_panels; ++panel) {
      const std::int32_t* r = a.rows + panel * a.words * panel_rows;
      std::int32_t counts[panel_rows] = {};
      for (std::int64_t k = 0; k < a.words; ++k) {
        const std::int32_t word = q[k * lanes];
        for (int j = 0; j < panel_rows; ++j)
          counts[j] += ones(static_cast<std::uint32_t>(word ^ r[k * panel_rows + j]));
      }
      std::uint32_t rows = 0;
      for (int j = 0; j < panel_rows; ++j) rows |= static_cast<std::uint32_t>(counts[j] <= a.thresholds[query]) << j;
      if (rows != 0) a.on_hit(a.context, query, panel, rows, counts);
    }
  }
}

bool supported() { return true; }

}  // namespace

constexpr BitKernels bits_plain = {"plain", supported, query_lanes, tile};
static_assert(bits_plain.complete());

}  // namespace vicinal::cpu
