// The pieces of a resumable search, for tests that want them small and a clock of their own.
#pragma once
#include <string>

#include "pipeline/pieces.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/resume.hpp"

namespace vicinal {

struct Grid {
  std::int64_t block;                              // queries; the same in every run
  std::int64_t first_part;                         // rows of the first piece of a run
  std::int64_t most_part = std::int64_t{1} << 40;  // rows
  Pace::Clock clock = nullptr;                     // null: the system's
  double saved_every = 0;                          // seconds: ground truth saves no piece sooner after another
  /// The grid depends on the shapes and k alone.
  static Grid of(const Shape& corpus, const Shape& queries, std::int64_t k);
};

Neighbors knn_in_pieces(const Points& corpus, const Points& queries, const KnnOptions& options,
                        const std::string& directory, const Grid& grid);
Neighbors graph_in_pieces(const Points& rows, const GraphOptions& options, const std::string& directory,
                          const Grid& grid);
CsrNeighbors range_in_pieces(const Points& corpus, const Points& queries, double radius, const RangeOptions& options,
                             const std::string& directory, const Grid& grid);

}  // namespace vicinal
