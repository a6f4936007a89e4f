// What the C++ standard library offers for a selection, and how fast the cores read: called from Python (selections.py), so
// that all engines run in one process on the same rows.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace {

template <class Row>
void for_rows(std::int64_t rows, int threads, const Row& row) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> thread_pool;
  for (int t = 0; t < threads; ++t)
    thread_pool.emplace_back([&] {
      for (std::int64_t i = next++; i < rows; i = next++) row(i);
    });
  for (std::thread& one : thread_pool) one.join();
}

template <class Select>
void select_pairs(const float* values, std::int64_t rows, std::int64_t n, std::int64_t k, int threads, float* out,
                  std::int64_t* ids, const Select& select) {
  for_rows(rows, threads, [&](std::int64_t row) {
    thread_local std::vector<std::pair<float, std::int64_t>> pairs;
    pairs.resize(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) pairs[static_cast<std::size_t>(i)] = {values[row * n + i], i};
    select(pairs);
    for (std::int64_t i = 0; i < k; ++i) {
      out[row * k + i] = pairs[static_cast<std::size_t>(i)].first;
      ids[row * k + i] = pairs[static_cast<std::size_t>(i)].second;
    }
  });
}

}  // namespace

extern "C" {

/// The papers' baseline: std::nth_element on (value, id), then the k sorted.
void nth_element_pairs(const float* values, std::int64_t rows, std::int64_t n, std::int64_t k, int threads, float* out,
                       std::int64_t* ids) {
  select_pairs(values, rows, n, k, threads, out, ids, [k](auto& pairs) {
    std::nth_element(pairs.begin(), pairs.begin() + (k - 1), pairs.end());
    std::sort(pairs.begin(), pairs.begin() + k);
  });
}

void partial_sort_pairs(const float* values, std::int64_t rows, std::int64_t n, std::int64_t k, int threads, float* out,
                        std::int64_t* ids) {
  select_pairs(values, rows, n, k, threads, out, ids,
               [k](auto& pairs) { std::partial_sort(pairs.begin(), pairs.begin() + k, pairs.end()); });
}

/// Reads everything once, adding it up: the time that no selection can beat on these cores.
void read_all(const float* values, std::int64_t rows, std::int64_t n, std::int64_t /*k*/, int threads, float* out,
              std::int64_t* /*ids*/) {
  for_rows(rows, threads, [&](std::int64_t row) {
    const auto* words = reinterpret_cast<const std::int32_t*>(values + row * n);
    std::int32_t sum[64] = {};
    for (std::int64_t i = 0; i + 64 <= n; i += 64)
      for (int j = 0; j < 64; ++j) sum[j] ^= words[i + j];
    std::int32_t all = 0;
    for (const std::int32_t one : sum) all ^= one;
    out[row] = static_cast<float>(all);
  });
}
}
