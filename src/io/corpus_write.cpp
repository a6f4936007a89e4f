// Writing .vicinal files, and the line of table.cpp: one pass over the rows, which are hashed, checked and written a
// block at a time, and then the header and the table into the place that was left for them.
#include <algorithm>

#include "io/corpus_layout.hpp"
#include "io/crc32c.hpp"
#include "io/format.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

using namespace layout;

/// Passes bytes on, cut where blocks end, and keeps their checksums.
class Section final : public Sink {
 public:
  Section(AtomicFile& out, std::uint64_t length) : out_(out) { list_.reserve(length / corpus_block + 1); }
  void append(Bytes bytes) override {
    while (!bytes.empty()) {
      const Bytes part = bytes.first(std::min(bytes.size(), corpus_block - filled_));
      crc_ = crc32c(part, crc_);
      hash_.update(part);
      out_.append(part);
      filled_ += part.size();
      if (filled_ == corpus_block) end_block();
      bytes = bytes.subspan(part.size());
    }
  }
  void finish() {
    if (filled_ != 0) end_block();
  }
  Bytes list() const noexcept { return as_bytes(list_.data(), 4 * list_.size()); }
  Digest128 hash() const noexcept { return hash_.digest(); }

 private:
  void end_block() {
    list_.push_back(crc_);
    crc_ = 0;
    filled_ = 0;
  }
  AtomicFile& out_;
  std::vector<std::uint32_t> list_;
  Hash128 hash_;
  std::uint32_t crc_ = 0;
  std::size_t filled_ = 0;
};

/// Zeros up to the next place where something may begin.
void pad(AtomicFile& out) {
  constexpr std::byte zeros[alignment] = {};
  out.append(Bytes(zeros).first(aligned(out.size()) - out.size()));
}

using Head = std::array<std::byte, corpus_header + corpus_entry>;

Head head_of(const CorpusFacts& facts, const CorpusSection& rows, std::uint64_t file_size) {
  Head head{};
  std::byte* const header = head.data();
  std::byte* const entry = header + corpus_header;
  store(entry + at_type, type_rows);
  store(entry + at_list_crc, rows.list_crc);
  store(entry + at_offset, rows.offset);
  store(entry + at_length, rows.length);
  store(entry + at_list, rows.list);
  store(entry + at_hash, rows.hash.low);
  store(entry + at_hash + 8, rows.hash.high);

  std::memcpy(header, magic.data(), magic.size());
  store(header + at_major, major_version);
  store(header + at_minor, minor_version);
  store(header + at_kind, kind_corpus);
  store(header + at_semantics, semantics);
  store(header + at_dtype, static_cast<std::uint8_t>(facts.dtype));
  store(header + at_metric, static_cast<std::uint8_t>(facts.metric));
  store(header + at_degenerate, static_cast<std::uint8_t>(facts.degenerate));
  store(header + at_rows, facts.rows);
  store(header + at_cols, facts.cols);
  store(header + at_sections, std::uint32_t{1});
  store(header + at_table_crc, crc32c({entry, corpus_entry}));
  store(header + at_table, std::uint64_t{corpus_header});
  store(header + at_file_size, file_size);
  store(header + at_header_crc, crc32c({header, at_header_crc}));
  return head;
}

}  // namespace

void append_corpus(AtomicFile& out, const CorpusFacts& facts, const Array& rows) {
  if (static_cast<std::uint64_t>(facts.cols) > most_cols)
    throw Error(ErrorCode::range_error, cat("d=", facts.cols, ", a saved row has at most ", most_cols, " columns"));
  CorpusSection section;
  section.offset = corpus_header + corpus_entry;
  section.length = static_cast<std::uint64_t>(facts.rows * facts.cols) * dtype_size(facts.dtype);
  section.list = aligned(section.offset + section.length);
  const std::uint64_t file_size = section.list + section.list_length();
  out.expect(file_size);
  const Head place{};
  out.append(place);

  Section contents(out, section.length);
  append_rows(contents, rows, rows.item);
  contents.finish();
  section.hash = contents.hash();
  section.list_crc = crc32c(contents.list());
  pad(out);
  out.append(contents.list());
  out.patch(0, head_of(facts, section, file_size));
}

namespace {

bool sniff(const Format&, Bytes file) { return is_corpus(file); }

Array read(const Format&, const Source& source, const Want&) {
  const Bytes file = source->bytes();
  const CorpusLayout layout =
      corpus_layout(source->path(), file.first(std::min(file.size(), corpus_head)), file.size());
  const MappedFile::Sequential reading(*source);
  Team team(default_threads(), nullptr, {}, layout.rows().length);
  verify_corpus(source->path(), layout, file, team);
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
