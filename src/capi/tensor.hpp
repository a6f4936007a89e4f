// DLPack tensors as the library's views, and its results as tensors that own themselves.
#pragma once
#include <memory>
#include <string>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/select.hpp"
#include "vicinal/vicinal.h"

namespace vicinal::capi {

/// Rows in place. `name` is for messages. Throws InvalidArgument, DeviceError.
Points points_of(const DLTensor* tensor, const char* name);
/// Rows of values in place, and a payload of their shape. Throw InvalidArgument, DeviceError.
Values values_of(const DLTensor* tensor, const char* name);
Payload payload_of(const DLTensor* tensor, const Values& values);
/// Two dense tensors of one shape, or ids alone where distances are null; what is given is only read. Throws as
/// part_of.
NeighborsView result_of(const DLTensor* distances, const DLTensor* ids, const std::string& name);
/// Two dense tensors of one shape: a part of a merge. Throws InvalidArgument, DeviceError.
NeighborsView part_of(const DLTensor* distances, const DLTensor* ids, std::size_t number);

struct FreeTensor {
  void operator()(DLManagedTensor* tensor) const noexcept { tensor->deleter(tensor); }
};
using Tensor = std::unique_ptr<DLManagedTensor, FreeTensor>;

Tensor int64_tensor(std::shared_ptr<const void> owner, const std::int64_t* data, std::int64_t rows);
Tensor int64_tensor(std::shared_ptr<const void> owner, const std::int64_t* data, std::int64_t rows, std::int64_t cols);
Tensor tensor_like(const DLTensor& like, std::shared_ptr<const void> owner, const void* data, std::int64_t rows,
                   std::int64_t cols);
Tensor distance_tensor(std::shared_ptr<const void> owner, const void* data, DistanceType type, std::int64_t rows);
Tensor distance_tensor(std::shared_ptr<const void> owner, const void* data, DistanceType type, std::int64_t rows,
                       std::int64_t cols);

}  // namespace vicinal::capi
