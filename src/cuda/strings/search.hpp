// The host's part of a search of strings on a device sends strings there,
// runs queries in batches, and searches again where lists were too long.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/strings.hpp"
#include "core/text.hpp"
#include "cuda/device/device.hpp"
#include "cuda/strings/sequence.hpp"

namespace vicinal::cuda {

/// One side on the device.
template <class Device>
class StringsBuffers {
 public:
  StringsBuffers(Device& device, const StringSet& set)
      : count_(set.count()), codes_(device, set.symbols()), offsets_(device, count_ + 1), rows_(device, count_) {
    std::vector<std::uint32_t> rows(static_cast<std::size_t>(count_));
    for (std::int64_t at = 0; at < count_; ++at)
      rows[static_cast<std::size_t>(at)] = static_cast<std::uint32_t>(set.row(at));
    if (set.symbols() > 0) codes_.in(set.bytes_at(0), set.symbols());
    offsets_.in(set.offsets(), count_ + 1);
    rows_.in(rows.data(), count_);
    device.wait();
  }
  /// Strings [first, first + count) of it.
  CodedStrings part(std::int64_t first, std::int64_t count) const {
    return {codes_.data(), offsets_.data() + first, rows_.data() + first, count};
  }

 private:
  std::int64_t count_;
  DeviceBuffer<std::uint8_t, Device> codes_;
  DeviceBuffer<std::int64_t, Device> offsets_;
  DeviceBuffer<std::uint32_t, Device> rows_;
};

/// What of the spec the kernels take: all of it, its shorter queries, or nothing.
inline StringShare share_of_strings(const StringSearchSpec& spec) {
  const std::int64_t all = spec.queries.count();
  if (spec.metric != Metric::levenshtein) return {0, std::string(metric_info(spec.metric).name)};
  if (!spec.filter.all() && !spec.filter.only_self()) return {0, "eligible rows"};
  const int symbols = static_cast<int>(std::min<std::int64_t>(spec.alphabet.size() + 1, 1 << 20));
  if (const char* why = strings_refusal(symbols, spec.corpus.count(), 0, spec.corpus.longest())) return {0, why};
  const std::int64_t taken = spec.queries.first_of_length(64 * most_masks + 1);
  return {taken, taken < all ? cat("queries of more than ", 64 * most_masks, " symbols") : ""};
}

template <class Device>
class StringsSearch {
 public:
  /// batch: queries at a time; most_entries: of lists at a time.
  StringsSearch(Device& device, const StringSearchSpec& spec, ThreadPool& thread_pool, std::int64_t batch = 4096,
                std::int64_t most_entries = std::int64_t{1} << 25)
      : device_(device), spec_(spec), thread_pool_(thread_pool), batch_(batch), most_entries_(most_entries),
        corpus_(device, spec.corpus), queries_(device, spec.queries) {}

  /// Returns the entries of a range search, those beyond spec.most too.
  std::int64_t run(const StringAnswer& answer) {
    for (std::int64_t first = spec_.first_query; first < spec_.query_end(); first += batch_) {
      const std::int64_t count = std::min(batch_, spec_.query_end() - first);
      spec_.radius ? within(first, count, answer) : nearest(first, count, answer);
      thread_pool_.poll(static_cast<std::uint64_t>(count * spec_.corpus.count()));
    }
    return entries_;
  }

 private:
  using Key = unsigned long long;

  StringsArgs args_of(std::int64_t first, std::int64_t count, const DeviceBuffer<std::int32_t, Device>& thresholds,
                      const DeviceBuffer<std::uint32_t, Device>& counts) const {
    StringsArgs args;
    args.corpus = corpus_.part(0, spec_.corpus.count());
    args.queries = queries_.part(first, count);
    args.symbols = static_cast<int>(spec_.alphabet.size()) + 1;
    args.without_self = !spec_.filter.all();
    args.thresholds = thresholds.data();
    args.counts = counts.data();
    return args;
  }
  /// The cuts of queries [first, first + count).
  StringsCuts cuts(std::int64_t first, std::int64_t count) const {
    const StringSet &strings = spec_.corpus, &queries = spec_.queries;
    const auto of = [&](std::int64_t length) {
      return std::clamp<std::int64_t>(queries.first_of_length(length + 1) - first, 0, count);
    };
    return {strings.first_of_length(17),
            strings.first_of_length(33),
            strings.first_of_length(65),
            strings.count(),
            of(32),
            of(64),
            count,
            queries.length(first + count - 1)};
  }

  /// Lists of the positions in `begin`, once more where the thresholds
  /// are known; only what is within them is counted where there are none.
  void near(StringsArgs args, std::int64_t first, const std::vector<std::int64_t>* begin, Key* matches) {
    const std::int64_t count = args.queries.count;
    const std::vector<std::int64_t> nowhere(begin == nullptr ? static_cast<std::size_t>(count) + 1 : 0, 0);
    const DeviceBuffer<std::int64_t, Device> positions(device_, count + 1);
    positions.in(begin != nullptr ? begin->data() : nowhere.data(), count + 1);
    device_.zero(args.counts, count * static_cast<std::int64_t>(sizeof(std::uint32_t)));
    args.begin = positions.data();
    args.matches = matches;
    run_strings_near(device_.launch(), args, cuts(first, count));
    device_.wait();
  }

  void give(std::int64_t at, const Key* keys, std::int64_t count, const StringAnswer& answer) {
    sorted_.clear();
    for (std::int64_t i = 0; i < count; ++i)
      sorted_.push_back({static_cast<double>(keys[i] >> row_bits),
                         static_cast<std::int64_t>(keys[i] & ((Key{1} << row_bits) - 1)) + spec_.first_id});
    answer(spec_.queries.row(at), sorted_);
  }

  /// Queries whose `counts` say how long their lists are: fetched, sorted, cut, and given.
  void give_lists(StringsArgs args, std::int64_t first, const std::vector<std::uint32_t>& counts,
                  std::vector<std::int32_t> thresholds, const std::vector<bool>& asked, const StringAnswer& answer) {
    const std::int64_t count = args.queries.count;
    for (std::int64_t from = 0; from < count;) {
      std::vector<std::int64_t> begin{0};
      std::vector<std::int32_t> now(static_cast<std::size_t>(count), -1);
      std::int64_t to = from;
      begin.resize(static_cast<std::size_t>(from) + 1, 0);
      for (; to < count && (to == from || begin.back() + counts[static_cast<std::size_t>(to)] <= most_entries_); ++to) {
        const auto i = static_cast<std::size_t>(to);
        if (asked[i]) now[i] = thresholds[i];
        begin.push_back(begin.back() + (asked[i] ? counts[i] : 0));
      }
      begin.resize(static_cast<std::size_t>(count) + 1, begin.back());
      const std::int64_t entries = begin.back();
      const DeviceBuffer<Key, Device> matches(device_, entries);
      device_.in(args.thresholds, now.data(), count * static_cast<std::int64_t>(sizeof(std::int32_t)));
      near(args, first, &begin, matches.data());
      std::vector<Key> keys(static_cast<std::size_t>(entries) + 1);
      matches.out(keys.data(), entries);
      device_.wait();
      for (std::int64_t query = from; query < to; ++query) {
        const auto i = static_cast<std::size_t>(query);
        if (!asked[i]) continue;
        const auto begins = keys.begin() + begin[i], ends = keys.begin() + begin[i + 1];
        std::sort(begins, ends);
        const std::int64_t length = spec_.radius ? ends - begins : std::min<std::int64_t>(spec_.k, ends - begins);
        give(first + query, keys.data() + begin[i], length, answer);
      }
      thread_pool_.poll(0);
      from = to;
    }
  }

  void nearest(std::int64_t first, std::int64_t count, const StringAnswer& answer) {
    const DeviceBuffer<std::int32_t, Device> thresholds(device_, count);
    const DeviceBuffer<std::uint32_t, Device> counts(device_, count);
    const StringsArgs args = args_of(first, count, thresholds, counts);
    const std::int64_t k = spec_.k,
                       room = std::min<std::int64_t>(most_selected, std::max<std::int64_t>(most_entries_ / count, 1));
    run_strings_thresholds(device_.launch(), args, k);
    std::vector<Key> best(static_cast<std::size_t>(k <= room ? count * k : 0));
    {
      const DeviceBuffer<Key, Device> matches(device_, count * room),
          chosen(device_, static_cast<std::int64_t>(best.size()));
      std::vector<std::int64_t> begin(static_cast<std::size_t>(count) + 1);
      for (std::int64_t i = 0; i <= count; ++i) begin[static_cast<std::size_t>(i)] = i * room;
      near(args, first, &begin, matches.data());
      if (k <= room) {
        const DeviceBuffer<std::int64_t, Device> positions(device_, count + 1);
        positions.in(begin.data(), count + 1);
        StringsArgs select = args;
        select.begin = positions.data();
        select.matches = matches.data();
        run_strings_select(device_.launch(), select, k, chosen.data());
        chosen.out(best.data(), static_cast<std::int64_t>(best.size()));
        device_.wait();
      }
    }
    std::vector<std::uint32_t> lengths(static_cast<std::size_t>(count));
    std::vector<std::int32_t> known(lengths.size());
    counts.out(lengths.data(), count);
    thresholds.out(known.data(), count);
    device_.wait();
    std::vector<bool> left(lengths.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t length = lengths[static_cast<std::size_t>(i)];
      left[static_cast<std::size_t>(i)] = k > room || length > room;
      if (!left[static_cast<std::size_t>(i)]) give(first + i, best.data() + i * k, std::min(k, length), answer);
    }
    if (std::find(left.begin(), left.end(), true) != left.end()) give_lists(args, first, lengths, known, left, answer);
  }

  void within(std::int64_t first, std::int64_t count, const StringAnswer& answer) {
    const DeviceBuffer<std::int32_t, Device> thresholds(device_, count);
    const DeviceBuffer<std::uint32_t, Device> counts(device_, count);
    const StringsArgs args = args_of(first, count, thresholds, counts);
    const double radius = *spec_.radius;
    const auto threshold = radius < 0 ? -1 : static_cast<std::int32_t>(std::min<double>(std::floor(radius), 1 << 30));
    const std::vector<std::int32_t> all(static_cast<std::size_t>(count), threshold);
    thresholds.in(all.data(), count);
    near(args, first, nullptr, nullptr);
    std::vector<std::uint32_t> lengths(all.size());
    counts.out(lengths.data(), count);
    device_.wait();
    for (const std::uint32_t length : lengths) entries_ += length;
    if (entries_ <= spec_.most) give_lists(args, first, lengths, all, std::vector<bool>(all.size(), true), answer);
  }

  Device& device_;
  const StringSearchSpec& spec_;
  ThreadPool& thread_pool_;
  std::int64_t batch_, most_entries_, entries_ = 0;
  StringsBuffers<Device> corpus_, queries_;
  std::vector<Entry> sorted_;
};

}  // namespace vicinal::cuda
