// MatrixMarket read as dense rows.
#include "files.hpp"

namespace vicinal::test {
namespace {

class Mtx : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  void expect(const std::vector<double>& values, std::int64_t rows, std::int64_t cols, const std::string& content) {
    spit(file("a.mtx"), content);
    const Matrix m = read_matrix(file("a.mtx"));
    EXPECT_EQ(m.points().dtype, DType::f64);
    EXPECT_EQ(m.points().rows, rows);
    EXPECT_EQ(m.points().cols, cols);
    EXPECT_EQ(elements(m.points()), raw(values));
  }
  void refuse(const std::string& part, const std::string& content, ErrorCode code = ErrorCode::format_error) {
    spit(file("a.mtx"), content);
    expect_error(code, part, [&] { read_matrix(file("a.mtx")); });
  }
  TemporaryDirectory directory_;
};

const std::string array = "%%MatrixMarket matrix array real general\n";
const std::string coordinate = "%%MatrixMarket matrix coordinate real general\n";

TEST_F(Mtx, ReadsBothLayouts) {
  expect({1, 3, 5, 2, 4, 6}, 2, 3, array + "% columns first\n\n2 3\n1\n2\n3\n4\n5\n6\n");
  expect({0, 0.1, -4, 0}, 2, 2, coordinate + "%\n%a\n2 2 2\n1 2 0.1\n2 1 -4e0\n");
  expect({7, 8}, 1, 2, "%%MatrixMarket MATRIX Array Integer General\r\n1 2\r\n 7 \r\n8\r\n\r\n");
  expect({0, 0}, 2, 1, coordinate + "2 1 0\n");
  expect({}, 0, 4, array + "0 4\n");
}

TEST_F(Mtx, RefusesOtherKinds) {
  refuse("is a matrix coordinate pattern general", "%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n",
         ErrorCode::unsupported);
  refuse("array real symmetric", "%%MatrixMarket matrix array real symmetric\n1 1\n1\n", ErrorCode::unsupported);
  refuse("is a vector array real general", "%%MatrixMarket vector array real general\n1 1\n1\n");
  refuse("not a mtx file", "%MatrixMarket matrix array real general\n1 1\n1\n");
  refuse("not a mtx file (the file is empty)", "");
}

TEST_F(Mtx, NamesTheLine) {
  refuse("line 2: \"two\" is not a number of columns", array + "2 two\n");
  refuse("line 2: -1 is not a number of rows", array + "-1 2\n");
  refuse("line 2 goes on with \"9\"", array + "1 2 9\n1\n2\n");
  refuse("line 4: \"1,5\" is not a number", array + "1 2\n1\n1,5\n");
  refuse("ends after 1 of 1 x 2 values", array + "1 2\n1\n\n");
  refuse("line 5 comes after the last value", array + "1 2\n1\n2\n3\n");
  refuse("line 3: (3, 1) lies outside 2 x 2", coordinate + "2 2 1\n3 1 5\n");
  refuse("line 3: (0, 1) lies outside 2 x 2", coordinate + "2 2 1\n0 1 5\n");
  refuse("line 4: (1, 1) stands twice", coordinate + "2 2 2\n1 1 5\n1 1 5\n");
  refuse("ends after 1 of 2 entries", coordinate + "2 2 2\n1 1 5\n");
  refuse("ends before its sizes", array + "% only comments\n");
}

TEST_F(Mtx, ComparesSizesWithTheFile) {
  refuse("1152921504606846976 x 64 values do not fit 2 bytes", array + "1152921504606846976 64\n1\n");
  refuse("1000 x 1000 values do not fit 2 bytes", array + "1000 1000\n1\n");
  refuse("2147483647 x 2147483647 with 1 entries", coordinate + "2147483647 2147483647 1\n1 1 1\n");
}

TEST_F(Mtx, GraphsCanBeReadAsRows) {
  Neighbors graph(2, 1, DistanceType::f64, false);
  graph.view().ids[0] = 1;
  graph.view().ids[1] = 0;
  static_cast<double*>(graph.view().distances)[0] = static_cast<double*>(graph.view().distances)[1] = 0.1;
  write_graph(file("g.mtx"), graph);
  EXPECT_EQ(elements(read_matrix(file("g.mtx")).points()), raw(std::vector<double>{0, 0.1, 0.1, 0}));
}

}  // namespace
}  // namespace vicinal::test
