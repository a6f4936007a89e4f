// MULTI-DEVICE: shares of queries, or of rows of the corpus, each a search of its own on one device (docs/design/0030).
// Where a share finds something to refuse, the first device searches alone and says it in the words, and with the row
// numbers, of one search: a share has rows in its lists that the whole answer has not.
#include "pipeline/multi_device.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/divide.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/device_tasks.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/merge.hpp"
#include "pipeline/saved_lists.hpp"
#include "pipeline/share_totals.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t many_queries = 16384;  // a device; fewer are sooner found if rows are divided
constexpr const char* doing = "a search by several devices";

/// The corpus in the form of each device.
struct PreparedOnDevices final : PreparedCorpus {
  std::vector<Prepared> each;
  std::int64_t bytes() const override {
    std::int64_t total = 0;
    for (const Prepared& one : each) total += one.kept->bytes();
    return total;
  }
};

Prepared prepared_for(const Prepared& prepared, std::size_t device) {
  return prepared.kept ? static_cast<const PreparedOnDevices&>(*prepared.kept).each[device] : Prepared();
}

bool in_host_memory(const std::vector<std::string>& devices) { return devices.front() == "cpu"; }

/// Errors of which one device alone has the right words, or of which it does not even come.
bool judged_alone(const Error& error) {
  return error.code() == ErrorCode::invalid_value || error.code() == ErrorCode::range_error ||
         error.code() == ErrorCode::capacity_exceeded || error.code() == ErrorCode::memory_budget;
}

KnnOptions alone(KnnOptions options, const std::vector<std::string>& devices) {
  options.run.device = devices.front();
  return options;
}

void check_results(const NeighborsView& out, const std::vector<std::string>& devices) {
  const int device = out.rows > 0 ? find_backend(devices.front()).device().cuda_device(out.ids) : -1;
  if (device >= 0)
    fail(ErrorCode::device_error,
         cat("results are in memory of cuda:", device, ", ", doing, " writes to the host's; give memory there"));
}

/// The seconds in which the devices, all at once, read the corpus.
double reading_seconds(const std::vector<std::string>& devices, const Shape& corpus, const void* data) {
  return find_backend(devices.front())
      .search()
      .shared_seconds(data, corpus.rows * corpus.cols * static_cast<std::int64_t>(dtype_size(corpus.dtype)));
}

Eligible eligible_of_queries(Eligible eligible, DevicePart part) {
  if (!eligible.query_labels.empty())
    eligible.query_labels =
        eligible.query_labels.subspan(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.count));
  return eligible;
}

/// It searches the part of the queries that device `device` has, into the part of the result that is theirs.
using PartSearch =
    std::function<Report(std::size_t device, DevicePart part, const NeighborsView& mine, const KnnOptions& own)>;

Report by_queries(const NeighborsView& out, const Points& corpus, const KnnOptions& options, const Share& share,
                  const std::vector<std::string>& devices, double start, const PartSearch& search) {
  std::vector<Report> reports(devices.size());
  DeviceTasks tasks(devices, options.progress,
                    static_cast<std::uint64_t>(corpus.rows) * static_cast<std::uint64_t>(out.rows));
  tasks.run([&](std::size_t i) {
    const DevicePart part = part_of_device(i, share.queries, out.rows);
    if (part.count == 0) return;
    KnnOptions own = device_options(options, devices, i);
    own.progress = tasks.progress_of(i);
    own.eligible = eligible_of_queries(options.eligible, part);
    NeighborsView mine = out;
    mine.ids += part.first * out.k;
    mine.distances =
        static_cast<std::byte*>(out.distances) + static_cast<std::size_t>(part.first * out.k) * distance_size(out.type);
    if (out.counts != nullptr) mine.counts += part.first;
    mine.rows = part.count;
    reports[i] = search(i, part, mine, own);
  });
  ShareTotals sum(devices, share, out.rows);
  for (const Report& report : reports) sum.add(report.certificate, report.stats);
  Report all;
  sum.close(all.certificate, all.stats, start);
  return all;
}

Report knn_by_queries(const NeighborsView& out, const Points& corpus, const Prepared& prepared, const Points& queries,
                      const KnnOptions& options, const Share& share, const std::vector<std::string>& devices,
                      double start) {
  return by_queries(out, corpus, options, share, devices, start,
                    [&](std::size_t i, DevicePart part, const NeighborsView& mine, const KnnOptions& own) {
                      return knn_into(mine, corpus, prepared_for(prepared, i), queries.slice(part.first, part.count),
                                      own);
                    });
}

Report knn_by_rows(const NeighborsView& out, const Points& corpus, const Points& queries, const KnnOptions& options,
                   const Share& share, const std::vector<std::string>& devices, double start) {
  const double reading = reading_seconds(devices, shape_of(corpus), corpus.data);
  std::vector<Neighbors> found(devices.size());
  DeviceTasks tasks(devices, options.progress,
                    static_cast<std::uint64_t>(corpus.rows) * static_cast<std::uint64_t>(queries.rows));
  tasks.run([&](std::size_t i) {
    const DevicePart part = part_of_device(i, share.rows, corpus.rows);
    if (part.count == 0) return;
    std::vector<std::uint64_t> words;
    KnnOptions own = piece_options(options, part.first, part.count, 0, queries.rows, words);
    own.progress = tasks.progress_of(i);
    own.distance_type = out.type;
    found[i] = knn(corpus.slice(part.first, part.count), queries, device_options(own, devices, i));
  });
  ShareTotals sum(devices, share, queries.rows);
  std::vector<NeighborsView> lists;
  for (const Neighbors& one : found) {
    if (one.ids() == nullptr) continue;
    lists.push_back(one.view());
    sum.add(one.certificate, one.stats);
  }
  merge_found(lists, options.metric, out, threads_for(options.run.threads));
  Report all;
  sum.close(all.certificate, all.stats, start);
  all.stats.planned_seconds = std::max(all.stats.planned_seconds, reading);
  return all;
}

/// Each device searches a run of the rows as queries, which leave themselves out, into its part of the result.
Neighbors graph_by_queries(const Points& rows, const Prepared& prepared, const GraphOptions& options,
                           const Share& share, const std::vector<std::string>& devices, double start) {
  const KnnOptions search = graph_search_options(options);
  Neighbors result(rows.rows, search.k,
                   resolve_distance_type(search.distance_type, search.metric, rows.dtype, rows.dtype), search.pad);
  Report report = by_queries(result.view(), rows, search, share, devices, start,
                             [&](std::size_t i, DevicePart part, const NeighborsView& mine, const KnnOptions& own) {
                               GraphOptions one = options;
                               one.search = own;
                               return graph_into(mine, rows, part.first, prepared_for(prepared, i), one);
                             });
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
}

/// One neighbour more than is asked for is found; then the row itself is left out of its list, or the last.
Neighbors graph_by_rows(const Points& rows, const GraphOptions& options, const RowFilter& filter, double start) {
  Neighbors wide = knn(rows, Prepared(), rows, wide_search_options(options));
  Neighbors result(rows.rows, options.search.k, wide.type(), options.search.pad);
  const int threads = threads_for(options.search.run.threads);
  copy_without_self(wide, 0, result.k(), result.view(), threads);
  complete_lists(result.view(), filter, rows.rows, options.search.metric, threads);
  result.certificate = std::move(wide.certificate);
  result.stats = std::move(wide.stats);
  result.stats.seconds = now_seconds() - start;
  return result;
}

}  // namespace

void check_devices(const std::vector<std::string>& devices, const void* stream) {
  if (stream != nullptr)
    fail(ErrorCode::unsupported,
         "a stream is one device's, and the work is by several; wait for it, or name one device");
  for (const std::string& device : devices) find_backend(device);
}

void check_sides(const Points& corpus, const Points& queries, const KnnOptions& options,
                 const std::vector<std::string>& devices) {
  check_devices(devices, options.stream);
  for (const std::string& device : devices) {
    const Backend& backend = find_backend(device);
    check_host(backend, corpus, "corpus", doing);
    check_host(backend, queries, "query", doing);
  }
}

Share share_of(const Shape& corpus, const Shape& queries, const KnnOptions& options, bool kept,
               const std::vector<std::string>& devices) {
  const auto count = static_cast<std::int64_t>(devices.size());
  constexpr std::int64_t word = 64;  // rows: bitmaps are not cut within one
  Share share;
  share.rows = std::max<std::int64_t>(divide_up(corpus.rows, count * word) * word, 1);
  share.queries = even_share(queries.rows, devices);
  share.by_rows = !kept && corpus.rows > 0;
  if (!share.by_rows || queries.rows / count < many_queries) return share;
  KnnOptions one = device_options(options, devices, 0);
  one.eligible = {};
  one.pad = true;
  try {
    share.by_rows = !plan(corpus, {share.queries, queries.cols, queries.dtype}, one).resident;
  } catch (const Error& error) {
    if (!judged_alone(error)) throw;  // of too little memory the search says more
  }
  return share;
}

int device_threads(int asked, const std::vector<std::string>& devices) {
  return std::max(1, threads_for(asked) / static_cast<int>(devices.size()));
}

KnnOptions device_options(KnnOptions options, const std::vector<std::string>& devices, std::size_t device) {
  const auto count = static_cast<std::int64_t>(devices.size());
  options.run.device = devices[device];
  options.run.threads = device_threads(options.run.threads, devices);
  if (in_host_memory(devices)) {  // which they share
    const std::int64_t all =
        options.memory.host > 0 ? options.memory.host : find_backend("cpu").device().free_bytes() / 10 * 9;
    options.memory.host = std::max<std::int64_t>(all / count, 1);
  }
  return options;
}

std::string by_queries_note(const std::vector<std::string>& devices, std::int64_t share, std::int64_t queries) {
  return cat(devices.size(), " devices, by queries: each searches all rows for ", share, " of the ", queries,
             " queries; the seconds are those of each");
}

Plan plan_of_devices(const Shape& corpus, const Shape& queries, const KnnOptions& options, const Share& share,
                     const std::vector<std::string>& devices, const void* data, const SharePlanner& planner) {
  Shape rows = corpus, asked = queries;
  if (share.by_rows) rows.rows = std::min(share.rows, corpus.rows);
  else asked.rows = std::min(share.queries, queries.rows);
  std::vector<std::uint64_t> words;
  const KnnOptions own = device_options(piece_options(options, 0, rows.rows, 0, asked.rows, words), devices, 0);
  Plan whole;
  try {
    whole = planner(rows, asked, own);
  } catch (const Error& error) {
    if (!judged_alone(error)) throw;
    return planner(corpus, queries, alone(options, devices));
  }
  if (in_host_memory(devices))
    for (std::int64_t* bytes : {&whole.budget_bytes, &whole.peak_bytes, &whole.minimum_bytes})
      *bytes *= static_cast<std::int64_t>(devices.size());
  if (share.by_rows) whole.seconds = std::max(whole.seconds, reading_seconds(devices, corpus, data));
  whole.device = joined(devices, ",");
  whole.threads *= static_cast<int>(devices.size());
  if (whole.result_bytes > 0)
    whole.result_bytes = queries.rows * options.k * static_cast<std::int64_t>(8 + distance_size(whole.distance_type));
  whole.notes.push_back(
      share.by_rows ? cat(devices.size(), " devices, by rows: each searches ", share.rows, " of the ", corpus.rows,
                          " rows for all queries, and their lists are merged; the seconds are those of each")
                    : by_queries_note(devices, share.queries, queries.rows));
  return whole;
}

Report knn_on_devices(const NeighborsView& out, const Points& corpus, const Prepared& prepared, const Points& queries,
                      const KnnOptions& options, const std::vector<std::string>& devices) {
  const double start = now_seconds();
  const Backend& first = find_backend(devices.front());
  check_search(first, corpus, queries, options);
  check_sides(corpus, queries, options, devices);
  check_out(out, queries, options,
            resolve_distance_type(options.distance_type, options.metric, corpus.dtype, queries.dtype));
  check_results(out, devices);
  const RowFilter filter(options.eligible, corpus.rows, options.first_id, false);
  check_k(filter, corpus.rows, queries.rows, options.k, options.pad);
  const Share share = share_of(shape_of(corpus), shape_of(queries), options, prepared.kept != nullptr, devices);
  try {
    return share.by_rows ? knn_by_rows(out, corpus, queries, options, share, devices, start)
                         : knn_by_queries(out, corpus, prepared, queries, options, share, devices, start);
  } catch (const Error& error) {
    if (!judged_alone(error)) throw;
    return knn_into(out, corpus, prepared_for(prepared, 0), queries, alone(options, devices));
  }
}

Neighbors graph_on_devices(const Points& rows, const Prepared& prepared, const GraphOptions& options,
                           const std::vector<std::string>& devices) {
  const double start = now_seconds();
  check_graph_search(find_backend(devices.front()), rows, options);
  const KnnOptions search = graph_search_options(options);
  check_sides(rows, rows, search, devices);
  const RowFilter filter(search.eligible, rows.rows, 0, !options.include_self);
  check_k(filter, rows.rows, rows.rows, search.k, search.pad);
  const Share share = share_of(shape_of(rows), shape_of(rows), search, prepared.kept != nullptr, devices);
  try {
    return share.by_rows ? graph_by_rows(rows, options, filter, start)
                         : graph_by_queries(rows, prepared, options, share, devices, start);
  } catch (const Error& error) {
    if (!judged_alone(error)) throw;
    GraphOptions one = options;
    one.search = alone(options.search, devices);
    return knn_graph(rows, prepared_for(prepared, 0), one);
  }
}

CsrNeighbors range_on_devices(const Points& corpus, const Prepared& prepared, const Points& queries, double radius,
                              const RangeOptions& options, const std::vector<std::string>& devices) {
  const double start = now_seconds();
  check_view(corpus, "corpus");
  check_view(queries, "query");
  check_sides(corpus, queries, options.search, devices);
  check_range(shape_of(corpus), shape_of(queries), options);
  Share share = share_of(shape_of(corpus), shape_of(queries), options.search, true, devices);
  std::vector<CsrNeighbors> found(devices.size());
  DeviceTasks tasks(devices, options.search.progress,
                    static_cast<std::uint64_t>(corpus.rows) * static_cast<std::uint64_t>(queries.rows));
  std::int64_t total = 0;
  try {
    tasks.run([&](std::size_t i) {
      const DevicePart part = part_of_device(i, share.queries, queries.rows);
      if (part.count == 0) return;
      RangeOptions own{.search = device_options(options.search, devices, i), .max_results = options.max_results};
      own.search.progress = tasks.progress_of(i);
      own.search.eligible = eligible_of_queries(options.search.eligible, part);
      found[i] = range_search(corpus, prepared_for(prepared, i), queries.slice(part.first, part.count), radius, own);
    });
    for (const CsrNeighbors& one : found) total += one.entries();
    if (options.max_results > 0 && total > options.max_results)
      fail(ErrorCode::capacity_exceeded, "");  // whose words are below
  } catch (const Error& error) {
    if (!judged_alone(error)) throw;
    RangeOptions one = options;
    one.search = alone(options.search, devices);
    return range_search(corpus, prepared_for(prepared, 0), queries, radius, one);
  }
  const DistanceType type =
      resolve_distance_type(options.search.distance_type, options.search.metric, corpus.dtype, queries.dtype);
  CsrNeighbors all(queries.rows, total, type);
  ShareTotals sum(devices, share, queries.rows);
  std::int64_t row = 0, at = 0;
  for (const CsrNeighbors& one : found) {
    if (one.offsets() == nullptr) continue;
    const auto size = distance_size(type), entries = static_cast<std::size_t>(one.entries());
    std::memcpy(all.ids() + at, one.ids(), entries * 8);
    std::memcpy(static_cast<std::byte*>(all.distances()) + static_cast<std::size_t>(at) * size, one.distances(),
                entries * size);
    for (std::int64_t i = 0; i < one.rows(); ++i) all.offsets()[++row] = at + one.offsets()[i + 1];
    at += one.entries();
    sum.add(one.certificate, one.stats);
  }
  sum.close(all.certificate, all.stats, start);
  return all;
}

Prepared prepare_on_devices(const Points& rows, const CorpusOptions& options, const std::vector<std::string>& devices) {
  auto all = std::make_shared<PreparedOnDevices>();
  all->each.resize(devices.size());
  KnnOptions search{.metric = options.metric, .memory = options.memory, .run = options.run, .stream = options.stream};
  check_sides(rows, rows, search, devices);
  DeviceTasks tasks(devices, options.progress, static_cast<std::uint64_t>(rows.rows) * devices.size());
  const auto prepare_one = [&](std::size_t i) {
    const KnnOptions own = device_options(search, devices, i);
    CorpusOptions one = options;
    one.run = own.run;
    one.memory = own.memory;
    one.progress = tasks.progress_of(i);
    all->each[i] = prepare(rows, one);
  };
  try {
    tasks.run(prepare_one);
  } catch (const Error& error) {
    if (!judged_alone(error)) throw;
    CorpusOptions one = options;
    one.run.device = devices.front();
    all->each.front() = prepare(rows, one);
    all->each.front().kept = nullptr;
  }
  Prepared prepared;
  prepared.made = all->each.front().made;
  prepared.made.device = joined(devices, ",");
  const bool kept =
      std::all_of(all->each.begin(), all->each.end(), [](const Prepared& one) { return one.kept != nullptr; });
  if (kept) prepared.kept = std::move(all);
  return prepared;
}

}  // namespace vicinal
