// What a thread keeps of small buffers (core/buffer.cpp), for tests that count allocations.
#pragma once

namespace vicinal {

/// The calling thread gives back to the heap what it keeps.
void forget_kept_bytes() noexcept;

}  // namespace vicinal
