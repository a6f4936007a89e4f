// Quotients are rounded up here, for counts of blocks, tiles and pieces.
#pragma once
#include "core/both.hpp"

namespace vicinal {

/// divide_up(10, 4) = 3
template <class Count, class Size>
VICINAL_HOST_DEVICE constexpr auto divide_up(Count count, Size size) noexcept {
  return (count + size - 1) / size;
}
/// rounded_up(10, 4) = 12
template <class Count, class Size>
VICINAL_HOST_DEVICE constexpr auto rounded_up(Count count, Size size) noexcept {
  return divide_up(count, size) * size;
}

}  // namespace vicinal
