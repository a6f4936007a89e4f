// Searching: ranks say which objects are looked at, or, where the answer is to be exact, which of them first; bounds then say which
// of the others may be nearer than what was found. Blocks of ranks are held against several queries while they are in the cache.
#include "permutation/search.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/metric.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t scan_bytes = std::int64_t{128} << 10;  // of ranks that queries share
constexpr std::int64_t score_count = std::int64_t{1} << 24;   // scores that a thread keeps
constexpr std::int64_t largest_batch = 16;
constexpr std::int64_t survivors_at_once = 4096, few_survivors = 16;

}  // namespace

void check_order_of(std::int64_t query, std::span<const double> distances) {
  for (const double distance : distances)
    if (!std::isfinite(distance))
      fail(ErrorCode::range_error, cat("query ", query, ": a distance leaves f64; scale the rows first"));
}

RankScan::RankScan(const PermutationIndex::State& state, const cpu::Scores& kernels, std::int64_t batch)
    : state_(state), count_(state.objects().count()), width_(state.layout->permutants),
      permutants_(narrow(state.permutants)), scores_(batch * count_),
      distances_(static_cast<std::size_t>(batch * width_)) {
  for (std::int64_t i = 0; i < batch; ++i) scorers_.emplace_back(*state.layout, kernels);
}

std::int64_t RankScan::batch_for(std::int64_t objects, std::int64_t queries, int threads) noexcept {
  const std::int64_t room = std::clamp<std::int64_t>(score_count / objects, 1, largest_batch);
  return std::clamp<std::int64_t>(queries / (2 * static_cast<std::int64_t>(threads)), 1, room);
}

void RankScan::run(Meter& meter, std::int64_t first, std::int64_t used, Team& team) {
  for (std::int64_t i = 0; i < used; ++i) {
    double* const distances = distances_.data() + i * width_;
    meter.start(first + i);
    meter.measure(permutants_.data(), width_, distances);
    check_order_of(first + i, {distances, static_cast<std::size_t>(width_)});
    scorers_[static_cast<std::size_t>(i)].start(distances);
  }
  const std::int64_t block = std::max<std::int64_t>(scan_bytes / state_.layout->stride, 64);
  for (std::int64_t begin = 0; begin < count_; begin += block) {
    const std::int64_t rows = std::min(block, count_ - begin);
    for (std::int64_t i = 0; i < used; ++i)
      scorers_[static_cast<std::size_t>(i)].score(state_.ranks_of(begin), rows, scores_.data() + i * count_ + begin);
    team.tick(static_cast<std::uint64_t>(rows * used));
  }
}

Collector::Collector(const PermutationIndex::State& state, const Queries& queries, const IndexQuestion& question)
    : question_(question), meter_(queries.meter()), descends_(descending(state.options.metric)),
      entries_(static_cast<std::size_t>(question.k > 0 ? 2 * question.k + 64 : 0)) {}

void Collector::start(std::int64_t query) {
  meter_->start(query);
  if (question_.k == 0) entries_.clear();
  pool_ = {
      .entries = entries_.data(), .count = 0, .k = question_.k, .capacity = static_cast<std::int64_t>(entries_.size())};
}

Entry Collector::entry_of(double value, std::int64_t id) const {
  return {fold_key(descends_ ? -value : value, question_.type, descends_), id};
}

void Collector::look_at(const std::uint32_t* objects, std::int64_t count) {
  double values[meter_block];
  for (std::int64_t begin = 0; begin < count; begin += meter_block) {
    const std::int64_t used = std::min(meter_block, count - begin);
    meter_->measure(objects + begin, used, values);
    for (std::int64_t i = 0; i < used; ++i) {
      const Entry entry = entry_of(values[i], objects[begin + i]);
      if (question_.k > 0) pool_.offer(entry);
      else if (entry.key <= question_.radius) entries_.push_back(entry);
    }
    measured += used;
  }
}

std::span<const Entry> Collector::sorted() {
  trim();
  const std::span<Entry> found(entries_.data(),
                               question_.k > 0 ? static_cast<std::size_t>(pool_.count) : entries_.size());
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return before(a, b); });
  return found;
}

void Collector::measure_zeros(std::vector<Entry>& entries) {
  for (Entry& entry : entries) {
    if (entry.key != 0) continue;
    const auto object = static_cast<std::uint32_t>(entry.id);
    double value;
    meter_->measure(&object, 1, &value);
    entry = entry_of(value, entry.id);
  }
}

IndexSearch::IndexSearch(const PermutationIndex::State& state, const Queries& queries, const IndexQuestion& question,
                         const cpu::Scores& kernels, std::int64_t batch)
    : state_(state), question_(question), kernels_(kernels), count_(state.objects().count()),
      collector_(state, queries, question), scan_(state, kernels, batch),
      objects_(static_cast<std::size_t>(question.candidates) + 1) {}

/// What the bounds leave of all objects at the limit of the moment, by rank; once fewer are needed for the answer, fewer are left.
void IndexSearch::look_within(std::int64_t query) {
  BoundTest test(*state_.bounds, state_.objects().true_distance());
  const auto start = [&] {
    test.start(scan_.distances(query), state_.objects().true_distance().of(collector_.limit(), question_.type).high);
  };
  start();
  survivors_.resize(static_cast<std::size_t>(count_));
  const std::int64_t left = test.within(kernels_, 0, count_, survivors_.data());
  survivors_.resize(static_cast<std::size_t>(left));
  counts_.candidates += left;
  // Those that were looked at before are in the pool, or beyond it. Both lists ascend.
  std::vector<std::uint32_t> rest;
  std::set_difference(survivors_.begin(), survivors_.end(), objects_.begin(), objects_.end(), std::back_inserter(rest));
  if (question_.k == 0) return collector_.look_at(rest.data(), static_cast<std::int64_t>(rest.size()));
  const std::uint32_t* scores = scan_.scores(query);
  if (left <= count_ / few_survivors)  // else sorting costs more than it saves
    std::sort(rest.begin(), rest.end(), [&](std::uint32_t a, std::uint32_t b) {
      return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
    });
  double tested = collector_.limit();
  bool lower = false;  // than when survivors were told
  for (std::size_t begin = 0; begin < rest.size(); begin += survivors_at_once) {
    const std::size_t end = std::min(rest.size(), begin + survivors_at_once);
    collector_.trim();
    if (collector_.limit() < tested) {
      tested = collector_.limit();
      lower = true;
      start();
    }
    survivors_.assign(rest.begin() + static_cast<std::ptrdiff_t>(begin),
                      rest.begin() + static_cast<std::ptrdiff_t>(end));
    if (lower)
      std::erase_if(survivors_, [&](std::uint32_t object) {
        std::uint32_t number;
        return test.within(kernels_, object, 1, &number) == 0;
      });
    collector_.look_at(survivors_.data(), static_cast<std::int64_t>(survivors_.size()));
  }
}

void IndexSearch::answer_exactly(std::int64_t query) {
  objects_.clear();
  if (!state_.bounds) {
    for (std::int64_t i = 0; i < count_; ++i) objects_.push_back(static_cast<std::uint32_t>(i));
    counts_.candidates += count_;
    return collector_.look_at(objects_.data(), count_);
  }
  if (question_.k > 0) {
    objects_.resize(static_cast<std::size_t>(question_.candidates) + 1);
    cut_.by_counting(scan_.scores(query), count_, state_.layout->largest(), question_.candidates, objects_.data());
    objects_.resize(static_cast<std::size_t>(question_.candidates));
    collector_.look_at(objects_.data(), question_.candidates);
    collector_.trim();
  }
  look_within(query);
}

IndexCounts IndexSearch::run(std::int64_t first, std::int64_t used, Team& team, const Answer& answer) {
  counts_ = {};
  collector_.measured = 0;
  scan_.run(collector_.meter(), first, used, team);
  for (std::int64_t i = 0; i < used; ++i) {
    collector_.start(first + i);
    if (question_.exact) {
      answer_exactly(i);
    } else {
      cut_.by_counting(scan_.scores(i), count_, state_.layout->largest(), question_.candidates, objects_.data());
      counts_.candidates += question_.candidates;
      collector_.look_at(objects_.data(), question_.candidates);
    }
    answer(first + i, collector_.sorted());
    team.tick(0);
  }
  counts_.measured = collector_.measured;
  return counts_;
}

}  // namespace vicinal
