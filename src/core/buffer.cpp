// Buffers of 256 KiB and more are mapped; smaller ones come from the heap. 4 MiB and more ask for huge pages, which
// a packed corpus needs: each query block walks all of it.
#include "core/buffer.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <limits>

#include "core/text.hpp"

namespace vicinal {
namespace {
constexpr std::size_t mapped_from = std::size_t{256} << 10;
constexpr std::size_t huge_from = std::size_t{4} << 20;
constexpr std::size_t page = 4096;
}  // namespace

void* acquire_bytes(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* at = nullptr;
  if (bytes < mapped_from) {
    at = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  } else if (bytes < std::numeric_limits<std::size_t>::max() / 2) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) at = nullptr;
    if (at != nullptr && bytes >= huge_from) madvise(at, bytes, MADV_HUGEPAGE);  // a wish; refusal is fine
  }
  if (at == nullptr)
    fail(ErrorCode::out_of_memory, cat(bytes_text(static_cast<std::int64_t>(bytes)),
                                       " requested and refused by the system; set a smaller memory budget"));
  return at;
}

void release_bytes(void* at, std::size_t bytes) noexcept {
  if (at == nullptr) return;
  if (bytes < mapped_from) {
    std::free(at);
  } else {
    munmap(at, bytes);
  }
}

ReservedBytes::ReservedBytes(std::size_t bytes) noexcept {
  if (bytes == 0 || bytes >= std::numeric_limits<std::size_t>::max() / 2) return;
  bytes_ = (bytes + page - 1) / page * page;
  at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at_ == MAP_FAILED) at_ = nullptr;
  if (at_ != nullptr && bytes_ >= huge_from) madvise(at_, bytes_, MADV_HUGEPAGE);  // a wish; refusal is fine
}

void ReservedBytes::trim(std::size_t bytes) noexcept {
  const std::size_t kept = (bytes + page - 1) / page * page;
  if (at_ == nullptr || kept >= bytes_) return;
  munmap(static_cast<std::byte*>(at_) + kept, bytes_ - kept);
  bytes_ = kept;
  if (kept == 0) at_ = nullptr;
}

}  // namespace vicinal
