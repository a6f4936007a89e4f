// Results of a batch on their way to the caller. rows: those of the results that the batch's queries are.
#pragma once
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "backend/search.hpp"
#include "core/parallel.hpp"
#include "cuda/device/device.hpp"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

/// Rows in each answer: ids come first, then -1. Answers that lie on the device are counted there (infinite_keys).
inline void count_found(const NeighborsView& out, const QueryRows& rows, bool on_device, std::int64_t* found,
                        ThreadPool& thread_pool) {
  constexpr std::int64_t answers_at_once = 1 << 14;
  thread_pool.for_runs(
      static_cast<std::int64_t>(rows.size()), answers_at_once, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          const std::int64_t* const ids = out.ids + rows[i] * out.k;
          found[i] = on_device ? unknown_count
                               : std::partition_point(ids, ids + out.k, [](std::int64_t id) { return id >= 0; }) - ids;
        }
      });
}

/// What of the counters is in the statistics already: they grow from batch to batch of a session.
class NotedCounters {
 public:
  /// Returns how many queries have been missed since.
  std::int64_t note(const Counters& counters, Stats& stats) {
    add(stats.candidates, counters.passed, noted_.passed);
    add(stats.reranked, counters.ranked, noted_.ranked);
    add(stats.underflowed, counters.underflowed, noted_.underflowed);
    std::int64_t missed = 0;
    add(missed, counters.missed, noted_.missed);
    return missed;
  }

 private:
  static void add(std::int64_t& to, unsigned long long now, unsigned long long& noted) {
    to += static_cast<std::int64_t>(now - std::exchange(noted, now));
  }
  Counters noted_ = {};
};

/// Those of some values that are the mark, in this order, so that queries of one size stay side by side.
inline std::vector<std::int64_t> marked(std::span<const double> values, double mark,
                                        std::span<const std::uint32_t> order) {
  std::vector<std::int64_t> which;
  for (const std::uint32_t i : order)
    if (values[i] == mark) which.push_back(i);
  return which;
}

/// Dense rows on the device to those of the host's memory, `size` bytes each; rows that follow one another by one copy.
/// All that was launched is done.
template <DeviceRuntime Device>
void rows_out(Device& device, const QueryRows& rows, void* to, const void* from, std::int64_t size,
              ThreadPool& thread_pool) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = rows.adjacent() ? rows.size() : i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    device.results_out(out + rows[i] * size, in + static_cast<std::int64_t>(i) * size,
                       static_cast<std::int64_t>(end - i) * size, thread_pool);
    i = end;
  }
}

}  // namespace vicinal::cuda
