// FEED: rows of the host's memory on their way to the device while it works. Threads of the host copy pieces of them
// into pinned memory, from which the device's copy engine takes them: a copy from pageable memory goes through one
// buffer of the driver's and one thread, at 8 GB/s where the bus brings 55 (docs/design/0027).
#pragma once
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/file_behind.hpp"
#include "cuda/device/load.hpp"

namespace vicinal::cuda {

/// A Feed carries out transfers one after the other, on a stream and
/// threads of its own, for one search. Its calls come from one thread.
class Feed {
 public:
  /// Transfers of fewer bytes are not worth threads.
  static constexpr std::int64_t least_bytes = std::int64_t{8} << 20;
  static constexpr int most_threads = 12;

  /// threads: at most so many copy; the system may start fewer,
  /// and where it starts none the caller's own thread copies.
  Feed(int ordinal, int threads);
  /// It drops transfers that were begun and not ended, and returns when the device writes nowhere any more.
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// It begins to bring rows to `to`, dense, once the work that is queued on `stream` so far has run. The table must
  /// stay until end(). Returns the transfer's number.
  std::uint64_t begin(std::byte* to, const HostTable& table, std::int64_t rows, std::int64_t cols, cudaStream_t stream);
  /// It lets the work that is queued on `stream` from now on wait for the transfer; returns when all pieces of that are
  /// queued. Throws what ended the transfer.
  void end(std::uint64_t transfer, cudaStream_t stream);

 private:
  struct Transfer {
    std::byte* to = nullptr;
    HostTable table;
    std::int64_t cols = 0, items = 0;
    std::int64_t next = 0, open = 0;         // the first item that no thread has taken; pieces that are not queued yet
    bool pinned = false;                     // the copy engine takes the rows where they are
    std::shared_ptr<const FileBehind> file;  // that the rows are read from; null: they are read where they are
    cudaEvent_t before = nullptr, there = nullptr;
    std::exception_ptr fault;
    bool ended = false;
    bool waits() const noexcept { return next < items && !fault; }
    bool done() const noexcept { return !waits() && open == 0; }
  };
  class Pieces;

  static void destroy(const Transfer& transfer);
  void work();
  void copy_all(Pieces& pieces);
  bool take(Transfer*& transfer, std::int64_t& begin, std::int64_t& end);
  void give(Transfer& transfer, std::exception_ptr fault);
  void queue(const Transfer& transfer, std::int64_t begin, std::int64_t end, Pieces& pieces);

  int ordinal_;
  cudaStream_t copies_ = nullptr;
  std::mutex mutex_;  // of what follows
  std::condition_variable begun_, queued_;
  std::deque<Transfer> transfers_;  // those that have not been ended
  std::uint64_t first_ = 0;         // number of the first of them
  bool stopped_ = false;
  std::shared_ptr<const FileBehind> file_;  // of the last transfer that had one
  std::vector<std::thread> threads_;
};

}  // namespace vicinal::cuda
