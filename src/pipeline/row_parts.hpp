// A corpus that lies in several matrices, numbered through, as the walk of a resumable search and the ground truth of
// several files see it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// RowParts are the rows of matrices of one type and width, one after another. They do not own them.
class RowParts {
 public:
  explicit RowParts(const Points& whole) : RowParts({&whole, 1}, {}, {}) {}
  /// `cuts` are row numbers, ascending, at which a run ends besides the ends of parts; rows from the last cut on are
  /// left out, unless there are no cuts. `names` are those of the parts in messages, or none. Throws InvalidArgument
  /// for parts of another type or width than the first, for no parts, and for a cut beyond the rows.
  RowParts(std::span<const Points> parts, std::span<const std::int64_t> cuts, std::span<const std::string> names);

  std::int64_t rows() const noexcept { return rows_; }
  Shape shape() const noexcept { return {rows_, parts_.front().cols, parts_.front().dtype}; }
  const std::vector<Points>& parts() const noexcept { return parts_; }
  /// It returns the rows from `first` to the next end of a part or cut: as many as one matrix holds side by side.
  std::int64_t run(std::int64_t first) const noexcept;
  /// It returns rows [first, first + count) of one run.
  Points slice(std::int64_t first, std::int64_t count) const noexcept;
  /// It returns the number of the part that row `first` is in.
  std::size_t part_of(std::int64_t first) const noexcept;
  /// It returns what messages put in front of a fault in a part: "base.1.u8bin: ", and nothing for a single part
  /// without a name.
  std::string prefix(std::size_t part) const;

 private:
  std::vector<Points> parts_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> begins_;  // first row of each part
  std::vector<std::int64_t> ends_;    // of runs, ascending; the last is rows_
  std::int64_t rows_ = 0;
};

}  // namespace vicinal
