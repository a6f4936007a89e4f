// Buffers of 256 KiB and more are mapped; smaller ones come from the heap. 4 MiB and more ask for huge pages, which
// a packed corpus needs: each query block walks all of it.
#include "core/buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "core/text.hpp"

namespace vicinal {
namespace {
constexpr std::size_t mapped_from = std::size_t{256} << 10;
constexpr std::size_t huge_from = std::size_t{4} << 20;

/// It returns this many new bytes of address space, or null where the system refuses. more: flags of mmap besides.
void* map_bytes(std::size_t bytes, int more) noexcept {
  if (bytes >= std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  if (bytes >= huge_from) madvise(at, bytes, MADV_HUGEPAGE);  // a wish; refusal is fine
  return at;
}
/// It returns the size of the whole pages that so many bytes touch.
std::size_t whole_pages(std::size_t bytes) noexcept {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

void* acquire_bytes(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const at = bytes < mapped_from ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : map_bytes(bytes, 0);
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
  if (bytes == 0) return;
  at_ = map_bytes(bytes, MAP_NORESERVE);
  bytes_ = bytes;
}

void ReservedBytes::trim(std::size_t bytes) noexcept {
  if (at_ == nullptr || bytes >= bytes_) return;
  const std::size_t kept = whole_pages(bytes), all = whole_pages(bytes_);
  if (kept < all) munmap(static_cast<std::byte*>(at_) + kept, all - kept);
  bytes_ = bytes;
  if (kept == 0) at_ = nullptr;
}

}  // namespace vicinal
