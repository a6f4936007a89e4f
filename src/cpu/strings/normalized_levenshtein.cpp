// normalized_levenshtein: 2 L / (|a| + |b| + L) of the edits L, a metric between 0 and 1 (Yujian and Liu 2007).
#include "cpu/strings/scanner.hpp"

namespace vicinal::cpu {

const StringMetric normalized_levenshtein = {Metric::normalized_levenshtein, open_edits, edits_bytes};

}  // namespace vicinal::cpu
