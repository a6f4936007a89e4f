// See check_shapes.hpp; messages follow the table in docs/semantics.md.
#include "core/check_shapes.hpp"

#include <algorithm>

#include "core/metric.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

constexpr std::int64_t most_rows = std::int64_t{1} << 48, most_cols = std::int64_t{1} << 40,
                       most_elements = std::int64_t{1} << 56;

/// Beyond this, products of sizes with bytes would leave 64 bits; no machine holds such a side.
void check_size(const Shape& shape, const char* side) {
  if (shape.rows < 0 || shape.cols < 0) refuse(cat(side, " has a negative size: ", shape.rows, " x ", shape.cols));
  if (shape.rows > most_rows || shape.cols > most_cols ||
      shape.cols > most_elements / std::max<std::int64_t>(shape.rows, 1))
    refuse(cat(side, " of ", shape.rows, " x ", shape.cols, " is larger than ", most_rows, " rows, ", most_cols,
               " columns or ", most_elements, " elements"));
}

}  // namespace

void check_view(const Points& points, const char* side) {
  if (points.rows < 0 || points.cols < 0) refuse(cat(side, " has a negative size: ", points.rows, " x ", points.cols));
  if (points.data == nullptr && points.rows > 0 && points.cols > 0)
    refuse(cat(side, " has ", points.rows, " rows and no data"));
}

void check_corpus(const Shape& corpus, Metric metric) {
  if (row_of(metric).compares == Compares::indexed_rows)
    refuse(cat(metric_info(metric).name, " is searched by PermutationIndex, exactly with exact=true"));
  if (!metric_info(metric).vectors) {
    refuse(cat(metric_info(metric).name, " compares strings, corpus holds rows of ", dtype_name(corpus.dtype),
               "; metrics of vectors: ", joined(metric_names(&MetricInfo::vectors))));
  }
  check_size(corpus, "corpus");
  if (corpus.cols == 0) refuse("dimension is 0");
  if (metric == Metric::hamming && corpus.dtype != DType::u8)
    refuse(cat("hamming compares packed bits of u8 rows, got ", dtype_name(corpus.dtype),
               "; pack them (numpy.packbits) first"));
}

void check_string_metric(Metric metric, const StringRules& rules) {
  if (!metric_info(metric).strings) {
    refuse(cat(metric_info(metric).name, " compares vectors, corpus holds strings; metrics of strings: ",
               joined(metric_names(&MetricInfo::strings))));
  }
  if (rules.max_length < 0) refuse(cat("max_length must be >= 0, got ", rules.max_length));
  if (rules.ngram < 0) refuse(cat("ngram must be >= 0, got ", rules.ngram));
  if (rules.ngram > 0 && metric != Metric::jaccard)
    refuse(cat("ngram is for jaccard, got ngram=", rules.ngram, " with ", metric_info(metric).name));
}

void check_shapes(const Shape& corpus, const Shape& queries, Metric metric) {
  check_corpus(corpus, metric);
  check_size(queries, "query side");
  if (queries.cols != corpus.cols) refuse(cat("query has d=", queries.cols, ", corpus has d=", corpus.cols));
  if (metric == Metric::hamming && queries.dtype != DType::u8)
    refuse(cat("hamming compares packed bits of u8 rows, got ", dtype_name(queries.dtype),
               " queries; pack them (numpy.packbits) first"));
}

}  // namespace vicinal
