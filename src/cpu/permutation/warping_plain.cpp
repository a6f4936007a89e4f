// See warping.hpp.
#include "core/measures/dtw.hpp"
#include "cpu/permutation/warping.hpp"

namespace vicinal::cpu {

constinit const Warping warping_plain = {warped_plain, measures::dtw<warped_plain>};

const Warping& warping_beside(const Kernels& kernels) noexcept {
#if defined(__x86_64__)
  if (&kernels == &kernels_avx512) return warping_avx512;
  if (&kernels == &kernels_avx2) return warping_avx2;
#endif
  return warping_plain;
}

}  // namespace vicinal::cpu
