// Buffer formats and DLPack types into the twelve types of values, of which six are elements of vectors, and the
// refusals: TypeError for what is not a real number, InvalidArgument for numbers of a width that is not supported.
#include "arrays.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "call.hpp"
#include "collect.hpp"
#include "vicinal/elements.hpp"
#include "vicinal/error.hpp"
#include "vicinal/plan.hpp"

namespace vicinal::python {
namespace {

[[noreturn]] void refuse_kind(const std::string& name, const std::string& dtype) {
  throw nb::type_error((name + ": unsupported dtype " + dtype).c_str());
}

[[noreturn]] void refuse_width(const std::string& name, const std::string& dtype) {
  throw Error(ErrorCode::invalid_argument, name + ": dtype " + dtype + " not supported; convert with astype");
}

[[noreturn]] void refuse_shape(const std::string& name, std::size_t ndim, const std::string& shape) {
  const bool values = name == "values" || name == "payload";
  const std::string wanted = values             ? "1 or 2 dimensions"
                             : name == "corpus" ? "2 dimensions (n,d)"
                                                : "2 dimensions (Q,d)";
  const char* const instead = values      ? ""
                              : ndim == 1 ? "; one row is x[None, :], one column x[:, None]"
                              : ndim == 3 ? "; a batch of clouds is searched by "
                                            "vicinal.compat.pytorch3d.knn_points(queries, corpus), images and the like "
                                            "are rows after x.reshape(len(x), -1)"
                                          : "";
  throw Error(ErrorCode::invalid_argument,
              name + ": expected " + wanted + ", got " + std::to_string(ndim) + " with shape " + shape + instead);
}

template <class Extent>
std::string shape_text(const Extent* shape, std::size_t ndim) {
  std::string text = "(";
  for (std::size_t i = 0; i < ndim; ++i) text += (i != 0 ? ", " : "") + std::to_string(shape[i]);
  return text + (ndim == 1 ? ",)" : ")");
}

struct Element {
  ValueType type;
  bool byte_swapped;
};

ValueType integer_type(std::int64_t size, bool is_signed) {
  switch (size) {
    case 1: return is_signed ? ValueType::i8 : ValueType::u8;
    case 2: return is_signed ? ValueType::i16 : ValueType::u16;
    case 4: return is_signed ? ValueType::i32 : ValueType::u32;
    default: return is_signed ? ValueType::i64 : ValueType::u64;
  }
}

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
  switch (format.front()) {
    case 'f': return {ValueType::f32, swapped};
    case 'd': return {ValueType::f64, swapped};
    case 'e': return {ValueType::f16, swapped};
    case 'H':
      if (bfloat16) return {ValueType::bf16, swapped};
      [[fallthrough]];
    case 'B':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return {integer_type(item_size, false), swapped};
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return {integer_type(item_size, true), swapped};
    case 'g': refuse_width(name, "longdouble");
    default: refuse_kind(name, "with format '" + std::string(format) + "'");
  }
}

Element element_of_dlpack(nb::dlpack::dtype type, const std::string& name) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  const std::string bits = std::to_string(type.bits);
  if (type.lanes != 1) refuse_kind(name, "with " + std::to_string(type.lanes) + " lanes");
  if (code == Code::Float && type.bits == 32) return {ValueType::f32, false};
  if (code == Code::Float && type.bits == 64) return {ValueType::f64, false};
  if (code == Code::Float && type.bits == 16) return {ValueType::f16, false};
  if (code == Code::Bfloat && type.bits == 16) return {ValueType::bf16, false};
  const bool whole = type.bits == 8 || type.bits == 16 || type.bits == 32 || type.bits == 64;
  if ((code == Code::Int || code == Code::UInt) && whole)
    return {integer_type(type.bits / 8, code == Code::Int), false};
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

std::shared_ptr<Py_buffer> buffer_of(nb::handle array) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(array.ptr(), view.get(), PyBUF_FULL_RO) != 0) throw nb::python_error();
  return {view.release(), ReleaseBuffer{}};
}

Element element_of(const Py_buffer& buffer, const std::string& name, bool bfloat16) {
  const Element element =
      element_of_format(buffer.format != nullptr ? buffer.format : "B", buffer.itemsize, name, bfloat16);
  if (buffer.suboffsets != nullptr) {
    throw Error(ErrorCode::unsupported, name + ": rows behind pointers are not supported; copy them first");
  }
  return element;
}

/// DLPack's numbers, of which -1 stands for the host here.
template <class Tensor>
int cuda_device_of(const Tensor& tensor) {
  constexpr int cuda = 2, cuda_managed = 13;
  return tensor.device_type() == cuda || tensor.device_type() == cuda_managed ? tensor.device_id() : -1;
}

/// A buffer that two of ours share has one reference to its exporter, which neither may claim. What a tensor of DLPack
/// keeps is its producer's own affair, and hidden.
int traverse_buffer(const std::shared_ptr<Py_buffer>& buffer, visitproc visit, void* arg) {
  if (buffer.use_count() == 1) Py_VISIT(buffer->obj);
  return 0;
}

nb::ndarray<nb::ro> tensor_of(nb::handle capsule, const std::string& name) {
  nb::ndarray<nb::ro> tensor;
  if (!nb::try_cast(capsule, tensor)) throw nb::type_error((name + ": __dlpack__ gave no tensor").c_str());
  return tensor;
}

/// Bytes from each item of a dimension to the next. Throws where items would lie at addresses that no memory has: an
/// exporter may say anything.
std::vector<std::int64_t> strides_of(const nb::ndarray<nb::ro>& tensor, std::int64_t size, const std::string& name) {
  __extension__ using wide = __int128;
  constexpr auto most = static_cast<wide>(INT64_MAX);
  std::vector<std::int64_t> strides(tensor.ndim());
  wide first = reinterpret_cast<std::uintptr_t>(tensor.data()), last = first;
  bool fits = true, empty = false;
  for (std::size_t i = 0; i < tensor.ndim(); ++i) {
    const auto count = static_cast<std::int64_t>(tensor.shape(i));
    const bool counts = !__builtin_mul_overflow(tensor.stride(i), size, &strides[i]);
    const wide reach = counts && count > 0 ? static_cast<wide>(count - 1) * strides[i] : 0;
    (reach < 0 ? first : last) += reach;
    fits &= counts || count <= 1;
    empty |= count == 0;
  }
  if (!empty && (!fits || first < 0 || last > most))
    throw Error(ErrorCode::invalid_argument, name + ": a tensor of shape " +
                                                 shape_text(tensor.shape_ptr(), tensor.ndim()) +
                                                 " has strides or an offset that no memory has");
  return strides;
}

}  // namespace

Rows Rows::from_buffer(nb::handle array, const std::string& name, bool bfloat16) {
  Rows rows;
  rows.buffer_ = buffer_of(array);
  const Py_buffer& buffer = *rows.buffer_;
  const auto ndim = static_cast<std::size_t>(buffer.ndim);
  const Element element = element_of(buffer, name, bfloat16);
  if (ndim != 2) refuse_shape(name, ndim, shape_text(buffer.shape, ndim));
  rows.name_ = name;
  Values values(buffer.buf, element.type, buffer.shape[0], buffer.shape[1]);
  values.row_stride = buffer.strides[0];
  values.col_stride = buffer.strides[1];
  values.byte_swapped = element.byte_swapped;
  rows.see(values);
  return rows;
}

Rows Rows::from_dlpack(nb::handle capsule, const std::string& name, std::uintptr_t stream) {
  Rows rows;
  rows.tensor_ = tensor_of(capsule, name);
  const auto& tensor = rows.tensor_;
  const bool flags = tensor.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool) &&
                     tensor.dtype().bits == 8 && tensor.dtype().lanes == 1;
  const ValueType type = flags ? ValueType::u8 : element_of_dlpack(tensor.dtype(), name).type;
  if (tensor.ndim() != 2) refuse_shape(name, tensor.ndim(), shape_text(tensor.shape_ptr(), tensor.ndim()));
  const auto size = static_cast<std::int64_t>(value_size(type));
  Values values(tensor.data(), type, static_cast<std::int64_t>(tensor.shape(0)),
                static_cast<std::int64_t>(tensor.shape(1)));
  const std::vector<std::int64_t> strides = strides_of(tensor, size, name);
  values.row_stride = strides[0];
  values.col_stride = strides[1];
  values.cuda_device = rows.cuda_device_ = cuda_device_of(tensor);
  rows.name_ = name;
  rows.stream_ = stream;
  rows.see(values);
  return rows;
}

void Rows::see(const Values& values) {
  points_ = Points(nullptr, element_type(values.type), values.rows, values.cols);
  if (std::string_view(dtype_name(points_.dtype)) == value_type_name(values.type)) {
    points_ = exact_elements(values, name_).points();
  } else {
    integers_ = values;
  }
}

std::int64_t Rows::conversion_bytes() const noexcept {
  return integers_ ? points_.rows * points_.cols * static_cast<std::int64_t>(dtype_size(points_.dtype)) : 0;
}

std::int64_t Rows::convert() {
  if (!integers_) return 0;
  const Elements elements = without_gil(
      nb::none(), [&](const Progress& progress) { return exact_elements(*integers_, name_, {}, progress); });
  points_ = elements.points();
  converted_ = elements.keeper();
  integers_.reset();
  buffer_.reset();
  tensor_ = {};
  return elements.copied_bytes();
}

const Points& Rows::anywhere() const {
  if (integers_) throw Error(ErrorCode::internal, name_ + ": integers were not converted");
  return points_;
}

Rows Rows::from_address(std::uintptr_t address, const nb::tuple& shape, const std::string& dtype,
                        const std::string& name, int cuda_device, nb::object owner, std::uintptr_t stream,
                        const std::optional<nb::tuple>& strides) {
  if (shape.size() != 2) refuse_shape(name, shape.size(), nb::cast<std::string>(nb::str(shape)));
  Rows rows;
  rows.points_ = Points(reinterpret_cast<const void*>(address), dtype_of_name(dtype), nb::cast<std::int64_t>(shape[0]),
                        nb::cast<std::int64_t>(shape[1]));
  if (strides) {
    const auto size = static_cast<std::int64_t>(dtype_size(rows.points_.dtype));
    rows.points_.row_stride = nb::cast<std::int64_t>((*strides)[0]) * size;
    rows.points_.col_stride = nb::cast<std::int64_t>((*strides)[1]) * size;
  }
  rows.name_ = name;
  rows.cuda_device_ = cuda_device;
  rows.owner_ = std::move(owner);
  rows.stream_ = stream;
  return rows;
}

int Rows::traverse(visitproc visit, void* arg) const {
  Py_VISIT(owner_.ptr());
  return traverse_buffer(buffer_, visit, arg);
}

void Rows::clear() { *this = Rows(); }

const Points& Rows::points() const {
  if (cuda_device_ < 0) return anywhere();
  throw Error(ErrorCode::device_error, name_ + ": rows are in memory of cuda:" + std::to_string(cuda_device_) +
                                           ", this call reads those of the host; copy them there");
}

void check_reach(const Options& options, std::initializer_list<const Rows*> sides) {
  for (const Rows* side : sides) {
    if (side->cuda_device_ < 0) continue;
    const std::string place = "cuda:" + std::to_string(side->cuda_device_);
    if (options.knn.run.device == place) continue;  // nothing forces another one where it is named
    KnnOptions least{
        .k = 1, .run = {.device = options.knn.run.device}, .stream = reinterpret_cast<void*>(side->stream_)};
    const std::string device =
        plan({1, 1, DType::f32}, {1, 1, DType::f32}, least).device;  // with what the environment forces
    if (device != place)
      throw Error(ErrorCode::device_error, side->name_ + ": rows are in memory of " + place + ", this search runs on " +
                                               device + "; copy them there");
  }
}

DType dtype_of_name(const std::string& name) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8}) {
    if (name == dtype_name(type)) return type;
  }
  throw Error(ErrorCode::invalid_argument, "unknown dtype \"" + name + "\"");
}

ValueRows ValueRows::from_buffer(nb::handle array, const std::string& name, bool bfloat16) {
  ValueRows rows;
  rows.buffer_ = buffer_of(array);
  const Py_buffer& buffer = *rows.buffer_;
  const auto ndim = static_cast<std::size_t>(buffer.ndim);
  const Element element = element_of(buffer, name, bfloat16);
  if (ndim != 1 && ndim != 2) refuse_shape(name, ndim, shape_text(buffer.shape, ndim));
  rows.line_ = ndim == 1;
  rows.values_ = Values(buffer.buf, element.type, ndim == 2 ? buffer.shape[0] : 1, buffer.shape[ndim - 1]);
  if (ndim == 2) rows.values_.row_stride = buffer.strides[0];
  rows.values_.col_stride = buffer.strides[ndim - 1];
  rows.values_.byte_swapped = element.byte_swapped;
  return rows;
}

ValueRows ValueRows::from_dlpack(nb::handle capsule, const std::string& name, bool payload) {
  ValueRows rows;
  rows.tensor_ = tensor_of(capsule, name);
  const auto& tensor = rows.tensor_;
  const auto size = static_cast<std::int64_t>(tensor.itemsize());
  const bool fits = size == 1 || size == 2 || size == 4 || size == 8;
  if (payload && !fits) refuse_width(name, "with items of " + std::to_string(size) + " bytes");
  const ValueType type = payload ? integer_type(size, false) : element_of_dlpack(tensor.dtype(), name).type;
  const std::size_t ndim = tensor.ndim();
  if (ndim != 1 && ndim != 2) refuse_shape(name, ndim, shape_text(tensor.shape_ptr(), ndim));
  rows.line_ = ndim == 1;
  rows.values_ = Values(tensor.data(), type, ndim == 2 ? static_cast<std::int64_t>(tensor.shape(0)) : 1,
                        static_cast<std::int64_t>(tensor.shape(ndim - 1)));
  const std::vector<std::int64_t> strides = strides_of(tensor, size, name);
  if (ndim == 2) rows.values_.row_stride = strides[0];
  rows.values_.col_stride = strides[ndim - 1];
  rows.values_.cuda_device = cuda_device_of(tensor);
  return rows;
}

int ValueRows::traverse(visitproc visit, void* arg) const { return traverse_buffer(buffer_, visit, arg); }

void ValueRows::clear() { *this = ValueRows(); }

void bind_rows(nb::module_& m) {
  nb::class_<ValueRows>(m, "ValueRows", nb::type_slots(collected<ValueRows>),
                        "Rows of values seen in place; holds their owner.")
      .def_static("from_buffer", &ValueRows::from_buffer, nb::arg("array"), nb::arg("name"), nb::arg("bfloat16"))
      .def_static("from_dlpack", &ValueRows::from_dlpack, nb::arg("capsule").none(), nb::arg("name"),
                  nb::arg("payload"))
      .def_prop_ro("shape",
                   [](const ValueRows& self) { return nb::make_tuple(self.values().rows, self.values().cols); })
      .def_prop_ro(
          "extents", [](const ValueRows& self) { return self.extents(); },
          "The shape as it was given: one dimension or two.")
      .def_prop_ro("dtype", [](const ValueRows& self) { return std::string(value_type_name(self.values().type)); });
  nb::class_<Rows>(m, "Rows", nb::type_slots(collected<Rows>),
                   "Two-dimensional numbers seen in place; holds their owner.")
      .def_static("from_buffer", &Rows::from_buffer, nb::arg("array"), nb::arg("name"), nb::arg("bfloat16"))
      .def_static("from_dlpack", &Rows::from_dlpack, nb::arg("capsule").none(), nb::arg("name"), nb::arg("stream") = 0)
      .def_static("from_address", &Rows::from_address, nb::arg("address"), nb::arg("shape"), nb::arg("dtype"),
                  nb::arg("name"), nb::arg("cuda_device"), nb::arg("owner"), nb::arg("stream") = 0,
                  nb::arg("strides") = nb::none())
      .def_prop_ro("shape", [](const Rows& self) { return nb::make_tuple(self.declared().rows, self.declared().cols); })
      .def("convert", &Rows::convert)
      .def_prop_ro("conversion_bytes", &Rows::conversion_bytes)
      .def_prop_ro("dtype", [](const Rows& self) { return std::string(dtype_name(self.declared().dtype)); })
      .def_prop_ro("cuda_device", &Rows::cuda_device, "Ordinal of the device whose memory it is, -1: the host's.")
      .def_prop_ro("stream", &Rows::stream, "CUDA stream that its owner still works on, 0: none.")
      .def_prop_ro(
          "data", [](const Rows& self) { return reinterpret_cast<std::uintptr_t>(self.declared().data); },
          "Address of element (0, 0): tests use it to see that nothing was copied.");
}

}  // namespace vicinal::python
