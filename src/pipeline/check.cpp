// See check.hpp; messages follow the table in docs/semantics.md.
#include "pipeline/check.hpp"

#include <limits>

#include "core/text.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

}  // namespace

void check_view(const Points& points, const char* side) {
  if (points.rows < 0 || points.cols < 0) refuse(cat(side, " has a negative size: ", points.rows, " x ", points.cols));
  if (points.data == nullptr && points.rows > 0 && points.cols > 0) refuse(cat(side, " has ", points.rows, " rows and no data"));
}

void check_corpus(const Shape& corpus, Metric metric) {
  if (corpus.cols == 0) refuse("dimension is 0");
  if (corpus.rows > 0 && corpus.cols > largest / 16 / corpus.rows) refuse(cat("corpus of ", corpus.rows, " x ", corpus.cols, " does not fit 64-bit sizes"));
  if (metric == Metric::hamming && corpus.dtype != DType::u8)
    refuse(cat("hamming compares packed bits of u8 rows, got ", dtype_name(corpus.dtype), "; pack them (numpy.packbits) first"));
}

void check_shapes(const Shape& corpus, const Shape& queries, Metric metric) {
  check_corpus(corpus, metric);
  if (queries.cols != corpus.cols) refuse(cat("query has d=", queries.cols, ", corpus has d=", corpus.cols));
  if (metric == Metric::hamming && queries.dtype != DType::u8)
    refuse(cat("hamming compares packed bits of u8 rows, got ", dtype_name(queries.dtype), " queries; pack them (numpy.packbits) first"));
}

void check_options(const Shape& corpus, const KnnOptions& options) {
  if (options.k < 1) refuse(cat("k must be >= 1, got ", options.k));
  if (corpus.rows == 0 && !options.pad) refuse("corpus has 0 rows (use pad to get an all-missing answer)");
  if (options.k > corpus.rows && !options.pad)
    refuse(cat("k=", options.k, " exceeds ", corpus.rows, " eligible rows (use pad)"));
  if (options.first_id < 0) refuse(cat("first_id must be >= 0, got ", options.first_id));
  if (options.first_id > largest - corpus.rows) refuse(cat("first_id=", options.first_id, " plus ", corpus.rows, " rows exceeds 64-bit ids"));
  if (options.run.threads < 0) refuse(cat("threads must be >= 0, got ", options.run.threads));
  if (options.memory.host < 0) refuse(cat("memory must be >= 0 bytes, got ", options.memory.host));
}

}  // namespace vicinal
