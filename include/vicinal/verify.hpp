// Checks anybody's result against the contract.
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
  KnnOptions search;             // metric, first_id, degenerate, memory, threads; k and pad come from the claim
  double relative_tolerance = 0; // of claimed distances; 0 compares bits at the claimed type
};

enum class Fault : std::uint8_t {
  wrong,      // another set of neighbours: an id outside the corpus, twice in a row, or farther than the true ones
  tie_order,  // the right distances, another choice or order among rows at equal distance
  distance    // the right ids, or others at equal distance, with a distance that is not the contract's
};

struct Verdict {
  struct Row {
    std::int64_t row;
    Fault fault;
    std::int64_t rank;      // first rank that differs
  };
  std::int64_t rows = 0, correct = 0, wrong = 0, tie_order = 0, distance = 0;
  double recall = 1;                        // share of claimed ids that are among the true k
  double largest_relative_difference = 0;   // of claimed distances where ids are right
  std::vector<Row> faults;                  // every faulty row, ascending
  Neighbors truth;
};

Verdict verify(const Points& corpus, const Points& queries, const Claim& claim, const VerifyOptions& options = {});

}  // namespace vicinal
