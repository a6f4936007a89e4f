// Files of a search that goes on after a kill: each holds a finished piece of work under a digest.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "io/bytes.hpp"
#include "io/hash128.hpp"
#include "pipeline/row_parts.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// What a piece is of: queries of a block against rows [first_row, end_row) of the corpus.
struct PieceHead {
  char magic[8] = {'V', 'C', 'N', 'P', 'I', 'E', 'C', '4'};
  io::Digest128 key;
  std::int64_t block = 0, queries = 0, first_row = 0, end_row = 0;
  std::int64_t width = 0;  // entries a query; of a range search, entries of the piece
  std::int64_t type = 0, redone = 0;
  std::int64_t all_pairs = 0;      // of the whole search
  std::int64_t tier = 0;           // rows before a cut whose lists these are; 0: those of the walk so far
  io::Digest128 rows_digest = {};  // of the values of rows [0, end_row), where the key is not of all values
  char search[128] = {};  // what the search is, in words, for an error where its directory is named for another one
};

/// What the answer of a search and the cut of its queries depend on. `words`: what the values of the rows and the
/// options do not say.
io::Digest128 piece_key(const Points& corpus, const Points& queries, const KnnOptions& options,
                        std::span<const std::int64_t> words, ThreadPool& thread_pool);

/// RowDigests tell the digest of the values of rows [0, n) as a walk comes by, whatever its pieces are: of groups of
/// Pace::multiple rows, which begin anew at each run.
class RowDigests {
 public:
  /// Forgets how far a walk has come: the next one begins at the first row.
  void restart();
  /// rows: not less than in the call before.
  io::Digest128 of(const RowParts& corpus, std::int64_t rows, ThreadPool& thread_pool);

 private:
  io::Hash128 chain_;
  std::int64_t done_ = 0;                                            // rows that the chain has
  std::vector<std::pair<std::int64_t, io::Digest128>> run_digests_;  // at ends of runs, ascending
};

/// A PieceFolder is the directory of one search while that runs: no other process, and no other search, works in it.
class PieceFolder {
 public:
  /// Makes the directory if it is not there. `own` has the key of the search. Throws IoError; InvalidArgument where a
  /// search is running with the directory, or sound pieces of another one are in it.
  PieceFolder(std::string directory, const PieceHead& own);
  ~PieceFolder();
  PieceFolder(const PieceFolder&) = delete;
  PieceFolder& operator=(const PieceFolder&) = delete;
  /// The file of the k-lists of a block so far, or (first_row >= 0) of the matches in the rows from there on, or (tier
  /// > 0) of the k-lists of that many rows.
  std::string path(std::int64_t block, std::int64_t first_row = -1, std::int64_t tier = 0) const;
  /// The file takes its name when it is complete and synced.
  void save(const std::string& path, const PieceHead& head, std::span<const io::Bytes> parts) const;
  struct Piece {
    PieceHead head;
    std::vector<std::byte> payload;
  };
  /// Nothing if there is no such file, or a damaged one. Throws InvalidArgument for a piece of another search.
  std::optional<Piece> load(const std::string& path, const PieceHead& expected, std::int64_t corpus_rows) const;

 private:
  void refuse_others(const PieceHead& own) const;
  std::string directory_;
  int lock_ = -1;  // the directory, open and locked; -1 where its file system has no locks
};

/// Decides how many rows of the corpus the next piece takes, so that pieces end some `target` seconds apart whatever a
/// row costs: the next one is sized by the last, and one that takes more than `latest` seconds is given up for a
/// smaller one.
class Pace {
 public:
  using Clock = std::function<double()>;  // seconds
  static constexpr double target = 2.5, latest = 6;
  static constexpr std::int64_t multiple = 64;  // words of bitmaps are not cut
  /// first, most: rows.
  Pace(Clock clock, std::int64_t first, std::int64_t most);
  /// Begins a piece of the `left` rows; how many it takes.
  std::int64_t begin(std::int64_t left);
  /// Whether the piece that was begun should be given up.
  bool overdue() const;
  void finished();
  /// share: of its work, how much had been done.
  void gave_up(double share);

 private:
  Clock clock_;
  std::int64_t most_, rows_, taken_ = 0;
  double started_ = 0;
};

}  // namespace vicinal
