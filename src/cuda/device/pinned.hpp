// PINNED: pieces of pinned memory between the device and the host's ordinary memory, which the process keeps: to pin
// one takes longer than to fill it.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/parallel.hpp"

namespace vicinal::cuda {

inline constexpr std::int64_t pinned_piece_bytes = std::int64_t{2} << 20;  // 72 MiB of a feed's twelve threads

/// Whether the copy engine takes this memory as it is.
bool is_pinned(const void* memory);
/// A piece that no transfer uses now; null where the system pins no memory.
std::byte* take_pinned();
void give_pinned(std::byte* piece) noexcept;
/// It gives the pieces that no transfer uses back to the system; returns how many bytes that were.
std::int64_t release_pinned();

/// Results of fewer bytes are not worth threads.
inline constexpr std::int64_t least_fetched = std::int64_t{4} << 20;

/// It brings memory of the device to ordinary memory of the host, and returns when it is there: threads take it piece
/// by piece through pinned memory. One thread alone, as the driver has, writes some 2 to 4 GB a second to pages that
/// were never touched. What writes `from` is done.
void fetch(int ordinal, std::byte* to, const std::byte* from, std::int64_t bytes, ThreadPool& thread_pool);

}  // namespace vicinal::cuda
