// RANGE on a device, its host's part, for session.hpp: parts of the tiles as large as what comes through them has room,
// the rows of the queries whose matches were kept, and the places of those that were only counted.
#pragma once
#include <cmath>
#include <vector>

#include "core/divide.hpp"
#include "core/key.hpp"
#include "core/text.hpp"
#include "cuda/search/core/prepared.hpp"
#include "cuda/search/filter/table.hpp"
#include "cuda/search/output/range.cuh"
#include "prepare/check.hpp"
#include "prepare/matches.hpp"

namespace vicinal::cuda {

/// Nothing can be excluded: every row is within it, as far as a filter knows.
inline bool holds_everything(const SearchSpec& spec) {
  return spec.radius && std::isinf(radius_key(*spec.radius, spec.type, descending(spec.metric)));
}

/// A match: where it waits, its words in two arrays, and its place in the result.
inline constexpr std::int64_t match_bytes = sizeof(Match) + 2 * sizeof(WideWord) + 16;
/// Matches that a batch's list holds: at least those of one tile of rows with every query.
inline std::int64_t match_room(const Plan& plan) {
  return plan.query_batch * tile_rows + plan.match_bytes / match_bytes;
}
/// Candidates that a launch has room for: at least all pairs of one tile of rows, where each block of the grid has as
/// much as the one with the most queries.
inline std::int64_t candidate_room(std::int64_t queries, std::int64_t multiprocessors) {
  const std::int64_t blocks = std::max<std::int64_t>(padded_to_blocks(queries) / block_queries, 1),
                     grid = std::min(multiprocessors, blocks);
  return std::max(rounded_up(blocks, grid) * block_queries * tile_rows, std::int64_t{1} << 23);
}

/// Everything that a session holds, but for Plan::match_bytes.
inline std::int64_t range_bytes(const Plan& plan, const ProblemShape& problem, int multiprocessors) {
  const Precision precision = precision_of(plan.cascade.front());
  const std::int64_t batch = plan.query_batch, rows = std::min(plan.corpus_chunk, problem.corpus.rows);
  const std::int64_t total = matrix_bytes(batch, problem.queries, problem.metric, precision, true) +
                             matrix_bytes(rows, problem.corpus, problem.metric, precision, false) +
                             (rows < problem.corpus.rows ? host_row_bytes(rows, problem.corpus) : 0) + batch * 192 +
                             2 * problem.filter_bytes + (std::int64_t{64} << 20);
  return total + batch * tile_rows * match_bytes +
         (has_filter(precision) ? candidate_room(batch, multiprocessors) * static_cast<std::int64_t>(sizeof(Candidate))
                                : 0);
}

template <class Device>
class RangeMatches {
 public:
  RangeMatches(Device& device, const SearchSpec& spec, const Plan& plan, Precision precision, ThreadPool& thread_pool)
      : device_(device), spec_(spec), plan_(plan), precision_(precision),
        kernel_(filter_kernel(device.filters(), precision, filter_sum_of(spec.metric), plan.instruction_set)),
        thread_pool_(thread_pool), descends_(descending(spec.metric)), matches_(device), used_(device), counts_(device),
        cursors_(device), overflowed_(device), unfilterable_(device), candidate_buffer_(device),
        segment_counts_(device), candidate_counts_(device), begins_(device), words_(device), spare_(device),
        ids_(device), distances_(device), largest_(device) {
    list_.radius = radius_key(*spec.radius, spec.type, descends_);
  }

  /// A new batch, whose states are there.
  void start(const SearchArgs& args, bool filters) {
    count_ = args.queries.count;
    places_ = nullptr;
    list_.capacity = match_room(plan_);
    list_.all = matches_.reserve(list_.capacity);
    list_.used = used_.reserve(1);
    list_.counts = counts_.reserve(count_);
    list_.overflowed = overflowed_.reserve(count_);
    device_.zero(list_.used, 8);
    device_.zero(list_.counts, count_ * 8);
    device_.zero(list_.overflowed, count_ * 4);
    numbers_.clear();
    if (!filters || count_ == 0) return;
    unfilterable_.reserve(count_ + 1);
    device_.zero(unfilterable_.data() + count_, 4);
    device_.launch()((count_ + 255) / 256, 256, 0, start_range, range_state(args));
    std::uint32_t unfilterable = 0;
    device_.out(&unfilterable, unfilterable_.data() + count_, 4);
    device_.wait();
    numbers_.resize(unfilterable);
    device_.out(numbers_.data(), unfilterable_.data(), std::int64_t{unfilterable} * 4);
    device_.wait();
  }

  /// One chunk of the corpus.
  void search(const SearchArgs& args, bool filters) {
    if (!filters) return scan(args, nullptr, count_);
    filter(args);
    if (!numbers_.empty()) scan(args, unfilterable_.data(), static_cast<std::int64_t>(numbers_.size()));
  }

  void counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) {
    std::vector<std::uint32_t> overflow_marks(static_cast<std::size_t>(count_));
    device_.out(counts.data(), list_.counts, count_ * 8);
    device_.out(overflow_marks.data(), list_.overflowed, count_ * 4);
    device_.wait();
    for (std::size_t i = 0; i < overflow_marks.size(); ++i) overflowed[i] = overflow_marks[i] != 0;
  }

  /// From now on matches go to the host, when there is no room for more of them.
  void write_matches_to(const RangeView& out) {
    places_ = &out;
    next_.assign(out.begin.begin(), out.begin.end());
  }

  void finish(const RangeView& out, const BoundsView& bounds, const SearchArgs& args, bool filters) {
    if (count_ == 0) return;
    if (places_ != nullptr) {
      to_places();
      for (std::size_t i = 0; i < next_.size(); ++i)
        if (next_[i] != out.begin[i] + out.count[i]) report_changed_matches(out.count[i], next_[i] - out.begin[i]);
      thread_pool_.for_each(count_, [&](std::int64_t i, int) {
        vicinal::sort_matches(out, descends_, out.begin[static_cast<std::size_t>(i)],
                              out.count[static_cast<std::size_t>(i)]);
        thread_pool_.poll(0);
      });
    } else {
      to_rows(out, ranking_of(args));
    }
    std::fill_n(bounds.verified_radius, count_, filters ? list_.radius : infinite);
    std::fill_n(bounds.largest, count_, 0.0);
    if (!filters || args.rows.count == 0) return;
    for (const std::uint32_t number : numbers_) bounds.verified_radius[number] = infinite;
    device_.launch()((count_ + 255) / 256, 256, 0, end_range, range_state(args));
    device_.out(bounds.largest, largest_.data(), count_ * 8);
    device_.wait();
  }

  /// Since the last call.
  std::int64_t candidates() { return std::exchange(candidates_, 0); }
  std::int64_t ranked() { return std::exchange(ranked_, 0); }
  std::int64_t underflowed() { return std::exchange(underflowed_, 0); }

 private:
  StartRange range_state(const SearchArgs& args) {
    return {.args = args,
            .radius = list_.radius,
            .unfilterable = unfilterable_.data(),
            .unfilterable_count = unfilterable_.data() + count_,
            .largest = largest_.reserve(count_)};
  }
  std::int64_t room() const { return candidate_room(count_, device_.multiprocessors); }
  std::int64_t used() {
    unsigned long long used = 0;
    device_.out(&used, list_.used, 8);
    device_.wait();
    return static_cast<std::int64_t>(used);
  }

  /// Tiles [f.first, f.last) past all queries; what came through stays in candidate_buffer_.
  CandidateCounts run(Filter& f, std::int64_t& workers) {
    const std::int64_t tiles = f.last - f.first, sms = device_.multiprocessors;
    f.part = std::clamp<std::int64_t>(tiles * f.blocks / (4 * sms), 1, 64);
    f.parts = divide_up(tiles, f.part);
    const std::int64_t grid = std::min(sms, f.blocks * f.parts);
    workers = grid * kernel_->writing_warps;
    const std::int64_t most = divide_up(f.blocks * f.parts, grid) * f.part * block_queries * tile_rows * grid / workers;
    f.room = std::min(most, room() / workers);
    f.used = segment_counts_.reserve(sms * most_writing_warps);
    launch_filter<false>(device_, *kernel_, precision_, f, grid);
    CandidateCounts sum{};
    device_.zero(candidate_counts_.reserve(1), sizeof sum);
    device_.launch()(
        std::min<std::int64_t>(sms, (count_ + 255) / 256 + 8), 256, 0, count_candidates,
        CountCandidates{.args = f.args, .used = f.used, .workers = workers, .sum = candidate_counts_.data()});
    device_.out(&sum, candidate_counts_.data(), sizeof sum);
    device_.wait();
    return sum;
  }

  void filter(const SearchArgs& args) {
    Filter f{.args = args};
    f.blocks = divide_up(count_, block_queries);
    f.candidates = candidate_buffer_.reserve(room());
    const std::int64_t tiles = args.rows.tiles();
    for (std::int64_t part = std::max<std::int64_t>(1, tiles / 32); f.first < tiles;) {
      f.last = std::min(tiles, f.first + part);
      std::int64_t workers = 0;
      const CandidateCounts sum = run(f, workers);
      const auto candidates = static_cast<std::int64_t>(sum.candidates);
      const bool fits = places_ == nullptr || candidates <= list_.capacity;
      if (sum.overflowed != 0 || !fits) {
        if (f.last == f.first + 1) fail(ErrorCode::internal, "a tile of rows had no room on the device");
        part = (f.last - f.first) / 2;
        continue;
      }
      if (places_ != nullptr && used() + candidates > list_.capacity) to_places();
      if (candidates > 0)
        device_.launch()(workers, match_threads, 0, rank_candidates,
                         RankCandidates{.args = args,
                                        .ranking = ranking_of(args),
                                        .matches = list_,
                                        .candidates = f.candidates,
                                        .used = f.used,
                                        .room = f.room});
      candidates_ += candidates;
      ranked_ += candidates;
      const std::int64_t pairs =
          count_ * std::min((f.last - f.first) * tile_rows, args.rows.count - f.first * tile_rows);
      thread_pool_.poll(static_cast<std::uint64_t>(std::max<std::int64_t>(pairs, 0)));
      if (candidates < room() / 32) part = std::min(tiles, part * 4);
      f.first = f.last;
    }
  }

  void scan(const SearchArgs& args, const std::uint32_t* numbers, std::int64_t count) {
    const std::int64_t rows = args.rows.count;
    std::int64_t segment = std::max<std::int64_t>(8192, (std::int64_t{1} << 30) / std::max<std::int64_t>(count, 1));
    if (places_ != nullptr) segment = std::min(segment, list_.capacity / std::max<std::int64_t>(count, 1));
    ExhaustiveRange s{.args = args, .ranking = ranking_of(args), .matches = list_, .numbers = numbers, .count = count};
    for (; s.first < rows; s.first = s.last) {
      s.last = std::min(rows, s.first + segment);
      if (places_ != nullptr && used() + count * (s.last - s.first) > list_.capacity) to_places();
      device_.launch()(std::int64_t{device_.multiprocessors} * 8, exhaustive_threads, 0, exhaustive_range, s);
      device_.wait();
      ranked_ += count * (s.last - s.first);
      thread_pool_.poll(numbers == nullptr ? static_cast<std::uint64_t>(count * (s.last - s.first)) : 0);
    }
  }

  /// What the list holds to its places on the host, and the list is empty.
  void to_places() {
    constexpr std::int64_t piece = 1 << 16;
    const std::int64_t all = used();
    std::vector<Match> some(static_cast<std::size_t>(std::min(all, piece)));
    for (std::int64_t first = 0; first < all; first += piece) {
      const std::int64_t here = std::min(piece, all - first);
      device_.out(some.data(), list_.all + first, here * static_cast<std::int64_t>(sizeof(Match)));
      device_.wait();
      for (std::int64_t i = 0; i < here; ++i) {
        const Match& one = some[static_cast<std::size_t>(i)];
        const std::int64_t at = next_[one.query]++;
        if (at >= places_->begin[one.query] + places_->count[one.query]) continue;  // rows changed; finish says so
        places_->ids[at] = spec_.first_id + one.row;
        store_key(one.key, places_->type, descends_, places_->distances, at);
        underflowed_ += one.underflowed;
      }
    }
    device_.zero(list_.used, 8);
  }

  /// Rows of the queries that did not overflow, sorted on the device.
  void to_rows(const RangeView& out, const Ranking& ranking) {
    std::vector<std::int64_t> begins(static_cast<std::size_t>(count_) + 1);
    for (std::size_t i = 0; i < out.count.size(); ++i) begins[i + 1] = begins[i] + out.count[i];
    const std::int64_t total = begins.back(), size = static_cast<std::int64_t>(distance_size(spec_.type));
    if (total == 0) return;
    device_.in(begins_.reserve(count_ + 1), begins.data(), (count_ + 1) * 8);
    device_.zero(cursors_.reserve(count_), count_ * 8);
    const MatchRows m{.matches = list_,
                      .ranking = ranking,
                      .kept = std::min(used(), list_.capacity),
                      .queries = count_,
                      .first_id = spec_.first_id,
                      .begins = begins_.data(),
                      .cursors = cursors_.data(),
                      .words = words_.reserve(total),
                      .scratch = spare_.reserve(total),
                      .ids = ids_.reserve(total),
                      .distances = distances_.reserve(total * size)};
    device_.launch()(std::min<std::int64_t>((m.kept + 255) / 256, std::int64_t{device_.multiprocessors} * 16), 256, 0,
                     fill_rows, m);
    device_.launch()(count_, rerank_threads, 0, sort_matches, m);
    // Queries that lie side by side in the result, too.
    for (std::size_t i = 0; i < out.count.size();) {
      std::size_t end = i + 1;
      while (end < out.count.size() && out.begin[end] == out.begin[end - 1] + out.count[end - 1]) ++end;
      const std::int64_t here = begins[end] - begins[i];
      device_.out(out.ids + out.begin[i], ids_.data() + begins[i], here * 8);
      device_.out(static_cast<std::byte*>(out.distances) + out.begin[i] * size, distances_.data() + begins[i] * size,
                  here * size);
      i = end;
    }
    device_.wait();
  }

  Device& device_;
  const SearchSpec& spec_;
  const Plan& plan_;
  Precision precision_;
  const FilterKernel* kernel_;  // null on the canonical precision
  ThreadPool& thread_pool_;
  bool descends_;
  MatchList list_;
  DeviceBuffer<Match, Device> matches_;
  DeviceBuffer<unsigned long long, Device> used_, counts_, cursors_;
  DeviceBuffer<std::uint32_t, Device> overflowed_, unfilterable_;  // unfilterable_: numbers, and how many at the end
  DeviceBuffer<Candidate, Device> candidate_buffer_;
  DeviceBuffer<std::uint32_t, Device> segment_counts_;
  DeviceBuffer<CandidateCounts, Device> candidate_counts_;
  DeviceBuffer<std::int64_t, Device> begins_;
  DeviceBuffer<WideWord, Device> words_, spare_;
  DeviceBuffer<std::int64_t, Device> ids_;
  DeviceBuffer<std::byte, Device> distances_;
  DeviceBuffer<double, Device> largest_;
  std::vector<std::uint32_t> numbers_;  // of the queries that the filter proves nothing of
  const RangeView* places_ = nullptr;
  std::vector<std::int64_t> next_;
  std::int64_t count_ = 0, candidates_ = 0, ranked_ = 0, underflowed_ = 0;
};

}  // namespace vicinal::cuda
