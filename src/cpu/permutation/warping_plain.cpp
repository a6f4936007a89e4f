// See warping.hpp.
#include "core/measures/dtw.hpp"
#include "cpu/isa/other_tables.hpp"
#include "cpu/permutation/warping.hpp"

namespace vicinal::cpu {

constexpr Warping warping_plain = {warped_plain, measures::dtw<warped_plain>};
static_assert(warping_plain.complete());

}  // namespace vicinal::cpu
