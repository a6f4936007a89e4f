// select_k: the arguments checked once, and the backend that does it, or several, a share of the rows each.
#include <algorithm>
#include <chrono>
#include <new>

#include "backend/backend.hpp"
#include "core/fpenv.hpp"
#include "core/result_size.hpp"
#include "core/text.hpp"
#include "pipeline/device_tasks.hpp"
#include "pipeline/multi_device.hpp"
#include "select/problem.hpp"

namespace vicinal {
namespace {

void check_values(const Values& values) {
  if (values.rows < 0 || values.cols < 0)
    fail(ErrorCode::invalid_argument,
         cat("values have shape (", values.rows, ", ", values.cols, "); neither may be negative"));
  if (values.data == nullptr && values.rows > 0 && values.cols > 0)
    fail(ErrorCode::invalid_argument, "values have no data (null pointer)");
}

void check_payload(const Payload& payload) {
  if (payload.data == nullptr) return;
  const std::int64_t size = payload.item_size;
  if (size != 1 && size != 2 && size != 4 && size != 8)
    fail(ErrorCode::invalid_argument,
         cat("payload has items of ", size, " bytes; 1, 2, 4 and 8 are possible. Select ids and gather by them"));
}

void check_count(const Values& values, std::int64_t k) {
  if (k < 1) fail(ErrorCode::invalid_argument, cat("k must be >= 1, got ", k));
  if (values.rows > 0 && k > values.cols)
    fail(ErrorCode::invalid_argument, cat("k=", k, " exceeds the ", values.cols, " values of a row"));
}

int select_threads(int asked) {
  if (asked < 0) fail(ErrorCode::invalid_argument, cat("threads must be >= 0, got ", asked));
  return threads_for(asked);
}

/// Several devices read and write the memory that all of them can: the host's.
void check_memory(const SelectProblem& problem, const std::vector<std::string>& devices) {
  check_devices(devices, problem.stream);
  const DeviceBackend& first = find_backend(devices.front()).device();
  const auto check = [&](const char* what, const void* memory, int claimed) {
    const int device = claimed >= 0 || memory == nullptr ? claimed : first.cuda_device(memory);
    if (device >= 0)
      fail(ErrorCode::device_error,
           cat(what, " in memory of cuda:", device,
               ", a selection by several devices is from and to the host's; copy them there, or name device=cuda:",
               device));
  };
  check("values are", problem.values.data, problem.values.cuda_device);
  check("items of the payload are", problem.payload.data, -1);
  check("values of the result are", problem.out.values, -1);
  check("ids of the result are", problem.out.ids, -1);
  check("items of the result's payload are", problem.out.payload, -1);
}

/// Rows [part.first, part.first + part.count) of a selection, whose results go where they belong.
SelectProblem some_rows(SelectProblem problem, DevicePart part) {
  const auto skip = [&](auto* memory, std::int64_t bytes_a_row) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(memory);
    return memory == nullptr
               ? nullptr
               : reinterpret_cast<decltype(memory)>(at + static_cast<std::uintptr_t>(part.first * bytes_a_row));
  };
  const auto size = static_cast<std::int64_t>(value_size(problem.values.type));
  problem.values.data = skip(problem.values.data, problem.values.row_stride);
  problem.payload.data = skip(problem.payload.data, problem.payload.row_stride);
  problem.out.values = skip(problem.out.values, problem.k * size);
  problem.out.ids = skip(problem.out.ids, problem.k * static_cast<std::int64_t>(sizeof(std::int64_t)));
  problem.out.payload = skip(problem.out.payload, problem.k * problem.payload.item_size);
  problem.values.rows = problem.out.rows = part.count;
  return problem;
}

SelectStats select_on_devices(const SelectProblem& problem, const std::vector<std::string>& devices) {
  check_memory(problem, devices);
  const std::int64_t rows = problem.values.rows, share = even_share(rows, devices);
  const SelectBackend& first = find_backend(devices.front()).select();
  if (!first.select_refusal(problem).empty()) return first.select_k(problem);  // throws, in the words for all rows
  std::vector<SelectStats> found(devices.size());
  DeviceTasks tasks(devices, problem.progress,
                    static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(problem.values.cols));
  tasks.run([&](std::size_t i) {
    const DevicePart part = part_of_device(i, share, rows);
    if (part.count == 0) return;
    const FpGuard guard;
    SelectProblem own = some_rows(problem, part);
    own.threads = device_threads(problem.threads, devices);
    own.progress = tasks.progress_of(i);
    found[i] = find_backend(devices[i]).select().select_k(own);
  });
  SelectStats all = found.front();
  std::vector<std::string> algorithms{all.algorithm};
  for (std::size_t i = 1; i < found.size(); ++i) {
    all.threads += found[i].threads;
    if (!found[i].algorithm.empty() &&
        std::find(algorithms.begin(), algorithms.end(), found[i].algorithm) == algorithms.end())
      algorithms.push_back(found[i].algorithm);
  }
  all.algorithm = joined(algorithms);
  all.device = joined(devices, ",");
  all.why = cat(devices.size(), " devices, each with ", share, " rows", all.why.empty() ? "" : ": ", all.why);
  return all;
}

}  // namespace

const char* value_type_name(ValueType type) noexcept {
  static constexpr const char* names[] = {"f32", "f64", "f16", "bf16", "u8",  "i8",
                                          "u16", "i16", "u32", "i32",  "u64", "i64"};
  return names[static_cast<int>(type)];
}

Selection::Selection(std::int64_t rows, std::int64_t k, ValueType type, std::int64_t payload_size)
    : rows_(rows), k_(k), type_(type), payload_size_(payload_size) {
  check_result_size(rows, k);
  try {
    const auto entries = static_cast<std::size_t>(rows) * static_cast<std::size_t>(k);
    values_ = std::shared_ptr<std::byte[]>(new std::byte[entries * value_size(type)]);
    ids_ = std::shared_ptr<std::int64_t[]>(new std::int64_t[entries]);
    if (payload_size > 0)
      payload_ = std::shared_ptr<std::byte[]>(new std::byte[entries * static_cast<std::size_t>(payload_size)]);
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_memory,
         cat("no memory for a result of ", rows, " x ", k, " values; select from fewer rows at a time"));
  }
}

SelectionView Selection::view() noexcept { return {values_.get(), ids_.get(), payload_.get(), rows_, k_}; }

SelectStats select_k_into(const SelectionView& out, const Values& values, const SelectOptions& options,
                          const Payload& payload) try {
  const auto start = std::chrono::steady_clock::now();
  const FpGuard guard;
  check_select_algorithm(options.algorithm);
  check_values(values);
  check_payload(payload);
  check_count(values, options.k);
  if (out.rows != values.rows || out.k != options.k)
    fail(ErrorCode::invalid_argument, cat("the result has room for ", out.rows, " x ", out.k, ", the selection has ",
                                          values.rows, " x ", options.k));
  const Execution run = with_environment(options.run);
  const std::vector<std::string> devices = device_names(run.device);
  const bool several = devices.size() > 1;
  const Backend& backend =
      several ? find_backend(devices.front()) : find_select_backend(run.device, values.cuda_device);
  SelectProblem problem{.values = values,
                        .payload = payload,
                        .out = out,
                        .k = options.k,
                        .largest = options.largest,
                        .sorted = options.sorted,
                        .algorithm = options.algorithm,
                        .instruction_set = run.instruction_set,
                        .threads = select_threads(run.threads),
                        .progress = options.progress,
                        .stop = options.stop,
                        .stream = options.stream};
  SelectStats stats;
  if (values.rows > 0) {
    stats = several ? select_on_devices(problem, devices) : backend.select().select_k(problem);
  } else {
    stats = {.algorithm = options.algorithm,
             .device = several ? joined(devices, ",") : backend.device().facts().name,
             .threads = 0,
             .seconds = 0,
             .why = "there are no rows"};
  }
  stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return stats;
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, "no memory to select with; select from fewer rows at a time, or with fewer threads");
}

std::vector<SelectChoice> select_choices(const Values& values, const SelectOptions& options) {
  check_values(values);
  check_count(values, options.k);
  const Backend& backend = find_select_backend(with_environment(options.run).device, values.cuda_device);
  const std::string device = backend.device().facts().name, kind = device.substr(0, device.find(':'));
  SelectProblem problem;
  problem.values = values;
  problem.k = options.k;
  problem.largest = options.largest;
  problem.sorted = options.sorted;
  std::vector<SelectChoice> choices;
  for (const SelectAlgorithm& one : select_algorithms()) {
    if (!select_runs_on(std::string(one.name), kind)) continue;
    problem.algorithm = one.name;
    choices.push_back({one.name, values.rows > 0 ? backend.select().select_refusal(problem) : ""});
  }
  return choices;
}

Selection select_k(const Values& values, const SelectOptions& options, const Payload& payload) {
  check_values(values);
  check_count(values, options.k);
  if (values.cuda_device >= 0)
    fail(ErrorCode::invalid_argument, "values in device memory need results in device memory: call select_k_into");
  Selection result(values.rows, options.k, values.type, payload.data != nullptr ? payload.item_size : 0);
  result.stats = select_k_into(result.view(), values, options, payload);
  return result;
}

}  // namespace vicinal
