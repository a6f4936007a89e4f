// Searches that survive being killed: finished pieces wait in a directory, and the same call goes on from them.
#pragma once
#include <string>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// knn, to the bit, in pieces of a few seconds each: a block of queries against as many rows of the corpus as that time
/// is enough for. After each piece the block's list so far is saved in `directory`, which is made if it is not there. A
/// later call with the same rows and options reads what is there and does the rest; threads, memory and device may
/// differ. Rows are read once more to tell whether they are the same. Throws as knn does, IoError, and InvalidArgument
/// if the directory holds another search's pieces, or a search is running with it. Damaged pieces are done again.
Neighbors knn_resumable(const Points& corpus, const Points& queries, const KnnOptions& options,
                        const std::string& directory);
/// The same of knn_graph; a tile of distances does not serve both of its sides then, which takes up to twice the time.
Neighbors knn_graph_resumable(const Points& rows, const GraphOptions& options, const std::string& directory);
/// The same of range_search, whose matches wait in the directory until all are there.
CsrNeighbors range_search_resumable(const Points& corpus, const Points& queries, double radius,
                                    const RangeOptions& options, const std::string& directory);

/// Pairs of a query and a row whose work is saved in a directory, of all that the search has; both 0 where there are no
/// pieces.
struct SavedPieces {
  std::int64_t pairs = 0, all_pairs = 0;
};
SavedPieces saved_pieces(const std::string& directory);

/// Removes the pieces, and the directory if nothing else is in it; nothing while a search is running with it.
void discard_pieces(const std::string& directory);

}  // namespace vicinal
