// Searching: ranks say which objects are looked at, or, where the answer is to be exact, which of them first; bounds
// then say which of the others may be nearer than what was found. Blocks of ranks are held against several queries
// while they are in the cache.
#include "permutation/search.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/divide.hpp"
#include "core/metric.hpp"
#include "core/text.hpp"
#include "permutation/permutants.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t scan_bytes = std::int64_t{128} << 10;  // of ranks that queries share
constexpr std::int64_t score_count = std::int64_t{1} << 24;   // scores that a thread keeps
constexpr std::int64_t largest_batch = 16;
constexpr std::int64_t survivors_at_once = 4096, few_survivors = 16;
// What threads that share a query take at a time: permutants and objects to measure, objects whose bounds are tested.
constexpr std::int64_t permutants_a_piece = 8, objects_a_piece = 64, tested_a_piece = std::int64_t{1} << 14;

}  // namespace

std::int64_t candidates_of(double fraction, std::int64_t count, std::int64_t k) {
  const auto wanted = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(count)));
  return std::clamp(wanted, std::min(k, count), count);
}

void check_order_of(std::int64_t query, std::span<const double> distances, Metric metric) {
  for (const double distance : distances)
    if (!std::isfinite(distance)) fail(ErrorCode::range_error, cat("query ", query, ": ", infinite_because(metric)));
}

RankScan::RankScan(const PermutationIndex::State& state, const cpu::Scores& kernels, std::int64_t batch, int workers)
    : state_(state), count_(state.objects().count()), width_(state.layout->permutants),
      permutants_(narrow(state.permutants)), scores_(batch * count_),
      distances_(static_cast<std::size_t>(batch * width_)) {
  for (std::int64_t i = 0; i < std::max<std::int64_t>(batch, workers); ++i)
    scorers_.emplace_back(*state.layout, kernels);
}

std::int64_t RankScan::batch_for(std::int64_t objects, std::int64_t queries, int threads) noexcept {
  const std::int64_t most = std::clamp<std::int64_t>(score_count / objects, 1, largest_batch);
  return std::clamp<std::int64_t>(queries / (2 * static_cast<std::int64_t>(threads)), 1, most);
}

std::int64_t RankScan::bytes(const PermutationIndex::State& state, std::int64_t batch) noexcept {
  const std::int64_t prefix = state.layout->form == RankForm::prefix ? state.layout->prefix : 0;
  const std::int64_t scorer =
      state.layout->stride + state.layout->permutants * (4 + 8 + 1) + 8 * prefix * state.layout->permutants;
  return batch * (state.objects().count() * 4 + scorer) + 4 * state.layout->permutants;
}

std::int64_t RankScan::block_rows() const noexcept {
  return std::max<std::int64_t>(scan_bytes / state_.layout->stride, 64);
}

void RankScan::run(DistanceEvaluator& evaluator, std::int64_t first, std::int64_t used, ThreadPool& thread_pool) {
  for (std::int64_t i = 0; i < used; ++i) {
    double* const distances = distances_.data() + i * width_;
    evaluator.start(first + i);
    evaluator.measure(permutants_.data(), width_, distances);
    check_order_of(first + i, {distances, static_cast<std::size_t>(width_)}, state_.options.metric);
    scorers_[static_cast<std::size_t>(i)].start(distances);
  }
  const std::int64_t block = block_rows();
  for (std::int64_t begin = 0; begin < count_; begin += block) {
    const std::int64_t rows = std::min(block, count_ - begin);
    for (std::int64_t i = 0; i < used; ++i)
      scorers_[static_cast<std::size_t>(i)].score(state_.ranks_of(begin), rows, scores_.data() + i * count_ + begin);
    thread_pool.poll(static_cast<std::uint64_t>(rows * used));
  }
}

void RankScan::run_together(const Evaluators& evaluators, std::int64_t query, ThreadPool& thread_pool) {
  double* const distances = distances_.data();
  thread_pool.for_each(divide_up(width_, permutants_a_piece), [&](std::int64_t piece, int worker) {
    const std::int64_t first = piece * permutants_a_piece;
    evaluators(worker).measure(permutants_.data() + first, std::min(permutants_a_piece, width_ - first),
                               distances + first);
  });
  check_order_of(query, {distances, static_cast<std::size_t>(width_)}, state_.options.metric);
  for (RankScorer& scorer : scorers_) scorer.start(distances);
  const std::int64_t block = block_rows();
  thread_pool.for_each(divide_up(count_, block), [&](std::int64_t piece, int worker) {
    const std::int64_t begin = piece * block, rows = std::min(block, count_ - begin);
    scorers_[static_cast<std::size_t>(worker)].score(state_.ranks_of(begin), rows, scores_.data() + begin);
    thread_pool.poll(static_cast<std::uint64_t>(rows));
  });
}

Collector::Collector(const PermutationIndex::State& state, const Queries& queries, const IndexSearchSpec& spec)
    : spec_(spec), evaluator_(queries.evaluator()), descends_(descending(state.options.metric)),
      entries_(static_cast<std::size_t>(spec.k > 0 ? 2 * spec.k + 64 : 0)) {}

void Collector::start(std::int64_t query) {
  evaluator_->start(query);
  if (spec_.k == 0) entries_.clear();
  pool_ = {
      .entries = entries_.data(), .count = 0, .k = spec_.k, .capacity = static_cast<std::int64_t>(entries_.size())};
}

Entry Collector::entry_of(double value, std::int64_t id) const {
  return {fold_key(descends_ ? -value : value, spec_.type, descends_), id};
}

void Collector::evaluate(const std::uint32_t* objects, std::int64_t count) {
  double values[evaluator_block];
  for (std::int64_t begin = 0; begin < count; begin += evaluator_block) {
    const std::int64_t used = std::min(evaluator_block, count - begin);
    evaluator_->measure(objects + begin, used, values);
    for (std::int64_t i = 0; i < used; ++i) {
      const Entry entry = entry_of(values[i], objects[begin + i]);
      if (spec_.k > 0) pool_.offer(entry);
      else if (entry.key <= spec_.radius) entries_.push_back(entry);
    }
    measured += used;
  }
}

std::span<const Entry> Collector::sorted() {
  trim();
  const std::span<Entry> found(entries_.data(), spec_.k > 0 ? static_cast<std::size_t>(pool_.count) : entries_.size());
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return before(a, b); });
  return found;
}

void Collector::take(Collector& other) {
  measured += std::exchange(other.measured, 0);
  if (spec_.k == 0) {
    entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
    return other.entries_.clear();
  }
  for (std::int64_t i = 0; i < other.pool_.count; ++i) pool_.offer(other.pool_.entries[i]);
  other.pool_.count = 0;  // its limit holds for the query's other objects too
}

void Collector::measure_zeros(std::vector<Entry>& entries) {
  for (Entry& entry : entries) {
    if (entry.key != 0) continue;
    const auto object = static_cast<std::uint32_t>(entry.id);
    double value;
    evaluator_->measure(&object, 1, &value);
    entry = entry_of(value, entry.id);
  }
}

IndexSearch::IndexSearch(const PermutationIndex::State& state, const Queries& queries, const IndexSearchSpec& spec,
                         const cpu::Scores& kernels, std::int64_t batch, ThreadPool* together)
    : state_(state), spec_(spec), kernels_(kernels), together_(together), count_(state.objects().count()),
      scan_(state, kernels, batch, together != nullptr ? together->threads() : 1),
      objects_(static_cast<std::size_t>(spec.candidates)) {
  for (int worker = 0; worker < (together != nullptr ? together->threads() : 1); ++worker)
    collectors_.push_back(std::make_unique<Collector>(state, queries, spec));
}

std::int64_t IndexSearch::bytes(const PermutationIndex::State& state, const IndexSearchSpec& spec, std::int64_t batch,
                                int workers) noexcept {
  const std::int64_t count = state.objects().count();
  const std::int64_t listed = (spec.exact ? 3 * count : spec.candidates) * 4;  // objects_, survivors_, rest_
  const std::int64_t collector =
      (2 * spec.k + 64) * static_cast<std::int64_t>(sizeof(Entry)) + state.objects().evaluator_bytes();
  return RankScan::bytes(state, std::max<std::int64_t>(batch, 1)) + listed +
         workers * (collector + TopCPartition::bytes(1));
}

void IndexSearch::start(std::int64_t query) {
  for (const auto& collector : collectors_) collector->start(query);
}

void IndexSearch::choose_candidates(std::int64_t position) {
  const std::uint32_t* scores = scan_.scores(position);
  const std::uint32_t largest = state_.layout->largest();
  if (together_ != nullptr)
    partition_.by_counting(scores, count_, largest, spec_.candidates, objects_.data(), *together_);
  else partition_.by_counting(scores, count_, largest, spec_.candidates, objects_.data());
}

void IndexSearch::evaluate(const std::uint32_t* objects, std::int64_t count) {
  Collector& all = *collectors_.front();
  if (together_ == nullptr) return all.evaluate(objects, count);
  together_->for_each(divide_up(count, objects_a_piece), [&](std::int64_t piece, int worker) {
    const std::int64_t first = piece * objects_a_piece;
    collectors_[static_cast<std::size_t>(worker)]->evaluate(objects + first, std::min(objects_a_piece, count - first));
    together_->poll(0);
  });
  for (std::size_t worker = 1; worker < collectors_.size(); ++worker) all.take(*collectors_[worker]);
}

void IndexSearch::find_survivors(const BoundTest& test) {
  survivors_.resize(static_cast<std::size_t>(count_));
  std::int64_t left = 0;
  if (together_ == nullptr) {
    left = test.within(kernels_, 0, count_, survivors_.data());
  } else {  // each piece to its own position, then all together
    std::vector<std::int64_t> found(static_cast<std::size_t>(divide_up(count_, tested_a_piece)));
    together_->for_each(static_cast<std::int64_t>(found.size()), [&](std::int64_t piece, int) {
      const std::int64_t first = piece * tested_a_piece;
      found[static_cast<std::size_t>(piece)] =
          test.within(kernels_, first, std::min(tested_a_piece, count_ - first), survivors_.data() + first);
    });
    for (std::size_t piece = 0; piece < found.size(); ++piece) {
      std::copy_n(survivors_.begin() + static_cast<std::ptrdiff_t>(piece) * tested_a_piece, found[piece],
                  survivors_.begin() + left);
      left += found[piece];
    }
  }
  survivors_.resize(static_cast<std::size_t>(left));
}

/// Finds the objects that the bounds leave at the present limit, by rank; as the limit falls, fewer are left.
void IndexSearch::evaluate_within_bounds(std::int64_t position) {
  BoundTest test(*state_.bounds, state_.objects().true_distance());
  const auto start_test = [&] {
    test.start(scan_.distances(position), state_.objects().true_distance().of(limit(), spec_.type).high);
  };
  start_test();
  find_survivors(test);
  const auto left = static_cast<std::int64_t>(survivors_.size());
  counts_.candidates += left;
  // Those that were looked at before are in the pool, or beyond it. Both lists ascend.
  rest_.clear();
  std::set_difference(survivors_.begin(), survivors_.end(), objects_.begin(), objects_.end(),
                      std::back_inserter(rest_));
  if (spec_.k == 0) return evaluate(rest_.data(), static_cast<std::int64_t>(rest_.size()));
  const std::uint32_t* scores = scan_.scores(position);
  if (left <= count_ / few_survivors)  // else sorting costs more than it saves
    std::sort(rest_.begin(), rest_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
    });
  double tested = limit();
  bool lower = false;  // than when survivors were told
  for (std::size_t begin = 0; begin < rest_.size(); begin += survivors_at_once) {
    const std::size_t end = std::min(rest_.size(), begin + survivors_at_once);
    collectors_.front()->trim();
    if (limit() < tested) {
      tested = limit();
      lower = true;
      start_test();
    }
    survivors_.assign(rest_.begin() + static_cast<std::ptrdiff_t>(begin),
                      rest_.begin() + static_cast<std::ptrdiff_t>(end));
    if (lower)
      std::erase_if(survivors_, [&](std::uint32_t object) {
        std::uint32_t number;
        return test.within(kernels_, object, 1, &number) == 0;
      });
    evaluate(survivors_.data(), static_cast<std::int64_t>(survivors_.size()));
  }
}

void IndexSearch::answer_exactly(std::int64_t position) {
  objects_.clear();
  if (!state_.bounds) {
    for (std::int64_t i = 0; i < count_; ++i) objects_.push_back(static_cast<std::uint32_t>(i));
    counts_.candidates += count_;
    return evaluate(objects_.data(), count_);
  }
  if (spec_.k > 0) {
    objects_.resize(static_cast<std::size_t>(spec_.candidates));
    choose_candidates(position);
    evaluate(objects_.data(), spec_.candidates);
    collectors_.front()->trim();
  }
  evaluate_within_bounds(position);
}

IndexCounts IndexSearch::run(std::int64_t first, std::int64_t used, ThreadPool& thread_pool, const Answer& answer) {
  counts_ = {};
  Collector& all = *collectors_.front();
  all.measured = 0;
  if (together_ == nullptr) scan_.run(all.evaluator(), first, used, thread_pool);
  for (std::int64_t i = 0; i < used; ++i) {
    start(first + i);
    if (together_ != nullptr)
      scan_.run_together(
          [&](int worker) -> DistanceEvaluator& { return collectors_[static_cast<std::size_t>(worker)]->evaluator(); },
          first + i, thread_pool);
    const std::int64_t position = together_ != nullptr ? 0 : i;  // of its scores
    if (spec_.exact) {
      answer_exactly(position);
    } else {
      choose_candidates(position);
      counts_.candidates += spec_.candidates;
      evaluate(objects_.data(), spec_.candidates);
    }
    answer(first + i, all.sorted());
    thread_pool.poll(0);
  }
  counts_.measured = all.measured;
  return counts_;
}

}  // namespace vicinal
