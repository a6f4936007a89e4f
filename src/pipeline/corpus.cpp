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
#include "io/message.hpp"
#include "pipeline/check.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/rows.hpp"

namespace vicinal {

struct Corpus::State {
  Points rows;
  Buffer<std::byte> copy;
  std::shared_ptr<const void> mapping;  // of an opened file that was not copied
  CorpusOptions options;
  std::shared_ptr<const Kept> kept;
  std::string device;           // that it was prepared for
  std::string instruction_set;  // of the kept form
  std::string filter;           // what it can be searched with: "auto", or the first rung of those that it was packed for
  double seconds = 0;
};

namespace {

Question question_of(const Points& rows, const CorpusOptions& options, const KnnOptions& search, DistanceType type) {
  return {.corpus = rows, .metric = options.metric, .type = type, .degenerate = options.degenerate,
          .k = std::min(search.k, rows.rows), .first_id = search.first_id,
          .filter = RowFilter(search.eligible, rows.rows, search.first_id, false), .stream = search.stream};
}

}  // namespace

Corpus::Corpus(const Points& rows, const CorpusOptions& options) try : state_(std::make_unique<State>()) {
  const auto start = std::chrono::steady_clock::now();
  check_view(rows, "corpus");
  check_corpus(shape_of(rows), options.metric);
  if (options.run.threads < 0) fail(ErrorCode::invalid_argument, cat("threads must be >= 0, got ", options.run.threads));
  FpGuard guard;
  state_->options = options;
  state_->options.progress = nullptr;
  state_->options.stop = {};
  state_->options.stream = nullptr;
  const KnnOptions search{.metric = options.metric, .memory = options.memory, .run = options.run, .stream = options.stream};
  Backend& backend = find_backend(options.run.device);
  if (options.copy) check_host(backend, rows, "corpus", "copying");
  check_reach(backend, rows, rows, search);
  const Plan plan = make_corpus_plan(backend, {rows.rows, rows.cols, rows.dtype, !options.copy && backend.holds(rows.data)}, search);
  state_->device = plan.device;
  state_->instruction_set = plan.instruction_set;
  state_->filter = plan.rungs.size() > 2 || plan.groups ? "auto" : plan.rungs.front();
  Team team(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(rows.rows));
  state_->rows = options.copy ? copy_rows(rows, state_->copy, team) : rows;
  if (plan.resident && rows.rows > 0) {
    const DistanceType type = resolve_distance_type(DistanceType::automatic, options.metric, rows.dtype, rows.dtype);
    state_->kept = backend.keep(question_of(state_->rows, options, search, type), plan, team);
  } else if (options.stream != nullptr) {
    backend.wait_for(options.stream);  // searches read the rows, and know nothing of that stream
  }
  team.finish();
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

int threads_of(const Execution& run) {
  if (run.threads < 0) fail(ErrorCode::invalid_argument, cat("threads must be >= 0, got ", run.threads));
  return run.threads == 0 ? default_threads() : std::min(run.threads, 1024);
}

}  // namespace

Corpus Corpus::open(const std::string& path, const OpenOptions& options) try {
  const int threads = threads_of(options.run);
  io::Source mapped;
  Buffer<std::byte> copied;
  if (options.copy) {
    copied = io::read_file(path, io::file_head, [&](io::Bytes beginning, std::uint64_t size) { io::corpus_layout(path, beginning, size); });
  } else {
    mapped = std::make_shared<const io::MappedFile>(path);
  }
  const io::Bytes file = mapped ? mapped->bytes() : io::as_bytes(copied.data(), static_cast<std::size_t>(copied.size()));
  const io::CorpusLayout layout = io::corpus_layout(path, file.first(std::min(file.size(), io::file_head)), file.size());
  const std::uint64_t half = options.verify ? std::max<std::uint64_t>(1, layout.rows().length) : 0;
  if (options.verify) {
    Team team(threads, half_of(options.progress, half, false), options.stop, half);
    std::optional<io::MappedFile::Sequential> reading;
    if (mapped) reading.emplace(*mapped);
    io::verify_sections(path, layout.sections, file, team);
  }
  const io::CorpusFacts& facts = layout.facts;
  const Points rows(file.data() + layout.rows().offset, facts.dtype, facts.rows, facts.cols);
  Corpus corpus(rows, {.metric = facts.metric, .degenerate = facts.degenerate, .memory = options.memory, .run = options.run,
                       .progress = options.verify ? half_of(options.progress, half, true) : options.progress, .stop = options.stop});
  corpus.state_->options.copy = options.copy;
  corpus.state_->copy = std::move(copied);
  corpus.state_->mapping = std::move(mapped);
  return corpus;
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, cat("the system refused memory to open ", io::printable(path)));
}

void Corpus::save(const std::string& path) const try {
  if (&io::format_to_write(path, io::as_vectors) != &io::corpus_format)
    io::fail(ErrorCode::unsupported, path, "a corpus is saved with the suffix ", io::corpus_format.suffix);
  const Points& rows = state_->rows;
  const CorpusOptions& options = state_->options;
  check_host(find_backend(state_->device), rows, "corpus", "saving");
  io::AtomicFile file(path);
  io::append_corpus(file, {rows.dtype, options.metric, options.degenerate, rows.rows, rows.cols}, io::Array::view(rows));
  io::AtomicFile* const one = &file;
  io::AtomicFile::publish({&one, 1});
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, cat("no memory for the buffers to write ", io::printable(path)));
}

Corpus::Corpus(Corpus&&) noexcept = default;
Corpus& Corpus::operator=(Corpus&&) noexcept = default;
Corpus::~Corpus() = default;

Report Corpus::knn_into(const NeighborsView& out, const Points& queries, const KnnOptions& asked) const try {
  const Points& rows = state_->rows;
  KnnOptions options = asked;
  options.metric = state_->options.metric;
  options.degenerate = state_->options.degenerate;
  if (options.run.device == "auto") options.run.device = state_->device;
  const Backend& backend = find_backend(options.run.device);
  if (state_->kept) {  // which is bound to how it was made
    if (backend.facts().name != state_->device)
      fail(ErrorCode::device_error, cat("the corpus was prepared for ", state_->device, ", and device=", options.run.device,
                                        "; use device=auto, or prepare it for the other device too"));
    options.run.instruction_set = state_->instruction_set;
    if (state_->filter != "auto") options.run.filter = state_->filter;
  }
  check_search(backend, rows, queries, options);
  const Problem problem = knn_problem(shape_on(backend, rows), shape_on(backend, queries), options, state_->kept != nullptr);
  const Plan plan = make_plan(backend, problem, options);
  check_out(out, queries, options, plan.distance_type);
  check_reach(backend, out);
  Question question = question_of(rows, state_->options, options, plan.distance_type);
  question.k = check_k(question.filter, rows.rows, queries.rows, options.k, options.pad);
  return search(out, question, queries, plan, state_->kept, options);
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Neighbors Corpus::knn(const Points& queries, const KnnOptions& options) const try {
  check_view(queries, "query");
  check_shapes(shape_of(state_->rows), shape_of(queries), state_->options.metric);
  check_reach(find_backend(options.run.device == "auto" ? state_->device : options.run.device), state_->rows, queries, options);
  check_options(shape_of(state_->rows), shape_of(queries), options);
  Neighbors result(queries.rows, options.k,
                   resolve_distance_type(options.distance_type, state_->options.metric, state_->rows.dtype, queries.dtype), options.pad);
  Report report = knn_into(result.view(), queries, options);
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
} catch (const std::bad_alloc&) {
  refuse_memory();
}

std::int64_t Corpus::rows() const noexcept { return state_->rows.rows; }
std::int64_t Corpus::cols() const noexcept { return state_->rows.cols; }
DType Corpus::dtype() const noexcept { return state_->rows.dtype; }
Metric Corpus::metric() const noexcept { return state_->options.metric; }
bool Corpus::owns_rows() const noexcept { return state_->options.copy; }
bool Corpus::resident() const noexcept { return state_->kept != nullptr; }
std::int64_t Corpus::bytes() const noexcept { return state_->copy.bytes() + (state_->kept ? state_->kept->bytes() : 0); }
double Corpus::prepare_seconds() const noexcept { return state_->seconds; }

}  // namespace vicinal
