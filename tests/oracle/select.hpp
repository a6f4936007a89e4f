// The obviously right selection: a full stable sort of every row by the total order of semantics C12.
#pragma once
#include <cstdint>
#include <vector>

#include "vicinal/select.hpp"

namespace oracle {

struct Selected {
  std::vector<std::int64_t> ids;  // rows x k
  std::vector<std::byte> values;  // bits as they were
};
/// `values` on the host, any strides and byte order.
Selected select_k(const vicinal::Values& values, std::int64_t k, bool largest);

}  // namespace oracle
