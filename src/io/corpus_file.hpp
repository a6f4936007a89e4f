// The .vicinal file of a corpus: its rows with what a search must know of them. docs/file-format.md has the layout.
#pragma once
#include <string>
#include <vector>

#include "io/sections.hpp"
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

struct CorpusLayout {
  CorpusFacts facts;
  std::vector<Section> sections;
  std::size_t rows_section = 0;

  const Section& rows() const noexcept { return sections[rows_section]; }
};

/// Header and section table, their checksums verified and every number compared with `file_size`. `beginning` is the
/// file's first file_head bytes, or all of a shorter one. Throws FormatError, VersionError.
CorpusLayout corpus_layout(const std::string& path, Bytes beginning, std::uint64_t file_size);

/// Writes rows of the facts' shape and type; the order of bytes and the strides may be any. Equal rows and facts give
/// equal files. Throws IoError.
void append_corpus(FileSink& out, const CorpusFacts& facts, const Array& rows);

}  // namespace vicinal::io
