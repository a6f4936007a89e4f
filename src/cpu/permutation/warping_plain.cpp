// See warping.hpp.
#include "core/measures/dtw.hpp"
#include "cpu/permutation/warping.hpp"

namespace vicinal::cpu {

constinit const Warping warping_plain = {warped_plain, measures::dtw<warped_plain>};

}  // namespace vicinal::cpu
