// Objects that are known by number alone, under a distance that the user defines.
#pragma once
#include <memory>

#include "backend/objects.hpp"
#include "vicinal/permutation_index.hpp"

namespace vicinal {

/// between: from one object to others. Not safe to call from several threads, so searches take one.
std::unique_ptr<Objects> open_user_defined(std::int64_t count, OwnDistance between);
/// Queries 0 to count - 1; the distance must outlive them.
std::unique_ptr<Queries> user_defined_queries(std::int64_t count, const OwnDistance& distance);

}  // namespace vicinal
