// The runtime that the host's parts of searches are written for (search/session.hpp, strings/search.hpp,
// permutation/search.hpp): memory of the pool, copies and launches on a stream of the calling thread's own.
// tests/unit/cuda has its twin for the emulator.
#pragma once
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/text.hpp"
#include "cuda/device/check.hpp"
#include "cuda/device/context.hpp"
#include "cuda/device/feed.hpp"
#include "cuda/device/launch.cuh"
#include "cuda/device/load.hpp"
#include "cuda/device/pinned.hpp"
#include "cuda/device/stream.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

/// What its errors say.
struct RuntimeTexts {
  const char *copying, *waiting, *way_out;
};

class Runtime {
 public:
  static constexpr std::int64_t small_arrays = std::int64_t{2} << 20;
  /// carved: where it is not 0, arrays are pieces of one of so many bytes as long as it lasts, those of a few MB but of
  /// much; it goes back when the runtime ends. A search takes a score of them, and the driver some 2 us for each to
  /// take and to give back. after: null, or a stream of the caller's, whose work so far comes before ours.
  Runtime(const DeviceContext& context, const RuntimeTexts& texts, std::int64_t carved = 0, void* after = nullptr)
      : multiprocessors(context.multiprocessors), context_(context), texts_(texts), carved_bytes_(carved) {
    if (after != nullptr) order_streams(static_cast<cudaStream_t>(after), stream_);
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() {
    drain();
    if (carved_ != nullptr) give_back(carved_);
    if (pinned_ == nullptr) return;
    if (!due_.empty() && cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
    give_pinned(pinned_);
  }
  /// Before memory that is not of this runtime is let go: waits where an exception ends the search.
  void drain() noexcept { drain_.now(); }

  void* take(std::int64_t bytes) {
    const std::int64_t size = (bytes + 255) / 256 * 256;
    const std::int64_t most = carved_bytes_ > small_arrays ? carved_bytes_ : carved_bytes_ / 8;
    if (size > most) return from_pool(bytes);
    if (carved_ == nullptr) {
      carved_ = static_cast<std::byte*>(context_.pool.take(carved_bytes_, stream_));
      if (carved_ == nullptr && carved_bytes_ == small_arrays) return from_pool(bytes);
      if (carved_ == nullptr) {  // there may be room for what is taken in the end
        carved_bytes_ = small_arrays;
        return take(bytes);
      }
    }
    if (used_ + size > carved_bytes_) return from_pool(bytes);
    return carved_ + std::exchange(used_, used_ + size);
  }
  void give(void* memory) {
    if (carved_ == nullptr || memory < carved_ || memory >= carved_ + carved_bytes_) give_back(memory);
  }
  /// Memory of the host that kernels read and write where it is.
  /// It takes the driver as long as a search of many queries.
  std::byte* take_shared(std::int64_t bytes) {
    void* memory = nullptr;
    if (cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocPortable) != cudaSuccess) {
      cudaGetLastError();
      fail(ErrorCode::out_of_memory, cat("the system refused ", bytes_text(bytes), " of pinned memory"));
    }
    return static_cast<std::byte*>(memory);
  }
  void give_shared(void* memory) noexcept {
    if (cudaFreeHost(memory) != cudaSuccess) cudaGetLastError();  // a broken context: nothing is left to give back
  }
  void in(void* to, const void* from, std::int64_t bytes) { copy(to, from, bytes); }
  /// A few bytes of a search come by pinned memory, which takes the driver
  /// a third of the time; they are there after wait(), as others are.
  void out(void* to, const void* from, std::int64_t bytes) {
    if (carved_bytes_ == 0 || bytes > most_by_pinned || pinned_used_ + bytes > pinned_piece_bytes - most_by_pinned)
      return copy(to, from, bytes);
    if (pinned_ == nullptr && (pinned_ = take_pinned()) == nullptr) return copy(to, from, bytes);
    std::byte* const at = pinned_ + std::exchange(pinned_used_, pinned_used_ + bytes);
    copy(at, from, bytes);
    due_.push_back({to, at, bytes});
  }
  /// A few bytes of memory of the host that kernels write where it is, until the search ends; null where the system
  /// pins none. What is there counts after wait().
  void* reached_by_both(std::int64_t bytes) {
    if (pinned_ == nullptr) pinned_ = take_pinned();
    return pinned_ != nullptr && bytes <= most_by_pinned ? pinned_ + pinned_piece_bytes - most_by_pinned : nullptr;
  }
  void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_), texts_.copying);
  }
  /// It copies results to the host, when all that was launched is done; many of them are there when it returns.
  void results_out(void* to, const void* from, std::int64_t bytes, ThreadPool& thread_pool) {
    if (bytes < least_fetched || is_pinned(to)) return out(to, from, bytes);
    fetch(context_.ordinal, static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, thread_pool);
  }
  void zero(void* at, std::int64_t bytes) {
    check(cudaMemsetAsync(at, 0, static_cast<std::size_t>(bytes), stream_), "clearing counts");
  }
  void wait() {
    check(cudaStreamSynchronize(stream_), texts_.waiting);
    if (due_.empty()) return;  // nothing is written: threads that keep corpora wait on one runtime
    for (const Due& one : due_) std::memcpy(one.to, one.at, static_cast<std::size_t>(one.bytes));
    due_.clear();
    pinned_used_ = 0;
  }
  const CudaLaunch& launch() const { return launch_; }
  bool holds(const void* memory) const {
    return memory != nullptr && device_of(memory, context_.ordinal) == context_.ordinal;
  }
  /// Dense rows from the host, in the order of the launches; many come by the feed.
  void rows_in(std::byte* to, const Points& rows) {
    if (rows.rows * rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype)) >= Feed::least_bytes)
      return fed([&](Feed& feed) { feed.end(feed.begin(to, table_of(rows), rows.rows, rows.cols, stream_), stream_); });
    copy_in(to, table_of(rows), 0, rows.rows, rows.cols, stream_);
  }
  /// Begins to bring rows from the host, beside the launches that follow; what was launched before has run first.
  /// Returns the transfer's number.
  std::uint64_t begin_rows(std::byte* to, const Points& rows) {
    std::uint64_t transfer = 0;
    fed([&](Feed& feed) { transfer = feed.begin(to, table_of(rows), rows.rows, rows.cols, stream_); });
    return transfer;
  }
  /// Launches from now on find the rows of the transfer. Both belong to a runtime of one search.
  void end_rows(std::uint64_t transfer) { feed_->end(transfer, stream_); }
  /// Drops transfers that were begun and not ended, before their memory is let go.
  void drop_rows() noexcept { feed_.reset(); }
  std::int64_t free_bytes() const { return context_.pool.free_bytes(); }
  const DeviceContext& context() const noexcept { return context_; }

  int multiprocessors;

 protected:
  cudaStream_t stream_ = cudaStreamPerThread;

 private:
  static constexpr std::int64_t most_by_pinned = 4096;
  /// What wait() brings from pinned memory.
  struct Due {
    void* to;
    const std::byte* at;
    std::int64_t bytes;
  };

  /// A search keeps its feed; calls of several threads on one runtime have one each.
  template <class Use>
  void fed(const Use& use) {
    if (carved_bytes_ != 0) {
      if (!feed_) feed_.emplace(context_.ordinal, threads_for(0));
      return use(*feed_);
    }
    Feed feed(context_.ordinal, threads_for(0));
    use(feed);
  }
  static HostTable table_of(const Points& rows) {
    return {static_cast<const std::byte*>(rows.data), static_cast<std::int64_t>(dtype_size(rows.dtype)),
            rows.row_stride, rows.col_stride, rows.byte_swapped};
  }
  void* from_pool(std::int64_t bytes) {
    void* memory = context_.pool.take(bytes, stream_);
    if (memory == nullptr)
      fail(ErrorCode::out_of_memory, cat("cuda:", context_.ordinal, " refused ", bytes_text(bytes), "; ",
                                         bytes_text(free_bytes()), " are free there; ", texts_.way_out));
    return memory;
  }
  void give_back(void* memory) {
    const OnDevice here(context_.ordinal);
    context_.pool.give(memory, stream_);
  }

  CudaLaunch launch_{stream_};
  Drain drain_{stream_};
  DeviceContext context_;
  RuntimeTexts texts_;
  std::int64_t carved_bytes_;
  std::byte* carved_ = nullptr;
  std::int64_t used_ = 0;
  std::byte* pinned_ = nullptr;
  std::int64_t pinned_used_ = 0;
  std::vector<Due> due_;
  std::optional<Feed> feed_;
};

/// What is kept on a device between searches, and whose memory the driver
/// gets back when the last of its owners lets it go, on any thread.
template <class T>
std::shared_ptr<const T> given_back(const DeviceContext& context, std::shared_ptr<const T> kept) {
  const T* const seen = kept.get();
  return {seen, [context, kept = std::move(kept)](const T*) mutable {
            const Pool::Call call(context.pool, cudaStreamPerThread);
            kept.reset();
          }};
}

}  // namespace vicinal::cuda
