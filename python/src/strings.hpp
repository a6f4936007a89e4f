// Strings handed over by Python: arrays of symbols and offsets that vicinal/_strings.py made, or an Arrow array seen in
// place through its C data interface. The view holds its owner.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>

#include "call.hpp"
#include "vicinal/strings.hpp"

namespace vicinal::python {

/// Created and destroyed with the GIL held; `view()` may be read without it.
class Texts {
 public:
  using Data = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  /// encoding: "utf8", "utf32" or "bytes".
  Texts(Data data, Integers offsets, const std::string& encoding);
  /// The two capsules of __arrow_c_array__. Throws InvalidArgument for arrays of something else, InvalidValue for a
  /// null.
  static Texts from_arrow(const nb::capsule& schema, const nb::capsule& array, const std::string& name);

  const Strings& view() const noexcept { return view_; }

 private:
  Texts() = default;
  Strings view_;
  Data data_;
  Integers offsets_;
  std::shared_ptr<const void> keeper_;
  StringList list_;
};

void bind_strings(nb::module_& m);

}  // namespace vicinal::python
