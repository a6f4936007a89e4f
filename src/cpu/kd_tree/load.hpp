// Points of a tree are read as those of its queries are: in fp64, one behind the other.
#pragma once
#include <atomic>

#include "cpu/kd_tree/kd_tree.hpp"
#include "prepare/check.hpp"
#include "prepare/load.hpp"

namespace vicinal::cpu {

/// Puts row_at(i) of `points` for every i in [0, count) into `out`, [count][cols]. Throws InvalidValue, which names
/// rows of this side ("corpus" or "query"), where one is not finite.
template <class RowAt>
void load_finite(const Kernels& kernels, const SearchSpec& spec, const Points& points, const char* side,
                 std::int64_t count, const RowAt& row_at, ThreadPool& thread_pool, double* out) {
  constexpr std::int64_t loaded_at_once = 1024;
  const std::int64_t dims = points.cols;
  std::atomic<bool> unfit{false};
  thread_pool.for_runs(count, loaded_at_once, [&](std::int64_t begin, std::int64_t end) {
    double gathered[most_kd_tree_dims];
    for (std::int64_t i = begin; i < end; ++i) load_row(kernels, points, row_at(i), gathered, out + i * dims);
    if (kernels.first_bad(out + begin * dims, (end - begin) * dims) >= 0) unfit = true;
    thread_pool.poll(0);
  });
  if (unfit) report_unfit_rows(kernels, spec, points, side, thread_pool);
}

}  // namespace vicinal::cpu
