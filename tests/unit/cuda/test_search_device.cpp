// What searches make of a device: filters that its shared memory does not hold, and the self-test of its filter in
// bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/search/filter/self_test.cuh"
#include "cuda/search/propose.hpp"
#include "cuda/search/seconds.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/plan.hpp"
#include "unit/cuda/emulated_search.hpp"
#include "unit/idle_backend.hpp"

namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

std::string refusal(Precision precision, Sum sum, std::int64_t cols, const std::string& instruction_set,
                    std::int64_t shared_bytes) {
  return cuda::filter_refusal("cuda:0", cuda::built_filters("80-virtual", 80), precision, sum, cols, instruction_set,
                              shared_bytes);
}

/// A backend as src/cuda/backend.cu is one, as far as plans ask for it, of a device whose blocks have so much shared
/// memory.
struct Planned final : IdleBackend {
  std::int64_t shared_bytes = 0, ready_bytes = INT64_MAX, kept_bytes = INT64_MAX;

  explicit Planned(std::int64_t shared) : shared_bytes(shared) {
    idle_facts.name = "cuda:0";
    idle_facts.instruction_sets = {"mma", "wgmma"};
  }
  std::int64_t free_bytes() const override { return std::int64_t{1} << 33; }
  Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) const override {
    Proposal proposal = cuda::propose("cuda:0", ready_bytes, problem, run, proof, [&](Precision precision) {
      return refusal(precision, filter_sum_of(problem.metric), problem.corpus.cols, run.instruction_set, shared_bytes);
    });
    proposal.kept_bytes = kept_bytes;
    return proposal;
  }
  std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) const override {
    return problem.range ? cuda::range_bytes(plan, problem, 3) : cuda::session_bytes(plan, problem, 0, 3);
  }
  double seconds(const SearchPlan& plan, const ProblemShape& problem) const override {
    return cuda::search_seconds(plan, problem);
  }
};

constexpr std::int64_t rtx = 99 << 10, a100 = 163 << 10, h100 = 227 << 10;

SearchPlan plan_on(std::int64_t shared_bytes, std::int64_t dims, Metric metric, const std::string& filter) {
  KnnOptions options{.k = 10, .metric = metric};
  options.run.filter = filter;
  options.run.instruction_set = "mma";
  return make_plan(Planned(shared_bytes), knn_problem({1000000, dims, DType::f32}, {1000, dims, DType::f32}, options),
                   options);
}

TEST(CudaSharedMemory, PlansNameTheFiltersThatFit) {
  using Cascade = std::vector<std::string>;
  for (const std::int64_t dims : {3, 64, 65, 128, 129, 784}) {
    SCOPED_TRACE(std::to_string(dims) + " columns");
    const Cascade all{"int8", "fp16", "f32", "canonical"};
    EXPECT_EQ(plan_on(h100, dims, Metric::euclidean, "auto").cascade, all);
    EXPECT_EQ(plan_on(a100, dims, Metric::euclidean, "auto").cascade,
              dims <= 128 ? all : Cascade({"fp16", "f32", "canonical"}));
    EXPECT_EQ(plan_on(rtx, dims, Metric::euclidean, "auto").cascade,
              dims <= 64 ? Cascade({"int8", "canonical"}) : Cascade({"canonical"}));
    EXPECT_EQ(plan_on(rtx, dims, Metric::l1, "auto").cascade, Cascade({"canonical"}));
    EXPECT_EQ(plan_on(a100, dims, Metric::l1, "auto").cascade, Cascade({"int8", "f32", "canonical"}));
    for (const char* filter : {"auto", "int8", "fp16", "f32", "canonical"})
      for (const std::int64_t shared_bytes : {rtx, a100, h100}) {
        const SearchPlan plan = plan_on(shared_bytes, dims, Metric::cosine, filter);
        ASSERT_EQ(plan.cascade.back(), "canonical");
        for (const std::string& precision : plan.cascade)
          EXPECT_EQ(refusal(precision_of(precision), Sum::products, dims, "mma", shared_bytes), "") << precision;
        // The plan's bytes are of the precision that it begins with, and a note says what it does not begin with.
        KnnOptions options{.k = 10, .metric = Metric::cosine};
        EXPECT_EQ(plan.peak_bytes,
                  Planned(shared_bytes)
                      .bytes(plan, knn_problem({1000000, dims, DType::f32}, {1000, dims, DType::f32}, options)));
        const std::string first = std::string(filter) == "auto" ? "int8" : filter;
        ASSERT_EQ(plan.notes.size(), plan.cascade.front() == first ? 0u : 1u) << filter;
        if (plan.cascade.front() == first) continue;
        EXPECT_NE(plan.notes.front().find(std::to_string(shared_bytes)), std::string::npos) << plan.notes.front();
        EXPECT_NE(plan.notes.front().find("filter " + first + " of " + std::to_string(dims) + " columns"),
                  std::string::npos)
            << plan.notes.front();
      }
  }
}

// A prepared corpus has what is ready; without one, what stays between calls bounds a batch.
TEST(CudaSharedMemory, BatchesTakeWhatIsThereBefore) {
  Planned device(h100);
  device.ready_bytes = std::int64_t{6} << 30;
  device.kept_bytes = std::int64_t{2} << 30;
  const Shape rows{100000, 128, DType::f32, true}, queries{200000, 128, DType::f32, true};
  KnnOptions options{.k = 10};
  options.run.instruction_set = "mma";
  const SearchPlan whole = make_plan(device, knn_problem(rows, queries, options), options);
  ProblemShape problem = knn_problem(rows, queries, options);
  problem.prepared = true;
  const SearchPlan kept = make_plan(device, problem, options);
  EXPECT_LE(whole.peak_bytes, device.kept_bytes);
  EXPECT_GT(kept.peak_bytes, device.kept_bytes);
  EXPECT_LE(kept.peak_bytes, device.ready_bytes);
  EXPECT_LT(whole.query_batch, kept.query_batch);
}

// Tiles serve both sides where that fits, whatever one side would take of all queries at once.
TEST(CudaPlan, TilesServeBothSidesWhereTheyFit) {
  const auto plan = [](std::int64_t rows, std::int64_t cols, std::int64_t k, std::int64_t budget) {
    GraphOptions options{.search = {.k = k}};
    options.search.run.instruction_set = "wgmma";
    options.search.memory.host = budget;
    return make_plan(Planned(h100), graph_problem({rows, cols, DType::f32, true}, options), options.search);
  };
  const std::int64_t gb = std::int64_t{1} << 30;
  const SearchPlan whole = plan(1 << 20, 128, 15, 100 * gb);
  EXPECT_TRUE(whole.symmetric);
  EXPECT_EQ(whole.query_batch, 1 << 20);
  EXPECT_EQ(whole.row_splits, 1);
  EXPECT_LT(whole.peak_bytes, 24 * gb);
  const SearchPlan fits = plan(1 << 20, 128, 15, whole.peak_bytes);
  EXPECT_TRUE(fits.symmetric);
  EXPECT_EQ(fits.peak_bytes, whole.peak_bytes);
  const SearchPlan less = plan(1 << 20, 128, 15, whole.peak_bytes - 1);
  EXPECT_FALSE(less.symmetric);
  EXPECT_EQ(less.symmetric_rows, 0);
  EXPECT_LT(less.query_batch, 1 << 20);
  EXPECT_LT(less.peak_bytes, whole.peak_bytes);
  // Where memory is refused that was planned, less is asked for.
  SearchPlan refused = whole;
  Stats stats;
  const ProblemShape problem = graph_problem({1 << 20, 128, DType::f32, true}, {.search = {.k = 15}});
  const Planned device(h100);
  ASSERT_TRUE(halve(refused, "int8", device, problem, stats));
  EXPECT_FALSE(refused.symmetric);
  refused.cascade = {"int8"};
  EXPECT_LE(device.bytes(refused, problem), whole.peak_bytes / 2);
  // Of long lists more passes, of long rows less in comparison.
  EXPECT_FALSE(plan((3 << 15) - 1, 128, 15, 64 * gb).symmetric);
  EXPECT_TRUE(plan(3 << 15, 128, 32, 64 * gb).symmetric);
  EXPECT_FALSE(plan(3 << 15, 128, 33, 64 * gb).symmetric);
  EXPECT_TRUE(plan(3 << 15, 784, 100, 64 * gb).symmetric);
  EXPECT_FALSE(plan(3 << 16, 128, 100, 64 * gb).symmetric);
  EXPECT_TRUE(plan(1 << 20, 128, 100, 100 * gb).symmetric);
}

TEST(CudaSharedMemory, SearchesOfEveryDeviceStayWithinIt) {
  // The emulated device refuses a launch that asks for more, as a real one does.
  for (const std::int64_t dims : {40, 100, 200}) {
    const std::vector<float> corpus = gaussian(51, (dims == 40 && !sampled() ? 2200 : 400) * dims),
                             queries = gaussian(52, dims);
    for (const std::int64_t shared_bytes : {rtx, a100}) {
      for (const std::int64_t k : {5, 2048}) {  // the longest list that shared memory holds, in wide words
        if (k > 5 && (dims > 40 || shared_bytes == a100 || sampled())) continue;
        SCOPED_TRACE(std::to_string(dims) + " columns, " + std::to_string(shared_bytes) + " bytes, k " +
                     std::to_string(k));
        const Precision precision =
            precision_of(plan_on(shared_bytes, dims, Metric::euclidean, "auto").cascade.front());
        const Ask ask{.options = {.k = k},
                      .filter = precision != Precision::canonical,
                      .slots = 700,
                      .precision = precision,
                      .packed_rows = 100,
                      .shared_bytes = shared_bytes};
        compare(view(corpus, dims), view(queries, dims), ask);
      }
      Ask over{.options = {.k = 5}, .shared_bytes = shared_bytes};
      if (refusal(Precision::int8, Sum::squares, dims, "mma", shared_bytes).empty())
        by_device(view(corpus, dims), view(queries, dims), over);
      else EXPECT_THROW(by_device(view(corpus, dims), view(queries, dims), over), Error);
    }
  }
}

TEST(CudaFilterTest, TellsAWrongSumAFindThatIsMissingAndOneTooMany) {
  Device device;
  for (const std::int64_t width : {128, 256}) {
    cuda::FilterTest wide(width, 128, cuda::Int8Mma::facts, 4);
    wide.run(device);
    EXPECT_TRUE(wide.judge()) << width;
  }
  cuda::FilterTest test(64, 128, cuda::Int8Mma::facts, 4);
  test.run(device);
  ASSERT_TRUE(test.judge());
  const auto worker =
      static_cast<std::size_t>(std::max_element(test.used().begin(), test.used().end()) - test.used().begin());
  const std::size_t first = worker * (test.candidates().size() / test.used().size());
  ASSERT_GT(test.used()[worker], 10u);
  const auto wrong = [&](const char* what, const auto& spoil) {
    cuda::FilterTest spoiled = test;
    spoil(spoiled);
    EXPECT_FALSE(spoiled.judge()) << what;
  };
  wrong("a sum", [&](cuda::FilterTest& t) { t.candidates()[first + 3].sum ^= 1; });
  wrong("a row", [&](cuda::FilterTest& t) { t.candidates()[first + 3].position ^= 1; });
  wrong("missing", [&](cuda::FilterTest& t) { --t.used()[worker]; });
  wrong("twice", [&](cuda::FilterTest& t) { t.candidates()[first + t.used()[worker]++] = t.candidates()[first]; });
  wrong("a group's largest sum", [&](cuda::FilterTest& t) { --t.nearest().back(); });
  wrong("nobody's", [&](cuda::FilterTest& t) { t.candidates()[first].query = 128; });
}

/// A device with wgmma.
struct Hopper : Device {
  bool empty = false;  // the kernel is: its code is that of another architecture

  struct Launch {
    Hopper* device;
    template <class Args>
    void operator()(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
                    const std::type_identity_t<Args>& args) const {
      EXPECT_LE(shared, h100);
      if (device->empty && std::is_same_v<Args, cuda::Filter> && threads == cuda::Int8Wgmma::facts.threads) return;
      device->Device::launch()(blocks, threads, shared, kernel, args);
    }
    template <class Args>
    void next(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
              const std::type_identity_t<Args>& args) const {
      (*this)(blocks, threads, shared, kernel, args);
    }
  };
  Hopper() { usable = cuda::built_filters("90a-real", 90); }
  Launch launch() { return {this}; }
};

TEST(CudaFilterTest, TellsAGroupThatIsWrong) {
  Hopper device;
  for (const std::int64_t width : {128, 512}) {
    SCOPED_TRACE(width);
    cuda::FilterTest test(width, 260, cuda::Int8Wgmma::facts, 4);
    test.run(device);
    ASSERT_TRUE(test.by_groups() && test.judge());
    const auto worker =
        static_cast<std::size_t>(std::max_element(test.used().begin(), test.used().end()) - test.used().begin());
    const std::size_t first = worker * (test.groups().size() / test.used().size());
    ASSERT_GT(test.used()[worker], 10u);
    const auto wrong = [&](const char* what, const auto& spoil) {
      cuda::FilterTest spoiled = test;
      spoil(spoiled);
      EXPECT_FALSE(spoiled.judge()) << what;
    };
    const int lost = cuda::lost_product_bits(width);
    wrong("a product", [&](cuda::FilterTest& t) { t.groups()[first + 3].products[2] ^= 1u << 16; });
    wrong("the largest", [&](cuda::FilterTest& t) { --t.groups()[first + 3].most; });
    wrong("a group", [&](cuda::FilterTest& t) { t.groups()[first + 3].position ^= 2; });
    wrong("a threshold", [&](cuda::FilterTest& t) { t.groups()[first + 3].threshold += 1 << lost; });
    wrong("missing", [&](cuda::FilterTest& t) { --t.used()[worker]; });
    wrong("twice", [&](cuda::FilterTest& t) { t.groups()[first + t.used()[worker]++] = t.groups()[first]; });
    // A query without a threshold has none.
    wrong("one too many", [&](cuda::FilterTest& t) {
      cuda::GroupCandidate more = t.groups()[first];
      more.query = more.query / 4 * 4 + 1;
      t.groups()[first + t.used()[worker]++] = more;
    });
  }
}

TEST(CudaFilterKernels, ThePlansInstructionSetOrOneThatEveryDeviceRuns) {
  using cuda::filter_kernel;
  const cuda::FilterSet hopper = cuda::built_filters("80-virtual,90a-real", 90),
                        other = cuda::built_filters("80-virtual,90a-real", 80);
  // What a build has of code does not depend on the device.
  EXPECT_EQ(cuda::instruction_sets_of(cuda::compiled_filters("80-virtual,90a-real")),
            cuda::instruction_sets_of(hopper));
  EXPECT_EQ(cuda::instruction_sets_of(cuda::compiled_filters("80-virtual,90-real")), cuda::instruction_sets_of(other));
  EXPECT_EQ(cuda::instruction_sets_of(hopper), (std::vector<std::string>{"wgmma", "mma"}));
  EXPECT_EQ(cuda::instruction_sets_of(other), (std::vector<std::string>{"mma"}));
  EXPECT_EQ(filter_kernel(hopper, Precision::int8, Sum::squares, "wgmma"), &cuda::Int8Wgmma::facts);
  EXPECT_EQ(filter_kernel(hopper, Precision::int8, Sum::products, "mma"), &cuda::Int8Mma::facts);
  EXPECT_EQ(filter_kernel(other, Precision::int8, Sum::squares, "wgmma"), &cuda::Int8Mma::facts);
  for (const Sum sum : {Sum::magnitudes, Sum::largest})
    EXPECT_EQ(filter_kernel(hopper, Precision::int8, sum, "wgmma"), &cuda::Int8Differences::facts);
  EXPECT_EQ(filter_kernel(hopper, Precision::int8, Sum::bits, "wgmma"), nullptr);
  for (const Precision precision : {Precision::fp16, Precision::f32})
    EXPECT_EQ(filter_kernel(hopper, precision, Sum::squares, "wgmma"), &cuda::FloatMma::facts);
  EXPECT_EQ(filter_kernel(hopper, Precision::canonical, Sum::squares, "wgmma"), nullptr);
}

TEST(CudaFilterTest, AKernelOfAnotherArchitectureFailsAndMmaIsLeft) {
  Hopper device;
  EXPECT_TRUE(cuda::test_filter(device, cuda::Int8Wgmma::facts, 4));
  device.empty = true;
  EXPECT_FALSE(cuda::test_filter(device, cuda::Int8Wgmma::facts, 4));
  const cuda::SelfTest tested = cuda::self_test(device);
  EXPECT_EQ(tested.filters,
            (cuda::FilterSet{&cuda::Int8Mma::facts, &cuda::Int8Differences::facts, &cuda::FloatMma::facts}));
  EXPECT_TRUE(tested.bytes && tested.halves && tested.floats);
}

}  // namespace
