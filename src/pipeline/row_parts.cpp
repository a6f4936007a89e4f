// See row_parts.hpp.
#include "pipeline/row_parts.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "vicinal/error.hpp"

namespace vicinal {

RowParts::RowParts(std::span<const Points> parts, std::span<const std::int64_t> cuts,
                   std::span<const std::string> names)
    : parts_(parts.begin(), parts.end()), names_(names.begin(), names.end()) {
  if (parts_.empty()) fail(ErrorCode::invalid_argument, "the base has no parts");
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Points &part = parts_[i], &first = parts_.front();
    if (part.cols != first.cols)
      fail(ErrorCode::invalid_argument,
           cat(prefix(i), "rows have ", part.cols, " columns, those of the first part ", first.cols));
    if (part.dtype != first.dtype)
      fail(ErrorCode::invalid_argument, cat(prefix(i), "rows are ", dtype_name(part.dtype),
                                            ", those of the first part ", dtype_name(first.dtype), "; convert them"));
    if (part.rows > INT64_MAX - rows_) fail(ErrorCode::invalid_argument, "the base has more than 2^63 - 1 rows");
    begins_.push_back(rows_);
    ends_.push_back(rows_ += part.rows);
  }
  std::int64_t before = 0;
  for (const std::int64_t cut : cuts) {
    if (cut <= before || cut > rows_)
      fail(ErrorCode::invalid_argument,
           cat("tiers must ascend from 1 to the ", rows_, " rows of the base, got ", cut, " after ", before));
    before = cut;
  }
  if (cuts.empty()) return;
  rows_ = cuts.back();
  std::erase_if(ends_, [&](std::int64_t end) { return end > rows_; });
  ends_.insert(ends_.end(), cuts.begin(), cuts.end());
  std::sort(ends_.begin(), ends_.end());
}

std::int64_t RowParts::run(std::int64_t first) const noexcept {
  return *std::upper_bound(ends_.begin(), ends_.end(), first) - first;
}

std::size_t RowParts::part_of(std::int64_t first) const noexcept {
  return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin()) - 1;
}

Points RowParts::slice(std::int64_t first, std::int64_t count) const noexcept {
  const std::size_t part = part_of(first);
  return parts_[part].slice(first - begins_[part], count);
}

std::string RowParts::prefix(std::size_t part) const {
  if (part < names_.size()) return cat(names_[part], ": ");
  return parts_.size() < 2 ? "" : cat("part ", part, " of the base: ");
}

}  // namespace vicinal
