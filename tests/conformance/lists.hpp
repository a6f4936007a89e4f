// What the tests of graphs, ranges and eligible rows share: filters of every kind with the oracle's view of them,
// budgets from the plan of each call, and the comparison of rows that differ in length.
#pragma once
#include <functional>

#include "conformance/settings.hpp"
#include "oracle/lists.hpp"

namespace conformance {

/// An eligibility as the oracle reads it, and the memory behind the spans of the library's.
struct Filter {
  std::string name;
  oracle::Eligible plain;
  std::vector<std::int64_t> ids;      // any order, some twice, some of no row
  std::vector<std::uint64_t> bitmap;  // bits beyond the last row are set: they mean nothing
  vicinal::Eligible view() const;
  /// The same for the oracle and the library.
  void put(vicinal::KnnOptions& options, oracle::SearchSpec& spec) const;
};
enum class Condition { none, id_range, id_list, bitmap, same_label, other_label, together, last_row, no_row };
extern const std::vector<Condition> all_conditions;
Filter make_filter(Rng& rng, Condition condition, std::int64_t rows, std::int64_t queries, std::int64_t first_id = 0);
/// These rows and no others.
Filter only_rows(const std::vector<bool>& rows);

/// The options with this setting; the budget is of the plan that `plan` makes for the very call. Where that throws, so
/// will the call, and the budget stays ample.
using Planner = std::function<vicinal::Plan(const vicinal::KnnOptions&)>;
vicinal::KnnOptions apply(const Setting& setting, vicinal::KnnOptions options, const Planner& plan);

std::string difference(const vicinal::CsrNeighbors& got, const oracle::Lists& want);
/// Both call the library and compare the result, or the code of the error, with the oracle's.
std::string check_graph(const vicinal::Points& rows, const vicinal::GraphOptions& options, const oracle::Answer& want);
std::string check_range(const vicinal::Points& corpus, const vicinal::Points& queries, double radius,
                        const vicinal::RangeOptions& options, const oracle::Lists& want);
/// The same with the setting applied.
std::string check_graph(const Setting& setting, const vicinal::Points& rows, vicinal::GraphOptions options,
                        const oracle::Answer& want);
std::string check_range(const Setting& setting, const vicinal::Points& corpus, const vicinal::Points& queries,
                        double radius, vicinal::RangeOptions options, const oracle::Lists& want);

/// Every instruction set, number of threads and amount of memory.
std::vector<Setting> every_setting();

}  // namespace conformance
