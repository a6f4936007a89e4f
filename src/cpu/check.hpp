// Messages for rows that have no distance. Called only after a kernel saw a bad row; reads the whole side again to
// name the first one and count them all.
#pragma once
#include "backend/backend.hpp"
#include "cpu/kernels.hpp"

namespace vicinal::cpu {

[[noreturn]] void report_bad_values(const Kernels& kernels, const Points& rows, const char* side);
[[noreturn]] void report_degenerate(const Kernels& kernels, const Points& rows, const char* side, Metric metric);
[[noreturn]] void report_norm_range(std::int64_t row, const char* side, Metric metric);

/// A zero row (cosine) or a constant row (correlation), by its values.
bool is_degenerate(const double* row, std::int64_t dims, Metric metric) noexcept;

}  // namespace vicinal::cpu
