// Tells the system which rows come next, so that it reads them from disk while others are searched. A hint: for memory
// that no file stands behind it does nothing.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "vicinal/matrix.hpp"

namespace vicinal {

inline void read_ahead(const Points& rows) noexcept {
  constexpr std::int64_t most = std::int64_t{64} << 20;  // what a disk brings while a chunk is searched
  if (rows.rows == 0 || rows.row_stride <= 0) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(rows.data) / page * page;
  const auto bytes = static_cast<std::size_t>(std::min(rows.rows * rows.row_stride, most));
  (void)::madvise(reinterpret_cast<void*>(begin), bytes,
                  MADV_WILLNEED);  // NOLINT(performance-no-int-to-ptr): a page's address
}

}  // namespace vicinal
