// The obviously right answer: every distance in the canonical fp64 order, every row sorted. Nothing here is fast and
// nothing is shared with the library but the names of metrics and types; f16 and bf16 are decoded by its own code.
// The bits of this file are the reference for every other path.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "vicinal/error.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/options.hpp"

namespace oracle {

/// The real values of a table, row-major, and the type they were stored in.
struct Rows {
  vicinal::DType dtype = vicinal::DType::f32;
  std::int64_t n = 0, d = 0;
  std::vector<double> value;
  const double* row(std::int64_t i) const { return value.data() + i * d; }
};

/// One stored element as a real number.
double decode(vicinal::DType type, const void* element);
/// Dense row-major elements in this machine's byte order.
Rows decode_rows(vicinal::DType type, const void* data, std::int64_t n, std::int64_t d);

struct Question {
  vicinal::Metric metric = vicinal::Metric::euclidean;
  std::int64_t k = 1;
  vicinal::DistanceType type = vicinal::DistanceType::automatic;
  bool pad = false;
  std::int64_t first_id = 0;
  vicinal::Degenerate degenerate = vicinal::Degenerate::error;
};

/// Q x k ids and keys (widened to double, which is exact), or the code of the error that is due instead.
struct Answer {
  std::optional<vicinal::ErrorCode> error;
  std::optional<vicinal::ErrorCode> other_error;  // as much deserved as `error`: the contract does not rank them
  vicinal::DistanceType type = vicinal::DistanceType::f32;
  std::int64_t rows = 0, k = 0, count = 0;  // count: eligible rows of each query, at most k
  std::vector<std::int64_t> ids;
  std::vector<double> keys;
};

Answer knn(const Rows& corpus, const Rows& queries, const Question& question);

/// One canonical value (before rounding to the output type); rows need not be prepared.
double canonical(vicinal::Metric metric, const double* q, const double* r, std::int64_t d);
/// The canonical sum of q_i * r_i.
double canonical_dot(const double* q, const double* r, std::int64_t d);

}  // namespace oracle
