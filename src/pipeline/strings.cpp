// STRINGS: the same searches with other data. One side is read after the other (checked, coded, sorted by length), then
// the plan is made, since lengths and symbols decide it, and the backend's one stage collects for every query: a
// distance of strings is exact when it is there, so there is nothing to certify. Several devices take a run of the
// queries each.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <numeric>
#include <optional>

#include "core/fpenv.hpp"
#include "core/metric.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/device_tasks.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* string_precision = "exact";

[[noreturn]] void refuse_strings(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

/// For checks that know rows alone.
Shape rows_of(const Strings& strings) { return {strings.rows, 1, DType::u8}; }

/// A side without strings has no kind: an empty list of Python's, say.
void check_encodings(const Strings& corpus, const Strings& queries) {
  if (corpus.rows == 0 || queries.rows == 0) return;
  const bool bytes = corpus.encoding == Encoding::bytes;
  if (bytes == (queries.encoding == Encoding::bytes)) return;
  refuse_strings(cat("corpus holds ", bytes ? "bytes" : "code points", ", query side ", bytes ? "code points" : "bytes",
                     "; give both alike"));
}

std::int64_t symbols_of(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}
std::int64_t longest_of(const std::vector<std::int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

/// Hamming has no distance between strings of different lengths.
void check_lengths(const char* side, const std::vector<std::int64_t>& lengths, std::int64_t length) {
  const auto other = std::find_if(lengths.begin(), lengths.end(), [&](std::int64_t here) { return here != length; });
  if (other != lengths.end())
    refuse_strings(cat("hamming compares strings of one length; ", side, " string ", other - lengths.begin(), " has ",
                       *other, " symbols, corpus string 0 has ", length));
}

/// Both sides read and planned for. Nothing is kept of the input.
class StringJob {
 public:
  /// queries: null in a graph. k: null in a range search.
  StringJob(const Strings& corpus, const Strings* queries, const KnnOptions& options, const std::int64_t* k)
      : options_(options), corpus_(corpus), queries_(queries), devices_(device_names(options.run.device)),
        backend_(find_backend(devices_.front())), plan_(open_plan(backend_, options)),
        rows_(queries != nullptr ? queries->rows : corpus.rows), start_(Clock::now()),
        thread_pool_(plan_.threads, options.progress, options.stop, static_cast<std::uint64_t>(corpus.rows * rows_)),
        alphabet_(std::make_unique<Alphabet>()) {
    if (several()) {
      check_devices(devices_, options.stream);
      plan_.device = joined(devices_, ",");
    }
    plan_.cascade = {string_precision};
    plan_.distance_type = resolve_distance_type(options.distance_type, options.metric, DType::f32, DType::f32);
    lengths_ = alphabet_->read(corpus, "corpus", options.strings.max_length, thread_pool_);
    if (queries != nullptr)
      query_lengths_ = alphabet_->read(*queries, "query", options.strings.max_length, thread_pool_);
    if (options.metric == Metric::hamming && !lengths_.empty()) {
      check_lengths("corpus", lengths_, lengths_[0]);
      check_lengths("query", query_lengths_, lengths_[0]);
    }
    shape(k);
  }

  const Plan& plan() const noexcept { return plan_; }
  std::int64_t rows() const noexcept { return rows_; }

  /// Entries of each query to `answer`; returns what a range search found in all.
  std::int64_t run(const RowFilter& filter, std::int64_t k, std::optional<double> radius, std::int64_t most,
                   const StringAnswer& answer, Report& report) {
    const StringSet set(corpus_, lengths_, *alphabet_, thread_pool_);
    std::optional<StringSet> others;
    if (queries_ != nullptr) others.emplace(*queries_, query_lengths_, *alphabet_, thread_pool_);
    lengths_ = query_lengths_ = {};
    note_plan(report.stats, plan_, corpus_.rows * rows_);
    note_threads(report.stats, thread_pool_);
    report.stats.prepare_seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const StringSearchSpec spec{.corpus = set,
                                .queries = others ? *others : set,
                                .alphabet = *alphabet_,
                                .metric = options_.metric,
                                .type = plan_.distance_type,
                                .encoding = corpus_.encoding,
                                .ngram = options_.strings.ngram,
                                .k = k,
                                .first_id = options_.first_id,
                                .filter = filter,
                                .radius = radius,
                                .most = most};
    const bool nothing = !radius && k == 0;  // an empty corpus, padded
    const std::int64_t entries = nothing ? 0 : search(spec, answer, report.stats);
    report.stats.passes = 1;
    report.certificate = {
        .queries = rows_, .proven = rows_, .redone = 0, .precisions = {string_precision}, .largest_bound = 0};
    thread_pool_.finish();
    report.stats.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return entries;
  }
  std::int64_t free_entries() const {
    return std::max<std::int64_t>(
        (plan_.budget_bytes - plan_.peak_bytes) / static_cast<std::int64_t>(2 * sizeof(Entry)), 1);
  }

 private:
  /// By the backend what it takes, by the host the rest: queries come by length, so both have a run of them.
  std::int64_t search(StringSearchSpec spec, const StringAnswer& answer, Stats& stats) {
    const StringBackend* own = backend_.strings();
    const StringShare share = own != nullptr ? own->share_strings(spec) : StringShare{0, "searches of strings"};
    spec.last_query = share.end;
    const std::int64_t entries = share.end == 0 ? 0
                                 : several()    ? search_on_devices(spec, answer, stats)
                                                : own->search_strings(spec, plan_, answer, thread_pool_, stats);
    if (share.end >= rows_) return entries;
    stats.notes.push_back(cat("of ", rows_, " queries ", rows_ - share.end, " were searched on the CPU, not on ",
                              plan_.device, ": ", share.why));
    spec.first_query = share.end;
    spec.last_query = rows_;
    spec.most = std::max<std::int64_t>(spec.most - entries, 0);
    Stats here;
    const std::int64_t others = cpu_backend().strings()->search_strings(spec, host_, answer, thread_pool_, here);
    stats.candidates += here.candidates;
    stats.reranked += here.reranked;
    return entries + others;
  }

  bool several() const noexcept { return devices_.size() > 1; }

  /// Each device searches all strings for a run of the queries of `spec`.
  std::int64_t search_on_devices(const StringSearchSpec& spec, const StringAnswer& answer, Stats& stats) {
    const std::vector<std::int64_t> cuts = cuts_of(spec.queries, spec.query_end(), devices_.size());
    const auto pairs = [&](std::int64_t queries) { return static_cast<std::uint64_t>(corpus_.rows * queries); };
    std::atomic<std::int64_t> given{0};
    const StringAnswer within_most = [&](std::int64_t row, std::span<const Entry> entries) {
      const auto count = static_cast<std::int64_t>(entries.size());
      if (!spec.radius || given.fetch_add(count) + count <= spec.most) answer(row, entries);
    };
    std::vector<Stats> found(devices_.size());
    std::vector<std::int64_t> entries(devices_.size());
    DeviceTasks tasks(devices_, options_.progress, pairs(rows_));
    tasks.run([&](std::size_t i) {
      StringSearchSpec own = spec;
      own.first_query = cuts[i];
      own.last_query = cuts[i + 1];
      if (own.first_query == own.last_query) return;
      const FpGuard guard;
      ThreadPool thread_pool(each_.threads, tasks.progress_of(i), options_.stop, pairs(cuts[i + 1] - cuts[i]));
      entries[i] = find_backend(devices_[i]).strings()->search_strings(own, each_, within_most, thread_pool, found[i]);
    });
    thread_pool_.poll(pairs(spec.query_end()));  // whose progress goes on from here
    for (const Stats& one : found) {
      stats.candidates += one.candidates;
      stats.reranked += one.reranked;
    }
    return std::accumulate(entries.begin(), entries.end(), std::int64_t{0});
  }

  /// It returns where the queries of each device begin, and where those of the last end. Queries come by length; the
  /// distance of a pair takes a word of 64 symbols of the query at a time.
  static std::vector<std::int64_t> cuts_of(const StringSet& queries, std::int64_t end, std::size_t devices) {
    const auto work_of = [&](std::int64_t at) { return queries.length(at) / 64 + 1; };
    std::int64_t total = 0, work = 0;
    for (std::int64_t at = 0; at < end; ++at) total += work_of(at);
    std::vector<std::int64_t> cuts{0};
    for (std::int64_t at = 0; at < end; work += work_of(at++))
      while (cuts.size() < devices && work * static_cast<std::int64_t>(devices) >= total * std::ssize(cuts))
        cuts.push_back(at);
    cuts.resize(devices + 1, end);
    return cuts;
  }

  /// The bytes of all devices' shares beyond the strings, and the plan of each.
  std::int64_t shape_devices(const StringSizes& sizes, std::int64_t k, bool range) {
    each_ = plan_;
    each_.threads = device_threads(plan_.threads, devices_);
    StringSizes share = sizes;
    share.queries = even_share(sizes.queries, devices_);
    share.query_symbols = even_share(sizes.query_symbols, devices_);
    const auto bytes_of = [&](const StringSizes& of) {
      return backend_.strings()->shape_strings(each_, of, options_.metric, k, range);
    };
    const std::int64_t all_queries = bytes_of(sizes),  // a device may have them all there
        bytes = std::max(all_queries, bytes_of(share));
    const int threads = plan_.threads;
    plan_ = each_;
    plan_.threads = threads;
    plan_.notes.push_back(by_queries_note(devices_, share.queries, sizes.queries));
    return bytes * std::ssize(devices_);
  }

  void shape(const std::int64_t* k) {
    const bool graph = queries_ == nullptr;
    const std::vector<std::int64_t>& asked = graph ? lengths_ : query_lengths_;
    const StringSizes sizes{.rows = corpus_.rows,
                            .symbols = symbols_of(lengths_),
                            .longest = longest_of(lengths_),
                            .queries = rows_,
                            .query_symbols = symbols_of(asked),
                            .longest_query = longest_of(asked),
                            .alphabet = alphabet_->size()};
    const std::int64_t wanted = k != nullptr ? std::min(*k, corpus_.rows) : 0;
    const std::int64_t lengths = 8 * (corpus_.rows + (graph ? 0 : rows_));
    const StringBackend* own = backend_.strings();
    const Plan opened = plan_;
    host_ = plan_;
    std::int64_t bytes = own == nullptr ? 0
                         : several()    ? shape_devices(sizes, wanted, k == nullptr)
                                        : own->shape_strings(plan_, sizes, options_.metric, wanted, k == nullptr);
    if (&backend_ != &cpu_backend()) {
      const Facts& host = cpu_backend().device().facts();
      host_.device = host.name;
      host_.instruction_set = host.instruction_sets.front();
      bytes += cpu_backend().strings()->shape_strings(host_, sizes, options_.metric, wanted, k == nullptr);
    }
    if (own == nullptr) plan_.seconds = host_.seconds;
    plan_.peak_bytes = bytes + StringSet::bytes(lengths_, sizes.alphabet) +
                       (graph ? 0 : StringSet::bytes(query_lengths_, sizes.alphabet)) + lengths + sizes.alphabet * 16 +
                       RowFilter::bytes(options_.eligible, corpus_.rows);
    if (plan_.peak_bytes > plan_.budget_bytes && several()) {  // one device alone needs less
      devices_.resize(1);
      plan_ = opened;
      plan_.device = backend_.device().facts().name;
      return shape(k);
    }
    plan_.minimum_bytes = plan_.peak_bytes;
    if (plan_.peak_bytes > plan_.budget_bytes) fail_budget(plan_, "search the corpus in parts");
    if (k != nullptr)
      plan_.result_bytes = rows_ * *k * static_cast<std::int64_t>(8 + distance_size(plan_.distance_type));
  }

  const KnnOptions& options_;
  const Strings& corpus_;
  const Strings* queries_;
  std::vector<std::string> devices_;
  const Backend& backend_;   // of the first
  Plan plan_, each_, host_;  // each_: of one device of several; host_: of what they do not take
  std::int64_t rows_;
  Clock::time_point start_;
  ThreadPool thread_pool_;
  std::unique_ptr<Alphabet> alphabet_;
  std::vector<std::int64_t> lengths_, query_lengths_;
};

/// k-NN and graph: the same but for who may answer whom.
Neighbors nearest(const Strings& corpus, const Strings* queries, const KnnOptions& options, bool without_self) {
  FpGuard guard;
  const std::int64_t rows = queries != nullptr ? queries->rows : corpus.rows;
  const RowFilter filter(options.eligible, corpus.rows, options.first_id, without_self);
  const std::int64_t k = check_k(filter, corpus.rows, rows, options.k, options.pad);
  StringJob job(corpus, queries, options, &options.k);
  Neighbors result(rows, options.k, job.plan().distance_type, options.pad);
  const NeighborsView out = result.view();
  const auto write = [&](std::int64_t row, std::span<const Entry> entries) {
    const auto found = static_cast<std::int64_t>(entries.size());
    for (std::int64_t i = 0; i < found; ++i) {
      out.ids[row * out.k + i] = entries[static_cast<std::size_t>(i)].id;
      store_key(entries[static_cast<std::size_t>(i)].key, out.type, false, out.distances, row * out.k + i);
    }
    for (std::int64_t i = found; i < out.k; ++i)
      store_missing(out.type, false, out.ids, out.distances, row * out.k + i);
    if (out.counts != nullptr) out.counts[row] = found;
  };
  if (k == 0)
    for (std::int64_t row = 0; row < rows; ++row) write(row, {});
  Report report;
  job.run(filter, k, {}, INT64_MAX, write, report);
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
}

void check_knn(const Strings& corpus, const Strings& queries, const KnnOptions& options) {
  check_string_metric(options.metric, options.strings);
  check_encodings(corpus, queries);
  check_options(rows_of(corpus), rows_of(queries), options);
}
void check_graph(const Strings& rows, const GraphOptions& options) {
  check_string_metric(options.search.metric, options.search.strings);
  vicinal::check_graph(rows_of(rows), options);
}
void check_range(const Strings& corpus, const Strings& queries, const RangeOptions& options) {
  check_string_metric(options.search.metric, options.search.strings);
  check_encodings(corpus, queries);
  vicinal::check_range(rows_of(corpus), rows_of(queries), options);
}

}  // namespace

Neighbors knn(const Strings& corpus, const Strings& queries, const KnnOptions& options) try {
  check_knn(corpus, queries, options);
  return nearest(corpus, &queries, options, false);
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors knn_graph(const Strings& rows, const GraphOptions& options) try {
  check_graph(rows, options);
  return nearest(rows, nullptr, graph_search_options(options), !options.include_self);
} catch (const std::bad_alloc&) {
  refuse_memory();
}

CsrNeighbors range_search(const Strings& corpus, const Strings& queries, double radius,
                          const RangeOptions& options) try {
  check_radius(radius);
  check_range(corpus, queries, options);
  FpGuard guard;
  const KnnOptions& search = options.search;
  const RowFilter filter(search.eligible, corpus.rows, search.first_id, false);
  StringJob job(corpus, &queries, search, nullptr);
  const std::int64_t most = options.max_results > 0 ? options.max_results : job.free_entries();
  std::vector<std::vector<Entry>> found(static_cast<std::size_t>(queries.rows));
  Report report;
  const std::int64_t entries = job.run(
      filter, 0, radius, most,
      [&](std::int64_t row, std::span<const Entry> matches) {
        found[static_cast<std::size_t>(row)].assign(matches.begin(), matches.end());
      },
      report);
  if (entries > most) refuse_entries(entries, options.max_results, most);
  CsrNeighbors result(queries.rows, entries, job.plan().distance_type);
  std::int64_t at = 0;
  for (std::int64_t row = 0; row < queries.rows; ++row) {
    for (const Entry& entry : found[static_cast<std::size_t>(row)]) {
      result.ids()[at] = entry.id;
      store_key(entry.key, result.type(), false, result.distances(), at++);
    }
    result.offsets()[row + 1] = at;
    found[static_cast<std::size_t>(row)] = {};
  }
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       "the system refused memory for the matches; lower the radius, or search fewer queries at a time");
}

Plan plan(const Strings& corpus, const Strings& queries, const KnnOptions& options) try {
  const FpGuard guard;
  check_knn(corpus, queries, options);
  return StringJob(corpus, &queries, options, &options.k).plan();
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Plan plan_graph(const Strings& rows, const GraphOptions& options) try {
  const FpGuard guard;
  check_graph(rows, options);
  const KnnOptions search = graph_search_options(options);
  return StringJob(rows, nullptr, search, &search.k).plan();
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Plan plan_range(const Strings& corpus, const Strings& queries, const RangeOptions& options) try {
  const FpGuard guard;
  check_range(corpus, queries, options);
  return StringJob(corpus, &queries, options.search, nullptr).plan();
} catch (const std::bad_alloc&) {
  refuse_memory();
}

}  // namespace vicinal
