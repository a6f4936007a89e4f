// Buffer formats and DLPack types into the six element types of the library, and the refusals:
// TypeError for what is not a real number, InvalidArgument for numbers of a width that is not supported.
#include "arrays.hpp"

#include <nanobind/stl/string.h>

#include <bit>
#include <string_view>

#include "vicinal/error.hpp"

namespace vicinal::python {
namespace {

[[noreturn]] void refuse_kind(const std::string& name, const std::string& dtype) {
  throw nb::type_error((name + ": unsupported dtype " + dtype).c_str());
}

[[noreturn]] void refuse_width(const std::string& name, const std::string& dtype) {
  throw Error(ErrorCode::invalid_argument, name + ": dtype " + dtype + " not supported; convert with astype");
}

[[noreturn]] void refuse_shape(const std::string& name, std::size_t ndim, const std::string& shape) {
  const char* wanted = name == "corpus" ? "(n,d)" : "(Q,d)";
  throw Error(ErrorCode::invalid_argument,
              name + ": expected 2 dimensions " + wanted + ", got " + std::to_string(ndim) + " with shape " + shape);
}

template <class Extent>
std::string shape_text(const Extent* shape, std::size_t ndim) {
  std::string text = "(";
  for (std::size_t i = 0; i < ndim; ++i) text += (i != 0 ? ", " : "") + std::to_string(shape[i]);
  return text + (ndim == 1 ? ",)" : ")");
}

struct Element {
  DType type;
  bool byte_swapped;
};

/// A struct-module format of one item, such as "f", "<d" or ">e". The prefix says the byte order.
Element element_of_format(std::string_view format, std::int64_t item_size, const std::string& name, bool bfloat16) {
  bool big = std::endian::native == std::endian::big;
  if (!format.empty() && std::string_view("@=<>!^").find(format.front()) != std::string_view::npos) {
    if (format.front() == '>' || format.front() == '!') big = true;
    if (format.front() == '<') big = false;
    format.remove_prefix(1);
  }
  const bool swapped = big != (std::endian::native == std::endian::big) && item_size > 1;
  if (format.size() != 1) refuse_kind(name, "with format '" + std::string(format) + "'");
  const std::string bits = std::to_string(8 * item_size);
  switch (format.front()) {
    case 'f': return {DType::f32, swapped};
    case 'd': return {DType::f64, swapped};
    case 'e': return {DType::f16, swapped};
    case 'B': return {DType::u8, false};
    case 'b': return {DType::i8, false};
    case 'H':
      if (bfloat16) return {DType::bf16, swapped};
      [[fallthrough]];
    case 'I':
    case 'L':
    case 'Q':
    case 'N': refuse_width(name, "uint" + bits);
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': refuse_width(name, "int" + bits);
    case 'g': refuse_width(name, "longdouble");
    default: refuse_kind(name, "with format '" + std::string(format) + "'");
  }
}

Element element_of_dlpack(nb::dlpack::dtype type, const std::string& name) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  const std::string bits = std::to_string(type.bits);
  if (type.lanes != 1) refuse_kind(name, "with " + std::to_string(type.lanes) + " lanes");
  if (code == Code::Float && type.bits == 32) return {DType::f32, false};
  if (code == Code::Float && type.bits == 64) return {DType::f64, false};
  if (code == Code::Float && type.bits == 16) return {DType::f16, false};
  if (code == Code::Bfloat && type.bits == 16) return {DType::bf16, false};
  if (code == Code::UInt && type.bits == 8) return {DType::u8, false};
  if (code == Code::Int && type.bits == 8) return {DType::i8, false};
  if (code == Code::Int) refuse_width(name, "int" + bits);
  if (code == Code::UInt) refuse_width(name, "uint" + bits);
  if (code == Code::Float) refuse_width(name, "float" + bits);
  if (code == Code::Bool) refuse_kind(name, "bool");
  if (code == Code::Complex) refuse_kind(name, "complex" + bits);
  refuse_kind(name, "of DLPack code " + std::to_string(type.code));
}

struct ReleaseBuffer {
  void operator()(Py_buffer* view) const noexcept {
    PyBuffer_Release(view);
    delete view;
  }
};

}  // namespace

Rows Rows::from_buffer(nb::handle array, const std::string& name, bool bfloat16) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(array.ptr(), view.get(), PyBUF_FULL_RO) != 0) throw nb::python_error();
  Rows rows;
  rows.buffer_ = std::shared_ptr<Py_buffer>(view.release(), ReleaseBuffer{});
  const Py_buffer& buffer = *rows.buffer_;
  const auto ndim = static_cast<std::size_t>(buffer.ndim);
  const char* format = buffer.format != nullptr ? buffer.format : "B";
  const Element element = element_of_format(format, buffer.itemsize, name, bfloat16);
  if (ndim != 2) refuse_shape(name, ndim, shape_text(buffer.shape, ndim));
  if (buffer.suboffsets != nullptr) {
    throw Error(ErrorCode::unsupported, name + ": rows behind pointers are not supported; copy them first");
  }
  rows.points_ = Points(buffer.buf, element.type, buffer.shape[0], buffer.shape[1]);
  rows.points_.row_stride = buffer.strides[0];
  rows.points_.col_stride = buffer.strides[1];
  rows.points_.byte_swapped = element.byte_swapped;
  return rows;
}

Rows Rows::from_dlpack(nb::handle capsule, const std::string& name) {
  Rows rows;
  if (!nb::try_cast(capsule, rows.tensor_)) throw nb::type_error((name + ": __dlpack__ gave no tensor").c_str());
  const auto& tensor = rows.tensor_;
  const Element element = element_of_dlpack(tensor.dtype(), name);
  if (tensor.ndim() != 2) refuse_shape(name, tensor.ndim(), shape_text(tensor.shape_ptr(), tensor.ndim()));
  const auto size = static_cast<std::int64_t>(dtype_size(element.type));
  rows.points_ = Points(tensor.data(), element.type, static_cast<std::int64_t>(tensor.shape(0)),
                        static_cast<std::int64_t>(tensor.shape(1)));
  rows.points_.row_stride = tensor.stride(0) * size;
  rows.points_.col_stride = tensor.stride(1) * size;
  return rows;
}

void bind_rows(nb::module_& m) {
  nb::class_<Rows>(m, "Rows", "Two-dimensional numbers seen in place; holds their owner.")
      .def_static("from_buffer", &Rows::from_buffer, nb::arg("array"), nb::arg("name"), nb::arg("bfloat16"))
      .def_static("from_dlpack", &Rows::from_dlpack, nb::arg("capsule"), nb::arg("name"))
      .def_prop_ro("shape", [](const Rows& self) { return nb::make_tuple(self.points().rows, self.points().cols); })
      .def_prop_ro("dtype", [](const Rows& self) { return std::string(dtype_name(self.points().dtype)); })
      .def_prop_ro(
          "data", [](const Rows& self) { return reinterpret_cast<std::uintptr_t>(self.points().data); },
          "Address of element (0, 0): tests use it to see that nothing was copied.");
}

}  // namespace vicinal::python
