// Rows copied: by what outlives a call (Corpus, PermutationIndex), and a few that are looked at by themselves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal {

/// A dense row-major copy; byte order and type stay.
Points copy_rows(const Points& rows, Buffer<std::byte>& to, ThreadPool& thread_pool);
/// The same of rows `chosen`, in that order.
Points gather_rows(const Points& rows, std::span<const std::int64_t> chosen, std::vector<std::byte>& to);

}  // namespace vicinal
