// See match.hpp. A block of queries stays in the first-level cache while all tiles of the other image pass; scores alone are kept, and the
// first tile, or block, that had the best. Ids are looked for there at the end, of rows that pass the tests.
#include "cpu/match/match.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace vicinal::cpu {
namespace {

constexpr int block_panels = 8;  // of queries, with what is kept of them 32 KiB of 128 columns with AVX-512

/// The best two of one side of a pair, by scores; of a row the number of the tile or block that had the best first.
struct Side {
  explicit Side(std::int64_t places) : best(places), second(places), found(places) {
    std::fill_n(best.data(), places, least_score);
    std::fill_n(second.data(), places, least_score);
    std::fill_n(found.data(), places, 0);
  }
  Buffer<std::int32_t> best, second, found;
};

/// Takes a later part's scores of the same rows.
void join(Side& side, const Side& later) {
  for (std::int64_t i = 0; i < side.best.size(); ++i) {
    if (later.best[i] > side.best[i]) {
      side.second[i] = std::max(side.best[i], later.second[i]);
      side.best[i] = later.best[i];
      side.found[i] = later.found[i];
    } else {
      side.second[i] = std::max(side.second[i], later.best[i]);
    }
  }
}

class PairOfImages {
 public:
  PairOfImages(const MatchSpec& spec, const ByteMatching& matching, const BestTwoKernel& kernel, const PackedImage& a,
               const PackedImage& b)
      : spec_(spec), matching_(matching), kernel_(kernel), a_(a), b_(b), of_a_(a.query_panels * kernel.query_lanes) {}

  std::int64_t blocks() const { return (a_.query_panels + block_panels - 1) / block_panels; }
  Side side_of_b() const { return Side(b_.row_panels * panel_rows); }

  /// Blocks [first, last) of queries against all of b; of_b: of this part alone.
  void pass(std::int64_t first, std::int64_t last, Side& of_b, ThreadPool& thread_pool) {
    const std::int64_t most = block_panels * kernel_.query_lanes;
    Buffer<std::int32_t> state(most * 2 * state_lanes);
    for (std::int64_t block = first; block < last; ++block) {
      std::fill_n(state.data(), state.size(), least_score);
      const std::int64_t panel = block * block_panels, query = panel * kernel_.query_lanes;
      const auto panels = static_cast<int>(std::min<std::int64_t>(block_panels, a_.query_panels - panel));
      for (std::int64_t row_panel = 0; row_panel < b_.row_panels; row_panel += tile_panels) {
        const std::int64_t row = row_panel * panel_rows;
        kernel_.best_two(
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
             .query_state = state.data(),
             .query_best = of_a_.best.data() + query,
             .query_tile = of_a_.found.data() + query,
             .row_best = of_b.best.data() + row,
             .row_second = of_b.second.data() + row,
             .row_block = of_b.found.data() + row});
      }
      const std::int64_t queries = std::min(a_.rows - query, std::int64_t{panels} * kernel_.query_lanes);
      for (std::int64_t i = 0; i < queries; ++i)
        of_a_.second[query + i] = second_of(state.data() + i * 2 * state_lanes);
      thread_pool.poll(static_cast<std::uint64_t>(queries) * static_cast<std::uint64_t>(b_.rows));
    }
  }

  std::vector<FoundMatch> matches(const Side& of_b) const {
    const bool mutual = spec_.mutual != Mutual::one_way, tested = spec_.mutual == Mutual::tested;
    std::vector<FoundMatch> found;
    for (std::int64_t i = 0; i < a_.rows; ++i) {
      const BestTwo forth = keys(of_a_, i);
      if (!spec_.rule.passes(forth, b_.rows)) continue;
      const std::int64_t j =
          first_row(a_, i, b_, std::int64_t{of_a_.found[i]} * tile_panels, tile_panels, of_a_.best[i]);
      double ratio = spec_.rule.ratio_of(forth, b_.rows);
      if (mutual) {
        if (of_b.best[j] != of_a_.best[i]) continue;
        const BestTwo back = keys(of_b, j);
        if (tested && !spec_.rule.passes(back, a_.rows)) continue;
        if (nearest_of(of_b, j) != i) continue;
        if (tested) ratio = std::max(ratio, spec_.rule.ratio_of(back, a_.rows));
      }
      found.push_back({i, j, spec_.rule.distance(forth.best), ratio});
    }
    return found;
  }

 private:
  static std::int32_t second_of(const std::int32_t* state) {
    std::int32_t best = least_score, second = least_score;
    for (int lane = 0; lane < state_lanes; ++lane) {
      second = std::max({second, state[state_lanes + lane], std::min(best, state[lane])});
      best = std::max(best, state[lane]);
    }
    return second;
  }

  BestTwo keys(const Side& side, std::int64_t row) const {
    return {0, key_of(matching_.kind, side.best[row]), key_of(matching_.kind, side.second[row])};
  }

  /// The first row, from `panel` on, whose score with a query is `score`.
  std::int64_t first_row(const PackedImage& of, std::int64_t query, const PackedImage& in, std::int64_t panel,
                         std::int64_t panels, std::int32_t score) const {
    const std::int64_t lanes = kernel_.query_lanes, words = query_width(kernel_.layout, 1);
    const std::int64_t row = kernel_.first_score(
        {.query = of.queries.data() + (query / lanes * lanes * quads_of(matching_) + query % lanes) * words,
         .rows = in.panels.data() + panel * panel_rows * quads_of(matching_),
         .row_term = in.row_term.data() + panel * panel_rows,
         .dims = quads_of(matching_),
         .row_panels = static_cast<int>(std::min(panels, in.row_panels - panel)),
         .doubled = matching_.doubled(),
         .query_term = of.query_term[query],
         .score = score});
    return panel * panel_rows + row;
  }

  /// Row j's nearest of a: it is in the first block that had the best, whose rows begin and end within panels.
  std::int64_t nearest_of(const Side& of_b, std::int64_t j) const {
    const std::int64_t size = block_panels * kernel_.query_lanes, first = of_b.found[j] * size / panel_rows,
                       last = ((of_b.found[j] + 1) * size - 1) / panel_rows;
    return first_row(b_, j, a_, first, last - first + 1, of_b.best[j]);
  }

  const MatchSpec& spec_;
  const ByteMatching& matching_;
  const BestTwoKernel& kernel_;
  const PackedImage &a_, &b_;
  Side of_a_;
};

/// One pair by all threads, each with a part of the queries.
std::vector<FoundMatch> shared_pair(PairOfImages& pair, ThreadPool& thread_pool) {
  const std::int64_t parts = std::min<std::int64_t>(pair.blocks(), std::int64_t{4} * thread_pool.threads());
  std::vector<Side> sides;
  for (std::int64_t part = 0; part < parts; ++part) sides.push_back(pair.side_of_b());
  thread_pool.for_each(parts, [&](std::int64_t part, int) {
    pair.pass(pair.blocks() * part / parts, pair.blocks() * (part + 1) / parts, sides[static_cast<std::size_t>(part)],
              thread_pool);
  });
  for (std::size_t part = 1; part < sides.size(); ++part) join(sides[0], sides[part]);
  return pair.matches(sides[0]);
}

}  // namespace

void match_bytes(const MatchSpec& spec, const ByteMatching& matching, const BestTwoKernel& kernel, std::int64_t budget,
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
    const auto count = static_cast<std::int64_t>(pairs.size());
    if (count < 2 * thread_pool.threads()) {
      for (const std::int64_t p : pairs) {
        PairOfImages pair = matched(p);
        answer(p, shared_pair(pair, thread_pool));
      }
      continue;
    }
    thread_pool.for_each(count, [&](std::int64_t at, int) {
      const std::int64_t p = pairs[static_cast<std::size_t>(at)];
      PairOfImages pair = matched(p);
      Side of_b = pair.side_of_b();
      pair.pass(0, pair.blocks(), of_b, thread_pool);
      answer(p, pair.matches(of_b));
    });
  }
}

}  // namespace vicinal::cpu
