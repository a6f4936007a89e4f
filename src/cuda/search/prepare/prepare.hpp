// PREPARE, its host's part: a matrix's rows to the device, the launches that make bytes of them, and what is said of rows that the
// contract refuses.
#pragma once
#include <vector>

#include "core/parallel.hpp"
#include "core/text.hpp"
#include "core/visit_order.hpp"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/core/prepared.hpp"
#include "cuda/search/prepare/byte_step.cuh"
#include "cuda/search/prepare/duplicates.cuh"
#include "cuda/search/prepare/pack_float.cuh"
#include "cuda/search/prepare/pack_int8.cuh"
#include "prepare/check.hpp"
#include "prepare/transform.hpp"

namespace vicinal::cuda {

inline Visits visits_of(std::int64_t count) {
  const VisitOrder order(std::max<std::int64_t>(count, 1));
  return {std::max<std::int64_t>(count, 1), order.at(1)};
}

template <class Device>
class MatrixPreparer {
 public:
  /// counters: on the device.
  MatrixPreparer(Device& device, const SearchSpec& spec, Precision precision, ThreadPool& thread_pool,
                 Counters* counters)
      : longest(spec.k), device_(device), spec_(spec), precision_(precision), thread_pool_(thread_pool),
        counters_(counters), order_counts_(device), squares_(device), duplicates_(device) {}

  std::int64_t longest;  // list that rows with many equals are left out of

  /// Centre and scale by a sample of the rows (src/prepare/transform.cpp); any choice is sound, since quantization errors are measured.
  DeviceTransform choose(DeviceBuffer<double, Device>& centre) {
    constexpr std::int64_t most_rows = 1024;
    SearchSpec sampled{
        .corpus = spec_.corpus, .metric = spec_.metric, .type = spec_.type, .degenerate = spec_.degenerate};
    std::vector<std::byte> copy;
    const Points& corpus = spec_.corpus;
    const std::int64_t count = std::min(corpus.rows, most_rows),
                       row = corpus.cols * static_cast<std::int64_t>(dtype_size(corpus.dtype));
    copy.resize(static_cast<std::size_t>(count * row));
    const Points some(copy.data(), corpus.dtype, count, corpus.cols);
    if (device_.holds(corpus.data)) {
      DeviceBuffer<unsigned char, Device> gathered(device_);
      if (count > 0)
        device_.launch()(count, 128, 0, gather_rows,
                         GatherRows{.from = static_cast<const unsigned char*>(corpus.data),
                                    .to = gathered.reserve(count * row),
                                    .row_bytes = row,
                                    .row_stride = corpus.row_stride,
                                    .count = count,
                                    .visits = visits_of(corpus.rows)});
      device_.out(copy.data(), gathered.data(), count * row);
      device_.wait();
      sampled.corpus = some;
    } else {
      const VisitOrder order(std::max<std::int64_t>(corpus.rows, 1));
      for (std::int64_t i = 0; i < count && corpus.plain_rows(); ++i)
        std::memcpy(copy.data() + i * row, static_cast<const std::byte*>(corpus.data) + order.at(i) * corpus.row_stride,
                    static_cast<std::size_t>(row));
    }
    const Transform chosen =
        choose_transform(sampled, in_floats(precision_) ? Precision::f32 : Precision::int8, thread_pool_);
    DeviceTransform transform{.centre = centre.reserve(corpus.cols),
                              .scale = chosen.scale,
                              .integral = chosen.integral_step,
                              .usable = chosen.usable};
    // Elements are about 1, or in rows of norm 1 about 1 / sqrt(dims): finer steps would only make seeds that leave their range.
    const double typical = needs_norms(spec_.metric) ? 1 / std::sqrt(static_cast<double>(corpus.cols)) : 1.0;
    transform.least_step = static_cast<float>(0x1p-12 * typical);
    const bool compared = device_.holds(corpus.data) || corpus.plain_rows();
    transform.duplicates =
        compared && !spec_.radius && (spec_.filter.all() || spec_.filter.only_self()) && many_duplicates(some);
    device_.in(centre.data(), chosen.centre.data(), corpus.cols * 8);
    device_.wait();
    return transform;
  }

  /// The whole transform; the buffer is of its centre.
  template <class Centre>
  DeviceTransform choose_with_step(Centre& centre) {
    DeviceTransform transform = choose(centre);
    choose_step(transform);
    return transform;
  }

  /// The step of all rows and queries, where sums are of differences in int8: by a sample of the rows, which takes the device's own time to read.
  void choose_step(DeviceTransform& transform) {
    constexpr std::int64_t most_rows = 1024, most_strided = 64;
    transform.step = transform.integral > 0 ? transform.integral : 1;
    const Points& corpus = spec_.corpus;
    if (!has_byte_differences(filter_sum_of(spec_.metric)) || in_floats(precision_) || transform.integral > 0 ||
        corpus.rows == 0)
      return;
    const std::int64_t row = corpus.cols * static_cast<std::int64_t>(dtype_size(corpus.dtype));
    ByteStep args{.matrix = {},
                  .transform = transform,
                  .visits = visits_of(corpus.rows),
                  .largest = filter_sum_of(spec_.metric) == Sum::largest};
    args.matrix.dtype = corpus.dtype;
    args.matrix.dims = corpus.cols;
    args.count = std::min(corpus.rows, most_rows);
    DeviceBuffer<std::byte, Device> copy(device_);
    if (device_.holds(corpus.data)) {
      args.matrix.rows = corpus.data;
    } else {
      if (!corpus.plain_rows()) args.count = std::min(args.count, most_strided);
      std::byte* const to = copy.reserve(args.count * row);
      std::vector<std::byte> some(static_cast<std::size_t>(corpus.plain_rows() ? args.count * row : 0));
      for (std::int64_t i = 0; i < args.count; ++i) {
        const Points one = corpus.slice(args.visits.at(i), 1);
        if (some.empty()) device_.rows_in(to + i * row, one);
        else std::memcpy(some.data() + i * row, one.data, static_cast<std::size_t>(row));
      }
      if (!some.empty()) device_.in(to, some.data(), args.count * row);
      device_.wait();
      args.matrix.rows = to;
      args.visits = {.count = args.count, .step = 1};
    }
    DeviceBuffer<double, Device> step(device_);
    args.step = step.reserve(1);
    device_.launch()(1, byte_step_threads, 0, choose_byte_step, args);
    device_.out(&transform.step, args.step, 8);
    device_.wait();
  }

  /// start: of queries, whose states are begun.
  void make(PreparedMatrixBuffers<Device>& buffers, const Points& points, bool queries, bool filters,
            const BoundModel& model, const DeviceTransform& transform, StartStates start = {}) {
    PreparedMatrix& matrix = buffers.matrix;
    const std::int64_t count = points.rows, padded = padded_to_blocks(count);
    matrix.rows = dense(buffers, points);
    matrix.dtype = points.dtype;
    matrix.count = count;
    matrix.dims = points.cols;
    matrix.width = filter_width(precision_, points.cols);
    if (count == 0) return;
    if (needs_norms(spec_.metric)) matrix.self = buffers.self.reserve(count);
    if (spec_.metric == Metric::correlation) matrix.mean = buffers.mean.reserve(count);
    if (queries) matrix.values = buffers.values.reserve(count * points.cols);
    const bool lines = in_lines(precision_, model.sum);
    const bool few = queries && filters && count <= block_queries && !lines;
    if (filters) {
      matrix.sizes = buffers.sizes.reserve(count);
      matrix.order = buffers.order.reserve(padded);
      matrix.bytes = buffers.bytes.reserve(padded * matrix.width);
      matrix.tile_metadata = buffers.tile_metadata.reserve(padded / tile_rows);
      // Of all chunks.
      const bool first = buffers.largest.data() == nullptr || queries;
      matrix.largest = buffers.largest.reserve(2);
      if (first && !few) device_.zero(matrix.largest, 16);
      if (queries) {
        matrix.scales = buffers.scales.reserve(count);
        matrix.filterable = buffers.filterable.reserve(count);
        matrix.quantized = buffers.quantized.reserve(padded);
      }
    }
    Prepare prepare{.matrix = matrix,
                    .model = model,
                    .transform = transform,
                    .filters = filters,
                    .is_query = queries,
                    .degenerate_is_one = spec_.degenerate == Degenerate::one,
                    .counters = counters_};
    const bool grouped = filters && !queries && !lines;
    if (grouped) prepare.squares = squares_.reserve(count);
    start.queries = matrix;
    start.filters = filters;
    const bool measured = !few || count > few_measured;
    if (measured)
      device_.launch()(std::min<std::int64_t>((count + 7) / 8, std::int64_t{device_.multiprocessors} * 32),
                       prepare_threads, 0, measure_rows, prepare);
    if (few) return device_.launch()(1, few_threads, 0, prepare_few, PrepareFew{prepare, start, measured});
    // The row itself may be one of those before it, and is no neighbour in a graph.
    if (filters && !queries && transform.duplicates) prepare.duplicates = duplicates_.mark(matrix, longest + 1);
    if (filters) {
      const std::int64_t chunk = count <= 1 << 16 ? 512 : count <= 1 << 22 ? 8192 : 32768;
      const auto blocks = static_cast<int>((count + chunk - 1) / chunk);
      // The golden ratio's step, as for tiles.
      const Order order{.matrix = matrix,
                        .shuffle = visits_of(count),
                        .counts = order_counts_.reserve(std::int64_t{order_bins} * blocks),
                        .chunk = chunk,
                        .blocks = blocks};
      device_.launch()(blocks, order_threads, 0, count_sizes, order);
      device_.launch()(1, 1024, 0, place_bins, order);
      device_.launch()(blocks, order_threads, 0, place_rows, order);
      if (grouped)
        device_.launch()((count + run_rows - 1) / run_rows, run_threads, 0, sort_runs,
                         SortRuns{matrix, prepare.squares, prepare.duplicates});
      if (lines)
        device_.launch()(
            matrix.tiles(), prepare_threads, 0, pack_lines,
            PackLines{.prepare = prepare, .precision = in_floats(precision_) ? precision_ : Precision::int8});
      else device_.launch()(matrix.tiles(), prepare_threads, 0, pack_rows, prepare);
    }
    if (queries) device_.launch()((count + 255) / 256, 256, 0, start_states, start);
  }

  /// Rows that the contract refuses are found again on the host, which has the words for them.
  void report_rows(const Points& whole, const char* matrix) {
    std::vector<std::byte> copy;
    Points read = whole;
    if (device_.holds(whole.data)) {
      const std::int64_t bytes = whole.rows * whole.cols * static_cast<std::int64_t>(dtype_size(whole.dtype));
      copy.resize(static_cast<std::size_t>(bytes));
      device_.copy(copy.data(), whole.data, bytes);
      device_.wait();
      read = Points(copy.data(), whole.dtype, whole.rows, whole.cols);
    }
    report_unfit_rows(spec_, read, matrix, thread_pool_);
  }

 private:
  /// Dense rows on the device: in place where they are that already.
  const void* dense(PreparedMatrixBuffers<Device>& buffers, const Points& points) {
    const auto size = static_cast<std::int64_t>(dtype_size(points.dtype));
    const std::int64_t row = points.cols * size;
    if (device_.holds(points.data)) {
      if (points.col_stride == size && (points.row_stride == row || points.rows < 2) && !points.byte_swapped)
        return points.data;
      fail(ErrorCode::unsupported,
           "rows in memory of a CUDA device must be dense and row-major in this version; copy them first");
    }
    device_.rows_in(buffers.rows.reserve(points.rows * row), points);
    return buffers.rows.data();
  }

  Device& device_;
  const SearchSpec& spec_;
  Precision precision_;
  ThreadPool& thread_pool_;
  Counters* counters_;
  DeviceBuffer<std::uint32_t, Device> order_counts_;
  DeviceBuffer<float, Device> squares_;  // of rows that are put in order
  DuplicateMarks<Device> duplicates_;
};

}  // namespace vicinal::cuda
