// Matching of features: which rows of one image answer which rows of another, by the ratio of the best distance to the
// second best, both ways or one way, exactly. For one pair of images or for thousands.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// How near two rows are: by a metric of vectors, or by the angle between them in radians. The angle of u8 rows is
/// acos(min(q.r / 512^2, 1)), as COLMAP has it for SIFT rows of length 512; of others acos(1 - cosine).
struct MatchDistance {
  Metric metric = Metric::euclidean;  // not read where `angle`
  bool angle = false;
};
/// "angle", or the name of a metric of vectors. Throws InvalidArgument for others and for "inner_product", which is no
/// distance.
MatchDistance parse_match_distance(std::string_view name);

/// one_way: each row of the first image is matched by itself. nearest: and is besides the nearest row to what it is
/// matched with.
/// tested: and both directions pass all tests.
enum class Mutual : std::uint8_t { one_way, nearest, tested };
/// "one_way", "nearest", "tested". Throws InvalidArgument for others.
Mutual parse_mutual(std::string_view name);

/// Which rows may match, by where their keypoints are. Rows of a pair are candidates of each other where their error is
/// at most max_error, in binary64: of a homography H the distance of the second's keypoint from H applied to the
/// first's; of a fundamental matrix F the root of Sampson's error, (y F x)^2 / (F x's and y F's first two squared).
/// What the best and the second are is said of candidates alone.
struct MatchGuide {
  enum class Model : std::uint8_t { anywhere, homography, fundamental };
  Model model = Model::anywhere;                         // all rows are candidates
  std::span<const std::array<double, 9>> matrices = {};  // one a pair, row by row; from the first image to the second
  std::span<const Points> keypoints = {};                // one an image: (rows, 2) f32 or f64, x and y
  double max_error = 4;                                  // in the keypoints' units
  double apart = 0;  // the second's keypoint is farther than this from the best's (FGINN); 0: wherever it is
};

struct MatchOptions {
  MatchDistance distance = {};
  std::optional<double> ratio = 0.8;        // of the best distance to the second best, 1e-6 to 1e6; none: no such test
  bool strict = true;                       // best < ratio * second; else best <= ratio * second
  std::optional<double> max_distance = {};  // best <= max_distance, >= 0
  Mutual mutual = Mutual::tested;
  bool accept_lone = true;            // a best without a second passes the ratio's test
  const MatchGuide* guide = nullptr;  // null: none. Every pair of candidates is ranked, on the CPU
  Budget memory = {};
  Execution run = {};
  Progress progress = nullptr;
  std::stop_token stop = {};
  void* stream = nullptr;  // as KnnOptions::stream
};

/// An array of a result. Copies share its memory.
template <class T>
class MatchArray {
 public:
  MatchArray() = default;
  MatchArray(std::shared_ptr<const void> keeper, const T* data, std::size_t size)
      : keeper_(std::move(keeper)), data_(data), size_(size) {}

  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  /// What the memory belongs to, for those who keep a view of it.
  const std::shared_ptr<const void>& keeper() const noexcept { return keeper_; }
  friend bool operator==(const MatchArray& a, const MatchArray& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::shared_ptr<const void> keeper_;
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Distances of a result, in the type that they are rounded to. Copies share their memory.
class MatchDistances {
 public:
  MatchDistances() = default;
  MatchDistances(std::shared_ptr<const void> keeper, const void* data, std::size_t size, DistanceType type)
      : keeper_(std::move(keeper)), data_(data), size_(size), type_(type) {}

  /// f32, f64 or u32, of `type()`.
  const void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  DistanceType type() const noexcept { return type_; }
  double operator[](std::size_t i) const noexcept {
    if (type_ == DistanceType::f64) return static_cast<const double*>(data_)[i];
    if (type_ == DistanceType::u32) return static_cast<const std::uint32_t*>(data_)[i];
    return static_cast<const float*>(data_)[i];
  }
  const std::shared_ptr<const void>& keeper() const noexcept { return keeper_; }

 private:
  std::shared_ptr<const void> keeper_;
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  DistanceType type_ = DistanceType::f32;
};

/// The matches of pairs of images, pair by pair: those of pair p are offsets[p] to offsets[p + 1], by ascending row of
/// its first image.
struct Matches {
  using Rows = std::array<std::int64_t, 2>;  // a row of the pair's first image, one of its second

  std::vector<std::int64_t> offsets = {0};
  MatchArray<Rows> rows;
  MatchDistances distances;
  /// Best over second best: of mutual matches whose both directions were tested the larger of the two; 0 where there is
  /// no second, 1 where both are 0.
  MatchArray<double> ratios;
  Stats stats;

  std::int64_t pairs() const noexcept { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

/// Two numbers of images.
using ImagePair = std::array<std::int64_t, 2>;
/// "exhaustive": each image with every later one. "sequential:N": each with the next N. Both in ascending order.
/// Throws InvalidArgument for other words.
std::vector<ImagePair> image_pairs(std::string_view how, std::int64_t images);

/// The matches of one pair. Rows are matched by their best and second best in the order (canonical value in binary64,
/// id) of the metric; the angle of u8 rows orders by the larger product. The ratio test is exact: the product of the
/// ratio and the second distance is not rounded, and of u8 and i8 rows euclidean distances are compared by their
/// squares, which are whole numbers.
/// Throws Error: InvalidArgument (columns, options), InvalidValue (NaN, a zero row in cosine), RangeError,
/// MemoryBudget, OutOfMemory, DeviceError, Cancelled. docs/semantics.md, C21.
Matches match(const Points& a, const Points& b, const MatchOptions& options = {});

/// The tests of another tool: "colmap", "colmap-cpu", "hloc", "opencv", "kornia", "vlfeat". Throws InvalidArgument for
/// other names. docs/matching.md says what each is, and where the tool's own rounding may still decide otherwise.
MatchOptions match_preset(std::string_view name);
/// The names that match_preset takes.
std::vector<std::string> match_presets();

/// The matches of many pairs; each image is prepared once. The bits are those of a match() for each pair. Throws as
/// match does, and InvalidArgument for a pair that names no image, and for pairs whose distances are of two kinds (u8
/// beside others for angle, integers beside others for euclidean, f64 beside others).
Matches match_pairs(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options = {});

/// match_pairs, to the bit, in pieces of a few seconds each, which are saved in `directory`, made if it is not there. A
/// later call with the same images, pairs and options reads what is there and matches the rest; threads, memory and
/// device may differ. Images are in the host's memory, and read once more to tell whether they are the same. Throws as
/// match_pairs does, IoError, and InvalidArgument if the directory holds pieces of another search, or a search is
/// running with it. Damaged pieces are matched again. discard_pieces (vicinal/resume.hpp) removes them.
Matches match_pairs_resumable(std::span<const Points> images, std::span<const ImagePair> pairs,
                              const MatchOptions& options, const std::string& directory);

}  // namespace vicinal
