// MATCH on a device, its host's part: images go there once, pairs are taken in batches, and matches come back sorted.
// Two batches are queued, so that the device has work while the host makes matches of one.
#pragma once
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/match.hpp"
#include "core/buffer.hpp"
#include "core/divide.hpp"
#include "core/text.hpp"
#include "cuda/device/device.hpp"
#include "cuda/match/best_two.cuh"
#include "cuda/match/decide.cuh"
#include "cuda/match/pack.cuh"
#include "prepare/byte_rows.hpp"

namespace vicinal::cuda {

/// Bytes of a row on the device.
inline std::int64_t match_width(const ByteMatching& matching) { return rounded_up(matching.columns, match_slab); }

/// An image on the device.
template <class Device>
class MatchBuffers {
 public:
  MatchBuffers(Device& device, const Points& points, const ByteMatching& matching)
      : width_(match_width(matching)), bytes_(device, padded_rows_of(points.rows) * width_),
        terms_(device, padded_rows_of(points.rows)), rows_(points.rows) {
    const auto size = static_cast<std::int64_t>(dtype_size(points.dtype));
    const DeviceBuffer<std::byte, Device> dense(device, points.rows * points.cols * size);
    device.rows_in(dense.data(), points);
    const MatchPack pack{.rows = dense.data(),
                         .columns = points.cols,
                         .width = width_,
                         .form = matching.form,
                         .kind = matching.kind,
                         .image = image()};
    device.launch()(std::min<std::int64_t>((padded_rows() + 7) / 8, 1 << 14), match_pack_threads, 0, match_pack, pack);
  }
  MatchImage image() const { return {bytes_.data(), terms_.data(), rows_, padded_rows()}; }
  std::int64_t padded_rows() const { return padded_rows_of(rows_); }

  static std::int64_t padded_rows_of(std::int64_t rows) { return rounded_up(rows, match_padding); }
  static std::int64_t bytes(std::int64_t rows, const ByteMatching& matching) {
    return padded_rows_of(rows) * (match_width(matching) + 4);
  }

 private:
  std::int64_t width_;
  DeviceBuffer<std::int8_t, Device> bytes_;
  DeviceBuffer<std::int32_t, Device> terms_;
  std::int64_t rows_;
};

template <class Device>
class MatchSearch {
 public:
  /// budget: bytes for images; batch_bytes: for what is known of the rows of pairs that are matched at a time.
  MatchSearch(Device& device, const MatchSpec& spec, const ByteMatching& matching, ThreadPool& thread_pool,
              std::int64_t multiprocessors, std::int64_t budget, std::int64_t batch_bytes)
      : device_(device), spec_(spec), matching_(matching), thread_pool_(thread_pool), multiprocessors_(multiprocessors),
        batch_bytes_(batch_bytes), images_(spec.images.size()),
        waves_(
            spec, [&](std::int64_t image) { return Buffers::bytes(rows(image), matching_); }, budget) {}

  void run(const MatchAnswer& answer) {
    for (auto pairs = waves_.next(); !pairs.empty(); pairs = waves_.next()) {
      for (std::size_t i = 0; i < images_.size(); ++i) {
        if (!waves_.wanted(i)) images_[i].clear();
        else if (images_[i].empty()) images_[i].emplace_back(device_, spec_.images[i], matching_);
        thread_pool_.poll(0);
      }
      std::unique_ptr<Batch> now = start(pairs, 0);
      for (int slot = 1; now; slot = 1 - slot) {
        std::unique_ptr<Batch> next = start(pairs, slot);
        fetch(*now, 1 - slot);
        give(*now, answer);
        now = std::move(next);
      }
    }
  }

 private:
  using Buffers = MatchBuffers<Device>;
  static constexpr std::size_t most_pairs = 4096;

  std::int64_t rows(std::int64_t image) const { return spec_.images[static_cast<std::size_t>(image)].rows; }
  static std::int64_t blocks_of(std::int64_t rows) { return divide_up(rows, match_block); }
  std::int64_t bytes_of(const ImagePair& pair) const {
    const std::int64_t a = Buffers::padded_rows_of(rows(pair[0])), b = Buffers::padded_rows_of(rows(pair[1]));
    return a * static_cast<std::int64_t>(sizeof(GroupBest) + 2 * sizeof(MatchedRow)) +
           blocks_of(rows(pair[0])) * b * static_cast<std::int64_t>(sizeof(GroupBest));
  }

  /// Pairs that are matched together, and what of them is on the device.
  struct Batch {
    explicit Batch(Device& device)
        : of_rows(device), of_columns(device), matched(device), found(device), all_pairs(device), all_units(device),
          counts(device) {}

    std::span<const std::int64_t> numbers;
    std::vector<MatchPair> pairs;
    std::vector<MatchUnit> units;
    std::uint64_t work = 0;
    MatchArgs args;
    DeviceBuffer<GroupBest, Device> of_rows, of_columns;
    DeviceBuffer<MatchedRow, Device> matched, found;
    DeviceBuffer<MatchPair, Device> all_pairs;
    DeviceBuffer<MatchUnit, Device> all_units;
    DeviceBuffer<std::uint32_t, Device> counts;
  };

  /// Queues the next batch of `pairs`, which it takes away; null where there are none. The host waits for nothing.
  std::unique_ptr<Batch> start(std::span<const std::int64_t>& pairs, int slot) {
    if (pairs.empty()) return nullptr;
    std::size_t count = 0;
    for (std::int64_t bytes = 0; count < pairs.size() && count < most_pairs; ++count) {
      bytes += bytes_of(spec_.pairs[static_cast<std::size_t>(pairs[count])]);
      if (count > 0 && bytes > batch_bytes_) break;
    }
    auto batch = std::make_unique<Batch>(device_);
    batch->numbers = pairs.first(count);
    pairs = pairs.subspan(count);
    reserve_results(*batch);
    const MatchArgs& args = batch->args;
    const bool one_slab = args.width == match_slab;
    const auto kernel = one_slab ? matching_.doubled() ? match_best_two<true, true> : match_best_two<true, false>
                        : matching_.doubled() ? match_best_two<false, true>
                                              : match_best_two<false, false>;
    device_.launch()(std::min(args.unit_count, match_blocks * multiprocessors_), match_threads,
                     match_memory(args.width).all, kernel, args);
    device_.launch()(std::min<std::int64_t>(args.unit_count, 1 << 20), match_decide_threads, 0, match_decide, args);
    device_.launch()(std::min<std::int64_t>(args.pair_count, 1 << 20), match_decide_threads, 0, match_collect, args);
    device_.mark(slot);
    return batch;
  }

  /// Takes memory for the results of each pair, and lists the units of work.
  void reserve_results(Batch& batch) {
    std::int64_t rows_on_device = 0, columns_on_device = 0;
    for (const std::int64_t number : batch.numbers) {
      const auto [a, b] = spec_.pairs[static_cast<std::size_t>(number)];
      const auto blocks = static_cast<std::int32_t>(blocks_of(rows(a)));
      for (std::int32_t block = 0; block < blocks; ++block)
        batch.units.push_back({static_cast<std::int32_t>(batch.pairs.size()), block});
      batch.pairs.push_back(
          {images_[static_cast<std::size_t>(a)][0].image(), images_[static_cast<std::size_t>(b)][0].image()});
      rows_on_device += batch.pairs.back().a.padded_rows;
      columns_on_device += blocks * batch.pairs.back().b.padded_rows;
      batch.work += static_cast<std::uint64_t>(rows(a)) * static_cast<std::uint64_t>(rows(b));
    }
    GroupBest *row = batch.of_rows.reserve(rows_on_device), *column = batch.of_columns.reserve(columns_on_device);
    MatchedRow* matched = batch.matched.reserve(rows_on_device);
    for (MatchPair& pair : batch.pairs) {
      pair.rows = std::exchange(row, row + pair.a.padded_rows);
      pair.matched = std::exchange(matched, matched + pair.a.padded_rows);
      pair.columns = std::exchange(column, column + blocks_of(pair.a.rows) * pair.b.padded_rows);
    }

    // What the kernels read, there.
    const auto count = static_cast<std::int64_t>(batch.pairs.size()),
               unit_count = static_cast<std::int64_t>(batch.units.size());
    batch.args = {.pairs = batch.all_pairs.reserve(count),
                  .pair_count = count,
                  .units = batch.all_units.reserve(unit_count),
                  .unit_count = unit_count,
                  .width = match_width(matching_),
                  .kind = matching_.kind,
                  .rule = spec_.rule,
                  .mutual = spec_.mutual,
                  .counts = batch.counts.reserve(count),
                  .found = batch.found.reserve(rows_on_device)};
    in_at_once(batch.all_pairs, batch.pairs);
    in_at_once(batch.all_units, batch.units);
    device_.zero(batch.args.counts, batch.counts.bytes());
  }

  template <class T>
  void in_at_once(const DeviceBuffer<T, Device>& to, const std::vector<T>& from) {
    device_.in_at_once(reinterpret_cast<std::byte*>(to.data()), reinterpret_cast<const std::byte*>(from.data()),
                       static_cast<std::int64_t>(from.size() * sizeof(T)));
  }

  /// Waits for a batch and brings its matches here, while the device works for the next.
  void fetch(const Batch& batch, int slot) {
    const std::int64_t count = batch.args.pair_count;
    std::vector<std::uint32_t> counts(batch.pairs.size());
    device_.out_beside(slot, counts.data(), batch.args.counts,
                       count * static_cast<std::int64_t>(sizeof(std::uint32_t)));
    counts_.assign(counts.begin(), counts.end());
    std::int64_t all = 0;
    for (const std::int64_t of_pair : counts_) all += of_pair;
    if (found_.size() < all) found_ = Buffer<MatchedRow>(all + all / 4);
    device_.out_beside(slot, found_.data(), batch.args.found, all * static_cast<std::int64_t>(sizeof(MatchedRow)));
  }

  void give(const Batch& batch, const MatchAnswer& answer) {
    const MatchPlaces places = answer(batch.numbers, counts_);
    std::vector<std::int64_t> offsets(counts_.size());
    std::exclusive_scan(counts_.begin(), counts_.end(), offsets.begin(), std::int64_t{0});
    thread_pool_.for_each(batch.args.pair_count, [&](std::int64_t p, int) {
      const auto pair = static_cast<std::size_t>(p);
      for (std::int64_t at = offsets[pair]; at < offsets[pair] + counts_[pair]; ++at)
        places.put(at, match_of(found_[at], batch.pairs[pair]));
    });
    thread_pool_.poll(batch.work);
  }

  /// Distances and ratios, as the host has them.
  FoundMatch match_of(const MatchedRow& row, const MatchPair& pair) const {
    const MatchRule& rule = spec_.rule;
    const double best = key_of(matching_.kind, row.best);
    double ratio = rule.ratio_of({row.j, best, key_of(matching_.kind, row.second_a)}, pair.b.rows);
    if (spec_.mutual == Mutual::tested)
      ratio = std::max(ratio, rule.ratio_of({row.i, best, key_of(matching_.kind, row.second_b)}, pair.a.rows));
    return {row.i, row.j, rule.distance(best), ratio};
  }

  Device& device_;
  const MatchSpec& spec_;
  const ByteMatching& matching_;
  ThreadPool& thread_pool_;
  std::int64_t multiprocessors_, batch_bytes_;
  std::vector<std::vector<Buffers>> images_;  // [image] one, or none
  PairWaves waves_;
  std::vector<std::int64_t> counts_;  // of the batch that was fetched last, matches a pair
  Buffer<MatchedRow> found_;          // its matches
};

}  // namespace vicinal::cuda
