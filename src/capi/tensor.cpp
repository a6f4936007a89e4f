#include "capi/tensor.hpp"

#include <utility>

#include "core/text.hpp"

namespace vicinal::capi {
namespace {

enum Code : std::uint8_t { code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4 };
constexpr int host = 1, host_pinned_by_cuda = 3, host_pinned_by_rocm = 11;

[[noreturn]] void refuse(const char* name, const std::string& what) {
  fail(ErrorCode::invalid_argument, cat(name, ": ", what));
}

std::string shape_text(const DLTensor& tensor) {
  std::string text = "(";
  for (std::int32_t i = 0; i < tensor.ndim; ++i) text += cat(i != 0 ? ", " : "", tensor.shape[i]);
  return text + (tensor.ndim == 1 ? ",)" : ")");
}

std::string type_text(DLDataType type) {
  const char* kind = type.code == code_int      ? "int"
                     : type.code == code_uint   ? "uint"
                     : type.code == code_float  ? "float"
                     : type.code == code_bfloat ? "bfloat"
                                                : "code ";
  if (*kind == 'c') return cat(kind, static_cast<int>(type.code), " of ", static_cast<int>(type.bits), " bits");
  return cat(kind, static_cast<int>(type.bits), type.lanes == 1 ? "" : cat("x", type.lanes));
}

bool is(DLDataType type, Code code, int bits) { return type.code == code && type.bits == bits && type.lanes == 1; }

DType element_of(const DLTensor& tensor, const char* name) {
  const DLDataType type = tensor.dtype;
  if (is(type, code_float, 32)) return DType::f32;
  if (is(type, code_float, 64)) return DType::f64;
  if (is(type, code_float, 16)) return DType::f16;
  if (is(type, code_bfloat, 16)) return DType::bf16;
  if (is(type, code_uint, 8)) return DType::u8;
  if (is(type, code_int, 8)) return DType::i8;
  refuse(name, cat("dtype ", type_text(type),
                   " not supported; it must be float32, float64, float16, bfloat16, uint8 or int8"));
}

const DLTensor& matrix(const DLTensor* tensor, const char* name) {
  if (tensor == nullptr) refuse(name, "the tensor is null");
  const int device = static_cast<int>(tensor->device.device_type);
  if (device != host && device != host_pinned_by_cuda && device != host_pinned_by_rocm)
    fail(ErrorCode::device_error, cat(name, ": the tensor is on DLPack device ", device, ":", tensor->device.device_id,
                                      ", this search runs on the host; copy it there"));
  if (tensor->ndim < 0 || (tensor->ndim > 0 && tensor->shape == nullptr)) refuse(name, "the tensor has no shape");
  if (tensor->ndim != 2)
    refuse(name, cat("expected 2 dimensions, got ", tensor->ndim, " with shape ", shape_text(*tensor)));
  return *tensor;
}

const void* data_of(const DLTensor& tensor) {
  if (tensor.data == nullptr) return nullptr;
  return static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
}

bool dense(const DLTensor& t) {
  if (t.strides == nullptr || t.shape[0] == 0 || t.shape[1] == 0) return true;
  return (t.strides[1] == 1 || t.shape[1] == 1) && (t.strides[0] == t.shape[1] || t.shape[0] == 1);
}

DistanceType distance_type_of(const DLTensor& tensor, const std::string& name) {
  if (is(tensor.dtype, code_float, 32)) return DistanceType::f32;
  if (is(tensor.dtype, code_float, 64)) return DistanceType::f64;
  if (is(tensor.dtype, code_uint, 32)) return DistanceType::u32;
  refuse(name.c_str(), cat("distances must be float32, float64 or uint32, got ", type_text(tensor.dtype)));
}

/// A tensor, its shape and its share in the memory, freed together.
struct Owned {
  DLManagedTensor tensor{};
  std::int64_t shape[2] = {0, 0}, strides[2] = {1, 1};
  std::shared_ptr<const void> owner;
};

Tensor make(std::shared_ptr<const void> owner, const void* data, DLDataType type, int dimensions, std::int64_t rows,
            std::int64_t cols) {
  auto owned = std::make_unique<Owned>();
  owned->owner = std::move(owner);
  owned->shape[0] = rows;
  owned->shape[1] = cols;
  owned->strides[0] = dimensions == 2 ? cols : 1;
  DLTensor& tensor = owned->tensor.dl_tensor;
  tensor.data = const_cast<void*>(data);
  tensor.device.device_type = static_cast<decltype(tensor.device.device_type)>(host);
  tensor.ndim = dimensions;
  tensor.dtype = type;
  tensor.shape = owned->shape;
  tensor.strides = owned->strides;
  owned->tensor.manager_ctx = owned.get();
  owned->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Owned*>(self->manager_ctx); };
  return Tensor(&owned.release()->tensor);
}

DLDataType type_of(DistanceType type) {
  if (type == DistanceType::f64) return {code_float, 64, 1};
  return {type == DistanceType::u32 ? code_uint : code_float, 32, 1};
}

ValueType value_of(const DLTensor& tensor, const char* name) {
  constexpr std::pair<int, std::pair<ValueType, ValueType>> integers[] = {{8, {ValueType::i8, ValueType::u8}},
                                                                          {16, {ValueType::i16, ValueType::u16}},
                                                                          {32, {ValueType::i32, ValueType::u32}},
                                                                          {64, {ValueType::i64, ValueType::u64}}};
  const DLDataType type = tensor.dtype;
  if (is(type, code_float, 32)) return ValueType::f32;
  if (is(type, code_float, 64)) return ValueType::f64;
  if (is(type, code_float, 16)) return ValueType::f16;
  if (is(type, code_bfloat, 16)) return ValueType::bf16;
  for (const auto& [bits, types] : integers) {
    if (is(type, code_int, bits)) return types.first;
    if (is(type, code_uint, bits)) return types.second;
  }
  refuse(name, cat("dtype ", type_text(type),
                   " not supported; it must be a float of 16, 32 or 64 bits, bfloat16 or an integer"));
}

struct Layout {
  std::int64_t row_stride = 0, col_stride = 0;  // bytes
};

Layout layout_of(const DLTensor& tensor, std::int64_t size, const char* name) {
  Layout layout;
  if (tensor.shape[0] < 0 || tensor.shape[1] < 0) refuse(name, cat("a negative size: ", shape_text(tensor)));
  if (__builtin_mul_overflow(tensor.strides != nullptr ? tensor.strides[0] : tensor.shape[1], size,
                             &layout.row_stride) ||
      __builtin_mul_overflow(tensor.strides != nullptr ? tensor.strides[1] : 1, size, &layout.col_stride))
    refuse(name, cat("shape ", shape_text(tensor), ": a stride does not fit 64 bits"));
  return layout;
}

/// Rows of that type, of elements of `size` bytes, where the tensor has them.
template <class Rows, class Type>
Rows rows_of(const DLTensor& tensor, Type type, std::size_t size, const char* name) {
  const Layout layout = layout_of(tensor, static_cast<std::int64_t>(size), name);
  Rows rows(data_of(tensor), type, tensor.shape[0], tensor.shape[1]);
  rows.row_stride = layout.row_stride;
  rows.col_stride = layout.col_stride;
  return rows;
}

}  // namespace

Points points_of(const DLTensor* given, const char* name) {
  const DLTensor& tensor = matrix(given, name);
  const DType type = element_of(tensor, name);
  return rows_of<Points>(tensor, type, dtype_size(type), name);
}

Values values_of(const DLTensor* given, const char* name) {
  const DLTensor& tensor = matrix(given, name);
  const ValueType type = value_of(tensor, name);
  return rows_of<Values>(tensor, type, value_size(type), name);
}

Payload payload_of(const DLTensor* given, const Values& values) {
  const DLTensor& tensor = matrix(given, "payload");
  if (tensor.shape[0] != values.rows || tensor.shape[1] != values.cols)
    refuse("payload", cat("has shape ", shape_text(tensor), ", values (", values.rows, ", ", values.cols, ")"));
  const std::int64_t size = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
  const Layout layout = layout_of(tensor, size, "payload");
  return {data_of(tensor), size, layout.row_stride, layout.col_stride};
}

NeighborsView result_of(const DLTensor* given_distances, const DLTensor* given_ids, const std::string& name) {
  const DLTensor& ids = matrix(given_ids, name.c_str());
  if (!is(ids.dtype, code_int, 64)) refuse(name.c_str(), cat("ids must be int64, got ", type_text(ids.dtype)));
  if (ids.shape[0] < 0 || ids.shape[1] < 0) refuse(name.c_str(), cat("a negative size: ", shape_text(ids)));
  NeighborsView view;  // which is only read through
  view.ids = static_cast<std::int64_t*>(const_cast<void*>(data_of(ids)));
  view.rows = ids.shape[0];
  view.k = ids.shape[1];
  bool is_dense = dense(ids), has_data = view.ids != nullptr;
  if (given_distances != nullptr) {
    const DLTensor& distances = matrix(given_distances, name.c_str());
    if (distances.shape[0] != ids.shape[0] || distances.shape[1] != ids.shape[1])
      refuse(name.c_str(), cat("distances have shape ", shape_text(distances), ", ids ", shape_text(ids)));
    is_dense = is_dense && dense(distances);
    view.type = distance_type_of(distances, name);
    view.distances = const_cast<void*>(data_of(distances));
    has_data = has_data && view.distances != nullptr;
  }
  if (!is_dense) refuse(name.c_str(), "the tensors must be row-major and dense");
  if (view.rows > 0 && view.k > 0 && !has_data) refuse(name.c_str(), "no data");
  return view;
}

NeighborsView part_of(const DLTensor* distances, const DLTensor* ids, std::size_t number) {
  const std::string name = cat("part ", number);
  static_cast<void>(matrix(distances, name.c_str()));
  return result_of(distances, ids, name);
}

Tensor int64_tensor(std::shared_ptr<const void> owner, const std::int64_t* data, std::int64_t rows) {
  return make(std::move(owner), data, {code_int, 64, 1}, 1, rows, 1);
}
Tensor int64_tensor(std::shared_ptr<const void> owner, const std::int64_t* data, std::int64_t rows, std::int64_t cols) {
  return make(std::move(owner), data, {code_int, 64, 1}, 2, rows, cols);
}
Tensor tensor_like(const DLTensor& like, std::shared_ptr<const void> owner, const void* data, std::int64_t rows,
                   std::int64_t cols) {
  return make(std::move(owner), data, like.dtype, 2, rows, cols);
}
Tensor distance_tensor(std::shared_ptr<const void> owner, const void* data, DistanceType type, std::int64_t rows) {
  return make(std::move(owner), data, type_of(type), 1, rows, 1);
}
Tensor distance_tensor(std::shared_ptr<const void> owner, const void* data, DistanceType type, std::int64_t rows,
                       std::int64_t cols) {
  return make(std::move(owner), data, type_of(type), 2, rows, cols);
}

}  // namespace vicinal::capi
