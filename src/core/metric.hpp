// What the library itself needs to know of a metric beyond the public table.
#pragma once
#include <string>
#include <vector>

#include "core/both.hpp"
#include "vicinal/metric.hpp"

namespace vicinal {

/// How a low-precision filter can test this metric.
enum class Form : unsigned char { l2, unit_l2, ip, l1, linf, exact, strings, indexed };

Form form_of(Metric metric) noexcept;

/// Of those for which the fact holds: &MetricInfo::vectors, &MetricInfo::strings.
std::vector<std::string> metric_names(bool MetricInfo::*fact);

/// Distances are counts, returned as u32.
VICINAL_HOST_DEVICE inline bool counts(Metric metric) noexcept { return metric == Metric::hamming || metric == Metric::levenshtein; }

/// Rows are divided by their norm, so a zero (or constant) row has no distance.
VICINAL_HOST_DEVICE inline bool needs_norms(Metric metric) noexcept { return metric == Metric::cosine || metric == Metric::correlation; }
VICINAL_HOST_DEVICE inline bool descending(Metric metric) noexcept { return metric == Metric::inner_product; }

}  // namespace vicinal
