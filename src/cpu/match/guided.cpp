// See guided.hpp. Errors of keypoints are computed in one order of operations, whichever image is asked, so that both
// directions have the same candidates.
#include "cpu/match/guided.hpp"

#include <algorithm>
#include <vector>

#include "core/divide.hpp"
#include "cpu/permutation/objects.hpp"
#include "prepare/load.hpp"

namespace vicinal::cpu {
namespace {

struct Keypoint {
  double x = 0, y = 0;
};

std::vector<Keypoint> keypoints_of(const MatchGuide& guide, std::int64_t image) {
  if (guide.keypoints.empty()) return {};
  const Points& points = guide.keypoints[static_cast<std::size_t>(image)];
  std::vector<Keypoint> all(static_cast<std::size_t>(points.rows));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (points.dtype == DType::f64) {
      gather_row(points, static_cast<std::int64_t>(i), &all[i]);
    } else {
      float two[2];
      gather_row(points, static_cast<std::int64_t>(i), two);
      all[i] = {two[0], two[1]};
    }
  }
  return all;
}

/// Which rows of a pair are candidates of each other.
class Geometry {
 public:
  Geometry(const MatchGuide& guide, const ImagePair& pair, std::size_t number)
      : model_(guide.model), first_(keypoints_of(guide, pair[0])), second_(keypoints_of(guide, pair[1])),
        limit_(guide.max_error * guide.max_error), apart_(guide.apart * guide.apart), anywhere_(guide.apart == 0) {
    if (model_ == MatchGuide::Model::anywhere) return;
    const std::array<double, 9>& m = guide.matrices[number];
    for (const Keypoint& p : first_)
      images_.push_back(
          {m[0] * p.x + m[1] * p.y + m[2], m[3] * p.x + m[4] * p.y + m[5], m[6] * p.x + m[7] * p.y + m[8]});
    for (const Keypoint& p : second_) {
      const double x = m[0] * p.x + m[3] * p.y + m[6], y = m[1] * p.x + m[4] * p.y + m[7];
      slopes_.push_back(x * x + y * y);
    }
    if (model_ != MatchGuide::Model::homography) return;
    for (Image& one : images_) one = {one.x / one.w, one.y / one.w, 1};
  }

  /// Row i of the first image and row j of the second.
  bool near(std::int64_t i, std::int64_t j) const {
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    switch (model_) {
      case MatchGuide::Model::anywhere: break;
      case MatchGuide::Model::homography: {
        const double x = images_[a].x - second_[b].x, y = images_[a].y - second_[b].y;
        return x * x + y * y <= limit_;
      }
      case MatchGuide::Model::fundamental: {
        const Image& line = images_[a];
        const double error = line.x * second_[b].x + line.y * second_[b].y + line.w;
        return error * error <= limit_ * ((line.x * line.x + line.y * line.y) + slopes_[b]);
      }
    }
    return true;
  }
  /// Whether row j of the first image, or of the second, may be second to row i of it.
  bool apart(bool first, std::int64_t i, std::int64_t j) const {
    if (anywhere_) return true;
    const std::vector<Keypoint>& points = first ? first_ : second_;
    const Keypoint &p = points[static_cast<std::size_t>(i)], &q = points[static_cast<std::size_t>(j)];
    const double x = p.x - q.x, y = p.y - q.y;
    return x * x + y * y > apart_;
  }

 private:
  struct Image {
    double x, y, w;  // a point of a homography, the line of a fundamental matrix
  };
  MatchGuide::Model model_;
  std::vector<Keypoint> first_, second_;
  double limit_, apart_;
  bool anywhere_;               // of seconds: no distance from the best is asked for
  std::vector<Image> images_;   // of the first's points
  std::vector<double> slopes_;  // of the second's points: the squares that Sampson's error has of them
};

/// The best two of each row of one side of a pair.
class GuidedSide {
 public:
  /// forth: rows are the first image's, candidates the second's.
  GuidedSide(const MatchSpec& spec, const Geometry& geometry, const ImagePair& pair, bool forth)
      : spec_(spec), geometry_(geometry), asked_(pair[forth ? 0 : 1]), corpus_(pair[forth ? 1 : 0]), forth_(forth) {}

  std::vector<RowBest> run(ThreadPool& thread_pool) const {
    try {
      const auto objects = open_vectors(rows(corpus_), spec_.metric, 0, spec_.search.run.instruction_set, thread_pool);
      const auto queries = objects->read(rows(asked_), thread_pool);
      std::vector<RowBest> best(static_cast<std::size_t>(rows(asked_).rows));
      constexpr std::int64_t at_once = 64;
      thread_pool.for_each(divide_up(rows(asked_).rows, at_once), [&](std::int64_t block, int) {
        const auto evaluator = queries->evaluator();
        std::vector<std::uint32_t> candidates;
        std::vector<double> values;
        const std::int64_t last = std::min((block + 1) * at_once, rows(asked_).rows);
        for (std::int64_t row = block * at_once; row < last; ++row) {
          best[static_cast<std::size_t>(row)] = of_row(row, *evaluator, candidates, values);
          thread_pool.poll(forth_ ? static_cast<std::uint64_t>(rows(corpus_).rows) : 0);  // pairs count once
        }
      });
      return best;
    } catch (const Error& error) {
      rethrow_of_images(error, corpus_, asked_);
    }
  }

 private:
  const Points& rows(std::int64_t image) const { return spec_.images[static_cast<std::size_t>(image)]; }

  RowBest of_row(std::int64_t row, DistanceEvaluator& evaluator, std::vector<std::uint32_t>& candidates,
                 std::vector<double>& values) const {
    candidates.clear();
    for (std::int64_t j = 0; j < rows(corpus_).rows; ++j)
      if (forth_ ? geometry_.near(row, j) : geometry_.near(j, row)) candidates.push_back(static_cast<std::uint32_t>(j));
    if (candidates.empty()) return {};
    values.resize(candidates.size());
    evaluator.start(row);
    evaluator.measure(candidates.data(), static_cast<std::int64_t>(candidates.size()), values.data());
    const auto best = static_cast<std::size_t>(std::min_element(values.begin(), values.end()) - values.begin());
    RowBest found{{candidates[best], values[best], 0}, 1};
    for (std::size_t at = 0; at < candidates.size(); ++at) {
      if (at == best || !geometry_.apart(!forth_, candidates[best], candidates[at])) continue;
      if (found.others == 1 || values[at] < found.two.second) found.two.second = values[at];
      ++found.others;
    }
    if (spec_.rule.key == MatchKey::product) {  // folded: smaller is nearer
      found.two.best = -found.two.best;
      found.two.second = -found.two.second;
    }
    return found;
  }

  const MatchSpec& spec_;
  const Geometry& geometry_;
  std::int64_t asked_, corpus_;
  bool forth_;
};

}  // namespace

void match_guided(const MatchSpec& spec, const MatchAnswer& answer, ThreadPool& thread_pool) {
  for (std::size_t p = 0; p < spec.pairs.size(); ++p) {
    const ImagePair& pair = spec.pairs[p];
    const auto rows = [&](int side) {
      return spec.images[static_cast<std::size_t>(pair[static_cast<std::size_t>(side)])].rows;
    };
    if (rows(0) == 0 || rows(1) == 0) continue;
    const Geometry geometry(*spec.guide, pair, p);
    const std::vector<RowBest> forth = GuidedSide(spec, geometry, pair, true).run(thread_pool);
    std::vector<RowBest> back;
    if (spec.mutual != Mutual::one_way) back = GuidedSide(spec, geometry, pair, false).run(thread_pool);
    give_matches(answer, static_cast<std::int64_t>(p), decide_matches(forth, back, spec.rule, spec.mutual));
  }
}

}  // namespace vicinal::cpu
