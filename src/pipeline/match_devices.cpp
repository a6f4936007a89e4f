// MATCH by several devices: each takes pairs that follow one another, about as much work as the others, and all images.
#include <cstring>
#include <optional>
#include <vector>

#include "core/text.hpp"
#include "pipeline/device_tasks.hpp"
#include "pipeline/match.hpp"
#include "pipeline/match_output.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/walk.hpp"

namespace vicinal {
namespace {

std::uint64_t work_of(std::span<const Points> images, const ImagePair& pair) {
  return static_cast<std::uint64_t>(images[static_cast<std::size_t>(pair[0])].rows) *
         static_cast<std::uint64_t>(images[static_cast<std::size_t>(pair[1])].rows);
}

/// Where the pairs of each device begin, and those of the last end.
std::vector<std::size_t> cuts_of(std::span<const Points> images, std::span<const ImagePair> pairs, std::size_t devices,
                                 std::uint64_t total) {
  std::vector<std::size_t> cuts{0};
  std::uint64_t work = 0;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    while (cuts.size() < devices && work >= total / devices * cuts.size()) cuts.push_back(p);
    work += work_of(images, pairs[p]);
  }
  cuts.resize(devices + 1, pairs.size());
  return cuts;
}

/// The options of one device's pairs.
MatchOptions own_options(const MatchOptions& options, const std::vector<std::string>& devices, std::size_t device) {
  const KnnOptions own = device_options({.memory = options.memory, .run = options.run}, devices, device);
  MatchOptions share = options;
  share.memory = own.memory;
  share.run = own.run;
  return share;
}

Matches joined_matches(const std::vector<Matches>& found, std::span<const std::size_t> cuts, MatchOutput& output,
                       int threads) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Matches& one = found[i];
    std::vector<std::int64_t> numbers, counts;
    for (std::size_t p = cuts[i]; p < cuts[i + 1]; ++p) {
      numbers.push_back(static_cast<std::int64_t>(p));
      counts.push_back(one.offsets[p - cuts[i] + 1] - one.offsets[p - cuts[i]]);
    }
    const MatchPlaces places = output.take(numbers, counts);
    ThreadPool thread_pool(threads, nullptr, {}, 0);
    thread_pool.for_each(std::ssize(numbers), [&](std::int64_t pair, int) {
      const auto p = static_cast<std::size_t>(pair), from = static_cast<std::size_t>(one.offsets[p]),
                 count = static_cast<std::size_t>(counts[p]), size = distance_size(places.type);
      if (count == 0) return;
      const MatchPlaces to = places.from(one.offsets[p]);
      std::memcpy(to.rows, one.rows.data() + from, count * sizeof *to.rows);
      std::memcpy(to.distances, static_cast<const std::byte*>(one.distances.data()) + from * size, count * size);
      std::memcpy(to.ratios, one.ratios.data() + from, count * sizeof *to.ratios);
    });
  }
  return output.finish(threads);
}

}  // namespace

Matches match_on_devices(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options,
                         const std::vector<std::string>& devices) {
  const double start = now_seconds();
  const KnnOptions search{.memory = options.memory, .run = options.run, .stream = options.stream};
  for (const Points& image : images) check_sides(image, image, search, devices);
  std::uint64_t total = 0;
  for (const ImagePair& pair : pairs) total += work_of(images, pair);
  const std::vector<std::size_t> cuts = cuts_of(images, pairs, devices.size(), total);
  std::vector<Matches> found(devices.size());
  DeviceTasks tasks(devices, options.progress, total);
  const auto match_one = [&](std::size_t i) {
    const std::size_t count = cuts[i + 1] - cuts[i];
    MatchOptions own = own_options(options, devices, i);
    own.progress = tasks.progress_of(i);
    std::optional<MatchGuide> guide;
    if (options.guide != nullptr) {
      guide = *options.guide;
      if (!guide->matrices.empty()) guide->matrices = guide->matrices.subspan(cuts[i], count);
      own.guide = &*guide;
    }
    found[i] = match_pairs(images, pairs.subspan(cuts[i], count), own);
  };
  try {
    tasks.run(match_one);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_value && error.code() != ErrorCode::range_error) throw;
    MatchOptions one = options;  // which says it of the first pair that it is true of
    one.run.device = devices.front();
    return match_pairs(images, pairs, one);
  }
  MatchOutput output({.images = images, .pairs = pairs, .rule = {}, .mutual = options.mutual},
                     match_kind(options.distance, images, pairs).type);
  Matches all = joined_matches(found, cuts, output, threads_for(options.run.threads));
  all.stats = found.front().stats;
  all.stats.device = joined(devices, ",");
  all.stats.pairs = static_cast<std::int64_t>(total);
  for (std::size_t i = 1; i < found.size(); ++i) all.stats.threads += found[i].stats.threads;
  all.stats.seconds = now_seconds() - start;
  if (options.progress) options.progress(total, total);
  return all;
}

}  // namespace vicinal
