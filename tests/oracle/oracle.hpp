// The obviously right answer: every distance in the canonical fp64 order, every row sorted. Nothing here is fast and
// nothing is shared with the library but the names of metrics and types; f16 and bf16 are decoded by its own code.
// The bits of this file are the reference for every other path.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
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

/// Which rows may be in an answer: conditions that hold together, in the plainest form that each can have.
struct Eligible {
  std::int64_t first = 0, last = std::numeric_limits<std::int64_t>::max();  // of ids
  std::optional<std::set<std::int64_t>> ids;
  std::optional<std::vector<bool>> rows;  // by row, whatever its id
  vicinal::Eligible::Labels labels = vicinal::Eligible::Labels::ignored;
  std::vector<std::int64_t> corpus_labels, query_labels;
  bool admits(std::int64_t query, std::int64_t row, std::int64_t first_id) const;
};

struct SearchSpec {
  vicinal::Metric metric = vicinal::Metric::euclidean;
  std::int64_t k = 1;
  vicinal::DistanceType type = vicinal::DistanceType::automatic;
  bool pad = false;
  std::int64_t first_id = 0;
  vicinal::Degenerate degenerate = vicinal::Degenerate::error;
  Eligible eligible = {};
  bool without_self = false;  // row i is not in the list of query i
};

/// The returned values of all pairs, or the code of the error that the data deserve.
class Keys {
 public:
  Keys(const Rows& corpus, const Rows& queries, const SearchSpec& spec);
  ~Keys();
  std::optional<vicinal::ErrorCode> error;
  std::optional<vicinal::ErrorCode> other_error;  // as much deserved as `error`: the contract does not rank them
  vicinal::DistanceType type = vicinal::DistanceType::f32;
  double operator()(std::int64_t query, std::int64_t row) const;

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};
struct Entry {
  double key;
  std::int64_t id;
};
/// Rows that may be in the answer to `query`, in the total order.
std::vector<Entry> ranked(const Keys& keys, std::int64_t rows, std::int64_t query, const SearchSpec& spec);

/// Q x k ids and keys (widened to double, which is exact), or the code of the error that is due instead.
struct Answer {
  std::optional<vicinal::ErrorCode> error;
  std::optional<vicinal::ErrorCode> other_error;
  vicinal::DistanceType type = vicinal::DistanceType::f32;
  std::int64_t rows = 0, k = 0;
  std::vector<std::int64_t> counts;  // eligible rows of each query, at most k
  std::vector<std::int64_t> ids;
  std::vector<double> keys;
};

Answer knn(const Rows& corpus, const Rows& queries, const SearchSpec& spec);

/// One canonical value (before rounding to the output type); rows need not be prepared.
double canonical(vicinal::Metric metric, const double* q, const double* r, std::int64_t d);
/// The canonical sum of q_i * r_i.
double canonical_dot(const double* q, const double* r, std::int64_t d);

}  // namespace oracle
