// Rows kept by what outlives a call: Corpus, PermutationIndex.
#pragma once
#include <cstddef>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal {

/// A dense row-major copy; byte order and type stay.
Points copy_rows(const Points& rows, Buffer<std::byte>& to, Team& team);

}  // namespace vicinal
