// The running k-lists of a block of queries: grown piece by piece, saved, and read back. Shared by what walks a corpus
// for lists (resume.cpp, truth.cpp).
#pragma once
#include <cstdint>

#include "core/row_filter.hpp"
#include "pipeline/walk.hpp"
#include "vicinal/neighbors.hpp"

namespace vicinal {

/// Lists are the k nearest of rows [0, rows_done) for each query of a block.
struct Lists {
  Neighbors list;
  std::int64_t rows_done = 0, redone = 0;
};

/// What a file of lists is of: those of the walk so far, or (tier > 0) of the rows before a cut.
struct ListFile {
  std::string path;
  std::int64_t tier = 0;           // rows
  io::Digest128 rows_digest = {};  // of rows [0, rows_done), where the key of the walk is not of their values

  static ListFile of(const Walk& walk, std::int64_t tier = 0) {
    return {walk.folder->path(walk.head.block, -1, tier), tier};
  }
};

/// It reads the lists of the walk's block, none where there are none or damaged ones; file.rows_digest is then what was
/// saved with them. Throws InvalidArgument for those of another search.
Lists load_lists(const Walk& walk, std::int64_t k, DistanceType type, std::int64_t corpus_rows, ListFile& file);
/// Throws IoError.
void save_lists(const Walk& walk, const Lists& lists, const ListFile& file);

/// It searches the next piece of the corpus and takes what it finds into the lists.
void extend_lists(Walk& walk, const KnnOptions& options, Lists& lists);

/// Entries [from, from + count) of a list to place `at` of the result.
void copy_entries(const Neighbors& list, std::int64_t from, std::int64_t count, const NeighborsView& out,
                  std::int64_t at);
/// It copies lists of rows [first, first + wide.rows()) of a graph to their rows of `out`: k of the k + 1 entries of
/// each, the row itself left out, or the last where it is not there. Lists of k entries are copied as they are.
void copy_without_self(const Neighbors& wide, std::int64_t first, std::int64_t k, const NeighborsView& out,
                       int threads);
/// It fills out.counts, if there are any. Throws RangeError, as a search of the whole does, for a list that lacks rows
/// which may answer: they are beyond its type.
void complete_lists(const NeighborsView& out, const RowFilter& filter, std::int64_t corpus_rows, Metric metric,
                    int threads);

}  // namespace vicinal
