// See match.hpp. A block of queries stays in the first-level cache while all tiles of the other image pass. Of a query
// the largest score of a tile is kept, of a row that of a block of queries: the best, the first group that had it, and
// the largest of the other groups, which the second best is not less than. The few rows that pass with that in its
// place are compared with the best's group once more, for the id and the second best (docs/design/0048).
#include "cpu/match/match.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/divide.hpp"

namespace vicinal::cpu {
namespace {

constexpr int block_panels = 8;  // of queries, with what is kept of them 32 KiB of 128 columns with AVX-512

/// A Side holds the largest scores of the rows of one side of a pair: of all, and of all groups but the first that has
/// it, whose number is in `found`.
struct Side {
  explicit Side(std::int64_t rows) : best(rows), others(rows), found(rows) { clear(); }
  void clear() {
    std::fill_n(best.data(), best.size(), least_score);
    std::fill_n(others.data(), best.size(), least_score);
    std::fill_n(found.data(), best.size(), 0);
  }
  Buffer<std::int32_t> best, others, found;
};

/// Takes scores of the same rows with other groups.
void join(Side& side, const Side& other) {
  for (std::int64_t i = 0; i < side.best.size(); ++i) {
    const std::int32_t best = side.best[i], of_other = other.best[i];
    if (of_other > best || (of_other == best && other.found[i] < side.found[i])) side.found[i] = other.found[i];
    side.others[i] = std::max({side.others[i], other.others[i], std::min(best, of_other)});
    side.best[i] = std::max(best, of_other);
  }
}

class PairOfImages {
 public:
  PairOfImages(const MatchSpec& spec, const ByteMatching& matching, const MatchKernel& kernel, const PackedImage& a,
               const PackedImage& b)
      : spec_(spec), matching_(matching), kernel_(kernel), a_(a), b_(b), of_a_(a.query_panels * kernel.query_lanes) {}

  std::int64_t blocks() const { return divide_up(a_.query_panels, block_panels); }
  Side side_of_b() const { return Side(b_.row_panels * panel_rows); }

  /// Blocks [first, last) of queries against all of b; of_b: of this part alone.
  void pass(std::int64_t first, std::int64_t last, Side& of_b, ThreadPool& thread_pool) {
    const std::int64_t most = block_panels * kernel_.query_lanes;
    Side lanes(most * state_lanes);
    Buffer<std::int32_t> tile_best(lanes.best.size());
    std::fill_n(tile_best.data(), tile_best.size(), least_score);
    for (std::int64_t block = first; block < last; ++block) {
      lanes.clear();
      const std::int64_t panel = block * block_panels, query = panel * kernel_.query_lanes;
      const auto panels = static_cast<int>(std::min<std::int64_t>(block_panels, a_.query_panels - panel));
      for (std::int64_t row_panel = 0; row_panel < b_.row_panels; row_panel += tile_panels) {
        const std::int64_t row = row_panel * panel_rows;
        kernel_.group_best(
            {.queries = a_.queries.data() + query * query_width(kernel_.layout, quads_of(matching_)),
             .rows = b_.panels.data() + row * quads_of(matching_),
             .query_term = a_.query_term.data() + query,
             .row_term = b_.row_term.data() + row,
             .dims = quads_of(matching_),
             .query_panels = panels,
             .row_panels = static_cast<int>(std::min<std::int64_t>(tile_panels, b_.row_panels - row_panel)),
             .doubled = matching_.doubled(),
             .tile = static_cast<std::int32_t>(row_panel / tile_panels),
             .block = static_cast<std::int32_t>(block),
             .lane_best = lanes.best.data(),
             .lane_others = lanes.others.data(),
             .lane_tile = lanes.found.data(),
             .tile_best = tile_best.data(),
             .row_best = of_b.best.data() + row,
             .row_others = of_b.others.data() + row,
             .row_block = of_b.found.data() + row});
      }
      const std::int64_t queries = std::min(a_.rows - query, std::int64_t{panels} * kernel_.query_lanes);
      for (std::int64_t i = 0; i < queries; ++i) join_lanes(lanes, i * state_lanes, query + i);
      thread_pool.poll(static_cast<std::uint64_t>(queries) * static_cast<std::uint64_t>(b_.rows));
    }
  }

  std::vector<FoundMatch> matches(const Side& of_b) const {
    const bool mutual = spec_.mutual != Mutual::one_way, tested = spec_.mutual == Mutual::tested;
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < a_.rows; ++i)
      if (may_pass(of_a_, i, b_.rows)) rows.push_back(i);
    std::vector<FoundMatch> found;
    std::vector<std::int64_t> named;  // rows of b
    best_of_groups(of_a_, a_, rows, b_, tile_panels * panel_rows, [&](std::int64_t i, const BestOfGroup& best) {
      const std::int64_t j = best.row;
      const BestTwo forth = keys(of_a_, i, best);
      if (!spec_.rule.passes(forth, b_.rows)) return;
      if (mutual && (of_b.best[j] != of_a_.best[i] || (tested && !may_pass(of_b, j, a_.rows)))) return;
      found.push_back({i, j, spec_.rule.distance(forth.best), spec_.rule.ratio_of(forth, b_.rows)});
      named.push_back(j);
    });
    std::vector<FoundMatch> both;
    if (mutual) {
      std::vector<std::pair<std::int64_t, double>> of_named(static_cast<std::size_t>(b_.rows), {-1, 0});
      best_of_groups(of_b, b_, named, a_, block_panels * kernel_.query_lanes,
                     [&](std::int64_t j, const BestOfGroup& nearest) {
                       const BestTwo back = keys(of_b, j, nearest);
                       if (!tested || spec_.rule.passes(back, a_.rows))
                         of_named[static_cast<std::size_t>(j)] = {nearest.row, spec_.rule.ratio_of(back, a_.rows)};
                     });
      for (FoundMatch& match : found) {
        const auto [i, ratio] = of_named[static_cast<std::size_t>(match.b)];
        if (i != match.a) continue;
        if (tested) match.ratio = std::max(match.ratio, ratio);
        both.push_back(match);
      }
    }
    std::vector<FoundMatch>& matches = mutual ? both : found;
    std::sort(matches.begin(), matches.end(), [](const FoundMatch& x, const FoundMatch& y) { return x.a < y.a; });
    return std::move(matches);
  }

 private:
  /// A query's scores from those of its lanes. The others are of rows of
  /// other tiles, or of lanes of the best's tile that do not have it.
  void join_lanes(const Side& lanes, std::int64_t at, std::int64_t query) {
    std::int32_t best = least_score, others = least_score, tile = 0;
    for (std::int64_t lane = at; lane < at + state_lanes; ++lane) {
      const std::int32_t of_lane = lanes.best[lane];
      others = std::max({others, lanes.others[lane], std::min(best, of_lane)});
      if (of_lane > best || (of_lane == best && lanes.found[lane] < tile)) tile = lanes.found[lane];
      best = std::max(best, of_lane);
    }
    of_a_.best[query] = best;
    of_a_.others[query] = others;
    of_a_.found[query] = tile;
  }

  /// False only where no second best passes that is at least as near as the best of the other groups.
  bool may_pass(const Side& side, std::int64_t row, std::int64_t rows) const {
    return side.others[row] == least_score || spec_.rule.passes(keys(side, row, {}), rows);
  }

  BestTwo keys(const Side& side, std::int64_t row, const BestOfGroup& group) const {
    return {0, key_of(matching_.kind, side.best[row]),
            key_of(matching_.kind, std::max(side.others[row], group.others))};
  }

  /// take(row, best) of rows of `of`: the first row of `in` with the row's best score, and the largest of the others of
  /// its group, which has `size` rows: or of a few more, of the panels where it begins and ends. One group after the
  /// other, so that its rows are near.
  template <class Take>
  void best_of_groups(const Side& side, const PackedImage& of, std::vector<std::int64_t>& rows, const PackedImage& in,
                      std::int64_t size, const Take& take) const {
    const std::int64_t lanes = kernel_.query_lanes, words = query_width(kernel_.layout, 1), quads = quads_of(matching_);
    std::sort(rows.begin(), rows.end(), [&](std::int64_t x, std::int64_t y) {
      return std::pair(side.found[x], x) < std::pair(side.found[y], y);
    });
    for (const std::int64_t row : rows) {
      const std::int64_t group = side.found[row], panel = group * size / panel_rows,
                         end = std::min(divide_up((group + 1) * size, panel_rows), in.row_panels);
      BestOfGroup best =
          kernel_.best_of_group({.query = of.queries.data() + (row / lanes * lanes * quads + row % lanes) * words,
                                 .rows = in.panels.data() + panel * panel_rows * quads,
                                 .row_term = in.row_term.data() + panel * panel_rows,
                                 .dims = quads,
                                 .row_panels = static_cast<int>(end - panel),
                                 .doubled = matching_.doubled(),
                                 .query_term = of.query_term[row],
                                 .score = side.best[row]});
      best.row += panel * panel_rows;
      take(row, best);
    }
  }

  const MatchSpec& spec_;
  const ByteMatching& matching_;
  const MatchKernel& kernel_;
  const PackedImage &a_, &b_;
  Side of_a_;
};

/// One pair by several threads, each with some of the queries.
struct SharedPair {
  SharedPair(PairOfImages taken, std::int64_t number, std::int64_t most_parts)
      : pair(std::move(taken)), number(number), parts(std::min(pair.blocks(), most_parts)), left(parts) {}

  /// True where this was the last of the parts: of_b is then of all of them.
  bool pass(std::int64_t part, ThreadPool& thread_pool) {
    Side own = pair.side_of_b();
    pair.pass(pair.blocks() * part / parts, pair.blocks() * (part + 1) / parts, own, thread_pool);
    const std::lock_guard lock(joining);
    if (of_b) join(*of_b, own);
    else of_b = std::move(own);
    return --left == 0;
  }

  PairOfImages pair;
  std::int64_t number, parts, left;
  std::optional<Side> of_b;
  std::mutex joining;
};

}  // namespace

void match_bytes(const MatchSpec& spec, const ByteMatching& matching, const MatchKernel& kernel, std::int64_t budget,
                 const MatchAnswer& answer, ThreadPool& thread_pool) {
  std::vector<std::unique_ptr<const PackedImage>> images(spec.images.size());
  PairWaves waves(
      spec,
      [&](std::int64_t image) {
        return PackedImage::bytes(spec.images[static_cast<std::size_t>(image)].rows, matching, kernel);
      },
      budget);
  for (auto pairs = waves.next(); !pairs.empty(); pairs = waves.next()) {
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (!waves.wanted(i)) images[i].reset();
      else if (!images[i]) missing.push_back(i);
    }
    thread_pool.for_each(static_cast<std::int64_t>(missing.size()), [&](std::int64_t at, int) {
      const std::size_t image = missing[static_cast<std::size_t>(at)];
      images[image] = std::make_unique<const PackedImage>(spec.images[image], matching, kernel);
      thread_pool.poll(0);
    });
    const auto matched = [&](std::int64_t p) {
      const auto [a, b] = spec.pairs[static_cast<std::size_t>(p)];
      return PairOfImages(spec, matching, kernel, *images[static_cast<std::size_t>(a)],
                          *images[static_cast<std::size_t>(b)]);
    };
    // A thread takes a pair, and of the last pairs a part, so that all threads end at once.
    const std::int64_t count = std::ssize(pairs), threads = thread_pool.threads(),
                       whole = std::max<std::int64_t>(count - 2 * threads, 0);
    std::vector<std::unique_ptr<SharedPair>> shared;
    std::vector<std::pair<SharedPair*, std::int64_t>> parts;
    for (std::int64_t at = whole; at < count; ++at) {
      const std::int64_t p = pairs[static_cast<std::size_t>(at)];
      shared.push_back(std::make_unique<SharedPair>(matched(p), p, whole > 0 ? 4 : 4 * threads));
      for (std::int64_t part = 0; part < shared.back()->parts; ++part) parts.emplace_back(shared.back().get(), part);
    }
    thread_pool.for_each(whole + std::ssize(parts), [&](std::int64_t at, int) {
      if (at >= whole) {
        const auto [own, part] = parts[static_cast<std::size_t>(at - whole)];
        if (own->pass(part, thread_pool)) give_matches(answer, own->number, own->pair.matches(*own->of_b));
        return;
      }
      const std::int64_t p = pairs[static_cast<std::size_t>(at)];
      PairOfImages pair = matched(p);
      Side of_b = pair.side_of_b();
      pair.pass(0, pair.blocks(), of_b, thread_pool);
      give_matches(answer, p, pair.matches(of_b));
    });
  }
}

}  // namespace vicinal::cpu
