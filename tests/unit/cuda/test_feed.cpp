// Rows on their way to the device, on the made-up runtime: whatever their strides, on how many threads, and when something is refused.
#include "cuda/device/feed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "core/file_behind.hpp"
#include "cuda/device/pinned.hpp"
#include "cuda/device/runtime.hpp"
#include "io/mmap.hpp"
#include "unit/cuda/fake_runtime.hpp"
#include "unit/io/files.hpp"
#include "vicinal/error.hpp"

namespace vicinal::cuda {
namespace {

/// 12 MiB and a bit: pieces of 2 MiB, the last one short.
constexpr std::int64_t rows = 3001, cols = 1051;

class CudaFeed : public ::testing::Test {
 protected:
  CudaFeed() : table_(static_cast<std::size_t>(rows * cols)), got_(table_.size()) {
    std::iota(table_.begin(), table_.end(), 1U);
    fake::log.clear();
  }
  void TearDown() override {
    fake::pins = true;
    fake::next_copy = cudaSuccess;
    release_pinned();
    EXPECT_EQ(fake::pinned, 0);
    fake::log.clear();
  }
  HostTable dense() const { return {reinterpret_cast<const std::byte*>(table_.data()), 4, cols * 4, 4, false}; }
  std::byte* to() { return reinterpret_cast<std::byte*>(got_.data()); }
  void bring(Feed& feed, const HostTable& table, std::int64_t count, std::int64_t width) {
    feed.end(feed.begin(to(), table, count, width, cudaStreamPerThread), cudaStreamPerThread);
  }
  std::vector<std::uint32_t> table_, got_;
};

TEST_F(CudaFeed, BringsRowsAsTheyAre) {
  for (const int threads : {1, 3, 8}) {
    Feed feed(0, threads);
    std::fill(got_.begin(), got_.end(), 0U);
    bring(feed, dense(), rows, cols);
    EXPECT_EQ(got_, table_) << threads;
  }
}

TEST_F(CudaFeed, PacksStridesAndByteOrders) {
  Feed feed(0, 4);
  // Every second column, from the last row to the first, bytes the other way round.
  const HostTable table{reinterpret_cast<const std::byte*>(table_.data() + (rows - 1) * cols), 4, -cols * 4, 8, true};
  const std::int64_t width = (cols + 1) / 2;
  bring(feed, table, rows, width);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < width; ++c)
      ASSERT_EQ(got_[static_cast<std::size_t>(r * width + c)],
                __builtin_bswap32(table_[static_cast<std::size_t>((rows - 1 - r) * cols + 2 * c)]))
          << r << ' ' << c;
}

TEST_F(CudaFeed, TransfersEndInAnyOrder) {
  Feed feed(0, 3);
  const std::int64_t half = rows / 2, item = half * cols;
  HostTable second = dense();
  second.data += item * 4;
  const std::uint64_t a = feed.begin(to(), dense(), half, cols, cudaStreamPerThread);
  const std::uint64_t b = feed.begin(to() + item * 4, second, rows - half, cols, cudaStreamPerThread);
  feed.end(b, cudaStreamPerThread);
  feed.end(a, cudaStreamPerThread);
  EXPECT_EQ(got_, table_);
  bring(feed, dense(), 0, cols);  // none is as good
}

TEST_F(CudaFeed, GoesOnWithoutPinnedMemory) {
  release_pinned();
  fake::pins = false;
  Feed feed(0, 2);
  bring(feed, dense(), rows, cols);
  EXPECT_EQ(got_, table_);
}

TEST_F(CudaFeed, AnErrorOfTheDeviceEndsTheTransferAloneThatItIsOf) {
  Feed feed(0, 3);
  fake::next_copy = cudaErrorIllegalAddress;
  EXPECT_THROW(bring(feed, dense(), rows, cols), Error);
  bring(feed, dense(), rows, cols);
  EXPECT_EQ(got_, table_);
}

TEST_F(CudaFeed, IsLetGoWithTransfersThatNobodyWaitsFor) {
  // Far more than is copied before the feed ends: every transfer is of the same rows.
  constexpr int transfers = 200;
  {
    Feed feed(0, 2);
    for (int i = 0; i < transfers; ++i) (void)feed.begin(to(), dense(), rows, cols, cudaStreamPerThread);
  }
  const auto copies = std::count(fake::log.begin(), fake::log.end(), "copy copies");
  const std::int64_t pieces = (rows * cols * 4 + (2 << 20) - 1) / (2 << 20);
  EXPECT_LT(copies, transfers * pieces);
}

/// 36 MiB in a file that is mapped.
TEST_F(CudaFeed, ReadsMappedRowsFromTheirFile) {
  const test::TemporaryDirectory folder;
  const std::string path = folder.file("rows.bin");
  std::vector<std::uint32_t> all;
  for (int i = 0; i < 3; ++i) all.insert(all.end(), table_.begin(), table_.end());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size() * 4));
  const io::MappedFile file(path);
  ASSERT_TRUE(FileBehind(file.bytes().data(), static_cast<std::int64_t>(file.bytes().size())));
  got_.assign(all.size(), 0);
  Feed feed(0, 3);
  const HostTable table{file.bytes().data(), 4, cols * 4, 4, false};
  bring(feed, table, 3 * rows, cols);
  EXPECT_EQ(got_, all);
  std::filesystem::resize_file(path, 1 << 20);
  try {
    bring(feed, table, 3 * rows, cols);
    ADD_FAILURE() << "read what is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format_error);
  }
}

TEST_F(CudaFeed, FetchesResultsThroughPinnedPiecesOrAsTheyAre) {
  const auto bytes = static_cast<std::int64_t>(table_.size() * 4);
  for (const bool pins : {true, false})
    for (const int threads : {1, 3, 12}) {
      fake::pins = pins;
      release_pinned();
      ThreadPool thread_pool(threads, nullptr, {}, 1);
      std::fill(got_.begin(), got_.end(), 0U);
      fetch(0, to(), dense().data, bytes, thread_pool);
      EXPECT_EQ(got_, table_) << threads;
      EXPECT_EQ(fake::pinned > 0, pins);
      EXPECT_LE(fake::pinned, 8);
    }
  fake::pins = true;
  ThreadPool thread_pool(3, nullptr, {}, 1);
  fake::next_copy = cudaErrorIllegalAddress;
  EXPECT_THROW(fetch(0, to(), dense().data, bytes, thread_pool), Error);
  std::fill(got_.begin(), got_.end(), 0U);
  fetch(0, to(), dense().data, bytes, thread_pool);  // no piece was lost
  EXPECT_EQ(got_, table_);
}

TEST_F(CudaFeed, FewResultsAreOneCopyAndManyComeThroughPieces) {
  Pool pool(0);
  Runtime runtime({.ordinal = 0, .multiprocessors = 132, .pool = pool}, {"copying", "waiting", "ask for less"});
  ThreadPool thread_pool(3, nullptr, {}, 1);
  for (const std::int64_t bytes : {least_fetched - 1, least_fetched}) {
    std::fill(got_.begin(), got_.end(), 0U);
    runtime.results_out(to(), dense().data, bytes, thread_pool);
    EXPECT_EQ(fake::pinned > 0, bytes == least_fetched);
    EXPECT_EQ(std::memcmp(to(), dense().data, static_cast<std::size_t>(bytes)), 0);
    EXPECT_EQ(got_[static_cast<std::size_t>(bytes) / 4 + 1], 0U);
  }
}

}  // namespace
}  // namespace vicinal::cuda
