// Where each number of a .vicinal header and section table lies: the one place that readers and writers share.
// Offsets are bytes from the start of the header (256 bytes) or of the entry (64 bytes); docs/file-format.md says more.
#pragma once
#include <string_view>

#include "core/divide.hpp"
#include "io/sections.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal::io::layout {

// As PNG's: a byte above 127, line ends of both kinds and an end-of-file, which a transfer as text would not survive.
inline constexpr std::string_view magic{"\x89VIC\r\n\x1A\n", 8};
inline constexpr std::uint16_t major_version = 1, minor_version = 0;
inline constexpr std::uint32_t semantics = 1;
inline constexpr FileKind corpus_kind{.number = 1, .name = "a corpus", .last_type = 1, .zeros = 64};
inline constexpr FileKind index_kind{
    .number = 2, .name = "a permutation index", .last_type = 8, .zeros = 112, .gap = 76};
inline constexpr std::uint32_t type_rows = 1, type_text = 2, type_offsets = 3, type_permutants = 4, type_ranks = 5,
                               type_cells = 6, type_ends = 7, type_components = 8;
inline constexpr std::size_t section_alignment = 64;
inline constexpr std::uint64_t most_cols = std::uint64_t{1} << 40;

// The header.
inline constexpr std::size_t at_major = 8, at_minor = 10, at_kind = 12, at_semantics = 16, at_dtype = 20,
                             at_metric = 21, at_degenerate = 22, at_rows = 24, at_cols = 32, at_sections = 40,
                             at_table_crc = 44, at_table = 48, at_file_size = 56, at_header_crc = 252;
// Of an index besides.
inline constexpr std::size_t at_permutants = 64, at_prefix = 68, at_choice = 72, at_rank_distance = 73, at_form = 74,
                             at_flags = 75, at_seed = 80, at_max_length = 88, at_ngram = 96, at_window = 104;
// An entry of the section table.
inline constexpr std::size_t at_type = 0, at_list_crc = 4, at_offset = 8, at_length = 16, at_list = 24, at_hash = 32;

/// Half-open range of bytes that must be zero.
struct Range {
  std::size_t first, last;
};
inline constexpr Range entry_zeros = {48, 64};

// Numbers in files never change their meaning; a new one is added at the end (and refused by older builds). A metric's
// is that of its enumerator, and how many there are is asked of metrics().
inline constexpr unsigned dtypes = 6, degenerates = 2;
inline constexpr unsigned choices = 4, rank_distances = 3, forms = 4;  // of an index
static_assert(static_cast<int>(DType::f32) == 0 && static_cast<int>(DType::f64) == 1 &&
              static_cast<int>(DType::f16) == 2 && static_cast<int>(DType::bf16) == 3 &&
              static_cast<int>(DType::u8) == 4 && static_cast<int>(DType::i8) == 5);
static_assert(static_cast<int>(Metric::sqeuclidean) == 0 && static_cast<int>(Metric::euclidean) == 1 &&
              static_cast<int>(Metric::cosine) == 2 && static_cast<int>(Metric::correlation) == 3 &&
              static_cast<int>(Metric::inner_product) == 4 && static_cast<int>(Metric::l1) == 5 &&
              static_cast<int>(Metric::linf) == 6 && static_cast<int>(Metric::hamming) == 7 &&
              static_cast<int>(Metric::levenshtein) == 8 && static_cast<int>(Metric::normalized_levenshtein) == 9 &&
              static_cast<int>(Metric::jaccard) == 10 && static_cast<int>(Metric::jensen_shannon) == 11 &&
              static_cast<int>(Metric::dtw) == 15);
static_assert(static_cast<int>(Degenerate::error) == 0 && static_cast<int>(Degenerate::one) == 1);

constexpr std::uint64_t aligned(std::uint64_t offset) noexcept { return rounded_up(offset, section_alignment); }

}  // namespace vicinal::io::layout
