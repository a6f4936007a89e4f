// The order in which src/cuda asks the driver for things, on the made-up runtime: what a search that ends by an exception waits for, what
// a caller's stream and context are to it, which memory is the device's, and what a pool keeps.
#include "unit/cuda/fake_runtime.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "cuda/device/runtime.hpp"

namespace vicinal::cuda {
namespace {

using Log = std::vector<std::string>;
constexpr RuntimeTexts texts{"copying", "waiting", "ask for less"};
constexpr std::int64_t gib = std::int64_t{1} << 30;

/// A pool that may be told of large pieces, which nobody writes to.
class CudaRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::used = fake::reserved = fake::most_used = fake::threshold = 0;
    fake::log.clear();
  }
  void TearDown() override {
    EXPECT_EQ(fake::blocks, 0);
    EXPECT_EQ(fake::current, fake::context_of(0));
    fake::current = fake::context_of(0);
    fake::device_memory.clear();
    fake::memory_device = 0;
    fake::largest_block = SIZE_MAX;
    fake::capture = cudaStreamCaptureStatusNone;
    fake::log.clear();
  }
  void take_and_give(std::int64_t bytes) { pool_.give(pool_.take(bytes, cudaStreamPerThread), cudaStreamPerThread); }

  char callers_ = 0;
  cudaStream_t caller_ = reinterpret_cast<cudaStream_t>(&callers_);
  Pool pool_{0};
  DeviceContext context_{.ordinal = 0, .multiprocessors = 132, .pool = pool_};
};

TEST_F(CudaRuntime, ASearchThatEndsByAnExceptionWaitsBeforeItsMemoryIsGivenBack) {
  std::vector<float> rows(100, 1.0F);
  const auto search = [&](bool fails) {
    fake::log.clear();
    try {
      Runtime runtime(context_, texts, Runtime::small_arrays);
      void* there = runtime.take(400);
      runtime.in(there, rows.data(), 400);
      if (fails) fail(ErrorCode::cancelled, "cancelled");
      runtime.wait();
    } catch (const Error&) {}
    return fake::log;
  };
  EXPECT_EQ(search(true), (Log{"take own", "copy own", "wait own", "give own"}));
  EXPECT_EQ(search(false), (Log{"take own", "copy own", "wait own", "give own"}));
  // One that runs while another exception is on its way waits for its own alone.
  struct Unwound {
    const decltype(search)& call;
    Log& seen;
    ~Unwound() { seen = call(false); }
  };
  Log seen;
  try {
    const Unwound unwound{search, seen};
    throw std::runtime_error("another");
  } catch (const std::runtime_error&) {}
  EXPECT_EQ(seen, (Log{"take own", "copy own", "wait own", "give own"}));
}

TEST_F(CudaRuntime, WhatIsKeptIsLetGoAfterTheKernelsOfAFailedSearch) {
  struct Held {
    explicit Held(Runtime& with) : runtime(with), memory(with.take(400)) {}
    Runtime& runtime;
    void* memory;
    ~Held() { runtime.give(memory); }
  };
  Runtime runtime(context_, texts);
  auto kept = given_back<Held>(context_, std::make_shared<const Held>(runtime));
  fake::log.clear();
  try {
    // As a session does: it holds what is kept, and begins with its end by waiting.
    struct Session {
      Runtime& runtime;
      std::shared_ptr<const Held> kept;
      ~Session() {
        runtime.drain();
        kept.reset();
      }
    };
    Runtime own(context_, texts);
    const Session session{own, std::move(kept)};
    own.zero(session.kept->memory, 400);
    fail(ErrorCode::out_of_memory, "no memory");
  } catch (const Error&) {}
  EXPECT_EQ(fake::log, (Log{"set own", "wait own", "give own"}));
}

TEST_F(CudaRuntime, ASearchBeginsAfterTheCallersStream) {
  {
    Runtime runtime(context_, texts, 0, caller_);
    void* there = runtime.take(8);
    runtime.zero(there, 8);
    runtime.wait();
    runtime.give(there);
  }
  EXPECT_EQ(fake::log, (Log{"record caller", "own waits for it", "take own", "set own", "wait own", "give own"}));
}

TEST_F(CudaRuntime, ASearchWithoutMemoryForAllAtOnceTakesItAsItGoes) {
  const std::int64_t all = 4 * Runtime::small_arrays;
  {
    Runtime runtime(context_, texts, all);
    void* const first = runtime.take(Runtime::small_arrays);
    EXPECT_EQ(runtime.take(400), static_cast<std::byte*>(first) + Runtime::small_arrays);
    EXPECT_EQ(fake::blocks, 1);
  }
  fake::largest_block = static_cast<std::size_t>(all - 1);
  fake::log.clear();
  {
    Runtime runtime(context_, texts, all);
    void* const first = runtime.take(Runtime::small_arrays);
    EXPECT_NE(first, nullptr);
    EXPECT_NE(runtime.take(400), nullptr);
    EXPECT_EQ(fake::blocks, 2) << "what is large alone, and a piece for what is small";
    runtime.give(first);
  }
}

TEST_F(CudaRuntime, AFewBytesAreThereAfterTheWait) {
  const std::vector<std::uint64_t> from{1, 2, 3};
  std::vector<std::uint64_t> to(3);
  Runtime runtime(context_, texts, Runtime::small_arrays);
  runtime.out(to.data(), from.data(), 16);
  runtime.out(to.data() + 2, from.data() + 2, 8);
  EXPECT_EQ(to, std::vector<std::uint64_t>(3)) << "they lie in pinned memory";
  runtime.wait();
  EXPECT_EQ(to, from);
  // More than a page comes as it goes.
  for (const std::int64_t bytes : {4096, 4097}) {
    const std::vector<char> many(4097, 'a');
    std::vector<char> there(many.size());
    runtime.out(there.data(), many.data(), bytes);
    EXPECT_EQ(there.front() == 'a', bytes > 4096);
    runtime.wait();
    EXPECT_EQ(std::count(there.begin(), there.end(), 'a'), bytes);
  }
  // Whoever waits again gets nothing again.
  to.assign(3, 7);
  runtime.wait();
  EXPECT_EQ(to, std::vector<std::uint64_t>(3, 7));
}

TEST_F(CudaRuntime, AStreamThatCapturesIsRefused) {
  refuse_capture(caller_);
  for (const auto status : {cudaStreamCaptureStatusActive, cudaStreamCaptureStatusInvalidated}) {
    fake::capture = status;
    try {
      refuse_capture(caller_);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("capturing a CUDA graph"), std::string::npos) << error.what();
    }
  }
  EXPECT_TRUE(fake::log.empty());  // nothing that would end the capture was asked
}

TEST_F(CudaRuntime, OnlyMemoryOfItsOwnDeviceIsHeld) {
  const Runtime runtime(context_, texts);
  const std::vector<float> here(4), there(4);
  fake::device_memory.emplace_back(reinterpret_cast<const char*>(there.data()), 16);
  EXPECT_FALSE(runtime.holds(here.data()));
  EXPECT_FALSE(runtime.holds(nullptr));
  EXPECT_TRUE(runtime.holds(there.data()));
  EXPECT_EQ(device_of(there.data(), -1), 0);
  fake::memory_device = 1;
  EXPECT_FALSE(runtime.holds(there.data()));
  EXPECT_EQ(device_of(there.data(), -1), 1);
}

TEST_F(CudaRuntime, ContextsOfOthersAreSetAsideAndComeBack) {
  for (const int before : {0, 1, 2})
    for (const int ordinal : {0, 1}) {
      fake::current = fake::context_of(before);
      {
        const OnDevice here(ordinal);
        EXPECT_EQ(fake::current, fake::context_of(ordinal)) << before;
        {
          const OnDevice again(ordinal);
          EXPECT_EQ(fake::current, fake::context_of(ordinal));
        }
        EXPECT_EQ(fake::current, fake::context_of(ordinal));
      }
      EXPECT_EQ(fake::current, fake::context_of(before)) << ordinal;
    }
  fake::current = fake::context_of(0);
}

TEST_F(CudaRuntime, RefusedMemoryWaitsForItsOwnStreamAlone) {
  fake::largest_block = 100;
  EXPECT_EQ(pool_.take(1000, caller_), nullptr);
  EXPECT_EQ(fake::log, (Log{"refuse", "wait caller", "trim", "refuse"}));
}

TEST_F(CudaRuntime, APoolKeepsWhatTheLastCallUsedWithinBounds) {
  const auto after = [&](std::int64_t bytes) {
    const Pool::Call call(pool_, cudaStreamPerThread);
    take_and_give(bytes);
    cudaStreamSynchronize(cudaStreamPerThread);
    EXPECT_EQ(fake::reserved, std::max<std::uint64_t>(fake::reserved, static_cast<std::uint64_t>(bytes)))
        << "given back during a call";
  };
  const auto kept = [&] { return static_cast<std::int64_t>(fake::reserved); };
  after(gib / 2);
  EXPECT_EQ(kept(), gib / 2);
  after(3 * gib);
  EXPECT_EQ(kept(), 3 * gib);
  after(9 * gib);
  EXPECT_EQ(kept(), 4 * gib);
  after(gib / 4);
  EXPECT_EQ(kept(), gib);
  // Pieces that did not fit into each other stay, up to a quarter.
  after(2 * gib);
  after(2 * gib - gib / 4);
  EXPECT_EQ(kept(), 2 * gib);
  after(2 * gib - gib / 2);
  EXPECT_EQ(kept(), 2 * gib - gib / 2);
  after(gib / 4);
  EXPECT_EQ(kept(), gib);
  {
    const Pool::Call first(pool_, cudaStreamPerThread);
    after(2 * gib);  // another thread's, which ends while the first goes on
    EXPECT_EQ(kept(), 2 * gib);
    pool_.use();  // what the report asks for does not make it forget
  }
  EXPECT_EQ(kept(), 2 * gib);
  // What is in use, of a kept corpus, comes on top; and goes with it.
  void* corpus = pool_.take(6 * gib, cudaStreamPerThread);
  after(gib / 2);
  EXPECT_EQ(kept(), 6 * gib + gib / 2);
  // Who keeps one searches again: an eighth of the device, 8 GiB here, may stay for that.
  after(7 * gib);
  EXPECT_EQ(kept(), 13 * gib);
  after(9 * gib);
  EXPECT_EQ(kept(), 15 * gib);  // and what lies beside it
  after(9 * gib + 1);
  EXPECT_EQ(kept(), 14 * gib);
  {
    const Pool::Call call(pool_, cudaStreamPerThread);
    pool_.give(corpus, cudaStreamPerThread);
  }
  EXPECT_EQ(kept(), gib);
  EXPECT_EQ(pool_.release(), gib);
  EXPECT_EQ(kept(), 0);
  EXPECT_EQ(pool_.release(), 0);
}

}  // namespace
}  // namespace vicinal::cuda
