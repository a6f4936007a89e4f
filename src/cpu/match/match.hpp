// Matching of rows of bytes on the host: one pass over a pair of images has the best two of both sides.
#pragma once
#include "backend/match.hpp"
#include "cpu/isa/kernels.hpp"
#include "cpu/match/image.hpp"

namespace vicinal::cpu {

/// budget: bytes for packed images. Throws MemoryBudget where a pair does not fit.
void match_bytes(const MatchSpec& spec, const ByteMatching& matching, const MatchKernel& kernel, std::int64_t budget,
                 const MatchAnswer& answer, ThreadPool& thread_pool);

}  // namespace vicinal::cpu
