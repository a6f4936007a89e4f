// See check.hpp; messages follow the table in docs/semantics.md.
#include "pipeline/check.hpp"

#include <limits>

#include "core/result_size.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_rows = std::int64_t{1} << 48, most_elements = std::int64_t{1} << 56;

/// Beyond this, products of sizes with bytes would leave 64 bits; no machine holds such a side.
void check_size(const Shape& shape, const char* side) {
  if (shape.rows < 0 || shape.cols < 0) refuse(cat(side, " has a negative size: ", shape.rows, " x ", shape.cols));
  if (shape.rows > most_rows || (shape.rows > 0 && shape.cols > most_elements / shape.rows))
    refuse(cat(side, " of ", shape.rows, " x ", shape.cols, " is larger than ", most_rows, " rows or ", most_elements, " elements"));
}

}  // namespace

void check_view(const Points& points, const char* side) {
  if (points.rows < 0 || points.cols < 0) refuse(cat(side, " has a negative size: ", points.rows, " x ", points.cols));
  if (points.data == nullptr && points.rows > 0 && points.cols > 0) refuse(cat(side, " has ", points.rows, " rows and no data"));
}

void check_corpus(const Shape& corpus, Metric metric) {
  check_size(corpus, "corpus");
  if (corpus.cols == 0) refuse("dimension is 0");
  if (metric == Metric::hamming && corpus.dtype != DType::u8)
    refuse(cat("hamming compares packed bits of u8 rows, got ", dtype_name(corpus.dtype), "; pack them (numpy.packbits) first"));
}

void check_shapes(const Shape& corpus, const Shape& queries, Metric metric) {
  check_corpus(corpus, metric);
  check_size(queries, "query side");
  if (queries.cols != corpus.cols) refuse(cat("query has d=", queries.cols, ", corpus has d=", corpus.cols));
  if (metric == Metric::hamming && queries.dtype != DType::u8)
    refuse(cat("hamming compares packed bits of u8 rows, got ", dtype_name(queries.dtype), " queries; pack them (numpy.packbits) first"));
}

void check_options(const Shape& corpus, const Shape& queries, const KnnOptions& options) {
  if (options.k < 1) refuse(cat("k must be >= 1, got ", options.k));
  if (corpus.rows == 0 && !options.pad) refuse("corpus has 0 rows (use pad to get an all-missing answer)");
  if (options.k > corpus.rows && !options.pad)
    refuse(cat("k=", options.k, " exceeds ", corpus.rows, " eligible rows (use pad)"));
  check_result_size(queries.rows, options.k);
  if (options.first_id < 0) refuse(cat("first_id must be >= 0, got ", options.first_id));
  if (options.first_id > largest - corpus.rows) refuse(cat("first_id=", options.first_id, " plus ", corpus.rows, " rows exceeds 64-bit ids"));
  if (options.run.threads < 0) refuse(cat("threads must be >= 0, got ", options.run.threads));
  if (options.memory.host < 0) refuse(cat("memory must be >= 0 bytes, got ", options.memory.host));
}

void check_search(const Points& corpus, const Points& queries, const KnnOptions& options) {
  check_view(corpus, "corpus");
  check_view(queries, "query");
  check_shapes(shape_of(corpus), shape_of(queries), options.metric);
  check_options(shape_of(corpus), shape_of(queries), options);
}

}  // namespace vicinal
