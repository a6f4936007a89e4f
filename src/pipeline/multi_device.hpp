// Searches of vectors by several devices: each device searches its share as it would alone, and what they found is put
// together.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/divide.hpp"
#include "pipeline/searches.hpp"

namespace vicinal {

/// Each of these does what the call of the same name does for one device. `devices` are two or more, of device_names().
/// Throws besides DeviceError for rows or results in memory of a device, and Unsupported for a stream.
Report knn_on_devices(const NeighborsView& out, const Points& corpus, const Prepared& prepared, const Points& queries,
                      const KnnOptions& options, const std::vector<std::string>& devices);
Neighbors graph_on_devices(const Points& rows, const Prepared& prepared, const GraphOptions& options,
                           const std::vector<std::string>& devices);
CsrNeighbors range_on_devices(const Points& corpus, const Prepared& prepared, const Points& queries, double radius,
                              const RangeOptions& options, const std::vector<std::string>& devices);
Prepared prepare_on_devices(const Points& rows, const CorpusOptions& options, const std::vector<std::string>& devices);

/// Throws DeviceError for a device that is not here, and Unsupported for a stream.
void check_devices(const std::vector<std::string>& devices, const void* stream);
/// The same, and DeviceError for rows in memory of a device.
void check_sides(const Points& corpus, const Points& queries, const KnnOptions& options,
                 const std::vector<std::string>& devices);

/// A Share says how the work is divided: by rows of the corpus, whose lists are merged, or by queries.
struct Share {
  bool by_rows = true;
  std::int64_t rows = 0, queries = 0;  // that a device has, but for the last ones
};
/// kept: the corpus is prepared on each device.
Share share_of(const Shape& corpus, const Shape& queries, const KnnOptions& options, bool kept,
               const std::vector<std::string>& devices);
/// Device i's part of `count` rows or queries, of which each has `share`; empty where those before it have them all.
struct DevicePart {
  std::int64_t first, count;
};
inline DevicePart part_of_device(std::size_t device, std::int64_t share, std::int64_t count) {
  const std::int64_t first = std::min(static_cast<std::int64_t>(device) * share, count);
  return {first, std::min(share, count - first)};
}
/// It returns the share of each device where `count` rows or queries are divided evenly; 1 at least.
inline std::int64_t even_share(std::int64_t count, const std::vector<std::string>& devices) {
  const auto parts = static_cast<std::int64_t>(devices.size());
  return std::max<std::int64_t>(divide_up(count, parts), 1);
}
/// It returns the threads of the host for one device's share, of those that were asked for.
int device_threads(int asked, const std::vector<std::string>& devices);
/// It returns the options of one device's share: its name, threads, and memory.
KnnOptions device_options(KnnOptions options, const std::vector<std::string>& devices, std::size_t device);
/// It says in a plan that queries are divided.
std::string by_queries_note(const std::vector<std::string>& devices, std::int64_t share, std::int64_t queries);
/// It makes the plan of one device's share, which `planner` makes of these shapes and options, the plan of all. data:
/// of the corpus, or null.
using SharePlanner = std::function<Plan(const Shape& corpus, const Shape& queries, const KnnOptions& options)>;
Plan plan_of_devices(const Shape& corpus, const Shape& queries, const KnnOptions& options, const Share& share,
                     const std::vector<std::string>& devices, const void* data, const SharePlanner& planner);

}  // namespace vicinal
