// The .vicinal file: rows of a corpus with what a search must know of them, every byte accounted for by a checksum.
// docs/file-format.md has the layout. A file is read in two steps: its first bytes say where everything lies, and are
// compared with its real length before anything is allocated or touched; then the contents are checked.
#pragma once
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "io/array.hpp"
#include "io/atomic_file.hpp"
#include "io/hash128.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal::io {

/// What the header says.
struct CorpusFacts {
  DType dtype = DType::f32;
  Metric metric = Metric::euclidean;
  Degenerate degenerate = Degenerate::error;
  std::int64_t rows = 0, cols = 0;
};

struct CorpusSection {
  std::uint32_t type = 0;
  std::uint32_t list_crc = 0;                      // of the list of block checksums
  std::uint64_t offset = 0, length = 0, list = 0;  // list: where the block checksums lie, four bytes each
  Digest128 hash;

  std::uint64_t blocks() const noexcept;
  std::uint64_t list_length() const noexcept { return 4 * blocks(); }
};

struct CorpusLayout {
  CorpusFacts facts;
  std::vector<CorpusSection> sections;
  std::size_t rows_section = 0;

  const CorpusSection& rows() const noexcept { return sections[rows_section]; }
};

constexpr std::size_t corpus_header = 256, corpus_entry = 64, corpus_most_sections = 32, corpus_block = 1 << 20;
/// Enough of the beginning of a file for corpus_layout.
constexpr std::size_t corpus_head = corpus_header + corpus_most_sections * corpus_entry;

/// True if the file begins as such files do.
bool is_corpus(Bytes beginning) noexcept;
/// Header and section table, their checksums verified and every number compared with `file_size`. `beginning` is the
/// file's first corpus_head bytes, or all of a shorter one. Throws FormatError, VersionError.
CorpusLayout corpus_layout(const std::string& path, Bytes beginning, std::uint64_t file_size);
/// Everything else: the checksum of each block and of each section, and zeros in between. Ticks in bytes of sections.
/// Throws FormatError naming the first block that differs, Cancelled.
void verify_corpus(const std::string& path, const CorpusLayout& layout, Bytes file, Team& team);

/// Writes rows of the facts' shape and type; the order of bytes and the strides may be any. Equal rows and facts give
/// equal files. Throws IoError.
void append_corpus(AtomicFile& out, const CorpusFacts& facts, const Array& rows);

}  // namespace vicinal::io
