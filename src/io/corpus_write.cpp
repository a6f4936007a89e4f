// Writing corpora, and the line of table.cpp.
#include <algorithm>

#include "io/corpus_file.hpp"
#include "io/format.hpp"
#include "io/layout.hpp"
#include "io/message.hpp"

namespace vicinal::io {

using namespace layout;

void append_corpus(FileSink& out, const CorpusFacts& facts, const Array& rows) {
  if (static_cast<std::uint64_t>(facts.cols) > most_cols)
    throw Error(ErrorCode::range_error, cat("d=", facts.cols, ", a saved row has at most ", most_cols, " columns"));
  out.expect(SectionWriter::file_size({static_cast<std::uint64_t>(facts.rows * facts.cols) * dtype_size(facts.dtype)}));
  SectionWriter writer(out, corpus_kind, 1);
  writer.begin(type_rows);
  append_rows(writer, rows, rows.item);
  writer.end();
  std::vector<std::byte> header(file_header);
  store(header.data() + at_dtype, static_cast<std::uint8_t>(facts.dtype));
  store(header.data() + at_metric, static_cast<std::uint8_t>(facts.metric));
  store(header.data() + at_degenerate, static_cast<std::uint8_t>(facts.degenerate));
  store(header.data() + at_rows, facts.rows);
  store(header.data() + at_cols, facts.cols);
  writer.finish(std::move(header));
}

namespace {

bool sniff(const Format&, Bytes file) { return is_vicinal(file); }

Array read(const Format&, const Source& source, const Want&) {
  const Bytes file = source->bytes();
  const CorpusLayout layout = corpus_layout(source->path(), file.first(std::min(file.size(), file_head)), file.size());
  const MappedFile::Sequential reading(*source);
  ThreadPool thread_pool(default_threads(), nullptr, {}, layout.rows().length);
  verify_sections(source->path(), layout.sections, file, thread_pool);
  const CorpusFacts& facts = layout.facts;
  Array array = Array::dense(file.data() + layout.rows().offset, item_of(facts.dtype), facts.rows, facts.cols);
  array.keeper = source;
  return array;
}

/// Rows without a corpus around them: the metric is the one that a search takes when none is named.
void write(const Format&, AtomicFile& out, Role, std::span<const Named> arrays) {
  const Array& rows = arrays.front().array;
  if (rows.cols == 0) throw Error(ErrorCode::invalid_argument, "dimension is 0");
  append_corpus(out, {.dtype = *vector_type(rows.item), .rows = rows.rows, .cols = rows.cols}, rows);
}

}  // namespace

const Format corpus_format = {
    .name = "vicinal",
    .suffix = ".vicinal",
    .reads = "f32, f64, f16, bf16, u8 or i8 rows, every checksum verified",
    .writes = "rows",
    .read_roles = as_vectors | as_values,
    .write_roles = as_vectors,
    .sniff = sniff,
    .read = read,
    .write = write,
};

}  // namespace vicinal::io
