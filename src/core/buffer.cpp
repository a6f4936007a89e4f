// Buffers of 256 KiB and more are mapped; smaller ones come from the heap. 2 MiB and more ask for huge pages, which
// a packed corpus needs: each query block walks all of it. Of those that are at most 16 KiB a thread keeps some for its
// next search, which asks for just the same: the heap takes as long for them as a small search.
#include "core/buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "core/divide.hpp"
#include "core/kept_bytes.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {
constexpr std::size_t mapped_from = std::size_t{256} << 10;

/// It returns the size of the whole pages that so many bytes touch.
std::size_t whole_pages(std::size_t bytes) noexcept {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return rounded_up(bytes, page);
}

/// It returns this many new bytes of address space, or null where the system refuses. more: flags of mmap besides.
void* map_pages(std::size_t bytes, int more) noexcept {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

/// It returns the same, where huge pages are worth it from a multiple of their size on, for there alone are they whole.
void* map_bytes(std::size_t bytes, int more) noexcept {
  if (bytes >= std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  if (bytes < huge_from) return map_pages(bytes, more);
  auto* const all = static_cast<std::byte*>(map_pages(bytes + huge_page, more));
  if (all == nullptr) return map_pages(bytes, more);  // so little may be left that small pages alone fit
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(all) % huge_page, kept = before + whole_pages(bytes);
  if (before > 0) munmap(all, before);
  munmap(all + kept, bytes + huge_page - kept);
  madvise(all + before, bytes, MADV_HUGEPAGE);  // a wish; refusal is fine
  return all + before;
}
#if defined(VICINAL_SANITIZED)
constexpr std::size_t kept_to = 0;  // a sanitizer sees what is used after it was given back
#else
constexpr std::size_t kept_to = 16 << 10;
#endif
constexpr std::size_t line = 64;
constexpr std::size_t lines(std::size_t bytes) noexcept { return divide_up(bytes, line); }

/// KeptBlocks are the small buffers that a thread has given back and may have again, in a list for each number of cache
/// lines.
class KeptBlocks {
 public:
  ~KeptBlocks() {
    clear();
    known_ = nullptr;
    ended_ = true;
  }
  /// Null where none has so many lines.
  void* take(std::size_t lines) noexcept {
    Block* const block = first_[lines];
    if (block == nullptr) return nullptr;
    first_[lines] = block->next;
    --count_;
    return block;
  }
  void keep(void* at, std::size_t lines) noexcept {
    if (count_ == most) clear();  // they are of searches that are over, or of one that takes more than can be kept
    first_[lines] = new (at) Block{first_[lines]};
    ++count_;
  }
  void clear() noexcept {
    for (Block*& first : first_)
      while (first != nullptr) std::free(std::exchange(first, first->next));
    count_ = 0;
  }
  /// The calling thread's; null in its last moments, when buffers of other objects may still end.
  static KeptBlocks* here() noexcept { return known_ != nullptr ? known_ : first_here(); }

 private:
  struct Block {
    Block* next;
  };
  static KeptBlocks* first_here() noexcept {
    if (ended_) return nullptr;
    static thread_local KeptBlocks kept;
    return known_ = &kept;
  }
  static constexpr int most = 48;
  // To ask whether an object of the thread is there yet takes as long as all the rest of giving a buffer.
  inline static thread_local KeptBlocks* known_ = nullptr;
  inline static thread_local bool ended_ = false;
  Block* first_[lines(kept_to) + 1] = {};
  int count_ = 0;
};

void* acquire_small(std::size_t bytes) noexcept {
  if (KeptBlocks* const kept = bytes <= kept_to ? KeptBlocks::here() : nullptr)
    if (void* const at = kept->take(lines(bytes))) return at;
  return std::aligned_alloc(line, lines(bytes) * line);
}
void release_small(void* at, std::size_t bytes) noexcept {
  if (KeptBlocks* const kept = bytes <= kept_to ? KeptBlocks::here() : nullptr) return kept->keep(at, lines(bytes));
  std::free(at);
}

}  // namespace

void* acquire_bytes(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const at = bytes < mapped_from ? acquire_small(bytes) : map_bytes(bytes, 0);
  if (at == nullptr)
    fail(ErrorCode::out_of_memory, cat(bytes_text(static_cast<std::int64_t>(bytes)),
                                       " requested and refused by the system; set a smaller memory budget"));
  return at;
}

void release_bytes(void* at, std::size_t bytes) noexcept {
  if (at == nullptr) return;
  if (bytes < mapped_from) {
    release_small(at, bytes);
  } else {
    munmap(at, bytes);
  }
}

void forget_kept_bytes() noexcept {
  if (KeptBlocks* const kept = KeptBlocks::here()) kept->clear();
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
