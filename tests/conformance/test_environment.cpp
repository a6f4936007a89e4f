// What surrounds a search: the caller's floating-point mode, cancellation, progress, many threads on one Corpus, a fork.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "conformance/settings.hpp"

namespace conformance {
namespace {
using vicinal::DistanceType;
using vicinal::ErrorCode;
using vicinal::KnnOptions;
using vicinal::Neighbors;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Values whose squares need subnormals, next to ordinary ones: both a rounding mode and flushing would show.
Table sensitive(Rng& rng, DType type, std::int64_t n) {
  std::vector<double> values(static_cast<std::size_t>(n * 20));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = rng.gauss() * (i / 20 % 3 == 0 ? std::ldexp(1.0, type == DType::f64 ? -530 : -70) : 1);
  return {type, n, 20, values};
}

TEST(FloatingPoint, RoundingModesOfTheCallerChangeNothingAndAreRestored) {
  Rng rng(80);
  for (const DType type : {DType::f32, DType::f64})
    for (const Metric metric :
         {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::l1, Metric::cosine}) {
      if (metric == Metric::cosine && type == DType::f64) continue;  // these rows are below its range
      const Table corpus = sensitive(rng, type, 500), queries = sensitive(rng, type, 6);
      KnnOptions options;
      options.metric = metric;
      options.k = 200;
      const oracle::Answer want = oracle::knn(corpus.rows(), queries.rows(), spec(options));
      for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO})
        for (const int threads : all_threads) {
          options.run.threads = threads;
          std::fesetround(mode);
          std::string fault;
          int after = -1;
          try {
            const Neighbors got = vicinal::knn(corpus.points(), queries.points(), options);
            after = std::fegetround();
            std::fesetround(FE_TONEAREST);
            fault = difference(got, want);
          } catch (const vicinal::Error& error) {
            std::fesetround(FE_TONEAREST);
            fault = error.what();
          }
          EXPECT_EQ(fault, "") << metric_name(metric) << " mode " << mode << " threads " << threads;
          EXPECT_EQ(after, mode);
        }
    }
}

TEST(FloatingPoint, TheModeIsRestoredWhenTheCallThrows) {
  Rng rng(81);
  const Table corpus = sensitive(rng, DType::f32, 50);
  KnnOptions options;
  options.k = 51;
  std::fesetround(FE_DOWNWARD);
  const Refusal got = refusal([&] { vicinal::knn(corpus.points(), corpus.points(), options); });
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_EQ(after, FE_DOWNWARD);
}

#if defined(__x86_64__)
TEST(FloatingPoint, FlushingToZeroChangesNothingAndIsRestored) {
  Rng rng(82);
  for (const DType type : {DType::f32, DType::f64}) {
    const Table corpus = sensitive(rng, type, 500), queries = sensitive(rng, type, 6);
    KnnOptions options;
    options.metric = Metric::sqeuclidean;
    options.k = 200;
    const oracle::Answer want = oracle::knn(corpus.rows(), queries.rows(), spec(options));
    for (const int threads : all_threads) {
      options.run.threads = threads;
      const unsigned before = _mm_getcsr(), flushing = before | _MM_FLUSH_ZERO_ON | 0x0040u;  // and denormals are zero
      _mm_setcsr(flushing);
      const Neighbors got = vicinal::knn(corpus.points(), queries.points(), options);
      const vicinal::Corpus prepared(corpus.points(), {.metric = Metric::sqeuclidean});
      const Neighbors again = prepared.knn(queries.points(), options);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      EXPECT_EQ(difference(got, want), "") << threads;
      EXPECT_EQ(difference(again, want), "") << threads << " prepared";
      EXPECT_EQ(after & 0xffc0u, flushing & 0xffc0u);  // control bits; flags may be raised
    }
  }
}

/// What a result holds, as bytes.
std::string bytes_of(const std::int64_t* ids, const void* distances, std::int64_t entries, DistanceType type) {
  const auto count = static_cast<std::size_t>(entries);
  std::string bytes(reinterpret_cast<const char*>(ids), count * 8);
  return bytes.append(static_cast<const char*>(distances), count * vicinal::distance_size(type));
}
std::string bytes_of(const Neighbors& result) {
  return bytes_of(result.ids(), result.distances(), result.rows() * result.k(), result.type());
}
std::string bytes_of(const vicinal::CsrNeighbors& result) {
  return bytes_of(result.ids(), result.distances(), result.entries(), result.type())
      .append(reinterpret_cast<const char*>(result.offsets()), static_cast<std::size_t>(result.rows() + 1) * 8);
}

/// Every call that returns distances, in small: what each returns, as bytes.
std::vector<std::pair<const char*, std::string>> every_call(const Table& corpus, const Table& queries) {
  const vicinal::Points rows = corpus.points(), asked = queries.points();
  const KnnOptions options{.k = 30, .metric = Metric::sqeuclidean};
  const double radius = 25;
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("vicinal-state-" + std::to_string(::getpid()))).string();
  const vicinal::Corpus prepared(rows, {.metric = Metric::sqeuclidean});
  const vicinal::PermutationIndex index(rows, {.metric = Metric::sqeuclidean});
  const Neighbors graph = vicinal::knn_graph(rows, {.search = options});
  const Neighbors parts[] = {
      vicinal::knn(rows.slice(0, 100), asked, options),
      vicinal::knn(rows.slice(100, rows.rows - 100), asked, {.k = 30, .metric = Metric::sqeuclidean, .first_id = 100})};
  const vicinal::NeighborsView views[] = {parts[0].view(), parts[1].view()};
  std::vector<std::pair<const char*, std::string>> all = {
      {"knn", bytes_of(vicinal::knn(rows, asked, options))},
      {"Corpus.knn", bytes_of(prepared.knn(asked, options))},
      {"Corpus.range_search", bytes_of(prepared.range_search(asked, radius, {.search = options}))},
      {"knn_graph", bytes_of(graph)},
      {"to_csr", bytes_of(vicinal::to_csr(graph))},
      {"symmetrize", bytes_of(vicinal::symmetrize(graph, vicinal::Symmetrize::either))},
      {"range_search", bytes_of(vicinal::range_search(rows, asked, radius, {.search = options}))},
      {"merge", bytes_of(vicinal::merge(views, {.k = 30}))},
      {"PermutationIndex.knn", bytes_of(index.knn(asked, {.k = 30, .exact = true}).neighbors)},
      {"PermutationIndex.range", bytes_of(index.range(asked, radius, {.exact = true}).neighbors)},
      {"knn_resumable", bytes_of(vicinal::knn_resumable(rows, asked, options, folder + "k"))},
      {"knn_graph_resumable", bytes_of(vicinal::knn_graph_resumable(rows, {.search = options}, folder + "g"))},
      {"range_search_resumable",
       bytes_of(vicinal::range_search_resumable(rows, asked, radius, {.search = options}, folder + "r"))}};
  for (const char* name : {"k", "g", "r"}) vicinal::discard_pieces(folder + name);
  return all;
}

TEST(FloatingPoint, EveryCallHasTheBitsOfTheOrdinaryState) {
  Rng rng(88);
  const Table corpus = sensitive(rng, DType::f32, 300), queries = sensitive(rng, DType::f32, 6);
  const auto want = every_call(corpus, queries);
  for (const unsigned odd :
       {_MM_FLUSH_ZERO_ON | 0x0040u, 0x2000u, 0x4000u, 0x6000u}) {  // flushing, and three roundings
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | odd);
    const auto got = every_call(corpus, queries);
    _mm_setcsr(before);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(got[i].second == want[i].second) << want[i].first << " under " << odd;
  }
}
#endif

// Rows and queries that keep two cores busy for many seconds.
struct Long {
  std::vector<float> corpus, queries;
  KnnOptions options;
  explicit Long(vicinal::Proof proof) : corpus(100000 * 256), queries(10000 * 256) {
    Rng rng(83);
    for (std::size_t i = 0; i < corpus.size(); ++i) corpus[i] = static_cast<float>(rng.bits() & 0xffff);
    for (float& v : queries) v = static_cast<float>(rng.bits() & 0xffff);
    options.proof = proof;
  }
  vicinal::Points rows() const { return vicinal::MatrixView<float>{corpus.data(), 100000, 256}; }
  vicinal::Points ask() const { return vicinal::MatrixView<float>{queries.data(), 10000, 256}; }
};

// The promise is 0.1 s; a shared machine gets slack, and the best of three counts. A sanitizer makes everything ten times
// slower, so there it only matters that the search stops at all.
const double latency = sanitized ? 10 : 0.25;

TEST(Cancellation, AStopTokenIsObeyedInTime) {
  for (const vicinal::Proof proof : {vicinal::Proof::certified, vicinal::Proof::exhaustive}) {
    const Long work(proof);
    for (const int delay_ms : {5, 50, 300}) {
      double best = 1e9;
      for (int attempt = 0; attempt < 3 && best > latency; ++attempt) {
        std::stop_source source;
        KnnOptions options = work.options;
        options.stop = source.get_token();
        Clock::time_point stopped;
        std::thread canceller([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
          stopped = Clock::now();
          source.request_stop();
        });
        const Refusal got = refusal([&] { vicinal::knn(work.rows(), work.ask(), options); });
        const Clock::time_point returned = Clock::now();
        canceller.join();
        ASSERT_EQ(got.code, ErrorCode::cancelled) << got.message;
        best = std::min(best, std::chrono::duration<double>(returned - stopped).count());
      }
      EXPECT_LE(best, latency) << "after " << delay_ms << " ms";
    }
  }
}

TEST(Cancellation, ProgressThatSaysNoIsObeyedInTime) {
  const Long work(vicinal::Proof::certified);
  double best = 1e9;
  for (int attempt = 0; attempt < 3 && best > latency; ++attempt) {
    KnnOptions options = work.options;
    int calls = 0;
    Clock::time_point refused;
    options.progress = [&](std::uint64_t, std::uint64_t) {
      if (++calls < 3) return true;
      refused = Clock::now();
      return false;
    };
    const Refusal got = refusal([&] { vicinal::knn(work.rows(), work.ask(), options); });
    ASSERT_EQ(got.code, ErrorCode::cancelled) << got.message;
    EXPECT_EQ(calls, 3) << "not asked again after a no";
    best = std::min(best, seconds_since(refused));
  }
  EXPECT_LE(best, latency);
}

TEST(Cancellation, ATokenStoppedBeforeTheCallStopsItAtOnce) {
  const Long work(vicinal::Proof::certified);
  std::stop_source source;
  source.request_stop();
  KnnOptions options = work.options;
  options.stop = source.get_token();
  EXPECT_EQ(refusal([&] { vicinal::knn(work.rows(), work.ask(), options); }).code, ErrorCode::cancelled);
  EXPECT_EQ(refusal([&] { vicinal::Corpus c(work.rows(), {.stop = source.get_token()}); }).code, ErrorCode::cancelled);
}

TEST(Cancellation, MergingAndSymmetryAreCallsLikeOthers) {
  Rng rng(8);
  const Table rows = gaussian(rng, DType::f32, 500, 4, 0, 1);
  vicinal::GraphOptions options;
  options.search.k = 5;
  const vicinal::Neighbors graph = vicinal::knn_graph(rows.points(), options);
  const vicinal::NeighborsView parts[] = {graph.view()};
  const auto cancelled = [](auto call) {
    try {
      call();
    } catch (const vicinal::Error& error) {
      return error.code() == vicinal::ErrorCode::cancelled;
    }
    return false;
  };
  const vicinal::Progress no = [](std::uint64_t, std::uint64_t) { return false; };
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_TRUE(cancelled([&] { vicinal::merge(parts, {.progress = no}); }));
  EXPECT_TRUE(cancelled([&] { vicinal::merge(parts, {.stop = stopped.get_token()}); }));
  EXPECT_TRUE(cancelled([&] { vicinal::symmetrize(graph, vicinal::Symmetrize::mutual, no); }));
  EXPECT_TRUE(
      cancelled([&] { vicinal::symmetrize(graph, vicinal::Symmetrize::mutual, nullptr, stopped.get_token()); }));
  std::uint64_t last = 0, total = 0;
  const vicinal::Progress yes = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done, total = all;
    return true;
  };
  vicinal::merge(parts, {.progress = yes});
  EXPECT_EQ(last, 500u);
  EXPECT_EQ(total, 500u);
  last = 0;
  vicinal::symmetrize(graph, vicinal::Symmetrize::either, yes);
  EXPECT_EQ(last, total);
}

TEST(Progress, RisesToTheTotalOnTheCallingThread) {
  Rng rng(84);
  const Table corpus = gaussian(rng, DType::f32, sanitized ? 2000 : 20000, 64),
              queries = gaussian(rng, DType::f32, sanitized ? 150 : 300, 64);
  for (const vicinal::Proof proof : {vicinal::Proof::certified, vicinal::Proof::exhaustive})
    for (const int threads : all_threads) {
      KnnOptions options;
      options.proof = proof;
      options.run.threads = threads;
      std::uint64_t last = 0, first_total = 0;
      bool monotone = true, one_total = true, one_thread = true;
      int calls = 0;
      options.progress = [&, caller = std::this_thread::get_id()](std::uint64_t done, std::uint64_t total) {
        monotone = monotone && done >= last && done <= total;
        one_thread = one_thread && std::this_thread::get_id() == caller;
        one_total = one_total && (calls == 0 || total == first_total);
        first_total = total;
        last = done;
        ++calls;
        return true;
      };
      vicinal::knn(corpus.points(), queries.points(), options);
      EXPECT_GT(calls, 0);
      EXPECT_TRUE(monotone && one_total && one_thread) << "monotone " << monotone << ", one total " << one_total
                                                       << ", calling thread " << one_thread << ", threads " << threads;
      EXPECT_EQ(last, first_total);
    }
}

TEST(Progress, AnExceptionOfTheCallbackReachesTheCaller) {
  Rng rng(85);
  const Table corpus = gaussian(rng, DType::f32, 20000, 64), queries = gaussian(rng, DType::f32, 100, 64);
  KnnOptions options;
  options.progress = [](std::uint64_t, std::uint64_t) -> bool { throw std::runtime_error("mine"); };
  EXPECT_THROW(vicinal::knn(corpus.points(), queries.points(), options), std::runtime_error);
  options.progress = nullptr;
  EXPECT_EQ(
      check(corpus.points(), queries.points().slice(0, 3), options,
            oracle::knn(corpus.rows(), oracle::decode_rows(DType::f32, queries.bytes.data(), 3, 64), spec(options))),
      "");
}

TEST(Threads, OneCorpusServesManyThreadsAtOnce) {
  Rng rng(86);
  for (const Metric metric : {Metric::euclidean, Metric::correlation, Metric::linf}) {
    const Table corpus = gaussian(rng, DType::f32, 3000, 40);
    const vicinal::Corpus prepared(corpus.points(), {.metric = metric});
    std::atomic<int> faults{0}, done{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        Rng own(static_cast<std::uint64_t>(t));
        for (int round = 0; round < 6; ++round) {
          const Table queries = gaussian(own, DType::f32, 1 + own.between(0, 8), 40);
          KnnOptions options;
          options.metric = metric;
          options.k = own.between(1, 60);
          options.run.threads = static_cast<int>(own.between(0, 3));
          if (!difference(prepared.knn(queries.points(), options),
                          oracle::knn(corpus.rows(), queries.rows(), spec(options)))
                   .empty())
            ++faults;
          ++done;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(faults, 0);
    EXPECT_EQ(done, 48);
  }
}

TEST(Threads, AForkedChildSearches) {
  Rng rng(87);
  const Table corpus = gaussian(rng, DType::f32, 5000, 24), queries = gaussian(rng, DType::f32, 40, 24);
  const vicinal::Corpus prepared(corpus.points(), {.metric = Metric::euclidean});
  const Neighbors want = vicinal::knn(corpus.points(), queries.points(), {.k = 10, .run = {.threads = 4}});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);  // a child that hangs is killed, and the parent sees it
    int faults = 0;
    try {
      for (const int threads : all_threads) {
        faults +=
            !difference(vicinal::knn(corpus.points(), queries.points(), {.k = 10, .run = {.threads = threads}}), want)
                 .empty();
        faults += !difference(prepared.knn(queries.points(), {.k = 10, .run = {.threads = threads}}), want).empty();
      }
    } catch (...) {
      faults = 99;
    }
    ::_exit(faults);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(difference(prepared.knn(queries.points(), {.k = 10}), want), "") << "the parent goes on";
}

/// Limits of other users' processes are not known, so a user who is not root is refused every thread.
TEST(Threads, FewerAreUsedWhereTheSystemRefusesThem) {
  if (sanitized) GTEST_SKIP() << "a sanitizer starts threads of its own";
  for (const int limit : {1, 2, 3}) {
    const std::string printed = run_child("refused", std::to_string(limit));
    if (printed.rfind("cannot", 0) == 0) GTEST_SKIP() << printed;
    int threads = 0, notes = 0;
    ASSERT_EQ(std::sscanf(printed.c_str(), "threads %d notes %d", &threads, &notes), 2) << printed;
    EXPECT_GE(threads, 1);
    EXPECT_LE(threads, limit);
    EXPECT_EQ(notes, 1);
    EXPECT_NE(printed.find("notes 1 \n"), std::string::npos) << printed;
  }
}

TEST(Threads, CallsAtOnceThatAskForDifferentNumbersPrintNothing) {
  if (sanitized) GTEST_SKIP() << "a child's shell does not start with the sanitizer's library before it";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run_child("differing", "8"), "0 wrong\n");
}

}  // namespace
}  // namespace conformance
