// The work of `vicinal match`: pairs are matched batch by batch, each written by one transaction, so that a kill loses
// one batch.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colmap.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "vicinal/match.hpp"

namespace cli {

/// What was asked for and, in the end, what was done.
struct MatchRun {
  std::int64_t pictures = 0, rows = 0, pairs = 0, skipped = 0, comparisons = 0, matches = 0, replaced = 0;
  double seconds = 0;
  std::string device;
};

std::int64_t comparisons_of(const vicinal::ImagePair& pair, std::span<const Picture> pictures);

/// Matches the pairs and writes them, a batch at a time.
class BatchMatcher {
 public:
  BatchMatcher(ColmapDatabase& database, vicinal::MatchOptions options, std::int64_t bytes, MatchRun& run)
      : database_(database), options_(std::move(options)), bytes_(bytes), run_(run) {}

  void match(std::span<const vicinal::ImagePair> pairs, Interrupt& interrupt);
  /// Matches the largest pair and forgets what it found: whatever options refuse is refused.
  void attempt(std::span<const vicinal::ImagePair> pairs, std::stop_token stop);
  /// Whether a batch is written.
  bool wrote() const noexcept { return wrote_; }

 private:
  void match_batch(std::span<const vicinal::ImagePair> pairs, Interrupt& interrupt, ProgressBar& bar);
  /// The library numbers images by their place in the call; here they have names.
  vicinal::Matches matches_of(std::span<const vicinal::Points> images, std::span<const vicinal::ImagePair> pairs) const;
  /// "row 2 of image 1" becomes "row 2 of picture "b.png" (image 7)".
  std::string with_names(std::string_view text) const;
  /// Descriptors of the pictures of these pairs, by ascending place; those that the batch before had stay in memory.
  std::vector<vicinal::Points> load(std::span<const vicinal::ImagePair> pairs);
  void write(std::span<const vicinal::ImagePair> pairs, const vicinal::Matches& found);

  ColmapDatabase& database_;
  vicinal::MatchOptions options_;
  std::int64_t bytes_;
  MatchRun& run_;
  std::map<std::int64_t, Descriptors> held_;
  std::int64_t done_ = 0;
  bool wrote_ = false;
};

}  // namespace cli
