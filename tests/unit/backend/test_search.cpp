// QueryRows: a run and a list of the same rows say the same, and rows that only look like a run at their ends are none.
#include "backend/search.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vicinal {
namespace {

std::vector<std::int64_t> all_of(const QueryRows& rows) {
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < rows.size(); ++i) all.push_back(rows[i]);
  return all;
}

TEST(QueryRows, ARunIsTheListOfItsRows) {
  const std::vector<std::int64_t> list = {7, 8, 9, 10};
  const QueryRows run = QueryRows::run(7, 4), listed(list);
  for (const QueryRows& rows : {run, listed}) {
    EXPECT_EQ(all_of(rows), list);
    EXPECT_EQ(rows.front(), 7);
    EXPECT_EQ(rows.back(), 10);
    EXPECT_TRUE(rows.adjacent());
    std::vector<std::int64_t> into = {1};
    rows.copy_to(into);
    EXPECT_EQ(into, list);
  }
  EXPECT_EQ(listed.list().data(), list.data());
  EXPECT_EQ(listed.list().size(), list.size());
  EXPECT_TRUE(run.list().empty());
}

TEST(QueryRows, RowsInAnyOrderAreNoRun) {
  // Their ends are as far apart as those of a run.
  for (const std::vector<std::int64_t>& list :
       {std::vector<std::int64_t>{5, 9, 7}, {5, 5, 7}, {5, 4, 3, 8}, {9, 8}, {1, 3}}) {
    EXPECT_FALSE(QueryRows(list).adjacent());
    EXPECT_EQ(all_of(list), list);
  }
  const std::vector<std::int64_t> one = {12};
  EXPECT_TRUE(QueryRows(one).adjacent());
}

TEST(QueryRows, NoneAreNoRunEither) {
  const std::vector<std::int64_t> none;
  for (const QueryRows& rows : {QueryRows(), QueryRows::run(3, 0), QueryRows(none)}) {
    EXPECT_TRUE(rows.empty());
    EXPECT_FALSE(rows.adjacent());
  }
}

}  // namespace
}  // namespace vicinal
