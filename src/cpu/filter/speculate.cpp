// See speculate.hpp.
#include "cpu/filter/speculate.hpp"

#include <algorithm>
#include <cmath>

namespace vicinal::cpu {
namespace {

constexpr double deviations = 5;  // of a binomial distribution, beyond what is expected of evenly spread rows
constexpr double rows_besides = 4;

}  // namespace

std::int64_t Speculation::rank() const noexcept {
  if (!active()) return k_;
  const double expected = seen_ * static_cast<double>(k_);
  return std::min(k_,
                  static_cast<std::int64_t>(expected + deviations * std::sqrt(expected * (1 - seen_)) + rows_besides));
}

double speculative_key_of_pool(Pool& pool, std::int64_t rank) noexcept {
  if (pool.count < rank) return infinite;
  pool.bring_nearest(rank);
  return pool.entries[rank - 1].key;
}

}  // namespace vicinal::cpu
