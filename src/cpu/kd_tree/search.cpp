// Where rows are in groups (groups.hpp): a query goes down the tree, nearest box first, until the next one is farther than its k-th so
// far or its radius. Queries near each other come one after another, so that they find the same leaves in the caches.
#include <bit>
#include <limits>

#include "core/canonical.hpp"
#include "cpu/session.hpp"
#include "prepare/check.hpp"
#include "prepare/load.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t sorted_most = 64;  // a pool of so many is kept sorted
constexpr std::int64_t queries_at_once = 32;

class Walk {
 public:
  Walk(const Kernels& kernels, const SearchSpec& spec, const PackedRows& chunk, ThreadPool& thread_pool)
      : spec_(spec), chunk_(chunk), groups_(chunk.groups), thread_pool_(thread_pool),
        node_(groups_.width * Groups::fan) {
    const std::size_t width = groups_.width == 2 ? 0 : groups_.width == 4 ? 1 : 2;
    const Sum sum = filter_sum_of(spec.metric);
    rows_ = kernels.near_rows[width].of(sum);
    boxes_ = kernels.near_boxes[width].of(sum);
  }

  void search(const double* query, std::int64_t number, QueryState& state) {
    query_ = query;
    number_ = number;
    state_ = &state;
    limit_ = reach(state.matches != nullptr ? state.bound : state.pool.worst.key);
    visited_ = 0;
    if (!groups_.levels.empty()) descend(static_cast<int>(groups_.levels.size()) - 1, 0);
    state.passed += visited_;
    state.settled += visited_;
    if (state.matches != nullptr) return;
    if (state.pool.k > sorted_most) state.pool.trim();
    state.bound = state.pool.worst.key;
  }

 private:
  double reach(double key) const noexcept { return reach_of(spec_.metric, spec_.type, key); }
  void descend(int level, std::int64_t node) {
    const Groups::Level& boxes = groups_.levels[static_cast<std::size_t>(level)];
    alignas(64) double sums[Groups::fan];
    const std::int64_t used = std::min(Groups::fan, boxes.count - node * Groups::fan);
    std::uint32_t near =
        boxes_({query_, boxes.low.data() + node * node_, boxes.high.data() + node * node_, limit_, sums});
    near &= 0xFFFFFFFFu >> (Groups::fan - used);
    while (near != 0) {
      int nearest = std::countr_zero(near);
      for (std::uint32_t rest = near & (near - 1); rest != 0; rest &= rest - 1)
        if (const int i = std::countr_zero(rest); sums[i] < sums[nearest]) nearest = i;
      if (sums[nearest] > limit_) return;
      near &= ~(1u << nearest);
      const std::int64_t child = node * Groups::fan + nearest;
      level == 0 ? rank(child) : descend(level - 1, child);
    }
    thread_pool_.poll(0);
  }

  void rank(std::int64_t leaf) {
    alignas(64) double sums[Groups::fan];
    const std::int64_t begin = leaf * Groups::fan, used = std::min(Groups::fan, groups_.count - begin);
    visited_ += used;
    std::uint32_t near = rows_({query_, groups_.rows.data() + leaf * node_, nullptr, limit_, sums});
    near &= 0xFFFFFFFFu >> (Groups::fan - used);
    if (near == 0) return;
    for (; near != 0; near &= near - 1) {
      const int lane = std::countr_zero(near);
      if (sums[lane] > limit_) continue;
      const std::int64_t row = chunk_.first + groups_.order[begin + lane];
      if (spec_.filter.allows(number_, row))
        take({fold_key(canonical_value(spec_.metric, sums[lane], 0, 0), spec_.type, false), spec_.first_id + row});
    }
    Pool& pool = state_->pool;
    if (state_->matches != nullptr || pool.k <= sorted_most) return;
    // The first k say much; after that a few more at a time.
    if (pool.full() && (pool.worst.key == infinite || pool.count > pool.k + pool.k / 8)) pool.trim();
    limit_ = reach(pool.worst.key);
  }

  void take(const Entry& entry) {
    Pool& pool = state_->pool;
    if (state_->matches != nullptr) return state_->matches->take({&entry, 1});
    if (pool.k > sorted_most) return pool.offer(entry);
    pool.insert(entry);
    limit_ = reach(pool.worst.key);
  }

  const SearchSpec& spec_;
  const PackedRows& chunk_;
  const Groups& groups_;
  ThreadPool& thread_pool_;
  const std::int64_t node_;  // numbers of a node or leaf
  NearFn rows_, boxes_;
  const double* query_ = nullptr;
  std::int64_t number_ = 0;
  QueryState* state_ = nullptr;
  double limit_ = infinite;
  std::int64_t visited_ = 0;
};

}  // namespace

void CpuSession::group_queries(const Points& queries) {
  const std::int64_t dims = queries.cols, count = static_cast<std::int64_t>(rows_.size()), width = group_width(dims);
  Buffer<double> points(count * dims);
  Buffer<std::byte> gathered(dims * 8);
  for (std::int64_t i = 0; i < count; ++i)
    load_row(kernels_, queries, rows_[static_cast<std::size_t>(i)], gathered.data(), points.data() + i * dims);
  if (kernels_.first_bad(points.data(), points.size()) >= 0)
    report_unfit_rows(kernels_, spec_, queries, "query", thread_pool_);
  std::vector<std::uint32_t> order(rows_.size());
  group_rows(points.data(), count, dims, thread_pool_, order.data());
  given_.assign(order.begin(), order.end());
  if (group_queries_.size() < count * width) group_queries_ = Buffer<double>(count * width);
  std::fill_n(group_queries_.data(), count * width, 0.0);
  const std::vector<std::int64_t> before = rows_;
  for (std::int64_t i = 0; i < count; ++i) {
    rows_[static_cast<std::size_t>(i)] = before[order[static_cast<std::size_t>(i)]];
    std::copy_n(points.data() + order[static_cast<std::size_t>(i)] * dims, dims, group_queries_.data() + i * width);
  }
}

void CpuSession::filter_groups() {
  const std::int64_t blocks = (queries_.count + queries_at_once - 1) / queries_at_once;
  thread_pool_.for_each(blocks, [&](std::int64_t block, int) {
    Walk walk(kernels_, spec_, chunk(), thread_pool_);
    const std::int64_t begin = block * queries_at_once, end = std::min(queries_.count, begin + queries_at_once);
    for (std::int64_t query = begin; query < end; ++query)
      walk.search(group_queries_.data() + query * chunk().groups.width, rows_[static_cast<std::size_t>(query)],
                  state(0, query));
    thread_pool_.poll(static_cast<std::uint64_t>(end - begin) * static_cast<std::uint64_t>(chunk().count));
  });
}

}  // namespace vicinal::cpu
