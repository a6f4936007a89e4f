// Ground truth of a base of any size: in several matrices, of several prefixes at once, kept up to date, and checked by
// a sample.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

struct TruthOptions {
  KnnOptions search = {.k = 100};
  /// Rows of the prefixes of the base that are asked for, ascending; rows beyond the last are not read. Empty: the
  /// whole base.
  std::vector<std::int64_t> tiers = {};
  /// Finished pieces are saved here, and a later call with the same rows and options goes on from them; made if it is
  /// not there. Rows that were searched before are read again then, to tell whether they are the same. Empty: nothing
  /// is saved.
  std::string directory = {};
  /// Queries, evenly spread, whose lists are compared at the end with those of ranking every row canonically. 0: none.
  std::int64_t verified_queries = 8;
  /// What messages call the matrices of the base; empty: "part 0 of the base".
  std::vector<std::string> names = {};
};

/// A Tier is the truth of the first `rows` rows of the base.
struct Tier {
  std::int64_t rows = 0;
  Neighbors nearest;  // queries x k
};

struct GroundTruth {
  std::vector<Tier> tiers;             // as asked for, or one of all rows
  std::vector<std::int64_t> verified;  // the queries whose lists were compared, all of them equal to the bit
  /// It counts the queries that were searched over all rows. An update has others besides, whose old lists it kept.
  Certificate certificate;
  Stats stats;
  std::int64_t kept = 0;  // queries of an update whose lists rest on the old ones, and are as exact as those were

  /// The lists of the largest tier.
  const Neighbors& nearest() const { return tiers.back().nearest; }
};

/// The k nearest rows of the base, whose matrices are numbered through in their order: to the bit what knn gives of all
/// of them in one matrix. Each part and piece is read once for up to 16,384 queries; memory beside the plan's is that
/// of the lists. The matrices have one type and width, and are in the host's memory.
/// Throws as knn does; InvalidArgument for tiers that do not ascend or exceed the base, and for a directory of another
/// search; IoError. Internal if a list of the sample differs.
GroundTruth ground_truth(std::span<const Points> base, const Points& queries, const TruthOptions& options = {});

/// What has changed since lists were found.
struct TruthUpdate {
  NeighborsView lists;  // queries x k or more, of `base` without what had been deleted then; read only
  std::span<const Points> base, inserted;  // ids of inserted rows follow those of the base
  std::span<const std::int64_t> deleted;   // ids, of base or inserted rows; what was deleted before is named again
};

/// The truth of base and inserted rows without those that are deleted. Lists that keep k entries take in what is found
/// among the inserted rows; where deletions leave fewer, all that remain are searched again. Exact where the lists
/// were. Throws as ground_truth does; InvalidArgument for ids that are not there, lists shorter than k or of another
/// distance type, tiers, and eligible rows.
GroundTruth update_ground_truth(const TruthUpdate& update, const Points& queries, const TruthOptions& options = {});

/// The first k of each list: to the bit what a search for k gives. Throws InvalidArgument for k below 1 or above
/// lists.k().
Neighbors first_neighbors(const Neighbors& lists, std::int64_t k);

}  // namespace vicinal
