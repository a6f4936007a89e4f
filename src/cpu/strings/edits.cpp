// Edits between a group of queries and the corpus. Words of neighbouring lengths make blocks
// (blocks.hpp); a block's masks are built once for all queries of the group. Blocks come in the
// order in which their lengths leave those of the group, and a query skips a block whose lengths
// alone are too many edits away from its own, so most of the corpus is never looked at.
#include <algorithm>

#include "core/string_metric.hpp"
#include "cpu/strings/blocks.hpp"
#include "cpu/strings/scanner.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t steps_at_once = 4'000'000;  // strips times letters between looks at the clock
constexpr std::int64_t strips_to_speculate = 8;    // below, all strips cost less than trying a few

class EditScanner final : public Scanner {
 public:
  EditScanner(const StringSearchSpec& spec, const Myers& myers, ThreadPool& thread_pool)
      : spec_(spec), corpus_(spec.corpus), queries_(spec.queries), blocks_(corpus_, myers, spec.alphabet.size()),
        thread_pool_(thread_pool) {
    for (int worker = 0; worker < thread_pool.threads(); ++worker) {
      masks_.emplace_back(spec.alphabet.size());
      windows_.emplace_back(spec.alphabet.size());
    }
  }

  ScanCounts scan(const QueryGroup& group, int worker) override {
    std::vector<Query> queries = ask(group);
    ScanCounts counts;
    for (const Block* block : in_order(group)) {
      if (block->parts == 0) {
        scan_block(
            *block, queries, [](const Query&) { return true; }, worker, counts);
      } else if (scan_band(*block, queries, worker, counts)) {
        for (int part = 1; part <= block->parts; ++part)
          scan_block(
              block[part], queries, [](const Query& query) { return query.beyond_band; }, worker, counts);
      }
      thread_pool_.poll(static_cast<std::uint64_t>(block->words) * queries.size());
    }
    return counts;
  }

 private:
  struct Query {
    std::vector<std::uint32_t> codes;
    StringPool* pool;
    double limit = -1;  // what `most` was computed for
    std::int64_t longest = -1, most = -1;
    bool beyond_band = false;  // wants more edits than the band at hand can tell
    std::int64_t length() const noexcept { return static_cast<std::int64_t>(codes.size()); }
  };

  std::vector<Query> ask(const QueryGroup& group) const {
    std::vector<Query> queries(group.pools.size());
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const std::int64_t at = group.first + static_cast<std::int64_t>(i), length = queries_.length(at);
      queries_.with_codes(at, [&](const auto* codes) { queries[i].codes.assign(codes, codes + length); });
      queries[i].pool = &group.pools[i];
    }
    return queries;
  }

  template <class Which>
  void scan_block(const Block& block, std::vector<Query>& queries, const Which& which, int worker, ScanCounts& counts) {
    Masks& masks = masks_[static_cast<std::size_t>(worker)];
    const WordBlock* words = nullptr;
    for (Query& query : queries) {
      if (!which(query)) continue;
      const std::int64_t most = wanted(query, block);
      if (most < 0) continue;
      if (words == nullptr) words = &masks.build(corpus_, block);
      counts.computed += block.words;
      counts.within +=
          block.strips > 1 ? by_strips(query, block, *words, masks) : at_once(query, block, *words, most, masks.hits);
    }
  }

  /// True when some queries want more than a band can tell: they are marked.
  bool scan_band(const Block& block, std::vector<Query>& queries, int worker, ScanCounts& counts) {
    Windows& windows = windows_[static_cast<std::size_t>(worker)];
    WordHits& hits = masks_[static_cast<std::size_t>(worker)].hits;
    bool built = false, beyond = false;
    for (Query& query : queries) {
      const std::int64_t most = wanted(query, block);
      query.beyond_band = most >= band_bits;
      beyond = beyond || query.beyond_band;
      if (most < 0 || query.beyond_band) continue;
      if (!built) windows.build(corpus_, block);
      built = true;
      block.myers->band({.windows = windows.data(),
                         .row = windows.rows(),
                         .query = query.codes.data(),
                         .letters = query.length(),
                         .length = block.longest,
                         .limit = most,
                         .words = block.words,
                         .hits = &hits});
      counts.computed += block.words;
      counts.within += take(query, block, hits, -1);
    }
    return beyond;
  }

  /// This part's blocks, nearest lengths first.
  std::vector<const Block*> in_order(const QueryGroup& group) const {
    const std::int64_t low = queries_.length(group.first);
    const std::int64_t high = queries_.length(group.first + static_cast<std::int64_t>(group.pools.size()) - 1);
    const auto apart = [&](const Block* block) {
      return std::max({std::int64_t{0}, block->shortest - high, low - block->longest});
    };
    std::vector<const Block*> order;
    for (std::size_t i = static_cast<std::size_t>(group.part); i < blocks_.count();
         i += static_cast<std::size_t>(group.parts))
      order.push_back(blocks_.at(i));
    std::stable_sort(order.begin(), order.end(), [&](const Block* a, const Block* b) { return apart(a) < apart(b); });
    return order;
  }

  /// Edits to look for, or -1 when the lengths alone are more.
  VICINAL_INLINE std::int64_t wanted(Query& query, const Block& block) const {
    if (query.limit != query.pool->limit() || query.longest != block.longest) {
      query.limit = query.pool->limit();
      query.longest = block.longest;
      query.most = most_edits(spec_.metric, spec_.type, query.limit, query.length(), block.longest);
    }
    const std::int64_t least = std::max(block.shortest - query.length(), query.length() - block.longest);
    return query.most < least ? -1 : query.most;
  }

  /// Hands over hits of more than `above` edits.
  std::int64_t take(const Query& query, const Block& block, const WordHits& hits, std::int64_t above) const {
    std::int64_t taken = 0;
    for (int i = 0; i < hits.count; ++i) {
      if (hits.distance[i] <= above) continue;
      const std::int64_t at = block.first + hits.lane[i];
      query.pool->take(string_key(spec_.metric, spec_.type, hits.distance[i], query.length(), corpus_.length(at)),
                       corpus_.row(at));
      ++taken;
    }
    return taken;
  }

  std::int64_t at_once(const Query& query, const Block& block, const WordBlock& words, std::int64_t most,
                       WordHits& hits) const {
    const Myers& myers = *block.myers;
    const MyersFn near = block.width == 8    ? myers.near8
                         : block.width == 16 ? myers.near16
                         : block.width == 32 ? myers.near32
                                             : myers.near64;
    near({.block = &words, .query = query.codes.data(), .letters = query.length(), .limit = most, .hits = &hits});
    return take(query, block, hits, -1);
  }

  /// Where everything is still wanted, a small number of edits is tried
  /// first: similar texts then cost their length, not its square.
  std::int64_t by_strips(Query& query, const Block& block, const WordBlock& words, Masks& masks) {
    std::int64_t taken = 0, done = -1;
    for (std::int64_t limit = block.strips < strips_to_speculate ? INT64_MAX : strip_letters;;
         limit = limit > INT64_MAX / 4 ? limit : limit * 4) {
      const std::int64_t most = wanted(query, block);
      if (most <= done) return taken;
      const std::int64_t tried = std::min(limit, most);
      if (run_strips(query, block, words, masks, tried)) taken += take(query, block, masks.hits, done);
      done = tried;
      if (masks.hits.count == block.words) return taken;
    }
  }

  bool run_strips(const Query& query, const Block& block, const WordBlock& words, Masks& masks, std::int64_t limit) {
    std::int64_t band[2] = {0, 0};
    const std::int64_t piece = std::max<std::int64_t>(1, steps_at_once / block.strips);
    StripsArgs args{.block = &words,
                    .query = query.codes.data(),
                    .letters = query.length(),
                    .from = 0,
                    .to = 0,
                    .limit = limit,
                    .shortest = block.shortest,
                    .longest = block.longest,
                    .state = masks.state(block.strips * block.myers->strip_bytes),
                    .band = band,
                    .hits = &masks.hits};
    for (bool more = true; more; more = args.to < args.letters) {
      args.from = args.to;
      args.to = std::min(args.letters, args.from + piece);
      if (!block.myers->strips(args)) return false;
      thread_pool_.poll(0);
    }
    return true;
  }

  const StringSearchSpec& spec_;
  const StringSet &corpus_, &queries_;
  Blocks blocks_;
  ThreadPool& thread_pool_;
  std::vector<Masks> masks_;
  std::vector<Windows> windows_;
};

}  // namespace

std::unique_ptr<Scanner> open_edits(const StringSearchSpec& spec, const Myers& myers, ThreadPool& thread_pool) {
  return std::make_unique<EditScanner>(spec, myers, thread_pool);
}

std::int64_t edits_bytes(const StringSizes& sizes, const Myers& myers, int threads) {
  // Whatever lengths there are: lanes of blocks hold 8 words of 8 bits for each byte, and most blocks are full.
  const std::int64_t blocks = (sizes.rows + sizes.longest / strip_letters + 8) *
                              static_cast<std::int64_t>(2 * sizeof(Block)) / (myers.block_bytes / 8);
  const std::int64_t strips = strips_of(sizes.longest), symbols = sizes.alphabet;
  const std::int64_t one_strip = mask_bytes(myers, symbols, 1);
  const std::int64_t masks = strips == 1
                                 ? one_strip
                                 : std::max({one_strip, std::min(most_mask_bytes, mask_bytes(myers, symbols, strips)),
                                             mask_bytes(myers_plain, symbols, strips)});
  const std::int64_t windows = most_window_bytes + (symbols + 1) * 12;
  const std::int64_t state = strips > 1 ? strips * myers.strip_bytes : 0;
  return 2 * blocks + threads * (windows + masks + masks / 2 + state + (symbols + 1) * 12 + myers.block_bytes +
                                 static_cast<std::int64_t>(sizeof(Masks)));
}

}  // namespace vicinal::cpu
