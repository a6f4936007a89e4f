// A corpus prepared once: the backend's kept form, or, when that does not fit the budget, the rows alone.
#include "vicinal/corpus.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "core/buffer.hpp"
#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {

struct Corpus::State {
  Points rows;
  Buffer<std::byte> copy;
  CorpusOptions options;
  std::shared_ptr<const Kept> kept;
  std::string instruction_set;  // of the kept form
  std::string filter;           // what it can be searched with: "auto", or "canonical" when it was not packed
  double seconds = 0;
};

namespace {

/// A dense row-major copy; byte order and type stay.
Points copy_rows(const Points& rows, Buffer<std::byte>& to, Team& team) {
  constexpr std::int64_t at_once = 4096;
  const auto size = static_cast<std::int64_t>(dtype_size(rows.dtype)), row_bytes = rows.cols * size;
  to = Buffer<std::byte>(rows.rows * row_bytes);
  team.for_each((rows.rows + at_once - 1) / at_once, [&](std::int64_t piece, int) {
    for (std::int64_t r = piece * at_once; r < std::min(rows.rows, (piece + 1) * at_once); ++r) {
      const auto* from = static_cast<const std::byte*>(rows.data) + r * rows.row_stride;
      std::byte* out = to.data() + r * row_bytes;
      if (rows.col_stride == size) {
        std::memcpy(out, from, static_cast<std::size_t>(row_bytes));
      } else {
        for (std::int64_t c = 0; c < rows.cols; ++c) std::memcpy(out + c * size, from + c * rows.col_stride, static_cast<std::size_t>(size));
      }
      if (r % 64 == 0) team.tick(0);
    }
  });
  Points copy(to.data(), rows.dtype, rows.rows, rows.cols);
  copy.byte_swapped = rows.byte_swapped;
  return copy;
}

Question question_of(const Points& rows, const CorpusOptions& options, const KnnOptions& search, DistanceType type) {
  return {.corpus = rows, .metric = options.metric, .type = type, .degenerate = options.degenerate,
          .k = std::min(search.k, rows.rows), .first_id = search.first_id,
          .filter = RowFilter(search.eligible, rows.rows, search.first_id, false)};
}

}  // namespace

Corpus::Corpus(const Points& rows, const CorpusOptions& options) : state_(std::make_unique<State>()) {
  const auto start = std::chrono::steady_clock::now();
  check_view(rows, "corpus");
  check_corpus(shape_of(rows), options.metric);
  if (options.run.threads < 0) fail(ErrorCode::invalid_argument, cat("threads must be >= 0, got ", options.run.threads));
  FpGuard guard;
  state_->options = options;
  state_->options.progress = nullptr;
  state_->options.stop = {};
  const KnnOptions search{.metric = options.metric, .memory = options.memory, .run = options.run};
  Backend& backend = find_backend(options.run.device);
  const Plan plan = make_corpus_plan(backend, shape_of(rows), search);
  state_->instruction_set = plan.instruction_set;
  state_->filter = plan.rungs.size() > 1 ? "auto" : plan.rungs.back();
  Team team(plan.threads, options.progress, options.stop, static_cast<std::uint64_t>(rows.rows));
  try {
    state_->rows = options.copy ? copy_rows(rows, state_->copy, team) : rows;
    if (plan.resident && rows.rows > 0) {
      const DistanceType type = resolve_distance_type(DistanceType::automatic, options.metric, rows.dtype, rows.dtype);
      state_->kept = backend.keep(question_of(state_->rows, options, search, type), plan, team);
    }
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_memory, "the system refused memory for the prepared corpus; set a smaller memory budget");
  }
  team.finish();
  state_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Corpus::Corpus(Corpus&&) noexcept = default;
Corpus& Corpus::operator=(Corpus&&) noexcept = default;
Corpus::~Corpus() = default;

Report Corpus::knn_into(const NeighborsView& out, const Points& queries, const KnnOptions& asked) const {
  const Points& rows = state_->rows;
  KnnOptions options = asked;
  options.metric = state_->options.metric;
  options.degenerate = state_->options.degenerate;
  if (state_->kept) {  // which is bound to how it was made
    options.run.instruction_set = state_->instruction_set;
    if (state_->filter != "auto") options.run.filter = state_->filter;
  }
  check_search(rows, queries, options);
  const Problem problem = knn_problem(shape_of(rows), shape_of(queries), options, state_->kept != nullptr);
  const Plan plan = make_plan(find_backend(options.run.device), problem, options);
  check_out(out, queries, options, plan.distance_type);
  Question question = question_of(rows, state_->options, options, plan.distance_type);
  question.k = check_k(question.filter, rows.rows, queries.rows, options.k, options.pad);
  return search(out, question, queries, plan, state_->kept, options);
}

Neighbors Corpus::knn(const Points& queries, const KnnOptions& options) const {
  check_view(queries, "query");
  check_shapes(shape_of(state_->rows), shape_of(queries), state_->options.metric);
  check_options(shape_of(state_->rows), shape_of(queries), options);
  Neighbors result(queries.rows, options.k,
                   resolve_distance_type(options.distance_type, state_->options.metric, state_->rows.dtype, queries.dtype), options.pad);
  Report report = knn_into(result.view(), queries, options);
  result.certificate = std::move(report.certificate);
  result.stats = std::move(report.stats);
  return result;
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
