// Reading .vicinal files: nothing that the file claims is believed before it was compared with the file's length, and
// with verification every byte of the file has to be what its writer wrote.
#include <algorithm>
#include <atomic>

#include "io/corpus_layout.hpp"
#include "io/crc32c.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

using namespace layout;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(ErrorCode::format_error, path, what);
}

/// "2^60" for large powers of two, which damaged and hostile files like; else the digits.
std::string count_text(std::uint64_t count) {
  if (std::has_single_bit(count) && count >= (std::uint64_t{1} << 30)) return cat("2^", std::countr_zero(count));
  return cat(count);
}

bool all_zero(Bytes bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Identity, header checksum, version: in this order, which every version of the format keeps.
void check_identity(const std::string& path, Bytes beginning, std::uint64_t file_size) {
  if (!is_corpus(beginning)) refuse(path, cat("not a vicinal file (", first_bytes(beginning), ")"));
  if (beginning.size() < corpus_header)
    refuse(path, cat("the header needs ", corpus_header, " bytes, the file has ", file_size, ": truncated?"));
  const std::byte* header = beginning.data();
  if (crc32c(beginning.first(at_header_crc)) != load<std::uint32_t>(header + at_header_crc))
    refuse(path, "header: checksum differs");
  const auto major = load<std::uint16_t>(header + at_major), minor = load<std::uint16_t>(header + at_minor);
  if (major == 0) refuse(path, cat("file format ", major, ".", minor, " does not exist"));
  if (major > major_version)
    fail(ErrorCode::version_error, path, "file format ", major, ".", minor, ", this build reads ", major_version);
  const auto made_under = load<std::uint32_t>(header + at_semantics);
  if (made_under == 0) refuse(path, "semantics version 0 does not exist");
  if (made_under > semantics)
    fail(ErrorCode::version_error, path, "semantics version ", made_under, ", this build has ", semantics);
}

/// A minor version above ours may use what is zero in ours; an older reader leaves that alone.
bool from_later_minor(const std::byte* header) noexcept {
  return load<std::uint16_t>(header + at_minor) > minor_version;
}

unsigned enumeration(const std::string& path, const std::byte* header, std::size_t at, unsigned count,
                     const char* name) {
  const auto value = std::to_integer<unsigned>(header[at]);
  if (value >= count) refuse(path, cat(name, " ", value, " is unknown, the last is ", count - 1));
  return value;
}

CorpusFacts facts_of(const std::string& path, const std::byte* header, std::uint64_t file_size) {
  const auto kind = load<std::uint32_t>(header + at_kind);
  if (kind != kind_corpus) refuse(path, cat("kind ", kind, " is unknown, a corpus is ", kind_corpus));
  CorpusFacts facts;
  facts.dtype = static_cast<DType>(enumeration(path, header, at_dtype, dtypes, "element type"));
  facts.metric = static_cast<Metric>(enumeration(path, header, at_metric, metric_count, "metric"));
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
  if (cols > most_cols) refuse(path, cat("d=", count_text(cols), ", a row has at most ", count_text(most_cols), " columns"));
  facts.rows = static_cast<std::int64_t>(rows);
  facts.cols = static_cast<std::int64_t>(cols);
  return facts;
}

/// A part of the file: `length` bytes at `offset`.
struct Part {
  std::uint64_t offset, length;
};

/// Header and table, sections and lists, in the order in which they lie.
std::vector<Part> parts_of(const CorpusLayout& layout) {
  std::vector<Part> parts = {{0, corpus_header}, {corpus_header, layout.sections.size() * corpus_entry}};
  for (const CorpusSection& section : layout.sections) {
    parts.push_back({section.offset, section.length});
    parts.push_back({section.list, section.list_length()});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.offset < b.offset; });
  return parts;
}

CorpusSection entry_of(const std::string& path, const std::byte* entry, std::size_t number, std::uint64_t file_size,
                       bool later_minor) {
  CorpusSection section;
  section.type = load<std::uint32_t>(entry + at_type);
  section.list_crc = load<std::uint32_t>(entry + at_list_crc);
  section.offset = load<std::uint64_t>(entry + at_offset);
  section.length = load<std::uint64_t>(entry + at_length);
  section.list = load<std::uint64_t>(entry + at_list);
  section.hash = {load<std::uint64_t>(entry + at_hash), load<std::uint64_t>(entry + at_hash + 8)};
  const auto inside = [&](std::uint64_t offset, std::uint64_t length, const char* what) {
    if (offset % alignment != 0)
      refuse(path, cat("section ", number, what, " lies at ", offset, ", not a multiple of ", alignment));
    if (length <= file_size && offset <= file_size - length) return;
    refuse(path, cat("section ", number, what, " needs ", count_text(length), " bytes at ", offset, ", file has ",
                     file_size));
  };
  inside(section.offset, section.length, "");
  inside(section.list, section.list_length(), "'s checksums");
  if (later_minor) return section;
  if (section.type != type_rows) refuse(path, cat("section ", number, " has unknown type ", section.type));
  if (!all_zero({entry + entry_zeros.first, entry_zeros.last - entry_zeros.first}))
    refuse(path, cat("section ", number, ": reserved bytes are not zero"));
  return section;
}

/// No two parts share a byte, and nothing but the padding of the alignment lies between them.
void check_no_overlap(const std::string& path, const CorpusLayout& layout, std::uint64_t file_size) {
  std::uint64_t end = 0;
  for (const Part& part : parts_of(layout)) {
    if (part.offset < end)
      refuse(path, cat("sections overlap: one begins at ", part.offset, ", another ends at ", end));
    if (part.offset - end >= alignment)
      refuse(path, cat(part.offset - end, " bytes at ", end, " belong to no section"));
    end = part.offset + part.length;
  }
  if (end > file_size || file_size - end >= alignment)
    refuse(path, cat("sections end at ", end, ", the file has ", file_size, " bytes"));
}

}  // namespace

std::uint64_t CorpusSection::blocks() const noexcept { return length / corpus_block + (length % corpus_block != 0); }

bool is_corpus(Bytes beginning) noexcept {
  return beginning.size() >= magic.size() && std::memcmp(beginning.data(), magic.data(), magic.size()) == 0;
}

CorpusLayout corpus_layout(const std::string& path, Bytes beginning, std::uint64_t file_size) {
  check_identity(path, beginning, file_size);
  const std::byte* header = beginning.data();
  const bool later_minor = from_later_minor(header);
  CorpusLayout layout;
  layout.facts = facts_of(path, header, file_size);

  const auto count = load<std::uint32_t>(header + at_sections);
  const auto table = load<std::uint64_t>(header + at_table);
  if (count == 0 || count > corpus_most_sections)
    refuse(path, cat(count, " sections; a file has 1 to ", corpus_most_sections));
  if (table != corpus_header) refuse(path, cat("the section table lies at ", table, ", expected ", corpus_header));
  const std::size_t table_size = count * corpus_entry;
  if (beginning.size() < corpus_header + table_size)
    refuse(path,
           cat("the section table needs ", table_size, " bytes at ", table, ", file has ", file_size, ": truncated?"));
  const Bytes entries = beginning.subspan(corpus_header, table_size);
  if (crc32c(entries) != load<std::uint32_t>(header + at_table_crc)) refuse(path, "section table: checksum differs");

  std::size_t rows_sections = 0;
  for (std::size_t i = 0; i < count; ++i) {
    layout.sections.push_back(entry_of(path, entries.data() + i * corpus_entry, i, file_size, later_minor));
    if (layout.sections.back().type != type_rows) continue;
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
  if (const auto claimed = load<std::uint64_t>(header + at_file_size); claimed != file_size)
    refuse(path, cat("the header speaks of ", count_text(claimed), " bytes, file has ", file_size));
  for (const auto [first, last] : header_zeros) {
    if (!later_minor && !all_zero(beginning.subspan(first, last - first)))
      refuse(path, "header: reserved bytes are not zero");
  }
  check_no_overlap(path, layout, file_size);
  return layout;
}

namespace {

/// The first block whose checksum differs; blocks() when all are right. The hash is of the whole section.
std::uint64_t first_bad_block(const CorpusSection& section, Bytes file, Team& team, Digest128& hash) {
  // The hash is one chain and the blocks are many: each window has a piece that carries the chain on and pieces that
  // check blocks. Windows keep the two near each other, so that a file larger than memory is read from disk once.
  constexpr std::uint64_t window = 64;
  const std::byte* const list = file.data() + section.list;
  const auto block = [&](std::uint64_t b) {
    return file.subspan(section.offset + b * corpus_block,
                        std::min<std::uint64_t>(corpus_block, section.length - b * corpus_block));
  };
  const std::uint64_t blocks = section.blocks();
  std::atomic<std::uint64_t> bad{blocks};
  Hash128 chain;
  for (std::uint64_t first = 0; first < blocks; first += window) {
    const std::uint64_t last = std::min(blocks, first + window);
    team.for_each(static_cast<std::int64_t>(last - first) + 1, [&](std::int64_t piece, int) {
      if (piece == 0) {
        for (std::uint64_t b = first; b < last; ++b) {
          chain.update(block(b));
          team.tick(0);
        }
        return;
      }
      const std::uint64_t b = first + static_cast<std::uint64_t>(piece) - 1;
      team.tick(block(b).size());
      if (crc32c(block(b)) == load<std::uint32_t>(list + 4 * b)) return;
      for (std::uint64_t least = bad.load(); b < least && !bad.compare_exchange_weak(least, b);) {}
    });
    if (bad.load() != blocks) break;
  }
  hash = chain.digest();
  return bad.load();
}

}  // namespace

void verify_corpus(const std::string& path, const CorpusLayout& layout, Bytes file, Team& team) {
  std::uint64_t end = 0;
  const auto check_padding = [&](std::uint64_t next) {
    if (!all_zero(file.subspan(end, next - end))) refuse(path, cat("the padding at ", end, " is not zero"));
  };
  for (const Part& part : parts_of(layout)) {
    check_padding(part.offset);
    end = part.offset + part.length;
  }
  check_padding(file.size());
  for (std::size_t i = 0; i < layout.sections.size(); ++i) {
    const CorpusSection& section = layout.sections[i];
    if (crc32c(file.subspan(section.list, section.list_length())) != section.list_crc)
      refuse(path, cat("section ", i, ": the checksum of its checksums differs"));
    Digest128 hash;
    const std::uint64_t bad = first_bad_block(section, file, team, hash);
    if (bad != section.blocks()) refuse(path, cat("section ", i, " block ", bad, ": checksum differs"));
    if (hash != section.hash) refuse(path, cat("section ", i, ": hash differs"));
  }
}

}  // namespace vicinal::io
