// A fixed permutation of [0, count), any prefix of which is spread evenly. A filter that visits tiles in this order
// needs no sample to start from, and rows sorted from far to near cost it little more than shuffled ones.
#pragma once
#include <cstdint>
#include <numeric>

namespace vicinal {

class VisitOrder {
 public:
  /// Steps by a number coprime to count, near the golden ratio of it.
  explicit VisitOrder(std::int64_t count) noexcept
      : count_(count), step_(static_cast<std::int64_t>(static_cast<double>(count) * 0.6180339887498949)) {
    if (step_ < 1) step_ = 1;
    while (std::gcd(step_, count_) != 1) ++step_;
  }
  std::int64_t at(std::int64_t i) const noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<std::int64_t>(static_cast<wide>(i) * static_cast<wide>(step_) % static_cast<wide>(count_));
  }

 private:
  std::int64_t count_, step_;
};

}  // namespace vicinal
