// Two emulated devices behind the seam: the sessions of src/cuda, driven from a thread each, against one device and the host.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "backend/devices.hpp"
#include "unit/cuda/emulated_search.hpp"
#include "vicinal/vicinal.hpp"

namespace several_devices {
namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

std::mutex emulator;  // it runs one kernel at a time

/// A session on a device of its own; each stage has the emulator for itself.
class EmulatedSession final : public Session {
 public:
  EmulatedSession(const SearchSpec& spec, const SearchPlan& plan, Precision precision, ThreadPool& thread_pool,
                  Stats& stats)
      : session_(device_, spec, plan, precision, nullptr, thread_pool, stats) {}
  void prepare_queries(const Points& queries, std::span<const std::int64_t> rows) override {
    const std::lock_guard lock(emulator);
    session_.prepare_queries(queries, rows);
  }
  void prepare_corpus(std::int64_t first, std::int64_t count) override {
    const std::lock_guard lock(emulator);
    session_.prepare_corpus(first, count);
  }
  void filter() override {
    const std::lock_guard lock(emulator);
    session_.filter();
  }
  void select() override {
    const std::lock_guard lock(emulator);
    session_.select();
  }
  void rerank() override {
    const std::lock_guard lock(emulator);
    session_.rerank();
  }
  void finish(const NeighborsView& out, const BoundsView& bounds) override {
    const std::lock_guard lock(emulator);
    session_.finish(out, bounds);
  }
  void counts(std::span<std::int64_t> counts, std::vector<bool>& lost) override {
    const std::lock_guard lock(emulator);
    session_.counts(counts, lost);
  }
  void expect_corpus(std::int64_t first, std::int64_t count) override {
    const std::lock_guard lock(emulator);
    session_.expect_corpus(first, count);
  }
  void write_matches_to(const RangeView& out) override {
    const std::lock_guard lock(emulator);
    session_.write_matches_to(out);
  }
  void finish_range(const RangeView& out, const BoundsView& bounds) override {
    const std::lock_guard lock(emulator);
    session_.finish_range(out, bounds);
  }

 private:
  Device device_;
  cuda::CudaSession<Device> session_;
};

/// A device that filters in int8 and streams chunks of so many rows at most; it fails where it is told to.
class EmulatedBackend final : public Backend, DeviceBackend, SearchBackend {
 public:
  explicit EmulatedBackend(int ordinal)
      : ordinal_(ordinal), facts_{
                               cat("cuda:", ordinal), {"sm_80"}, {"sm_80"}, {Precision::int8, Precision::canonical}} {}
  std::int64_t most_rows = INT64_MAX;
  bool fails = false;

  const DeviceBackend& device() const override { return *this; }
  const SearchBackend& search() const override { return *this; }
  const SelectBackend& select() const override { return cpu_backend().select(); }

 private:
  const Facts& facts() const override { return facts_; }
  std::string description() const override { return "emulated"; }
  std::int64_t free_bytes() const override { return std::int64_t{1} << 30; }
  void check_instruction_set(const std::string& /*name*/) const override {}

  Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) const override {
    Proposal proposal;
    proposal.multiples = {.queries = 32, .rows = 64};
    if (!ranks_every_pair(problem, run, proof)) proposal.cascade.emplace_back("int8");
    proposal.set_slots(problem, true);
    proposal.cascade.emplace_back("canonical");
    return proposal;
  }
  double seconds(const SearchPlan& /*plan*/, const ProblemShape& /*problem*/) const override { return 1; }
  std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) const override {
    return std::min(plan.corpus_chunk, problem.corpus.rows) > most_rows ? std::int64_t{1} << 40 : 1;
  }
  std::int64_t prepared_bytes(const ProblemShape& /*problem*/, const SearchPlan& /*plan*/) const override {
    return std::int64_t{1} << 40;
  }
  std::shared_ptr<const PreparedCorpus> prepare_corpus(const SearchSpec& /*spec*/, const SearchPlan& /*plan*/,
                                                       ThreadPool& /*thread_pool*/) const override {
    return nullptr;
  }
  std::unique_ptr<Session> open(const SearchSpec& spec, const SearchPlan& plan, Precision precision,
                                std::shared_ptr<const PreparedCorpus> /*kept*/, ThreadPool& thread_pool,
                                Stats& stats) const override {
    if (fails) fail(ErrorCode::device_error, "an illegal address was read");
    const std::lock_guard lock(emulator);
    return std::make_unique<EmulatedSession>(spec, plan, precision, thread_pool, stats);
  }

  int ordinal_;
  Facts facts_;
};

struct Pair {
  EmulatedBackend first{0}, second{1};
  CudaDevices devices{{{&first, ""}, {&second, ""}}, ""};
};
/// Those that cuda_devices() answers with.
Pair& pair() {
  static Pair devices;
  return devices;
}

KnnOptions on(const char* device, KnnOptions options) {
  options.run = {.device = device, .threads = 2};
  return options;
}

TEST(SeveralDevices, EmulatedOnesHaveTheBitsOfOne) {
  const std::vector<float> asked = gaussian(2, 5 * 8);
  const struct {
    std::int64_t rows, chunk;
    Metric metric;
  } cases[] = {{1, INT64_MAX, Metric::euclidean},
               {65, INT64_MAX, Metric::inner_product},
               {200, 64, Metric::euclidean},
               {200, INT64_MAX, Metric::inner_product}};
  for (const auto& [count, chunk, metric] : cases) {
    const std::vector<float> corpus = gaussian(1, count * 8);
    pair().first.most_rows = pair().second.most_rows = chunk;
    SCOPED_TRACE(testing::Message() << count << " rows, chunks of " << chunk);
    const KnnOptions options{.k = std::min<std::int64_t>(count, 10), .metric = metric, .first_id = 3};
    const Neighbors host = knn(view(corpus, 8), view(asked, 8), on("cpu", options));
    const Neighbors several = knn(view(corpus, 8), view(asked, 8), on("cuda:all", options));
    expect_same(several, host);
    EXPECT_EQ(several.stats.device, "cuda:0,cuda:1");
    if (metric != Metric::euclidean) continue;
    RangeOptions within{.search = on("cuda:0,cuda:1", {})};
    const CsrNeighbors all = range_search(view(corpus, 8), view(asked, 8), 3.0, within);
    within.search.run.device = "cpu";
    const CsrNeighbors want = range_search(view(corpus, 8), view(asked, 8), 3.0, within);
    ASSERT_EQ(all.entries(), want.entries());
    EXPECT_EQ(std::memcmp(all.ids(), want.ids(), static_cast<std::size_t>(want.entries()) * 8), 0);
    EXPECT_EQ(std::memcmp(all.distances(), want.distances(), static_cast<std::size_t>(want.entries()) * 4), 0);
  }
}

TEST(SeveralDevices, OneThatFailsIsNamed) {
  const std::vector<float> corpus = gaussian(1, 150 * 8), asked = gaussian(2, 4 * 8);
  pair().second.fails = true;
  try {
    knn(view(corpus, 8), view(asked, 8), on("cuda:all", {.k = 4}));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_error);
    EXPECT_STREQ(error.what(), "cuda:1: an illegal address was read");
  }
  pair().second.fails = false;
  const Neighbors again = knn(view(corpus, 8), view(asked, 8), on("cuda:all", {.k = 4}));
  expect_same(again, knn(view(corpus, 8), view(asked, 8), on("cpu", {.k = 4})));
}

}  // namespace
}  // namespace several_devices

/// What the linker sends the library's calls of cuda_devices() to (cmake/tests.cmake).
extern "C" const vicinal::CudaDevices* __wrap__ZN7vicinal12cuda_devicesEv() { return &several_devices::pair().devices; }
