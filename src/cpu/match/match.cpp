// See match.hpp. A block of queries stays in the first-level cache while all tiles of the other image pass; scores alone are kept, and the
// first tile, or block, that had the best. Ids are looked for there at the end, of rows that pass the tests.
#include "cpu/match/match.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "core/text.hpp"

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
            {.queries = a_.queries.data() + query * query_width(kernel_.layout, matching_.quads()),
             .rows = b_.panels.data() + row * matching_.quads(),
             .query_term = a_.query_term.data() + query,
             .row_term = b_.row_term.data() + row,
             .dims = matching_.quads(),
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
    return {0, matching_.key(side.best[row]), matching_.key(side.second[row])};
  }

  /// The first row, from `panel` on, whose score with a query is `score`.
  std::int64_t first_row(const PackedImage& of, std::int64_t query, const PackedImage& in, std::int64_t panel,
                         std::int64_t panels, std::int32_t score) const {
    const std::int64_t lanes = kernel_.query_lanes, words = query_width(kernel_.layout, 1);
    const std::int64_t row = kernel_.first_score(
        {.query = of.queries.data() + (query / lanes * lanes * matching_.quads() + query % lanes) * words,
         .rows = in.panels.data() + panel * panel_rows * matching_.quads(),
         .row_term = in.row_term.data() + panel * panel_rows,
         .dims = matching_.quads(),
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

/// Pairs in waves whose images, packed, fit the budget together.
class Waves {
 public:
  Waves(const MatchSpec& spec, const ByteMatching& matching, const BestTwoKernel& kernel, std::int64_t budget)
      : spec_(spec), matching_(matching), kernel_(kernel), budget_(budget), images_(spec.images.size()) {
    for (std::size_t p = 0; p < spec.pairs.size(); ++p)
      if (rows(spec.pairs[p][0]) > 0 && rows(spec.pairs[p][1]) > 0) order_.push_back(p);
    std::vector<bool> used(images_.size());
    std::int64_t all = 0, largest = 1;
    for (const std::size_t p : order_) {
      for (const std::int64_t image : spec.pairs[p]) {
        if (!used[static_cast<std::size_t>(image)]) all += bytes(image);
        used[static_cast<std::size_t>(image)] = true;
        largest = std::max(largest, bytes(image));
      }
    }
    if (all <= budget) return;
    // Neighbours in the order share their images: squares of the table of pairs, of half the budget a side.
    const std::int64_t side = std::max<std::int64_t>(budget / 2 / largest, 1);
    const auto square = [&](std::size_t p) { return std::pair(spec.pairs[p][0] / side, spec.pairs[p][1] / side); };
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t p, std::size_t q) { return square(p) < square(q); });
  }

  /// The next pairs, with their images packed; none: all are done.
  std::span<const std::size_t> next(ThreadPool& thread_pool) {
    std::vector<bool> wanted(images_.size());
    std::int64_t total = 0;
    const std::size_t first = done_;
    for (; done_ < order_.size(); ++done_) {
      std::int64_t more = 0;
      const auto [a, b] = spec_.pairs[order_[done_]];
      if (!wanted[static_cast<std::size_t>(a)]) more += bytes(a);
      if (b != a && !wanted[static_cast<std::size_t>(b)]) more += bytes(b);
      if (total + more > budget_) break;
      total += more;
      wanted[static_cast<std::size_t>(a)] = wanted[static_cast<std::size_t>(b)] = true;
    }
    if (done_ == first && done_ < order_.size()) refuse_budget(order_[done_]);
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (!wanted[i]) images_[i].reset();
      else if (!images_[i]) missing.push_back(i);
    }
    thread_pool.for_each(static_cast<std::int64_t>(missing.size()), [&](std::int64_t at, int) {
      const std::size_t image = missing[static_cast<std::size_t>(at)];
      images_[image] = std::make_unique<const PackedImage>(spec_.images[image], matching_, kernel_);
      thread_pool.poll(0);
    });
    return {order_.data() + first, done_ - first};
  }
  const PackedImage& image(std::int64_t number) const { return *images_[static_cast<std::size_t>(number)]; }

 private:
  std::int64_t rows(std::int64_t image) const { return spec_.images[static_cast<std::size_t>(image)].rows; }
  std::int64_t bytes(std::int64_t image) const { return PackedImage::bytes(rows(image), matching_, kernel_); }
  [[noreturn]] void refuse_budget(std::size_t pair) const {
    const auto [a, b] = spec_.pairs[pair];
    fail(ErrorCode::memory_budget, cat("images ", a, " and ", b, " of ", rows(a), " and ", rows(b), " rows need ",
                                       bytes_text(bytes(a) + bytes(b)), ", the budget is ", bytes_text(budget_)));
  }

  const MatchSpec& spec_;
  const ByteMatching& matching_;
  const BestTwoKernel& kernel_;
  std::int64_t budget_;
  std::vector<std::size_t> order_;
  std::size_t done_ = 0;
  std::vector<std::unique_ptr<const PackedImage>> images_;
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
  Waves waves(spec, matching, kernel, budget);
  for (auto pairs = waves.next(thread_pool); !pairs.empty(); pairs = waves.next(thread_pool)) {
    const auto matched = [&](std::size_t p) {
      return PairOfImages(spec, matching, kernel, waves.image(spec.pairs[p][0]), waves.image(spec.pairs[p][1]));
    };
    const auto count = static_cast<std::int64_t>(pairs.size());
    if (count < 2 * thread_pool.threads()) {
      for (const std::size_t p : pairs) {
        PairOfImages pair = matched(p);
        answer(static_cast<std::int64_t>(p), shared_pair(pair, thread_pool));
      }
      continue;
    }
    thread_pool.for_each(count, [&](std::int64_t at, int) {
      const std::size_t p = pairs[static_cast<std::size_t>(at)];
      PairOfImages pair = matched(p);
      Side of_b = pair.side_of_b();
      pair.pass(0, pair.blocks(), of_b, thread_pool);
      answer(static_cast<std::int64_t>(p), pair.matches(of_b));
    });
  }
}

}  // namespace vicinal::cpu
