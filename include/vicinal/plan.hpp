// What a search will do and need, known before it starts: from the shapes alone, where nothing is allocated and no row
// is read, or with a sample of the rows.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

struct Shape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::f32;
  bool on_device = false;  // in memory of the device that searches, which reads them there
  bool operator==(const Shape&) const = default;
};

struct Plan {
  std::string device;                // "cpu"
  std::string instruction_set;       // "avx512vnni"
  std::vector<std::string> cascade;  // precisions, first to last; the last is always "canonical"
  int threads = 1;
  DistanceType distance_type = DistanceType::f32;
  std::int64_t budget_bytes = 0;  // what the plan had to fit
  /// What it will use at most, results not counted; on a CUDA device while its first precision runs, later ones stay
  /// within the budget.
  std::int64_t peak_bytes = 0;
  std::int64_t minimum_bytes = 0;  // the smallest budget that would do
  std::int64_t result_bytes = 0;   // ids and distances
  std::int64_t corpus_chunk = 0;   // rows of the corpus prepared at a time
  std::int64_t query_batch = 0;    // queries in flight at a time
  std::int64_t query_block =
      0;  // queries that one task carries through the corpus; of symmetric tiles, rows of either side
  std::int64_t row_splits = 1;       // parts of a chunk that one query block is searched in at once
  std::int64_t passes = 1;           // times the corpus is read
  std::int64_t candidate_slots = 0;  // filter survivors that a query can hold before they are reranked
  std::int64_t match_bytes = 0;      // range search: matches held until their places in the result are known
  bool symmetric = false;            // graph: each tile of distances serves both of its sides
  bool rotated = false;              // rows are rotated before they are rounded to bytes: by name, or as a sample says
  std::int64_t projected = 0;        // the most columns that rows are projected to before that; 0: they keep theirs
  bool resident = false;             // the prepared corpus stays in memory for the whole call
  /// Predicted wall time, from rates in src/cpu/propose/costs.hpp and src/cuda/search/seconds.hpp; of data that the
  /// first precision certifies, unless rows were sampled.
  double seconds = 0;
  std::int64_t sampled_rows =
      0;  // of the corpus, that were looked at for precisions, rotated and seconds; 0: they go by the shapes alone
  std::int64_t left_rows = 0;  // by that sample, rows of the corpus that the filter leaves to be ranked for a query
  std::vector<std::string> details;  // how the device goes about it besides, a sentence each, e.g. by a k-d tree
  std::vector<std::string> notes;    // e.g. a cap on threads
  /// One line a fact, for people.
  std::string text() const;
};

/// Throws as the search itself would: InvalidArgument, Unsupported, DeviceError, MemoryBudget.
Plan plan(const Shape& corpus, const Shape& queries, const KnnOptions& options = {});
Plan plan_graph(const Shape& rows, const GraphOptions& options = {});
/// What the result will take is not known before the search: result_bytes is 0.
Plan plan_range(const Shape& corpus, const Shape& queries, const RangeOptions& options = {});

/// The same with a look at some hundred rows of the corpus, on a CUDA device at 8,192 of them at most, which takes
/// milliseconds whatever the shape where they are in memory: which precision the search will begin with, and how many
/// rows it will leave. Looked at are searches by products or squared differences, on a CUDA device those for the k
/// nearest by bytes; for others sampled_rows stays 0.
Plan plan(const Points& corpus, const Shape& queries, const KnnOptions& options = {});
Plan plan(const Points& corpus, const Points& queries, const KnnOptions& options = {});
Plan plan_graph(const Points& rows, const GraphOptions& options = {});
Plan plan_range(const Points& corpus, const Shape& queries, double radius, const RangeOptions& options = {});

/// The same of strings, which are read for it: their lengths and symbols decide what a search takes.
Plan plan(const Strings& corpus, const Strings& queries, const KnnOptions& options);
Plan plan_graph(const Strings& rows, const GraphOptions& options);
Plan plan_range(const Strings& corpus, const Strings& queries, const RangeOptions& options);

}  // namespace vicinal
