// .csv and .tsv: what is accepted, what is refused and how it is named, and that results come back to the bit.
#include <algorithm>
#include <clocale>
#include <cmath>
#include <limits>

#include "files.hpp"

namespace vicinal::test {
namespace {

class Csv : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  std::vector<double> read(const std::string& content, std::int64_t rows, std::int64_t cols,
                           const char* name = "a.csv") {
    spit(file(name), content);
    const Matrix m = read_matrix(file(name));
    EXPECT_EQ(m.points().dtype, DType::f64);
    EXPECT_EQ(m.points().rows, rows) << content;
    EXPECT_EQ(m.points().cols, cols) << content;
    EXPECT_FALSE(m.mapped());
    const auto* values = static_cast<const double*>(m.points().data);
    return {values, values + rows * cols};
  }
  void refuse(const std::string& part, const std::string& content, const char* name = "a.csv") {
    spit(file(name), content);
    expect_error(ErrorCode::format_error, part, [&] { read_matrix(file(name)); });
  }
  TemporaryDirectory directory_;
};

using Values = std::vector<double>;

TEST_F(Csv, ReadsRows) {
  EXPECT_EQ(read("1,2\n3,4\n", 2, 2), (Values{1, 2, 3, 4}));
  EXPECT_EQ(read("1,2\n3,4", 2, 2), (Values{1, 2, 3, 4})) << "no line end at the end";
  EXPECT_EQ(read("1,2\r\n3,4\r\n\r\n", 2, 2), (Values{1, 2, 3, 4})) << "CR LF, and an empty last line";
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "1,2\n3,4\n\n \n",
                 2, 2),
            (Values{1, 2, 3, 4}))
      << "a byte order mark";
  EXPECT_EQ(read(" 1 ,\t-2.5e-3\n+3, \"4\" \n", 2, 2), (Values{1, -2.5e-3, 3, 4})) << "blanks, signs, quotes";
  EXPECT_EQ(read("7\n", 1, 1), (Values{7}));
  EXPECT_EQ(read("1\t2\n3\t 4\n", 2, 2, "a.tsv"), (Values{1, 2, 3, 4}));
  EXPECT_EQ(read("0.1,1e308,5e-324\n", 1, 3), (Values{0.1, 1e308, 5e-324}));
}

TEST_F(Csv, SkipsOneHeaderOfWords) {
  EXPECT_EQ(read("x,y\n1,2\n", 1, 2), (Values{1, 2}));
  EXPECT_EQ(read("\"a, b\",y\r\n1,2\r\n", 1, 2), (Values{1, 2}));
  EXPECT_EQ(read("x,y\n", 0, 2), Values{});
  refuse("row 1, column 2: \"y\" is not a number", "1,y\n1,2\n");
  refuse("row 2, column 1: \"z\" is not a number", "x,y\nz,w\n1,2\n");
}

// What a first line is taken for: of each file its rows, whether a note says so, and the same with either word of the user.
TEST_F(Csv, JudgesTheFirstLine) {
  struct Case {
    const char* text;
    Values automatic, present, absent;  // one empty value {NAN}: refused
    const char* note;                   // part of it; "": none
    const char* name = "a.csv";
  };
  const Values refused{NAN};
  const Case cases[] = {
      // words
      {"x,y\n1,2\n", {1, 2}, {1, 2}, refused, ""},
      {"\"0x\",y\n1,2\n", {1, 2}, {1, 2}, refused, ""},
      // numbers are rows
      {"1,2\n3,4\n", {1, 2, 3, 4}, {3, 4}, {1, 2, 3, 4}, ""},
      {"1990,1991\n3.5,4\n", {1990, 1991, 3.5, 4}, {3.5, 4}, {1990, 1991, 3.5, 4}, ""},
      {"0.0,1,2\n3,4,5.5\n", {0, 1, 2, 3, 4, 5.5}, {3, 4, 5.5}, {0, 1, 2, 3, 4, 5.5}, ""},
      {"00,01,02\n3,4,9\n", {0, 1, 2, 3, 4, 9}, {3, 4, 9}, {0, 1, 2, 3, 4, 9}, ""},
      {"2,1,0\n3,4,9\n", {2, 1, 0, 3, 4, 9}, {3, 4, 9}, {2, 1, 0, 3, 4, 9}, ""},
      {"1,2,3\n3,4,9\n", {1, 2, 3, 3, 4, 9}, {3, 4, 9}, {1, 2, 3, 3, 4, 9}, ""},
      {"0,2,1\n3,4,9\n", {0, 2, 1, 3, 4, 9}, {3, 4, 9}, {0, 2, 1, 3, 4, 9}, ""},
      // but 0 to d - 1 are the names of columns that have none
      {"0,1,2\n0.5,0.25,7\n",
       {0.5, 0.25, 7},
       {0.5, 0.25, 7},
       {0, 1, 2, 0.5, 0.25, 7},
       "0 to 2, and was taken as names"},
      {"0,1,2\r\n7,7,7\r\n", {7, 7, 7}, {7, 7, 7}, {0, 1, 2, 7, 7, 7}, "0 to 2, and was taken as names"},
      {"0,1,2\n0,1,2\n", {0, 1, 2}, {0, 1, 2}, {0, 1, 2, 0, 1, 2}, "0 to 2, and was taken as names"},
      {"0,1\n0.5,0.25\n", {0.5, 0.25}, {0.5, 0.25}, {0, 1, 0.5, 0.25}, "0 to 1, and was taken as names"},
      {"0\t1\n0.5\t1\n", {0.5, 1}, {0.5, 1}, {0, 1, 0.5, 1}, "was taken as names", "a.tsv"},
      {"0;1;2\n0.5;1;2\n", {0.5, 1, 2}, {0.5, 1, 2}, {0, 1, 2, 0.5, 1, 2}, "was taken as names"},
      // or a row: of two columns of integers, of one, of rows that count on, alone
      {"0,1\n1,0\n", {0, 1, 1, 0}, {1, 0}, {0, 1, 1, 0}, "0 to 1, and was taken as a row"},
      {"0\n0.5\n", {0, 0.5}, {0.5}, {0, 0.5}, "0 to 0, and was taken as a row"},
      {"0,1,2\n3,4,5\n6,7,8\n", {0, 1, 2, 3, 4, 5, 6, 7, 8}, {3, 4, 5, 6, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, ""},
      {"0,1,2\n", {0, 1, 2}, {}, {0, 1, 2}, ""},
      {"0,1,2\n\n", {0, 1, 2}, {}, {0, 1, 2}, ""},
      // an index, whose name is empty
      {",x,y\n0,1,2\n1,3,4\n", {1, 2, 3, 4}, {1, 2, 3, 4}, refused, "column 1 has no name"},
      {"\"\",\"x\",\"y\"\n\"a\",1,2\n\"b\",3,4\n", {1, 2, 3, 4}, {1, 2, 3, 4}, refused, "column 1 has no name"},
      {",0,1\n0,5,6\n1,7,8\n", {5, 6, 7, 8}, {5, 6, 7, 8}, refused, "column 1 has no name"},
      {";x;y\n0;1;2\n", {1, 2}, {1, 2}, refused, "column 1 has no name"},
      {",0.5,1\n0,5,6\n", refused, {5, 6}, refused, "column 1 has no name"},
      // semicolons
      {"1;2\n3;4.5\n", {1, 2, 3, 4.5}, {3, 4.5}, {1, 2, 3, 4.5}, ""},
      {"x;y\n3;4\n", {3, 4}, {3, 4}, refused, ""},
      {"\"a;b\"\n3\n", {3}, {3}, refused, ""},
      {"1;2\t\n", refused, {}, refused, "", "a.tsv"},
      // names of which some are numbers are one with the user's word alone
      {"0,1,label\n1,2,3\n", refused, {1, 2, 3}, refused, ""},
      {"x,,y\n1,2,3\n", refused, {1, 2, 3}, refused, ""},
  };
  for (const Case& one : cases) {
    const std::pair<Header, const Values*> ways[] = {
        {Header::automatic, &one.automatic}, {Header::present, &one.present}, {Header::absent, &one.absent}};
    for (const auto& [header, want] : ways) {
      spit(file(one.name), one.text);
      const std::string what = std::string(one.text) + " header " + std::to_string(static_cast<int>(header));
      if (want->size() == 1 && std::isnan(want->front())) {
        EXPECT_THROW(read_matrix(file(one.name), {.member = "", .header = header}), Error) << what;
        continue;
      }
      try {
        const Matrix m = read_matrix(file(one.name), {.member = "", .header = header});
        const auto* values = static_cast<const double*>(m.points().data);
        EXPECT_EQ(Values(values, values + m.points().rows * m.points().cols), *want) << what;
        const bool told = header == Header::automatic || std::string(one.note).starts_with("column 1");
        if (told && *one.note != '\0') EXPECT_NE(m.note().find(one.note), std::string::npos) << what << m.note();
        else EXPECT_EQ(m.note(), "") << what;
        const ValueMatrix v = read_values(file(one.name), {.member = "", .header = header});
        EXPECT_EQ(v.values().rows, m.points().rows) << what;
        EXPECT_EQ(v.note(), m.note()) << what;
      } catch (const Error& error) {
        ADD_FAILURE() << what << ": " << error.what();
      }
    }
  }
  refuse("--header if row 1 is names of columns", "0,1,label\n1,2,3\n");
  refuse("numbers are written with a point", "x;y\n1,5;2,5\n");
  refuse("cells lie apart by commas, or all by semicolons", "1,5;2,5\n");
}

/// Rows that begin as names of columns do come back as rows.
TEST_F(Csv, WhatIsWrittenIsNotTakenForAHeader) {
  for (const char* name : {"a.csv", "a.tsv"}) {
    for (const int cols : {1, 2, 3, 5}) {
      for (const double then : {0.0, 0.5, 7.0}) {
        std::vector<double> values(static_cast<std::size_t>(3 * cols), then);
        for (int i = 0; i < cols; ++i) values[static_cast<std::size_t>(i)] = i;
        write_matrix(file(name), MatrixView<double>{values.data(), 3, cols});
        const Matrix m = read_matrix(file(name));
        ASSERT_EQ(m.points().rows, 3) << cols << slurp(file(name));
        EXPECT_EQ(elements(m.points()), raw(values));
      }
    }
  }
  const std::uint8_t bytes[] = {0, 1, 2, 9, 9, 9};
  write_matrix(file("a.csv"), MatrixView<std::uint8_t>{bytes, 2, 3});
  EXPECT_EQ(slurp(file("a.csv")), "0.0,1,2\n9,9,9\n");
}

/// A result's first line of ids is no header, whatever ids it holds.
TEST_F(Csv, IdsThatCountAreIds) {
  spit(file("a.csv"), "0,1,2\n5,3,4\n");
  EXPECT_EQ(read_result(file("a.csv")).rows, 2);
  spit(file("a.csv"), "id_0;id_1;d_0;d_1\n5;3;0.5;1\n");
  EXPECT_EQ(read_result(file("a.csv")).ids, (std::vector<std::int64_t>{5, 3}));
}

TEST_F(Csv, NamesTheCellThatIsNoNumber) {
  refuse("row 8, column 3: \"1,5\" is not a number",
         "1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t1,5\n", "a.tsv");
  refuse("row 2, column 1: \"1,5\" is not a number", "1,2\n\"1,5\",2\n");
  refuse("row 2, column 2: \"\" is not a number", "1,2\n1,\n");
  refuse("row 2, column 1: \"\" is not a number", "1\n\n2\n");
  refuse("row 1, column 2: \"0x10\" is not a number", "1,0x10\n");
  refuse("row 1, column 2: \"1e999\" is not a number", "1,1e999\n");
  refuse("row 1, column 1: \"1e-400\" is not a number", "1e-400,1e999\n1,2\n");  // no names of columns
  refuse("line 1 holds a carriage return", "1\r2\r3\r");
  refuse("line 1 holds a carriage return", "1,2\r3,4\r\n");
  refuse("row 1, column 2: \"2 3\" is not a number", "1,2 3\n");
  refuse("row 1, column 2: \"\\x00\\x01\" is not a number", std::string("1,\0\1\n", 5));
  refuse("row 3 has 1 column, expected 2", "1,2\n3,4\n5\n");
  refuse("row 2 has 3 columns, expected 2", "1,2\n3,4,5\n");
  refuse("the file is empty", "");
}

TEST_F(Csv, TakesNoNoticeOfTheLocale) {
  const std::string old = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) == nullptr) continue;
    EXPECT_EQ(read("1.5,2\n", 1, 2), (Values{1.5, 2}));
    refuse("row 2, column 1: \"1,5\" is not a number", "2\n\"1,5\"\n");
  }
  std::setlocale(LC_ALL, old.c_str());
}

TEST_F(Csv, WritesRowsThatReadBackEqual) {
  const float floats[] = {0.1f, -0.0f, 16777216, 1e-45f, 3.4028235e38f, 1.5f};
  write_matrix(file("a.csv"), MatrixView<float>{floats, 2, 3});
  const Matrix m = read_matrix(file("a.csv"));
  for (int i = 0; i < 6; ++i) {
    const double value = static_cast<const double*>(m.points().data)[i];
    EXPECT_EQ(value, static_cast<double>(floats[i]));
    EXPECT_EQ(std::signbit(value), std::signbit(floats[i]));
  }
  const std::int8_t small[] = {-128, 0, 127, 5};
  write_matrix(file("b.tsv"), MatrixView<std::int8_t>{small, 2, 2});
  EXPECT_EQ(slurp(file("b.tsv")), "-128\t0\n127\t5\n");
  const f16 halves[] = {{0x3C00}, {0x0001}, {0xC500}, {0x7BFF}};
  write_matrix(file("c.csv"), MatrixView<f16>{halves, 1, 4});
  EXPECT_EQ(slurp(file("c.csv")), "1,5.960464477539063e-08,-5,65504\n");
  const double column_major[] = {1, 2, 3, 4};
  Points p(column_major, DType::f64, 2, 2);
  std::swap(p.row_stride, p.col_stride);
  write_matrix(file("d.csv"), p);
  EXPECT_EQ(slurp(file("d.csv")), "1,3\n2,4\n");
}

TEST_F(Csv, ResultsToTheByte) {
  const Neighbors result = make_neighbors(2, 2, DistanceType::f32, false, 100);
  write_neighbors(file("a.csv"), result);
  EXPECT_EQ(slurp(file("a.csv")), "id_0,id_1,d_0,d_1\n100,103,0,0.33333334\n106,109,0.6666667,1\n");
  write_neighbors(file("a.tsv"), make_neighbors(1, 2, DistanceType::f64));
  EXPECT_EQ(slurp(file("a.tsv")), "id_0\tid_1\td_0:f64\td_1:f64\n0\t3\t0\t0.3333333333333333\n");
}

TEST_F(Csv, ResultsRoundTrip) {
  for (const DistanceType type : {DistanceType::f32, DistanceType::f64, DistanceType::u32}) {
    for (const std::int64_t rows : {0, 1, 40}) {
      const Neighbors result = make_neighbors(rows, 7, type, false, std::int64_t{1} << 60);
      write_neighbors(file("a.csv"), result);
      expect_same(read_result(file("a.csv")), result, true);
    }
  }
  Neighbors padded(1, 2, DistanceType::f32, false);
  padded.view().ids[0] = 7;
  padded.view().ids[1] = -1;
  static_cast<float*>(padded.view().distances)[0] = -0.0f;
  static_cast<float*>(padded.view().distances)[1] = std::numeric_limits<float>::infinity();
  write_neighbors(file("a.csv"), padded);
  EXPECT_EQ(slurp(file("a.csv")), "id_0,id_1,d_0,d_1\n7,-1,-0,inf\n");
  expect_same(read_result(file("a.csv")), padded, true);
}

TEST_F(Csv, ReadsIdsOfOtherTools) {
  spit(file("a.csv"), "5,6\n7,8\n");
  const ResultFile bare = read_result(file("a.csv"));
  EXPECT_EQ(bare.ids, (std::vector<std::int64_t>{5, 6, 7, 8}));
  EXPECT_FALSE(bare.has_distances);
  spit(file("a.csv"), "id_0,id_1\n5,6\n");
  EXPECT_EQ(read_result(file("a.csv")).k, 2);
}

TEST_F(Csv, RefusesWhatIsNoResult) {
  const auto refuse_result = [&](const std::string& part, const std::string& content) {
    spit(file("a.csv"), content);
    expect_error(ErrorCode::format_error, part, [&] { read_result(file("a.csv")); });
  };
  refuse_result("row 1, column 2: \"1.5\" is not an integer", "1,1.5\n");
  refuse_result("row 1, column 1: \"9223372036854775808\" is not an integer", "9223372036854775808\n");
  refuse_result("column 1 of 3 is \"query\"", "query,id,distance\n0,0,0\n");
  refuse_result("column 3 of 3 is \"x\"", "id_0,d_0,x\n1,2,3\n");
  refuse_result("the header of a result is", "id_0,id_1,d_0\n1,2,3\n");
  refuse_result("the header of a result is", "id_0,id_2\n1,2\n");
  refuse_result("row 2, column 2: \"x\" is not a number of f32", "id_0,d_0\n1,x\n");
  spit(file("a.csv"), "id_0,d_0\n1,0.5\n");
  expect_error(ErrorCode::invalid_argument, "holds a result (its header begins with id_0), not vectors",
               [&] { read_matrix(file("a.csv")); });
}

}  // namespace
}  // namespace vicinal::test
