// A search of vectors on a device, its host's part: what goes there, which launches in which order, and what comes
// back.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/search.hpp"
#include "core/divide.hpp"
#include "core/text.hpp"
#include "cuda/device/stage_range.hpp"
#include "cuda/search/device.hpp"
#include "cuda/search/memory_plan.hpp"
#include "cuda/search/output/batch.hpp"
#include "cuda/search/output/range.hpp"
#include "cuda/search/output/underflow.cuh"
#include "cuda/search/passes.hpp"
#include "cuda/search/prepare/chosen.hpp"
#include "cuda/search/prepare/eligible.hpp"
#include "cuda/search/prepare/incoming.hpp"
#include "cuda/search/prepare/prepare.hpp"
#include "cuda/search/rerank/exhaustive.cuh"
#include "cuda/search/rerank/labels.cuh"
#include "cuda/search/rerank/refine.cuh"
#include "cuda/search/rerank/rerank.cuh"
#include "cuda/search/rerank/rerank_long.cuh"
#include "cuda/select/select.hpp"
#include "prepare/check.hpp"

namespace vicinal::cuda {

template <SearchDeviceRuntime Device>
class CudaSession final : public Session {
 public:
  CudaSession(Device& device, const SearchSpec& spec, const Plan& plan, Precision precision,
              std::shared_ptr<const CudaPreparedCorpus<Device>> kept, ThreadPool& thread_pool, Stats& stats)
      : device_(device), spec_(spec), plan_(plan), precision_(precision),
        filters_(has_filter(precision) && !holds_everything(spec)),
        wide_(wide_words(spec.type, spec.corpus.rows, device.packed_rows)), kept_(std::move(kept)),
        thread_pool_(thread_pool), stats_(stats), longest_(spec.k), centre_(device), rows_(device), queries_(device),
        both_(device), moved_keys_(device), moved_counts_(device), moved_bases_(device), query_rows_(device),
        states_(device), slots_(device), counts_(device), best_(device), output_(device, thread_pool), chosen_(device),
        missed_rows_(device), choice_(device, spec), model_(spec.metric, spec.type, spec.corpus.cols, 1.0, 0),
        underflowed_products_(device), long_lists_(device), exhaustive_(device),
        passes_(device, precision, filter_sum_of(spec.metric),
                filter_kernel(device.filters(), precision, filter_sum_of(spec.metric), plan.instruction_set),
                thread_pool) {
    output_.reserve(plan.query_batch);
    preparer_.emplace(device, spec, precision, thread_pool, counters(),
                      plan.budget_bytes > 0 ? plan.budget_bytes - plan.peak_bytes : INT64_MAX);
    if (!kept_ || spec.radius) preparer_->clear_counters();  // kernels before queries count, and what counts ranges
    if (kept_ && !own_rows()) {
      transform_ = kept_->transform;
    } else if (filters_) {
      transform_ = preparer_->choose_with_step(centre_);
    }
    model_ = model_of(spec.metric, spec.type, spec.corpus.cols, transform_.scale, precision);
    const Points& corpus = spec.corpus;
    if (own_rows())
      prepare_matrix(rows_, Points(kept_->buffers.matrix.rows, corpus.dtype, corpus.rows, corpus.cols), false);
    if (spec.radius) range_.emplace(device, spec, plan, precision, thread_pool);
    if (guesses(precision, model_.sum) && !range_ && !choice_.choice().labelled &&
        at_once(plan, corpus.rows, kept_ != nullptr))
      speculation_ =
          planned_speculation(device.speculation, plan, divide_up(corpus.rows, tile_rows), corpus.cols, spec.k,
                              choice_.choice().without_self,
                              plan.symmetric && serves_both_sides(precision, model_.sum, corpus.cols) &&
                                  (choice_.choice().all || choice_.choice().only_self) && passes_.by_groups());
  }

  /// The corpus prepared once.
  static std::shared_ptr<const CudaPreparedCorpus<Device>> keep(Device& device, const SearchSpec& spec,
                                                                const Plan& plan, ThreadPool& thread_pool) {
    auto kept = std::make_shared<CudaPreparedCorpus<Device>>(device);
    const Precision first = precision_of(plan.cascade.front());
    kept->packed = has_filter(prepared_precision(first));
    Stats stats;
    CudaSession session(device, spec, plan, Precision::canonical, kept, thread_pool, stats);
    if (kept->packed) session.transform_ = kept->transform = session.preparer_->choose_with_step(kept->centre);
    session.model_ =
        model_of(spec.metric, spec.type, spec.corpus.cols, session.transform_.scale, prepared_precision(first));
    session.filters_ = kept->packed;
    session.longest_ = prepared_duplicates;  // whatever k is here
    session.prepare_matrix(kept->buffers, spec.corpus, false);
    session.report_bad_rows(session.counted());
    return kept;
  }

  void prepare_queries(const Points& queries, const QueryRows& rows) override {
    const StageRange stage("vicinal prepare queries");
    query_points_ = queries;
    speculates_ = speculation_.active();
    const auto count = static_cast<std::int64_t>(rows.size());
    const bool whole = !kept_ && !incoming_ && rows_.matrix.count == spec_.corpus.rows;  // of a batch before
    const Points source = rows_on_device(queries, spec_.corpus, whole ? rows_.matrix.rows : nullptr);
    if (rows.adjacent()) return start_batch(rows, source.slice(rows.front(), count));
    start_batch(rows, chosen_.gather(source, rows.list()));
  }

  void expect_corpus(std::int64_t first, std::int64_t count) override {
    if (count == 0 || device_.holds(spec_.corpus.data)) return;
    (incoming_ ? *incoming_ : incoming_.emplace(device_)).expect(spec_.corpus, first, count);
  }
  void prepare_corpus(std::int64_t first, std::int64_t count) override {
    const StageRange stage("vicinal prepare rows");
    first_row_ = first;
    prepare_matrix(rows_, incoming_ ? incoming_->take(spec_.corpus, first, count) : spec_.corpus.slice(first, count),
                   false);
    // Whether a row is refused is asked in the end, so that the host need not wait here; a range's counts come before.
    if (range_) report_bad_rows(counted());
  }

  void filter() override {
    const StageRange stage("vicinal filter");
    if (queries_.matrix.count == 0 || rows().matrix.count == 0) return;
    if (range_) return range_->search(args(), filters_);
    if (spec_.k == 0) return;
    if (!filters_) exhaustive_.search(args(), wide_, checked_later(), seen_rows_ > 0, best_, thread_pool_);
    else if (choice_.choice().labelled)
      rerank_labelled(device_, spec_, args(), thread_pool_, [&] { rerank_candidates(true); });
    else if (speculates_ && serves_both()) speculate_both();
    else if (speculates_) passes_.speculate(args(), speculation_);
    else passes_.prove(args(), seen_rows_ == 0, [&] { rerank_candidates(false); });
    seen_rows_ += rows().matrix.count;
  }

  void select() override {}  // each phase of the filter has dropped what its thresholds exclude

  void rerank() override {
    const StageRange stage("vicinal rerank");
    if (filters_ && queries_.matrix.count > 0 && rows().matrix.count > 0 && spec_.k > 0) rerank_candidates(true);
    const bool parted = rows().matrix.count < spec_.corpus.rows;
    if (spec_.k > 0 && !kept_ && spec_.type == DistanceType::f32 && descending(spec_.metric) && parted)
      underflowed_products_.keep(args(), filters_, wide_);
    if (filters_ ? passes_.wait_if_long() : parted) report_bad_rows(counted());
    thread_pool_.poll(0);
  }

  void finish(const NeighborsView& out, const BoundsView& bounds) override {
    const StageRange stage("vicinal finish");
    if (queries_.matrix.count == 0) return report_bad_rows(counted());
    if (const std::int64_t missed = finish_batch(out, bounds); missed > 0) search_missed(out, bounds, missed);
  }

  void counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) override {
    range_->counts(counts, overflowed);
  }
  void write_matches_to(const RangeView& out) override { range_->write_matches_to(out); }
  void finish_range(const RangeView& out, const BoundsView& bounds) override {
    range_->finish(out, bounds, args(), filters_);
    const Counters counters = counted();
    report(counters);
    noted_.note(counters, stats_);
    stats_.candidates += range_->candidates();
    stats_.reranked += range_->ranked();
    stats_.underflowed += range_->underflowed();
  }

 private:
  /// Whether tiles may serve both sides: the batch is the corpus.
  bool serves_both() const {
    return speculation_.serves_both() && first_row_ == 0 && rows().matrix.count == spec_.corpus.rows &&
           queries_.matrix.count == spec_.corpus.rows && numbers_.adjacent() && numbers_.front() == 0;
  }
  /// Of a graph whose tiles serve both of their sides: thresholds are guessed of the rows as they are prepared, and then
  /// rows and queries are prepared again, in one order that these thresholds have a part in.
  void speculate_both() {
    passes_.guess(args(), speculation_, symmetric_guesses);
    if (passes_.left_to_proof(args())) return;
    const std::int64_t count = queries_.matrix.count, blocks = divide_up(count, 256);
    MovedThresholds moved{.args = args(),
                          .keys = moved_keys_.reserve(count),
                          .counts = moved_counts_.reserve(count),
                          .bases = moved_bases_.reserve(count)};
    device_.launch()(blocks, 256, 0, leave_thresholds, moved);
    preparer_->make_both(rows().matrix, moved.bases, model_, transform_, both_, queries_);
    in_one_order_ = true;
    moved.args = args();
    const auto begin = [&] {
      StartStates states = start();
      states.queries = queries_.matrix;
      device_.launch()(blocks, 256, 0, start_states, states);
      device_.launch()(blocks, 256, 0, take_thresholds, moved);
    };
    begin();
    if (passes_.speculate_both(args(), speculation_)) return;
    begin();
    passes_.serve_one(args(), speculation_);
  }

  /// rows: of the caller's queries, which `points` holds densely.
  void start_batch(const QueryRows& rows, const Points& points) {
    numbers_ = rows;
    in_one_order_ = false;
    const auto count = static_cast<std::int64_t>(rows.size());
    states_.reserve(padded_to_blocks(count));
    best_.reserve(count * spec_.k * word_size(wide_));
    if (filters_ && !range_) {
      slots_.reserve(speculates_ ? batch_slots(count, slots_of(plan_), speculation_) : count * slots_of(plan_));
      counts_.reserve(count);
    }
    prepare_matrix(queries_, points, true);
    if (!numbers_.adjacent()) device_.in(query_rows_.reserve(count), numbers_.list().data(), count * 8);
    if (range_) range_->start(args(), filters_);
    seen_rows_ = 0;
    underflowed_products_.clear();
  }

  /// A precision in whose form rows are not kept packs its own from those that are.
  bool own_rows() const noexcept { return kept_ && !filter_precision(precision_).prepared; }
  const PreparedMatrixBuffers<Device>& rows() const noexcept {
    return in_one_order_ ? both_ : kept_ && !own_rows() ? kept_->buffers : rows_;
  }

  void prepare_matrix(PreparedMatrixBuffers<Device>& buffers, const Points& points, bool queries) {
    preparer_->make(buffers, {.points = points,
                              .queries = queries,
                              .filters = filters_,
                              .model = model_,
                              .transform = transform_,
                              .start = start(),
                              .values = spec_.radius.has_value(),
                              .checked_later = checked_later(),
                              .longest = longest_});
  }
  /// States and counts begin together: a count is of slots that the query at its position has filled.
  StartStates start() const { return {.states = states_.data(), .counts = counts_.data()}; }
  /// It tells whether the kernels that rank every row find those that are not finite.
  bool checked_later() const {
    return !filters_ && !kept_ && !spec_.radius && spec_.k > 0 && sum_shows_elements(sum_of(spec_.metric));
  }

  SearchArgs args() const {
    SearchArgs args{.rows = rows().matrix,
                    .queries = queries_.matrix,
                    .model = model_,
                    .floats = in_lines(precision_, model_.sum),
                    .choice = choice_.choice(),
                    .visits = visits_of(rows().matrix.tiles())};
    args.first_query = numbers_.empty() ? 0 : numbers_.front();
    args.query_rows = numbers_.adjacent() ? nullptr : query_rows_.data();
    args.first_row = kept_ ? 0 : first_row_;
    args.k = spec_.k;
    args.states = states_.data();
    args.slots = slots_.data();
    args.counts = counts_.data();
    args.capacity = speculates_ ? speculation_.slots : slots_of(plan_);
    args.best = best_.data();
    args.counters = counters();
    return args;
  }

  void rerank_candidates(bool last) {
    if (spec_.k > most_shared_k) return long_lists_.rerank(args(), wide_, last);
    // With labels all that was found is ranked, and there is much of it for each query.
    const bool labelled = choice_.choice().labelled;
    const std::int64_t count = queries_.matrix.count;
    const RerankShape shape = rerank_shape(count, spec_.k, labelled, device_.multiprocessors);
    const auto rerank = [&](bool all) {
      const SearchArgs args = this->args();
      const Rerank s{
          .args = args, .ranking = ranking_of(args), .words = shape.words, .nearest = shape.nearest, .last = all};
      device_.launch().next(count, shape.threads, rerank_memory(shape.words, spec_.k, wide_),
                            rerank_kernel(s.ranking, wide_), s);
    };
    if (last && !labelled && queries_.matrix.two_bytes != nullptr) {
      rerank(false);
      device_.launch()(count, refine_threads, 0, refine_candidates, args());
    }
    rerank(last);
  }

  /// The lists of a batch to the caller. Returns how many of its queries are to be searched again.
  std::int64_t finish_batch(const NeighborsView& out, const BoundsView& bounds) {
    const SearchArgs args = this->args();
    const Counters counters =
        output_.finish({.args = args,
                        .ranking = ranking_of(args),
                        .first_id = spec_.first_id,
                        .filters = filters_,
                        .full_lists = spec_.filter.uniform(),
                        .speculative = speculates_,
                        .most_missed = 2 * std::max(args.capacity, std::min(slots_of(plan_), least_speculative_slots)),
                        .zeros_are_exact = zeros_are_exact(spec_.metric, spec_.corpus.dtype, query_points_.dtype)},
                       out, wide_);
    report(counters);
    output_.give(out, bounds, numbers_, counters);
    stats_.underflowed +=
        underflowed_products_.give_back(out, numbers_, spec_.first_id, first_row_, output_.on_device());
    return noted_.note(counters, stats_);
  }

  /// Queries whose guessed thresholds were not verified see all rows once more, with proved ones, as many at a time as
  /// the batch's slots hold. The batch is another one afterwards.
  void search_missed(const NeighborsView& out, const BoundsView& bounds, std::int64_t missed) {
    const std::int64_t count = queries_.matrix.count, most = repeated_batch(count, slots_of(plan_), speculation_);
    passes_.limit_candidates(
        speculative_entries(plan_.query_batch, slots_of(plan_), speculation_, passes_.by_groups(), 0));
    std::vector<double> largest(static_cast<std::size_t>(count));
    std::vector<std::uint32_t> order(largest.size());
    device_.out(largest.data(), output_.largest_errors(count), count * 8);
    device_.out(order.data(), queries_.matrix.order, count * 4);
    device_.wait();
    const std::vector<std::int64_t> which = marked(largest, missed_mark, order);  // of the batch
    if (static_cast<std::int64_t>(which.size()) != missed)
      fail(ErrorCode::internal, cat(missed, " queries were missed, and ", which.size(), " say so"));
    // Their rows side by side, and their numbers as the caller counts them.
    std::vector<std::int64_t> numbers;
    for (const std::int64_t i : which) numbers.push_back(numbers_[static_cast<std::size_t>(i)]);
    const Points points =
        missed_rows_.gather(Points(queries_.matrix.rows, queries_.matrix.dtype, count, queries_.matrix.dims), which);
    speculates_ = false;
    for (const std::int64_t i : which) bounds.largest[i] = 0;
    // Some of them are searched at a time. Where most of those that come
    // first are lost again, the others are left to the next precision.
    for (std::int64_t from = 0, taken = 0; from < missed; from += taken) {
      taken = std::min({from == 0 ? std::int64_t{block_queries} : most, most, missed - from});
      const auto some = static_cast<std::size_t>(taken), at = static_cast<std::size_t>(from);
      start_batch(std::span<const std::int64_t>(numbers).subspan(at, some), points.slice(from, taken));
      filter();
      rerank();
      std::vector<double> radii(some), errors(some);
      std::vector<std::int64_t> found(some);
      finish_batch(out, {radii.data(), errors.data(), bounds.found == nullptr ? nullptr : found.data()});
      for (std::size_t i = 0; i < some; ++i) {
        const std::int64_t to = which[at + i];
        bounds.verified_radius[to] = radii[i];
        bounds.largest[to] = errors[i];
        if (bounds.found != nullptr) bounds.found[to] = found[i];
      }
      if (from == 0 && 2 * std::count(radii.begin(), radii.end(), -infinite) > taken) break;
    }
  }

  void report_bad_rows(const Counters& counters) {
    if (counters.bad_queries != 0) preparer_->report_rows(query_points_, "query");
    if (counters.bad_rows != 0) preparer_->report_rows(spec_.corpus, "corpus");
  }
  Counters* counters() const noexcept { return output_.counters(); }
  /// What the kernels have counted so far.
  Counters counted() {
    preparer_->clear_counters();
    return output_.counted();
  }
  void report(const Counters& counters) {
    report_bad_rows(counters);
    if (counters.undefined_keys != 0) report_undefined_product(counters.first_undefined);
    if (counters.repeated != 0)
      fail(ErrorCode::internal, cat(counters.repeated, " entries of lists name the row of the entry before them"));
    if (counters.infinite_keys != 0)
      report_infinite(spec_, counters.nearest_infinite != 0 ? ListEnd::nearest : ListEnd::farthest);
  }

  Device& device_;
  const SearchSpec& spec_;
  const Plan& plan_;
  Precision precision_;
  bool filters_, wide_;
  std::shared_ptr<const CudaPreparedCorpus<Device>> kept_;
  ThreadPool& thread_pool_;
  Stats& stats_;
  std::int64_t longest_;  // list that rows with as many equals before them are left out of
  std::optional<MatrixPreparer<Device>> preparer_;
  DeviceTransform transform_;
  DeviceBuffer<float, Device> centre_;
  PreparedMatrixBuffers<Device> rows_, queries_;
  // Of a graph whose tiles serve both sides: the rows in the order of their queries, and thresholds by row.
  PreparedMatrixBuffers<Device> both_;
  DeviceBuffer<double, Device> moved_keys_;
  DeviceBuffer<std::uint32_t, Device> moved_counts_;
  DeviceBuffer<float, Device> moved_bases_;
  bool in_one_order_ = false;
  std::optional<IncomingRows<Device>> incoming_;  // where the corpus comes in chunks from the host
  DeviceBuffer<std::int64_t, Device> query_rows_;
  DeviceBuffer<QueryState, Device> states_;
  DeviceBuffer<Slot, Device> slots_;
  DeviceBuffer<std::uint32_t, Device> counts_;
  DeviceBuffer<std::byte, Device> best_;
  BatchOutput<Device> output_;
  ChosenRows<Device> chosen_, missed_rows_;  // queries that do not follow one another
  RowChoiceBuffers<Device> choice_;
  BoundModel model_;
  Points query_points_;
  QueryRows numbers_;
  UnderflowedProducts<Device> underflowed_products_;
  LongLists<Device> long_lists_;
  ExhaustiveRanking<Device> exhaustive_;
  FilterPasses<Device> passes_;
  std::optional<RangeMatches<Device>> range_;
  Speculation speculation_;
  bool speculates_ = false;  // of this batch
  NotedCounters noted_;
  std::int64_t first_row_ = 0, seen_rows_ = 0;
};

}  // namespace vicinal::cuda
