// Speed of the filter's tiles alone: multiply-adds a second for each table this machine runs, metric and dimension,
// beside the peak of registers of the same width measured in the same process. Both are the best of many rounds,
// since other work shares the cores. Two figures each: no pair a hit, and about one pair in 500 a hit.
// usage: bench_tile [TABLE [METRIC [DIMS...]]]
//        bench_tile --peak      the peak alone, in GFMA/s of one core (bench/run.py asks)
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "cpu/isa/kernels.hpp"

namespace {

using vicinal::cpu::Kernels;
using vicinal::cpu::panel_rows;
using vicinal::cpu::TileArgs;
using vicinal::cpu::TileFn;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Ten independent chains of fused multiply-adds and nothing else, in GFMA/s.
#define VICINAL_PEAK(NAME, VECTOR, TARGET)                                                                     \
  __attribute__((target(TARGET), noinline)) double NAME() {                                                    \
    constexpr long rounds = 300000;                                                                            \
    VECTOR x = {}, s0 = {}, s1 = {}, s2 = {}, s3 = {}, s4 = {}, s5 = {}, s6 = {}, s7 = {}, s8 = {}, s9 = {};   \
    const double start = now();                                                                                \
    for (long n = 0; n < rounds; ++n) {                                                                        \
      __asm__ volatile(                                                                                        \
          "vfmadd231ps %10, %10, %0\n\tvfmadd231ps %10, %10, %1\n\tvfmadd231ps %10, %10, %2\n\t"               \
          "vfmadd231ps %10, %10, %3\n\tvfmadd231ps %10, %10, %4\n\tvfmadd231ps %10, %10, %5\n\t"               \
          "vfmadd231ps %10, %10, %6\n\tvfmadd231ps %10, %10, %7\n\tvfmadd231ps %10, %10, %8\n\t"               \
          "vfmadd231ps %10, %10, %9"                                                                           \
          : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8), "+v"(s9) \
          : "v"(x));                                                                                           \
    }                                                                                                          \
    return 10.0 * (sizeof(VECTOR) / 4) * rounds / (now() - start) * 1e-9;                                      \
  }
VICINAL_PEAK(peak_avx512, __m512, "avx512f")
VICINAL_PEAK(peak_avx2, __m256, "avx2,fma")
#undef VICINAL_PEAK

struct Floats {
  explicit Floats(std::size_t n) : count(n), data(new (std::align_val_t{64}) float[n]()) {}
  ~Floats() { ::operator delete[](data, std::align_val_t{64}); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  std::size_t count;
  float* data;
};

struct Tile {
  Tile(const Kernels& table, std::int64_t d)
      : lanes(table.query_lanes), dims(d), query_panels(256 / lanes),
        queries(static_cast<std::size_t>(query_panels * lanes * d)),
        rows(static_cast<std::size_t>(tiles * vicinal::cpu::tile_rows * d)), term(vicinal::cpu::tile_rows),
        thr(static_cast<std::size_t>(query_panels * lanes)),
        partial(static_cast<std::size_t>(query_panels * lanes * panel_rows)) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < queries.count; ++i) queries.data[i] = normal(random);
    for (std::size_t i = 0; i < rows.count; ++i) rows.data[i] = normal(random);
  }
  static constexpr int tiles = 8;  // passed over in turn, so that rows come from beyond the caches they would stay in
  int lanes;
  std::int64_t dims;
  int query_panels;
  Floats queries, rows, term, thr, partial;
};

struct Sink {
  long hits = 0;
  std::vector<float> values;
};

void count_hit(void* context, int, int, std::uint32_t rows, const float* values) {
  Sink& sink = *static_cast<Sink*>(context);
  for (; rows != 0; rows &= rows - 1) {
    ++sink.hits;
    if (sink.values.size() < 4000) sink.values.push_back(values[__builtin_ctz(rows)]);
  }
}

double seconds(TileFn kernel, Tile& tile, float threshold, Sink& sink) {
  std::fill_n(tile.thr.data, tile.thr.count, threshold);
  const double work = static_cast<double>(tile.dims) * static_cast<double>(tile.thr.count) * Tile::tiles * 256;
  const int repeat = static_cast<int>(std::max(1.0, 4e7 / work));
  const double start = now();
  for (int i = 0; i < repeat * Tile::tiles; ++i) {
    kernel({.queries = tile.queries.data,
            .rows = tile.rows.data + (i % Tile::tiles) * vicinal::cpu::tile_rows * tile.dims,
            .row_term = tile.term.data,
            .thresholds = tile.thr.data,
            .dims = tile.dims,
            .query_panels = tile.query_panels,
            .row_panels = vicinal::cpu::tile_panels,
            .multiplier = 1.0f,
            .partial = tile.partial.data,
            .on_hit = count_hit,
            .context = &sink});
  }
  return (now() - start) / (work * repeat);
}

void measure(const Kernels& table, const char* metric, TileFn kernel, std::int64_t dims, double (*peak)()) {
  Tile tile(table, dims);
  // The 500th part of the values seen when everything is a hit.
  Sink all;
  seconds(kernel, tile, HUGE_VALF, all);
  std::sort(all.values.begin(), all.values.end());
  const float rare = all.values[all.values.size() / 500];
  double best_quiet = 1e9;
  double best_hits = 1e9;
  double best_peak = 0;
  const double end = now() + 1.0;
  for (int round = 0; round < 10 || now() < end; ++round) {
    Sink sink;
    best_quiet = std::min(best_quiet, seconds(kernel, tile, -HUGE_VALF, sink));
    best_hits = std::min(best_hits, seconds(kernel, tile, rare, sink));
    if (peak != nullptr) best_peak = std::max(best_peak, peak());
  }
  std::printf("%-7s %-5s d=%-5lld %7.2f GFMA/s", table.name, metric, static_cast<long long>(dims), 1e-9 / best_quiet);
  if (peak != nullptr) std::printf("  %5.1f %% of %.1f", 1e-7 / best_quiet / best_peak, best_peak);
  std::printf("   with hits %7.2f\n", 1e-9 / best_hits);
}

int print_peak() {
  double best = 0;
  const bool wide = vicinal::cpu::float_avx512.supported(), narrow = vicinal::cpu::float_avx2.supported();
  for (int i = 0; i < 20 && (wide || narrow); ++i) best = std::max(best, wide ? peak_avx512() : peak_avx2());
  std::printf("peak %.1f\n", best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--peak") == 0) return print_peak();
  std::vector<std::int64_t> dims = {8, 16, 32, 64, 128, 256, 784};
  if (argc > 3) dims.clear();
  for (int i = 3; i < argc; ++i) dims.push_back(std::atoll(argv[i]));
  using namespace vicinal::cpu;
  for (const Kernels* table : {&float_avx512, &float_avx2, &float_plain}) {
    if (argc > 1 && std::strcmp(argv[1], table->name) != 0) continue;
    if (!table->supported()) {
      std::printf("%-7s not run: this machine lacks it\n", table->name);
      continue;
    }
    double (*peak)() = nullptr;
    if (table == &float_avx512) peak = peak_avx512;
    if (table == &float_avx2) peak = peak_avx2;
    const std::pair<const char*, TileFn> metrics[] = {
        {"products", table->tile_products}, {"magnitudes", table->tile_magnitudes}, {"largest", table->tile_largest}};
    for (const auto& [metric, kernel] : metrics) {
      if (argc > 2 && std::strcmp(argv[2], metric) != 0) continue;
      for (const std::int64_t d : dims) measure(*table, metric, kernel, d, peak);
    }
  }
}
