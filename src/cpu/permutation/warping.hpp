// Dynamic time warping (core/measures/dtw.hpp) of one query and several rows side by side, as many as hide the wait of
// one for its last step: a table an instruction set. The bits are the same.
#pragma once
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

struct Warping {
  int rows;
  /// x: element j of row r at [j * rows + r]. costs: (cols + 1) * rows numbers of scratch. out: a distance a row.
  void (*warp)(const double* query, const double* x, std::int64_t cols, std::int64_t window, double* costs,
               double* out);

  consteval bool complete() const { return all_set(warp); }
};

// Numbers of rows differ, so that no two files make one function of the template.
inline constexpr int warped_plain = 16, warped_avx2 = 24, warped_avx512 = 32;

}  // namespace vicinal::cpu
