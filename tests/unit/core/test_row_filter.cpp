// The filter of rows for a run of a graph's rows: it says of each of them what the filter for all of them says.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/row_filter.hpp"

namespace vicinal {
namespace {

TEST(RowFilter, QueriesOfARunAreItsRows) {
  constexpr std::int64_t rows = 203, count = 40;
  std::mt19937 random(3);
  std::vector<std::int64_t> ids, labels, asked;
  std::vector<std::uint64_t> bitmap;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (random() % 3 != 0) ids.push_back(row);
    labels.push_back(static_cast<std::int64_t>(random() % 4));
    asked.push_back(static_cast<std::int64_t>(random() % 5));
  }
  for (std::int64_t word = 0; word <= rows / 64; ++word) bitmap.push_back(~(std::uint64_t{1} << (random() % 64)));
  const auto labelled = [&](Eligible::Labels rule, const std::vector<std::int64_t>& queries) {
    Eligible eligible;
    eligible.labels = rule;
    eligible.corpus_labels = labels;
    eligible.query_labels = queries;
    return eligible;
  };
  Eligible all_of_it = labelled(Eligible::Labels::same, asked);
  all_of_it.first = 20;
  all_of_it.last = 190;
  all_of_it.ids = ids;
  all_of_it.bitmap = bitmap;
  Eligible range, listed, set;
  range.first = 30;
  range.last = 150;
  listed.ids = ids;
  set.bitmap = bitmap;
  for (const Eligible& eligible : {Eligible(), range, listed, set, labelled(Eligible::Labels::same, labels),
                                   labelled(Eligible::Labels::other, labels), labelled(Eligible::Labels::same, asked),
                                   labelled(Eligible::Labels::other, asked), all_of_it}) {
    for (const bool without_self : {true, false}) {
      const RowFilter whole(eligible, rows, 0, without_self);
      for (const std::int64_t first : {0, 1, 25, 64, 150, 163}) {
        SCOPED_TRACE(testing::Message() << "from row " << first);
        Eligible cut = eligible;
        if (!cut.query_labels.empty())
          cut.query_labels = cut.query_labels.subspan(static_cast<std::size_t>(first), count);
        const RowFilter run(cut, rows, 0, without_self, first);
        EXPECT_EQ(run.view().first_self, first);
        EXPECT_EQ(run.view().without_self, without_self);
        EXPECT_EQ(run.all(), whole.all());
        EXPECT_EQ(run.only_self(), whole.only_self());
        EXPECT_EQ(run.uniform(), whole.uniform());
        for (std::int64_t query = 0; query < count; ++query) {
          std::int64_t allowed = 0;
          for (std::int64_t row = 0; row < rows; ++row) {
            EXPECT_EQ(run.allows(query, row), whole.allows(first + query, row)) << query << ", " << row;
            allowed += static_cast<std::int64_t>(run.allows(query, row));
          }
          if (run.all()) continue;  // which counts nothing
          EXPECT_EQ(run.count(query), whole.count(first + query));
          EXPECT_EQ(run.count(query), allowed);
        }
      }
    }
  }
}

}  // namespace
}  // namespace vicinal
