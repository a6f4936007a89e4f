// The walk of a resumable search over blocks of queries and parts of the corpus, for k-lists (resume.cpp) and matches
// (resume_range.cpp).
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/divide.hpp"
#include "core/read_ahead.hpp"
#include "pipeline/resume.hpp"
#include "pipeline/row_parts.hpp"
#include "vicinal/error.hpp"
#include "vicinal/search.hpp"

namespace vicinal {

/// What refusals call these searches, which read rows on the host.
inline constexpr const char* resumable = "a resumable search";

double now_seconds();
/// The options of one piece: what is given a row or a query is cut as they are. `words` is memory for a bitmap that is
/// cut within a word.
KnnOptions piece_options(const KnnOptions& options, std::int64_t first_row, std::int64_t rows, std::int64_t first_query,
                         std::int64_t queries, std::vector<std::uint64_t>& words);
/// Says of a bad row what a search of the part that holds row `first` says: a piece numbers rows from its own first.
[[noreturn]] void blame_row(const RowParts& corpus, std::int64_t first, const Points& queries, KnnOptions options,
                            const Error& error);

/// What the searches have in common: the walk over blocks and parts, what is saved, progress and the certificate.
class Walk {
 public:
  /// Pieces in the directory belong to the values of all rows. `name`: of the search, as "k-NN, k=10".
  Walk(const std::string& name, const Points& corpus, const Points& queries, const KnnOptions& options,
       const Plan& whole, const std::string& directory, const Grid& grid, std::span<const std::int64_t> words);
  /// Without a directory nothing is saved and there is no folder; `key` is what the pieces belong to.
  Walk(const std::string& name, RowParts corpus, const Points& queries, const KnnOptions& options, const Plan& whole,
       const std::string& directory, const Grid& grid, io::Digest128 key);

  std::int64_t blocks() const noexcept { return divide_up(queries_.rows, grid_.block); }
  std::int64_t first_query() const noexcept { return head.block * grid_.block; }
  const Points& block(std::int64_t number) {
    head.block = number;
    block_ = queries_.slice(first_query(), std::min(grid_.block, queries_.rows - first_query()));
    head.queries = block_.rows;
    return block_;
  }
  void resumed(std::int64_t rows) {
    resumed_ += rows * block_.rows;
    done_ += static_cast<std::uint64_t>(rows * block_.rows);
  }

  /// search(corpus part, block, options of the part) over the next rows from `first` on; how many they are.
  template <class Search>
  std::int64_t part(std::int64_t first, const Search& search) {
    for (;;) {
      const std::int64_t rows = pace_.begin(corpus_.run(first));
      KnnOptions part = piece_options(options_, first, rows, first_query(), block_.rows, bitmap_words_);
      bool late = false;
      double share = 0;
      part.progress = [&](std::uint64_t now, std::uint64_t all) {
        share = all > 0 ? static_cast<double>(now) / static_cast<double>(all) : 0;
        late = now < all && pace_.overdue();
        told_ = std::max(told_, done_ + now);
        return !late && (!options_.progress || options_.progress(told_, total_));
      };
      // While this piece is searched the system reads what the next one begins with.
      if (const std::int64_t next = first + rows; next < corpus_.rows())
        read_ahead(corpus_.slice(next, std::min(rows, corpus_.run(next))));
      try {
        search(corpus_.slice(first, rows), block_, part);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled && late) {
          pace_.gave_up(share);
          continue;
        }
        if (error.code() == ErrorCode::invalid_value || error.code() == ErrorCode::range_error)
          blame_row(corpus_, first, queries_, options_, error);
        throw;
      }
      pace_.finished();
      done_ += static_cast<std::uint64_t>(rows * block_.rows);
      return rows;
    }
  }

  void note(const Stats& stats, const Certificate& certificate);
  void redone(std::int64_t queries) { certificate_.redone += queries; }

  /// The certificate and the statistics of the whole.
  void close(Certificate& certificate, Stats& stats, double start);

  std::optional<PieceFolder> folder;
  PieceHead head;

 private:
  RowParts corpus_;
  const Points& queries_;
  const KnnOptions& options_;
  const Plan& whole_;
  const std::string& directory_;
  const Grid& grid_;
  Pace pace_;
  Points block_;
  std::vector<std::uint64_t> bitmap_words_;
  std::uint64_t total_, done_ = 0, told_ = 0;
  std::int64_t resumed_ = 0;
  Stats stats_;
  Certificate certificate_;
};

}  // namespace vicinal
