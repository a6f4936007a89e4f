// The canonical precision on the host: every pair is ranked, blocks of rows for a few queries at a time.
#pragma once
#include "cpu/rerank/batch.hpp"

namespace vicinal::cpu {

void rank_exhaustively(const SearchBatch& batch);

}  // namespace vicinal::cpu
