// See check.hpp.
#include "cpu/check.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "cpu/load.hpp"

namespace vicinal::cpu {
namespace {

/// Runs see(row number, fp64 row) over all rows.
template <class See>
void each_row(const Kernels& kernels, const Points& rows, const See& see) {
  std::vector<double> values(static_cast<std::size_t>(rows.cols)), scratch(values.size());
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    load_row(kernels, rows, row, scratch.data(), values.data());
    see(row, values.data());
  }
}

}  // namespace

bool is_degenerate(const double* row, std::int64_t dims, Metric metric) noexcept {
  const double reference = metric == Metric::cosine ? 0.0 : row[0];
  for (std::int64_t i = 0; i < dims; ++i)
    if (row[i] != reference) return false;
  return true;
}

void report_bad_values(const Kernels& kernels, const Points& rows, const char* side) {
  std::int64_t bad_rows = 0;
  std::string first;
  each_row(kernels, rows, [&](std::int64_t row, const double* values) {
    const std::int64_t column = kernels.first_bad(values, rows.cols);
    if (column < 0) return;
    if (bad_rows++ == 0)
      first = cat(side, " row ", row, ", column ", column, " is ", std::isnan(values[column]) ? "NaN" : "infinite");
  });
  if (bad_rows == 0) fail(ErrorCode::invalid_value, cat(side, " changed during the call: a value that was not finite is gone"));
  fail(ErrorCode::invalid_value, cat(first, " (", bad_rows, bad_rows == 1 ? " bad row in all)" : " bad rows in all)",
                                     "; remove or impute such rows first"));
}

void report_degenerate(const Kernels& kernels, const Points& rows, const char* side, Metric metric) {
  std::int64_t bad_rows = 0, first = 0;
  each_row(kernels, rows, [&](std::int64_t row, const double* values) {
    if (is_degenerate(values, rows.cols, metric) && bad_rows++ == 0) first = row;
  });
  const char* what = metric == Metric::cosine ? " is zero: cosine undefined (" : " is constant: correlation undefined (";
  fail(ErrorCode::invalid_value, cat(side, " row ", first, what, bad_rows, bad_rows == 1 ? " row" : " rows",
                                     "); remove them, or pass degenerate=one to give them distance 1"));
}

void report_norm_range(std::int64_t row, const char* side, Metric metric) {
  fail(ErrorCode::range_error,
       cat(side, " row ", row, " has a squared norm outside [2^-500, 2^500]: ", metric_info(metric).name,
           " would overflow; scale the rows first"));
}

}  // namespace vicinal::cpu
