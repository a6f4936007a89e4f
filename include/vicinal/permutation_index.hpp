// The permutation index: objects known by the order in which they see a few of their own, the permutants. Any distance
// will do, since only orders are compared; true distances are computed for the most promising share of the objects, or,
// with bounds by the triangle inequality, until the answer is exact. docs/design/0017 says when it pays.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vicinal/corpus.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/strings.hpp"

namespace vicinal {

/// How permutants are chosen. farthest_first: each as far as can be from those before it. sss: the first objects, in a
/// random order, that are farther than a share of the diameter from those before.
enum class PermutantChoice : std::uint8_t { random, farthest_first, sss, given };
/// How two orders of the permutants are compared: sum of |difference of ranks|, of its square, or pairs in the other
/// order.
enum class RankDistance : std::uint8_t { footrule, rho, kendall };
/// What is kept of an object's order: all ranks; its nearest permutants; one bit each, near or far. Or, instead of an
/// order, components: of the distances themselves, a byte for each of their principal components; at most 256
/// permutants.
enum class RankForm : std::uint8_t { ranks, prefix, bits, components };

/// What tells how many candidates a recall takes. objects: some that were left out in turn, measured once; it is then
/// of queries like them. queries: some of each call's own, for which everything is measured: 50 at least or all, a
/// hundred of many at a recall of 0.95, 400 at 0.99. automatic: queries where there are so many (200 at 0.95, 804 at
/// 0.99) that no more than a third is measured, else objects, and a note says so. The queries of a call then have to do
/// with each other's candidates.
enum class TuneOn : std::uint8_t { automatic, objects, queries };

const char* permutant_choice_name(PermutantChoice choice) noexcept;  // "random", "farthest_first", "sss", "given"
PermutantChoice parse_permutant_choice(std::string_view name);
const char* rank_distance_name(RankDistance distance) noexcept;  // "footrule", "rho", "kendall"
RankDistance parse_rank_distance(std::string_view name);
const char* rank_form_name(RankForm form) noexcept;  // "ranks", "prefix", "bits", "components"
RankForm parse_rank_form(std::string_view name);
const char* tune_on_name(TuneOn on) noexcept;  // "auto", "objects", "queries"
TuneOn parse_tune_on(std::string_view name);

/// As PermutationOptions::permutants: 64, or all of the objects where they are fewer.
inline constexpr std::int64_t default_permutants = INT64_MIN;

struct PermutationOptions {
  Metric metric = Metric::euclidean;
  std::int64_t permutants = default_permutants;  // else 1 to 1024, and no more than there are objects
  PermutantChoice choice = PermutantChoice::random;
  std::vector<std::int64_t> given = {};  // choice given: their ids, in order; permutants is not used
  std::uint64_t seed = 0;
  RankDistance rank_distance = RankDistance::footrule;  // ranks: any; prefix: footrule, rho; else it does not matter
  RankForm form = RankForm::ranks;
  std::int64_t prefix = 0;  // form prefix: how many of the nearest permutants are kept; 0: a quarter of them
  std::int64_t window = 0;  // dtw: largest difference of the places that are paired; 0: no limit
  bool bounds = true;       // keep what exact searches need, a byte for each object and permutant
  bool copy = false;        // false: rows are borrowed and must outlive the index unchanged. Strings are kept anyway
  StringRules strings = {};
  Budget memory = {};  // of the build, what stays included
  Execution run = {};
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// One of recall, fraction and exact; with none of them recall = 0.95.
struct PermutationSearch {
  std::int64_t k = 10;
  std::optional<double> recall = {};  // expected, at 95 % confidence, from objects that were left out in turn
  std::optional<double> fraction =
      {};              // of the objects, whose true distances are computed: ceil(fraction * n), and k at least
  bool exact = false;  // the bits of brute force
  TuneOn tune_on = TuneOn::automatic;  // of recall
  DistanceType distance_type = DistanceType::automatic;
  std::int64_t max_results = 0;  // of a range search, in all; 0: what free memory holds
  Budget memory = {};            // fewer threads take fewer queries at a time to stay within it; no bit changes
  Execution run = {};
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// A distance of the caller's own between things that it knows by number: from query `query` to objects objects[i],
/// smaller is nearer, finite. It is called from the calling thread alone, and costs what it costs: index searches call
/// it for the permutants and the candidates of every query, exact ones for every object.
using OwnDistance =
    std::function<void(std::int64_t query, const std::uint32_t* objects, std::int64_t count, double* distances)>;

/// What share of a true answer is found: the mean over `sample` left-out objects, and an interval that holds it at 95 %
/// confidence for queries like them; of_queries: over so many of the queries, and an interval for all of the call. 1,
/// 1, 1 where it is certain; NaN where nothing was measured.
struct RecallEstimate {
  double value = 1, low = 1, high = 1;
  std::int64_t sample = 0;
  bool of_queries = false;
};

struct PermutationNeighbors {
  Neighbors neighbors;
  double fraction = 0;  // of true distances that were asked for; of exact searches 0
  RecallEstimate recall;
};
struct PermutationRange {
  CsrNeighbors neighbors;
  double fraction = 0;
  RecallEstimate recall;
};

/// What a build or a search holds at most, known before it starts; results, borrowed rows, mapped files and memory of
/// devices are not counted, nor the answers of a range search. Strings: of queries as long as the objects.
struct PermutationPlan {
  int threads = 1;
  std::int64_t query_batch = 0;  // of a search: queries that a thread answers at a time
  bool together = false;         // of a search: all threads share each query
  std::int64_t peak_bytes = 0, minimum_bytes = 0, budget_bytes = 0;
  std::int64_t prepared_bytes = 0;  // of a build: what the index holds afterwards
  std::string text() const;
};

/// What an index would do for queries like its own objects, measured here and now.
struct PermutationTuning {
  std::int64_t k = 0;
  double target = 0, fraction = 0;
  RecallEstimate recall;
  double index_seconds = 0, exact_seconds = 0;  // a query
  double gain() const noexcept { return exact_seconds / index_seconds; }
};

/// Immutable after construction: const calls are safe at once from any number of threads. Move-only.
/// Permutants, ranks and candidates, and so all bits, depend on objects and options alone (Execution names no
/// semantics).
class PermutationIndex {
 public:
  /// Throws InvalidArgument, InvalidValue, RangeError, OutOfMemory, Cancelled.
  explicit PermutationIndex(const Points& rows, const PermutationOptions& options = {});
  explicit PermutationIndex(const Strings& strings, const PermutationOptions& options);
  /// An index of `objects` objects by a distance of the caller's own, which is kept; queries are numbers of objects
  /// here. metric is not used; f64 distances.
  explicit PermutationIndex(std::int64_t objects, OwnDistance between, const PermutationOptions& options = {});
  PermutationIndex(PermutationIndex&&) noexcept;
  PermutationIndex& operator=(PermutationIndex&&) noexcept;
  ~PermutationIndex();

  /// One checksummed file, objects included (docs/file-format.md); suffix .vicinal. Throws IoError, Unsupported.
  void save(const std::string& path) const;
  /// Rows of vectors stay mapped unless copied; ranks are read. Throws IoError, FormatError, VersionError.
  static PermutationIndex open(const std::string& path, const OpenOptions& options = {});

  /// The bytes of that file in memory, and an index of such bytes, which are borrowed unless copied. Throw as Corpus's,
  /// Unsupported.
  SavedBytes saved() const;
  static PermutationIndex open(std::span<const std::byte> saved, const OpenOptions& options = {});

  /// Stats: candidates are objects whose ranks let them through, reranked those whose true distance was computed.
  PermutationNeighbors knn(const Points& queries, const PermutationSearch& search = {}) const;
  PermutationNeighbors knn(const Strings& queries, const PermutationSearch& search = {}) const;
  /// The same in an index with a distance of the caller's own: queries are 0 to `queries` - 1.
  PermutationNeighbors knn(std::int64_t queries, const OwnDistance& distance,
                           const PermutationSearch& search = {}) const;
  PermutationRange range(std::int64_t queries, const OwnDistance& distance, double radius,
                         const PermutationSearch& search = {}) const;
  PermutationRange range(const Points& queries, double radius, const PermutationSearch& search = {}) const;
  PermutationRange range(const Strings& queries, double radius, const PermutationSearch& search = {}) const;

  /// Throw MemoryBudget where the least that works is more than options.memory allows, as building and searching do.
  static PermutationPlan plan_build(const Shape& rows, const PermutationOptions& options = {});
  static PermutationPlan plan_build(const Strings& strings, const PermutationOptions& options);
  /// Plans a search for the k nearest.
  PermutationPlan plan(std::int64_t queries, const PermutationSearch& search = {}) const;

  /// Recall of `fraction`, or the fraction for `recall`, as search says; then times both ways to answer left-out
  /// objects.
  PermutationTuning tune(const PermutationSearch& search = {}) const;

  std::int64_t size() const noexcept;  // objects
  std::int64_t cols() const noexcept;  // of vectors; 0 of strings
  DType dtype() const noexcept;
  Metric metric() const noexcept;
  bool strings() const noexcept;
  bool own() const noexcept;  // a distance of the caller's own
  const PermutationOptions& options() const noexcept;
  const std::vector<std::int64_t>& permutants() const noexcept;  // ids
  std::int64_t rank_bytes() const noexcept;                      // an object
  std::int64_t bytes() const noexcept;                           // memory held beyond borrowed rows
  double build_seconds() const noexcept;

  struct State;  // the library's own

 private:
  explicit PermutationIndex(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace vicinal
