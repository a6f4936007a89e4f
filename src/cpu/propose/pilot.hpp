// A pilot finds out whether int8 pays on these rows, and whether they should be rotated or projected: some of them play
// queries. Speed depends on it and no answer does.
#pragma once
#include "cpu/isa/kernels.hpp"
#include "prepare/transform.hpp"

namespace vicinal::cpu {

/// A SampledSearch is what a pilot asks about. second: rows that int8 leaves are refined by a second code before they
/// are ranked. queries: that each preparation serves; infinite for a prepared corpus. int8_gain and slowness: of the
/// instruction set.
struct SampledSearch {
  const Kernels& kernels;
  const SearchSpec& spec;
  bool second = false;
  double queries = 1, int8_gain = 1, slowness = 1;
  bool of_codes = true;  // the search begins with int8, so that rows may be projected

  Shape corpus() const noexcept { return {spec.corpus.rows, spec.corpus.cols, spec.corpus.dtype}; }
};

/// An Outlook is what a sample of the rows says of a search, before it.
struct Outlook {
  std::int64_t sampled = 0;  // rows of the corpus; 0: it says nothing
  bool int8_pays = true;     // where Techniques::pilot leaves it open
  bool rotated = false;
  std::int64_t projected = 0;          // columns; 0: rows keep theirs
  double left_int8 = 0, left_f32 = 0;  // rows of the corpus, a query, that each precision does not exclude
};

/// It tells whether int8 pays. transform: of the int8 precision, which will rotate or project where such rows are worth
/// preparing.
bool bytes_pay(const SampledSearch& search, Transform& transform, ThreadPool& thread_pool);
/// It tells the same as figures, which take some milliseconds: of the rows as they are, rotated or projected, whichever
/// is the best. transform: of the int8 precision, or of floats where that comes first.
Outlook look(const SampledSearch& search, Transform& transform, ThreadPool& thread_pool);
/// The columns from which a pilot may project rows, and whether a search is so long that it looks for directions.
inline constexpr std::int64_t least_projected_dims = 256;
bool may_project(const Shape& corpus, Metric metric, double queries, double int8_gain);
inline bool may_project(const SampledSearch& search) {
  return search.of_codes && may_project(search.corpus(), search.spec.metric, search.queries, search.int8_gain);
}
/// The most queries at a time for which bytes of a kept corpus pay where an instruction set with vectors multiplies them
/// no faster than floats: of large rows a few, which wait for memory and not for products; else those that tiles of few
/// queries serve.
std::int64_t most_byte_queries(const Shape& corpus, double slowness) noexcept;
/// The bytes of memory that a pilot takes of rows of so many columns.
std::int64_t pilot_bytes(std::int64_t dims) noexcept;

}  // namespace vicinal::cpu
