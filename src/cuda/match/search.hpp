// MATCH on a device, its host's part: images go there once, pairs are taken in batches, and matches come back sorted.
#pragma once
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "backend/match.hpp"
#include "core/text.hpp"
#include "cuda/device/device.hpp"
#include "cuda/match/best_two.cuh"
#include "cuda/match/decide.cuh"
#include "cuda/match/pack.cuh"
#include "prepare/byte_rows.hpp"

namespace vicinal::cuda {

/// Bytes of a row on the device.
inline std::int64_t match_width(const ByteMatching& matching) {
  return (matching.columns + match_slab - 1) / match_slab * match_slab;
}

/// An image on the device.
template <class Device>
class MatchBuffers {
 public:
  MatchBuffers(Device& device, const Points& points, const ByteMatching& matching)
      : width_(match_width(matching)), bytes_(device, places_of(points.rows) * width_),
        terms_(device, places_of(points.rows)), rows_(points.rows) {
    const auto size = static_cast<std::int64_t>(dtype_size(points.dtype));
    const DeviceBuffer<std::byte, Device> dense(device, points.rows * points.cols * size);
    device.rows_in(dense.data(), points);
    const MatchPack pack{.rows = dense.data(),
                         .columns = points.cols,
                         .width = width_,
                         .form = matching.form,
                         .kind = matching.kind,
                         .image = image()};
    device.launch()(std::min<std::int64_t>((places() + 7) / 8, 1 << 14), match_pack_threads, 0, match_pack, pack);
  }
  MatchImage image() const { return {bytes_.data(), terms_.data(), rows_, places()}; }
  std::int64_t places() const { return places_of(rows_); }

  static std::int64_t places_of(std::int64_t rows) { return (rows + match_places - 1) / match_places * match_places; }
  static std::int64_t bytes(std::int64_t rows, const ByteMatching& matching) {
    return places_of(rows) * (match_width(matching) + 4);
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
      // The host makes matches of one batch while the device works for the next.
      std::unique_ptr<Batch> now = start(pairs);
      while (now) {
        collect(*now);
        std::unique_ptr<Batch> next = start(pairs);
        fetch(*now);
        give(*now, answer);
        now = std::move(next);
      }
    }
  }

 private:
  using Buffers = MatchBuffers<Device>;
  static constexpr std::size_t most_pairs = 4096;

  std::int64_t rows(std::int64_t image) const { return spec_.images[static_cast<std::size_t>(image)].rows; }
  static std::int64_t blocks_of(std::int64_t rows) { return (rows + match_block - 1) / match_block; }
  std::int64_t bytes_of(const ImagePair& pair) const {
    const std::int64_t a = Buffers::places_of(rows(pair[0])), b = Buffers::places_of(rows(pair[1]));
    return a * static_cast<std::int64_t>(sizeof(GroupBest) + sizeof(MatchedRow)) +
           blocks_of(rows(pair[0])) * b * static_cast<std::int64_t>(sizeof(GroupBest));
  }

  /// Pairs that are matched together, and what of them is on the device.
  struct Batch {
    explicit Batch(Device& device)
        : of_rows(device), of_columns(device), matched(device), all_pairs(device), all_units(device), counts(device),
          offsets_there(device), found_there(device) {}

    std::span<const std::int64_t> numbers;
    std::vector<MatchPair> pairs;
    std::vector<MatchUnit> units;
    std::uint64_t work = 0;
    MatchArgs args;
    DeviceBuffer<GroupBest, Device> of_rows, of_columns;
    DeviceBuffer<MatchedRow, Device> matched;
    DeviceBuffer<MatchPair, Device> all_pairs;
    DeviceBuffer<MatchUnit, Device> all_units;
    DeviceBuffer<std::uint32_t, Device> counts;
    DeviceBuffer<std::int64_t, Device> offsets_there;
    DeviceBuffer<MatchedRow, Device> found_there;
    std::vector<std::int64_t> offsets;
    std::vector<MatchedRow> found;
  };

  /// Queues the next batch of `pairs`, which it takes away; null where there are none.
  std::unique_ptr<Batch> start(std::span<const std::int64_t>& pairs) {
    if (pairs.empty()) return nullptr;
    std::size_t count = 0;
    for (std::int64_t bytes = 0; count < pairs.size() && count < most_pairs; ++count) {
      bytes += bytes_of(spec_.pairs[static_cast<std::size_t>(pairs[count])]);
      if (count > 0 && bytes > batch_bytes_) break;
    }
    auto batch = std::make_unique<Batch>(device_);
    batch->numbers = pairs.first(count);
    pairs = pairs.subspan(count);
    make_places(*batch);
    const MatchArgs& args = batch->args;
    const bool one_slab = args.width == match_slab;
    const auto kernel = one_slab ? matching_.doubled() ? match_best_two<true, true> : match_best_two<true, false>
                        : matching_.doubled() ? match_best_two<false, true>
                                              : match_best_two<false, false>;
    device_.launch()(std::min(args.unit_count, match_blocks * multiprocessors_), match_threads,
                     match_memory(args.width).all, kernel, args);
    device_.launch()(std::min<std::int64_t>(args.unit_count, 1 << 20), match_decide_threads, 0, match_decide, args);
    return batch;
  }

  /// Where each pair's results are, and units of work.
  void make_places(Batch& batch) {
    std::int64_t rows_there = 0, columns_there = 0;
    for (const std::int64_t number : batch.numbers) {
      const auto [a, b] = spec_.pairs[static_cast<std::size_t>(number)];
      const auto blocks = static_cast<std::int32_t>(blocks_of(rows(a)));
      for (std::int32_t block = 0; block < blocks; ++block)
        batch.units.push_back({static_cast<std::int32_t>(batch.pairs.size()), block});
      batch.pairs.push_back(
          {images_[static_cast<std::size_t>(a)][0].image(), images_[static_cast<std::size_t>(b)][0].image()});
      rows_there += batch.pairs.back().a.places;
      columns_there += blocks * batch.pairs.back().b.places;
      batch.work += static_cast<std::uint64_t>(rows(a)) * static_cast<std::uint64_t>(rows(b));
    }
    GroupBest *row = batch.of_rows.reserve(rows_there), *column = batch.of_columns.reserve(columns_there);
    MatchedRow* matched = batch.matched.reserve(rows_there);
    for (MatchPair& pair : batch.pairs) {
      pair.rows = std::exchange(row, row + pair.a.places);
      pair.matched = std::exchange(matched, matched + pair.a.places);
      pair.columns = std::exchange(column, column + blocks_of(pair.a.rows) * pair.b.places);
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
                  .counts = batch.counts.reserve(count)};
    batch.all_pairs.in(batch.pairs.data(), count);
    batch.all_units.in(batch.units.data(), unit_count);
    device_.zero(batch.args.counts, batch.counts.bytes());
  }

  /// Waits for a batch and queues that its matches are put together; what else it had on the device is given back.
  void collect(Batch& batch) {
    const std::int64_t count = batch.args.pair_count;
    std::vector<std::uint32_t> counts(batch.pairs.size());
    batch.counts.out(counts.data(), count);
    device_.wait();
    batch.offsets.resize(counts.size() + 1);
    for (std::size_t p = 0; p < counts.size(); ++p) batch.offsets[p + 1] = batch.offsets[p] + counts[p];
    batch.args.offsets = batch.offsets_there.reserve(count);
    batch.args.found = batch.found_there.reserve(batch.offsets.back());
    batch.offsets_there.in(batch.offsets.data(), count);
    device_.launch()(std::min<std::int64_t>(count, 1 << 20), match_decide_threads, 0, match_collect, batch.args);
    device_.begin_out();
    batch.of_rows = DeviceBuffer<GroupBest, Device>(device_);
    batch.of_columns = DeviceBuffer<GroupBest, Device>(device_);
    batch.matched = DeviceBuffer<MatchedRow, Device>(device_);
  }

  /// Brings a batch's matches here, while the device works for the next.
  void fetch(Batch& batch) {
    batch.found.resize(static_cast<std::size_t>(batch.offsets.back()));
    device_.end_out(batch.found.data(), batch.args.found,
                    batch.offsets.back() * static_cast<std::int64_t>(sizeof(MatchedRow)));
  }

  void give(const Batch& batch, const MatchAnswer& answer) {
    thread_pool_.for_each(batch.args.pair_count, [&](std::int64_t p, int) {
      const auto at = static_cast<std::size_t>(p);
      const auto first = static_cast<std::size_t>(batch.offsets[at]),
                 last = static_cast<std::size_t>(batch.offsets[at + 1]);
      answer(batch.numbers[at], matches_of({batch.found.data() + first, last - first}, batch.pairs[at]));
    });
    thread_pool_.poll(batch.work);
  }

  /// Distances and ratios, as the host has them.
  std::vector<FoundMatch> matches_of(std::span<const MatchedRow> rows, const MatchPair& pair) const {
    std::vector<FoundMatch> matches;
    matches.reserve(rows.size());
    const MatchRule& rule = spec_.rule;
    for (const MatchedRow& row : rows) {
      const double best = key_of(matching_.kind, row.best);
      double ratio = rule.ratio_of({row.j, best, key_of(matching_.kind, row.second_a)}, pair.b.rows);
      if (spec_.mutual == Mutual::tested)
        ratio = std::max(ratio, rule.ratio_of({row.i, best, key_of(matching_.kind, row.second_b)}, pair.a.rows));
      matches.push_back({row.i, row.j, rule.distance(best), ratio});
    }
    return matches;
  }

  Device& device_;
  const MatchSpec& spec_;
  const ByteMatching& matching_;
  ThreadPool& thread_pool_;
  std::int64_t multiprocessors_, batch_bytes_;
  std::vector<std::vector<Buffers>> images_;  // [image] one, or none
  PairWaves waves_;
};

}  // namespace vicinal::cuda
