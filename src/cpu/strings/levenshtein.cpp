// levenshtein: the fewest insertions, deletions and substitutions of a symbol that make one string the other.
#include "cpu/strings/scanner.hpp"

namespace vicinal::cpu {

const StringMetric levenshtein = {Metric::levenshtein, open_edits, edits_bytes};

}  // namespace vicinal::cpu
