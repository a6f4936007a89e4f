// Selection on the CPU: the algorithm by its name, and the truncated sorts row by row.
#include "cpu/select/select.hpp"

#include <vector>

#include "core/parallel.hpp"
#include "core/text.hpp"
#include "cpu/select/output.hpp"
#include "cpu/select/threshold.hpp"
#include "cpu/select/truncated.hpp"
#include "select/ordered.hpp"

namespace vicinal::cpu {
namespace {

constexpr const Truncated* const truncated_sorts[] = {&truncated_bubble, &truncated_insertion, &truncated_heap,
                                                      &truncated_merge,  &truncated_quick,     &truncated_radix,
                                                      &truncated_bitonic};

/// The ordered keys of a row.
template <ValueType T, class Key>
void keys_of(const RowReader& reader, std::int64_t row, std::int64_t cols, bool largest, Key* keys) {
  using Bits = typename ValueBits<T>::type;
  for (std::int64_t i = 0; i < cols; ++i) {
    Bits bits;
    reader.copy(row, i, &bits);
    keys[i] = ordered<T>(bits, largest);
  }
}

template <ValueType T, class Key>
void select_rows(const SelectProblem& problem, TruncatedFn<Key> algorithm, ThreadPool& thread_pool) {
  struct Scratch {
    std::vector<Key> keys;
    std::vector<Ranked<Key>> best;
  };
  std::vector<Scratch> scratches(static_cast<std::size_t>(thread_pool.threads()));
  const RowReader reader(problem.values);
  const RowWriter out(problem);
  thread_pool.for_each(problem.values.rows, [&](std::int64_t row, int worker) {
    Scratch& scratch = scratches[static_cast<std::size_t>(worker)];
    scratch.keys.resize(static_cast<std::size_t>(problem.values.cols));
    scratch.best.resize(static_cast<std::size_t>(problem.k));
    keys_of<T>(reader, row, problem.values.cols, problem.largest, scratch.keys.data());
    algorithm(scratch.keys.data(), problem.values.cols, problem.k, scratch.best.data());
    for (std::int64_t rank = 0; rank < problem.k; ++rank)
      out.write(row, rank, scratch.best[static_cast<std::size_t>(rank)].position);
    thread_pool.poll(static_cast<std::uint64_t>(problem.values.cols));
  });
}

void select_truncated(const SelectProblem& problem, const Truncated& algorithm, ThreadPool& thread_pool) {
  with_type(problem.values.type, [&]<ValueType T>() {
    if constexpr (sizeof(typename ValueBits<T>::type) == 8)
      select_rows<T, std::uint64_t>(problem, algorithm.wide, thread_pool);
    else select_rows<T, std::uint32_t>(problem, algorithm.narrow, thread_pool);
  });
}

}  // namespace

SelectStats select_k(const SelectProblem& problem, const Scans& scans) {
  const auto work = static_cast<std::uint64_t>(problem.values.rows) * static_cast<std::uint64_t>(problem.values.cols);
  ThreadPool thread_pool(problem.threads, problem.progress, problem.stop, work);
  SelectStats stats{
      .algorithm = problem.algorithm, .device = "cpu", .threads = thread_pool.threads(), .seconds = 0, .why = ""};
  if (problem.algorithm == "auto") {
    stats.algorithm = "threshold";
    stats.why = cat("one pass over memory for any k and shape (", scans.name, ")");
  }
  if (stats.algorithm == "threshold") {
    select_threshold(problem, scans, thread_pool);
    return stats;
  }
  for (const Truncated* sort : truncated_sorts) {
    if (stats.algorithm != sort->name) continue;
    select_truncated(problem, *sort, thread_pool);
    return stats;
  }
  fail(ErrorCode::invalid_argument,
       cat("algorithm \"", problem.algorithm,
           "\" runs on CUDA only; this selection is on the CPU: use device=cuda, or auto"));
}

}  // namespace vicinal::cpu
