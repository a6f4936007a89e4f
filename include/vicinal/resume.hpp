// A search that survives being killed: finished pieces wait in a directory, and the same call goes on from them.
#pragma once
#include <string>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// knn, to the bit, in pieces of a few seconds each: a block of queries against a part of the corpus. After each piece the
/// block's list so far is saved in `directory`, which is made if it is not there. A later call with the same rows and
/// options reads what is there and does the rest; threads, memory and device may differ. Rows are read once more to tell
/// whether they are the same. Throws as knn does, IoError, and InvalidArgument if the directory holds another search's
/// pieces. Damaged pieces are done again.
Neighbors knn_resumable(const Points& corpus, const Points& queries, const KnnOptions& options, const std::string& directory);

/// Removes the pieces, and the directory if nothing else is in it.
void discard_pieces(const std::string& directory);

}  // namespace vicinal
