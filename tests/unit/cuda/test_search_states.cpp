// Searches as callers make them, on emulated devices, over the product of the states that meet: what was kept, by which metric, of which type, and
// what is then asked of it. States are drawn from seeds; whatever way the device takes (cuda/search/open.hpp), the answer is the CPU's to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

#include "unit/cuda/emulated_backend.hpp"
#include "unit/cuda/shown_devices.hpp"
#include "vicinal/vicinal.hpp"

namespace every_state {
namespace {

using emulated_search::EmulatedBackend;
using emulated_search::expect_same;
using emulated_search::sampled;
using namespace vicinal;

/// What NVIDIA's H100, A100 and RTX cards are to a search, and an H100 whose words are wide early. Guesses of thresholds often miss on the last three,
/// and always on the third.
struct Devices {
  EmulatedBackend h100{0, 90, 227 << 10}, a100{1, 80, 163 << 10}, rtx{2, 80, 99 << 10}, wide{3, 90, 227 << 10};
  CudaDevices all{{{&h100, ""}, {&a100, ""}, {&rtx, ""}, {&wide, ""}}, ""};
  Devices() {
    h100.runtime().multiprocessors = 12;
    h100.runtime().speculation = {};  // as it is
    wide.runtime().packed_rows = 100;
    a100.runtime().speculation =
        wide.runtime().speculation = {.least_k = 3, .least_k_of_long_rows = 3, .deviations = 0, .rows_besides = -1};
    rtx.runtime().speculation = {.least_k = 1, .least_k_of_long_rows = 1, .deviations = 0, .rows_besides = -1000};
  }
  struct Seen {
    std::int64_t fused = 0, guessed = 0, again = 0, slabs = 0, two_bytes = 0;
  };
  /// Batches that the kernels for few queries answered, searches with guessed thresholds, and queries whose guess missed, so far; launches of the
  /// filter of rows of several slabs, and refinements by the second bytes of queries.
  Seen seen() const {
    Seen seen;
    for (const EmulatedBackend* one : {&h100, &a100, &rtx, &wide}) {
      seen.fused += one->answered_fused();
      seen.guessed += one->runtime().seen.guessed;
      seen.again += one->runtime().seen.gathered;
      seen.slabs += one->runtime().seen.slabs;
      seen.two_bytes += one->runtime().seen.two_bytes;
    }
    return seen;
  }
  /// Rows of a chunk, queries of a batch and slots of a query, of every device.
  void limit(std::int64_t rows, std::int64_t queries, std::int64_t slots) {
    for (EmulatedBackend* one : {&h100, &a100, &rtx, &wide}) {
      one->most_rows = rows;
      one->most_queries = queries;
      one->most_slots = slots;
    }
  }
};
Devices& devices() {
  static Devices all;
  return all;
}

enum class Data { plain, offset, equal, tails, whole, zeros, bad };

std::uint16_t half_of(double x) {
  if (std::isnan(x)) return 0x7e00;
  const double size = std::min(std::fabs(x), 6e4);
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);
  const auto bits = exponent < -13
                        ? static_cast<int>(std::nearbyint(std::ldexp(size, 24)))
                        : ((exponent + 14) << 10) + static_cast<int>(std::nearbyint(std::ldexp(fraction, 11))) - 1024;
  return static_cast<std::uint16_t>(bits | (x < 0 ? 0x8000 : 0));
}

/// A matrix of any type with its memory. padded: rows do not follow one another.
struct Matrix {
  std::vector<std::byte> bytes;
  Points points;

  Matrix(const std::vector<double>& values, std::int64_t cols, DType type, bool padded = false) {
    const auto rows = static_cast<std::int64_t>(values.size()) / cols,
               size = static_cast<std::int64_t>(dtype_size(type)), stride = (cols + (padded ? 3 : 0)) * size;
    bytes.resize(static_cast<std::size_t>(rows * stride));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t col = 0; col < cols; ++col)
        put(bytes.data() + row * stride + col * size, values[static_cast<std::size_t>(row * cols + col)], type);
    points = Points(bytes.data(), type, rows, cols);
    points.row_stride = stride;
  }

 private:
  template <class T>
  static void put_as(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
  }
  static void put(std::byte* to, double x, DType type) {
    const double byte = std::isnan(x) ? 0 : std::nearbyint(30 * x);
    switch (type) {
      case DType::f32: return put_as(to, static_cast<float>(x));
      case DType::f64: return put_as(to, x);
      case DType::u8: return put_as(to, static_cast<std::uint8_t>(std::clamp(byte + 100, 0.0, 255.0)));
      case DType::i8: return put_as(to, static_cast<std::int8_t>(std::clamp(byte, -128.0, 127.0)));
      case DType::f16:
      case DType::bf16: return put_as(to, half_of(x));
    }
  }
};

/// What a corpus is. The first value of every list is the usual one, which is drawn two times in three.
struct Kept {
  Metric metric;
  bool usual;  // nothing is drawn
  std::mt19937 random;

  Kept(Metric of, unsigned seed) : metric(of), usual(seed == 0), random(64 * seed + static_cast<unsigned>(of)) {}
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return usual || random() % 3 != 0 ? *list.begin() : *(list.begin() + random() % list.size());
  }
  /// The i-th, where nothing is drawn.
  template <class T>
  T in_turn(int i, std::initializer_list<T> list) {
    return usual ? *(list.begin() + static_cast<std::size_t>(i) % list.size()) : one_of(list);
  }
  bool rarely() { return one_of({false, false, false, true}); }

  std::vector<double> numbers(Data data, std::int64_t rows, std::int64_t cols) {
    std::normal_distribution<double> normal;
    std::vector<double> values(static_cast<std::size_t>(rows * cols));
    for (double& value : values) {
      value = normal(random);
      if (data == Data::offset) value += 1000;
      if (data == Data::tails) value = std::copysign(std::exp(3 * std::fabs(value)), value);
      if (data == Data::whole) value = static_cast<double>(static_cast<int>(random() % 5) - 2);
    }
    if (data == Data::zeros) std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(random() % rows) * cols, cols, 0);
    if (data == Data::bad) values[random() % values.size()] = std::nan("");
    for (std::int64_t row = 7; data == Data::equal && row < rows; ++row)
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(random() % 7) * cols, cols, values.begin() + row * cols);
    return values;
  }
};

struct Outcome {
  std::optional<Neighbors> lists;
  std::optional<ErrorCode> code;
  std::string what;
};
template <class Search>
Outcome outcome_of(const Search& search) {
  try {
    return {search(), {}, ""};
  } catch (const Error& error) {
    return {{}, error.code(), error.what()};
  }
}

/// Conditions of a search with the memory behind them.
struct Conditions {
  std::vector<std::int64_t> ids, labels, query_labels;
  std::vector<std::uint64_t> bitmap;
  const char* name = "none";

  void draw(Kept& kept, std::int64_t rows, std::int64_t queries, KnnOptions& options) {
    std::mt19937& random = kept.random;
    Eligible& eligible = options.eligible;
    switch (kept.one_of({0, 0, 0, 1, 2, 3, 4, 5, 6})) {
      case 1:
        name = "range";
        eligible.first = options.first_id + rows / 3;
        eligible.last = options.first_id + rows - 2;
        break;
      case 2:
        name = "few ids";
        for (int i = 0; i < 70; ++i) ids.push_back(options.first_id + static_cast<std::int64_t>(random()) % rows);
        eligible.ids = ids;
        break;
      case 3:
        name = "bitmap";
        for (std::int64_t i = 0; i < (rows + 63) / 64; ++i)
          bitmap.push_back(std::uint64_t{random()} << 32 | std::uint64_t{random()});
        eligible.bitmap = bitmap;
        break;
      case 4:
      case 5:
      case 6: {
        const auto kinds = static_cast<unsigned>(kept.one_of({10, 2, 400}));
        for (std::int64_t i = 0; i < rows; ++i) labels.push_back(random() % kinds);
        for (std::int64_t i = 0; i < queries; ++i) query_labels.push_back(random() % kinds);
        eligible.labels = kept.rarely() ? Eligible::Labels::other : Eligible::Labels::same;
        name = eligible.labels == Eligible::Labels::same ? "same label" : "other labels";
        eligible.corpus_labels = labels;
        eligible.query_labels = query_labels;
        break;
      }
      default: break;
    }
  }
};

/// A corpus, kept or for one call, and searches of it.
class Walk {
 public:
  /// wide: of rows of several slabs, and of more queries than blocks of threads share.
  Walk(Metric metric, unsigned seed, bool wide = false) : wide_(wide), draw_(metric, seed) {
    const char* const device =
        draw_.one_of({"cuda:0", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:0,cuda:1", "cuda:3,cuda:0,cuda:2"});
    keeps_ = draw_.one_of({true, true, false});
    type_ = metric == Metric::hamming ? DType::u8
                                      : draw_.one_of({DType::f32, DType::u8, DType::i8, DType::f16, DType::f64});
    data_ = draw_.one_of({Data::plain, Data::offset, Data::equal, Data::tails, Data::whole, Data::zeros, Data::bad});
    // Around fused_tiles tiles, a tile, and the rows that a device filters in one call, which are a run of sorted ones.
    rows_ = draw_.one_of<std::int64_t>({4097, 3969, 3968, 3967, 4095, 4096, 127, 128, 129, 1, 2, 600, 8193});
    cols_ = draw_.one_of<std::int64_t>({8, 1, 40, 63, 64, 65, 127, 128, 129});
    if (rows_ * cols_ > (sampled() ? 200000 : 600000)) cols_ = 3;
    if (wide) {
      rows_ = draw_.one_of<std::int64_t>({400, 257, 129});
      cols_ = draw_.one_of<std::int64_t>({784, 129, 192, 256, 257, 384, 511, 512, 640, 768, 896, 1000, 1024, 1025});
    }
    degenerate_ = draw_.one_of({Degenerate::one, Degenerate::error});
    instruction_set_ = draw_.one_of({"auto", "mma"});
    values_ = draw_.numbers(data_, rows_, cols_);
    corpus_.emplace(values_, cols_, type_, draw_.rarely());
    devices().limit(keeps_ ? INT64_MAX : std::max(draw_.one_of({rows_, rows_ / 3}), least_chunk),
                    draw_.one_of({INT64_MAX, std::int64_t{32}}),
                    wide ? draw_.one_of({std::int64_t{16}, std::int64_t{INT64_MAX}}) : INT64_MAX);
    run_ = {.device = device, .threads = 1, .instruction_set = instruction_set_, .filter = filter()};
    if (keeps_)
      refused_ = outcome_of([&] {
        kept_.emplace(corpus_->points, CorpusOptions{.metric = metric, .degenerate = degenerate_, .run = run_});
        return Neighbors();
      });
  }

  /// i: how many it has made before.
  void search(int i) {
    const std::int64_t count = draw_.in_turn<std::int64_t>(i, {1, 9, 16, 17, 300});
    asked_ = count > 17 && rows_ > (sampled() ? 200 : 5000) ? 33 : count;
    if (wide_) asked_ = draw_.in_turn<std::int64_t>(i, {260, 17, 1, 260, 140, 193});
    KnnOptions options{.k = draw_.in_turn<std::int64_t>(i, {1, 10, 20, 64, 65, rows_}),
                       .metric = draw_.metric,
                       .distance_type = draw_.rarely() && draw_.metric != Metric::hamming ? DistanceType::f64
                                                                                          : DistanceType::automatic,
                       .pad = draw_.one_of({false, true}),
                       .first_id = draw_.one_of<std::int64_t>({0, 7, std::int64_t{1} << 40}),
                       .degenerate = degenerate_};
    if (wide_) options.k = draw_.in_turn<std::int64_t>(i, {10, 1, 100, rows_});
    if (wide_ && options.k > 100) asked_ = std::min<std::int64_t>(asked_, 140);
    if (!wide_ && options.k > 65 && rows_ > 1000) asked_ = std::min<std::int64_t>(asked_, sampled() ? 1 : 9);
    Conditions conditions;
    const bool graph = rows_ <= 600 && draw_.rarely();
    if (graph) {
      asked_ = rows_;
      options.first_id = 0;
    }
    conditions.draw(draw_, rows_, asked_, options);
    std::vector<double> near = draw_.numbers(data_, asked_, cols_);
    // Some are rows of the corpus.
    for (std::int64_t row = 0; row < asked_; row += 3)
      std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(draw_.random() % static_cast<unsigned>(rows_)) * cols_,
                  cols_, near.begin() + row * cols_);
    const Matrix queries(near, cols_, draw_.rarely() && draw_.metric != Metric::hamming ? DType::f32 : type_,
                         draw_.rarely());
    KnnOptions here = options, oracle = options;
    here.run = run_;
    here.run.filter = filter();
    oracle.run = {.device = "cpu", .threads = 1};
    oracle.proof = Proof::exhaustive;
    SCOPED_TRACE(testing::Message() << (keeps_ ? "kept " : "one call ") << dtype_name(type_) << " of data "
                                    << static_cast<int>(data_) << ", " << rows_ << " x " << cols_ << ", " << run_.device
                                    << " " << instruction_set_ << ", filter " << run_.filter << " then "
                                    << here.run.filter << ", " << (graph ? "graph of " : "") << asked_ << " queries of "
                                    << dtype_name(queries.points.dtype) << ", k " << options.k << ", "
                                    << conditions.name);
    GraphOptions edges{.search = here, .include_self = draw_.rarely()}, all_edges = edges;
    all_edges.search = oracle;
    const Points& rows = corpus_->points;
    const Outcome got = outcome_of([&] {
      if (graph) return kept_ ? kept_->knn_graph(edges) : knn_graph(rows, edges);
      return kept_ ? kept_->knn(queries.points, here) : knn(rows, queries.points, here);
    });
    const Outcome want =
        outcome_of([&] { return graph ? knn_graph(rows, all_edges) : knn(rows, queries.points, oracle); });
    if (refused_.code) {  // the corpus is refused, as each search of it is
      EXPECT_EQ(refused_.code, outcome_of([&] { return knn(rows, rows.slice(0, 1), plain(oracle)); }).code)
          << refused_.what;
    }
    ASSERT_EQ(got.code, want.code) << got.what << want.what;
    if (want.lists) expect_same(*got.lists, *want.lists);
  }

 private:
  const char* filter() {
    if (wide_) return draw_.one_of({"auto", "int8"});
    return draw_.one_of({"auto", "int8", "fp16", "f32", "canonical"});
  }
  /// Nothing but the rows can be refused.
  static KnnOptions plain(KnnOptions options) {
    options.k = 1;
    options.eligible = {};
    return options;
  }

  static constexpr std::int64_t least_chunk = cuda::tile_rows;

  bool wide_;
  Kept draw_;
  bool keeps_;
  DType type_;
  Data data_;
  std::int64_t rows_, cols_, asked_ = 0;
  Degenerate degenerate_;
  const char* instruction_set_;
  std::vector<double> values_;
  std::optional<Matrix> corpus_;
  Execution run_;
  Outcome refused_;
  std::optional<Corpus> kept_;
};

class EveryState : public testing::TestWithParam<Metric> {};

TEST_P(EveryState, HasTheBitsOfTheCpu) {
  const emulated_search::ShownDevices shown(devices().all);
  const Devices::Seen before = devices().seen();
  for (unsigned seed = 0; seed < (sampled() ? 3u : 60u) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk walk(GetParam(), seed);
    for (int i = 0; i < (sampled() ? 3 : 6) && !HasFatalFailure(); ++i) walk.search(i);
  }
  const Devices::Seen after = devices().seen();
  // Walks that miss a way prove nothing of it.
  if (!has_products(filter_sum_of(GetParam()))) return;
  EXPECT_GT(after.fused, before.fused);
  if (sampled()) return;
  EXPECT_GT(after.guessed, before.guessed);
  EXPECT_GT(after.again, before.again);
}

TEST_P(EveryState, OfRowsOfSeveralSlabsHasTheBitsOfTheCpu) {
  if (!cuda::guesses(Precision::int8, filter_sum_of(GetParam()))) return;  // has no filter of slabs
  const emulated_search::ShownDevices shown(devices().all);
  const Devices::Seen before = devices().seen();
  const char* const first = std::getenv("VICINAL_TEST_SEED");
  const auto begin = static_cast<unsigned>(first == nullptr ? 0 : std::atoi(first));
  for (unsigned seed = begin; seed < begin + (sampled() ? 1u : 5u) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk walk(GetParam(), seed, true);
    for (int i = 0; i < (sampled() ? 1 : 2) && !HasFatalFailure(); ++i) walk.search(i);
  }
  const Devices::Seen after = devices().seen();
  if (begin > 0) return;  // the usual states are those of the first seed
  EXPECT_GT(after.slabs, before.slabs);
  EXPECT_GT(after.two_bytes, before.two_bytes);
}

std::vector<Metric> metrics_of_vectors() {
  std::vector<Metric> some;
  for (const MetricInfo& metric : metrics())
    if (metric.vectors) some.push_back(metric.metric);
  return some;
}
INSTANTIATE_TEST_SUITE_P(Cuda, EveryState, testing::ValuesIn(metrics_of_vectors()),
                         [](const auto& info) { return std::string(metric_info(info.param).name); });

}  // namespace
}  // namespace every_state
