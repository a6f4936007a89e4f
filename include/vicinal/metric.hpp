// The metrics by name. src/core/metric.def has one line for each; docs/semantics.md gives the formulas.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace vicinal {

enum class Metric : std::uint8_t {
  sqeuclidean,    // sum of (q - r)^2
  euclidean,      // its square root
  cosine,         // 1 - q.r / sqrt(q.q r.r), in [0, 2]
  correlation,    // cosine of the rows after their own mean is taken away
  inner_product,  // q.r, larger is nearer
  l1,             // sum of |q - r|; also cityblock, manhattan
  linf,           // largest |q - r|; also chebyshev
  hamming,      // differing bits of packed rows (u8, eight bits a byte); of strings of one length, differing positions
  levenshtein,  // strings from here on: insertions, deletions and substitutions, at cost 1 each
  normalized_levenshtein,  // 2 L / (|a| + |b| + L) of that number L, a metric in [0, 1]
  jaccard,                 // 1 - |A and B| / |A or B| of the sets of tokens
  // Of histograms and series from here on, searched by PermutationIndex alone.
  jensen_shannon,    // square root, natural logarithm
  kullback_leibler,  // of a row from the query, sum x ln(x / q)
  hellinger,         // with the factor 1 / sqrt 2
  emd,               // earth mover's distance on a line, of equal mass
  dtw                // dynamic time warping of series of one length
};

struct MetricInfo {
  Metric metric;
  std::string_view name;
  std::span<const std::string_view> aliases;
  bool descending;  // true when a larger value is nearer
  std::string_view formula;
  bool vectors;  // compares rows of numbers
  bool strings;  // compares strings; neither: rows of numbers, by PermutationIndex alone
};

/// Every metric, in the order in which they are listed to users.
std::span<const MetricInfo> metrics() noexcept;
const MetricInfo& metric_info(Metric metric) noexcept;
/// By name or alias. Throws InvalidArgument that names the nearest known one and lists all.
Metric parse_metric(std::string_view name);
/// The same for a call that takes only metrics of one sort (&MetricInfo::vectors, &MetricInfo::strings): of an unknown
/// name the error says those alone. Another sort's name is parsed; the call refuses it with its own reason.
Metric parse_metric(std::string_view name, bool MetricInfo::*sort);

}  // namespace vicinal
