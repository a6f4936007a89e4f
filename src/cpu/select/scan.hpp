// The inner loop of threshold.cpp, one table an instruction set: which values of a row are not behind a threshold?
#pragma once
#include <cstdint>

#include "cpu/isa/complete.hpp"
#include "vicinal/select.hpp"

namespace vicinal::cpu {

/// A kernel looks at values in blocks of this many bytes; what is left over at the end of a row it does one by one.
inline constexpr std::int64_t scan_block_bytes = 256;
inline constexpr std::int64_t scan_block = 256;  // most values of a block

/// Hits are the values whose ordered key (select/ordered.hpp) is at
/// most `threshold`, never a NaN: their bits and positions, in order.
struct ScanArgs {
  const void* values;       // adjacent and aligned to their size
  std::int64_t count;       // below 2^32
  std::uint64_t threshold;  // the key of a value that is no NaN, or the key between -0 and the largest below it
  bool largest;
  void* bits;  // `capacity` entries as wide as a value
  std::uint32_t* positions;
  std::int64_t capacity;  // the kernel stops before a block that might not fit, so at least scan_block
};
struct Scanned {
  std::int64_t values;  // looked at
  std::int64_t hits;
};
using ScanFn = Scanned (*)(const ScanArgs&);

struct Scans {
  const char* name;
  ScanFn scan[12];  // in the order of ValueType

  consteval bool complete() const { return all_set(name, scan); }
};

}  // namespace vicinal::cpu
