// Which objects the others are seen from.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/objects.hpp"
#include "vicinal/permutation_index.hpp"

namespace vicinal {

inline constexpr std::int64_t most_permutants = 1024, usual_permutants = 64;

/// How many are asked for, of so many objects; not judged yet.
std::int64_t wanted_permutants(const PermutationOptions& options, std::int64_t objects) noexcept;

/// Ids in the order of their numbers. Throws InvalidArgument.
std::vector<std::int64_t> choose_permutants(const Objects& objects, const PermutationOptions& options,
                                            ThreadPool& thread_pool);

/// `wanted` different ids below `count`, in random order: the i-th is picked among those that are left (Fisher and
/// Yates).
std::vector<std::int64_t> random_ids(std::int64_t wanted, std::int64_t count, std::uint64_t seed, bool sample);

/// Distances that the index measures of an object are finite. Throws RangeError.
void check_measured(std::int64_t object, std::span<const double> distances, Metric metric);
/// Why a distance can be infinite, and what to do.
std::string infinite_because(Metric metric);

}  // namespace vicinal
