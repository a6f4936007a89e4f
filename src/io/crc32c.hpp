// CRC-32C (Castagnoli), the checksum of blocks in saved files: the processor's instruction where it has one, else a
// table. Both give the same numbers, which are those of RFC 3720.
#pragma once
#include "io/bytes.hpp"

namespace vicinal::io {

/// The checksum of what came before (0: nothing) and then `bytes`.
std::uint32_t crc32c(Bytes bytes, std::uint32_t before = 0) noexcept;
/// The same by the table: what machines without the instruction run, and what tests compare.
std::uint32_t crc32c_by_table(Bytes bytes, std::uint32_t before = 0) noexcept;

}  // namespace vicinal::io
