// See warping.hpp.
#if defined(__x86_64__)
#include "core/measures/dtw.hpp"
#include "cpu/permutation/warping.hpp"

namespace vicinal::cpu {

constinit const Warping warping_avx512 = {warped_avx512, measures::dtw<warped_avx512>};

}  // namespace vicinal::cpu
#endif
