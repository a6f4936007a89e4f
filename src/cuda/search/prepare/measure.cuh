// PREPARE, its first kernels: rows are checked, and their norms and largest elements
// are taken; queries by a kernel of their own, for more is remembered of them.
// order.cuh sorts what they measured, pack_int8.cuh and pack_float.cuh round it.
#pragma once
#include "core/exponents.hpp"
#include "cuda/search/prepare/fours.cuh"

namespace vicinal::cuda {

inline constexpr int prepare_threads = 256;

struct Prepare {
  PreparedMatrix matrix;
  BoundModel model;
  DeviceTransform transform;
  bool filters = true;  // false: for the canonical precision
  bool is_query = false, degenerate_is_one = false;
  Counters* counters = nullptr;
  const std::uint8_t* duplicates = nullptr;  // of rows: excluded always, for enough rows like it come before
  float* squares = nullptr;                  // of rows, about: their lengths in the filter's form; or null
};

/// (x - shift) * factor of an element, before the centre is taken away.
struct RowMap {
  double shift, factor;
};
__device__ __forceinline__ RowMap row_map(const Prepare& args, std::int64_t row) {
  if (!args.model.unit) return {0.0, args.is_query ? args.matrix.scales[row] : args.transform.scale};
  const double self = args.matrix.self[row];
  return {args.model.metric == Metric::correlation ? args.matrix.mean[row] : 0.0, self > 0 ? 1.0 / sqrt(self) : 0.0};
}

/// Runs body(load), where load(i) is element i of the matrix in fp64, with the type decided before.
template <class Body>
__device__ __forceinline__ void with_elements(const PreparedMatrix& matrix, const Body& body) {
  if (matrix.dtype == DType::f32)
    body([rows = static_cast<const float*>(matrix.rows)](std::int64_t i) { return static_cast<double>(rows[i]); });
  else if (matrix.dtype == DType::u8)
    body([rows = static_cast<const std::uint8_t*>(matrix.rows)](std::int64_t i) {
      return static_cast<double>(rows[i]);
    });
  else body([&matrix](std::int64_t i) { return element(matrix.rows, matrix.dtype, i); });
}

/// The sum of the squares of a row's differences from its mean, which is kept; by a warp.
__device__ __forceinline__ double centred_squares(const PreparedMatrix& matrix, std::int64_t row, std::int64_t base,
                                                  double mean) {
  double squares = 0;
  for (std::int64_t i = lane_index(); i < matrix.dims; i += 32) {
    const double t = element(matrix.rows, matrix.dtype, base + i) - mean;
    squares = fma(t, t, squares);
  }
  const double all = lanes_joined(squares, Plus{});
  if (lane_index() == 0) matrix.mean[row] = mean;
  return all;
}

/// A query's elements in fp64, without their mean for correlation; by a warp.
__device__ __forceinline__ void store_values(const PreparedMatrix& matrix, Metric metric, std::int64_t row,
                                             std::int64_t base) {
  const double mean = metric == Metric::correlation ? matrix.mean[row] : 0.0;
  for (std::int64_t i = lane_index(); i < matrix.dims; i += 32)
    matrix.values[base + i] = element(matrix.rows, matrix.dtype, base + i) - mean;
}

/// Whether the contract takes a row of this product with itself.
__device__ __forceinline__ bool norm_fits(const Prepare& args, double self, bool degenerate) {
  if (degenerate) return args.degenerate_is_one;
  return args.matrix.dtype != DType::f64 || (self >= least_self && self <= most_self);
}

/// Checks queries, takes their norms and sizes, and stores their values: a warp a query.
__device__ __forceinline__ void measure(const Prepare& args) {
  const PreparedMatrix& matrix = args.matrix;
  const Metric metric = args.model.metric;
  const bool norms = needs_norms(metric);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
       row < matrix.count; row += warps) {
    // Sums and the largest element.
    const std::int64_t base = row * matrix.dims;
    const double first = element(matrix.rows, matrix.dtype, base), reference = metric == Metric::cosine ? 0.0 : first;
    bool finite = true, same = true;
    double largest = 0, sum = 0, size = 0;
    with_elements(matrix, [&](auto load) {
#pragma unroll 4
      for (std::int64_t i = lane_index(); i < matrix.dims; i += 32) {
        const double x = load(base + i);
        finite = finite && is_finite(x);
        same = same && x == reference;
        largest = largest < fabs(x) ? fabs(x) : largest;
        sum = metric == Metric::cosine ? fma(x, x, sum) : sum + x;
      }
    });
    finite = __all_sync(all_lanes, finite);

    // Norms, and whether the row has a direction.
    bool degenerate = false, in_range = true;
    if (norms) {
      same = __all_sync(all_lanes, same);
      double self = lanes_joined(sum, Plus{});
      if (metric == Metric::correlation)
        self = centred_squares(matrix, row, base, self / static_cast<double>(matrix.dims));
      degenerate = same;
      in_range = norm_fits(args, self, degenerate);
      if (lane_index() == 0) matrix.self[row] = degenerate ? degenerate_self : self;
      __syncwarp();
    }
    if (matrix.values != nullptr) store_values(matrix, metric, row, base);

    // The size of the filter row.
    if (args.filters) {
      largest = lanes_joined(largest, Larger{});
      if (lane_index() == 0) {
        bool filterable = args.transform.usable && !degenerate && finite && in_range;
        double scale = args.transform.scale;
        if (largest > 0 && !norms && finite) {
          const bool own_scale = args.model.sum == Sum::products;
          const int exponent = ilogb(largest);
          if (own_scale) scale = ldexp(1.0, -exponent);
          if (is_far(exponent, args.transform.scale, own_scale)) filterable = false;
        }
        matrix.scales[row] = scale;
        matrix.filterable[row] = filterable;
      }
      __syncwarp();
      const RowMap map = row_map(args, row);
      with_elements(matrix, [&](auto load) {
#pragma unroll 4
        for (std::int64_t i = lane_index(); i < matrix.dims; i += 32) {
          const double moved =
              fabs((load(base + i) - map.shift) * map.factor - static_cast<double>(args.transform.centre[i]));
          size = size < moved ? moved : size;
        }
      });
      size = lanes_joined(size, Larger{});
    }
    const bool fit = finite && in_range;
    if (!fit && lane_index() == 0) atomicAdd(&args.counters->bad_queries, 1u);
    if (args.filters && lane_index() == 0)
      matrix.sizes[row] = is_finite(size) && fit && matrix.filterable[row] ? up32(size) : 0.0f;
  }
}
__global__ void __launch_bounds__(prepare_threads) measure_queries(Prepare args) {
  go_between();
  measure(args);
}

/// What eight lanes find out about a row.
struct RowFacts {
  bool finite = true, in_range = true;
  double size = 0;     // largest element of the filter row
  float square = 0;    // about the sum of their squares
  double largest = 0;  // element of the row itself, where it is asked for
};
/// The facts of a row whose metric takes no norms. Elements and sizes may be in single precision, for a size only
/// chooses a step. itself: its own largest element is asked for as well.
template <bool filters, bool itself = false, class Columns>
__device__ __forceinline__ RowFacts facts_of_row(const Prepare& args, const Columns& columns) {
  using Type = typename Columns::Type;
  using Value = Widened<Type>;
  // A power of two by its halves, for itself it may leave single precision.
  const int exponent = ilogb(args.transform.scale), half = exponent / 2;
  const auto first = static_cast<Value>(ldexp(1.0, half)), second = static_cast<Value>(ldexp(1.0, exponent - half));
  Value size = 0, none = 0, largest = 0;
  float square = 0;
  each_four(columns, Type{}, [&](std::int64_t col, const auto& four) {
    float4 centre = {0, 0, 0, 0};
    if constexpr (filters) centre = *reinterpret_cast<const float4*>(args.transform.centre + col);
    const float centres[4] = {centre.x, centre.y, centre.z, centre.w};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const Value x = widened(four.at[c]);
      none = std::fma(x, Value{0}, none);  // NaN of NaN and of infinities
      if constexpr (itself) largest = std::fmax(largest, std::fabs(x));
      if constexpr (!filters) continue;
      const Value moved = std::fma(x * first, second, static_cast<Value>(-centres[c]));
      size = std::fmax(size, std::fabs(moved));
      square = std::fma(static_cast<float>(moved), static_cast<float>(moved), square);
    }
  });
  RowFacts facts;
  facts.finite = eight_joined(none == 0 ? 1 : 0, [](int a, int b) { return a & b; }) != 0;
  facts.size = static_cast<double>(eight_joined(size, [](Value a, Value b) { return a < b ? b : a; }));
  facts.square = eight_joined(square, [](float a, float b) { return a + b; });
  if constexpr (itself)
    facts.largest = static_cast<double>(eight_joined(largest, [](Value a, Value b) { return a < b ? b : a; }));
  return facts;
}
/// It returns the facts of a row that is divided by its norm, and keeps the norm, summed in the canonical order.
/// present: the row is these lanes' own.
template <class Columns>
__device__ __forceinline__ RowFacts facts_of_unit_row(const Prepare& args, const Columns& columns, std::int64_t row,
                                                      bool present) {
  using Type = typename Columns::Type;
  const PreparedMatrix& matrix = args.matrix;
  const bool cosine = args.model.metric == Metric::cosine, writes = present && lane_index() % row_lanes == 0;
  const Type absent = cosine ? Type{} : columns.row[0];
  const auto reference = static_cast<double>(widened(absent));
  // Its sums, and whether it has a direction.
  double lists[4] = {0, 0, 0, 0}, none = 0;
  bool same = true;
  each_four(columns, absent, [&](std::int64_t col, const auto& four) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const auto x = static_cast<double>(widened(four.at[c]));
      none = fma(x, 0.0, none);
      same = same && x == reference;
      if (columns.has(col, c)) lists[c] = cosine ? fma(x, x, lists[c]) : lists[c] + x;
    }
  });
  RowFacts facts;
  const auto all = [](int a, int b) { return a & b; };
  facts.finite = eight_joined(none == 0 ? 1 : 0, all) != 0;
  const bool degenerate = eight_joined(same ? 1 : 0, all) != 0;
  double self = fours_joined(lists), mean = 0;
  if (!cosine) {
    mean = self / static_cast<double>(matrix.dims);
    for (double& list : lists) list = 0;
    each_four(columns, absent, [&](std::int64_t col, const auto& four) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const double t = static_cast<double>(widened(four.at[c])) - mean;
        if (columns.has(col, c)) lists[c] = fma(t, t, lists[c]);
      }
    });
    self = fours_joined(lists);
    if (writes) matrix.mean[row] = mean;
  }
  if (writes) matrix.self[row] = degenerate ? degenerate_self : self;
  facts.in_range = norm_fits(args, self, degenerate);
  // Its elements as the filter has them.
  if (!args.filters) return facts;
  const double factor = !degenerate && self > 0 ? 1.0 / sqrt(self) : 0.0;
  each_four(columns, absent, [&](std::int64_t col, const auto& four) {
    const float4 centre = *reinterpret_cast<const float4*>(args.transform.centre + col);
    const float centres[4] = {centre.x, centre.y, centre.z, centre.w};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (!columns.has(col, c)) continue;
      const double x = static_cast<double>(widened(four.at[c])) - mean,
                   moved = fabs(fma(x, factor, -static_cast<double>(centres[c])));
      facts.size = facts.size < moved ? moved : facts.size;
      facts.square = std::fma(static_cast<float>(moved), static_cast<float>(moved), facts.square);
    }
  });
  facts.size = eight_joined(facts.size, Larger{});
  facts.square = eight_joined(facts.square, [](float a, float b) { return a + b; });
  return facts;
}

/// It calls take(row, present) for each row of a matrix, by eight lanes of the grid. All lanes of a warp go on
/// together: beyond the last row they take that one again, with present = false.
template <class Take>
__device__ __forceinline__ void each_row_by_eight(const PreparedMatrix& matrix, const Take& take) {
  const std::int64_t each = thread_count() / row_lanes, step = static_cast<std::int64_t>(gridDim.x) * each;
  for (std::int64_t from = static_cast<std::int64_t>(blockIdx.x) * each; from < matrix.count; from += step) {
    const std::int64_t mine = from + thread_index() / row_lanes;
    const bool present = mine < matrix.count;
    take(present ? mine : matrix.count - 1, present);
  }
}

/// Checks rows of the corpus, takes their norms and sizes: eight lanes a row.
template <class Columns>
__global__ void __launch_bounds__(prepare_threads) measure_rows(Prepare args) {
  const PreparedMatrix& matrix = args.matrix;
  each_row_by_eight(matrix, [&](std::int64_t row, bool present) {
    const Columns columns(matrix, row);
    const RowFacts facts = needs_norms(args.model.metric) ? facts_of_unit_row(args, columns, row, present)
                           : args.filters                 ? facts_of_row<true>(args, columns)
                                                          : facts_of_row<false>(args, columns);
    if (!present || lane_index() % row_lanes != 0) return;
    const bool fit = facts.finite && facts.in_range;
    if (!fit) atomicAdd(&args.counters->bad_rows, 1u);
    // Beyond single precision a size is its largest number.
    if (args.squares != nullptr)
      args.squares[row] = facts.square == facts.square ? facts.square : static_cast<float>(infinite);
    if (args.filters) matrix.sizes[row] = fit ? up32(facts.size < 0x1p127 ? facts.size : 0x1p127) : 0.0f;
  });
}
/// It checks a query of which nothing but its size is asked, with the corpus's scale, by eight lanes. present: the row
/// is these lanes' own; tells: they count it where it is not finite.
template <class Columns>
__device__ __forceinline__ void measure_plain_query(const Prepare& args, std::int64_t row, bool present, bool tells) {
  const PreparedMatrix& matrix = args.matrix;
  const RowFacts facts = facts_of_row<true, true>(args, Columns(matrix, row));
  if (!present || lane_index() % row_lanes != 0) return;
  if (!facts.finite && tells) atomicAdd(&args.counters->bad_queries, 1u);
  const bool far = facts.largest > 0 && is_far(ilogb(facts.largest), args.transform.scale, false),
             filterable = args.transform.usable && facts.finite && !far;
  matrix.scales[row] = args.transform.scale;
  matrix.filterable[row] = filterable;
  matrix.sizes[row] = filterable && is_finite(facts.size) ? up32(facts.size) : 0.0f;
}
template <class Columns>
__global__ void __launch_bounds__(prepare_threads) measure_plain_queries(Prepare args) {
  each_row_by_eight(args.matrix,
                    [&](std::int64_t row, bool present) { measure_plain_query<Columns>(args, row, present, true); });
}
/// Rows `which` of a table side by side, a block each.
struct GatherRows {
  const unsigned char* from;
  unsigned char* to;
  std::int64_t row_bytes, row_stride;
  const std::int64_t* which;
};
__global__ void gather_rows(GatherRows args) {
  const unsigned char* from = args.from + args.which[blockIdx.x] * args.row_stride;
  for (std::int64_t i = thread_index(); i < args.row_bytes; i += thread_count())
    args.to[blockIdx.x * args.row_bytes + i] = from[i];
}

}  // namespace vicinal::cuda
