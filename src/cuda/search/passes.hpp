// FILTER, its host's part: the tiles of a chunk pass before a batch
// of queries, a sample of them first where thresholds come from one.
#pragma once
#include <algorithm>
#include <cmath>

#include "core/divide.hpp"
#include "core/parallel.hpp"
#include "cuda/search/device.hpp"
#include "cuda/search/filter/both_sides.cuh"
#include "cuda/search/filter/initial_thresholds.cuh"
#include "cuda/search/filter/speculative_thresholds.cuh"
#include "cuda/search/filter/units.hpp"
#include "cuda/search/memory_plan.hpp"
#include "cuda/search/seconds.hpp"

namespace vicinal::cuda {

/// Launches go on without the host for so long, by the rates of seconds.hpp; then the caller is asked whether they are
/// to go on. A slower device takes some times as long.
inline constexpr double most_unasked_seconds = 0.01;

template <SearchDeviceRuntime Device>
class FilterPasses {
 public:
  FilterPasses(Device& device, Precision precision, Sum sum, const FilterKernel* kernel, ThreadPool& thread_pool)
      : device_(device), precision_(precision), sum_(sum), kernel_(kernel), thread_pool_(thread_pool), nearest_(device),
        candidates_(device), segment_counts_(device), crowded_(device), sides_(device), loosest_(device),
        passed_(device) {}

  /// Whether the filter tests groups of rows, in searches where it can.
  bool by_groups() const noexcept { return kernel_ != nullptr && kernel_->groups; }

  /// No pass has room for more candidates: few queries would ask for more than many, for the warps that have none.
  void limit_candidates(std::int64_t most) noexcept { most_entries_ = most; }
  /// A sample guesses the thresholds, and a first part of the tiles guesses them again; then the other tiles.
  void speculate(const SearchArgs& args, const Speculation& speculation) {
    guess(args, speculation, args.queries.count);
    pass_one(args, speculation);
  }
  /// It does the same, without the guess, for a graph whose tiles were to serve both sides: for so many queries at a time
  /// that what passes has the room that the plan gives it there.
  void serve_one(const SearchArgs& args, const Speculation& speculation) {
    const std::int64_t count = args.queries.count,
                       share = divide_up(candidate_entries(count, args.capacity, 0, true, true),
                                         symmetric_entries(count, speculation.passing, 0)),
                       at_once = std::max(count / share / block_queries, std::int64_t{1}) * block_queries;
    for (std::int64_t first = 0; first < count; first += at_once)
      pass_one(some_queries(args, first, std::min(at_once, count - first)), speculation);
  }

  /// Thresholds from a sample of the tiles, of so many queries at a time.
  void guess(const SearchArgs& args, const Speculation& speculation, std::int64_t at_once) {
    const std::int64_t count = args.queries.count;
    const SampleRank& sampled = speculation.sample(count);
    unsigned* const crowded = count > block_queries ? crowded_.reserve(1) : nullptr;
    if (crowded != nullptr) device_.zero(crowded, sizeof(unsigned));
    for (std::int64_t first = 0; first < count; first += at_once) {
      Filter f{.args = some_queries(args, first, std::min(at_once, count - first))};
      sample(f, sampled.tiles);
      const int threads = speculative_threads(f.groups, count <= device_.multiprocessors);
      device_.launch().next(f.args.queries.count, threads, speculative_thresholds_memory(f.groups),
                            speculative_thresholds,
                            SpeculativeThresholds{.args = f.args,
                                                  .nearest = f.nearest,
                                                  .groups = f.groups,
                                                  .rank = static_cast<std::uint32_t>(sampled.rank),
                                                  .stride = args.visits.at(threads),
                                                  .crowded = crowded,
                                                  .most = static_cast<float>(speculation.most)});
    }
    if (crowded != nullptr)
      device_.launch()((count + 255) / 256, 256, 0, leave_to_proof,
                       LeaveToProof{.args = args, .crowded = crowded, .most = most_crowded(count)});
  }
  /// It tells whether that guess has left all queries of a large batch to proved thresholds, so that no tile needs to
  /// pass; it waits for the device. Of a small batch nothing is counted.
  bool left_to_proof(const SearchArgs& args) {
    if (args.queries.count <= block_queries) return false;
    unsigned crowded = 0;
    device_.out(&crowded, crowded_.data(), sizeof crowded);
    device_.wait();
    return crowded > most_crowded(args.queries.count);
  }

  /// The tiles of a graph whose rows and queries are in one order, each of them for both of its sides; thresholds were
  /// guessed, and are guessed again when the first runs have passed. False where so much passed in these that tiles are
  /// to serve one side.
  bool speculate_both(const SearchArgs& args, const Speculation& speculation) {
    Filter f{.args = args, .pairs = speculation.pairs, .passing = speculation.passing};
    f.args.visits = {.count = args.rows.tiles(), .step = 1};
    f.sides = sides_.reserve(padded_sides(args.rows.count));
    f.loosest = loosest_.reserve(args.rows.tiles() * pairs_a_tile);
    const std::int64_t first = speculation.first_runs.tiles, all = speculation.pairs.runs();
    pass_both(f, 0, first);
    const double most = speculation.most_passed * static_cast<double>(speculation.passing * args.queries.count);
    if (static_cast<double>(passed(args, speculation.passing)) > most) return false;
    reestimate(args, speculation.first_runs.rank, args.capacity);
    pass_both(f, first, all);
    return true;
  }

  /// Thresholds from a sample of the tiles; then tiles in growing parts, whose nearest rows tighten them for the next.
  /// first: nothing was searched before. rerank(): between parts.
  template <class Rerank>
  void prove(const SearchArgs& args, bool first, const Rerank& rerank) {
    Filter f{.args = args};
    const std::int64_t tiles = args.rows.tiles(), k = args.k, want = k + (args.choice.without_self ? 1 : 0);
    std::int64_t begin = 0, part = tiles;
    if (first) {
      part = std::max<std::int64_t>(1, std::min(tiles, args.capacity / tile_rows));
      if (samples_first(tiles, want, args.capacity)) {
        part = sample_tiles(tiles, want);
        sample(f, part);
        bound_sample(thresholds_of(f, want));
      }
    }
    // As few parts as can be, none more than six times what was searched
    // before; for few queries a part costs more than what passes.
    const double most_growth = args.queries.count <= 512 && 80 * k <= args.capacity ? 40.0 : 6.0;
    double growth = static_cast<double>(tiles) / static_cast<double>(part);
    growth = std::pow(growth, 1 / std::max(1.0, std::ceil(std::log(growth) / std::log(most_growth))));
    while (begin < tiles) {
      f.first = begin;
      f.last = std::min(tiles, begin + part);
      f.everything = first && begin == 0 && f.nearest == nullptr;
      run<false>(f);
      if (f.last < tiles) rerank();
      part = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(std::ceil((growth - 1) * static_cast<double>(f.last) * (1 + 1e-9))));
      begin = f.last;
      ask(f);
    }
  }

  /// Launches that have gone on for long are waited for; returns whether they have.
  bool wait_if_long() {
    if (unasked_ < most_unasked_seconds) return false;
    device_.wait();
    unasked_ = 0;
    return true;
  }

 private:
  /// It returns how many of so many queries may be left out of a pass; where more are, all are.
  static std::int64_t most_crowded(std::int64_t queries) { return queries / 8; }
  /// It takes all tiles for one of their sides, by guessed thresholds; a first part guesses them again, where that pays.
  void pass_one(const SearchArgs& args, const Speculation& speculation) {
    const std::int64_t count = args.queries.count;
    Filter f{.args = args};
    if (speculation.reestimates(count)) {
      f.last = speculation.first_part.tiles;
      run<false>(f, true);
      ask(f);
      reestimate(args, speculation.first_part.rank, args.capacity / 2);
      f.first = f.last;
    }
    f.last = args.rows.tiles();
    run<false>(f, true);
    ask(f);
  }
  /// Runs of pairs of blocks by the thresholds of now, in so many launches that what passes in one has room.
  void pass_both(Filter& f, std::int64_t first, std::int64_t last) {
    const std::int64_t at_once = divide_up(last - first, symmetric_launches(f.args.rows.count));
    device_.launch()(padded_sides(f.args.rows.count) / sides_threads, sides_threads, 0, take_both_sides,
                     TakeBothSides{.args = f.args, .sides = sides_.data(), .loosest = loosest_.data()});
    for (f.first = first; f.first < last; f.first = f.last) {
      f.last = std::min(last, f.first + at_once);
      run<false>(f, true);
      const std::int64_t met =
          std::min((f.last - f.first) * f.pairs.run * f.pairs.block_tiles * tile_rows, f.args.rows.count / 2);
      ask(f.args, met, 2);
    }
  }
  /// It returns how many rows have passed, for all queries together.
  std::uint64_t passed(const SearchArgs& args, std::int64_t passing) {
    unsigned long long sum = 0, *const on_device = passed_.reserve(1);
    device_.zero(on_device, sizeof sum);
    device_.launch()((args.queries.count + 255) / 256, 256, 0, count_passed,
                     CountPassed{.args = args, .passing = passing, .sum = on_device});
    device_.out(&sum, on_device, sizeof sum);
    device_.wait();
    return sum;
  }
  /// What the slots hold of a first part of the rows guesses thresholds again, of queries that have so many at most.
  void reestimate(const SearchArgs& args, std::int64_t rank, std::int64_t most) {
    const std::int64_t room = std::min(most, most_reestimated_slots);
    device_.launch()(args.queries.count, reestimate_threads(rank), room * static_cast<std::int64_t>(sizeof(float)),
                     reestimate_thresholds,
                     ReestimatedThresholds{.args = args, .rank = static_cast<std::uint32_t>(rank), .room = room});
  }

  /// It asks for cancellation after the tiles that have just been launched, and waits for them where they take long.
  void ask(const Filter& f) {
    const PreparedMatrix& matrix = f.args.rows;
    ask(f.args, std::min((f.last - f.first) * tile_rows, matrix.count - f.first * tile_rows), 1);
  }
  /// sides: that each pair of a query with one of so many rows served.
  void ask(const SearchArgs& args, std::int64_t rows, std::uint64_t sides) {
    const std::int64_t queries = args.queries.count;
    unasked_ += filtering_seconds(precision_, sum_, queries, rows, args.rows.dims);
    wait_if_long();
    thread_pool_.poll(sides * static_cast<std::uint64_t>(queries) * static_cast<std::uint64_t>(rows));
  }
  void sample(Filter& f, std::int64_t tiles) {
    f.last = tiles;
    f.groups = tiles * groups_a_tile;
    f.nearest = nearest_.reserve(padded_to_blocks(f.args.queries.count) * f.groups);
    run<true>(f);
  }
  void bound_sample(const InitialThresholds& s) {
    const std::int64_t count = s.args.queries.count;
    if (!thresholds_by_warp(s))
      return device_.launch()(count, initial_threads, initial_thresholds_memory(s.groups), initial_thresholds, s);
    constexpr std::int64_t warps = initial_threads / 32;
    device_.launch()(std::min(divide_up(count, warps), std::int64_t{device_.multiprocessors} * thresholds_blocks),
                     initial_threads, 0, initial_thresholds_by_warp, s);
  }
  static InitialThresholds thresholds_of(const Filter& f, std::int64_t want) {
    return {.args = f.args, .nearest = f.nearest, .groups = f.groups, .want = static_cast<std::uint32_t>(want)};
  }

  template <bool sampling>
  void run(Filter f, bool speculates = false) {
    const std::int64_t tiles = f.last - f.first, workers = device_.multiprocessors;
    const FilterBlock block = kernel_->block(f.args, sampling);
    f.blocks = divide_up(f.args.queries.count, block.queries);
    if (f.serves_both()) f.blocks_a_pair = static_cast<unsigned>(f.pairs.block_tiles * tile_rows / block.queries);
    const Units units = f.serves_both() ? Units{.tiles = 1, .parts = tiles}  // runs, a unit each
                        : f.everything  ? small_units(tiles, f.blocks, workers)
                                        : even_units(tiles, f.blocks, workers);
    f.part = units.tiles;
    f.parts = units.parts;
    const std::int64_t grid = std::min(workers, f.blocks * f.parts);
    const std::int64_t segments = grid * block.writing_warps;
    if constexpr (!sampling) {
      // Where nothing is excluded yet every pair comes through.
      const bool groups = kernel_->form(f.args) == CandidateForm::groups;
      if (f.serves_both() && !groups) fail(ErrorCode::internal, "a filter without groups of rows serves one side");
      const std::int64_t most = divide_up(f.blocks * f.parts, grid) * f.part * block.queries * tile_rows * grid /
                                (groups ? group_rows : 1) / segments;
      std::int64_t entries =
          f.serves_both() ? symmetric_entries(f.args.queries.count, f.passing, segments)
                          : candidate_entries(f.args.queries.count, f.args.capacity, segments, speculates, groups);
      if (most_entries_ > 0) entries = std::min(entries, std::max(most_entries_, 1024 * segments));
      f.room = std::max(entries / segments, f.everything ? most : 0);
      check_candidates(f.room * segments);
      std::byte* const room = candidates_.reserve(
          f.room * segments * static_cast<std::int64_t>(groups ? sizeof(GroupCandidate) : sizeof(Candidate)));
      if (groups) f.group_candidates = reinterpret_cast<GroupCandidate*>(room);
      else f.candidates = reinterpret_cast<Candidate*>(room);
      f.used = segment_counts_.reserve(segments);
    }
    launch_filter<sampling>(device_, *kernel_, precision_, f, grid);
    if constexpr (!sampling)
      device_.launch().next(
          segments, scatter_threads, 0,
          f.group_candidates != nullptr ? scatter_candidates<GroupCandidate> : scatter_candidates<Candidate>,
          ScatterCandidates{.args = f.args,
                            .candidates = f.candidates,
                            .groups = f.group_candidates,
                            .used = f.used,
                            .room = f.room,
                            .workers = segments,
                            .always = static_cast<int>(kernel_->largest_threshold(f.args.rows.width <= 128)),
                            .sides = f.sides,
                            .pairs = f.pairs});
  }

  Device& device_;
  Precision precision_;
  Sum sum_;
  const FilterKernel* kernel_;  // null on the canonical precision
  ThreadPool& thread_pool_;
  DeviceBuffer<int, Device> nearest_;
  DeviceBuffer<std::byte, Device> candidates_;  // or groups
  DeviceBuffer<std::uint32_t, Device> segment_counts_;
  std::int64_t most_entries_ = 0;  // candidates that a pass may have room for; 0: what it asks for
  DeviceBuffer<unsigned, Device> crowded_;
  // Of a graph whose tiles serve both sides.
  DeviceBuffer<BothSides, Device> sides_;
  DeviceBuffer<GroupCoeffs, Device> loosest_;
  DeviceBuffer<unsigned long long, Device> passed_;
  double unasked_ = 0;  // seconds of launches since the host waited
};

}  // namespace vicinal::cuda
