// See session.hpp. Every loop below is over independent pieces (a block of queries in a split of the chunk), so no piece
// ever waits for another and the answer cannot depend on their order.
#include "cpu/session.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>

#include "core/text.hpp"
#include "core/visit_order.hpp"
#include "cpu/propose/pilot.hpp"
#include "prepare/check.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t least_guessed = 64;  // tiles
constexpr std::int64_t settle_share = 8,
                       int8_rerank_share = 32;  // a query may settle n / 8 rows before it is abandoned

}  // namespace

std::int64_t pool_slack(std::int64_t k) noexcept { return std::clamp<std::int64_t>(k / 2, 32, 4096); }

const CpuPreparedCorpus::Packed& CpuPreparedCorpus::of(Precision precision) const noexcept {
  for (const Packed& one : precisions)
    if (one.rows.precision == precision) return one;
  return precisions.front();  // the canonical precision needs no more than the norms, which all have
}

std::int64_t CpuPreparedCorpus::bytes() const {
  std::int64_t total = 0;
  for (const auto& [transform, rows] : precisions)
    total += rows.panels.bytes() + rows.quads.bytes() + rows.second.bytes.bytes() + rows.second.terms.bytes() +
             static_cast<std::int64_t>(rows.second.tiles.size() * sizeof(SecondNorms)) + rows.squares.bytes() +
             rows.order.bytes() + rows.terms.bytes() + rows.norms.self.bytes() + rows.norms.mean.bytes() +
             static_cast<std::int64_t>(rows.tiles.size() * sizeof(FilterNorms) + rows.steps.size() * sizeof(float)) +
             rows.groups.bytes() + transform.centre.bytes() +
             (transform.rotation.present() ? Rotation::bytes(transform.centre.size()) : 0);
  return total;
}

std::unique_ptr<BoundModel> make_model(const Kernels& kernels, const SearchSpec& spec, Precision precision,
                                       const Transform& transform) {
  if (precision == Precision::canonical) return nullptr;
  const int chain = precision == Precision::int8 ? 0 : kernels.fused ? 1 : 2;
  auto model = std::make_unique<BoundModel>(spec.metric, spec.type, spec.corpus.cols, transform.scale, chain);
  model->rotated = transform.rotation.roundings();
  return model;
}

std::int64_t CpuSession::block_of(const Plan& plan, Precision precision) noexcept {
  if (plan.symmetric) return precision == Precision::int8 ? tile_rows : plan.pair_rows;
  if (precision != Precision::int8) return plan.query_block;
  const std::int64_t pieces = plan.query_block * plan.threads, rounds = (plan.query_batch + pieces - 1) / pieces;
  std::int64_t joined = sizeof(float);
  while (rounds % joined != 0) --joined;
  return plan.query_block * joined;
}

// A block that serves as rows has whole tiles, and as queries whole panels: some lanes more than queries.
CpuSession::Worker::Worker(const Points& corpus, const Plan& plan, Precision precision)
    : rank(corpus.cols, corpus.dtype, corpus.plain_rows()),
      thr(precision == Precision::f32 ? block_of(plan, precision) + max_query_lanes : 0),
      partial(precision == Precision::f32 ? (plan.query_block + max_query_lanes) * panel_rows : 0),
      facing_thr(plan.symmetric && precision == Precision::f32 ? plan.pair_rows : 0),
      terms(plan.symmetric ? plan.query_block + max_query_lanes : 0),
      lines(precision == Precision::int8 ? block_of(plan, precision) + max_query_lanes : 0), limits(lines.size()),
      seeds(precision == Precision::int8 ? tile_rows : 0), sums(lines.size() * panel_rows),
      facing_lines(plan.symmetric && precision == Precision::int8 ? tile_rows : 0), facing_limits(facing_lines.size()),
      int8_terms(plan.symmetric && precision == Precision::int8 ? tile_rows + max_query_lanes : 0) {}

CpuSession::CpuSession(const InstructionSet& set, const SearchSpec& spec, const Plan& plan, Precision precision,
                       Transform chosen, std::shared_ptr<const CpuPreparedCorpus> kept, ThreadPool& thread_pool,
                       Stats& stats)
    : kernels_(set.floats), bytes_(precision == Precision::int8 ? &set.bytes : nullptr), precision_(precision),
      spec_(spec), plan_(plan), kept_(std::move(kept)), thread_pool_(thread_pool), stats_(stats),
      transform_(std::move(chosen)), workers_(static_cast<std::size_t>(thread_pool.threads())) {
  if (precision == Precision::canonical) return;
  model_ = make_model(kernels_, spec, precision, transform());
  if (kept_) note_largest_rows();
}

CpuSession::~CpuSession() = default;

std::int64_t CpuSession::bytes(const Plan& plan, const ProblemShape& problem) noexcept {
  const std::int64_t dims = problem.corpus.cols, batch = plan.query_batch, states = batch * plan.row_splits;
  const bool filters = plan.cascade.size() > 1;
  const std::int64_t block = std::max(block_of(plan, Precision::f32), block_of(plan, Precision::int8)),
                     padded = (batch + block - 1) / block * block;
  std::int64_t total =
      states * static_cast<std::int64_t>(sizeof(QueryState)) +
      states * (problem.k + pool_slack(problem.k)) * static_cast<std::int64_t>(sizeof(Entry)) +
      batch * static_cast<std::int64_t>(sizeof(QueryFacts) + 3 * sizeof(std::int64_t) + 2 * sizeof(double));
  const std::int64_t lanes = plan.symmetric ? max_query_lanes : 0;  // what fills up each block's last panel
  if (filters && plan.second) total += batch * 2 * SecondCode::stride(dims) + plan.threads * rank_block * 8;
  if (filters)
    total += (padded + padded / block * lanes) * std::max(dims + 3, block_quads) * 4 + batch * 4 +
             states * plan.candidate_slots * static_cast<std::int64_t>(sizeof(Slot));
  if (plan.groups) total += batch * ((group_width(dims) + dims) * 8 + 48);
  if (problem.range)
    total += states * static_cast<std::int64_t>(sizeof(Matches) + sizeof(Place)) + batch * 64 + plan.match_bytes;
  // A thread prepares (fp64 rows, one panel) or ranks and filters; views that are not plain need the larger rank scratch.
  const std::int64_t thread = PrepareScratch::bytes(dims) + RankScratch::bytes(dims, problem.corpus.dtype, false) +
                              (block + max_query_lanes) * (10 + panel_rows) * 4 + (std::int64_t{256} << 10);
  total += problem.filter_bytes + problem.queries.rows / 8;  // the queries still pending, above the seam
  if (plan.symmetric) total += plan.threads * (tile_rows + max_query_lanes) * (2 * panel_rows + 16) * 4;  // of bytes
  return total + plan.threads * thread + (plan.pilot ? pilot_bytes : 0) + dims * 24 + Rotation::bytes(dims) +
         (std::int64_t{1} << 20);
}

CpuSession::Worker& CpuSession::worker(int number) {
  auto& slot = workers_[static_cast<std::size_t>(number)];
  if (!slot) slot = std::make_unique<Worker>(spec_.corpus, plan_, precision_);
  return *slot;
}

void CpuSession::prepare_queries(const Points& queries, std::span<const std::int64_t> rows) {
  query_points_ = queries;
  rows_.assign(rows.begin(), rows.end());
  given_.clear();
  if (grouped()) group_queries(queries);
  if (precision_ != Precision::int8 || !plan_.symmetric) start_queries(nullptr);  // else when their order is known
}

void CpuSession::start_queries(const std::vector<float>* steps) {
  const auto count = static_cast<std::int64_t>(rows_.size());
  if (spec_.metric == Metric::hamming) {
    queries_.count = count;
    queries_.block = block_of(plan_, precision_);
    queries_.facts.assign(rows_.size(), QueryFacts{});
  } else {
    cpu::prepare_queries(kernels_, bytes_, steps, looks_twice(), spec_, model_.get(), &transform(), query_points_,
                         rows_, block_of(plan_, precision_), thread_pool_, queries_);
  }
  const std::int64_t states = queries_.count * plan_.row_splits, k = spec_.k, room = k + pool_slack(k);
  const std::int64_t capacity = this->capacity();
  if (entries_.size() < states * room) entries_ = Buffer<Entry>(states * room);
  if (model_ && slots_.size() < states * capacity) slots_ = Buffer<Slot>(states * capacity);
  states_.assign(static_cast<std::size_t>(states), QueryState{});
  for (std::int64_t i = 0; i < states; ++i) {
    QueryState& state = states_[static_cast<std::size_t>(i)];
    state.pool = {.entries = entries_.data() + i * room, .count = 0, .k = k, .capacity = room};
    if (!model_) continue;
    state.slots = slots_.data() + i * capacity;
    state.due = precision_ == Precision::int8 && !spec_.radius
                    ? std::min(capacity, (plan_.symmetric ? 4 : 2) * k + 3 * panel_rows)
                    : capacity;
    state.abandoned = !spec_.radius && !queries_.facts[static_cast<std::size_t>(i % queries_.count)].filterable;
  }
  if (spec_.radius) start_matches();
}

void CpuSession::prepare_corpus(std::int64_t first, std::int64_t count) {
  prepare_rows(kernels_, spec_, precision_, model_.get(), &transform_, {plan_.groups, plan_.second}, first, count,
               thread_pool_, streamed_);
  note_largest_rows();
}

void CpuSession::note_largest_rows() {
  for (const FilterNorms& tile : chunk().tiles) take_maxima(largest_rows_, tile);
}

std::int64_t CpuSession::capacity() const noexcept {
  const std::int64_t k = spec_.k;
  return precision_ == Precision::int8 || spec_.radius
             ? plan_.candidate_slots
             : std::min(plan_.candidate_slots, k + panel_rows + std::max<std::int64_t>(2 * panel_rows, k));
}

FilterTask CpuSession::block_task(Worker& worker, std::int64_t split, std::int64_t block) {
  const std::int64_t first = block * queries_.block;
  return task(worker, split, first, std::min(queries_.block, queries_.count - first));
}

FilterTask CpuSession::task(Worker& worker, std::int64_t split, std::int64_t first, std::int64_t count) {
  worker.ranker.emplace(kernels_, spec_, query_points_, worker.rank);
  const auto facts =
      std::span(queries_.facts).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  const bool whole = bytes_ != nullptr && chunk().whole && !plan_.symmetric && !spec_.radius &&
                     std::all_of(facts.begin(), facts.end(), [](const QueryFacts& query) { return query.whole; });
  return FilterTask{
      .kernels = kernels_,
      .model = *model_,
      .chunk = chunk(),
      .filter = spec_.filter,
      .facts = facts.data(),
      .states = &state(split, first),
      .rows = rows_.data() + first,
      .first = first,
      .queries = static_cast<int>(count),
      .capacity = capacity(),
      .share = spec_.corpus.rows / (bytes_ != nullptr ? int8_rerank_share : settle_share) + 4 * capacity(),
      .thr = worker.thr.data(),
      .bytes = bytes_,
      .whole = whole,
      .spec = &spec_,
      .step = bytes_ != nullptr ? queries_.steps[static_cast<std::size_t>(first / queries_.block)] : 0,
      .largest = largest_rows_,
      .seconds =
          queries_.second.size() > 0 ? queries_.second.data() + first * 2 * SecondCode::stride(model_->dims) : nullptr,
      .lines = worker.lines.data(),
      .limits = worker.limits.data(),
      .seeds = worker.seeds.data(),
      .ranker = *worker.ranker,
      .thread_pool = thread_pool_};
}

template <class Body>
void CpuSession::each_block(const Body& body) {
  const std::int64_t blocks = queries_.block_count();
  thread_pool_.for_each(plan_.row_splits * blocks, [&](std::int64_t piece, int number) {
    Worker& own = worker(number);
    body(piece / blocks, piece % blocks, own);
  });
}

void CpuSession::filter() {
  if (!model_) return grouped() ? filter_groups() : scan_canonical();
  plan_.symmetric ? filter_pairs() : filter_tiles();
}

bool CpuSession::any_eligible(std::int64_t tile) const noexcept {
  const std::int64_t begin = tile * tile_rows, end = std::min(begin + tile_rows, chunk().count);
  if (!chunk().ordered() || spec_.filter.all()) return spec_.filter.any(chunk().first + begin, end - begin);
  for (std::int64_t place = begin; place < end; ++place)
    if (spec_.filter.any(chunk().first + chunk().row_at(static_cast<std::uint32_t>(place)), 1)) return true;
  return false;
}

/// Bounds are guessed where a block meets all rows of its split in one go, and there are enough to guess from.
bool CpuSession::may_guess(std::int64_t tiles) const noexcept {
  return bytes_ != nullptr && !spec_.radius && spec_.filter.all() && chunk().count == spec_.corpus.rows &&
         tiles >= least_guessed && !missed_;
}

void CpuSession::filter_tiles() {
  const std::int64_t tiles = chunk().tile_count();
  each_block([&](std::int64_t split, std::int64_t block, Worker& own) {
    FilterTask piece = block_task(own, split, block);
    const int query_panels = (piece.queries + kernels_.query_lanes - 1) / kernels_.query_lanes;
    const Range range = split_range(tiles, split, plan_.row_splits);
    if (range.begin == range.end) return;
    if (bytes_ != nullptr) piece.start_bytes();
    const std::int64_t tiles_here = range.end - range.begin;
    const VisitOrder order(tiles_here);
    bool guesses = may_guess(tiles_here);
    const auto meet_tile = [&](std::int64_t i) {
      // From the middle on: the ends, where rows of bytes are smallest and largest, are least like the others.
      const std::int64_t tile = range.begin + (order.at(i) + tiles_here / 2) % tiles_here;
      piece.seen = guesses ? static_cast<double>(i) / static_cast<double>(tiles_here) : 0;
      if (any_eligible(tile)) {
        if (bytes_ != nullptr) {
          const std::int64_t width = query_width(bytes_->layout, quads_of(model_->dims));
          piece.run_bytes(queries_.quads.data() + block * queries_.block_size(width), query_panels, own.sums.data(),
                          tile);
        } else {
          piece.run(queries_.panels.data() + block * queries_.block_size(model_->dims), query_panels,
                    own.partial.data(), tile);
        }
      }
      return std::min<std::int64_t>(tile_rows, chunk().count - tile * tile_rows);
    };
    for (std::int64_t i = 0; i < tiles_here; ++i)
      thread_pool_.poll(static_cast<std::uint64_t>(piece.queries) * static_cast<std::uint64_t>(meet_tile(i)));
    piece.seen = 0;
    if (!guesses || piece.restart_missed() == 0) return;
    missed_ = true;
    guesses = false;
    if (piece.whole) piece.start_bytes();
    for (std::int64_t i = 0; i < tiles_here; ++i) {
      meet_tile(i);
      thread_pool_.poll(0);
    }
    piece.end_restart();
  });
}

void CpuSession::select() {
  if (!model_ || spec_.radius) return;
  each_block([&](std::int64_t split, std::int64_t block, Worker& own) {
    FilterTask piece = block_task(own, split, block);
    for (int q = 0; q < piece.queries; ++q)
      if (!piece.states[q].abandoned) piece.drop(q);
    thread_pool_.poll(0);
  });
}

void CpuSession::rerank() {
  if (!model_) return;
  each_block([&](std::int64_t split, std::int64_t block, Worker& own) {
    FilterTask piece = block_task(own, split, block);
    for (int q = 0; q < piece.queries; ++q) {
      if (!piece.states[q].abandoned) piece.settle(q);
      thread_pool_.poll(0);
    }
  });
}

bool CpuSession::underflowed(const Entry& entry, std::int64_t query, Ranker& ranker, bool& started) {
  const double normal = spec_.type == DistanceType::f64 ? std::numeric_limits<double>::min()
                                                        : static_cast<double>(std::numeric_limits<float>::min());
  if (std::isinf(entry.key)) report_infinite(spec_);
  if (!(std::fabs(entry.key) < normal) || spec_.type == DistanceType::u32) return false;
  if (entry.key != 0) return true;
  if (needs_norms(spec_.metric) || spec_.type != DistanceType::f32) return false;
  if (!started) ranker.start(rows_[static_cast<std::size_t>(query)], queries_.facts[static_cast<std::size_t>(query)]);
  started = true;
  return ranker.underflows(entry.id - spec_.first_id);
}

std::int64_t CpuSession::write_row(std::int64_t query, const NeighborsView& out, Worker& own) {
  Pool& pool = state(0, query).pool;
  for (std::int64_t split = 1; split < plan_.row_splits; ++split) {
    const Pool& other = state(split, query).pool;
    for (std::int64_t i = 0; i < other.count; ++i) pool.offer(other.entries[i]);
  }
  pool.trim();
  std::sort(pool.entries, pool.entries + pool.count, [](const Entry& a, const Entry& b) { return before(a, b); });
  const bool descends = descending(spec_.metric);
  const std::int64_t row = rows_[static_cast<std::size_t>(query)], base = row * out.k;
  std::int64_t gone = 0;
  bool started = false;
  Ranker ranker(kernels_, spec_, query_points_, own.rank);
  for (std::int64_t i = 0; i < pool.count; ++i) {
    const Entry& entry = pool.entries[i];
    gone += static_cast<std::int64_t>(underflowed(entry, query, ranker, started));
    out.ids[base + i] = entry.id;
    store_key(entry.key, spec_.type, descends, out.distances, base + i);
  }
  for (std::int64_t i = pool.count; i < out.k; ++i)
    store_missing(spec_.type, descends, out.ids, out.distances, base + i);
  if (out.counts != nullptr) out.counts[row] = pool.count;
  return gone;
}

CpuSession::Totals CpuSession::totals(std::int64_t query, const BoundsView& bounds) {
  Totals all;
  for (std::int64_t split = 0; split < plan_.row_splits; ++split) {
    const QueryState& part = state(split, query);
    all.settled = std::min(all.settled, part.bound);
    all.abandoned = all.abandoned || part.abandoned;
    all.passed += part.passed;
    all.ranked += part.settled;
  }
  const QueryFacts& facts = queries_.facts[static_cast<std::size_t>(query)];
  bounds.settled[given(query)] = all.abandoned ? -infinite : fold_key(all.settled, spec_.type, false);
  bounds.largest[given(query)] = model_ && facts.filterable && !all.abandoned
                                     ? largest_error(*model_, facts.norms, largest_rows_, facts.scale)
                                     : 0;
  return all;
}

void CpuSession::finish(const NeighborsView& out, const BoundsView& bounds) {
  std::atomic<std::int64_t> gone{0}, passed{0}, ranked{0};
  thread_pool_.for_each(queries_.count, [&](std::int64_t query, int number) {
    Worker& own = worker(number);
    const Totals all = totals(query, bounds);
    passed += all.passed;
    ranked += all.ranked;
    if (!all.abandoned) gone += write_row(query, out, own);
    if (bounds.found != nullptr) bounds.found[given(query)] = state(0, query).pool.count;
    thread_pool_.poll(0);
  });
  stats_.underflowed += gone;
  stats_.candidates += passed;
  stats_.reranked += ranked;
}

}  // namespace vicinal::cpu
