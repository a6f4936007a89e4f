// A search of vectors by the device's code on the emulator, for the tests of src/cuda/search: its device, and an answer beside the CPU's.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "cuda/search/session.hpp"
#include "cuda/select/merge.cuh"
#include "pipeline/certify.hpp"
#include "unit/cuda/emulated_device.hpp"
#include "vicinal/search.hpp"

namespace emulated_search {

using namespace vicinal;

/// What a search launched, of what tells how it went.
struct Launches {
  std::int64_t guessed = 0, reestimated = 0, proved = 0,
               gathered = 0;  // thresholds of a sample or of a first part, and rows of queries that were searched again
  std::int64_t symmetric = 0;             // filters whose tiles serve both sides
  std::int64_t slabs = 0, two_bytes = 0;  // filters of rows of several slabs, and refinements of what they left
};

/// With what a search of vectors asks for besides.
struct Device : emulated::Device {
  struct Launch {
    Device* device;
    template <class Args>
    void operator()(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
                    const std::type_identity_t<Args>& args) const {
      if (shared > device->shared_bytes)
        fail(ErrorCode::device_error, cat("a kernel was refused ", shared, " bytes of shared memory"));
      if constexpr (std::is_same_v<Args, cuda::InitialThresholds>) ++device->seen.proved;
      if constexpr (std::is_same_v<Args, cuda::SpeculativeThresholds>) ++device->seen.guessed;
      if constexpr (std::is_same_v<Args, cuda::ReestimatedThresholds>) ++device->seen.reestimated;
      if constexpr (std::is_same_v<Args, cuda::GatherRows>) device->seen.gathered += blocks;
      if constexpr (std::is_same_v<Args, cuda::Filter>)
        device->seen.slabs +=
            kernel == cuda::filter_int8_wgmma_slabs<1, false> || kernel == cuda::filter_int8_wgmma_slabs<3, false> ? 1
                                                                                                                   : 0;
      if constexpr (std::is_same_v<Args, cuda::Filter>) device->seen.symmetric += args.serves_both() ? 1 : 0;
      if constexpr (std::is_same_v<Args, cuda::SearchArgs>)
        device->seen.two_bytes += kernel == cuda::refine_candidates ? 1 : 0;
      std::type_identity_t<Args> given = args;
      if constexpr (std::is_same_v<Args, cuda::Finish>) {
        given.speculative = given.speculative && !device->unchecked;
        if (device->repeats) {  // packed words
          auto* const best = static_cast<std::uint64_t*>(args.args.best);
          best[1] = best[0];
        }
      }
      device->launches(blocks, threads, shared, kernel, given);
    }
    template <class Args>
    void next(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
              const std::type_identity_t<Args>& args) const {
      (*this)(blocks, threads, shared, kernel, args);
    }
  };
  int multiprocessors = 3;
  std::int64_t shared_bytes = 227 << 10;  // that a block may have
  std::int64_t packed_rows = cuda::most_packed_rows;
  cuda::SpeculationRule speculation{.any_k_queries = 0};  // tests that are of guesses ask for them
  Launches seen;
  bool unchecked = false;  // guesses of thresholds are not verified
  bool repeats = false;    // the first list names its first row twice

  Launch launch() { return {this}; }
  cuda::FilterSet usable = cuda::built_filters("80-virtual", 80);
  const cuda::FilterSet& filters() const { return usable; }
  std::byte* take_shared(std::int64_t bytes) { return static_cast<std::byte*>(take(bytes)); }
  void give_shared(void* memory) { give(memory); }
  std::vector<std::byte> words_of_both = std::vector<std::byte>(256);
  void* reached_by_both(std::int64_t bytes) {
    return bytes <= std::ssize(words_of_both) ? words_of_both.data() : nullptr;
  }
  std::int64_t free_bytes() const { return std::int64_t{1} << 33; }
  bool holds(const void* memory) const {
    const auto after = held.upper_bound(const_cast<void*>(memory));
    if (after == held.begin()) return false;
    const auto& [at, bytes] = *std::prev(after);
    return memory == at || static_cast<const std::byte*>(memory) < static_cast<const std::byte*>(at) + bytes;
  }
  std::int64_t select_bytes(const cuda::SelectArgs& /*task*/) const { return 1; }
  void select(const cuda::SelectArgs& task, void* /*workspace*/) const {
    for (std::int64_t r = 0; r < task.values.rows; ++r) {
      const auto run = [&](auto zero) {
        using T = decltype(zero);
        const auto* row =
            reinterpret_cast<const T*>(static_cast<const std::byte*>(task.values.data) + r * task.values.row_stride);
        std::vector<std::int64_t> at(static_cast<std::size_t>(task.values.cols));
        for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int64_t>(i);
        std::stable_sort(at.begin(), at.end(), [&](std::int64_t a, std::int64_t b) { return row[a] < row[b]; });
        for (std::int64_t i = 0; i < task.k; ++i) {
          task.out.ids[r * task.k + i] = at[static_cast<std::size_t>(i)];
          static_cast<T*>(task.out.values)[r * task.k + i] = row[at[static_cast<std::size_t>(i)]];
        }
      };
      task.values.type == ValueType::f64 ? run(0.0) : run(0.0F);
    }
  }
};

struct Ask {
  KnnOptions options;
  std::int64_t chunk = INT64_MAX;
  bool filter = true;
  std::int64_t slots = 500;
  bool graph = false;
  Precision precision = Precision::int8;
  bool on_device = false;  // results stay on the device
  std::int64_t query_shift =
      -1;  // queries of floats lie on the device, so many elements behind what is aligned; -1: on the host
  std::int64_t packed_rows = cuda::most_packed_rows, shared_bytes = 227 << 10;
  bool wgmma = false;  // on a device of compute capability 9.0
  cuda::SpeculationRule speculation = {.any_k_queries = 0};
  bool unchecked = false, repeats = false;
  int multiprocessors = 3;
  bool symmetric = false;  // of a graph tiles serve both of their sides
};

struct Answer {
  Neighbors result;
  Stats stats;
  double largest = 0;                                                  // error that was proved
  std::int64_t redone = 0, planned_bytes = INT64_MAX, used_bytes = 0;  // bytes: of the precision that is asked for
  Launches launches;
  bool all_proved = false;  // as the session says in place of each query's bounds
};

/// The corpus past a session, in chunks of so many rows or whole.
inline void sweep(Session& session, std::int64_t rows, std::int64_t chunk) {
  for (std::int64_t first = 0; first < rows; first += chunk) {
    // As the pipeline does it: the next chunk is on its way while this one is searched.
    for (std::int64_t next = first; chunk < rows && next < std::min(rows, first + 2 * chunk); next += chunk)
      session.expect_corpus(next, std::min(chunk, rows - next));
    session.prepare_corpus(first, std::min(chunk, rows - first));
    session.filter();
    session.select();
    session.rerank();
    if (chunk > rows) break;
  }
}

/// The precision where it is asked for, then the canonical one for what is left.
inline Answer by_device(const Points& corpus, const Points& queries, const Ask& ask) {
  const KnnOptions& options = ask.options;
  SearchSpec spec{.corpus = corpus,
                  .metric = options.metric,
                  .type = ask.options.distance_type == DistanceType::automatic && counts(options.metric)
                              ? DistanceType::u32
                          : corpus.dtype == DType::f64 ? DistanceType::f64
                                                       : DistanceType::f32,
                  .degenerate = options.degenerate,
                  .k = std::min(options.k, corpus.rows),
                  .first_id = options.first_id,
                  .filter = RowFilter(options.eligible, corpus.rows, options.first_id, ask.graph),
                  .symmetric = ask.symmetric};
  if (spec.filter.uniform() && queries.rows > 0) spec.k = std::min(spec.k, spec.filter.count(0));
  Answer answer;
  answer.result = Neighbors(queries.rows, options.k, spec.type, options.pad);
  Plan plan;
  plan.cascade = {precision_name(ask.precision), "canonical"};
  plan.candidate_slots = ask.slots;
  plan.query_batch = queries.rows;
  plan.corpus_chunk = std::min(ask.chunk, corpus.rows);
  plan.distance_type = spec.type;
  plan.threads = 1;
  plan.symmetric = ask.symmetric;
  const ProblemShape problem{.corpus = {corpus.rows, corpus.cols, corpus.dtype},
                             .queries = {queries.rows, queries.cols, queries.dtype},
                             .metric = options.metric,
                             .k = std::min(options.k, corpus.rows),
                             .filter_bytes = RowFilter::bytes(options.eligible, corpus.rows)};
  ThreadPool thread_pool(1, nullptr, {}, 1);
  Device device;
  device.packed_rows = ask.packed_rows;
  device.shared_bytes = ask.shared_bytes;
  device.speculation = ask.speculation;
  device.unchecked = ask.unchecked;
  device.repeats = ask.repeats;
  device.multiprocessors = ask.multiprocessors;
  if (ask.wgmma) {
    device.usable = cuda::built_filters("90a-real", 90);
    plan.instruction_set = "wgmma";
  }
  Points asked = queries;
  float* shifted = nullptr;
  if (ask.query_shift >= 0) {
    shifted = static_cast<float*>(device.take((queries.rows * queries.cols + ask.query_shift) * 4));
    std::memcpy(shifted + ask.query_shift, queries.data, static_cast<std::size_t>(queries.rows * queries.cols * 4));
    asked = Points(shifted + ask.query_shift, DType::f32, queries.rows, queries.cols);
  }
  NeighborsView out = answer.result.view();
  const std::int64_t entries = queries.rows * options.k,
                     bytes = entries * static_cast<std::int64_t>(distance_size(spec.type));
  if (ask.on_device) {
    out.ids = static_cast<std::int64_t*>(device.take(entries * 8));
    out.distances = device.take(bytes);
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < queries.rows; ++i) rows.push_back(i);
  for (const Precision precision : {ask.precision, Precision::canonical}) {
    if (rows.empty() || (precision != Precision::canonical && !ask.filter)) continue;
    cuda::CudaSession<Device> session(device, spec, plan, precision, nullptr, thread_pool, answer.stats);
    session.prepare_queries(asked, rows);
    sweep(session, corpus.rows, ask.chunk);
    std::vector<double> verified_radius(rows.size()), largest(rows.size());
    std::vector<std::int64_t> found(rows.size());
    bool all_proved = false;
    const BoundsView bounds{verified_radius.data(), largest.data(), found.data(), &all_proved};
    session.finish(out, bounds);
    rows = all_proved ? std::vector<std::int64_t>() : certify(out, spec, rows, bounds, thread_pool);
    std::sort(rows.begin(), rows.end());
    if (precision == Precision::canonical) continue;
    answer.redone = static_cast<std::int64_t>(rows.size());
    answer.planned_bytes = cuda::session_bytes(plan, problem, 0, device.multiprocessors, device.packed_rows);
    answer.used_bytes = device.most_held;
    answer.launches = device.seen;
    answer.all_proved = all_proved;
    answer.largest = *std::max_element(largest.begin(), largest.end());
  }
  if (ask.on_device) {
    device.out(answer.result.view().ids, out.ids, entries * 8);
    device.out(answer.result.view().distances, out.distances, bytes);
    device.wait();
    device.give(out.ids);
    device.give(out.distances);
  }
  if (shifted != nullptr) device.give(shifted);
  EXPECT_TRUE(rows.empty());
  return answer;
}

inline std::vector<float> gaussian(unsigned seed, std::int64_t count, double offset = 0, double spread = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(offset + spread * normal(random));
  return values;
}

inline void expect_same(const Neighbors& got, const Neighbors& want) {
  ASSERT_EQ(got.rows(), want.rows());
  const std::int64_t all = got.rows() * got.k();
  for (std::int64_t i = 0; i < all; ++i)
    ASSERT_EQ(got.ids()[i], want.ids()[i]) << "row " << i / got.k() << ", rank " << i % got.k();
  ASSERT_EQ(std::memcmp(got.distances(), want.distances(), static_cast<std::size_t>(all) * distance_size(got.type())),
            0);
}

inline void compare(const Points& corpus, const Points& queries, Ask ask, std::int64_t most_redone = 0) {
  const Answer got = by_device(corpus, queries, ask);
  KnnOptions options = ask.options;
  options.run.device = "cpu";
  options.proof = Proof::exhaustive;
  expect_same(got.result, knn(corpus, queries, options));
  EXPECT_LE(got.redone, most_redone);
  EXPECT_LE(got.used_bytes, got.planned_bytes);
}

inline Points view(const std::vector<float>& values, std::int64_t dims) {
  return Points(values.data(), DType::f32, static_cast<std::int64_t>(values.size()) / dims, dims);
}

/// Everything within a radius, as src/pipeline/range.cpp asks for it. room: Plan::match_bytes; queries that it leaves out are searched again.
inline std::int64_t compare_range(const Points& corpus, const Points& queries, double radius, const Ask& ask,
                                  std::int64_t room) {
  RangeOptions options{.search = ask.options};
  options.search.run.device = "cpu";
  options.search.proof = Proof::exhaustive;
  const CsrNeighbors want = range_search(corpus, queries, radius, options);
  const SearchSpec spec{.corpus = corpus,
                        .metric = ask.options.metric,
                        .type = want.type(),
                        .degenerate = ask.options.degenerate,
                        .first_id = ask.options.first_id,
                        .filter = RowFilter(ask.options.eligible, corpus.rows, ask.options.first_id, false),
                        .radius = radius};
  Plan plan;
  plan.cascade = {"int8", "canonical"};
  plan.query_batch = queries.rows;
  plan.threads = 1;
  plan.match_bytes = room;
  ThreadPool thread_pool(1, nullptr, {}, 1);
  Device device;
  device.packed_rows = ask.packed_rows;
  Stats stats;
  cuda::CudaSession<Device> session(device, spec, plan, ask.filter ? ask.precision : Precision::canonical, nullptr,
                                    thread_pool, stats);
  std::vector<std::int64_t> rows, counts(static_cast<std::size_t>(queries.rows)), begin(counts.size());
  for (std::int64_t i = 0; i < queries.rows; ++i) rows.push_back(i);
  session.prepare_queries(queries, rows);
  sweep(session, corpus.rows, ask.chunk);
  std::vector<bool> overflowed(counts.size());
  session.counts(counts, overflowed);
  for (std::size_t i = 0; i < counts.size(); ++i)
    EXPECT_EQ(counts[i], want.count(static_cast<std::int64_t>(i))) << "query " << i;
  CsrNeighbors got(queries.rows, want.entries(), want.type());
  if (testing::Test::HasFailure()) return 0;
  std::vector<double> verified_radius(rows.size()), largest(rows.size());
  std::vector<std::int64_t> again, again_begin, again_count;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    begin[i] = want.offsets()[i];
    if (!overflowed[i]) continue;
    again.push_back(static_cast<std::int64_t>(i));
    again_begin.push_back(begin[i]);
    again_count.push_back(std::exchange(counts[i], 0));
  }
  session.finish_range({got.ids(), got.distances(), want.type(), begin, counts},
                       {verified_radius.data(), largest.data()});
  if (!again.empty()) {
    const RangeView places{got.ids(), got.distances(), want.type(), again_begin, again_count};
    session.prepare_queries(queries, again);
    session.write_matches_to(places);
    sweep(session, corpus.rows, ask.chunk);
    session.finish_range(places, {verified_radius.data(), largest.data()});
  }
  const auto all = static_cast<std::size_t>(want.entries());
  EXPECT_EQ(std::memcmp(got.ids(), want.ids(), all * 8), 0);
  EXPECT_EQ(std::memcmp(got.distances(), want.distances(), all * distance_size(want.type())), 0);
  EXPECT_EQ(stats.underflowed, want.stats.underflowed);
  return static_cast<std::int64_t>(again.size());
}

/// VICINAL_TEST_SCALE asks for a part.
inline bool sampled() {
  const char* scale = std::getenv("VICINAL_TEST_SCALE");
  return scale != nullptr && std::atof(scale) < 1;
}

}  // namespace emulated_search
