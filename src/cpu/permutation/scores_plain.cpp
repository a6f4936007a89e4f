// See scores.hpp: the obvious loops.
#include <bit>
#include <cstring>

#include "cpu/isa/other_tables.hpp"
#include "cpu/permutation/scores.hpp"

namespace vicinal::cpu {
namespace {

template <class Term>
void sums(const ScoreArgs& a, const Term& term) {
  for (std::int64_t row = 0; row < a.count; ++row) {
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < a.stride; ++i) sum += term(int{a.query[i]} - int{a.rows[row * a.stride + i]});
    a.out[row] = sum;
  }
}

void footrule(const ScoreArgs& a) {
  sums(a, [](int d) { return static_cast<std::uint32_t>(d < 0 ? -d : d); });
}
void rho(const ScoreArgs& a) {
  sums(a, [](int d) { return static_cast<std::uint32_t>(d * d); });
}
void differing(const ScoreArgs& a) {
  for (std::int64_t row = 0; row < a.count; ++row) {
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < a.stride; i += 8) {
      std::uint64_t x, y;
      std::memcpy(&x, a.query + i, 8);
      std::memcpy(&y, a.rows + row * a.stride + i, 8);
      sum += static_cast<std::uint32_t>(std::popcount(x ^ y));
    }
    a.out[row] = sum;
  }
}
std::int64_t within(const WithinArgs& a) {
  std::int64_t found = 0;
  for (std::int64_t row = 0; row < a.count; ++row) {
    bool inside = true;
    for (std::int64_t i = 0; i < a.stride && inside; ++i)
      inside = static_cast<std::uint8_t>(a.rows[row * a.stride + i] - a.low[i]) <= a.width[i];
    if (inside) a.out[found++] = a.first + static_cast<std::uint32_t>(row);
  }
  return found;
}

}  // namespace

constexpr Scores scores_plain = {"plain", footrule, rho, differing, within};
static_assert(scores_plain.complete());

}  // namespace vicinal::cpu
