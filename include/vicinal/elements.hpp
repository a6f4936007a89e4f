// Rows of integers as rows of vectors: searches take the six types of DType; integers of 16 to 64 bits become one of
// them here, exactly or not at all.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "vicinal/matrix.hpp"
#include "vicinal/options.hpp"
#include "vicinal/select.hpp"

namespace vicinal {

/// The type of vectors that holds values of `type`: itself where it is a DType, f32 for integers of 16 bits, f64 for
/// those of 32 and 64. It depends on the type alone, never on the values: NumPy promotes the type and float32 to it.
DType element_type(ValueType type) noexcept;

/// Rows of vectors and, where they had to be converted, their memory. Cheap to copy.
class Elements {
 public:
  Elements() = default;
  Elements(const Points& points, std::shared_ptr<const void> keeper, std::int64_t copied_bytes)
      : points_(points), keeper_(std::move(keeper)), copied_bytes_(copied_bytes) {}

  const Points& points() const noexcept { return points_; }
  /// Null where nothing was copied: the points are then the caller's own memory.
  const std::shared_ptr<const void>& keeper() const noexcept { return keeper_; }
  std::int64_t copied_bytes() const noexcept { return copied_bytes_; }

 private:
  Points points_;
  std::shared_ptr<const void> keeper_;
  std::int64_t copied_bytes_ = 0;
};

/// `values` as rows of element_type(values.type). The six types of DType are seen in place; integers are converted
/// once, by run.threads threads, into one dense array, and nothing is allocated beyond it. `side` begins the messages:
/// "corpus", a path. `progress` may cancel; it hears of the rows done.
/// Throws InvalidValue with row, column, value and count for integers beyond 2^53 that no f64 holds exactly,
/// DeviceError for values in memory of a device, OutOfMemory, Cancelled.
Elements exact_elements(const Values& values, const std::string& side, const Execution& run = {},
                        const Progress& progress = nullptr);

}  // namespace vicinal
