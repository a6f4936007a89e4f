// The tables of an instruction set that other folders define, by name alone, so that src/cpu/isa includes none of those
// folders: what a table holds is in the header that is named beside it.
#pragma once

namespace vicinal::cpu {

struct Scans;    // cpu/select/scan.hpp
struct Myers;    // cpu/strings/myers.hpp
struct Warping;  // cpu/permutation/warping.hpp
struct Scores;   // cpu/permutation/scores.hpp

extern const Scans scans_plain, scans_avx2, scans_avx512;
extern const Myers myers_plain, myers_avx2, myers_avx512;
extern const Warping warping_plain, warping_avx2, warping_avx512;
extern const Scores scores_plain, scores_avx2;

}  // namespace vicinal::cpu
