// Reading .vicinal files: nothing that the file claims is believed before it was compared with the file's length, and
// with verification every byte of the file has to be what its writer wrote.
#include <algorithm>
#include <atomic>

#include "io/crc32c.hpp"
#include "io/layout.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

using namespace layout;

[[noreturn]] void refuse_file(const std::string& path, const std::string& what) {
  fail(ErrorCode::format_error, path, what);
}

bool all_zero(Bytes bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// A minor version above ours may use what is zero in ours; an older reader leaves that alone.
bool from_later_minor(const std::byte* header) noexcept {
  return load<std::uint16_t>(header + at_minor) > minor_version;
}

/// A part of the file: `length` bytes at `offset`.
struct Part {
  std::uint64_t offset, length;
};

/// Header and table, sections and lists, in the order in which they lie.
std::vector<Part> parts_of(const std::vector<Section>& sections) {
  std::vector<Part> parts = {{0, file_header}, {file_header, sections.size() * section_entry}};
  for (const Section& section : sections) {
    parts.push_back({section.offset, section.length});
    parts.push_back({section.list, section.list_length()});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.offset < b.offset; });
  return parts;
}

Section entry_of(const std::string& path, const std::byte* entry, std::size_t number, std::uint64_t file_size,
                 bool later_minor, const FileKind& kind) {
  Section section;
  section.type = load<std::uint32_t>(entry + at_type);
  section.list_crc = load<std::uint32_t>(entry + at_list_crc);
  section.offset = load<std::uint64_t>(entry + at_offset);
  section.length = load<std::uint64_t>(entry + at_length);
  section.list = load<std::uint64_t>(entry + at_list);
  section.hash = {load<std::uint64_t>(entry + at_hash), load<std::uint64_t>(entry + at_hash + 8)};
  const auto inside = [&](std::uint64_t offset, std::uint64_t length, const char* what) {
    if (offset % section_alignment != 0)
      refuse_file(path, cat("section ", number, what, " lies at ", offset, ", not a multiple of ", section_alignment));
    if (length <= file_size && offset <= file_size - length) return;
    refuse_file(path, cat("section ", number, what, " needs ", count_text(length), " bytes at ", offset, ", file has ",
                          file_size));
  };
  inside(section.offset, section.length, "");
  inside(section.list, section.list_length(), "'s checksums");
  if (later_minor) return section;
  if (section.type < 1 || section.type > kind.last_type)
    refuse_file(path, cat("section ", number, " has unknown type ", section.type));
  if (!all_zero({entry + entry_zeros.first, entry_zeros.last - entry_zeros.first}))
    refuse_file(path, cat("section ", number, ": reserved bytes are not zero"));
  return section;
}

/// No two parts share a byte, and nothing but the padding of the alignment lies between them.
void check_no_overlap(const std::string& path, const std::vector<Section>& sections, std::uint64_t file_size) {
  std::uint64_t end = 0;
  for (const Part& part : parts_of(sections)) {
    if (part.offset < end)
      refuse_file(path, cat("sections overlap: one begins at ", part.offset, ", another ends at ", end));
    if (part.offset - end >= section_alignment)
      refuse_file(path, cat(part.offset - end, " bytes at ", end, " belong to no section"));
    end = part.offset + part.length;
  }
  if (end > file_size || file_size - end >= section_alignment)
    refuse_file(path, cat("sections end at ", end, ", the file has ", file_size, " bytes"));
}

}  // namespace

std::string count_text(std::uint64_t count) {
  if (std::has_single_bit(count) && count >= (std::uint64_t{1} << 30)) return cat("2^", std::countr_zero(count));
  return cat(count);
}

std::uint64_t Section::blocks() const noexcept { return length / section_block + (length % section_block != 0); }

bool is_vicinal(Bytes beginning) noexcept {
  return beginning.size() >= layout::magic.size() &&
         std::memcmp(beginning.data(), layout::magic.data(), layout::magic.size()) == 0;
}

// In this order, which every version of the format keeps.
void check_identity(const std::string& path, Bytes beginning, std::uint64_t file_size, const FileKind& kind) {
  if (!is_vicinal(beginning)) refuse_file(path, cat("not a vicinal file (", first_bytes(beginning), ")"));
  if (beginning.size() < file_header)
    refuse_file(path, cat("the header needs ", file_header, " bytes, the file has ", file_size, ": truncated?"));
  const std::byte* header = beginning.data();
  if (crc32c(beginning.first(at_header_crc)) != load<std::uint32_t>(header + at_header_crc))
    refuse_file(path, "header: checksum differs");
  const auto major = load<std::uint16_t>(header + at_major), minor = load<std::uint16_t>(header + at_minor);
  if (major == 0) refuse_file(path, cat("file format ", major, ".", minor, " does not exist"));
  if (major > major_version)
    fail(ErrorCode::version_error, path, "file format ", major, ".", minor, ", this build reads ", major_version);
  const auto made_under = load<std::uint32_t>(header + at_semantics);
  if (made_under == 0) refuse_file(path, "semantics version 0 does not exist");
  if (made_under > semantics)
    fail(ErrorCode::version_error, path, "semantics version ", made_under, ", this build has ", semantics);
  const auto number = load<std::uint32_t>(header + at_kind);
  if (number == kind.number) return;
  for (const FileKind* other : {&corpus_kind, &index_kind})
    if (number == other->number) refuse_file(path, cat("it is ", other->name, ", not ", kind.name));
  refuse_file(path, cat("kind ", number, " is unknown, ", kind.name, " is ", kind.number));
}

unsigned enumeration(const std::string& path, const std::byte* header, std::size_t at, std::size_t count,
                     const char* name) {
  const auto value = std::to_integer<unsigned>(header[at]);
  if (value >= count) refuse_file(path, cat(name, " ", value, " is unknown, the last is ", count - 1));
  return value;
}

std::vector<Section> read_table(const std::string& path, Bytes beginning, std::uint64_t file_size,
                                const FileKind& kind) {
  const std::byte* header = beginning.data();
  const auto count = load<std::uint32_t>(header + at_sections);
  const auto table = load<std::uint64_t>(header + at_table);
  if (count == 0 || count > most_sections) refuse_file(path, cat(count, " sections; a file has 1 to ", most_sections));
  if (table != file_header) refuse_file(path, cat("the section table lies at ", table, ", expected ", file_header));
  const std::size_t table_size = count * section_entry;
  if (beginning.size() < file_header + table_size)
    refuse_file(path, cat("the section table needs ", table_size, " bytes at ", table, ", file has ", file_size,
                          ": truncated?"));
  const Bytes entries = beginning.subspan(file_header, table_size);
  if (crc32c(entries) != load<std::uint32_t>(header + at_table_crc))
    refuse_file(path, "section table: checksum differs");
  std::vector<Section> sections;
  for (std::size_t i = 0; i < count; ++i)
    sections.push_back(
        entry_of(path, entries.data() + i * section_entry, i, file_size, from_later_minor(header), kind));
  return sections;
}

void check_places(const std::string& path, Bytes beginning, std::uint64_t file_size, const FileKind& kind,
                  const std::vector<Section>& sections) {
  const std::byte* header = beginning.data();
  if (const auto claimed = load<std::uint64_t>(header + at_file_size); claimed != file_size)
    refuse_file(path, cat("the header speaks of ", count_text(claimed), " bytes, file has ", file_size));
  const std::uint32_t gap = kind.gap == 0 ? 0 : load<std::uint32_t>(header + kind.gap);
  const bool zeros =
      header[23] == std::byte{0} && gap == 0 && all_zero(beginning.subspan(kind.zeros, at_header_crc - kind.zeros));
  if (!zeros && !from_later_minor(header)) refuse_file(path, "header: reserved bytes are not zero");
  check_no_overlap(path, sections, file_size);
}

namespace {

/// The first block whose checksum differs; blocks() when all are right. The hash is of the whole section.
std::uint64_t first_bad_block(const Section& section, Bytes file, ThreadPool& thread_pool, Digest128& hash) {
  // The hash is one chain and the blocks are many: each window has a piece that carries the chain on and pieces that
  // check blocks. Windows keep the two near each other, so that a file larger than memory is read from disk once.
  constexpr std::uint64_t window = 64;
  const std::byte* const list = file.data() + section.list;
  const auto block = [&](std::uint64_t b) {
    return file.subspan(section.offset + b * section_block,
                        std::min<std::uint64_t>(section_block, section.length - b * section_block));
  };
  const std::uint64_t blocks = section.blocks();
  std::atomic<std::uint64_t> bad{blocks};
  Hash128 chain;
  for (std::uint64_t first = 0; first < blocks; first += window) {
    const std::uint64_t last = std::min(blocks, first + window);
    thread_pool.for_each(static_cast<std::int64_t>(last - first) + 1, [&](std::int64_t piece, int) {
      if (piece == 0) {
        for (std::uint64_t b = first; b < last; ++b) {
          chain.update(block(b));
          thread_pool.poll(0);
        }
        return;
      }
      const std::uint64_t b = first + static_cast<std::uint64_t>(piece) - 1;
      thread_pool.poll(block(b).size());
      if (crc32c(block(b)) == load<std::uint32_t>(list + 4 * b)) return;
      for (std::uint64_t least = bad.load(); b < least && !bad.compare_exchange_weak(least, b);) {}
    });
    if (bad.load() != blocks) break;
  }
  hash = chain.digest();
  return bad.load();
}

}  // namespace

void verify_sections(const std::string& path, const std::vector<Section>& sections, Bytes file,
                     ThreadPool& thread_pool) {
  std::uint64_t end = 0;
  const auto check_padding = [&](std::uint64_t next) {
    if (!all_zero(file.subspan(end, next - end))) refuse_file(path, cat("the padding at ", end, " is not zero"));
  };
  for (const Part& part : parts_of(sections)) {
    check_padding(part.offset);
    end = part.offset + part.length;
  }
  check_padding(file.size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    if (crc32c(file.subspan(section.list, section.list_length())) != section.list_crc)
      refuse_file(path, cat("section ", i, ": the checksum of its checksums differs"));
    Digest128 hash;
    const std::uint64_t bad = first_bad_block(section, file, thread_pool, hash);
    if (bad != section.blocks()) refuse_file(path, cat("section ", i, " block ", bad, ": checksum differs"));
    if (hash != section.hash) refuse_file(path, cat("section ", i, ": hash differs"));
  }
}

}  // namespace vicinal::io
