// The kernels of the host that look at whole rows: what it takes to read, check and sum them. Every table of
// src/cpu/isa converts to one.
#pragma once
#include <cstdint>

namespace vicinal {

/// Canonical sums (C2: 32 lanes, lane j takes i = j mod 32 in increasing i, then lanes j and j + h are joined, h =
/// 16..1; core/sums.hpp) of one query against rows at data + index[i] * row_stride (index null: 0..count-1). Elements
/// of a row are adjacent and aligned to their type. out[i] for i < count.
struct CanonicalArgs {
  const double* query;  // dims values, already exact in fp64; null where rows alone are summed
  const void* rows;
  std::int64_t row_stride;     // bytes
  const std::uint32_t* index;  // or null
  std::int64_t count;
  std::int64_t dims;
  const double* shift;  // [count], taken from each element of a row; null where the kernel takes none
  double* out;
};
using CanonicalFn = void (*)(const CanonicalArgs&);

/// It writes `count` adjacent elements as fp64, exactly.
using ConvertFn = void (*)(const void* from, std::int64_t count, double* to);

/// Products of rows with directions: out[r * out_stride + j] = sum over i of rows[r * dims + i] * matrix[j * stride + i],
/// in an
/// order that is the same for every row, whatever rows are beside it: of a graph a row has one form on both sides.
/// Directions are read once for some rows.
struct ProjectArgs {
  const double* rows;  // [row_count][dims]
  std::int64_t row_count, dims;
  const float* matrix;  // [count][stride], zeros from dims on
  std::int64_t stride;  // a multiple of 16
  std::int64_t count;
  double* out;
  std::int64_t out_stride;
};
using ProjectFn = void (*)(const ProjectArgs&);

/// It returns the first position of a NaN or infinity among `count` fp64 values, or -1.
using FiniteFn = std::int64_t (*)(const double* values, std::int64_t count);

struct RowKernels {
  const ConvertFn* convert;  // one a DType, in its order
  FiniteFn first_bad;
  CanonicalFn self_product, shifted_squares, total;  // of rows of f64 alone: of r_i r_i, (r_i - shift)^2, r_i
  ProjectFn project;
};

/// The fastest ones that run here; src/cpu/isa/table.cpp.
RowKernels best_row_kernels();

}  // namespace vicinal
