// The kernels that count differing bits of packed rows, one file an instruction set (bits_plain.cpp is the slow,
// obvious reference). Counts are whole numbers, so all tables give the same.
#pragma once
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

/// One block of queries against one tile of rows of so many 32-bit words, filled up with zeros on both sides. A hit is
/// a row that differs from a query in at most thresholds[query] bits; values[j] of a HitFn is the count of row j of the
/// panel, for the rows that are reported. Layouts, 64-byte aligned: rows [row_panels][words][panel_rows]; queries in
/// groups of query_lanes, the last of as many as are left, [words][queries of the group].
struct BitTileArgs {
  const std::int32_t* queries;
  const std::int32_t* rows;
  const std::int32_t* thresholds;  // [query_count], changes while the kernel runs
  std::int64_t words;
  int query_count;
  int row_panels;
  HitFn<std::int32_t> on_hit;
  void* context;
};

struct BitKernels {
  const char* name;  // "plain", "avx2", "avx512", "avx512popcnt"
  bool (*supported)();
  int query_lanes;
  void (*tile)(const BitTileArgs&);

  consteval bool complete() const { return all_set(name, supported, tile); }
};

extern const BitKernels bits_plain, bits_avx2, bits_avx512, bits_avx512popcnt;

}  // namespace vicinal::cpu
