// See check.hpp.
#include "prepare/check.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "core/metric.hpp"
#include "core/text.hpp"
#include "prepare/load.hpp"
#include "prepare/transform.hpp"

namespace vicinal {
namespace {

/// Rows of one kind of fault: the first, and how many.
struct UnfitRows {
  std::int64_t first = -1, count = 0;
  void see(std::int64_t row) {
    if (count++ == 0) first = row;
  }
  std::string counted(const char* one, const char* many) const {
    return cat(" (", count, " ", count == 1 ? one : many, " in all)");
  }
};

}  // namespace

RowError::RowError(ErrorCode code, const std::string& side, std::int64_t row, const std::string& fault,
                   const std::string& option)
    : Error(code, cat(side, " row ", row, fault, option)), side_(side), fault_(fault), option_(option), row_(row) {}

bool is_degenerate(const double* row, std::int64_t dims, Metric metric) noexcept {
  const double reference = metric == Metric::cosine ? 0.0 : row[0];
  for (std::int64_t i = 0; i < dims; ++i)
    if (row[i] != reference) return false;
  return true;
}

void report_unfit_rows(const RowKernels& kernels, const SearchSpec& spec, const Points& rows, const char* side,
                       ThreadPool& thread_pool) {
  const Metric metric = spec.metric;
  std::vector<double> values(static_cast<std::size_t>(rows.cols)), scratch(values.size());
  UnfitRows bad, ranged, degenerate;
  std::int64_t bad_column = 0;
  bool bad_is_nan = false;
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    thread_pool.poll(0);
    load_row(kernels, rows, row, scratch.data(), values.data());
    const std::int64_t column = kernels.first_bad(values.data(), rows.cols);
    if (column >= 0) {
      if (bad.count == 0) bad_column = column, bad_is_nan = std::isnan(values[static_cast<std::size_t>(column)]);
      bad.see(row);
    } else if (needs_norms(metric) && !self_product(kernels, values.data(), rows.cols, spec, rows.dtype).fit) {
      (is_degenerate(values.data(), rows.cols, metric) ? degenerate : ranged).see(row);
    }
  }
  if (bad.count > 0)
    throw RowError(ErrorCode::invalid_value, side, bad.first,
                   cat(", column ", bad_column, " is ", bad_is_nan ? "NaN" : "infinite",
                       bad.counted("bad row", "bad rows"), "; remove or impute such rows first"));
  if (ranged.count > 0)
    throw RowError(ErrorCode::range_error, side, ranged.first,
                   cat(" has a squared norm outside [2^-500, 2^500]", ranged.counted("such row", "such rows"), ": ",
                       metric_info(metric).name, " would overflow or underflow; scale the rows first"));
  if (degenerate.count > 0)
    throw RowError(
        ErrorCode::invalid_value, side, degenerate.first,
        cat(metric == Metric::cosine ? " is zero: cosine undefined (" : " is constant: correlation undefined (",
            degenerate.count, degenerate.count == 1 ? " row" : " rows", "); remove them"),
        ", or pass degenerate=one to give them distance 1");
  fail(ErrorCode::invalid_value, cat(side, " changed during the call: a row that was refused is fine now"));
}

void report_unfit_rows(const SearchSpec& spec, const Points& rows, const char* side, ThreadPool& thread_pool) {
  report_unfit_rows(best_row_kernels(), spec, rows, side, thread_pool);
}

void report_changed_matches(std::int64_t counted, std::int64_t found) {
  fail(ErrorCode::invalid_value,
       cat("rows changed during the call: ", counted, " were within the radius of a query when they were counted, ",
           found, " when they were placed"));
}

void report_infinite(const SearchSpec& spec, ListEnd end) {
  const char* advice = spec.metric == Metric::sqeuclidean ? "use euclidean or distance_type=f64"
                                                          : "use distance_type=f64 or scale the rows";
  const char* name = spec.metric == Metric::sqeuclidean ? "squared distance" : metric_info(spec.metric).name.data();
  const char* type = spec.type == DistanceType::f64 ? "f64" : "f32";
  if (spec.type == DistanceType::f64)
    advice = spec.metric == Metric::sqeuclidean ? "use euclidean or scale the rows" : "scale the rows";
  const std::string message = cat(name, " exceeds ", type, "; ", advice);
  if (end == ListEnd::farthest) throw FarthestInfinite(ErrorCode::range_error, message);
  fail(ErrorCode::range_error, message);
}

void report_undefined_product(std::int64_t corpus_row) {
  throw RowError(ErrorCode::range_error, "corpus", corpus_row,
                 ": the product with a query leaves f64; scale the rows first");
}

}  // namespace vicinal
