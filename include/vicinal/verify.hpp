// Checks a result, of this library or of any tool, against the contract.
#pragma once
#include <cstdint>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// ids: rows x k as found by any tool. distances: as returned by it, or null.
struct Claim {
  std::int64_t rows = 0, k = 0;
  const std::int64_t* ids = nullptr;
  const void* distances = nullptr;
  DistanceType type = DistanceType::f32;  // of distances: f32, f64 or u32
};

struct VerifyOptions {
  KnnOptions search;  // metric, first_id, degenerate, memory, threads; k and pad come from the claim
  // Of distances. A claimed row is right where the contract's distance of each of its ids, all of them different and
  // eligible, is within this of the true distance at that rank, and each claimed distance within this of the contract's
  // of its id. So neighbours that another tool's rounding cannot tell apart pass in any order and choice. 0 compares
  // bits at the claimed type.
  double relative_tolerance = 0;
};

enum class Fault : std::uint8_t {
  wrong,      // another set of neighbours: an id outside the corpus, twice in a row, or farther than the true ones
  tie_order,  // the right distances, another choice or order among rows at equal distance; only at a tolerance of 0
  distance    // the right ids, or others at equal distance, with a distance that is not the contract's
};

struct Verdict {
  struct Row {
    std::int64_t row;
    Fault fault;
    std::int64_t rank;  // first rank that shows the fault
    double given;  // distance: as claimed. Else the contract's of the claimed id; NaN: not eligible, or listed before
    double expected;  // distance: the contract's of the claimed id. Else the true one at this rank
  };
  std::int64_t rows = 0, correct = 0, wrong = 0, tie_order = 0, distance = 0;
  std::int64_t near_ties = 0;  // of the correct: other ids than the true ones, at distances within the tolerance
  double recall = 1;           // share of claimed ids that are among the true k
  double largest_relative_difference = 0;  // of claimed distances where ids are right
  std::vector<Row> faults;                 // every faulty row, ascending
  Neighbors truth;
};

Verdict verify(const Points& corpus, const Points& queries, const Claim& claim, const VerifyOptions& options = {});

}  // namespace vicinal
