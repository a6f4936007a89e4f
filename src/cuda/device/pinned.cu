// PINNED: see pinned.hpp.
#include "cuda/device/pinned.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/divide.hpp"
#include "cuda/device/check.hpp"
#include "cuda/device/memory.hpp"

namespace vicinal::cuda {
namespace {

constexpr int fetching_threads = 8;

class Spare {
 public:
  std::byte* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!pieces_.empty()) {
        std::byte* piece = pieces_.back();
        pieces_.pop_back();
        return piece;
      }
    }
    void* made = nullptr;
    if (cudaHostAlloc(&made, pinned_piece_bytes, cudaHostAllocPortable) == cudaSuccess)
      return static_cast<std::byte*>(made);
    cudaGetLastError();
    return nullptr;
  }
  /// Without memory for its place in the list the piece goes back to the system.
  void give(std::byte* piece) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      pieces_.push_back(piece);
    } catch (...) {
      cudaFreeHost(piece);
    }
  }
  std::int64_t release() {
    const std::lock_guard lock(mutex_);
    const auto bytes = static_cast<std::int64_t>(pieces_.size()) * pinned_piece_bytes;
    for (std::byte* piece : pieces_) cudaFreeHost(piece);
    pieces_.clear();
    return bytes;
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte*> pieces_;
};

Spare& spare() {
  static auto* const all = new Spare;  // outlives every thread; the driver takes the memory back
  return *all;
}

/// A piece while it is used.
struct UsedPiece {
  std::byte* const at = take_pinned();
  UsedPiece() = default;
  UsedPiece(const UsedPiece&) = delete;
  UsedPiece& operator=(const UsedPiece&) = delete;
  ~UsedPiece() {
    if (at != nullptr) give_pinned(at);
  }
};

}  // namespace

bool is_pinned(const void* memory) {
  cudaPointerAttributes about = {};
  if (cudaPointerGetAttributes(&about, memory) == cudaSuccess) return about.type == cudaMemoryTypeHost;
  cudaGetLastError();
  return false;
}

std::byte* take_pinned() { return spare().take(); }
void give_pinned(std::byte* piece) noexcept { spare().give(piece); }
std::int64_t release_pinned() { return spare().release(); }

void fetch(int ordinal, std::byte* to, const std::byte* from, std::int64_t bytes, ThreadPool& thread_pool) {
  const std::int64_t pieces = divide_up(bytes, pinned_piece_bytes);
  std::atomic<std::int64_t> next{0};
  thread_pool.for_each(
      std::min<std::int64_t>({pieces, fetching_threads, thread_pool.threads()}), [&](std::int64_t, int) {
        const OnDevice here(ordinal);
        const UsedPiece piece;
        for (std::int64_t i = next++; i < pieces; i = next++) {
          const std::int64_t at = i * pinned_piece_bytes, size = std::min(pinned_piece_bytes, bytes - at);
          std::byte* const there = piece.at != nullptr ? piece.at : to + at;
          check(cudaMemcpyAsync(there, from + at, static_cast<std::size_t>(size), cudaMemcpyDeviceToHost,
                                cudaStreamPerThread),
                "copying results");
          check(cudaStreamSynchronize(cudaStreamPerThread), "copying results");
          if (piece.at != nullptr) std::memcpy(to + at, there, static_cast<std::size_t>(size));
        }
      });
}

}  // namespace vicinal::cuda
