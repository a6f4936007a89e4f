// PREPARE: rows checked, centred, scaled, rounded to float and packed into panels, with everything that the proof needs
// measured on the way. One pass over the rows; cost about two cycles an element.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/bound.hpp"
#include "core/buffer.hpp"
#include "cpu/frame.hpp"
#include "cpu/kernels.hpp"

namespace vicinal::cpu {

/// Self products for cosine and correlation, canonical. A degenerate row has self = -1.
struct Norms {
  Buffer<double> self;  // row . row, of the shifted row for correlation
  Buffer<double> mean;  // correlation only
};

/// A chunk of the corpus. Panels are [panel][dims][panel_rows]; tiles of tile_rows share one pair of bounds.
struct PackedRows {
  std::int64_t first = 0, count = 0;
  Buffer<float> panels;
  Buffer<float> terms;            // row_term of each row
  std::vector<FilterNorms> tiles; // maxima over each tile
  Norms norms;
  bool packed = false;            // false: only checked (and norms taken), for the canonical rung

  std::int64_t tile_count() const noexcept { return (count + tile_rows - 1) / tile_rows; }
  /// Bytes that a chunk of `rows` needs.
  static std::int64_t bytes(std::int64_t rows, std::int64_t dims, Metric metric, bool packed) noexcept;
};

/// Fills `out` (reusing its memory when it fits) with rows [first, first + count) of the corpus.
/// Throws InvalidValue or RangeError that names the rows (check.hpp).
void prepare_rows(const Kernels& kernels, const Question& question, const BoundModel* model, const Frame* frame,
                  std::int64_t first, std::int64_t count, Team& team, PackedRows& out);

/// One query as every stage needs it.
struct QueryFacts {
  FilterNorms norms;     // filter units
  double square = 0;     // |xhat|^2
  double scale = 1;      // its own power of two (inner product), else the corpus's
  double self = 0;       // canonical q.q (cosine, correlation); -1: degenerate
  double mean = 0;       // correlation
  bool filterable = true;
};

/// A batch of queries, packed in blocks of `block` queries: panels [block][panel][dims][lanes], the last panel of a
/// block filled up with zeros.
struct PackedQueries {
  std::int64_t count = 0, block = 0, block_panels = 0, lanes = 1;
  Buffer<float> panels;
  std::vector<QueryFacts> facts;
  bool packed = false;

  std::int64_t block_count() const noexcept { return (count + block - 1) / block; }
  std::int64_t block_floats(std::int64_t dims) const noexcept { return block_panels * lanes * dims; }
};
/// rows: which rows of `queries`. Throws as prepare_rows, naming query rows.
void prepare_queries(const Kernels& kernels, const Question& question, const BoundModel* model, const Frame* frame,
                     const Points& queries, std::span<const std::int64_t> rows, std::int64_t block, Team& team,
                     PackedQueries& out);

/// Scratch of one thread while preparing.
std::int64_t prepare_scratch_bytes(std::int64_t dims) noexcept;

}  // namespace vicinal::cpu
