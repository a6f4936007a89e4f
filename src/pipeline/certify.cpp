// See certify.hpp.
#include "pipeline/certify.hpp"

#include <limits>

#include "core/key.hpp"
#include "core/metric.hpp"

namespace vicinal {

std::int64_t certify(const NeighborsView& out, std::int64_t eligible, Metric metric, std::span<const std::int64_t> rows,
             std::span<const double> settled, std::vector<bool>& redo) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (settled[i] == std::numeric_limits<double>::infinity()) continue;  // nothing was left out
    // -inf marks a query that was given up: its row of `out` was not written, and must not be read.
    const bool proved = settled[i] != -std::numeric_limits<double>::infinity() &&
                        load_key(out.distances, out.type, descending(metric), rows[i] * out.k + eligible - 1) <= settled[i];
    if (proved) continue;
    redo[static_cast<std::size_t>(rows[i])] = true;
    ++count;
  }
  return count;
}

}  // namespace vicinal
