// The errors of rows that have no distance. Called only after a kernel saw one; all rows of the side are read again, so
// that the message is the same whatever was seen first: not finite before out of range before degenerate, lowest row,
// and a count.
#pragma once
#include <cstdint>
#include <string>

#include "backend/search.hpp"
#include "prepare/row_kernels.hpp"
#include "vicinal/error.hpp"

namespace vicinal {

/// A RowError says what is wrong with one row, and has the parts of its words for callers that know the row by another
/// name.
class RowError final : public Error {
 public:
  /// The message is "SIDE row ROW" and `fault` and `option`, advice that a caller without that option leaves out.
  RowError(ErrorCode code, const std::string& side, std::int64_t row, const std::string& fault,
           const std::string& option = std::string());
  const std::string& side() const noexcept { return side_; }
  std::int64_t row() const noexcept { return row_; }
  const std::string& fault() const noexcept { return fault_; }
  /// The same of what the caller knows as this row of this side.
  RowError as(const std::string& side, std::int64_t row) const { return {code(), side, row, fault_, option_}; }

 private:
  std::string side_, fault_, option_;
  std::int64_t row_;
};

/// It names the rows of a side that the contract refuses.
[[noreturn]] void report_unfit_rows(const RowKernels& kernels, const SearchSpec& spec, const Points& rows,
                                    const char* side, ThreadPool& thread_pool);
/// It does the same by the fastest kernels of this machine, for other backends.
[[noreturn]] void report_unfit_rows(const SearchSpec& spec, const Points& rows, const char* side,
                                    ThreadPool& thread_pool);
/// The RangeError of a list whose farthest entries are beyond the type of a distance; what is nearer than these is
/// right.
class FarthestInfinite final : public Error {
 public:
  using Error::Error;
};
enum class ListEnd { nearest, farthest };
/// It says that a distance that was to be returned is infinite: by FarthestInfinite where it is at that end of its
/// list, else (a product beyond the type is the nearest there is) by a plain RangeError.
[[noreturn]] void report_infinite(const SearchSpec& spec, ListEnd end);
/// It says that the product of this row of the corpus with a query is not a number of f64.
[[noreturn]] void report_undefined_product(std::int64_t corpus_row);
/// It says that a range search found another number of matches when it wrote them than when it counted them.
[[noreturn]] void report_changed_matches(std::int64_t counted, std::int64_t found);

/// It tells by its values whether a row is zero (cosine) or constant (correlation).
bool is_degenerate(const double* row, std::int64_t dims, Metric metric) noexcept;

}  // namespace vicinal
