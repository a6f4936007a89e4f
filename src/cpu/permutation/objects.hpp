// Objects of the permutation index on the host: rows of numbers, and strings.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/objects.hpp"
#include "cpu/isa/table.hpp"
#include "vicinal/strings.hpp"

namespace vicinal::cpu {

struct VectorObjects : Objects {
  /// Throws InvalidArgument, InvalidValue, RangeError. The result refers to the queries' memory.
  virtual std::unique_ptr<Queries> read(const Points& queries, ThreadPool& thread_pool) const = 0;
  virtual const Points& rows() const noexcept = 0;
};
/// The rows are borrowed. Throws as a search does.
std::unique_ptr<VectorObjects> open_vectors(const Points& rows, Metric metric, std::int64_t window,
                                            const std::string& instruction_set, ThreadPool& thread_pool);

/// The distances that only an index has (src/core/measures/): one query against chosen rows.
struct Measure {
  Metric metric;
  bool histograms;  // rows must not be negative
  void (*measure)(const InstructionSet& set, const double* query, const Points& rows, const std::uint32_t* objects,
                  std::int64_t count, std::int64_t window, std::vector<double>& scratch, double* values);
  std::int64_t (*scratch)(const InstructionSet& set, std::int64_t cols);  // how many numbers
};
/// Null for metrics that searches have.
const Measure* find_measure(Metric metric) noexcept;

struct StringObjects : Objects {
  /// Keeps what it needs of the queries.
  virtual std::unique_ptr<Queries> read(const Strings& queries, ThreadPool& thread_pool) const = 0;
  virtual Encoding encoding() const noexcept = 0;  // utf8 or bytes
  /// All of them, or some, in that encoding.
  virtual StringList list(const std::vector<std::int64_t>* ids = nullptr) const = 0;
};
/// Keeps what it needs of the strings.
std::unique_ptr<StringObjects> open_strings(const Strings& strings, Metric metric, const StringRules& rules,
                                            ThreadPool& thread_pool);

}  // namespace vicinal::cpu
