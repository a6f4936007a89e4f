// The pieces of a resumable search, for tests that want them small.
#pragma once
#include <string>

#include "vicinal/plan.hpp"
#include "vicinal/resume.hpp"

namespace vicinal {

struct Grid {
  std::int64_t block, part;  // queries; rows, a multiple of 64 so that words of bitmaps are not cut
  /// From the shapes alone.
  static Grid of(const Shape& corpus, const Shape& queries);
};

Neighbors knn_in_pieces(const Points& corpus, const Points& queries, const KnnOptions& options, const std::string& directory,
                        const Grid& grid);

}  // namespace vicinal
