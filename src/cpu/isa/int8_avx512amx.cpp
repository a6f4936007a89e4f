// Tiles of int8 with AMX: a product of 14 queries by 16 rows by 64 columns in one instruction, two panels of queries by
// 32 rows at a time. What is left to vectors is the test of the sums, one comparison for the larger of two. Internal
// linkage throughout, for the reason given in float_avx512.cpp.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/callback_epoch.hpp"
#include "cpu/isa/intrinsics_512.hpp"
#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

#include "cpu/isa/simd_512vnni.inc"

// Registers of AMX: 0 and 1 the sums of a panel of queries and 32 rows, 2 and 3 those of the next panel; 4 and 5
// queries, 6 and 7 rows. Spelt out, because the intrinsics do not tell the compiler that they read memory.
struct alignas(64) Shapes {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
constexpr Shapes shapes = {
    .palette = 1,
    .start_row = 0,
    .reserved = {},
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {query_lanes, query_lanes, query_lanes, query_lanes, query_lanes, query_lanes, block_quads, block_quads}};
static_assert(sizeof(Shapes) == 64);

/// The registers have their shapes while it lives. A callback may throw; the thread must not keep the state, which
/// would be saved at every switch.
struct Registers {
  Registers() : count_(callback_epoch()) { shape(); }
  ~Registers() {
    __asm__ volatile("tilerelease");
    ++count_;
  }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
  /// What a callback called may have searched, or multiplied by AMX otherwise, and left them without shapes or with
  /// others. Giving shapes after every one took 15 % of a search.
  VICINAL_INLINE void after_callback() {
    if (seen_ != count_) [[unlikely]]
      shape();
  }

 private:
  void shape() {
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
    seen_ = count_;
  }
  std::uint64_t& count_;  // of this thread
  std::uint64_t seen_ = 0;
};

template <int which>
VICINAL_INLINE void tile_load(const std::int32_t* from, std::int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride * 4), "i"(which) : "memory");
}
template <int which>
VICINAL_INLINE void tile_store(std::int32_t* to) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(to), "r"(std::int64_t{panel_rows} * 4), "i"(which)
                   : "memory");
}
template <int which>
VICINAL_INLINE void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(which));
}
template <int sum, int queries, int rows>
VICINAL_INLINE void tile_step() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(queries), "i"(rows));
}

constexpr std::int64_t rows_step = block_quads * panel_rows, queries_step = block_quads * query_lanes;
// Steps of 64 columns whose rows, and a pair of panels of queries, stay in the first-level cache. Measured on Granite
// Rapids (48 KiB, 2 MiB), 2026-11: 8 of {5, 7, 8, 16}.
constexpr std::int64_t steps_at_once = 8;

/// What all pairs of panels of a panel of rows share.
struct Panel {
  const Int8TileArgs& a;
  Registers& registers;
  int number;
  const std::int32_t* rows;
  const std::int32_t* tail;          // the last columns, filled up with zeros to a step; null where there are none
  std::int64_t steps, lines_a_step;  // of the next panel's rows, brought closer at each step
};

template <int panels, bool two_sided>
VICINAL_INLINE void start(const Panel& p, const std::int32_t* parked, std::int64_t begin) {
  if (begin != 0) {
    tile_load<0>(parked, panel_rows);
    tile_load<1>(parked + tile_lanes, panel_rows);
    if constexpr (panels == 2) {
      tile_load<2>(parked + query_lanes * panel_rows, panel_rows);
      tile_load<3>(parked + query_lanes * panel_rows + tile_lanes, panel_rows);
    }
  } else if constexpr (two_sided) {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  } else {
    // A stride of nothing: each query's sums start from the terms of the rows.
    const std::int32_t* terms = p.a.row_term + p.number * panel_rows;
    tile_load<0>(terms, 0);
    tile_load<1>(terms + tile_lanes, 0);
    tile_load<2>(terms, 0);
    tile_load<3>(terms + tile_lanes, 0);
  }
}

template <int panels>
VICINAL_INLINE void multiply(const std::int32_t* queries, const std::int32_t* next_queries, const std::int32_t* rows) {
  tile_load<6>(rows, panel_rows);
  tile_load<4>(queries, block_quads);
  tile_step<0, 4, 6>();
  tile_load<7>(rows + tile_lanes, panel_rows);
  tile_step<1, 4, 7>();
  if constexpr (panels == 2) {
    tile_load<5>(next_queries, block_quads);
    tile_step<2, 5, 6>();
    tile_step<3, 5, 7>();
  }
}

template <bool two_sided>
VICINAL_INLINE void test(const Panel& p, int query_panel, std::int32_t (*t)[panel_rows]) {
  if constexpr (two_sided) {
    Microtile<Quads> m;
    VICINAL_UNROLL
    for (int i = 0; i < query_lanes; ++i) {
      m.sum[i][0] = load(t[i]);
      m.sum[i][1] = load(t[i] + tile_lanes);
    }
    if (finish_both<Quads>(p.a, m, query_panel, p.number, 0, t)) p.registers.after_callback();
  } else if (p.a.distances != nullptr) {
    store(p.a.distances + p.number * panel_rows, load(t[0]));
    store(p.a.distances + p.number * panel_rows + tile_lanes, load(t[0] + tile_lanes));
  } else {
    const std::int32_t* thresholds = p.a.thresholds + query_panel * query_lanes;
    Excluded chain[test_chains];
    VICINAL_UNROLL
    for (int i = 0; i < query_lanes; ++i) {
      const Vi most = _mm512_max_epi32(load(t[i]), load(t[i] + tile_lanes));
      Excluded& link = chain[i % test_chains];
      link = i < test_chains ? excluded(most, broadcast(thresholds + i)) : still(link, most, broadcast(thresholds + i));
    }
    VICINAL_UNROLL
    for (int c = 1; c < test_chains; ++c) chain[0] = both(chain[0], chain[c]);
    if (!all(chain[0])) [[unlikely]] {
      report<std::int32_t, query_lanes>(p.a, query_panel, p.number, 0, t);
      p.registers.after_callback();
    }
  }
}

/// Panels of queries from `first` on, columns of steps [begin, end).
template <int panels, bool two_sided>
VICINAL_INLINE void multiply_panels(const Panel& p, int first, std::int64_t begin, std::int64_t end,
                                    std::int32_t (*t)[query_lanes][panel_rows], const std::int32_t*& next_rows) {
  std::int32_t* parked = p.a.partial + first * query_lanes * panel_rows;
  const std::int64_t size = p.steps * queries_step;
  const std::int32_t* q = p.a.queries + first * size;
  start<panels, two_sided>(p, parked, begin);
  for (std::int64_t step = begin; step < end; ++step) {
    for (std::int64_t i = 0; i < p.lines_a_step; ++i, next_rows += 16) prefetch_far(next_rows);
    const bool last = p.tail != nullptr && step + 1 == p.steps;
    multiply<panels>(q + step * queries_step, q + size + step * queries_step,
                     last ? p.tail : p.rows + step * rows_step);
  }
  std::int32_t* to = end == p.steps ? t[0][0] : parked;
  tile_store<0>(to);
  tile_store<1>(to + tile_lanes);
  if constexpr (panels == 2) {
    tile_store<2>(to + query_lanes * panel_rows);
    tile_store<3>(to + query_lanes * panel_rows + tile_lanes);
  }
  if (end != p.steps) return;
  test<two_sided>(p, first, t[0]);
  if constexpr (panels == 2) test<two_sided>(p, first + 1, t[1]);
}

template <bool two_sided>
void tile_of(const Int8TileArgs& a) {
  Registers registers;
  alignas(64) std::int32_t t[2][query_lanes][panel_rows];
  alignas(64) std::int32_t tail[rows_step] = {};
  const std::int64_t steps = (a.dims + block_quads - 1) / block_quads, left = a.dims % block_quads;
  const std::int64_t cuts = (steps + steps_at_once - 1) / steps_at_once;
  const std::int64_t visits = (a.query_panels + 1) / 2 * steps;
  for (int number = 0; number < a.row_panels; ++number) {
    const std::int32_t* rows = a.rows + number * a.dims * panel_rows;
    if (left != 0)
      __builtin_memcpy(tail, rows + (a.dims - left) * panel_rows,
                       static_cast<std::size_t>(left) * panel_rows * sizeof(*tail));
    const Panel p = {a, registers, number, rows, left != 0 ? tail : nullptr, steps, a.dims * 2 / visits + 1};
    const std::int32_t* next_rows = rows + a.dims * panel_rows;
    for (std::int64_t cut = 0; cut < cuts; ++cut) {
      const std::int64_t begin = steps * cut / cuts, end = steps * (cut + 1) / cuts;
      int panel = 0;
      for (; panel + 2 <= a.query_panels; panel += 2) multiply_panels<2, two_sided>(p, panel, begin, end, t, next_rows);
      if (panel < a.query_panels) multiply_panels<1, two_sided>(p, panel, begin, end, t, next_rows);
    }
  }
}

void tile_amx(const Int8TileArgs& a) { a.column_thresholds == nullptr ? tile_of<false>(a) : tile_of<true>(a); }

/// The system keeps the registers of a process only if it asked once.
bool permitted() {
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM of Linux, and the state's number
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amx_tile = 1u << 24, amx_int8 = 1u << 25;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & amx_tile) != 0 && (d & amx_int8) != 0;
}

bool supported() { return int8_avx512vnni.supported() && has_tiles() && permitted(); }

#include "cpu/isa/generic/table_int8.inc"

}  // namespace

constexpr Int8Kernels int8_avx512amx = [] {
  Int8Kernels table = table_of_int8("avx512amx", QueryLayout::quads);
  table.layout = QueryLayout::blocks;  // but of a matching
  table.tile = tile_amx;
  table.of_few = &int8_avx512vnni;
  return table;
}();
static_assert(int8_avx512amx.complete());

}  // namespace vicinal::cpu
