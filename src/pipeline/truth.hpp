// The pieces of ground truth, for tests that want them small, and for what goes on from it.
#pragma once
#include <span>
#include <vector>

#include "pipeline/resume.hpp"
#include "vicinal/truth.hpp"

namespace vicinal {

/// The lists without a look at whether each has all rows that may answer: those whose distances are beyond the type are
/// missing.
GroundTruth lists_in_pieces(std::span<const Points> base, const Points& queries, const TruthOptions& options,
                            const Grid& grid);
GroundTruth truth_in_pieces(std::span<const Points> base, const Points& queries, const TruthOptions& options,
                            const Grid& grid);
/// It sets verified, and throws Internal where ranking every row gives another list of a sampled query.
void verify_sample(GroundTruth& truth, std::span<const Points> base, const Points& queries,
                   const TruthOptions& options);
/// It returns the queries that are sampled: min(wanted, queries) of them, evenly spread.
std::vector<std::int64_t> sampled_queries(std::int64_t queries, std::int64_t wanted);
/// It returns progress of `here` pairs from `before` on, of `all`; null for null.
Progress part_of_progress(const Progress& progress, std::uint64_t before, std::uint64_t all);
/// The pieces of a search: as long as the clock says where they are saved, and one a run where they are not.
Grid truth_grid(const Shape& base, const Shape& queries, const TruthOptions& options);

}  // namespace vicinal
