// See certify.hpp.
#include "pipeline/certify.hpp"

#include <limits>
#include <mutex>

#include "core/key.hpp"
#include "core/metric.hpp"

namespace vicinal {
namespace {

bool proved(const NeighborsView& out, const SearchSpec& spec, std::int64_t row, double verified_radius,
            std::int64_t found) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  // -inf marks a query that was given up: its row of `out` was not written, and must not be read.
  if (verified_radius == -infinite) return false;
  if (verified_radius == infinite && found == unknown_count)
    return true;  // nothing was left out, as a device says of most
  const std::int64_t needed = needed_rows(spec, row);
  // A bound says what was left out of what was seen; it cannot say that rows were never looked at. Their number can.
  if (found != unknown_count && (found != needed || (out.counts != nullptr && out.counts[row] != found))) return false;
  if (verified_radius == infinite || needed == 0) return true;
  return load_key(out.distances, out.type, descending(spec.metric), row * out.k + needed - 1) <= verified_radius;
}

}  // namespace

std::vector<std::int64_t> certify(const NeighborsView& out, const SearchSpec& spec, const QueryRows& rows,
                                  const BoundsView& bounds, ThreadPool& thread_pool) {
  constexpr std::int64_t queries_at_once = 1 << 14;
  std::vector<std::int64_t> unproved;
  std::mutex mutex;  // of these
  thread_pool.for_runs(std::ssize(rows), queries_at_once, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> left;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      if (!proved(out, spec, rows[i], bounds.verified_radius[i],
                  bounds.found == nullptr ? unknown_count : bounds.found[i]))
        left.push_back(rows[i]);
    if (left.empty()) return;
    const std::lock_guard lock(mutex);
    unproved.insert(unproved.end(), left.begin(), left.end());
  });
  return unproved;
}

}  // namespace vicinal
