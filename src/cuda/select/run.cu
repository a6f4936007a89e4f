// One selection on one device: see run.hpp. Copies of the host's values, their results and the launches' workspace
// share one piece of device memory, for as many rows at a time as fit.
#include "cuda/select/run.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/divide.hpp"
#include "core/retry.hpp"
#include "core/text.hpp"
#include "cuda/device/check.hpp"
#include "cuda/device/load.hpp"
#include "cuda/device/stream.hpp"
#include "cuda/select/select.hpp"

namespace vicinal::cuda {
namespace {

constexpr std::int64_t batch_bytes = std::int64_t{512}
                                     << 20;  // copied at a time: the caller can cancel between batches
constexpr std::int64_t asks_above = std::int64_t{64}
                                    << 20;  // smaller needs are tried before asking what is free, which takes long
constexpr std::int64_t alignment = 256;

class Run {
 public:
  Run(const SelectProblem& problem, const DeviceContext& context) : problem_(problem), context_(context) {
    staged_ = problem.values.cuda_device < 0;
    const auto size = static_cast<std::int64_t>(value_size(problem.values.type));
    check_input("values", problem.values.data, size, problem.values.row_stride, problem.values.col_stride);
    const Payload& payload = problem.payload;
    if (payload.data != nullptr)
      check_input("payload", payload.data, payload.item_size, payload.row_stride, payload.col_stride);
    check_memory("values of the result", problem.out.values);
    check_memory("ids of the result", problem.out.ids);
    check_memory("payload of the result", problem.out.payload);
    // Values of the host have no order with the caller's other work: a stream of this thread's own, so that threads do
    // not wait for one another. Values of the device may still be written by what is on the default stream.
    stream_ = static_cast<cudaStream_t>(problem.stream);
    if (stream_ == nullptr && staged_) stream_ = cudaStreamPerThread;
    refuse_capture(stream_);
  }

  Ran operator()() {
    const SelectArgs whole = task(0, problem_.values.rows, alignment).launch;
    if (const char* why = select_refusal(whole))
      fail(ErrorCode::invalid_argument, cat("algorithm ", problem_.algorithm, " cannot take this selection on cuda:",
                                            context_.ordinal, ": ", why, "; use algorithm=auto"));
    const bool waits = staged_ || problem_.stream == nullptr;
    // A small selection leaves the pool as it is: there it takes longer to ask than to select.
    std::optional<Pool::Call> call;
    if (bytes_for(problem_.values.rows) > asks_above)
      call.emplace(context_.pool, waits ? std::optional(stream_) : std::nullopt);
    std::optional<Block> memory;
    const std::int64_t rows = allocate(memory);
    Drain drain(stream_, waits);
    Ran ran = {"", ""};
    for (std::int64_t first = 0; first < problem_.values.rows; first += rows) {
      if (problem_.stop.stop_requested() || !go_on(first)) fail(ErrorCode::cancelled, "cancelled by the caller");
      const Ran now = run_rows(first, std::min(rows, problem_.values.rows - first), memory->data());
      if (first == 0) ran = now;
      if (staged_) wait();
    }
    if (waits) wait();
    return ran;
  }

 private:
  /// Some rows as the launches get them, and what they take of the piece of memory: copies first, then the workspace.
  struct Task {
    SelectArgs launch;
    std::int64_t workspace_at = 0, bytes = 0;
  };

  /// Tells how far it is, between batches of values of the host.
  bool go_on(std::int64_t done) const {
    const auto values = [&](std::int64_t rows) {
      return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(problem_.values.cols);
    };
    return !staged_ || !problem_.progress || problem_.progress(values(done), values(problem_.values.rows));
  }

  void wait() const { check(cudaStreamSynchronize(stream_), "waiting for the selection"); }

  /// Input and results are all in the memory that the values are said to be in: the host's, or this device's.
  void check_memory(const char* what, const void* memory) const {
    if (memory == nullptr) return;
    const int claimed = problem_.values.cuda_device, found = device_of(memory, claimed);
    const auto name = [](int device) { return device < 0 ? std::string("the host") : cat("cuda:", device); };
    if (found != claimed)
      fail(ErrorCode::device_error, cat(what, ": the memory is of ", name(found), ", and memory of ", name(claimed),
                                        " was expected; all of one "
                                        "selection is in one memory"));
    if (!staged_ && claimed != context_.ordinal)
      fail(ErrorCode::device_error,
           cat(what, ": the memory is of ", name(claimed), ", and the selection runs on ", name(context_.ordinal)));
  }

  void check_input(const char* what, const void* data, std::int64_t size, std::int64_t row, std::int64_t col) const {
    check_memory(what, data);
    if (staged_) return;
    if (problem_.values.byte_swapped)
      fail(ErrorCode::invalid_argument,
           "values in device memory are in the other byte order; swap them, or copy them to the host");
    if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size) != 0 || row % size != 0 ||
        col % size != 0)
      fail(ErrorCode::invalid_argument, cat(what, " in device memory: address and strides (", row, ", ", col,
                                            " bytes) must be multiples of the size of an element, ", size));
  }

  /// Rows [first, first + rows), with addresses counted from `base`.
  Task task(std::int64_t first, std::int64_t rows, std::uintptr_t base) const {
    const Values& values = problem_.values;
    const auto size = static_cast<std::int64_t>(value_size(values.type));
    Task made = {.launch = {.values = values,
                            .payload = problem_.payload,
                            .out = problem_.out,
                            .k = problem_.k,
                            .largest = problem_.largest,
                            .sorted = problem_.sorted,
                            .algorithm = problem_.algorithm.c_str(),
                            .stream = stream_}};
    SelectArgs& launch = made.launch;
    const auto carve = [&](std::int64_t bytes) {
      const std::uintptr_t at = base + static_cast<std::uintptr_t>(made.bytes);
      made.bytes += rounded_up(bytes, alignment);
      return reinterpret_cast<void*>(at);
    };
    // Values and payload: copied, or read where they are.
    launch.values.rows = launch.out.rows = rows;
    if (staged_) {
      launch.values = Values(carve(rows * values.cols * size), values.type, rows, values.cols);
      launch.values.cuda_device = context_.ordinal;
      if (launch.payload.data != nullptr) {
        launch.payload.data = carve(rows * values.cols * launch.payload.item_size);
        launch.payload.col_stride = launch.payload.item_size;
        launch.payload.row_stride = values.cols * launch.payload.item_size;
      }
    } else {
      launch.values.data = static_cast<const std::byte*>(values.data) + first * values.row_stride;
      if (launch.payload.data != nullptr)
        launch.payload.data = static_cast<const std::byte*>(launch.payload.data) + first * launch.payload.row_stride;
    }
    // Results, and what the kernels work in.
    const auto place_result = [&](auto*& memory, std::int64_t item_size) {
      if (memory == nullptr) return;
      void* at = staged_ ? carve(rows * problem_.k * item_size)
                         : reinterpret_cast<std::byte*>(memory) + first * problem_.k * item_size;
      memory = static_cast<std::remove_reference_t<decltype(memory)>>(at);
    };
    place_result(launch.out.values, size);
    place_result(launch.out.ids, sizeof(std::int64_t));
    place_result(launch.out.payload, launch.payload.item_size);
    made.workspace_at = made.bytes;
    carve(select_workspace(launch, context_.multiprocessors));
    return made;
  }

  /// For batches of `rows` rows and the last one, which may be smaller.
  std::int64_t bytes_for(std::int64_t rows) const {
    const std::int64_t last = problem_.values.rows % rows;
    return std::max(task(0, rows, alignment).bytes, last == 0 ? 0 : task(0, last, alignment).bytes);
  }

  /// Memory for batches; returns their rows.
  std::int64_t allocate(std::optional<Block>& memory) const {
    std::int64_t rows = problem_.values.rows;
    if (bytes_for(rows) > asks_above) {
      const std::int64_t free = context_.pool.free_bytes() / 4 * 3;  // others use the device too
      const std::int64_t threshold = staged_ ? std::min(batch_bytes, free) : free;
      while (rows > 1 && bytes_for(rows) > threshold) rows = (rows + 1) / 2;
    }
    return retry_smaller(
        [&] {
          const std::int64_t bytes = bytes_for(rows);
          memory.emplace(context_.pool, bytes, stream_);
          if (memory->data() == nullptr)
            fail(ErrorCode::out_of_memory,
                 cat("cuda:", context_.ordinal, " refused ", bytes_text(bytes), ", which selection from ", rows, " of ",
                     problem_.values.rows, " rows needs; ", bytes_text(context_.pool.free_bytes()), " are free there"));
          return rows;
        },
        [&] {
          const bool smaller = rows > 1;
          rows = (rows + 1) / 2;
          return smaller;
        });
  }

  Ran run_rows(std::int64_t first, std::int64_t rows, std::byte* memory) const {
    const Task now = task(first, rows, reinterpret_cast<std::uintptr_t>(memory));
    const Values& values = problem_.values;
    const auto size = static_cast<std::int64_t>(value_size(values.type));
    if (staged_) {
      const auto to = [](const void* at) { return const_cast<std::byte*>(static_cast<const std::byte*>(at)); };
      copy_in(
          to(now.launch.values.data),
          {static_cast<const std::byte*>(values.data), size, values.row_stride, values.col_stride, values.byte_swapped},
          first, rows, values.cols, stream_);
      const Payload& payload = problem_.payload;
      if (payload.data != nullptr)
        copy_in(to(now.launch.payload.data),
                {static_cast<const std::byte*>(payload.data), payload.item_size, payload.row_stride, payload.col_stride,
                 false},
                first, rows, values.cols, stream_);
    }
    const Ran ran = run_select(now.launch, memory + now.workspace_at, context_.multiprocessors);
    if (staged_) {
      copy_out(problem_.out.values, now.launch.out.values, first, rows, size);
      copy_out(problem_.out.ids, now.launch.out.ids, first, rows, sizeof(std::int64_t));
      copy_out(problem_.out.payload, now.launch.out.payload, first, rows, problem_.payload.item_size);
    }
    return ran;
  }

  void copy_out(void* to, const void* from, std::int64_t first, std::int64_t rows, std::int64_t item_size) const {
    if (to == nullptr) return;
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + first * problem_.k * item_size, from,
                          static_cast<std::size_t>(rows * problem_.k * item_size), cudaMemcpyDeviceToHost, stream_),
          "copying results to the host");
  }

  const SelectProblem& problem_;
  const DeviceContext& context_;
  bool staged_ = false;  // copied to the device and back
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::string refusal_of(const SelectProblem& problem) {
  SelectArgs task;
  task.values = problem.values;
  if (task.values.cuda_device < 0)
    task.values = Values(nullptr, problem.values.type, problem.values.rows, problem.values.cols);  // as they are copied
  task.k = problem.k;
  task.largest = problem.largest;
  task.sorted = problem.sorted;
  task.algorithm = problem.algorithm.c_str();
  const char* why = select_refusal(task);
  return why != nullptr ? why : "";
}

SelectStats run_problem(const SelectProblem& problem, const DeviceContext& context) {
  const auto start = std::chrono::steady_clock::now();
  if (problem.algorithm != "auto" && !select_runs_on(problem.algorithm, "cuda"))
    fail(ErrorCode::invalid_argument,
         cat("algorithm ", problem.algorithm, " does not run on CUDA; use algorithm=auto or device=cpu"));
  SelectStats stats;
  const Ran ran = Run(problem, context)();
  stats.algorithm = ran.algorithm;
  stats.why = ran.why;
  stats.device = cat("cuda:", context.ordinal);
  stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return stats;
}

}  // namespace vicinal::cuda
