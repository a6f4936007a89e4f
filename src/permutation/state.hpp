// What a PermutationIndex holds.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "cpu/permutation/objects.hpp"
#include "permutation/bounds.hpp"
#include "permutation/ranks.hpp"
#include "vicinal/permutation_index.hpp"

namespace vicinal {

/// How recall grows with the number of candidates, by objects that were left out in turn, or by some queries
/// (tune.cpp).
struct RecallCurve {
  std::int64_t measured = 0, queries = 0;  // of a call's queries; 0 of objects, which stand for all that are like them
  std::vector<std::int64_t> candidates;    // ascending; the last is all
  std::vector<std::vector<float>>
      recalls;                   // [left-out object][as candidates]; objects with an empty answer are not there
  std::vector<double> farthest;  // of k-NN: value of each left-out object's k-th, as a DistanceEvaluator gives it
  RecallEstimate at(std::size_t point) const;
  /// The first point at which the lower limit reaches the target.
  std::size_t point_for(double target) const;
};

struct PermutationIndex::State {
  PermutationOptions options;
  Points rows;  // of vectors
  Buffer<std::byte> copy;
  std::shared_ptr<const void> mapping;  // of an opened file that was not copied
  std::unique_ptr<cpu::VectorObjects> vectors;
  std::unique_ptr<cpu::StringObjects> strings;
  std::unique_ptr<Objects> user_defined;  // known to the caller alone
  std::vector<std::int64_t> permutants;
  std::unique_ptr<RankLayout> layout;
  Buffer<std::uint8_t> ranks;      // layout->stride bytes an object
  std::unique_ptr<Bounds> bounds;  // null: not kept, or the metric has none
  double seconds = 0;

  mutable std::mutex mutex;                                                              // of what follows
  mutable std::map<std::pair<bool, double>, std::shared_ptr<const RecallCurve>> curves;  // (range, k or radius)
  mutable std::map<const Backend*, std::shared_ptr<const PreparedCorpus>> kept;          // ranks on devices

  const Objects& objects() const noexcept {
    if (user_defined) return *user_defined;
    return vectors ? static_cast<const Objects&>(*vectors) : static_cast<const Objects&>(*strings);
  }
  const std::uint8_t* ranks_of(std::int64_t object) const noexcept { return ranks.data() + object * layout->stride; }
  /// Chooses permutants and makes ranks and bounds. Polls once an object.
  void build(ThreadPool& thread_pool);
};

/// The device, threads and instruction set of the host beside it, and its memory; names and numbers judged.
struct Resolved {
  std::vector<std::string> devices;  // each by its name
  const Backend* backend;            // of the first
  int threads;
  std::string instruction_set;
  std::int64_t budget;
  bool host() const { return backend == &cpu_backend(); }
};
Resolved resolve(const Execution& run, const Budget& memory);

/// Objects by whose distances the cells of bounds are cut.
std::int64_t sampled_for_bounds(std::int64_t objects, std::int64_t permutants) noexcept;

/// Permutants as a DistanceEvaluator takes them.
std::vector<std::uint32_t> narrow(const std::vector<std::int64_t>& ids);

/// The curve of a k-NN search (radius null) or of a range, made where it is not known. Folded radius.
std::shared_ptr<const RecallCurve> recall_curve(const PermutationIndex::State& state, std::int64_t k,
                                                const double* radius, ThreadPool& thread_pool,
                                                const std::string& instruction_set);
/// The same of measured_for() of these queries. Queries with an empty answer are not in the curve.
RecallCurve recall_curve_of(const PermutationIndex::State& state, const Queries& queries, double target, std::int64_t k,
                            const double* radius, ThreadPool& thread_pool, const std::string& instruction_set);
/// How many of a call's queries are measured for that recall.
std::int64_t measured_for(double target, std::int64_t queries) noexcept;
/// Queries from which on that is no more than a third of them.
std::int64_t least_to_tune_on(double target) noexcept;
/// Memory at most of making one with so many threads, of so many of the queries, or of objects.
std::int64_t curve_bytes(const PermutationIndex::State& state, bool range, int threads, std::int64_t measured) noexcept;
/// Objects to leave out in turn, none of them a permutant.
std::vector<std::int64_t> left_out(const PermutationIndex::State& state);

}  // namespace vicinal
