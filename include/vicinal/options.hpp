// Options of a search: plain aggregates with defaults, filled with designated initialisers.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "vicinal/metric.hpp"
#include "vicinal/strings.hpp"

namespace vicinal {

/// Called between tiles from the thread that called the search; returning false cancels it.
/// `done` of `total` work units (row pairs) are finished.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// Type of returned distances. automatic: f64 if either side is f64, u32 for hamming and levenshtein, else f32.
enum class DistanceType : std::uint8_t { automatic, f32, f64, u32 };
const char* distance_type_name(DistanceType type) noexcept;  // "auto", "f32", "f64", "u32"
DistanceType parse_distance_type(std::string_view name);     // those, or InvalidArgument

/// What a zero row (cosine) or a constant row (correlation) means.
/// error: InvalidValue naming the rows. one: distance 1 to everything, itself included.
enum class Degenerate : std::uint8_t { error, one };
Degenerate parse_degenerate(std::string_view name);

/// certified: a low-precision filter with a proved bound, then canonical fp64 of what survives.
/// exhaustive: canonical fp64 of every pair. Same bits; this is the slow oracle.
enum class Proof : std::uint8_t { certified, exhaustive };

/// Bytes of anonymous memory that a search may use beyond what the process already holds; results and
/// mapped files are not counted. 0: what is free, less a tenth.
struct Budget {
  std::int64_t host = 0;
  bool operator==(const Budget&) const = default;
};
/// "268435456", "256MiB", "1.5 GB", "64k". Throws InvalidArgument on anything else.
std::int64_t parse_bytes(std::string_view text);

struct Execution {
  /// Also several, each for a share of the rows or of the queries: "cuda:all", "cuda:0,cuda:1".
  std::string device = "auto";           // "auto", "cpu", "cuda", "cuda:N"
  int threads = 0;                       // 0: affinity mask and cgroup quota decide; one for a small search on the CPU
  std::string instruction_set = "auto";  // "auto", or one of info().instruction_sets, forced by name
  /// "auto", or one of info().filters, or on the CPU "rotated" or "projected" (int8 of such rows), forced by name.
  std::string filter = "auto";
  bool operator==(const Execution&) const = default;
};

/// Which rows of the corpus may be in an answer, by the ids that are returned (first_id counted). The conditions that
/// are set hold together; with none of them every row may. Rows that may not are checked for NaN all the same.
/// The memory behind the spans is the caller's, for the length of the call.
struct Eligible {
  std::int64_t first = 0, last = INT64_MAX;              // ids first..last, both included
  std::optional<std::span<const std::int64_t>> ids;      // these, in any order; ids outside this corpus are of no use
  std::optional<std::span<const std::uint64_t>> bitmap;  // bit i % 64 of word i / 64 is row i (first_id not counted)
  std::int64_t bitmap_rows = -1;  // that the bitmap is of, where known: a corpus of another number is refused
  enum class Labels : std::uint8_t { ignored, same, other };
  Labels labels = Labels::ignored;                            // rows whose label is the query's, or is not
  std::span<const std::int64_t> corpus_labels, query_labels;  // one a row
};
Eligible::Labels parse_label_rule(std::string_view name);  // "same", "other"

struct KnnOptions {
  std::int64_t k = 10;
  Metric metric = Metric::euclidean;
  DistanceType distance_type = DistanceType::automatic;
  bool pad = false;           // k beyond the eligible rows: fill with id -1 and the worst distance
  std::int64_t first_id = 0;  // id of corpus row 0, so that parts of a larger corpus return global ids
  Degenerate degenerate = Degenerate::error;
  Eligible eligible = {};
  StringRules strings = {};  // of searches of strings
  Proof proof = Proof::certified;
  Budget memory = {};
  Execution run = {};
  Progress progress = nullptr;
  std::stop_token stop = {};
  /// A cudaStream_t of the search's device, on which rows are still made or memory for results is still read.
  void* stream = nullptr;
};

struct GraphOptions {
  KnnOptions search = {.k = 15};  // k counts neighbours besides the row itself; first_id must be 0
  bool include_self = false;      // row i competes for its own list as any other row (at distance 0, ties by id)
  bool symmetry = true;           // may use one tile of distances for both of its sides; same bits
};

struct RangeOptions {
  KnnOptions search = {};        // k and pad are not used
  std::int64_t max_results = 0;  // in all; more is CapacityExceeded with the exact need. 0: what free memory holds
};

}  // namespace vicinal
