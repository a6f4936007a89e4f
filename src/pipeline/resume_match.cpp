// RESUME of matching: the matches of each run of pairs are saved once, in a file of their own, and taken from there by
// a later call.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/match.hpp"
#include "pipeline/match_output.hpp"
#include "pipeline/walk.hpp"

namespace vicinal {
namespace {

using io::Bytes;

constexpr std::int64_t first_work = std::int64_t{1} << 31;  // pairs of rows of the first piece

/// What the matches depend on.
class MatchWords {
 public:
  explicit MatchWords(ThreadPool& thread_pool) : thread_pool_(thread_pool) {}
  void add(std::int64_t word) { words_.push_back(word); }
  void add(double value) { add(std::bit_cast<std::int64_t>(value)); }
  /// The values of rows.
  void add(const Points& rows) {
    std::int64_t halves[2];
    const io::Digest128 digest = piece_key(rows, rows.slice(0, 0), {}, {}, thread_pool_);
    static_assert(sizeof digest == sizeof halves);
    std::memcpy(halves, &digest, sizeof halves);
    words_.insert(words_.end(), halves, halves + 2);
  }
  io::Digest128 key() { return piece_key({}, {}, {}, words_, thread_pool_); }

 private:
  ThreadPool& thread_pool_;
  std::vector<std::int64_t> words_;
};

io::Digest128 match_key(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options) {
  ThreadPool thread_pool(threads_for(options.run.threads), nullptr, options.stop, 1);
  MatchWords words(thread_pool);
  const MatchDistance& distance = options.distance;
  for (const bool fact : {distance.angle, options.ratio.has_value(), options.strict, options.max_distance.has_value(),
                          options.accept_lone, options.guide != nullptr})
    words.add(std::int64_t{fact});
  words.add(distance.angle ? std::int64_t{0} : static_cast<std::int64_t>(distance.metric));
  words.add(static_cast<std::int64_t>(options.mutual));
  words.add(options.ratio.value_or(0));
  words.add(options.max_distance.value_or(0));
  words.add(std::ssize(images));
  for (const Points& image : images) words.add(image);
  for (const ImagePair& pair : pairs)
    for (const std::int64_t image : pair) words.add(image);
  if (options.guide != nullptr) {
    const MatchGuide& guide = *options.guide;
    words.add(static_cast<std::int64_t>(guide.model));
    words.add(guide.max_error);
    words.add(guide.apart);
    for (const std::array<double, 9>& matrix : guide.matrices)
      for (const double x : matrix) words.add(x);
    for (const Points& points : guide.keypoints) words.add(points);
  }
  return words.key();
}

/// The matches of a run of pairs, in memory or as they were saved.
struct Run {
  const std::int64_t* offsets = nullptr;
  const Matches::Rows* rows = nullptr;
  const void* distances = nullptr;
  const double* ratios = nullptr;
};

class ResumedPairs {
 public:
  ResumedPairs(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options,
               const std::string& directory)
      : images_(images), pairs_(pairs), options_(options), type_(match_kind(options.distance, images, pairs).type),
        output_({.images = images, .pairs = pairs, .rule = {}, .mutual = options.mutual}, type_) {
    head_.key = match_key(images, pairs, options);
    head_.type = static_cast<std::int64_t>(type_);
    head_.queries = 1;
    head_.all_pairs = std::ssize(pairs);
    const std::string search = cat("matching of ", pairs.size(), " pairs of ", images.size(), " images");
    search.copy(head_.search, sizeof head_.search);
    folder_.emplace(directory, head_);
    for (const ImagePair& pair : pairs) total_ += work_of(pair);
  }

  Matches run(const Grid& grid) {
    const std::int64_t all = std::ssize(pairs_);
    Pace pace(grid.clock ? grid.clock : now_seconds, grid.first_part, grid.most_part);
    for (head_.first_row = 0; head_.first_row < all; head_.first_row = head_.end_row) {
      if (load()) continue;
      head_.end_row = head_.first_row + pace.begin(all - head_.first_row);
      match();
      pace.finished();
    }
    return output_.finish(threads_for(options_.run.threads));
  }
  std::uint64_t total() const noexcept { return total_; }

 private:
  std::uint64_t work_of(const ImagePair& pair) const {
    return static_cast<std::uint64_t>(images_[static_cast<std::size_t>(pair[0])].rows) *
           static_cast<std::uint64_t>(images_[static_cast<std::size_t>(pair[1])].rows);
  }

  void keep(const Run& run) {
    std::vector<std::int64_t> numbers, counts;
    for (std::int64_t p = head_.first_row; p < head_.end_row; ++p) {
      const std::int64_t* const ends = run.offsets + (p - head_.first_row);
      numbers.push_back(p);
      counts.push_back(ends[1] - ends[0]);
      done_ += work_of(pairs_[static_cast<std::size_t>(p)]);
    }
    const MatchPlaces places = output_.take(numbers, counts);
    const auto entries = static_cast<std::size_t>(run.offsets[numbers.size()]);
    if (entries == 0) return;
    std::memcpy(places.rows, run.rows, entries * sizeof *run.rows);
    std::memcpy(places.distances, run.distances, entries * distance_size(type_));
    std::memcpy(places.ratios, run.ratios, entries * sizeof *run.ratios);
  }

  /// False: there is no sound piece that begins with this pair.
  bool load() {
    const auto piece = folder_->load(folder_->path(0, head_.first_row), head_, std::ssize(pairs_));
    if (!piece || piece->head.width < 0) return false;
    const auto ends = static_cast<std::size_t>(piece->head.end_row - piece->head.first_row + 1),
               entries = static_cast<std::size_t>(piece->head.width),
               entry = sizeof(Matches::Rows) + distance_size(type_) + sizeof(double);
    const std::size_t left = piece->payload.size() - std::min(ends * 8, piece->payload.size());
    if (left / entry != entries || left % entry != 0) return false;
    Run run;
    run.offsets = reinterpret_cast<const std::int64_t*>(piece->payload.data());
    if (run.offsets[0] != 0 || run.offsets[ends - 1] != piece->head.width ||
        !std::is_sorted(run.offsets, run.offsets + ends))
      return false;
    // Ratios before distances, which may have four bytes.
    run.rows = reinterpret_cast<const Matches::Rows*>(run.offsets + ends);
    run.ratios = reinterpret_cast<const double*>(run.rows + entries);
    run.distances = run.ratios + entries;
    head_.end_row = piece->head.end_row;
    keep(run);
    return true;
  }

  void match() {
    const auto first = static_cast<std::size_t>(head_.first_row),
               count = static_cast<std::size_t>(head_.end_row - head_.first_row);
    MatchOptions part = options_;
    std::uint64_t work = 0;
    for (const ImagePair& pair : pairs_.subspan(first, count)) work += work_of(pair);
    if (options_.progress)
      part.progress = [this, work](std::uint64_t done, std::uint64_t all) {
        const double share = all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 0;
        return options_.progress(done_ + static_cast<std::uint64_t>(share * static_cast<double>(work)), total_);
      };
    std::optional<MatchGuide> guide;
    if (options_.guide != nullptr) {
      guide = *options_.guide;
      if (!guide->matrices.empty()) guide->matrices = guide->matrices.subspan(first, count);
      part.guide = &*guide;
    }
    const Matches found = match_pairs(images_, pairs_.subspan(first, count), part);
    const auto entries = found.rows.size();
    head_.width = static_cast<std::int64_t>(entries);
    const Bytes parts[] = {{reinterpret_cast<const std::byte*>(found.offsets.data()), (count + 1) * 8},
                           {reinterpret_cast<const std::byte*>(found.rows.data()), entries * sizeof(Matches::Rows)},
                           {reinterpret_cast<const std::byte*>(found.ratios.data()), entries * sizeof(double)},
                           {static_cast<const std::byte*>(found.distances.data()), entries * distance_size(type_)}};
    folder_->save(folder_->path(0, head_.first_row), head_, parts);
    keep({found.offsets.data(), found.rows.data(), found.distances.data(), found.ratios.data()});
  }

  std::span<const Points> images_;
  std::span<const ImagePair> pairs_;
  const MatchOptions& options_;
  DistanceType type_;
  MatchOutput output_;
  PieceHead head_;
  std::optional<PieceFolder> folder_;
  std::uint64_t total_ = 0, done_ = 0;  // pairs of rows
};

}  // namespace

Matches match_in_pieces(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options,
                        const std::string& directory, const Grid& grid) {
  const double start = now_seconds();
  MatchOptions nothing = options;
  nothing.guide = nullptr;
  nothing.progress = nullptr;
  const Matches checked = match_pairs(images, {}, nothing);
  check_pairs(pairs, images.size());
  if (options.guide != nullptr && !options.guide->matrices.empty() && options.guide->matrices.size() != pairs.size())
    fail(ErrorCode::invalid_argument,
         cat("guide: ", options.guide->matrices.size(), " matrices for ", pairs.size(), " pairs"));
  for (const std::string& device : device_names(options.run.device))
    for (const Points& image : images) check_host(find_backend(device), image, "image", "resumable matching");
  ResumedPairs resumed(images, pairs, options, directory);
  Matches all = resumed.run(grid);
  all.stats = checked.stats;
  all.stats.pairs = static_cast<std::int64_t>(resumed.total());
  all.stats.seconds = now_seconds() - start;
  if (options.progress) options.progress(resumed.total(), resumed.total());
  return all;
}

Matches match_pairs_resumable(std::span<const Points> images, std::span<const ImagePair> pairs,
                              const MatchOptions& options, const std::string& directory) {
  std::int64_t most = 1;  // rows of an image
  for (const Points& image : images) most = std::max(most, image.rows);
  return match_in_pieces(images, pairs, options, directory, {1, std::max(first_work / most / most, Pace::multiple)});
}

}  // namespace vicinal
