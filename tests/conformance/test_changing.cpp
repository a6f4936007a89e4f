// Arrays that another thread changes during the call: the values that come back are undefined, but the call comes back, with an answer or
// an error, and nothing is written where it does not belong (`make asan` runs this too). Whatever is read twice, and was right the first
// time, may be anything the second time: NaN where it was finite, a longer list where its length was counted, a symbol that nobody knows.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "conformance/settings.hpp"

namespace conformance {
namespace {

using vicinal::KnnOptions;

/// A thread that spoils some elements of arrays and puts them back, again and again, so that most looks at them find what is allowed.
class Changer {
 public:
  explicit Changer(std::uint64_t seed) : rng_(seed) {}
  ~Changer() { stop(); }
  Changer(const Changer&) = delete;
  Changer& operator=(const Changer&) = delete;

  template <class T>
  void add(std::vector<T>& items, DType dtype = DType::u8) {
    if (items.empty()) return;
    auto* const at = reinterpret_cast<unsigned char*>(items.data());
    const std::size_t bytes = items.size() * sizeof(T);
    arrays_.push_back({at, std::vector<unsigned char>(at, at + bytes),
                       sizeof(T) > 1 ? sizeof(T) : vicinal::dtype_size(dtype), dtype});
  }
  void add(Table& table) { add(table.bytes, table.dtype); }
  void start() {
    thread_ = std::thread([this] {
      while (!stopped_.load(std::memory_order_relaxed)) change();
    });
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Array {
    unsigned char* at;
    std::vector<unsigned char> whole;
    std::size_t item;
    DType dtype;
  };

  /// An item's bytes through a volatile, so that no write is left out.
  static void put(unsigned char* to, const unsigned char* from, std::size_t bytes) {
    auto* const seen = const_cast<volatile unsigned char*>(to);
    for (std::size_t i = 0; i < bytes; ++i) seen[i] = from[i];
  }

  void change() {
    const Array& array = rng_.pick(arrays_);
    const std::int64_t items = static_cast<std::int64_t>(array.whole.size() / array.item),
                       count = std::min(items, rng_.log_between(1, 64));
    const std::int64_t first = rng_.between(0, items - count);
    const auto from = static_cast<std::size_t>(first) * array.item,
               bytes = static_cast<std::size_t>(count) * array.item;
    std::vector<unsigned char> mischief(bytes);
    const int kind = static_cast<int>(rng_.between(0, 3));
    for (std::size_t i = 0; i < bytes; ++i)
      mischief[i] = static_cast<unsigned char>(kind == 0 ? 0xff : kind == 1 ? 0 : rng_.bits());
    if (kind == 3) {  // infinity, or an element of the array from elsewhere
      const auto other = static_cast<std::size_t>(rng_.between(0, items - count)) * array.item;
      std::memcpy(mischief.data(), array.whole.data() + other, bytes);
    }
    put(array.at + from, mischief.data(), bytes);
    for (std::int64_t spins = rng_.log_between(1, 20000); spins > 0; --spins) asm volatile("");
    put(array.at + from, array.whole.data() + from, bytes);
    for (std::int64_t spins = rng_.log_between(1, 40000); spins > 0; --spins) asm volatile("");
  }

  Rng rng_;
  std::vector<Array> arrays_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

/// How calls ended: with an answer, or with an error of the library's. Anything else ends the program.
struct Ends {
  std::int64_t answers = 0, errors = 0;
  template <class Call>
  void run(const Call& call) {
    try {
      call();
      ++answers;
    } catch (const vicinal::Error&) {
      ++errors;
    }
  }
};

constexpr std::int64_t calls_a_case = 160;

class Changing : public testing::Test {
 protected:
  void SetUp() override {
    if (::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr) GTEST_SKIP() << "races are what this makes";
  }
  /// Calls `body` while the arrays change. Some calls must end with an answer, or nothing was tested; on a busy machine the other thread
  /// may be stopped while an array is spoilt, so there are more calls until one does.
  template <class Body>
  void repeat(Changer& changer, const Body& body, std::int64_t share = 1) {
    Ends ends;
    changer.start();
    const std::int64_t calls = scaled(calls_a_case / share);
    for (std::int64_t i = 0; i < calls || (ends.answers == 0 && i < 1000 * calls); ++i) body(ends);
    changer.stop();
    EXPECT_GT(ends.answers, 0) << ends.errors << " errors";
  }
  Rng rng{seed_or(41)};
};

Table numbers(Rng& rng, DType type, std::int64_t n, std::int64_t d) {
  return type == DType::u8 || type == DType::i8 ? mixed_table(rng, type, n, d) : gaussian(rng, type, n, d);
}

TEST_F(Changing, RowsAndQueriesOfSearches) {
  struct Shape {
    std::int64_t rows, queries, dims;
  };
  // Trees of few columns; bytes, and second bytes, of many.
  for (const Shape shape : {Shape{1500, 600, 3}, Shape{1500, 20, 24}, Shape{600, 20, 260}})
    for (const DType type : {DType::f32, DType::f64, DType::u8}) {
      Table corpus = numbers(rng, type, shape.rows, shape.dims),
            queries = numbers(rng, type, shape.queries, shape.dims);
      const vicinal::Corpus kept(corpus.points());
      Changer changer(rng.bits());
      changer.add(corpus);
      changer.add(queries);
      static const std::vector<Metric> metrics = {Metric::euclidean, Metric::sqeuclidean, Metric::inner_product,
                                                  Metric::cosine,    Metric::correlation, Metric::l1,
                                                  Metric::linf};
      repeat(
          changer,
          [&](Ends& ends) {
            Setting setting = random_setting(rng);
            if (rng.chance(0.5)) setting.filter = "auto";
            KnnOptions options;
            options.metric = rng.pick(metrics);
            options.k = rng.log_between(1, 100);
            options.degenerate = vicinal::Degenerate::one;
            options.run = {
                .threads = setting.threads, .instruction_set = setting.instruction_set, .filter = setting.filter};
            switch (rng.between(0, 5)) {
              case 0: return ends.run([&] { kept.knn(queries.points(), options); });
              case 1:
                return ends.run([&] {
                  vicinal::Corpus(corpus.points(), {.metric = options.metric,
                                                    .copy = rng.chance(0.5),
                                                    .degenerate = options.degenerate,
                                                    .run = options.run})
                      .knn(queries.points(), options);
                });
              case 2: {
                vicinal::GraphOptions graph;
                graph.search = options;
                return ends.run([&] { vicinal::knn_graph(corpus.points().slice(0, 400), graph); });
              }
              case 3: {
                vicinal::RangeOptions range;
                range.search = options;
                // Little memory: matches are counted, and written when their places are known.
                if (rng.chance(0.7))
                  ends.run([&] {
                    range.search.memory.host =
                        vicinal::plan_range(shape_of(corpus.points()), shape_of(queries.points()), range)
                            .minimum_bytes +
                        rng.log_between(1, 1 << 20);
                  });
                const double radius = options.metric == Metric::cosine || options.metric == Metric::correlation
                                          ? 1.0
                                          : static_cast<double>(shape.dims);
                return ends.run([&] { vicinal::range_search(corpus.points(), queries.points(), radius, range); });
              }
              default: return ends.run([&] { vicinal::knn(corpus.points(), queries.points(), options); });
            }
          },
          4);
    }
}

TEST_F(Changing, EligibleRowsAndLabels) {
  const Table corpus = gaussian(rng, DType::f32, 1100, 5), queries = gaussian(rng, DType::f32, 30, 5);
  std::vector<std::uint64_t> bitmap(1100 / 64 + 1);
  std::vector<std::int64_t> ids, row_labels(1100), query_labels(30);
  for (std::uint64_t& word : bitmap) word = rng.bits() & rng.bits();
  for (std::int64_t i = 0; i < 1100; i += 3) ids.push_back(i);
  for (std::int64_t& label : row_labels) label = rng.between(0, 3);
  for (std::int64_t& label : query_labels) label = rng.between(0, 3);
  Changer changer(rng.bits());
  changer.add(bitmap);
  changer.add(ids);
  changer.add(row_labels);
  changer.add(query_labels);
  repeat(changer, [&](Ends& ends) {
    KnnOptions options;
    options.k = rng.between(1, 40);
    options.pad = true;
    options.run.threads = rng.pick(all_threads);
    options.run.filter = rng.pick(filters());
    if (rng.chance(0.6)) options.eligible.bitmap = bitmap;
    if (rng.chance(0.3)) options.eligible.ids = ids;
    if (rng.chance(0.7)) {
      options.eligible.labels = rng.chance(0.5) ? vicinal::Eligible::Labels::same : vicinal::Eligible::Labels::other;
      options.eligible.corpus_labels = row_labels;
      options.eligible.query_labels = query_labels;
    }
    ends.run([&] { vicinal::knn(corpus.points(), queries.points(), options); });
  });
}

TEST_F(Changing, ValuesToSelectFrom) {
  Table table = gaussian(rng, DType::f32, 3, 70000);
  Changer changer(rng.bits());
  changer.add(table);
  std::vector<std::string> names;
  for (const vicinal::SelectAlgorithm& algorithm : vicinal::select_algorithms())
    if (algorithm.devices.find("cpu") != std::string_view::npos) names.emplace_back(algorithm.name);
  names.emplace_back("auto");
  repeat(changer, [&](Ends& ends) {
    const auto type = rng.pick(std::vector<vicinal::ValueType>{vicinal::ValueType::f32, vicinal::ValueType::f64,
                                                               vicinal::ValueType::f16, vicinal::ValueType::u8,
                                                               vicinal::ValueType::i64});
    const bool slow = rng.chance(0.3);
    const std::int64_t bytes = slow ? 4000 : 280000;
    vicinal::SelectOptions options;
    options.algorithm = slow ? rng.pick(names) : "auto";
    options.k = rng.log_between(1, slow ? 100 : 2000);
    options.largest = rng.chance(0.5);
    options.run.threads = rng.pick(all_threads);
    const vicinal::Values values(table.bytes.data(), type, 3,
                                 bytes / static_cast<std::int64_t>(vicinal::value_size(type)));
    ends.run([&] { vicinal::select_k(values, options); });
  });
}

TEST_F(Changing, Strings) {
  for (const auto encoding : {vicinal::Encoding::utf8, vicinal::Encoding::utf32, vicinal::Encoding::bytes}) {
    std::vector<std::uint32_t> wide;
    std::vector<unsigned char> narrow;
    std::vector<std::int64_t> offsets{0};
    for (int row = 0; row < 300; ++row) {
      for (std::int64_t i = rng.between(0, 30); i > 0; --i) {
        if (encoding == vicinal::Encoding::utf32)
          wide.push_back(static_cast<std::uint32_t>(rng.chance(0.1) ? 0x20 : rng.between(0x61, 0x1ff)));
        else if (encoding == vicinal::Encoding::utf8 && rng.chance(0.3))
          narrow.insert(narrow.end(), {0xC3, static_cast<unsigned char>(rng.between(0x80, 0xBF))});
        else narrow.push_back(static_cast<unsigned char>(rng.chance(0.1) ? 0x20 : rng.between(0x61, 0x7a)));
      }
      offsets.push_back(static_cast<std::int64_t>(encoding == vicinal::Encoding::utf32 ? wide.size() : narrow.size()));
    }
    const void* const data =
        encoding == vicinal::Encoding::utf32 ? static_cast<const void*>(wide.data()) : narrow.data();
    const vicinal::Strings corpus{data, offsets.data(), 300, encoding}, queries{data, offsets.data(), 20, encoding};
    Changer changer(rng.bits());
    changer.add(wide);
    changer.add(narrow);
    repeat(changer, [&](Ends& ends) {
      KnnOptions options;
      options.metric =
          rng.pick(std::vector<Metric>{Metric::levenshtein, Metric::normalized_levenshtein, Metric::jaccard});
      options.k = 5;
      options.run.threads = rng.pick(all_threads);
      ends.run([&] { vicinal::knn(corpus, queries, options); });
      if (rng.chance(0.2))
        ends.run([&] {
          vicinal::PermutationIndex(corpus, {.metric = options.metric, .permutants = 20, .run = options.run})
              .knn(queries, {.k = 5, .fraction = 0.2});
        });
    });
  }
}

TEST_F(Changing, PermutationIndexes) {
  std::vector<double> histograms(400 * 8);
  for (double& x : histograms) x = rng.uniform() + 0.01;
  Table corpus(DType::f64, 400, 8, histograms);
  Changer changer(rng.bits());
  changer.add(corpus);
  static const std::vector<Metric> metrics = {Metric::euclidean, Metric::cosine, Metric::jensen_shannon,
                                              Metric::hellinger, Metric::dtw};
  repeat(changer, [&](Ends& ends) {
    vicinal::PermutationOptions options;
    options.metric = rng.pick(metrics);
    options.permutants = 24;
    options.choice = rng.pick(std::vector<vicinal::PermutantChoice>{
        vicinal::PermutantChoice::random, vicinal::PermutantChoice::farthest_first, vicinal::PermutantChoice::sss});
    options.form = rng.pick(std::vector<vicinal::RankForm>{vicinal::RankForm::ranks, vicinal::RankForm::prefix,
                                                           vicinal::RankForm::bits, vicinal::RankForm::components});
    options.run.threads = rng.pick(all_threads);
    ends.run([&] {
      const vicinal::PermutationIndex index(corpus.points(), options);
      vicinal::PermutationSearch search;
      search.k = 7;
      search.exact = rng.chance(0.3);
      if (!search.exact && rng.chance(0.5)) search.fraction = 0.1;
      if (!search.exact && !search.fraction) search.recall = 0.9;
      index.knn(corpus.points().slice(0, 20), search);
    });
  });
}

TEST_F(Changing, ResultsThatAreReadAgain) {
  const Table corpus = gaussian(rng, DType::f32, 60, 4);
  vicinal::GraphOptions graph;
  graph.search.k = 8;
  vicinal::Neighbors lists = vicinal::knn_graph(corpus.points(), graph);
  // Owners of the same memory, as Python's arrays of a result are.
  std::vector<std::int64_t> ids(lists.ids(), lists.ids() + 60 * 8);
  Changer changer(rng.bits());
  std::vector<std::int64_t> claimed = ids;
  changer.add(claimed);
  repeat(changer, [&](Ends& ends) {
    ends.run([&] {
      vicinal::Claim claim;
      claim.rows = 60;
      claim.k = 8;
      claim.ids = claimed.data();
      vicinal::verify(corpus.points(), corpus.points(), claim, {});
    });
    ends.run([&] {
      const vicinal::NeighborsView part{claimed.data(), const_cast<void*>(lists.distances()), lists.type(), 60, 8};
      vicinal::merge(std::vector{part, lists.view()}, {8, Metric::euclidean, true});
    });
  });
}

TEST_F(Changing, GraphsThatAreMadeSymmetric) {
  const Table corpus = gaussian(rng, DType::f32, 300, 4);
  vicinal::GraphOptions graph;
  graph.search.k = 8;
  vicinal::Neighbors lists = vicinal::knn_graph(corpus.points(), graph);
  std::int64_t* const ids = lists.view().ids;
  const std::vector<std::int64_t> whole(ids, ids + 300 * 8);
  std::atomic<bool> stopped{false};
  std::thread changer([&] {
    Rng own(5);
    while (!stopped) {
      const std::int64_t at = own.between(0, 300 * 8 - 1);
      const_cast<volatile std::int64_t*>(ids)[at] = own.chance(0.5) ? -1 : static_cast<std::int64_t>(own.bits());
      for (std::int64_t spins = own.log_between(1, 5000); spins > 0; --spins) asm volatile("");
      const_cast<volatile std::int64_t*>(ids)[at] = whole[static_cast<std::size_t>(at)];
      for (std::int64_t spins = own.log_between(1, 20000); spins > 0; --spins) asm volatile("");
    }
  });
  Ends ends;
  for (std::int64_t i = 0; i < scaled(40 * calls_a_case); ++i) {
    ends.run([&] { vicinal::symmetrize(lists, vicinal::Symmetrize::either); });
    ends.run([&] { vicinal::to_csr(lists); });
  }
  stopped = true;
  changer.join();
  EXPECT_GT(ends.answers, 0);
}

}  // namespace
}  // namespace conformance
