// Answers whose rows differ in length, as plainly as oracle.hpp: all pairs, one comparison with the radius, full sorts,
// and a graph made symmetric by looking every edge up in both lists.
#pragma once
#include <string>

#include "oracle/oracle.hpp"

namespace oracle {

/// Entries offsets[i] to offsets[i + 1] belong to row i; or the code of the error that is due instead.
struct Lists {
  std::optional<vicinal::ErrorCode> error, other_error;
  vicinal::DistanceType type = vicinal::DistanceType::f32;
  std::int64_t rows = 0;
  std::vector<std::int64_t> offsets = {0}, ids;
  std::vector<double> keys;
  void append(const Entry& entry) {
    ids.push_back(entry.id);
    keys.push_back(entry.key);
  }
  void end_row() { offsets.push_back(static_cast<std::int64_t>(ids.size())), ++rows; }
};

/// Every eligible row whose returned value is at most `radius` (inner product: at least), by (value, id).
Lists range(const Rows& corpus, const Rows& queries, double radius, const SearchSpec& spec);
/// The k nearest rows of each row without itself, or with.
Answer graph(const Rows& rows, SearchSpec spec, bool include_self);
/// The lists of a graph without what is missing.
Lists listed(const Answer& graph);
/// Edges that one of their two ends lists, or both do; rows by id.
Lists symmetrized(const Answer& graph, bool both);

}  // namespace oracle
