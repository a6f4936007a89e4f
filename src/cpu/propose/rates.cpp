// See rates.hpp.
#include "cpu/propose/rates.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/buffer.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t elements = 128;  // of a row: 16 KiB of rows and twice 8 KiB of queries
constexpr int query_panels = 2;         // as many as some tiles take at once
constexpr double product_seconds = 4e-3;
constexpr std::int64_t memory = std::int64_t{96} << 20;  // beyond the caches of most
constexpr int rounds = 3;                                // the best of them

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// thr: with rows of zeros nothing is a hit. width: of a query. columns: in an element.
template <class T, class Kernel>
double products(Kernel kernel, int lanes, std::int64_t width, int columns, T thr, ThreadPool& thread_pool) {
  std::atomic<double> total{0};
  thread_pool.for_each(thread_pool.threads(), [&](std::int64_t, int) {
    Buffer<T> rows(elements * panel_rows), queries(query_panels * lanes * width), terms(panel_rows),
        limits(query_panels * lanes), partial(query_panels * lanes * panel_rows);
    for (Buffer<T>* all : {&rows, &queries, &terms, &partial}) std::fill_n(all->data(), all->size(), T{0});
    std::fill_n(limits.data(), limits.size(), thr);
    const TileArgsOf<T> args{.queries = queries.data(),
                             .rows = rows.data(),
                             .row_term = terms.data(),
                             .thresholds = limits.data(),
                             .dims = elements,
                             .query_panels = query_panels,
                             .row_panels = 1,
                             .multiplier = 1,
                             .partial = partial.data(),
                             .on_hit = nullptr,
                             .context = nullptr};
    double best = 0;
    for (int round = 0; round < rounds; ++round) {
      const auto start = Clock::now();
      std::int64_t calls = 0;
      double seconds = 0;
      do {
        for (int i = 0; i < 16; ++i, ++calls) kernel(args);
        seconds = seconds_since(start);
      } while (seconds < product_seconds);
      best =
          std::max(best, static_cast<double>(calls * elements * columns * panel_rows * query_panels * lanes) / seconds);
    }
    total += best;
  });
  return total;
}

}  // namespace

double peak_products(const Int8Kernels& kernels, ThreadPool& thread_pool) {
  return products<std::int32_t>(kernels.tile, kernels.query_lanes, query_width(kernels.layout, elements), 4, 1,
                                thread_pool);
}

double peak_products(const Kernels& kernels, ThreadPool& thread_pool) {
  return products<float>(kernels.tile_products, kernels.query_lanes, elements, 1, -1.0F, thread_pool);
}

double peak_bytes(ThreadPool& thread_pool) {
  Buffer<std::uint64_t> data(memory / 8);
  const std::int64_t part = data.size() / thread_pool.threads();
  const auto each = [&](const auto& body) {
    const auto start = Clock::now();
    thread_pool.for_each(thread_pool.threads(), [&](std::int64_t i, int) { body(data.data() + i * part); });
    return static_cast<double>(part * thread_pool.threads() * 8) / seconds_since(start);
  };
  each([&](std::uint64_t* from) { std::fill_n(from, part, 1u); });
  double best = 0;
  std::atomic<std::uint64_t> sum{0};  // that the reading cannot be left out
  for (int round = 0; round < rounds; ++round)
    best = std::max(best, each([&](const std::uint64_t* from) {
                      std::uint64_t part_sum = 0;
                      for (std::int64_t i = 0; i < part; ++i) part_sum += from[i];
                      sum += part_sum;
                    }));
  return sum > 0 ? best : 0;
}

}  // namespace vicinal::cpu
