// Our own selection on the CPU: one pass that reads memory at the speed of memory. A threshold estimated from a sample
// of the row lets only a few times k values through; when many have come the k-th smallest of them becomes the
// threshold, exactly. An estimate that was too low shows (fewer than k came) and costs a second pass without one.
// docs/design/0012-threshold-selection.md.
#include "cpu/select/threshold.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/divide.hpp"
#include "core/nth.hpp"
#include "core/parallel.hpp"
#include "cpu/select/output.hpp"
#include "select/ordered.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t piece = std::int64_t{1} << 20;          // values between two looks at the stop token
constexpr std::int64_t strided_piece = std::int64_t{1} << 13;  // values that are copied side by side first
constexpr std::int64_t hits_a_scan = 1024;                     // hits of one call of a scan
constexpr std::int64_t sample_lines = 64;                      // in which a sample of a row is read

/// Key and position packed into 64 bits, where both fit; else two numbers.
struct Packed {
  std::uint64_t packed_key;
  static Packed of(std::uint64_t key, std::uint64_t position) { return {key << 32 | position}; }
  std::uint64_t key() const { return packed_key >> 32; }
  std::int64_t position() const { return static_cast<std::int64_t>(packed_key & 0xffffffffu); }
  friend bool operator<(const Packed& a, const Packed& b) { return a.packed_key < b.packed_key; }
};
struct Wide {
  std::uint64_t key_, position_;
  static Wide of(std::uint64_t key, std::uint64_t position) { return {key, position}; }
  std::uint64_t key() const { return key_; }
  std::int64_t position() const { return static_cast<std::int64_t>(position_); }
  friend bool operator<(const Wide& a, const Wide& b) { return before_pair(a.key_, a.position_, b.key_, b.position_); }
};

constexpr int bucket_bits = 10;
constexpr std::int64_t buckets = std::int64_t{1} << bucket_bits;
constexpr std::int64_t few = 256;  // what the standard library does as quickly

/// Where the words of [lowest, highest] fall when their range is cut into equal buckets.
struct Cut {
  std::uint64_t lowest;
  int shift;
  Cut(std::uint64_t low, std::uint64_t high)
      : lowest(low), shift(std::max(0, static_cast<int>(std::bit_width(high - low)) - bucket_bits)) {}
  std::size_t of(std::uint64_t packed_key) const { return static_cast<std::size_t>((packed_key - lowest) >> shift); }
};

Cut cut_of(std::span<const Packed> items) {
  std::uint64_t low = items[0].packed_key, high = low;
  for (const Packed& item : items) low = std::min(low, item.packed_key), high = std::max(high, item.packed_key);
  return {low, high};
}

template <class Item>
void bring_smallest(std::span<Item> items, std::int64_t k) {
  select_nth(items.data(), items.data() + (k - 1), items.data() + items.size(),
             [](const Item& a, const Item& b) { return a < b; });
}

/// Moves the k smallest to the front, in no order; returns the largest of them.
Wide keep_smallest(std::span<Wide> items, std::int64_t k, std::vector<Wide>& /*scratch*/) {
  bring_smallest(items, k);
  return items[static_cast<std::size_t>(k - 1)];
}
/// By counting how many fall into each bucket: only that of the k-th is looked into.
Packed keep_smallest(std::span<Packed> items, std::int64_t k, std::vector<Packed>& scratch) {
  if (std::ssize(items) <= few) {
    bring_smallest(items, k);
    return items[static_cast<std::size_t>(k - 1)];
  }
  const Cut cut = cut_of(items);
  std::uint32_t counts[buckets] = {};
  for (const Packed& item : items) ++counts[cut.of(item.packed_key)];
  std::int64_t wanted = k;
  std::size_t bucket = 0;
  for (; wanted > counts[bucket]; ++bucket) wanted -= counts[bucket];
  scratch.clear();
  for (const Packed& item : items)
    if (cut.of(item.packed_key) == bucket) scratch.push_back(item);
  bring_smallest(std::span<Packed>(scratch), wanted);
  const Packed last = scratch[static_cast<std::size_t>(wanted - 1)];
  std::size_t kept = 0;
  for (const Packed item : items) {
    if (kept == static_cast<std::size_t>(k)) break;
    items[kept] = item;  // in place: what is read lies at or after what is written
    kept += item.packed_key <= last.packed_key ? 1 : 0;
  }
  return last;
}

void sort_all(std::span<Wide> items, std::vector<Wide>& /*scratch*/) { std::sort(items.begin(), items.end()); }
/// Dealt into buckets in order, which leaves little to sort inside them.
void sort_all(std::span<Packed> items, std::vector<Packed>& scratch) {
  if (std::ssize(items) <= few / 4) return std::sort(items.begin(), items.end());
  const Cut cut = cut_of(items);
  std::uint32_t ends[buckets + 1] = {};
  for (const Packed& item : items) ++ends[cut.of(item.packed_key) + 1];
  for (std::int64_t i = 0; i < buckets; ++i) ends[i + 1] += ends[i];
  scratch.assign(items.begin(), items.end());
  for (const Packed& item : scratch) items[ends[cut.of(item.packed_key)]++] = item;
  for (std::uint32_t bucket = 0, begin = 0; bucket < buckets; begin = ends[bucket++]) {
    if (ends[bucket] - begin < 2) continue;
    std::sort(items.begin() + begin, items.begin() + ends[bucket]);
  }
}

/// One thread's scratch and the selection of one segment of a row.
template <ValueType T, class Pair>
class Selector {
 public:
  using Bits = typename ValueBits<T>::type;

  Selector(const Scans& scans, const SelectProblem& problem, const RowReader& reader)
      : scan_(scans.scan[static_cast<int>(T)]), problem_(problem), reader_(reader), k_(problem.k),
        most_(4 * problem.k + 256), pool_(most_ + hits_a_scan), bits_(hits_a_scan), positions_(hits_a_scan),
        copied_(reader.in_place() ? 0 : strided_piece) {}

  /// The k smallest of values [begin, end) of a row, in no order; k at most their number.
  std::span<Pair> select(std::int64_t row, std::int64_t begin, std::int64_t end, ThreadPool& thread_pool) {
    if (end - begin >= 8 * most_) {
      estimate_threshold(row, begin, end);
      if (pass(row, begin, end, thread_pool)) return best();
    }
    start(row, begin, std::min(end, begin + most_));
    if (candidate_count_ == most_ && tighten()) pass(row, begin + most_, end, thread_pool);
    return best();
  }
  std::vector<Pair>& scratch() { return scratch_; }

 private:
  /// The k smallest of the candidates.
  std::span<Pair> best() {
    if (candidate_count_ > k_) keep_smallest(candidates(), k_, scratch_);
    return {pool_.data(), static_cast<std::size_t>(k_)};
  }
  std::span<Pair> candidates() { return {pool_.data(), static_cast<std::size_t>(candidate_count_)}; }

  void append(Bits bits, std::int64_t position) {
    pool_[candidate_count_++] = Pair::of(ordered<T>(bits, problem_.largest), static_cast<std::uint64_t>(position));
  }

  const Bits* read(std::int64_t row, std::int64_t begin, std::int64_t count) {
    if (reader_.in_place()) return reinterpret_cast<const Bits*>(reader_.at(row, begin));
    reader_.copy(row, begin, count, copied_.data());
    return copied_.data();
  }

  /// Holds all of [begin, end), which fits.
  void start(std::int64_t row, std::int64_t begin, std::int64_t end) {
    candidate_count_ = 0;
    for (std::int64_t at = begin; at < end; at += strided_piece) {
      const std::int64_t count = std::min(strided_piece, end - at);
      const Bits* values = read(row, at, count);
      for (std::int64_t i = 0; i < count; ++i) append(values[i], at + i);
    }
  }

  /// Sets the threshold to a value before which, going by a sample, more than k values of the row lie.
  void estimate_threshold(std::int64_t row, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin,
                       line = std::clamp<std::int64_t>(k_ / 16, 16, strided_piece);  // side by side
    // The rank in the sample whose chance of lying below the k-th of the row is about one in a thousand.
    const double expected =
        static_cast<double>(k_) * static_cast<double>(sample_lines * line) / static_cast<double>(count);
    const auto rank = static_cast<std::int64_t>(expected + 3 * std::sqrt(expected) + 3);
    candidate_count_ = 0;
    // A segment from each equal part of the row, at a position that a hash draws: sorted and periodic rows are no trap.
    const auto line_at = [&](std::int64_t i) {
      const std::int64_t from = count * i / sample_lines, spare = count * (i + 1) / sample_lines - line - from;
      const std::uint64_t hash = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
      return begin + from + static_cast<std::int64_t>((hash >> 32) * static_cast<std::uint64_t>(spare) >> 32);
    };
    if (reader_.in_place())
      for (std::int64_t i = 0; i < sample_lines; ++i) __builtin_prefetch(reader_.at(row, line_at(i)));
    for (std::int64_t i = 0; i < sample_lines; ++i) {
      const Bits* values = read(row, line_at(i), line);
      for (std::int64_t j = 0; j < line; ++j) append(values[j], candidate_count_);
    }
    threshold_ = threshold_at(static_cast<Bits>(keep_smallest(candidates(), rank, scratch_).key()));
    candidate_count_ = 0;
  }

  /// The largest threshold that lets values of this key through, and no NaN.
  static Bits threshold_at(Bits key) {
    return key == static_cast<Bits>(~Bits{0}) && is_float ? ordered<T>(infinity, false) : key;
  }
  /// The largest threshold before this key. False: nothing comes before it.
  bool threshold_before(Bits key) {
    if (key == 0) return false;
    threshold_ = threshold_at(key) != key ? threshold_at(key) : static_cast<Bits>(key - 1);
    if (is_float && !problem_.largest && threshold_ == static_cast<Bits>(~sign))
      --threshold_;  // no threshold lies between the zeros
    return true;
  }

  /// Only what comes before the k-th smallest candidate can still matter: positions grow.
  bool tighten() {
    const Pair last = keep_smallest(candidates(), k_, scratch_);
    candidate_count_ = k_;
    return threshold_before(static_cast<Bits>(last.key()));
  }

  /// Goes through [begin, end) with the threshold; false if fewer than k are candidates in the end.
  bool pass(std::int64_t row, std::int64_t begin, std::int64_t end, ThreadPool& thread_pool) {
    const std::int64_t longest = reader_.in_place() ? piece : strided_piece;
    std::int64_t untold = 0;
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t count = std::min(longest, end - at);
      const Bits* values = read(row, at, count);
      for (std::int64_t done = 0; done < count;) {
        const Scanned scanned = scan_(
            {values + done, count - done, threshold_, problem_.largest, bits_.data(), positions_.data(), hits_a_scan});
        for (std::int64_t i = 0; i < scanned.hits; ++i) append(bits_[i], at + done + positions_[i]);
        done += scanned.values;
        if (candidate_count_ >= most_ && !tighten()) return true;
      }
      at += count;
      if ((untold += count) >= piece) {
        thread_pool.poll(0);  // to hear that it shall stop; what is done is told by rows
        untold = 0;
      }
    }
    return candidate_count_ >= k_;
  }

  static constexpr bool is_float = is_floating_point(T);
  static constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  static constexpr Bits infinity = static_cast<Bits>(T == ValueType::f32   ? 0x7f800000u
                                                     : T == ValueType::f64 ? 0x7ff0000000000000u
                                                     : T == ValueType::f16 ? 0x7c00u
                                                                           : 0x7f80u);

  ScanFn scan_;
  const SelectProblem& problem_;
  const RowReader& reader_;
  std::int64_t k_, most_;  // tightened when most_ are candidates
  Buffer<Pair> pool_;
  std::int64_t candidate_count_ = 0;
  Bits threshold_ = 0;
  Buffer<Bits> bits_;
  Buffer<std::uint32_t> positions_;
  Buffer<Bits> copied_;
  std::vector<Pair> scratch_;
};

template <ValueType T, class Pair>
void write(const SelectProblem& problem, const RowWriter& out, std::int64_t row, std::span<Pair> best,
           std::vector<Pair>& scratch) {
  using Bits = typename ValueBits<T>::type;
  if (problem.sorted) sort_all(best, scratch);
  for (std::int64_t rank = 0; rank < problem.k; ++rank) {
    const Pair& pair = best[static_cast<std::size_t>(rank)];
    const auto key = static_cast<Bits>(pair.key());
    if (keeps_bits<T>(key, problem.largest)) {
      const Bits bits = unordered<T>(key, problem.largest);
      out.write(row, rank, pair.position(), &bits);
    } else {
      out.write(row, rank, pair.position());
    }
  }
}

/// Rows to threads, several at once where they are short.
template <ValueType T, class Pair>
void select_rows(const SelectProblem& problem, const Scans& scans, ThreadPool& thread_pool) {
  const RowReader reader(problem.values);
  const RowWriter out(problem);
  std::vector<std::unique_ptr<Selector<T, Pair>>> selectors(static_cast<std::size_t>(thread_pool.threads()));
  const std::int64_t rows = problem.values.rows, cols = problem.values.cols;
  const std::int64_t together =
      std::clamp<std::int64_t>((piece >> 3) / cols, 1, std::max<std::int64_t>(rows / (4 * thread_pool.threads()), 1));
  thread_pool.for_each(divide_up(rows, together), [&](std::int64_t index, int worker) {
    auto& selector = selectors[static_cast<std::size_t>(worker)];
    if (selector == nullptr) selector = std::make_unique<Selector<T, Pair>>(scans, problem, reader);
    const std::int64_t first = index * together, last = std::min(rows, first + together);
    for (std::int64_t row = first; row < last; ++row)
      write<T, Pair>(problem, out, row, selector->select(row, 0, cols, thread_pool), selector->scratch());
    thread_pool.poll(static_cast<std::uint64_t>((last - first) * cols));
  });
}

/// Fewer rows than threads: each row in parts, whose k smallest are then put together.
template <ValueType T, class Pair>
void select_parts(const SelectProblem& problem, const Scans& scans, ThreadPool& thread_pool, std::int64_t parts) {
  const RowReader reader(problem.values);
  const RowWriter out(problem);
  std::vector<std::unique_ptr<Selector<T, Pair>>> selectors(static_cast<std::size_t>(thread_pool.threads()));
  const std::int64_t cols = problem.values.cols, k = problem.k;
  Buffer<Pair> all(parts * k);
  std::vector<Pair> scratch;
  for (std::int64_t row = 0; row < problem.values.rows; ++row) {
    thread_pool.for_each(parts, [&](std::int64_t part, int worker) {
      auto& selector = selectors[static_cast<std::size_t>(worker)];
      if (selector == nullptr) selector = std::make_unique<Selector<T, Pair>>(scans, problem, reader);
      const std::span<Pair> best =
          selector->select(row, cols / parts * part, part + 1 == parts ? cols : cols / parts * (part + 1), thread_pool);
      std::copy(best.begin(), best.end(), all.data() + part * k);
      thread_pool.poll(static_cast<std::uint64_t>(cols / parts));
    });
    keep_smallest(std::span<Pair>(all.data(), static_cast<std::size_t>(parts * k)), k, scratch);
    write<T, Pair>(problem, out, row, {all.data(), static_cast<std::size_t>(k)}, scratch);
  }
}

template <ValueType T, class Pair>
void run(const SelectProblem& problem, const Scans& scans, ThreadPool& thread_pool) {
  const std::int64_t parts = std::min<std::int64_t>(
      4 * thread_pool.threads(), problem.values.cols / std::max<std::int64_t>(8 * problem.k, piece / 4));
  if (problem.values.rows < 2 * thread_pool.threads() && thread_pool.threads() > 1 && parts > 1)
    select_parts<T, Pair>(problem, scans, thread_pool, parts);
  else select_rows<T, Pair>(problem, scans, thread_pool);
}

}  // namespace

void select_threshold(const SelectProblem& problem, const Scans& scans, ThreadPool& thread_pool) {
  with_type(problem.values.type, [&]<ValueType T>() {
    if constexpr (sizeof(typename ValueBits<T>::type) < 8) {
      if (problem.values.cols <= std::int64_t{1} << 32) return run<T, Packed>(problem, scans, thread_pool);
    }
    return run<T, Wide>(problem, scans, thread_pool);
  });
}

}  // namespace vicinal::cpu
