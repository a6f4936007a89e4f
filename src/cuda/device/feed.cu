// FEED: see feed.hpp. Each thread has pieces of pinned memory in
// turns, so that it fills one while the device takes another.
#include "cuda/device/feed.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "cuda/device/check.hpp"
#include "cuda/device/memory.hpp"
#include "cuda/device/pinned.hpp"

namespace vicinal::cuda {
namespace {

constexpr std::int64_t least_file_bytes = std::int64_t{32} << 20;  // below it a look at the mappings takes too long
constexpr int turns = 3;
constexpr const char* feeding = "feeding rows to the device";

}  // namespace

/// The pieces of one thread, in turns. Where the system pins no
/// memory they are ordinary, and the driver copies once more.
class Feed::Pieces {
 public:
  ~Pieces() {
    for (Piece& piece : all_) {
      if (piece.free != nullptr) {
        cudaEventSynchronize(piece.free);
        cudaEventDestroy(piece.free);
      }
      if (piece.pinned != nullptr) give_pinned(piece.pinned);
    }
  }
  /// Memory that the device has done with.
  std::byte* next() {
    turn_ = (turn_ + 1) % turns;
    Piece& piece = all_[turn_];
    if (piece.free != nullptr) {
      check(cudaEventSynchronize(piece.free), feeding);
    } else {
      check(cudaEventCreateWithFlags(&piece.free, cudaEventDisableTiming), feeding);
      piece.pinned = take_pinned();
      if (piece.pinned == nullptr) piece.ordinary.reset(new std::byte[pinned_piece_bytes]);
    }
    return piece.pinned != nullptr ? piece.pinned : piece.ordinary.get();
  }
  /// The copy from that memory is queued.
  void queued(cudaStream_t stream) { check(cudaEventRecord(all_[turn_].free, stream), feeding); }

 private:
  struct Piece {
    std::byte* pinned = nullptr;
    std::unique_ptr<std::byte[]> ordinary;
    cudaEvent_t free = nullptr;
  };
  Piece all_[turns];
  int turn_ = 0;
};

Feed::Feed(int ordinal, int threads) : ordinal_(ordinal) {
  check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "making a stream for copies");
  const int wanted = std::clamp(threads, 1, most_threads);
  try {
    threads_.reserve(static_cast<std::size_t>(wanted));
    for (int i = 0; i < wanted; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::exception&) {  // the system refuses threads, or memory for them: fewer, then
  }
}

Feed::~Feed() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (cudaStreamSynchronize(copies_) != cudaSuccess) cudaGetLastError();
  for (const Transfer& transfer : transfers_) destroy(transfer);
  cudaStreamDestroy(copies_);
}

std::uint64_t Feed::begin(std::byte* to, const HostTable& table, std::int64_t rows, std::int64_t cols,
                          cudaStream_t stream) {
  Transfer transfer;
  transfer.to = to;
  transfer.table = table;
  transfer.cols = cols;
  transfer.items = rows * cols;
  const bool dense = is_plain(table, cols) && (table.row_stride == cols * table.item_size || rows < 2);
  transfer.pinned = dense && is_pinned(table.data);
  if (const std::int64_t bytes = rows * cols * table.item_size;
      dense && !transfer.pinned && bytes >= least_file_bytes) {
    if (!file_ || !file_->covers(table.data, bytes)) file_ = std::make_shared<FileBehind>(table.data, bytes);
    if (*file_) transfer.file = file_;
  }
  check(cudaEventCreateWithFlags(&transfer.before, cudaEventDisableTiming), feeding);
  check(cudaEventCreateWithFlags(&transfer.there, cudaEventDisableTiming), feeding);
  check(cudaEventRecord(transfer.before, stream), feeding);
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    transfers_.push_back(transfer);
    number = first_ + transfers_.size() - 1;
  }
  begun_.notify_all();
  if (threads_.empty()) {
    Pieces pieces;
    copy_all(pieces);
  }
  return number;
}

void Feed::end(std::uint64_t number, cudaStream_t stream) {
  std::unique_lock lock(mutex_);
  Transfer& transfer = transfers_[static_cast<std::size_t>(number - first_)];
  queued_.wait(lock, [&] { return transfer.done(); });
  const std::exception_ptr fault = transfer.fault;
  const cudaError_t status = fault ? cudaSuccess : cudaStreamWaitEvent(stream, transfer.there, 0);
  transfer.ended = true;
  for (; !transfers_.empty() && transfers_.front().ended; ++first_) {
    destroy(transfers_.front());
    transfers_.pop_front();
  }
  lock.unlock();
  if (fault) {  // what was queued before it is written to memory that the caller lets go
    if (cudaStreamSynchronize(copies_) != cudaSuccess) cudaGetLastError();
    std::rethrow_exception(fault);
  }
  check(status, feeding);
}

void Feed::destroy(const Transfer& transfer) {
  cudaEventDestroy(transfer.before);
  cudaEventDestroy(transfer.there);
}

/// The next piece of the first transfer that has one; false where there
/// is none now, or the feed is let go and no search would read it.
bool Feed::take(Transfer*& transfer, std::int64_t& begin, std::int64_t& end) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  const auto found = std::find_if(transfers_.begin(), transfers_.end(), [](const Transfer& t) { return t.waits(); });
  if (found == transfers_.end()) return false;
  transfer = &*found;
  begin = found->next;
  end = found->pinned ? found->items : std::min(found->items, begin + pinned_piece_bytes / found->table.item_size);
  found->next = end;
  ++found->open;
  if (begin == 0) check(cudaStreamWaitEvent(copies_, found->before, 0), feeding);
  return true;
}

/// The piece is queued, or will not be.
void Feed::give(Transfer& transfer, std::exception_ptr fault) {
  {
    const std::lock_guard lock(mutex_);
    if (fault && !transfer.fault) transfer.fault = fault;
    --transfer.open;
    if (!transfer.done()) return;
    if (!transfer.fault && cudaEventRecord(transfer.there, copies_) != cudaSuccess)
      transfer.fault = std::make_exception_ptr(Error(ErrorCode::device_error, cat("CUDA: ", feeding)));
  }
  queued_.notify_all();
}

void Feed::queue(const Transfer& transfer, std::int64_t begin, std::int64_t end, Pieces& pieces) {
  const HostTable& table = transfer.table;
  const auto bytes = static_cast<std::size_t>((end - begin) * table.item_size);
  std::byte* const to = transfer.to + begin * table.item_size;
  if (transfer.pinned) return check(cudaMemcpyAsync(to, table.data, bytes, cudaMemcpyHostToDevice, copies_), feeding);
  std::byte* const piece = pieces.next();
  if (transfer.file) transfer.file->read(piece, table.data + begin * table.item_size, (end - begin) * table.item_size);
  else pack_items(piece, table, transfer.cols, begin, end);
  check(cudaMemcpyAsync(to, piece, bytes, cudaMemcpyHostToDevice, copies_), feeding);
  pieces.queued(copies_);
}

/// Pieces until none waits. An error ends the transfer that it is of.
void Feed::copy_all(Pieces& pieces) {
  Transfer* transfer = nullptr;
  for (std::int64_t begin = 0, end = 0;; give(*std::exchange(transfer, nullptr), {})) {
    try {
      const OnDevice here(ordinal_);
      if (!take(transfer, begin, end)) return;
      queue(*transfer, begin, end, pieces);
    } catch (...) {
      if (transfer == nullptr) throw;  // the device cannot be made current
      give(*std::exchange(transfer, nullptr), std::current_exception());
      return;
    }
  }
}

void Feed::work() {
  Pieces pieces;
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] {
      return stopped_ || std::any_of(transfers_.begin(), transfers_.end(), [](const Transfer& t) { return t.waits(); });
    });
    if (stopped_) return;
    lock.unlock();
    std::exception_ptr fault;
    try {
      copy_all(pieces);
    } catch (...) {
      fault = std::current_exception();
    }
    lock.lock();
    if (!fault) continue;
    for (Transfer& transfer : transfers_)
      if (!transfer.done()) transfer.fault = fault;
    queued_.notify_all();
  }
}

}  // namespace vicinal::cuda
