// Rows handed over by Python, seen in place: through the buffer protocol (NumPy, memoryview, mmap: any
// stride, any alignment, either byte order) or through DLPack on the CPU (bfloat16 travels only there).
// Nothing is copied here. The view holds its owner, so the memory outlives every search that reads it.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>

#include "vicinal/matrix.hpp"
#include "vicinal/select.hpp"

namespace vicinal::python {

namespace nb = nanobind;

/// Created and destroyed with the GIL held; `points()` may be read without it.
class Rows {
 public:
  /// An exporter of the buffer protocol. `bfloat16`: its 16-bit integers are the bits of bfloat16.
  static Rows from_buffer(nb::handle array, const std::string& name, bool bfloat16);
  /// A DLPack capsule whose tensor lies in memory that the CPU reads.
  static Rows from_dlpack(nb::handle capsule, const std::string& name);

  const Points& points() const noexcept { return points_; }

 private:
  Points points_;
  std::shared_ptr<Py_buffer> buffer_;
  nb::ndarray<nb::ro> tensor_;
};

/// Values to select from, or a payload: one or two dimensions (one is a row), of any of twelve types, in memory of the host or
/// of a CUDA device. Of a payload only the size of its items is looked at.
class ValueRows {
 public:
  static ValueRows from_buffer(nb::handle array, const std::string& name, bool bfloat16);
  static ValueRows from_dlpack(nb::handle capsule, const std::string& name, bool payload);

  const Values& values() const noexcept { return values_; }
  nb::tuple extents() const { return line_ ? nb::make_tuple(values_.cols) : nb::make_tuple(values_.rows, values_.cols); }

 private:
  Values values_;
  bool line_ = false;  // one dimension
  std::shared_ptr<Py_buffer> buffer_;
  nb::ndarray<nb::ro> tensor_;
};

void bind_rows(nb::module_& m);

}  // namespace vicinal::python
