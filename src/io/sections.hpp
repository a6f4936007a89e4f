// What .vicinal files of every kind share (docs/file-format.md): a header that says what the file is, a table of
// sections, and checksums over every byte. A file is read in two steps: its first bytes say where everything lies, and
// are compared with its real length before anything is allocated or touched; then the contents are checked.
#pragma once
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "io/array.hpp"
#include "io/atomic_file.hpp"
#include "io/hash128.hpp"

namespace vicinal::io {

struct Section {
  std::uint32_t type = 0;
  std::uint32_t list_crc = 0;                      // of the list of block checksums
  std::uint64_t offset = 0, length = 0, list = 0;  // list: where the block checksums lie, four bytes each
  Digest128 hash;

  std::uint64_t blocks() const noexcept;
  std::uint64_t list_length() const noexcept { return 4 * blocks(); }
};

constexpr std::size_t file_header = 256, section_entry = 64, most_sections = 32, section_block = 1 << 20;
/// Enough of the beginning of a file for everything before the sections.
constexpr std::size_t file_head = file_header + most_sections * section_entry;

/// What a kind of file is to its reader.
struct FileKind {
  std::uint32_t number;
  const char* name;         // "a corpus"
  std::uint32_t last_type;  // section types are 1 to this
  std::size_t zeros;        // header bytes from here on are reserved
  std::size_t gap = 0;      // and the four from here on; 0: none besides
};

/// True if the file begins as such files do.
bool is_vicinal(Bytes beginning) noexcept;
/// Magic, header checksum, versions, kind. `beginning` is the file's first file_head bytes, or all of a shorter one.
/// Throws FormatError, VersionError.
void check_identity(const std::string& path, Bytes beginning, std::uint64_t file_size, const FileKind& kind);
/// "2^60" for large powers of two, which damaged and hostile files like; else the digits.
std::string count_text(std::uint64_t count);
/// An enumeration of the header: its value, if that is below `count`.
unsigned enumeration(const std::string& path, const std::byte* header, std::size_t at, std::size_t count,
                     const char* name);
/// The section table, checked against the length of the file. Of a file from a later minor version, sections of unknown
/// types too.
std::vector<Section> read_table(const std::string& path, Bytes beginning, std::uint64_t file_size,
                                const FileKind& kind);
/// After the sections were found to be the right ones: the length of the file, reserved bytes, overlaps.
void check_places(const std::string& path, Bytes beginning, std::uint64_t file_size, const FileKind& kind,
                  const std::vector<Section>& sections);
/// Everything else: the checksum of each block and of each section, and zeros in between. Polls in bytes of sections.
/// Throws FormatError naming the first block that differs, Cancelled.
void verify_sections(const std::string& path, const std::vector<Section>& sections, Bytes file,
                     ThreadPool& thread_pool);

/// Writes a file of `count` sections in turn: begin, append, and at the end finish with what the header says besides.
class SectionWriter final : public Sink {
 public:
  SectionWriter(FileSink& out, const FileKind& kind, std::size_t count);
  void begin(std::uint32_t type);
  void append(Bytes bytes) override;
  void end();
  /// header: file_header bytes, with the facts of the kind at their places and zeros elsewhere.
  void finish(std::vector<std::byte> header);
  /// Length of a file with sections of these lengths.
  static std::uint64_t file_size(const std::vector<std::uint64_t>& lengths) noexcept;

 private:
  void end_block();
  FileSink& out_;
  const FileKind& kind_;
  std::size_t count_;
  std::vector<Section> sections_;
  std::vector<std::uint32_t> list_;
  Hash128 hash_;
  std::uint32_t crc_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace vicinal::io
