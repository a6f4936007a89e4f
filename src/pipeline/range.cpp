// RANGE: everything within a radius. The same stages as a k-NN search on one precision: the threshold is known from the
// start, so what the filter does not exclude is ranked at once, and a query for which the filter proves nothing has
// every row ranked. Batches come in order, so the result grows at its end; a query whose matches found no memory is
// searched again when its place in the result is known.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <new>

#include "core/fpenv.hpp"
#include "core/retry.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/searches.hpp"
#include "pipeline/spot_check.hpp"

namespace vicinal {
namespace {

/// An array that grows at its end without a second copy of it in memory: large blocks are moved by the page table.
template <class T>
class Growing {
 public:
  Growing() = default;
  ~Growing() { std::free(data_); }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;
  T* data() noexcept { return data_; }
  void resize(std::int64_t count) {
    if (count > capacity_) reserve(std::max(count, capacity_ + capacity_ / 2));
  }
  /// Gives the memory to a result of exactly `count`.
  std::shared_ptr<T[]> take(std::int64_t count) {
    reserve(std::max<std::int64_t>(count, 1));
    // A shared_ptr that finds no memory for its counts gives back what it was to own, so this lets go of it first.
    return {std::exchange(data_, nullptr), [](T* at) { std::free(at); }};
  }

 private:
  void reserve(std::int64_t count) {
    void* more = std::realloc(data_, static_cast<std::size_t>(count) * sizeof(T));
    if (more == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(more);
    capacity_ = count;
  }
  T* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

class RangeRun {
 public:
  RangeRun(const SearchSpec& spec, const std::shared_ptr<const PreparedCorpus>& kept, const Points& queries,
           const SearchPlan& plan, const ProblemShape& problem, const RangeOptions& options, std::int64_t most)
      : spec_(spec), kept_(kept), queries_(queries), plan_(plan), problem_(problem), max_results_(options.max_results),
        most_(most), size_(static_cast<std::int64_t>(distance_size(spec.type))),
        thread_pool_(plan.threads, options.search.progress, options.search.stop,
                     static_cast<std::uint64_t>(spec.corpus.rows * queries.rows)),
        offsets_(new std::int64_t[static_cast<std::size_t>(queries.rows) + 1]()) {}

  CsrNeighbors run() {
    note_plan(report_.stats, plan_, spec_.corpus.rows * queries_.rows);
    note_threads(report_.stats, thread_pool_);
    report_.certificate.queries = queries_.rows;
    const Backend& backend = find_backend(plan_.device);
    retry_smaller(
        [&] { return search(backend), true; },
        [&] { return halve(plan_, report_.certificate.precisions.back(), backend, problem_, report_.stats); });
    if (total_ > most_) refuse_entries(total_, max_results_, most_);
    thread_pool_.finish();
    if (report_.certificate.redone > 0)
      report_.certificate.precisions.emplace_back(precision_name(Precision::canonical));
    report_.certificate.proven = queries_.rows - report_.certificate.redone;
    note_underflow(report_.stats, spec_.type);
    CsrNeighbors result(queries_.rows, spec_.type, offsets_, ids_.take(total_), distances_.take(total_ * size_));
    result.certificate = std::move(report_.certificate);
    result.stats = std::move(report_.stats);
    return result;
  }

 private:
  /// The queries that are left, in one session.
  void search(const Backend& backend) {
    std::unique_ptr<Session> session;
    for (const std::string& name : plan_.cascade) {
      report_.certificate.precisions = {name};
      session = backend.search().open(spec_, plan_, precision_of(name), kept_, thread_pool_, report_.stats);
      if (session) break;
    }
    Sweep sweep(*session, spec_, plan_, kept_ != nullptr, report_.stats);
    while (done_ < queries_.rows) {
      const QueryRows rows = QueryRows::run(done_, std::min(plan_.query_batch, queries_.rows - done_));
      const std::int64_t total = total_, redone = report_.certificate.redone;
      try {
        session->prepare_queries(queries_, rows);
        sweep.run(done_ + static_cast<std::int64_t>(rows.size()) < queries_.rows);
        batch(*session, sweep, rows);
      } catch (...) {  // nothing of the batch counts
        total_ = total;
        report_.certificate.redone = redone;
        throw;
      }
      done_ += static_cast<std::int64_t>(rows.size());
    }
  }

  /// Takes over the matches of one batch; searches again those that were only counted.
  void batch(Session& session, Sweep& sweep, const QueryRows& rows) {
    const std::size_t size = rows.size();
    std::vector<std::int64_t> counts(size), begin(size);
    std::vector<bool> overflowed(size);
    session.counts(counts, overflowed);
    for (std::size_t i = 0; i < size; ++i) {
      begin[i] = total_;
      total_ += counts[i];
      offsets_[static_cast<std::size_t>(rows[i]) + 1] = total_;
    }
    if (total_ > most_) return;  // from here on only the exact need is of interest
    ids_.resize(total_);
    distances_.resize(total_ * size_);
    std::vector<std::int64_t> again, again_begin, again_count;
    for (std::size_t i = 0; i < size; ++i) {
      if (!overflowed[i]) continue;
      again.push_back(rows[i]);
      again_begin.push_back(begin[i]);
      again_count.push_back(counts[i]);
      counts[i] = 0;
    }
    finish(session, {ids_.data(), distances_.data(), spec_.type, begin, counts});
    if (again.empty()) return;
    const RangeView places{ids_.data(), distances_.data(), spec_.type, again_begin, again_count};
    session.prepare_queries(queries_, again);
    session.write_matches_to(places);
    sweep.run(done_ + static_cast<std::int64_t>(size) < queries_.rows);
    const std::int64_t redone = report_.certificate.redone;
    finish(session, places);
    report_.certificate.redone = redone;  // they were noted when they were counted
  }

  void finish(Session& session, const RangeView& out) {
    std::vector<double> verified_radius(out.begin.size()), largest(out.begin.size());
    session.finish_range(out, {verified_radius.data(), largest.data()});
    for (std::size_t i = 0; i < verified_radius.size(); ++i) {
      report_.certificate.largest_bound = std::max(report_.certificate.largest_bound, largest[i]);
      const bool everything = std::isinf(*spec_.radius) || plan_.cascade.size() == 1;
      report_.certificate.redone += static_cast<std::int64_t>(!everything && std::isinf(verified_radius[i]));
    }
  }

  const SearchSpec& spec_;
  const std::shared_ptr<const PreparedCorpus>& kept_;
  const Points& queries_;
  SearchPlan plan_;  // smaller where memory was refused
  const ProblemShape& problem_;
  std::int64_t max_results_, most_, size_, total_ = 0, done_ = 0;  // done_: queries
  Report report_;
  ThreadPool thread_pool_;
  std::shared_ptr<std::int64_t[]> offsets_;
  Growing<std::int64_t> ids_;
  Growing<std::byte> distances_;
};

}  // namespace

CsrNeighbors range_search(const Points& corpus, const Prepared& prepared, const Points& queries, double radius,
                          const RangeOptions& options) try {
  check_radius(radius);
  if (const std::vector<std::string> devices = several_devices(options.search.run.device); !devices.empty())
    return range_on_devices(corpus, prepared, queries, radius, options, devices);
  const auto start = std::chrono::steady_clock::now();
  const KnnOptions& search = options.search;
  const Backend& backend = find_backend(search.run.device);
  check_range_search(backend, corpus, queries, options);
  const ProblemShape problem =
      range_problem(shape_on(backend, corpus), shape_on(backend, queries), search, prepared.plan());
  const SearchPlan plan = make_plan(backend, problem, search);
  const SearchSpec spec{.corpus = corpus,
                        .metric = search.metric,
                        .type = plan.distance_type,
                        .degenerate = search.degenerate,
                        .first_id = search.first_id,
                        .filter = RowFilter(search.eligible, corpus.rows, search.first_id, false),
                        .radius = radius,
                        .stream = search.stream};
  FpGuard guard;
  const std::int64_t most = most_matches(options.max_results, backend, plan.distance_type);
  CsrNeighbors result = RangeRun(spec, prepared.kept, queries, plan, problem, options, most).run();
  if (spot_checks() && on_host(backend, {corpus.data, queries.data})) spot_check(result, spec, queries);
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       "the system refused memory for the matches; lower the radius, or search fewer queries at a time");
}

CsrNeighbors range_search(const Points& corpus, const Points& queries, double radius, const RangeOptions& options) {
  return range_search(corpus, Prepared(), queries, radius, options);
}

}  // namespace vicinal
