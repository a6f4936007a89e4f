// The host's part of searches of a permutation index keeps ranks and rows on the device between searches, runs queries
// in batches, and answers those for which a sample of the scores told too little once more by all scores.
#pragma once
#include <bit>
#include <cstring>
#include <vector>

#include "backend/ranks.hpp"
#include "core/divide.hpp"
#include "cuda/permutation/measure.cuh"
#include "cuda/permutation/sequence.hpp"
#include "cuda/search/core/prepared.hpp"

namespace vicinal::cuda {

inline constexpr std::int64_t rank_list_bytes = std::int64_t{1} << 30;  // of the lists of a batch

/// Ranks of a batch or of all objects as the kernels read them: [query][words], or [word][pitch] for objects.
inline void pack_ranks(const RankRows& from, std::int64_t first, std::int64_t count, int words, std::int64_t pitch,
                       bool by_word, std::uint32_t* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* row = from.ranks + (first + i) * from.stride;
    for (int w = 0; w < words; ++w) {
      std::uint32_t four = 0;
      const std::int64_t left = from.permutants - 4 * w;
      if (left > 0) std::memcpy(&four, row + 4 * w, static_cast<std::size_t>(std::min<std::int64_t>(left, 4)));
      to[by_word ? w * pitch + i : i * words + w] = four;
    }
  }
}

/// What a word of a list says, on the host.
inline Entry entry_of(std::uint64_t word) {
  const auto bits = static_cast<std::uint32_t>(word >> 32);
  return {static_cast<double>(std::bit_cast<float>((bits >> 31) != 0 ? bits ^ 0x80000000u : ~bits)),
          static_cast<std::int64_t>(word & 0xffffffffu)};
}
inline Entry entry_of(const WideWord& word) {
  return {std::bit_cast<double>((word.key >> 63) != 0 ? word.key ^ 1ull << 63 : ~word.key),
          static_cast<std::int64_t>(word.position)};
}

/// Rows, queries or objects, with what their metric needs, for measure.cuh.
template <class Device>
class RowsBuffers {
 public:
  explicit RowsBuffers(Device& device)
      : device_(device), rows_(device), self_(device), mean_(device), values_(device) {}
  void in(const MeasuredRows& from, std::int64_t first, std::int64_t count) {
    const Points& points = from.rows;
    device_.rows_in(rows_.reserve(bytes_of(points, count)), points.slice(first, count));
    matrix = {.rows = rows_.data(), .dtype = points.dtype, .count = count, .dims = points.cols};
    if (needs_norms(from.metric)) {
      matrix.self = self_.reserve(count);
      device_.in(matrix.self, from.self + first, count * 8);
    }
    if (from.metric == Metric::correlation) {
      matrix.mean = mean_.reserve(count);
      device_.in(matrix.mean, from.mean + first, count * 8);
    }
  }
  void make_values(const Ranking& ranking) {
    Ranking with_values = ranking;
    with_values.queries.values = matrix.values = values_.reserve(matrix.count * matrix.dims);
    device_.launch()(divide_up(matrix.count * matrix.dims, rank_threads), rank_threads, 0, query_values<0>,
                     with_values);
  }
  std::int64_t bytes() const noexcept { return rows_.bytes() + self_.bytes() + mean_.bytes(); }
  static std::int64_t bytes_of(const Points& points, std::int64_t count) {
    return count * points.cols * static_cast<std::int64_t>(dtype_size(points.dtype));
  }
  PreparedMatrix matrix;

 private:
  Device& device_;
  DeviceBuffer<std::byte, Device> rows_;
  DeviceBuffer<double, Device> self_, mean_, values_;
};

template <class Device>
class PreparedRanks final : public PreparedCorpus {
 public:
  /// Rows are kept where they leave a quarter of the memory free.
  PreparedRanks(Device& device, const RankRows& ranks, const std::vector<std::uint32_t>& permutants,
                const MeasuredRows* rows)
      : words(padded_rank_words(ranks.permutants)), count(ranks.count), ranks_(device), permutants_(device),
        objects_(device) {
    constexpr std::int64_t piece = 1 << 16;
    std::uint32_t* const to = ranks_.reserve(words * count);
    std::vector<std::uint32_t> packed(static_cast<std::size_t>(words * std::min(piece, count)));
    for (std::int64_t first = 0; first < count; first += piece) {
      const std::int64_t used = std::min(piece, count - first);
      pack_ranks(ranks, first, used, words, used, true, packed.data());
      for (int w = 0; w < words; ++w) device.in(to + w * count + first, packed.data() + w * used, used * 4);
      device.wait();
    }
    if (rows == nullptr || RowsBuffers<Device>::bytes_of(rows->rows, count) > device.free_bytes() / 4 * 3) return;
    objects_.in(*rows, 0, count);
    device.in(permutants_.reserve(ranks.permutants), permutants.data(), ranks.permutants * 4);
    device.wait();
    holds_rows = true;
    metric = rows->metric;
  }
  std::int64_t bytes() const override { return ranks_.bytes() + objects_.bytes(); }
  const std::uint32_t* ranks() const noexcept { return ranks_.data(); }
  const std::uint32_t* permutants() const noexcept { return permutants_.data(); }
  const PreparedMatrix& rows() const noexcept { return objects_.matrix; }
  bool measures(std::int64_t k) const noexcept { return holds_rows && k >= 1 && k <= most_measured_k; }

  int words;
  std::int64_t count;
  bool holds_rows = false;
  Metric metric = Metric::euclidean;

 private:
  DeviceBuffer<std::uint32_t, Device> ranks_, permutants_;
  RowsBuffers<Device> objects_;
};

/// What a batch clears at first and what comes back at the end, in one piece of
/// memory, so that each is one call: histogram, counts, counters, distances that
/// are not finite, queries that failed, the nearest. The last four come back.
struct BatchLayout {
  std::int64_t counts, counters, not_finite, failed, best, end;  // where each begins; the histogram does at 0
  BatchLayout(std::int64_t queries, std::int64_t bins, std::int64_t best_bytes) {
    const auto after = [](std::int64_t begin, std::int64_t bytes) { return (begin + bytes + 15) / 16 * 16; };
    counts = after(0, queries * bins * 4);
    counters = after(counts, queries * 4);
    not_finite = after(counters, static_cast<std::int64_t>(sizeof(Counters)));
    failed = after(not_finite, 4);
    best = after(failed, queries * 4);
    end = best + best_bytes;
  }
  std::int64_t cleared() const noexcept { return failed; }
  std::int64_t result_bytes() const noexcept { return end - counters; }
};

template <class Device>
class RankSearch {
 public:
  RankSearch(Device& device, const RankSearchSpec& spec, const PreparedRanks<Device>& kept, ThreadPool& thread_pool,
             std::int64_t sample = least_sample)
      : device_(device), spec_(spec), prepared_(kept), thread_pool_(thread_pool), sample_(sample),
        wide_(spec.type != DistanceType::f32), queries_(device), last_(device), equal_taken_(device), below_(device),
        equal_(device), found_(device), selected_(device), list_(device), batch_(device), lists_(device),
        query_rows_(device) {}

  bool run(const CandidatesAnswer& candidates, const NearestAnswer& nearest) {
    const std::int64_t capacity = list_capacity(spec_.candidates, prepared_.count);
    const std::int64_t batch = std::clamp<std::int64_t>(rank_list_bytes / 8 / capacity, 1, 4096);
    for (std::int64_t first = 0; first < spec_.queries.count; first += batch) {
      const std::int64_t count = std::min(batch, spec_.queries.count - first);
      const bool measured = spec_.rows.has_value();
      const std::int64_t bins = spec_.queries.permutants * spec_.queries.permutants / 4 + 1;
      layout_ = BatchLayout(count, bins, measured ? count * spec_.k * word_size(wide_) : 0);
      RanksArgs args = args_of(count, capacity, bins);
      if (measured) load_rows(first, count);
      spec_.queries.ranks != nullptr ? load_ranks(first, count) : rank_permutants(count);
      run_sampled(args, device_.multiprocessors, sample_, device_.launch());
      if (measured) measure(args, nullptr, count);
      fetch_results();
      if (result<std::uint32_t>(layout_.not_finite)[0] > 0) return false;
      std::vector<std::uint32_t> again;
      for (std::int64_t i = 0; i < count; ++i)
        if (result<std::uint32_t>(layout_.failed)[i] != 0) again.push_back(static_cast<std::uint32_t>(i));
      if (!again.empty()) run_exactly(args, again);
      if (measured && !again.empty()) {
        measure(args, again.data(), static_cast<std::int64_t>(again.size()));
        fetch_results();
      }
      if (measured && result<Counters>(layout_.counters)->undefined_keys == 0) {
        answer_nearest(first, count, nearest);
      } else {
        std::vector<std::uint32_t> found(static_cast<std::size_t>(count * spec_.candidates));
        device_.out(found.data(), args.found, count * spec_.candidates * 4);
        device_.wait();
        candidates(first, count, found.data());
      }
      thread_pool_.poll(static_cast<std::uint64_t>(count * prepared_.count));
    }
    return true;
  }

 private:
  RanksArgs args_of(std::int64_t count, std::int64_t capacity, std::int64_t bins) {
    std::byte* const batch = batch_.reserve(layout_.end);
    device_.zero(batch, layout_.cleared());
    RanksArgs args{.objects = prepared_.ranks(),
                   .pitch = prepared_.count,
                   .count = prepared_.count,
                   .queries = queries_.reserve(count * prepared_.words),
                   .query_count = count,
                   .words = prepared_.words};
    args.candidates = spec_.candidates;
    args.bins = static_cast<std::uint32_t>(bins);
    args.strips = strips_of(prepared_.count);
    args.histogram = reinterpret_cast<std::uint32_t*>(batch);
    args.last = last_.reserve(count);
    args.found = found_.reserve(count * args.candidates);
    args.capacity = capacity;
    args.counts = at<std::uint32_t>(layout_.counts);
    args.failed = at<std::uint32_t>(layout_.failed);
    args.list = list_.reserve(count * capacity);
    return args;
  }
  template <class T>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(batch_.data() + offset);
  }
  template <class T>
  const T* result(std::int64_t offset) const {
    return reinterpret_cast<const T*>(results_.data() + (offset - layout_.counters));
  }
  void fetch_results() {
    results_.resize(static_cast<std::size_t>(layout_.result_bytes()));
    device_.out(results_.data(), batch_.data() + layout_.counters, layout_.result_bytes());
    device_.wait();
  }

  void load_ranks(std::int64_t first, std::int64_t count) {
    std::vector<std::uint32_t> packed(static_cast<std::size_t>(count * prepared_.words));
    pack_ranks(spec_.queries, first, count, prepared_.words, 0, false, packed.data());
    device_.in(queries_.data(), packed.data(), count * prepared_.words * 4);
    device_.wait();
  }
  void rank_permutants(std::int64_t count) {
    OrderQueries orders{.ranking = ranking_,
                        .permutants = prepared_.permutants(),
                        .count = static_cast<int>(spec_.queries.permutants),
                        .words = prepared_.words,
                        .queries = queries_.data(),
                        .not_finite = at<unsigned>(layout_.not_finite)};
    orders.ranking.type = DistanceType::f64;
    device_.launch()(count, rank_threads, 0, order_queries<0>, orders);
  }

  /// Candidates of some queries from the counts of all scores, a few queries at a time.
  void run_exactly(const RanksArgs& args, const std::vector<std::uint32_t>& which) {
    constexpr std::int64_t at_once = 64;
    const std::int64_t words = args.words;
    for (std::size_t begin = 0; begin < which.size(); begin += at_once) {
      const auto used = std::min<std::int64_t>(at_once, static_cast<std::int64_t>(which.size() - begin));
      DeviceBuffer<std::uint32_t, Device> queries(device_), found(device_);
      RanksArgs part = args;
      part.query_count = used;
      part.queries = queries.reserve(used * words);
      part.found = found.reserve(used * args.candidates);
      part.equal_taken = equal_taken_.reserve(used);
      part.below = below_.reserve(used * args.strips);
      part.equal = equal_.reserve(used * args.strips);
      device_.zero(part.histogram, used * std::int64_t{args.bins} * 4);
      device_.zero(part.below, used * args.strips * 4);
      device_.zero(part.equal, used * args.strips * 4);
      for (std::int64_t i = 0; i < used; ++i)
        device_.copy(queries.data() + i * words, args.queries + which[begin + static_cast<std::size_t>(i)] * words,
                     words * 4);
      run_footrule(part, 8 * device_.multiprocessors, device_.launch());
      for (std::int64_t i = 0; i < used; ++i)
        device_.copy(args.found + which[begin + static_cast<std::size_t>(i)] * args.candidates,
                     part.found + i * args.candidates, args.candidates * 4);
      device_.wait();
    }
  }

  /// The queries' rows.
  void load_rows(std::int64_t first, std::int64_t count) {
    query_rows_.in(*spec_.rows, first, count);
    ranking_ = {.rows = prepared_.rows(),
                .queries = query_rows_.matrix,
                .metric = prepared_.metric,
                .type = spec_.type,
                .first_row = 0,
                .counters = at<Counters>(layout_.counters)};
    query_rows_.make_values(ranking_);
    ranking_.queries = query_rows_.matrix;
  }

  /// selected: queries, or null for the first `count`, without those that failed.
  void measure(const RanksArgs& args, const std::uint32_t* selected, std::int64_t count) {
    Measure m{.ranking = ranking_,
              .found = args.found,
              .candidates = args.candidates,
              .k = spec_.k,
              .words = measure_words(spec_.k),
              .count = count,
              .parts = measure_parts(count, args.candidates, spec_.k, device_.multiprocessors),
              .best = at<std::byte>(layout_.best)};
    if (m.parts > 1) m.lists = lists_.reserve(count * m.parts * m.k * word_size(wide_));
    if (selected != nullptr) {
      device_.in(selected_.reserve(count), selected, count * 4);
      m.selected = selected_.data();
    } else {
      m.failed = args.failed;
    }
    wide_ ? run_measure<Wide>(m) : run_measure<Packed>(m);
  }
  template <class Form>
  void run_measure(const Measure& m) {
    constexpr auto size = static_cast<std::int64_t>(sizeof(typename Form::Word));
    const std::int64_t dims = m.ranking.rows.dims, values = dims <= most_query_values ? dims * 8 : 0;
    device_.launch()(m.count * m.parts, rank_threads, m.words * size + values, measure_candidates<Form>, m);
    if (m.parts > 1)
      device_.launch()(m.count, rank_threads,
                       std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(64, m.parts * m.k))) * size,
                       merge_parts<Form>, m);
  }

  template <class Word>
  void answer(std::int64_t first, std::int64_t count, const NearestAnswer& nearest) {
    const std::int64_t k = spec_.k, used = std::min(k, spec_.candidates);
    const auto* words = result<Word>(layout_.best);
    std::vector<Entry> entries(static_cast<std::size_t>(used));
    for (std::int64_t query = 0; query < count; ++query) {
      for (std::int64_t i = 0; i < used; ++i) entries[static_cast<std::size_t>(i)] = entry_of(words[query * k + i]);
      nearest(first + query, entries);
    }
  }
  void answer_nearest(std::int64_t first, std::int64_t count, const NearestAnswer& nearest) {
    wide_ ? answer<WideWord>(first, count, nearest) : answer<std::uint64_t>(first, count, nearest);
  }

  Device& device_;
  const RankSearchSpec& spec_;
  const PreparedRanks<Device>& prepared_;
  ThreadPool& thread_pool_;
  std::int64_t sample_;
  bool wide_;
  DeviceBuffer<std::uint32_t, Device> queries_, last_, equal_taken_, below_, equal_, found_, selected_;
  DeviceBuffer<unsigned long long, Device> list_;
  DeviceBuffer<std::byte, Device> batch_, lists_;
  BatchLayout layout_{0, 0, 0};
  RowsBuffers<Device> query_rows_;
  Ranking ranking_;
  std::vector<std::byte> results_;
};

}  // namespace vicinal::cuda
