// See warping.hpp.
#if defined(__x86_64__)
#include "core/measures/dtw.hpp"
#include "cpu/isa/other_tables.hpp"
#include "cpu/permutation/warping.hpp"

namespace vicinal::cpu {

constexpr Warping warping_avx2 = {warped_avx2, measures::dtw<warped_avx2>};
static_assert(warping_avx2.complete());

}  // namespace vicinal::cpu
#endif
