// See warping.hpp.
#if defined(__x86_64__)
#include "core/measures/dtw.hpp"
#include "cpu/permutation/warping.hpp"

namespace vicinal::cpu {

constinit const Warping warping_avx2 = {warped_avx2, measures::dtw<warped_avx2>};

}  // namespace vicinal::cpu
#endif
