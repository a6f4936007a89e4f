// Edits between a group of queries and the corpus. Words of neighbouring lengths make blocks (myers.hpp); a block's masks are
// built once for all queries of the group. Blocks come in the order in which their lengths leave those of the group, and a query
// skips a block whose lengths alone are too many edits away from its own, so most of the corpus is never looked at.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/string_metric.hpp"
#include "core/text.hpp"
#include "cpu/strings/scanner.hpp"
#include "cpu/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int strip_letters = 64;
constexpr std::int64_t most_mask_bytes = std::int64_t{8} << 20;  // beyond, a block of long words is a single word
constexpr std::int64_t steps_at_once = 4'000'000;                // strips times letters between looks at the clock
constexpr std::int64_t strips_to_guess = 8;                      // below, all strips cost less than trying a few

std::int64_t strips_of(std::int64_t length) {
  return std::max<std::int64_t>(1, (length + strip_letters - 1) / strip_letters);
}

/// Bits of the narrowest lane for a word, and what words of one block share: width and strips.
int width_of(std::int64_t length, const Myers& myers) {
  int width = myers.narrowest;
  while (width < 64 && width < length) width *= 2;
  return width;
}

struct Block {
  std::int64_t first;
  int words, width;
  std::int64_t shortest, longest, strips;
  const Myers* myers;
  int parts = 0;  // of a band: blocks after it that are the same words in lanes as wide as they are
};

// Words of one length, as many as a band has lanes: at least half of them, else it is left to wider ones.
constexpr std::int64_t most_window_bytes = std::int64_t{512} << 10;
std::int64_t window_rows(std::int64_t length) {
  return length + 2 * band_bits;
}  // first letters from -15 to beyond the end

std::int64_t mask_bytes(const Myers& myers, std::int64_t symbols, std::int64_t strips) {
  return (symbols + 1) * strips * myers.block_bytes;
}

class Blocks {
 public:
  Blocks(const StringSet& set, const Myers& myers, std::int64_t alphabet) {
    for (std::int64_t at = 0; at < set.count();) {
      const std::size_t head = list_.size();
      heads_.push_back(head);
      const std::int64_t end = end_of_band(set, myers, alphabet, at);
      if (end > at)
        list_.push_back({at, static_cast<int>(end - at), band_bits, set.length(at), set.length(at), 1, &myers});
      do at = append(set, myers, alphabet, at, end > at ? end : set.count());
      while (at < end);
      list_[head].parts = static_cast<int>(list_.size() - head) - 1;
    }
  }
  /// Blocks that are not parts of others.
  std::size_t count() const noexcept { return heads_.size(); }
  const Block* at(std::size_t i) const noexcept { return &list_[heads_[i]]; }

 private:
  /// Where the words of a band end that begins at `at`; `at` itself if there is none.
  static std::int64_t end_of_band(const StringSet& set, const Myers& myers, std::int64_t alphabet, std::int64_t at) {
    const std::int64_t length = set.length(at), lanes = myers.block_bytes * 8 / band_bits;
    if (myers.band == nullptr || length <= band_bits) return at;
    if ((alphabet + 1) * window_rows(length) * myers.block_bytes > most_window_bytes) return at;
    const std::int64_t end = std::min(at + lanes, set.first_of_length(length + 1));
    return end - at < lanes / 2 ? at : end;
  }

  /// One block from `at`, in lanes as wide as its words; returns where it ends.
  std::int64_t append(const StringSet& set, const Myers& myers, std::int64_t alphabet, std::int64_t at,
                      std::int64_t until) {
    const std::int64_t length = set.length(at), strips = strips_of(length);
    const int width = width_of(length, myers);
    const bool single = strips > 1 && mask_bytes(myers, alphabet, strips) > most_mask_bytes;
    const Myers& with = single ? myers_plain : myers;
    const std::int64_t longest = strips > 1 ? strips * strip_letters : width;
    const std::int64_t end = std::min({until, at + with.block_bytes * 8 / width, set.first_of_length(longest + 1)});
    list_.push_back({at, static_cast<int>(end - at), width, length, set.length(end - 1), strips, &with});
    return end;
  }
  std::vector<Block> list_;
  std::vector<std::size_t> heads_;
};

/// Memory of one worker for bands: windows of the letters of a block's words.
class Windows {
 public:
  explicit Windows(std::int64_t alphabet) : row_(static_cast<std::size_t>(alphabet) + 1, 0) {}

  void build(const StringSet& set, const Block& block) {
    const std::int64_t letters = block.longest, row_bytes = block.myers->block_bytes,
                       symbol_bytes = window_rows(letters) * row_bytes;
    for (const std::uint32_t code : used_) row_[code] = 0;
    used_.clear();
    for (int lane = 0; lane < block.words; ++lane)
      set.with_codes(block.first + lane, [&](const auto* codes) {
        for (std::int64_t i = 0; i < letters; ++i) {
          if (row_[codes[i]] != 0) continue;
          used_.push_back(codes[i]);
          row_[codes[i]] = used_.size() * static_cast<std::uint64_t>(symbol_bytes);
        }
      });
    const std::int64_t bytes = (static_cast<std::int64_t>(used_.size()) + 1) * symbol_bytes;
    if (windows_.size() < bytes) windows_ = Buffer<std::byte>(bytes);
    std::memset(windows_.data(), 0, static_cast<std::size_t>(bytes));
    for (int lane = 0; lane < block.words; ++lane)
      set.with_codes(block.first + lane, [&](const auto* codes) {
        std::byte* const letter = windows_.data() + (band_bits - 1) * row_bytes + lane * 2;
        for (std::int64_t i = 0; i < letters; ++i)
          letter[row_[codes[i]] + static_cast<std::uint64_t>(i * row_bytes)] = std::byte{1};
      });
    for (const std::uint32_t code : used_) block.myers->windows(windows_.data() + row_[code], window_rows(letters));
  }
  const std::byte* data() const noexcept { return windows_.data(); }
  const std::uint64_t* rows() const noexcept { return row_.data(); }

 private:
  std::vector<std::uint64_t> row_;
  std::vector<std::uint32_t> used_;
  Buffer<std::byte> windows_;
};

/// Memory of one worker: the masks of a block, and the state of a query on its way through strips.
class Masks {
 public:
  explicit Masks(std::int64_t alphabet) : row_(static_cast<std::size_t>(alphabet) + 1, 0) {}

  const WordBlock& build(const StringSet& set, const Block& block) {
    const std::int64_t row_bytes = block.strips * block.myers->block_bytes;
    for (const std::uint32_t code : used_) row_[code] = 0;
    used_.clear();
    reserve(0, row_bytes);
    std::memset(masks_.data(), 0, static_cast<std::size_t>(row_bytes));
    if (lengths_.size() < block.myers->block_bytes) lengths_ = Buffer<std::byte>(block.myers->block_bytes);
    std::memset(lengths_.data(), 0, static_cast<std::size_t>(block.myers->block_bytes));
    const std::int64_t* const offsets = set.offsets() + block.first;
    set.with_codes(block.first, [&](const auto* codes) {
      find_rows(codes, codes + (offsets[block.words] - offsets[0]), row_bytes);
    });
    for (int lane = 0; lane < block.words; ++lane) {
      const std::int64_t at = block.first + lane, length = set.length(at),
                         in_lane = static_cast<std::int64_t>(lane) * block.width / 8;
      set.with_codes(at, [&](const auto* codes) {
        for (std::int64_t first = 0; first < length; first += strip_letters)
          set_letters(codes + first, static_cast<int>(std::min<std::int64_t>(strip_letters, length - first)),
                      row_.data(), masks_.data() + in_lane + first / strip_letters * block.myers->block_bytes);
      });
      const int in_last = static_cast<int>(length - (block.strips - 1) * strip_letters);
      for (int i = 0; i < in_last; i += 8)
        lengths_[in_lane + i / 8] = static_cast<std::byte>(in_last - i >= 8 ? 255 : (1 << (in_last - i)) - 1);
    }
    block_ = {masks_.data(), lengths_.data(), row_.data(), block.width, block.words, block.strips};
    return block_;
  }
  std::byte* state(std::int64_t bytes) {
    if (state_.size() < bytes) state_ = Buffer<std::byte>(bytes);
    return state_.data();
  }
  WordHits hits;

 private:
  template <class Code>
  VICINAL_APART void find_rows(const Code* codes, const Code* end, std::int64_t row_bytes) {
    std::uint64_t* const rows = row_.data();
    for (; codes != end; ++codes)
      if (rows[*codes] == 0) rows[*codes] = new_row(*codes, row_bytes);
  }
  /// Bits 0..letters-1 of one lane of one strip, in the rows of the symbols.
  template <class Code>
  VICINAL_APART static void set_letters(const Code* codes, int letters, const std::uint64_t* rows, std::byte* lane) {
    for (int first = 0; first < letters; first += 8, ++lane)
      for (int i = first; i < std::min(first + 8, letters); ++i)
        lane[rows[codes[i]]] |= static_cast<std::byte>(1u << (i - first));
  }
  std::uint64_t new_row(std::uint32_t code, std::int64_t row_bytes) {
    used_.push_back(code);
    const std::int64_t offset = static_cast<std::int64_t>(used_.size()) * row_bytes;
    reserve(offset, offset + row_bytes);
    std::memset(masks_.data() + offset, 0, static_cast<std::size_t>(row_bytes));
    return static_cast<std::uint64_t>(offset);
  }
  void reserve(std::int64_t used, std::int64_t bytes) {
    if (masks_.size() >= bytes) return;
    Buffer<std::byte> more(std::max(bytes, masks_.size() + masks_.size() / 2));
    if (used > 0) std::memcpy(more.data(), masks_.data(), static_cast<std::size_t>(used));
    masks_ = std::move(more);
  }
  std::vector<std::uint64_t> row_;
  std::vector<std::uint32_t> used_;
  Buffer<std::byte> masks_, lengths_, state_;
  WordBlock block_{};
};

class EditScanner final : public Scanner {
 public:
  EditScanner(const StringQuestion& question, const Myers& myers, Team& team)
      : question_(question), corpus_(question.corpus), queries_(question.queries),
        blocks_(corpus_, myers, question.alphabet.size()), team_(team) {
    for (int worker = 0; worker < team.threads(); ++worker) {
      masks_.emplace_back(question.alphabet.size());
      windows_.emplace_back(question.alphabet.size());
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
      team_.tick(static_cast<std::uint64_t>(block->words) * queries.size());
    }
    return counts;
  }

 private:
  struct Query {
    std::vector<std::uint32_t> codes;
    Pool* pool;
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
      query.most = most_edits(question_.metric, question_.type, query.limit, query.length(), block.longest);
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
      query.pool->take(
          string_key(question_.metric, question_.type, hits.distance[i], query.length(), corpus_.length(at)),
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

  /// Where everything is still wanted, a small number of edits is tried first: similar texts then cost their length, not its square.
  std::int64_t by_strips(Query& query, const Block& block, const WordBlock& words, Masks& masks) {
    std::int64_t taken = 0, done = -1;
    for (std::int64_t limit = block.strips < strips_to_guess ? INT64_MAX : strip_letters;; limit *= 4) {
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
      team_.tick(0);
    }
    return true;
  }

  const StringQuestion& question_;
  const StringSet &corpus_, &queries_;
  Blocks blocks_;
  Team& team_;
  std::vector<Masks> masks_;
  std::vector<Windows> windows_;
};

}  // namespace

std::unique_ptr<Scanner> open_edits(const StringQuestion& question, const Myers& myers, Team& team) {
  return std::make_unique<EditScanner>(question, myers, team);
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
