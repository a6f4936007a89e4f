// Building an index: objects read and checked, permutants chosen, and every object's distances to them turned into
// ranks and bounds. Objects are independent, so pieces of them go to threads.
#include <algorithm>
#include <chrono>
#include <new>

#include "core/divide.hpp"
#include "core/fpenv.hpp"
#include "core/metric.hpp"
#include "core/text.hpp"
#include "core/visit_order.hpp"
#include "permutation/permutants.hpp"
#include "permutation/plan.hpp"
#include "permutation/state.hpp"
#include "permutation/user_defined.hpp"
#include "pipeline/check.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/rows.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t most_objects = std::int64_t{1} << 31;
constexpr std::int64_t piece_objects = 1024;
constexpr std::size_t distances_unasked = 1024;
constexpr std::int64_t sample_values = std::int64_t{1} << 21, most_sampled = 16384,
                       least_sampled = 1024;  // for the cells of bounds

void check_objects(std::int64_t count) {
  if (count <= 0) fail(ErrorCode::invalid_argument, "corpus has 0 objects, an index needs at least one");
  if (count > most_objects)
    fail(ErrorCode::invalid_argument, cat("corpus has ", count, " objects, an index holds at most ", most_objects));
}

/// Distances from objects to the permutants, each in the position that was asked for. The caller is asked after every
/// thousand of them: a distance may be the caller's own, and expensive.
template <class Use>
void see(const Objects& objects, Metric metric, const std::vector<std::uint32_t>& permutants,
         const std::vector<std::int64_t>& ids, ThreadPool& thread_pool, const Use& use) {
  std::size_t unasked = 0;
  const auto queries = objects.some(ids);
  const auto evaluator = queries->evaluator();
  std::vector<double> distances(permutants.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    evaluator->start(static_cast<std::int64_t>(i));
    evaluator->measure(permutants.data(), static_cast<std::int64_t>(permutants.size()), distances.data());
    check_measured(ids[i], distances, metric);
    use(i, distances.data());
    if ((unasked += permutants.size()) < distances_unasked) continue;
    thread_pool.poll(0);
    unasked = 0;
  }
}

std::vector<double> sample_of(const Objects& objects, Metric metric, const std::vector<std::uint32_t>& permutants,
                              std::int64_t rows, ThreadPool& thread_pool) {
  const auto width = static_cast<std::int64_t>(permutants.size());
  std::vector<double> sample(static_cast<std::size_t>(rows * width));
  const VisitOrder order(objects.count());
  constexpr std::int64_t at_once = 256;
  thread_pool.for_each(divide_up(rows, at_once), [&](std::int64_t piece, int) {
    const std::int64_t first = piece * at_once;
    std::vector<std::int64_t> ids;
    for (std::int64_t i = first; i < std::min(rows, first + at_once); ++i) ids.push_back(order.at(i));
    see(objects, metric, permutants, ids, thread_pool, [&](std::size_t i, const double* distances) {
      std::copy_n(distances, width,
                  sample.begin() + static_cast<std::ptrdiff_t>((first + static_cast<std::int64_t>(i)) * width));
    });
    thread_pool.poll(0);
  });
  return sample;
}

}  // namespace

std::int64_t sampled_for_bounds(std::int64_t objects, std::int64_t permutants) noexcept {
  return std::min(objects, std::clamp(sample_values / permutants, least_sampled, most_sampled));
}

Resolved resolve(const Execution& run, const Budget& memory) {
  std::vector<std::string> devices = device_names(run.device);
  const Backend& backend = find_backend(devices.front());
  if (devices.size() > 1) check_devices(devices, nullptr);
  Execution host = run;
  if (&backend != &cpu_backend()) host.instruction_set = "auto";  // a name of the device's
  const Plan plan = open_plan(cpu_backend(), {.memory = memory, .run = host});
  return {std::move(devices), &backend, plan.threads, plan.instruction_set, plan.budget_bytes};
}

std::vector<std::uint32_t> narrow(const std::vector<std::int64_t>& ids) { return {ids.begin(), ids.end()}; }

void PermutationIndex::State::build(ThreadPool& thread_pool) {
  const Objects& all = objects();
  permutants = choose_permutants(all, options, thread_pool);
  options.permutants = static_cast<std::int64_t>(permutants.size());
  layout = std::make_unique<RankLayout>(options.rank_distance, options.form, options.permutants, options.prefix);
  options.prefix = layout->prefix;
  const std::int64_t count = all.count();
  const std::vector<std::uint32_t> seen_from = narrow(permutants);
  ranks = Buffer<std::uint8_t>(count * layout->stride);
  const bool bounded = options.bounds && all.true_distance().known(),
             by_components = options.form == RankForm::components;
  if (bounded || by_components) {
    const std::int64_t told = Components::sampled(count, options.permutants);
    const std::int64_t sampled = bounded ? sampled_for_bounds(count, options.permutants) : told;
    const std::vector<double> sample = sample_of(all, options.metric, seen_from, sampled, thread_pool);
    if (bounded) bounds = std::make_unique<Bounds>(count, options.permutants, sample, thread_pool.threads());
    if (by_components)  // of the same objects whether there are bounds or not
      layout->components = std::make_shared<const Components>(options.permutants, sample.data(), told, thread_pool);
  }
  thread_pool.for_each(divide_up(count, piece_objects), [&](std::int64_t piece, int worker) {
    OrderWriter writer(*layout);
    std::vector<std::int64_t> ids;
    for (std::int64_t id = piece * piece_objects; id < std::min(count, (piece + 1) * piece_objects); ++id)
      ids.push_back(id);
    see(all, options.metric, seen_from, ids, thread_pool, [&](std::size_t i, const double* distances) {
      writer.write(distances, ranks.data() + ids[i] * layout->stride);
      if (bounds) bounds->note(ids[i], distances, worker);
    });
    thread_pool.poll(ids.size());
  });
  if (bounds) bounds->finish();
}

namespace {

PermutationOptions kept_options(const PermutationOptions& options) {
  PermutationOptions kept = options;
  kept.progress = nullptr;
  kept.stop = {};
  return kept;
}

}  // namespace

namespace {

std::int64_t bytes_of(const Shape& rows, const PermutationOptions& options) {
  const std::int64_t norms = needs_norms(options.metric) ? (options.metric == Metric::correlation ? 16 : 8) : 0;
  return rows.rows * (norms + (options.copy ? rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype)) : 0));
}
std::int64_t bytes_of(const Points& rows, const PermutationOptions& options) {
  return bytes_of(Shape{rows.rows, rows.cols, rows.dtype}, options);
}
/// Codes of four bytes a symbol, tokens as many as there are symbols, and positions; the words of tokens are not
/// counted.
std::int64_t bytes_of(const Strings& strings) {
  check_offsets(strings, "corpus");
  return strings.rows == 0 ? 0 : 8 * (strings.offsets[strings.rows] - strings.offsets[0]) + 48 * strings.rows;
}

}  // namespace

PermutationPlan PermutationIndex::plan_build(const Shape& rows, const PermutationOptions& options) {
  check_objects(rows.rows);
  return vicinal::plan_build(rows.rows, bytes_of(rows, options), options, resolve(options.run, options.memory));
}
PermutationPlan PermutationIndex::plan_build(const Strings& strings, const PermutationOptions& options) {
  check_objects(strings.rows);
  return vicinal::plan_build(strings.rows, bytes_of(strings), options, resolve(options.run, options.memory));
}

PermutationIndex::PermutationIndex(const Points& rows, const PermutationOptions& options) try
    : state_(std::make_unique<State>()) {
  const auto start = std::chrono::steady_clock::now();
  check_view(rows, "corpus");
  if (metric_info(options.metric).strings && !metric_info(options.metric).vectors)
    check_corpus(shape_of(rows), options.metric);  // refuses it
  check_objects(rows.rows);
  const Resolved run = resolve(options.run, options.memory);
  const PermutationPlan plan = vicinal::plan_build(rows.rows, bytes_of(rows, options), options, run);
  FpGuard guard;
  ThreadPool thread_pool(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(rows.rows));
  state_->options = kept_options(options);
  state_->rows = options.copy ? copy_rows(rows, state_->copy, thread_pool) : rows;
  state_->vectors = cpu::open_vectors(state_->rows, options.metric, options.window, run.instruction_set, thread_pool);
  state_->build(thread_pool);
  thread_pool.finish();
  state_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, "the system refused memory for the index; take fewer permutants, or bounds=false");
}

PermutationIndex::PermutationIndex(const Strings& strings, const PermutationOptions& options) try
    : state_(std::make_unique<State>()) {
  const auto start = std::chrono::steady_clock::now();
  check_string_metric(options.metric, options.strings);
  check_objects(strings.rows);
  const Resolved run = resolve(options.run, options.memory);
  const PermutationPlan plan = vicinal::plan_build(strings.rows, bytes_of(strings), options, run);
  FpGuard guard;
  ThreadPool thread_pool(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(strings.rows));
  state_->options = kept_options(options);
  state_->strings = cpu::open_strings(strings, options.metric, options.strings, thread_pool);
  state_->build(thread_pool);
  thread_pool.finish();
  state_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, "the system refused memory for the index; take fewer permutants, or bounds=false");
}

PermutationIndex::PermutationIndex(std::int64_t objects, OwnDistance between, const PermutationOptions& options) try
    : state_(std::make_unique<State>()) {
  const auto start = std::chrono::steady_clock::now();
  check_objects(objects);
  if (!between) fail(ErrorCode::invalid_argument, "the distance is empty");
  PermutationOptions alone = options;
  alone.run.threads = 1;
  alone.bounds = false;
  vicinal::plan_build(objects, 0, alone, resolve(alone.run, alone.memory));
  FpGuard guard;
  ThreadPool thread_pool(1, options.progress, options.stop, static_cast<std::uint64_t>(objects));
  state_->options = kept_options(options);
  state_->rows.dtype = DType::f64;
  state_->user_defined = open_user_defined(objects, std::move(between));
  state_->build(thread_pool);
  thread_pool.finish();
  state_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, "the system refused memory for the index; take fewer permutants");
}

PermutationIndex::PermutationIndex(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
PermutationIndex::PermutationIndex(PermutationIndex&&) noexcept = default;
PermutationIndex& PermutationIndex::operator=(PermutationIndex&&) noexcept = default;
PermutationIndex::~PermutationIndex() = default;

std::int64_t PermutationIndex::size() const noexcept { return state_->objects().count(); }
std::int64_t PermutationIndex::cols() const noexcept { return state_->rows.cols; }
DType PermutationIndex::dtype() const noexcept { return state_->rows.dtype; }
Metric PermutationIndex::metric() const noexcept { return state_->options.metric; }
bool PermutationIndex::strings() const noexcept { return state_->strings != nullptr; }
bool PermutationIndex::own() const noexcept { return state_->user_defined != nullptr; }
const PermutationOptions& PermutationIndex::options() const noexcept { return state_->options; }
const std::vector<std::int64_t>& PermutationIndex::permutants() const noexcept { return state_->permutants; }
std::int64_t PermutationIndex::rank_bytes() const noexcept { return state_->layout->used; }
std::int64_t PermutationIndex::bytes() const noexcept {
  return state_->copy.bytes() + state_->ranks.bytes() + (state_->bounds ? state_->bounds->bytes() : 0) +
         (state_->layout->components ? state_->layout->components->bytes() : 0) + state_->objects().bytes();
}
double PermutationIndex::build_seconds() const noexcept { return state_->seconds; }

}  // namespace vicinal
