// PREPARE, its host's part: a matrix's rows to the device, the launches that make bytes of them, and what is said of
// rows that the contract refuses.
#pragma once
#include <vector>

#include "core/divide.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/core/prepared.hpp"
#include "cuda/search/prepare/byte_step.cuh"
#include "cuda/search/prepare/chosen.hpp"
#include "cuda/search/prepare/duplicates.cuh"
#include "cuda/search/prepare/pack_float.cuh"
#include "cuda/search/prepare/second_bytes.cuh"
#include "cuda/search/prepare/transform.cuh"
#include "prepare/check.hpp"

namespace vicinal::cuda {

/// A MatrixRequest says which points become a prepared matrix, and what the search asks of it.
struct MatrixRequest {
  const Points& points;
  bool queries = false;  // false: rows
  bool filters = true;   // false: for the canonical precision
  const BoundModel& model;
  const DeviceTransform& transform;
  StartStates start = {};      // of queries: the states that begin with them
  bool values = false;         // queries are kept in double precision, though their ranking can do without
  bool checked_later = false;  // the search finds rows that are not finite, where nothing else is asked of them
  std::int64_t longest = 0;    // list that rows with as many equals before them are left out of
};

/// A MatrixPreparer makes the prepared matrices of a search.
template <class Device>
class MatrixPreparer {
 public:
  /// `counters` are on the device, and cleared before anything is counted. `spare_bytes` are beyond what the plan
  /// counts: where the marks of equal rows do not fit these, a finer precision takes the lists that overflow.
  MatrixPreparer(Device& device, const SearchSpec& spec, Precision precision, ThreadPool& thread_pool,
                 Counters* counters, std::int64_t spare_bytes = INT64_MAX)
      : device_(device), spec_(spec), precision_(precision), thread_pool_(thread_pool), counters_(counters),
        spare_bytes_(spare_bytes), order_counts_(device), squares_(device), masked_(device), duplicates_(device) {}

  /// It clears the counters, unless that was done before.
  void clear_counters() {
    if (std::exchange(uncleared_, false)) device_.zero(counters_, sizeof(Counters));
  }

  /// Centre and scale by a sample of the rows, which the device
  /// looks at; the host waits for the few words that it needs.
  DeviceTransform choose(DeviceBuffer<float, Device>& centre) {
    const Points& corpus = spec_.corpus;
    const std::int64_t columns = centre_columns(corpus.cols);
    DeviceTransform transform{.centre = centre.reserve(columns)};
    // Elements are about 1, or in rows of norm 1 about 1 / sqrt(dims):
    // finer steps would only make biases that leave their range.
    const double typical = needs_norms(spec_.metric) ? 1 / std::sqrt(static_cast<double>(corpus.cols)) : 1.0;
    transform.least_step = static_cast<float>(0x1p-12 * typical);
    // Nothing is chosen by no rows.
    if (corpus.rows == 0) {
      device_.zero(centre.data(), columns * 4);
      return transform;
    }
    // Three kernels look at the sample.
    const std::int64_t most = std::clamp<std::int64_t>(sampled_elements / corpus.cols, least_sampled, most_sampled);
    ChosenRows<Device> copy(device_);
    DeviceBuffer<SampledRow, Device> sampled(device_);
    DeviceBuffer<double, Device> ends(device_), norms(device_);
    DeviceBuffer<ChosenTransform, Device> chosen_on_device(device_);
    DeviceBuffer<SampleFacts, Device> facts(device_);
    Sampling args{.matrix = {},
                  .visits = {},
                  .count = static_cast<int>(std::min(corpus.rows, most)),
                  .metric = spec_.metric,
                  .sum = filter_sum_of(spec_.metric),
                  .codes = !in_floats(precision_),
                  .code_range = precision_row(Precision::int8).code_range};
    args.matrix.mean = norms.reserve(args.count);
    sample(args, copy);
    args.sampled = sampled.reserve(args.count);
    args.mean = ends.reserve(3 * corpus.cols);
    args.low = args.mean + corpus.cols;
    args.high = args.low + corpus.cols;
    args.centre = centre.data();
    args.facts = facts.reserve(1);
    args.chosen = chosen_on_device.reserve(1);
    constexpr int warps = prepare_threads / 32;
    device_.launch()(divide_up(args.count, warps), prepare_threads, 0, sample_rows, args);
    device_.launch()((corpus.cols + 31) / 32 + 1, sample_threads, 0, sample_columns, args);
    device_.launch()(1, sample_threads, 0, close_transform, args);
    // What the host is told.
    ChosenTransform chosen;
    device_.out(&chosen, args.chosen, sizeof chosen);
    device_.wait();
    transform.scale = chosen.scale;
    transform.integral = chosen.integral;
    transform.usable = chosen.usable;
    transform.duplicates = chosen.duplicates && !spec_.radius && (spec_.filter.all() || spec_.filter.only_self());
    return transform;
  }

  /// The whole transform; the buffer is of its centre.
  template <class Centre>
  DeviceTransform choose_with_step(Centre& centre) {
    DeviceTransform transform = choose(centre);
    choose_step(transform);
    return transform;
  }

  /// The step of all rows and queries, where sums are of differences in int8:
  /// by a sample of the rows, which takes the device's own time to read.
  void choose_step(DeviceTransform& transform) {
    transform.step = transform.integral > 0 ? transform.integral : 1;
    const Points& corpus = spec_.corpus;
    if (!has_byte_differences(filter_sum_of(spec_.metric)) || in_floats(precision_) || transform.integral > 0 ||
        corpus.rows == 0)
      return;
    ByteStep args{.matrix = {},
                  .transform = transform,
                  .visits = {},
                  .count = std::min(corpus.rows, std::int64_t{most_step_rows}),
                  .largest = filter_sum_of(spec_.metric) == Sum::largest};
    ChosenRows<Device> copy(device_);
    sample(args, copy);
    DeviceBuffer<double, Device> step(device_);
    args.step = step.reserve(1);
    device_.launch()(1, byte_step_threads, 0, choose_byte_step, args);
    device_.out(&transform.step, args.step, 8);
    device_.wait();
  }

  /// It prepares the matrix of a request in these buffers.
  void make(PreparedMatrixBuffers<Device>& buffers, const MatrixRequest& request) {
    const auto& [points, queries, filters, model, transform, states, values, checked_later, longest] = request;
    PreparedMatrix& matrix = buffers.matrix;
    const std::int64_t count = points.rows, padded = padded_to_blocks(count);
    const bool lines = in_lines(precision_, model.sum),
               at_once = queries && filters && count > 0 && count <= block_queries && !lines;
    if (!at_once) clear_counters();
    matrix.rows = dense(buffers, points);
    matrix.dtype = points.dtype;
    matrix.count = count;
    matrix.dims = points.cols;
    matrix.width = filter_width(precision_, points.cols);
    if (count == 0) return;
    if (needs_norms(spec_.metric)) matrix.self = buffers.self.reserve(count);
    if (spec_.metric == Metric::correlation) matrix.mean = buffers.mean.reserve(count);
    const bool valued = values || !filters || keeps_values(spec_.metric, spec_.corpus.dtype, points.dtype, points.cols);
    if (queries) matrix.values = valued ? buffers.values.reserve(count * points.cols) : nullptr;
    if (filters) {
      matrix.sizes = buffers.sizes.reserve(count);
      matrix.order = buffers.order.reserve(padded);
      matrix.bytes = buffers.bytes.reserve(padded * matrix.width);
      matrix.tile_metadata = buffers.tile_metadata.reserve(padded / tile_rows);
      // Of all chunks.
      const bool first = buffers.largest.data() == nullptr || queries;
      matrix.largest = buffers.largest.reserve(2);
      if (first && !at_once) device_.zero(matrix.largest, 16);
      if (queries) {
        matrix.scales = buffers.scales.reserve(count);
        matrix.filterable = buffers.filterable.reserve(count);
        matrix.quantized = buffers.quantized.reserve(padded);
        const bool two_bytes = !at_once && !lines && has_second_bytes(precision_, points.dtype, points.cols) &&
                               spec_.corpus.dtype == points.dtype && !(transform.integral > 0) && !spec_.radius &&
                               spec_.k <= most_shared_k;
        matrix.second_bytes = two_bytes ? buffers.second_bytes.reserve(padded * matrix.width) : nullptr;
        matrix.two_bytes = two_bytes ? buffers.two_bytes.reserve(padded) : nullptr;
      }
    }
    Prepare prepare{.matrix = matrix,
                    .model = model,
                    .transform = transform,
                    .filters = filters,
                    .is_query = queries,
                    .degenerate_is_one = spec_.degenerate == Degenerate::one,
                    .counters = counters_};
    // Rows that are not too long may be tested in groups, which their lengths make.
    const bool grouped = filters && !queries && !lines && matrix.width <= most_grouped_width;
    if (grouped) prepare.squares = squares_.reserve(count);
    StartStates start = states;
    start.queries = matrix;
    start.filters = filters;
    // Integers are all finite, and where the transform leaves them whole their sizes matter to groups alone.
    const bool integers = points.dtype == DType::u8 || points.dtype == DType::i8,
               whole = integers && !lines && points.dtype == spec_.corpus.dtype && transform.integral > 0;
    if (at_once) return prepare_queries_at_once({prepare, start});
    const bool measured = queries   ? true
                          : filters ? !whole || grouped
                                    : needs_norms(spec_.metric) || !(integers || checked_later);
    if (measured) measure(prepare);
    // The row itself may be one of those before it, and is no neighbour in a graph.
    if (filters && !queries && transform.duplicates && DuplicateMarks<Device>::bytes(count) <= spare_bytes_)
      prepare.duplicates = duplicates_.mark(matrix, longest + 1);
    if (filters) {
      order(matrix, !whole);
      if (grouped)
        device_.launch()(divide_up(count, run_rows), run_threads, 0, sort_runs,
                         SortRuns{matrix, prepare.squares, prepare.duplicates, !whole});
      if (lines)
        device_.launch()(
            matrix.tiles(), prepare_threads, 0, pack_lines,
            PackLines{.prepare = prepare, .precision = in_floats(precision_) ? precision_ : Precision::int8});
      else device_.launch()(matrix.tiles(), prepare_threads, 0, packer(matrix, whole), prepare);
    }
    if (queries) device_.launch()((count + 255) / 256, 256, 0, start_states, start);
    if (matrix.two_bytes != nullptr) add_second_bytes(prepare);
  }

  /// Prepared rows of a graph once more, for tiles that serve both of their sides: as rows and as queries, in one order
  /// and with the same bytes. bases: SortBothSides's. queries: those that were prepared in an order of their own.
  void make_both(const PreparedMatrix& from, const float* bases, const BoundModel& model,
                 const DeviceTransform& transform, PreparedMatrixBuffers<Device>& rows,
                 PreparedMatrixBuffers<Device>& queries) {
    const std::int64_t count = from.count, padded = padded_to_blocks(count);
    // The order.
    PreparedMatrix& matrix = rows.matrix = from;
    matrix.order = rows.order.reserve(padded);
    matrix.bytes = rows.bytes.reserve(padded * from.width);
    matrix.tile_metadata = rows.tile_metadata.reserve(padded / tile_rows);
    matrix.largest = rows.largest.reserve(2);
    device_.zero(matrix.largest, 16);
    float* const squares = squares_.reserve(count);
    std::uint8_t* const masked = masked_.reserve(count);
    const bool whole = (from.dtype == DType::u8 || from.dtype == DType::i8) && from.dtype == spec_.corpus.dtype &&
                       transform.integral > 0;
    device_.launch()((count + 255) / 256, 256, 0, facts_by_row, FactsByRow{from, squares, masked});
    device_.launch()(divide_up(count, run_rows), run_threads, 0, sort_both_sides,
                     SortBothSides{.runs = {matrix, squares, masked, !whole}, .from = from.order, .bases = bases});
    // Its rows in bytes, and what they are as queries.
    Prepare prepare{.matrix = matrix,
                    .model = model,
                    .transform = transform,
                    .filters = true,
                    .is_query = false,
                    .degenerate_is_one = spec_.degenerate == Degenerate::one,
                    .counters = counters_};
    prepare.duplicates = masked;
    device_.launch()(matrix.tiles(), prepare_threads, 0, packer(matrix, whole), prepare);
    prepare.matrix = queries.matrix;
    prepare.matrix.order = matrix.order;
    prepare.matrix.sizes = matrix.sizes;
    prepare.matrix.self = matrix.self;
    prepare.matrix.mean = matrix.mean;
    prepare.is_query = true;
    prepare.duplicates = nullptr;
    queries.matrix = prepare.matrix;
    device_.launch()(matrix.tiles(), prepare_threads, 0, packer(matrix, whole), prepare);
    if (queries.matrix.two_bytes != nullptr) add_second_bytes(prepare);
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
  /// The sample's rows: where they are on the device, or copied there from the host.
  template <class Sample>
  void sample(Sample& args, ChosenRows<Device>& copy) {
    const Points& corpus = spec_.corpus;
    args.visits = visits_of(corpus.rows);
    args.matrix.dtype = corpus.dtype;
    args.matrix.dims = corpus.cols;
    if (device_.holds(corpus.data)) {
      args.matrix.rows = dense(corpus);
      return;
    }
    std::vector<std::int64_t> which;
    for (std::int64_t i = 0; i < args.count; ++i) which.push_back(args.visits.at(i));
    args.matrix.rows = copy.gather(corpus, which).data;
    args.visits = {.count = args.count, .step = 1};
  }

  /// Whether the size of a query takes neither a norm nor a scale of its own.
  static bool plain(const Prepare& args) {
    return args.filters && args.matrix.values == nullptr && !needs_norms(args.model.metric) &&
           args.model.sum != Sum::products;
  }
  void prepare_queries_at_once(PrepareAtOnce args) {
    args.measured = plain(args.prepare)                         ? MeasuredBy::plainly
                    : args.prepare.matrix.count > most_by_warps ? MeasuredBy::before
                                                                : MeasuredBy::by_warps;
    args.rows = rows_a_block(args.measured);
    args.clears = args.measured != MeasuredBy::before && std::exchange(uncleared_, false);
    clear_counters();
    if (args.measured == MeasuredBy::before) measure(args.prepare);
    device_.launch().next(at_once_blocks(args), at_once_threads, 0, prepare_at_once, args);
  }
  void measure(const Prepare& args) {
    const std::int64_t count = args.matrix.count, most = std::int64_t{device_.multiprocessors} * 32;
    constexpr int warps = prepare_threads / 32, rows = prepare_threads / row_lanes;
    if (args.is_query && !plain(args))
      return device_.launch()(std::min(divide_up(count, warps), most), prepare_threads, 0, measure_queries, args);
    device_.launch()(std::min(divide_up(count, rows), most), prepare_threads, 0,
                     with_columns(args.matrix,
                                  [&](auto columns) {
                                    using Columns = typename decltype(columns)::type;
                                    return args.is_query ? measure_plain_queries<Columns> : measure_rows<Columns>;
                                  }),
                     args);
  }

  void add_second_bytes(const Prepare& args) {
    device_.launch()(rounding_blocks(args.matrix), prepare_threads, 0,
                     is_aligned_to_four<float>(args.matrix) ? round_again<FourColumns<float, true>>
                                                            : round_again<FourColumns<float, false>>,
                     args);
  }
  /// The kernel that makes bytes of rows.
  static auto packer(const PreparedMatrix& matrix, bool whole) {
    return with_columns(matrix, [whole](auto columns) -> void (*)(Prepare) {
      using Columns = typename decltype(columns)::type;
      if constexpr (sizeof(typename Columns::Type) == 1)
        if (whole) return pack_whole_rows<Columns>;
      return pack_rows<Columns>;
    });
  }

  /// by_size: else the rows are shuffled.
  void order(const PreparedMatrix& matrix, bool by_size) {
    const std::int64_t count = matrix.count, chunk = count <= 1 << 16 ? 512 : count <= 1 << 22 ? 8192 : 32768;
    const auto blocks = static_cast<int>(divide_up(count, chunk));
    // The golden ratio's step, as for tiles.
    Order order{.matrix = matrix, .shuffle = visits_of(count), .chunk = chunk, .blocks = blocks};
    if (!by_size) return device_.launch()(divide_up(count, prepare_threads), prepare_threads, 0, shuffle_rows, order);
    order.counts = order_counts_.reserve(2 * std::int64_t{order_bins} * blocks);
    order.places = order.counts + std::int64_t{order_bins} * blocks;
    device_.launch()(blocks, order_threads, 0, count_sizes, order);
    device_.launch()(order_bins / bins_a_block, place_threads, 0, place_bins, order);
    device_.launch()(blocks, order_threads, 0, place_rows, order);
  }

  /// Rows that are on the device must be dense there.
  static const void* dense(const Points& points) {
    if (is_dense(points)) return points.data;
    fail(ErrorCode::unsupported,
         "rows in memory of a CUDA device must be dense and row-major in this version; copy them first");
  }
  /// Dense rows on the device: in place where they are that already.
  const void* dense(PreparedMatrixBuffers<Device>& buffers, const Points& points) {
    if (device_.holds(points.data)) return dense(points);
    device_.rows_in(
        buffers.rows.reserve(points.rows * points.cols * static_cast<std::int64_t>(dtype_size(points.dtype))), points);
    return buffers.rows.data();
  }

  Device& device_;
  const SearchSpec& spec_;
  Precision precision_;
  ThreadPool& thread_pool_;
  Counters* counters_;
  bool uncleared_ = true;  // the counters still are, which the launch for a few queries clears by the way
  std::int64_t spare_bytes_;
  DeviceBuffer<std::uint32_t, Device> order_counts_;
  DeviceBuffer<float, Device> squares_;        // of rows that are put in order
  DeviceBuffer<std::uint8_t, Device> masked_;  // the same
  DuplicateMarks<Device> duplicates_;
};

}  // namespace vicinal::cuda
