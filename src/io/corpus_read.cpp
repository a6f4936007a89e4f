// Reading corpora: what the header says of the rows, before and beside what every .vicinal file has (io/sections.hpp).
#include <algorithm>

#include "core/metric.hpp"
#include "io/corpus_file.hpp"
#include "io/layout.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

using namespace layout;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(ErrorCode::format_error, path, what);
}

CorpusFacts facts_of(const std::string& path, const std::byte* header, std::uint64_t file_size) {
  CorpusFacts facts;
  facts.dtype = static_cast<DType>(enumeration(path, header, at_dtype, dtypes, "element type"));
  facts.metric = static_cast<Metric>(enumeration(path, header, at_metric, metrics().size(), "metric"));
  if (const MetricInfo& metric = metric_info(facts.metric); !metric.vectors)
    refuse(path, cat("metric ", metric.name, ", which does not compare rows; it is one of ",
                     joined(metric_names(&MetricInfo::vectors))));
  facts.degenerate = static_cast<Degenerate>(enumeration(path, header, at_degenerate, degenerates, "degenerate rule"));
  if (facts.metric == Metric::hamming && facts.dtype != DType::u8)
    refuse(path, cat("hamming with ", dtype_name(facts.dtype), " rows; it has only u8"));
  const auto rows = load<std::uint64_t>(header + at_rows), cols = load<std::uint64_t>(header + at_cols);
  if (cols == 0) refuse(path, "d=0, a corpus has at least one column");
  const auto need = product({rows, cols, dtype_size(facts.dtype)});
  // A file that was cut fits its own header; that its sections do not fit the file is said where they are looked at.
  const auto claimed_size = load<std::uint64_t>(header + at_file_size);
  if (!need || *need > claimed_size || cols > INT64_MAX / dtype_size(facts.dtype)) {
    refuse(path, cat("n=", count_text(rows), " and d=", count_text(cols), " of ", dtype_name(facts.dtype),
                     rows >= cols ? ": n=" : ": d=", count_text(std::max(rows, cols)), " does not fit a file of ",
                     file_size, " bytes"));
  }
  // No rows fit any file, whatever d is; searches multiply d with things of their own.
  if (cols > most_cols)
    refuse(path, cat("d=", count_text(cols), ", a row has at most ", count_text(most_cols), " columns"));
  facts.rows = static_cast<std::int64_t>(rows);
  facts.cols = static_cast<std::int64_t>(cols);
  return facts;
}

}  // namespace

CorpusLayout corpus_layout(const std::string& path, Bytes beginning, std::uint64_t file_size) {
  check_identity(path, beginning, file_size, corpus_kind);
  CorpusLayout layout;
  layout.facts = facts_of(path, beginning.data(), file_size);
  layout.sections = read_table(path, beginning, file_size, corpus_kind);
  std::size_t rows_sections = 0;
  for (std::size_t i = 0; i < layout.sections.size(); ++i) {
    if (layout.sections[i].type != type_rows) continue;
    layout.rows_section = i;
    ++rows_sections;
  }
  if (rows_sections != 1) refuse(path, cat(rows_sections, " sections of rows, expected 1"));
  const CorpusFacts& facts = layout.facts;
  if (const auto need = product(
          {static_cast<std::uint64_t>(facts.rows), static_cast<std::uint64_t>(facts.cols), dtype_size(facts.dtype)});
      need != layout.rows().length) {
    refuse(path, cat("n=", facts.rows, " and d=", facts.cols, " of ", dtype_name(facts.dtype), " are ", *need,
                     " bytes, section ", layout.rows_section, " has ", layout.rows().length));
  }
  check_places(path, beginning, file_size, corpus_kind, layout.sections);
  return layout;
}

}  // namespace vicinal::io
