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

TEST_F(Csv, NamesTheCellThatIsNoNumber) {
  refuse("row 8, column 3: \"1,5\" is not a number",
         "1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t3\n1\t2\t1,5\n", "a.tsv");
  refuse("row 2, column 1: \"1,5\" is not a number", "1,2\n\"1,5\",2\n");
  refuse("row 2, column 2: \"\" is not a number", "1,2\n1,\n");
  refuse("row 2, column 1: \"\" is not a number", "1\n\n2\n");
  refuse("row 1, column 2: \"0x10\" is not a number", "1,0x10\n");
  refuse("row 1, column 2: \"1e999\" is not a number", "1,1e999\n");
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
