#include "permutation/device.hpp"

#include "core/divide.hpp"
#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "pipeline/device_tasks.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t most_device_permutants = 128;  // that its kernels take
constexpr std::int64_t queries_at_once = 16;

/// The order in which each query of a part sees the permutants.
Buffer<std::uint8_t> orders_of(const PermutationIndex::State& state, const Queries& queries, DevicePart part,
                               ThreadPool& thread_pool) {
  const RankLayout& layout = *state.layout;
  const std::vector<std::uint32_t> permutants = narrow(state.permutants);
  Buffer<std::uint8_t> orders(part.count * layout.stride);
  thread_pool.for_each(divide_up(part.count, queries_at_once), [&](std::int64_t piece, int) {
    const auto evaluator = queries.evaluator();
    OrderWriter writer(layout);
    std::vector<double> distances(permutants.size());
    for (std::int64_t i = piece * queries_at_once; i < std::min(part.count, (piece + 1) * queries_at_once); ++i) {
      evaluator->start(part.first + i);
      evaluator->measure(permutants.data(), layout.permutants, distances.data());
      check_order_of(part.first + i, distances, state.options.metric);
      writer.write(distances.data(), orders.data() + i * layout.stride);
    }
  });
  return orders;
}

/// It returns what a backend keeps of an index; the first search through the backend takes that there.
std::shared_ptr<const PreparedCorpus> kept_on(const PermutationIndex::State& state, const Backend& backend) {
  const std::lock_guard lock(state.mutex);
  std::shared_ptr<const PreparedCorpus>& kept = state.kept[&backend];
  if (!kept) {
    const auto rows = state.objects().measured_rows();
    kept = backend.ranks()->keep_ranks(
        {state.ranks.data(), state.layout->stride, state.objects().count(), state.layout->permutants},
        narrow(state.permutants), rows ? &*rows : nullptr);
  }
  return kept;
}

/// It returns the measured rows of a part of the queries.
MeasuredRows some_rows(MeasuredRows rows, DevicePart part) {
  rows.rows = rows.rows.slice(part.first, part.count);
  for (const double** one : {&rows.self, &rows.mean})
    if (*one != nullptr) *one += part.first;
  return rows;
}

}  // namespace

std::string host_reason(const Backend& backend, const PermutationIndex::State& state, bool exact) {
  if (backend.ranks() == nullptr) return "permutation indexes";
  const RankLayout& layout = *state.layout;
  if (state.user_defined) return "distances of the caller's own";
  if (exact) return "exact searches";
  if (layout.form != RankForm::ranks) return cat("ranks kept as ", rank_form_name(layout.form));
  if (layout.distance != RankDistance::footrule) return rank_distance_name(layout.distance);
  if (layout.permutants > most_device_permutants) return cat("more than ", most_device_permutants, " permutants");
  return "";
}

IndexCounts search_on(const Backend& backend, const PermutationIndex::State& state, const Queries& queries,
                      DevicePart part, const IndexSearchSpec& spec, ThreadPool& thread_pool,
                      const IndexSearch::Answer& answer) {
  const std::shared_ptr<const PreparedCorpus> kept = kept_on(state, backend);
  const RankBackend& ranks = *backend.ranks();
  RankSearchSpec asked{.queries = {nullptr, state.layout->stride, part.count, state.layout->permutants},
                       .candidates = spec.candidates,
                       .type = spec.type,
                       .k = spec.k};
  if (ranks.measures(*kept, spec.k)) asked.rows = queries.measured_rows();
  if (asked.rows) asked.rows = some_rows(*asked.rows, part);
  Buffer<std::uint8_t> orders;
  const auto order_here = [&] {
    orders = orders_of(state, queries, part, thread_pool);
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
      one.start(part.first + first + i);
      one.evaluate(candidates + i * spec.candidates, spec.candidates);
      answer(part.first + first + i, one.sorted());
    });
  };
  const auto from_nearest = [&](std::int64_t of_part, std::span<const Entry> entries) {
    const std::int64_t query = part.first + of_part;
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
  const std::int64_t all = part.count * spec.candidates;
  return {all, all};
}

IndexCounts search_on_devices(const Resolved& run, const PermutationIndex::State& state, const Queries& queries,
                              const IndexSearchSpec& spec, const PermutationSearch& search, ThreadPool& thread_pool,
                              const IndexSearch::Answer& answer) {
  const std::vector<std::string>& devices = run.devices;
  const DevicePart all{0, queries.count()};
  const auto alone = [&] { return search_on(*run.backend, state, queries, all, spec, thread_pool, answer); };
  if (devices.size() < 2) return alone();
  const auto pairs = [&](std::int64_t count) { return static_cast<std::uint64_t>(count * state.objects().count()); };
  std::vector<IndexCounts> counts(devices.size());
  DeviceTasks tasks(devices, search.progress, pairs(all.count));
  try {
    tasks.run([&](std::size_t i) {
      const DevicePart part = part_of_device(i, even_share(all.count, devices), all.count);
      if (part.count == 0) return;
      const FpGuard guard;
      ThreadPool own(device_threads(thread_pool.threads(), devices), tasks.progress_of(i), search.stop,
                     pairs(part.count));
      counts[i] = search_on(find_backend(devices[i]), state, queries, part, spec, own, answer);
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::range_error) throw;
    return alone();  // which says it of the first query that it is true of
  }
  thread_pool.poll(pairs(all.count));  // whose progress goes on from here
  IndexCounts sum;
  for (const IndexCounts& one : counts) {
    sum.candidates += one.candidates;
    sum.measured += one.measured;
  }
  return sum;
}

}  // namespace vicinal
