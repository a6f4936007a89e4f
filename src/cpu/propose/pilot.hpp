// A pilot finds out whether int8 pays on these rows, and whether they should be rotated: some of them play queries.
// Speed depends on it and no answer does.
#pragma once
#include "cpu/isa/kernels.hpp"
#include "prepare/transform.hpp"

namespace vicinal::cpu {

/// An Outlook is what a sample of the rows says of a search, before it.
struct Outlook {
  std::int64_t sampled = 0;  // rows of the corpus; 0: it says nothing
  bool int8_pays = true;     // where Techniques::pilot leaves it open
  bool rotated = false;
  double left_int8 = 0, left_f32 = 0;  // rows of the corpus, a query, that each precision does not exclude
};

/// It tells whether int8 pays. transform: of the int8 precision, which will rotate where rotated rows are worth
/// preparing. second: rows that int8 leaves are refined by a second code before they are ranked. queries: that each
/// preparation serves; infinite for a prepared corpus.
bool bytes_pay(const Kernels& kernels, const SearchSpec& spec, Transform& transform, bool second, double queries,
               ThreadPool& thread_pool);
/// It tells the same as figures, which take some milliseconds: of the rows as they are or rotated, whichever is the
/// better. transform: of the int8 precision, or of floats where that comes first.
Outlook look(const Kernels& kernels, const SearchSpec& spec, Transform& transform, bool second, double queries,
             ThreadPool& thread_pool);
/// The bytes of memory that a pilot takes.
inline constexpr std::int64_t pilot_bytes = std::int64_t{1} << 20;

}  // namespace vicinal::cpu
