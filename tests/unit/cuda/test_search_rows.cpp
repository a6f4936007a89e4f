// Searches on the emulated device of corpora with more rows than the 32 bits of a packed word name: of a real one,
// whose rows are memory that nobody touches but for three runs of them, and of small ones on a device that takes wide
// words early.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "unit/cuda/emulated_search.hpp"

namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

/// Zeros, of which only pages that are written take memory.
class Sparse {
 public:
  explicit Sparse(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::runtime_error("no address space for " + std::to_string(bytes) + " bytes");
  }
  ~Sparse() { munmap(data_, bytes_); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t bytes_;
  void* data_;
};

constexpr std::int64_t beyond = std::int64_t{1} << 32, rows = beyond + 5000, dims = 2;

/// A corpus of `rows` rows, of which a search is shown three runs: at the first row, across row 2^32, and beyond it.
/// The i-th row of each run is the same for two of three i, and all are whole numbers, so that ties fall within runs
/// and between them, also of row i with row 2^32 + i.
class ManyRows {
 public:
  explicit ManyRows(std::int64_t run) : run_(run), memory_(rows * dims), firsts_{0, beyond - run / 2, beyond + 3000} {
    std::mt19937 random(1);
    auto* bytes = memory_.as<std::uint8_t>();
    for (std::int64_t i = 0; i < run; ++i)
      for (std::int64_t c = 0; c < dims; ++c) {
        const auto value = static_cast<std::uint8_t>(random() % 24);
        for (const std::int64_t first : firsts_)
          bytes[(first + i) * dims + c] = i % 3 == 0 ? static_cast<std::uint8_t>(random() % 24) : value;
      }
    std::copy_n(bytes + beyond * dims, run / 2 * dims, bytes);
    for (const std::int64_t first : firsts_)
      seen_.insert(seen_.end(), bytes + first * dims, bytes + (first + run) * dims);
  }
  Points all() const { return {memory_.as<std::uint8_t>(), DType::u8, rows, dims}; }
  /// The rows of the runs alone, and which row of the corpus one of them is.
  Points seen() const { return {seen_.data(), DType::u8, 3 * run_, dims}; }
  std::int64_t row_of(std::int64_t at) const { return at < 0 ? at : firsts_[at / run_] + at % run_; }
  void pass(Session& session) const {
    for (const std::int64_t first : firsts_) {
      session.prepare_corpus(first, run_);
      session.filter();
      session.select();
      session.rerank();
    }
  }
  Plan plan(std::int64_t queries, Precision precision) const {
    Plan plan;
    plan.cascade = {precision_name(precision), "canonical"};
    plan.candidate_slots = 1000;
    plan.query_batch = queries;
    plan.corpus_chunk = run_;
    plan.threads = 1;
    plan.match_bytes = 1 << 20;
    return plan;
  }

 private:
  std::int64_t run_;
  Sparse memory_;
  std::int64_t firsts_[3];
  std::vector<std::uint8_t> seen_;
};

/// Rows of `queries`, which has the results of the batch in the rows of their numbers.
void expect_nearest(const ManyRows& corpus, const Points& queries, const std::vector<std::int64_t>& numbers,
                    std::int64_t k, Metric metric, Precision precision, bool graph) {
  const SearchSpec spec{.corpus = corpus.all(),
                        .metric = metric,
                        .degenerate = Degenerate::one,
                        .k = k,
                        .first_id = graph ? 0 : 5,
                        .filter = RowFilter({}, rows, graph ? 0 : 5, graph)};
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Plan plan = corpus.plan(count, precision);
  ThreadPool thread_pool(1, nullptr, {}, 1);
  Device device;
  Stats stats;
  const Sparse ids(queries.rows * k * 8), distances(queries.rows * k * 4);
  std::vector<double> verified_radius(numbers.size()), largest(numbers.size());
  {
    cuda::CudaSession<Device> session(device, spec, plan, precision, nullptr, thread_pool, stats);
    session.prepare_queries(queries, numbers);
    corpus.pass(session);
    session.finish({ids.as<std::int64_t>(), distances.as<float>(), DistanceType::f32, queries.rows, k},
                   {verified_radius.data(), largest.data()});
  }
  KnnOptions options{.k = k + 1, .metric = metric, .degenerate = Degenerate::one};
  options.run.device = "cpu";
  options.proof = Proof::exhaustive;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = numbers[static_cast<std::size_t>(i)];
    ASSERT_GT(verified_radius[static_cast<std::size_t>(i)], -infinite) << "query " << number;
    const Neighbors want = knn(corpus.seen(), queries.slice(number, 1), options);
    std::int64_t at = 0;
    for (std::int64_t rank = 0; rank < k; ++rank, ++at) {
      if (graph && corpus.row_of(want.id(0, at)) == number) ++at;
      ASSERT_EQ(ids.as<std::int64_t>()[number * k + rank], spec.first_id + corpus.row_of(want.id(0, at)))
          << "query " << number << ", rank " << rank;
      ASSERT_EQ(distances.as<float>()[number * k + rank], want.distance(0, at))
          << "query " << number << ", rank " << rank;
    }
  }
}

const std::vector<std::uint8_t> asked = {1, 0, 3, 4, 11, 12, 23, 1, 7, 7, 12, 23};
Points asked_rows() { return {asked.data(), DType::u8, 6, dims}; }

TEST(CudaManyRows, IdsAndTiesBeyond32Bits) {
  const ManyRows corpus(300);
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine})
    for (const Precision precision : {Precision::int8, Precision::f32, Precision::canonical})
      for (const std::int64_t k : {1, 40}) {
        if (sampled() && (metric == Metric::cosine) != (precision == Precision::f32)) continue;
        SCOPED_TRACE(std::string(metric_info(metric).name) + " " + precision_name(precision) + ", k " +
                     std::to_string(k));
        expect_nearest(corpus, asked_rows(), {0, 1, 2, 3, 4, 5}, k, metric, precision, false);
      }
}

TEST(CudaManyRows, ListsOfEveryLength) {
  // Sorted whole, cut before they are sorted, and kept in global memory.
  const ManyRows corpus(1100);
  for (const std::int64_t k : {300, 2100})
    for (const Precision precision : {Precision::int8, Precision::canonical}) {
      if (sampled() && precision == Precision::canonical) continue;
      SCOPED_TRACE(precision_name(precision) + ", k " + std::to_string(k));
      expect_nearest(corpus, asked_rows().slice(0, 2), {0, 1}, k, Metric::euclidean, precision, false);
    }
}

TEST(CudaManyRows, GraphsWhoseQueriesAreRowsBeyond32Bits) {
  const ManyRows corpus(300);
  const std::vector<std::vector<std::int64_t>> batches{{beyond + 5, beyond + 6, beyond + 7},
                                                       {5, beyond - 1, beyond + 3005}};  // adjacent, and not
  for (const Precision precision : {Precision::int8, Precision::canonical})
    for (const auto& numbers : batches)
      expect_nearest(corpus, corpus.all(), numbers, 3, Metric::euclidean, precision, true);
}

TEST(CudaManyRows, MatchesWithinARadius) {
  const ManyRows corpus(300);
  const Points queries = asked_rows();
  for (const Precision precision : {Precision::int8, Precision::canonical}) {
    RangeOptions options;
    options.search.run.device = "cpu";
    const CsrNeighbors want = range_search(corpus.seen(), queries, 2, options);
    ASSERT_GT(want.entries(), 20);
    const SearchSpec spec{
        .corpus = corpus.all(), .first_id = 5, .filter = RowFilter({}, rows, 5, false), .radius = 2.0};
    const Plan plan = corpus.plan(queries.rows, precision);
    ThreadPool thread_pool(1, nullptr, {}, 1);
    Device device;
    Stats stats;
    cuda::CudaSession<Device> session(device, spec, plan, precision, nullptr, thread_pool, stats);
    const std::vector<std::int64_t> numbers{0, 1, 2, 3, 4, 5};
    session.prepare_queries(queries, numbers);
    corpus.pass(session);
    std::vector<std::int64_t> counts(6), begin(6), ids(static_cast<std::size_t>(want.entries()));
    std::vector<float> distances(ids.size());
    std::vector<bool> overflowed(6);
    session.counts(counts, overflowed);
    for (std::size_t i = 0; i < 6; ++i) {
      ASSERT_FALSE(overflowed[i]);
      ASSERT_EQ(counts[i], want.count(static_cast<std::int64_t>(i)));
      begin[i] = want.offsets()[i];
    }
    std::vector<double> verified_radius(6), largest(6);
    session.finish_range({ids.data(), distances.data(), DistanceType::f32, begin, counts},
                         {verified_radius.data(), largest.data()});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(ids[i], 5 + corpus.row_of(want.ids()[i])) << precision_name(precision) << ", entry " << i;
      ASSERT_EQ(distances[i], static_cast<const float*>(want.distances())[i]);
    }
  }
}

/// Wide words from so many rows on.
constexpr std::int64_t few = 100;

TEST(CudaManyRows, WideWordsOfSinglePrecisionGiveTheSameBits) {
  const std::int64_t columns = 21;
  std::vector<float> corpus = gaussian(31, 700 * columns, 2), queries = gaussian(32, 5 * columns, 2);
  std::copy_n(corpus.begin(), 200 * columns, corpus.begin() + 400 * columns);
  const Points all = view(corpus, columns), some = view(queries, columns);
  for (const MetricInfo& metric : metrics()) {
    if (!metric.vectors || filter_sum_of(metric.metric) == Sum::none) continue;
    SCOPED_TRACE(std::string(metric.name));
    for (const std::int64_t chunk : {INT64_MAX, std::int64_t{256}})
      if (chunk == 256 || !sampled())
        compare(all, some,
                {.options = {.k = 9, .metric = metric.metric, .first_id = 3}, .chunk = chunk, .packed_rows = few});
  }
  KnnOptions options{.k = 9};
  const std::vector<std::uint64_t> bitmap(40, 0x0123456789abcdefu);
  options.eligible.bitmap = bitmap;
  for (const bool filter : {true, false})
    compare(all, some, {.options = options, .chunk = 128, .filter = filter, .packed_rows = few});
  for (const Precision precision : {Precision::fp16, Precision::f32})
    compare(all, some, {.options = {.k = 30}, .precision = precision, .packed_rows = few});
  const Answer graph = by_device(some, some, {.options = {.k = 3}, .graph = true, .packed_rows = 4});
  GraphOptions graph_options;
  graph_options.search.k = 3;
  graph_options.search.run.device = "cpu";
  expect_same(graph.result, knn_graph(some, graph_options));
}

TEST(CudaManyRows, LongListsLabelsAndVanishedProductsInWideWords) {
  const std::int64_t columns = 6;
  std::mt19937 random(33);
  std::vector<float> whole(3000 * columns), near(2 * columns);
  for (float& value : whole) value = static_cast<float>(random() % 2);
  for (float& value : near) value = static_cast<float>(random() % 2);
  compare(view(whole, columns), view(near, columns), {.options = {.k = 700}, .slots = 1000, .packed_rows = few});
  compare(view(whole, columns), view(near, columns),
          {.options = {.k = 2100}, .chunk = 1536, .slots = 1000, .packed_rows = few});

  std::vector<std::int64_t> labels(3000), own(2, 3);
  for (std::int64_t& label : labels) label = static_cast<std::int64_t>(random() % 9);
  KnnOptions options{.k = 12};
  options.eligible.labels = Eligible::Labels::same;
  options.eligible.corpus_labels = labels;
  options.eligible.query_labels = own;
  for (const bool filter : {true, false})
    compare(view(whole, columns), view(near, columns),
            {.options = options, .filter = filter, .slots = 1000, .packed_rows = few});

  // The sign of a product that is nothing, in a chunk that is gone and in the last; distances that underflow are counted
  // alike.
  std::vector<float> tiny, query = {1e-30F, 1e-30F, 1e-30F};
  for (int row = 0; row < 300; ++row)
    for (int i = 0; i < 3; ++i) tiny.push_back(row % 3 == 0 ? -1e-20F : row % 3 == 1 ? 1e-20F : 0.0F);
  std::int64_t counted[2] = {};
  for (const bool wide : {false, true}) {
    const Ask ask{.options = {.k = 40, .metric = Metric::inner_product},
                  .chunk = 128,
                  .filter = false,
                  .packed_rows = wide ? few : cuda::most_packed_rows};
    compare(view(tiny, 3), view(query, 3), ask);
    counted[wide ? 1 : 0] = by_device(view(tiny, 3), view(query, 3), ask).stats.underflowed;
  }
  EXPECT_GT(counted[0], 0);
  EXPECT_EQ(counted[0], counted[1]);
}

TEST(CudaManyRows, KeysOfZeroAreOfEqualRowsOrOfDistancesThatVanish) {
  // A row is the query, or differs by the least that an element can in its last column: the first are at zero, the others are not, but for squares.
  const std::int64_t columns = 5, count = 600;
  std::vector<float> rows(count * columns, 0.0F);
  std::vector<double> wide(count * columns, 0.0);
  for (std::int64_t row = 0; row < count; ++row) {
    if (row % 3 > 0) rows[row * columns + columns - 1] = static_cast<float>(row % 3) * 0x1p-149F;
    if (row % 3 > 0) wide[row * columns + columns - 1] = row % 3 == 1 ? 1e-200 : 1e-300;
  }
  const std::vector<float> query(columns, 0.0F);
  const std::vector<double> wide_query(columns, 0.0);
  for (const Metric metric : {Metric::euclidean, Metric::l1, Metric::linf, Metric::sqeuclidean})
    for (const bool filter : {true, false}) {
      const Ask ask{.options = {.k = 250, .metric = metric}, .filter = filter};
      compare(view(rows, columns), view(query, columns), ask);
      const Answer got = by_device(view(rows, columns), view(query, columns), ask);
      const bool vanish = metric == Metric::sqeuclidean;
      KnnOptions options = ask.options;
      options.run.device = "cpu";
      EXPECT_EQ(got.stats.underflowed, knn(view(rows, columns), view(query, columns), options).stats.underflowed);
      EXPECT_EQ(got.stats.underflowed, vanish ? 166 : 50);
      EXPECT_EQ(got.result.distance(0, 199), 0);
      EXPECT_EQ(got.result.distance(0, 200), vanish ? 0 : 0x1p-149);
      compare(Points(wide.data(), DType::f64, count, columns), Points(wide_query.data(), DType::f64, 1, columns), ask,
              1);
    }
}

TEST(CudaManyRows, MatchesOfADeviceWithWideWords) {
  const std::int64_t columns = 37;
  const std::vector<float> corpus = gaussian(34, 260 * columns, 2), queries = gaussian(35, 4 * columns, 2);
  const Ask ask{.options = {.k = 40, .first_id = 7}, .chunk = 128, .packed_rows = few};
  const double radius = knn(view(corpus, columns), view(queries, columns), ask.options).distance(2, 39);
  EXPECT_EQ(compare_range(view(corpus, columns), view(queries, columns), radius, ask, 1 << 20), 0);
}

TEST(CudaManyRows, MemoryOfWideWordsIsPlanned) {
  // Lists of a search are twice as long in bytes from the limit on, in the plan and on the device, and not before; keys
  // that are kept alone are not.
  EXPECT_FALSE(cuda::wide_words(DistanceType::f32, 0xffffffffll, cuda::most_packed_rows));
  EXPECT_TRUE(cuda::wide_words(DistanceType::f32, 0x100000000ll, cuda::most_packed_rows));
  EXPECT_TRUE(cuda::wide_words(DistanceType::f64, 1, cuda::most_packed_rows));
  const std::int64_t columns = 8, count = 300, k = 900, asked_count = 20;
  const std::vector<float> corpus = gaussian(36, 1000 * columns), queries = gaussian(37, asked_count * columns);
  Answer answers[2];
  for (const std::int64_t packed_rows : {std::int64_t{999}, std::int64_t{1000}}) {
    Answer& got = answers[packed_rows - 999];
    got = by_device(view(corpus, columns), view(queries, columns), {.options = {.k = k}, .packed_rows = packed_rows});
    EXPECT_LE(got.used_bytes, got.planned_bytes);
  }
  EXPECT_EQ(answers[0].planned_bytes - answers[1].planned_bytes, asked_count * k * 8);
  EXPECT_GE(answers[0].used_bytes - answers[1].used_bytes, asked_count * k * 8);
  Plan plan;
  plan.cascade = {"canonical"};
  plan.query_batch = count;
  plan.corpus_chunk = std::int64_t{1} << 29;
  const ProblemShape below{
      .corpus = {0xffffffffll, columns, DType::f32}, .queries = {count, columns, DType::f32}, .k = k};
  ProblemShape above = below;
  ++above.corpus.rows;
  EXPECT_EQ(cuda::session_bytes(plan, above, 0, 132) - cuda::session_bytes(plan, below, 0, 132),
            2 * count * k * 8);  // the lists, and the next ones
}

// Queries that ranking reads where they are, which need not be aligned to four of them, and those that are kept in double precision.
TEST(CudaSearch, QueriesAreRankedFromAnyAddress) {
  for (const std::int64_t dims : {128, 132, 129})
    for (const Metric metric : {Metric::euclidean, Metric::correlation, Metric::inner_product, Metric::cosine}) {
      if (sampled() && metric == Metric::inner_product) break;
      const std::vector<float> corpus = gaussian(61, 500 * dims), queries = gaussian(62, 300 * dims);
      for (const std::int64_t shift : {1, 0, 2}) {
        SCOPED_TRACE(testing::Message() << dims << " columns, " << static_cast<int>(metric) << ", shift " << shift);
        compare(view(corpus, dims), view(queries, dims),
                {.options = {.k = 5, .metric = metric}, .slots = 500, .query_shift = shift});
        if (sampled()) break;
      }
    }
}

}  // namespace
