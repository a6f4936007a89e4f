// The one limit of a result: its entries must be countable in 64 bits, with room for their bytes.
#pragma once
#include <cstdint>

namespace vicinal {

/// Throws MemoryBudget when rows x k entries could not be addressed.
void check_result_size(std::int64_t rows, std::int64_t k);

}  // namespace vicinal
