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
    for (std::int64_t p = 0; p < width_; ++p)
      if (!std::isfinite(distances[p]))
        fail(ErrorCode::range_error, cat("query ", first + i, ": a distance leaves f64; scale the rows first"));
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

IndexSearch::IndexSearch(const PermutationIndex::State& state, const Queries& queries, const IndexQuestion& question,
                         const cpu::Scores& kernels, std::int64_t batch)
    : state_(state), question_(question), kernels_(kernels), count_(state.objects().count()), meter_(queries.meter()),
      scan_(state, kernels, batch), objects_(static_cast<std::size_t>(question.candidates) + 1),
      entries_(static_cast<std::size_t>(question.k > 0 ? 2 * question.k + 64 : 0)),
      descends_(descending(state.options.metric)) {}

/// Entries with a key above are of no use.
double IndexSearch::limit() const noexcept { return question_.k > 0 ? pool_.worst.key : question_.radius; }

void IndexSearch::look_at(const std::uint32_t* objects, std::int64_t count) {
  double values[meter_block];
  for (std::int64_t begin = 0; begin < count; begin += meter_block) {
    const std::int64_t used = std::min(meter_block, count - begin);
    meter_->measure(objects + begin, used, values);
    for (std::int64_t i = 0; i < used; ++i) {
      const double value = descends_ ? -values[i] : values[i];
      const Entry entry{fold_key(value, question_.type, descends_), std::int64_t{objects[begin + i]}};
      if (question_.k > 0) pool_.offer(entry);
      else if (entry.key <= question_.radius) entries_.push_back(entry);
    }
    counts_.measured += used;
  }
}

/// What the bounds leave of all objects at the limit of the moment, by rank; once fewer are needed for the answer, fewer are left.
void IndexSearch::look_within(std::int64_t query) {
  BoundTest test(*state_.bounds, state_.objects().true_distance());
  const auto start = [&] {
    test.start(scan_.distances(query), state_.objects().true_distance().of(limit(), question_.type).high);
  };
  start();
  survivors_.resize(static_cast<std::size_t>(count_));
  const std::int64_t left = test.within(kernels_, 0, count_, survivors_.data());
  survivors_.resize(static_cast<std::size_t>(left));
  counts_.candidates += left;
  // Those that were looked at before are in the pool, or beyond it. Both lists ascend.
  std::vector<std::uint32_t> rest;
  std::set_difference(survivors_.begin(), survivors_.end(), objects_.begin(), objects_.end(), std::back_inserter(rest));
  if (question_.k == 0) return look_at(rest.data(), static_cast<std::int64_t>(rest.size()));
  const std::uint32_t* scores = scan_.scores(query);
  if (left <= count_ / few_survivors)  // else sorting costs more than it saves
    std::sort(rest.begin(), rest.end(), [&](std::uint32_t a, std::uint32_t b) {
      return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
    });
  double tested = limit();
  bool lower = false;  // than when survivors were told
  for (std::size_t begin = 0; begin < rest.size(); begin += survivors_at_once) {
    const std::size_t end = std::min(rest.size(), begin + survivors_at_once);
    pool_.trim();
    if (limit() < tested) {
      tested = limit();
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
    look_at(survivors_.data(), static_cast<std::int64_t>(survivors_.size()));
  }
}

void IndexSearch::answer_exactly(std::int64_t query) {
  objects_.clear();
  if (!state_.bounds) {
    for (std::int64_t i = 0; i < count_; ++i) objects_.push_back(static_cast<std::uint32_t>(i));
    counts_.candidates += count_;
    return look_at(objects_.data(), count_);
  }
  if (question_.k > 0) {
    objects_.resize(static_cast<std::size_t>(question_.candidates) + 1);
    cut_.by_counting(scan_.scores(query), count_, state_.layout->largest(), question_.candidates, objects_.data());
    objects_.resize(static_cast<std::size_t>(question_.candidates));
    look_at(objects_.data(), question_.candidates);
    pool_.trim();
  }
  look_within(query);
}

IndexCounts IndexSearch::run(std::int64_t first, std::int64_t used, Team& team, const Answer& answer) {
  counts_ = {};
  scan_.run(*meter_, first, used, team);
  for (std::int64_t i = 0; i < used; ++i) {
    meter_->start(first + i);
    pool_ = {.entries = entries_.data(),
             .count = 0,
             .k = question_.k,
             .capacity = static_cast<std::int64_t>(entries_.size())};
    if (question_.k == 0) entries_.clear();
    if (question_.exact) {
      answer_exactly(i);
    } else {
      cut_.by_counting(scan_.scores(i), count_, state_.layout->largest(), question_.candidates, objects_.data());
      counts_.candidates += question_.candidates;
      look_at(objects_.data(), question_.candidates);
    }
    if (question_.k > 0) pool_.trim();
    const std::span<Entry> found(entries_.data(),
                                 question_.k > 0 ? static_cast<std::size_t>(pool_.count) : entries_.size());
    std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return before(a, b); });
    answer(first + i, found);
    team.tick(0);
  }
  return counts_;
}

}  // namespace vicinal
