#include "permutation/device.hpp"

#include <cmath>

#include "core/text.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t most_there = 128;  // of the kernels
constexpr std::int64_t queries_at_once = 16;

/// The order in which each query sees the permutants.
Buffer<std::uint8_t> orders_of(const PermutationIndex::State& state, const Queries& queries, ThreadPool& thread_pool) {
  const RankLayout& layout = *state.layout;
  const std::vector<std::uint32_t> permutants = narrow(state.permutants);
  Buffer<std::uint8_t> orders(queries.count() * layout.stride);
  thread_pool.for_each((queries.count() + queries_at_once - 1) / queries_at_once, [&](std::int64_t piece, int) {
    const auto evaluator = queries.evaluator();
    OrderWriter writer(layout);
    std::vector<double> distances(permutants.size());
    for (std::int64_t i = piece * queries_at_once; i < std::min(queries.count(), (piece + 1) * queries_at_once); ++i) {
      evaluator->start(i);
      evaluator->measure(permutants.data(), layout.permutants, distances.data());
      check_order_of(i, distances);
      writer.write(distances.data(), orders.data() + i * layout.stride);
    }
  });
  return orders;
}

}  // namespace

std::string host_reason(const Backend& backend, const PermutationIndex::State& state, bool exact) {
  if (backend.ranks() == nullptr) return "permutation indexes";
  const RankLayout& layout = *state.layout;
  if (state.user_defined) return "distances of the caller's own";
  if (exact) return "exact searches";
  if (layout.form != RankForm::ranks) return cat("ranks kept as ", rank_form_name(layout.form));
  if (layout.distance != RankDistance::footrule) return rank_distance_name(layout.distance);
  if (layout.permutants > most_there) return cat("more than ", most_there, " permutants");
  return "";
}

KeptOn kept_on(const PermutationIndex::State& state, const Backend& backend) {
  const std::lock_guard lock(state.mutex);
  KeptOn& kept = state.kept[&backend];
  if (!kept.ranks) {
    const auto rows = state.objects().measured_rows();
    kept.ranks = backend.ranks()->keep_ranks(
        {state.ranks.data(), state.layout->stride, state.objects().count(), state.layout->permutants},
        narrow(state.permutants), rows ? &*rows : nullptr);
    kept.device = backend.device().facts().name;
  }
  return kept;
}

IndexCounts search_on(const Backend& backend, const PermutationIndex::State& state, const Queries& queries,
                      const IndexSearchSpec& spec, ThreadPool& thread_pool, const IndexSearch::Answer& answer) {
  const std::shared_ptr<const PreparedCorpus> kept = kept_on(state, backend).ranks;
  const RankBackend& ranks = *backend.ranks();
  RankSearchSpec asked{.queries = {nullptr, state.layout->stride, queries.count(), state.layout->permutants},
                       .candidates = spec.candidates,
                       .type = spec.type,
                       .k = spec.k};
  if (ranks.measures(*kept, spec.k)) asked.rows = queries.measured_rows();
  Buffer<std::uint8_t> orders;
  const auto order_here = [&] {
    orders = orders_of(state, queries, thread_pool);
    asked.queries.ranks = orders.data();
  };
  if (!asked.rows) order_here();
  std::vector<std::unique_ptr<Collector>> collectors(static_cast<std::size_t>(thread_pool.threads()));
  const auto collector = [&](int worker) -> Collector& {
    auto& one = collectors[static_cast<std::size_t>(worker)];
    if (!one) one = std::make_unique<Collector>(state, queries, spec);
    return *one;
  };
  const auto from_candidates = [&](std::int64_t first, std::int64_t count, const std::uint32_t* candidates) {
    thread_pool.for_each(count, [&](std::int64_t i, int worker) {
      Collector& one = collector(worker);
      one.start(first + i);
      one.evaluate(candidates + i * spec.candidates, spec.candidates);
      answer(first + i, one.sorted());
    });
  };
  const auto from_nearest = [&](std::int64_t query, std::span<const Entry> entries) {
    if (std::none_of(entries.begin(), entries.end(), [](const Entry& entry) { return entry.key == 0; }))
      return answer(query, entries);
    std::vector<Entry> signed_zeros(entries.begin(), entries.end());
    Collector& one = collector(0);
    one.start(query);
    one.measure_zeros(signed_zeros);
    answer(query, signed_zeros);
  };
  if (!ranks.search_ranks(asked, *kept, from_candidates, from_nearest, thread_pool)) {
    order_here();  // throws; its words name the query
    ranks.search_ranks(asked, *kept, from_candidates, from_nearest, thread_pool);
  }
  const std::int64_t all = queries.count() * spec.candidates;
  return {all, all};
}

}  // namespace vicinal
