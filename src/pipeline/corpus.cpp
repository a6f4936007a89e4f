// A corpus prepared once: the backend's kept form, or, when that does not fit the budget, the rows alone.
#include "vicinal/corpus.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>

#include "core/buffer.hpp"
#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "io/corpus_file.hpp"
#include "io/format.hpp"
#include "io/memory_file.hpp"
#include "io/message.hpp"
#include "pipeline/check.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/rows.hpp"
#include "pipeline/searches.hpp"

namespace vicinal {

namespace {

/// What a plan calls the device, or the devices.
std::string canonical_name(const std::string& device) {
  const std::vector<std::string> names = device_names(device);
  return names.size() > 1 ? joined(names, ",") : find_backend(device).device().facts().name;
}

int threads_of(const Execution& run) {
  if (run.threads < 0) fail(ErrorCode::invalid_argument, cat("threads must be >= 0, got ", run.threads));
  return threads_for(run.threads);
}

}  // namespace

struct Corpus::State {
  Points rows;
  Buffer<std::byte> copy;
  std::shared_ptr<const void> mapping;  // of an opened file that was not copied
  CorpusOptions options;
  Prepared prepared;
  double seconds = 0;

  /// The caller's options with what a corpus fixes. Throws DeviceError for another device than that of the prepared
  /// form.
  KnnOptions fixed(KnnOptions search) const {
    search.metric = options.metric;
    search.degenerate = options.degenerate;
    if (search.run.device == "auto") search.run.device = prepared.made.device;
    if (prepared.kept && search.run.device != prepared.made.device &&
        canonical_name(search.run.device) != prepared.made.device)
      fail(ErrorCode::device_error,
           cat("the corpus was prepared for ", prepared.made.device, ", and device=", search.run.device,
               "; use device=auto, or prepare it for the other device too"));
    return search;
  }
  void append_to(io::FileSink& file) const;
};

Prepared prepare(const Points& rows, const CorpusOptions& options) {
  if (const std::vector<std::string> devices = several_devices(options.run.device); !devices.empty())
    return prepare_on_devices(rows, options, devices);
  const KnnOptions search{
      .metric = options.metric, .memory = options.memory, .run = options.run, .stream = options.stream};
  const Backend& backend = find_backend(options.run.device);
  check_reach(backend, rows, rows, search);
  const SearchPlan plan =
      make_corpus_plan(backend, {rows.rows, rows.cols, rows.dtype, backend.device().holds(rows.data)}, search);
  ThreadPool thread_pool(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(rows.rows));
  Prepared prepared{.made = plan};
  if (plan.resident && rows.rows > 0) {
    const DistanceType type = resolve_distance_type(DistanceType::automatic, options.metric, rows.dtype, rows.dtype);
    const SearchSpec spec{.corpus = rows,
                          .metric = options.metric,
                          .type = type,
                          .degenerate = options.degenerate,
                          .k = std::min(search.k, rows.rows),
                          .stream = options.stream};
    prepared.kept = backend.search().prepare_corpus(spec, plan, thread_pool);
    if (&backend == &cpu_backend()) prepared.last = std::make_shared<KeptPlan>();
  } else if (options.stream != nullptr) {
    backend.device().wait_for(options.stream);  // searches read the rows, and know nothing of that stream
  }
  thread_pool.finish();
  return prepared;
}

Corpus::Corpus(const Points& rows, const CorpusOptions& options) try : state_(std::make_unique<State>()) {
  const auto start = std::chrono::steady_clock::now();
  check_view(rows, "corpus");
  check_corpus(shape_of(rows), options.metric);
  const int threads = threads_of(options.run);
  FpGuard guard;
  state_->options = options;
  state_->options.progress = nullptr;
  state_->options.stop = {};
  state_->options.stream = nullptr;
  if (options.copy) {
    check_host(find_backend(options.run.device), rows, "corpus", "copying");
    ThreadPool thread_pool(threads, options.progress, options.stop, static_cast<std::uint64_t>(rows.rows));
    state_->rows = copy_rows(rows, state_->copy, thread_pool);
  } else {
    state_->rows = rows;
  }
  state_->prepared = prepare(state_->rows, options);
  state_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, "the system refused memory for the prepared corpus; set a smaller memory budget");
}

namespace {

/// The caller's progress for one of two halves of the work.
Progress half_of(const Progress& whole, std::uint64_t half, bool second) {
  if (!whole) return nullptr;
  return [&whole, half, second](std::uint64_t done, std::uint64_t total) {
    const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
    return whole((second ? half : 0) + static_cast<std::uint64_t>(share * static_cast<double>(half)), 2 * half);
  };
}

}  // namespace

/// What a corpus is opened from. `file` lies in one of the two, or is borrowed.
struct Corpus::Opened {
  const std::string& name;
  io::Bytes file;
  io::Source mapped = nullptr;
  Buffer<std::byte> copied = {};
};

Corpus Corpus::opened(Opened from, const OpenOptions& options) {
  const int threads = threads_of(options.run);
  const io::Bytes file = from.file;
  const io::CorpusLayout layout =
      io::corpus_layout(from.name, file.first(std::min(file.size(), io::file_head)), file.size());
  const std::uint64_t half = options.verify ? std::max<std::uint64_t>(1, layout.rows().length) : 0;
  if (options.verify) {
    ThreadPool thread_pool(threads, half_of(options.progress, half, false), options.stop, half);
    std::optional<io::MappedFile::Sequential> reading;
    if (from.mapped) reading.emplace(*from.mapped);
    io::verify_sections(from.name, layout.sections, file, thread_pool);
  }
  const io::CorpusFacts& facts = layout.facts;
  const Points rows(file.data() + layout.rows().offset, facts.dtype, facts.rows, facts.cols);
  Corpus corpus(rows, {.metric = facts.metric,
                       .degenerate = facts.degenerate,
                       .memory = options.memory,
                       .run = options.run,
                       .progress = options.verify ? half_of(options.progress, half, true) : options.progress,
                       .stop = options.stop});
  corpus.state_->options.copy = options.copy;
  corpus.state_->copy = std::move(from.copied);
  corpus.state_->mapping = std::move(from.mapped);
  return corpus;
}

Corpus Corpus::open(const std::string& path, const OpenOptions& options) try {
  if (!options.copy) {
    auto mapped = std::make_shared<const io::MappedFile>(path);
    const io::Bytes file = mapped->bytes();
    return opened({.name = path, .file = file, .mapped = std::move(mapped)}, options);
  }
  Buffer<std::byte> copied = io::read_file(
      path, io::file_head, [&](io::Bytes beginning, std::uint64_t size) { io::corpus_layout(path, beginning, size); });
  const io::Bytes file = io::as_bytes(copied.data(), static_cast<std::size_t>(copied.size()));
  return opened({.name = path, .file = file, .copied = std::move(copied)}, options);
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       cat("the system refused memory to open ", io::printable(path), "; free some, or open it without copy"));
}

Corpus Corpus::open(std::span<const std::byte> saved, const OpenOptions& options) try {
  if (!options.copy) return opened({.name = io::saved_name, .file = saved}, options);
  io::corpus_layout(io::saved_name, saved.first(std::min(saved.size(), io::file_head)), saved.size());
  Buffer<std::byte> copied(static_cast<std::int64_t>(saved.size()));
  std::copy(saved.begin(), saved.end(), copied.data());
  const io::Bytes file = io::as_bytes(copied.data(), saved.size());
  return opened({.name = io::saved_name, .file = file, .copied = std::move(copied)}, options);
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       "the system refused memory to open a saved corpus; free some, or open it without copy");
}

void Corpus::State::append_to(io::FileSink& file) const {
  check_host(find_backend(prepared.made.device), rows, "corpus", "saving");
  io::append_corpus(file, {rows.dtype, options.metric, options.degenerate, rows.rows, rows.cols},
                    io::Array::view(rows));
}

void Corpus::save(const std::string& path) const try {
  if (&io::format_to_write(path, io::as_vectors) != &io::corpus_format)
    io::fail(ErrorCode::unsupported, path, "a corpus is saved with the suffix ", io::corpus_format.suffix);
  io::AtomicFile file(path);
  state_->append_to(file);
  io::AtomicFile* const one = &file;
  io::AtomicFile::publish({&one, 1});
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       cat("no memory for the buffers to write ", io::printable(path), "; free some, and save again"));
}

SavedBytes Corpus::saved() const try {
  io::MemoryFile file;
  state_->append_to(file);
  return file.take();
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       "no memory for the bytes of the saved corpus; save it to a file, which takes buffers alone");
}

Corpus::Corpus(Corpus&&) noexcept = default;
Corpus& Corpus::operator=(Corpus&&) noexcept = default;
Corpus::~Corpus() = default;

Report Corpus::knn_into(const NeighborsView& out, const Points& queries, const KnnOptions& options) const try {
  return vicinal::knn_into(out, state_->rows, state_->prepared, queries, state_->fixed(options));
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors Corpus::knn(const Points& queries, const KnnOptions& options) const try {
  return vicinal::knn(state_->rows, state_->prepared, queries, state_->fixed(options));
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors Corpus::knn_graph(const GraphOptions& options) const try {
  GraphOptions with = options;
  with.search = state_->fixed(options.search);
  return vicinal::knn_graph(state_->rows, state_->prepared, with);
} catch (const std::bad_alloc&) {
  refuse_memory();
}

CsrNeighbors Corpus::range_search(const Points& queries, double radius, const RangeOptions& options) const try {
  return vicinal::range_search(state_->rows, state_->prepared, queries, radius,
                               {.search = state_->fixed(options.search), .max_results = options.max_results});
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Verdict Corpus::verify(const Points& queries, const Claim& claim, const VerifyOptions& options) const try {
  return vicinal::verify(state_->rows, state_->prepared, queries, claim,
                         {.search = state_->fixed(options.search), .relative_tolerance = options.relative_tolerance});
} catch (const std::bad_alloc&) {
  refuse_memory();
}

std::int64_t Corpus::rows() const noexcept { return state_->rows.rows; }
std::int64_t Corpus::cols() const noexcept { return state_->rows.cols; }
DType Corpus::dtype() const noexcept { return state_->rows.dtype; }
Metric Corpus::metric() const noexcept { return state_->options.metric; }
bool Corpus::owns_rows() const noexcept { return state_->options.copy; }
bool Corpus::resident() const noexcept { return state_->prepared.kept != nullptr; }
std::int64_t Corpus::bytes() const noexcept {
  return state_->copy.bytes() + (state_->prepared.kept ? state_->prepared.kept->bytes() : 0);
}
double Corpus::prepare_seconds() const noexcept { return state_->seconds; }

}  // namespace vicinal
