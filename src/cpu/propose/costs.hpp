// The host's cost model: cycles of one core of the build machine (Cascade Lake, AVX-512; bench/bench_tile.cpp and
// bench/run.py, 2026-11-21). They choose precisions and predict time; no answer depends on them. d: columns.
#pragma once

namespace vicinal::cpu::costs {

inline constexpr double clock_hz = 2.5e9;

/// A pair of rows takes so many cycles, in each kind of tile and in the canonical kernel. int8_gain: of an instruction
/// set, against floats.
constexpr double int8_pair(double d, double int8_gain = 3) { return 0.4 + 0.0375 * d / int8_gain; }
constexpr double bit_pair(double d) { return 0.1 + 0.012 * d; }
constexpr double float_pair(double d) { return 0.7 + 0.045 * d; }
constexpr double canonical_pair(double d) { return 16 + 0.6 * d; }
/// A byte of packed rows takes so many to come from memory, which gives a core 10 GB a second.
inline constexpr double read_byte = 0.25;
/// The caches of cores hold rows of so many bytes, an element each, from one search to the next.
inline constexpr double held_bytes = 0x1p22;
/// A row that a filter leaves takes so many to be ranked by itself.
constexpr double reranked_row(double d) { return 2 * canonical_pair(d); }
/// A row takes so many each time that rows are read to prepare them: once
/// for floats, twice for int8, three times where they have a second code.
constexpr double reading(double d) { return 80 + 2.5 * d; }
/// A row takes so many to be projected; finding the directions takes so many, of some thousand rows. A kept corpus is
/// taken to serve so many queries, which earn what it costs to project its rows.
constexpr double projecting(double d, double columns) { return d * columns / 3.5; }
inline constexpr double kept_queries = 1e4;
constexpr double directions(double d) { return 5e5 * d; }
/// A row of packed bits takes so many to be packed beside others, which one call does for itself.
constexpr double packed_bits(double d) { return 3 + 0.1 * d; }
/// A filter that leaves a row in so many is given up, and every pair is ranked.
inline constexpr double least_excluded = 16;

}  // namespace vicinal::cpu::costs
