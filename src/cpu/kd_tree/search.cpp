// See search.hpp.
#include "cpu/kd_tree/search.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "core/canonical.hpp"
#include "core/divide.hpp"
#include "cpu/kd_tree/load.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t queries_at_once = 32;  // a piece of work
constexpr std::int64_t placed_at_once = 1024;
constexpr int visits_a_poll = 256;

/// One query at a time down the tree.
class Walk {
 public:
  explicit Walk(const SearchBatch& batch)
      : spec_(batch.spec), chunk_(batch.chunk), tree_(chunk_.kd_tree), thread_pool_(batch.thread_pool),
        node_(tree_.width * KdTree::fan) {
    const std::size_t width = tree_.width == 2 ? 0 : tree_.width == 4 ? 1 : 2;
    const Sum sum = filter_sum_of(spec_.metric);
    rows_ = batch.kernels.near_rows[width].of(sum);
    boxes_ = batch.kernels.near_boxes[width].of(sum);
    insert_ = batch.kernels.insert_nearest;
    least_ = batch.kernels.least_lanes;
    metric_row_ = row_of(spec_.metric);
  }

  void search(const double* query, std::int64_t number, QueryResult& result) {
    query_ = query;
    number_ = number;
    result_ = &result;
    threshold_sum_ = sum_of_key(result.matches != nullptr ? result.threshold_key : result.pool.worst.key);
    visited_ = 0;
    in_registers_ = result.matches == nullptr && result.pool.k > 0 && result.pool.k <= NearestFew::most;
    if (in_registers_) load_nearest();
    if (!tree_.levels.empty()) descend(static_cast<int>(tree_.levels.size()) - 1, 0);
    result.passed += visited_;
    result.ranked += visited_;
    if (result.matches != nullptr) return;
    if (in_registers_) store_nearest();
    if (result.pool.k > most_sorted) result.pool.trim();
    result.threshold_key = result.pool.worst.key;
  }

 private:
  double sum_of_key(double key) const noexcept { return reach_of(spec_.metric, spec_.type, key); }
  void descend(int level, std::int64_t node) {
    const KdTree::Level& boxes = tree_.levels[static_cast<std::size_t>(level)];
    alignas(64) double sums[KdTree::fan];
    const std::int64_t used = std::min(KdTree::fan, boxes.count - node * KdTree::fan);
    std::uint32_t near =
        boxes_({query_, boxes.low.data() + node * node_, boxes.high.data() + node * node_, threshold_sum_, sums});
    near &= 0xFFFFFFFFu >> (KdTree::fan - used);
    std::fill(sums + used, sums + KdTree::fan, infinite);
    while (near != 0) {
      // Boxes that were not near are farther than those that were; one that was visited is infinitely far from here on.
      const int nearest = std::countr_zero(least_(sums) & near);
      if (sums[nearest] > threshold_sum_) return;
      near &= ~(1u << nearest);
      sums[nearest] = infinite;
      const std::int64_t child = node * KdTree::fan + nearest;
      level == 0 ? rank(child) : descend(level - 1, child);
    }
    poll_seldom();
  }
  /// Polls now and then: asking takes longer than a node.
  void poll_seldom() {
    if (++unpolled_ < visits_a_poll) return;
    unpolled_ = 0;
    thread_pool_.poll(0);
  }

  void rank(std::int64_t leaf) {
    alignas(64) double sums[KdTree::fan];
    const std::int64_t begin = leaf * KdTree::fan, used = std::min(KdTree::fan, tree_.count - begin);
    visited_ += used;
    std::uint32_t near = rows_({query_, tree_.rows.data() + leaf * node_, nullptr, threshold_sum_, sums});
    near &= 0xFFFFFFFFu >> (KdTree::fan - used);
    if (near == 0) return;
    if (in_registers_) return insert(near, begin, sums);
    for (; near != 0; near &= near - 1) {
      const int lane = std::countr_zero(near);
      if (sums[lane] > threshold_sum_) continue;
      const std::int64_t row = chunk_.first + tree_.order[begin + lane];
      if (spec_.filter.allows(number_, row)) take({key_of(sums[lane]), spec_.first_id + row});
    }
    Pool& pool = result_->pool;
    if (result_->matches != nullptr || pool.k <= most_sorted) return;
    pool.tighten();
    threshold_sum_ = sum_of_key(pool.worst.key);
  }

  double key_of(double sum) const noexcept {
    return fold_key(canonical_value(metric_row_, sum, 0, 0), spec_.type, false);
  }

  /// The same of few, whose pool is a list in registers while the query goes down the tree.
  void insert(std::uint32_t near, std::int64_t begin, const double* sums) {
    double keys[KdTree::fan], rows[KdTree::fan];
    int count = 0;
    for (; near != 0; near &= near - 1) {
      const int lane = std::countr_zero(near);
      const std::int64_t row = chunk_.first + tree_.order[begin + lane];
      keys[count] = key_of(sums[lane]);
      rows[count] = static_cast<double>(row);
      count += spec_.filter.allows(number_, row) ? 1 : 0;
    }
    insert_({keys, rows, count, &nearest_});
    threshold_sum_ = sum_of_key(nearest_.keys[result_->pool.k - 1]);
  }
  void load_nearest() noexcept {
    const Pool& pool = result_->pool;
    for (int i = 0; i < NearestFew::most; ++i) {
      const bool present = i < pool.count;
      nearest_.keys[i] = present ? pool.entries[i].key : infinite;
      nearest_.rows[i] = present ? static_cast<double>(pool.entries[i].id - spec_.first_id) : NearestFew::no_row;
    }
  }
  void store_nearest() noexcept {
    Pool& pool = result_->pool;
    pool.count = 0;
    for (std::int64_t i = 0; i < pool.k && nearest_.rows[i] != NearestFew::no_row; ++i)
      pool.entries[pool.count++] = {nearest_.keys[i], spec_.first_id + static_cast<std::int64_t>(nearest_.rows[i])};
    if (pool.full()) pool.worst = pool.entries[pool.k - 1];
  }

  void take(const Entry& entry) {
    Pool& pool = result_->pool;
    if (result_->matches != nullptr) return result_->matches->take({&entry, 1});
    pool.take(entry);
    if (pool.k <= most_sorted) threshold_sum_ = sum_of_key(pool.worst.key);
  }

  const SearchSpec& spec_;
  const PackedRows& chunk_;
  const KdTree& tree_;
  ThreadPool& thread_pool_;
  const std::int64_t node_;  // doubles of a node or leaf
  NearFn rows_, boxes_;
  InsertFn insert_;
  LeastFn least_;
  MetricRow metric_row_;
  NearestFew nearest_;
  bool in_registers_ = false;  // nearest_ has the query's nearest, and its pool has them later
  const double* query_ = nullptr;
  std::int64_t number_ = 0;
  QueryResult* result_ = nullptr;
  double threshold_sum_ = infinite;  // a canonical sum: rows and boxes beyond it are skipped
  std::int64_t visited_ = 0;
  int unpolled_ = 0;
};

}  // namespace

void KdTreeQueries::prepare(const Kernels& kernels, const SearchSpec& spec, const Points& queries,
                            const QueryRows& rows, ThreadPool& thread_pool) {
  const std::int64_t dims = queries.cols, count = static_cast<std::int64_t>(rows.size());
  Buffer<double> points(count * dims);
  load_finite(
      kernels, spec, queries, "query", count, [&](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; },
      thread_pool, points.data());
  Buffer<std::uint32_t> order(count);
  (dims <= most_cell_dims ? cell_order : kd_tree_order)(points.data(), count, dims, thread_pool, order.data());
  width_ = kd_tree_width(dims);
  grow(points_, count * width_);
  count_ = rows.size();
  rows_are_given_ = rows.adjacent() && rows.front() == 0;
  grow(given_, count);
  if (!rows_are_given_) grow(rows_, count);
  thread_pool.for_runs(count, placed_at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t from = order[i];
      given_[i] = from;
      if (!rows_are_given_) rows_[i] = rows[from];
      double* to = points_.data() + i * width_;
      std::copy_n(points.data() + from * dims, dims, to);
      std::fill(to + dims, to + width_, 0.0);
    }
  });
}

void search_kd_tree(const SearchBatch& batch, const KdTreeQueries& queries) {
  batch.thread_pool.for_runs(batch.queries.count, queries_at_once, [&](std::int64_t begin, std::int64_t end) {
    Walk walk(batch);
    for (std::int64_t query = begin; query < end; ++query)
      walk.search(queries.point(query), batch.row(query), batch.result(0, query));
    batch.thread_pool.poll(static_cast<std::uint64_t>(end - begin) * static_cast<std::uint64_t>(batch.chunk.count));
  });
}

void answer_by_kd_tree(const Output& output, const KdTreeQueries& queries, const NeighborsView& out,
                       const BoundsView& bounds) {
  const SearchBatch& batch = output.batch();
  const std::int64_t count = batch.queries.count, pieces = divide_up(count, queries_at_once);
  const std::int64_t k = batch.spec.k, capacity = pool_capacity(k);
  PerThread<Buffer<Entry>> entries(batch.thread_pool, [capacity] { return std::make_unique<Buffer<Entry>>(capacity); });
  std::atomic<std::int64_t> underflowed{0}, ranked{0};
  batch.thread_pool.for_each(pieces, [&](std::int64_t piece, int thread) {
    Walk walk(batch);
    const std::int64_t begin = piece * queries_at_once, end = std::min(count, begin + queries_at_once);
    std::int64_t underflows = 0, rows = 0;
    for (std::int64_t query = begin; query < end; ++query) {
      QueryResult result{.pool = {.entries = entries.of(thread).data(), .count = 0, .k = k, .capacity = capacity}};
      walk.search(queries.point(query), batch.row(query), result);
      if (k > most_sorted) result.pool.sort();
      underflows += output.write_sorted(query, result.pool, out, thread);
      rows += result.ranked;
      const std::size_t given = batch.given_position(query);
      bounds.verified_radius[given] = fold_key(result.threshold_key, batch.spec.type, false);
      bounds.largest[given] = 0;
      if (bounds.found != nullptr) bounds.found[given] = result.pool.count;
    }
    underflowed += underflows;
    ranked += rows;
    batch.thread_pool.poll(static_cast<std::uint64_t>(end - begin) * static_cast<std::uint64_t>(batch.chunk.count));
  });
  output.stats().underflowed += underflowed;
  output.stats().candidates += ranked;
  output.stats().reranked += ranked;
}

}  // namespace vicinal::cpu
