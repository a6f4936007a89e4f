// Rows handed over by Python, seen in place: through the buffer protocol (NumPy, memoryview, mmap: any
// stride, any alignment, either byte order), through DLPack (bfloat16 travels only there) or, of a CUDA device, by
// address. Nothing is copied here but integers of more than 8 bits, and those once. The view holds its owner, so the
// memory outlives every search that reads it.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "vicinal/matrix.hpp"
#include "vicinal/select.hpp"

namespace vicinal::python {

namespace nb = nanobind;

struct Options;

/// Bytes that were saved in memory; they stay where they are, and the array holds their owner.
using SavedArray = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
inline std::span<const std::byte> bytes_of(const SavedArray& saved) {
  return {reinterpret_cast<const std::byte*>(saved.data()), saved.shape(0)};
}

/// Created, converted and destroyed with the GIL held; its points may be read without it.
class Rows {
 public:
  /// An exporter of the buffer protocol. `bfloat16`: its 16-bit integers are the bits of bfloat16.
  static Rows from_buffer(nb::handle array, const std::string& name, bool bfloat16);
  /// A DLPack capsule whose tensor lies in memory that the CPU reads, or in that of a CUDA device.
  /// stream: on which its owner still works, a cudaStream_t; 0: none.
  static Rows from_dlpack(nb::handle capsule, const std::string& name, std::uintptr_t stream = 0);
  /// Rows in memory of the host (cuda_device -1) or of a CUDA device, which `owner` holds; dense where no strides are
  /// given, which count elements.
  static Rows from_address(std::uintptr_t address, const nb::tuple& shape, const std::string& dtype,
                           const std::string& name, int cuda_device, nb::object owner, std::uintptr_t stream,
                           const std::optional<nb::tuple>& strides);

  /// Rows in the host's memory; throws DeviceError for others.
  const Points& points() const;
  /// Wherever they are: for searches that check_reach() has let pass.
  const Points& anywhere() const;
  /// Rows, columns and element type; the data may be null.
  const Points& declared() const noexcept { return points_; }
  /// Makes integers of 16 to 64 bits elements of vectors, which searches need and plans do not; returns the bytes that
  /// took.
  std::int64_t convert();
  /// What convert() would return.
  std::int64_t conversion_bytes() const noexcept;
  int cuda_device() const noexcept { return cuda_device_; }  // -1: the host
  std::uintptr_t stream() const noexcept { return stream_; }

  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  friend void check_reach(const Options& options, std::initializer_list<const Rows*> sides);
  void see(const Values& values);

  Points points_;
  std::optional<Values> integers_;  // until convert()
  std::shared_ptr<const void> converted_;
  std::string name_;
  int cuda_device_ = -1;
  std::uintptr_t stream_ = 0;
  nb::object owner_;
  std::shared_ptr<Py_buffer> buffer_;
  nb::ndarray<nb::ro> tensor_;
};

/// Throws DeviceError where the device that the search will run on cannot read a side in place.
void check_reach(const Options& options, std::initializer_list<const Rows*> sides);

/// Values to select from, or a payload: one or two dimensions (one is a row), of any of twelve types, in memory of the
/// host or of a CUDA device. Of a payload only the size of its items is looked at.
class ValueRows {
 public:
  static ValueRows from_buffer(nb::handle array, const std::string& name, bool bfloat16);
  static ValueRows from_dlpack(nb::handle capsule, const std::string& name, bool payload);

  const Values& values() const noexcept { return values_; }
  int traverse(visitproc visit, void* arg) const;
  void clear();
  nb::tuple extents() const {
    return line_ ? nb::make_tuple(values_.cols) : nb::make_tuple(values_.rows, values_.cols);
  }

 private:
  Values values_;
  bool line_ = false;  // one dimension
  std::shared_ptr<Py_buffer> buffer_;
  nb::ndarray<nb::ro> tensor_;
};

/// The type that is called "f32" and the like. Throws InvalidArgument.
DType dtype_of_name(const std::string& name);

void bind_rows(nb::module_& m);

}  // namespace vicinal::python
