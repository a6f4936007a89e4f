// See warping.hpp.
#if defined(__x86_64__)
#include "core/measures/dtw.hpp"
#include "cpu/isa/other_tables.hpp"
#include "cpu/permutation/warping.hpp"

namespace vicinal::cpu {

constexpr Warping warping_avx512 = {warped_avx512, measures::dtw<warped_avx512>};
static_assert(warping_avx512.complete());

}  // namespace vicinal::cpu
#endif
