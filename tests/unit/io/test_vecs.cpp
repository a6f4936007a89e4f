// .fvecs, .bvecs, .ivecs: rows used in place by their stride; every row's d is checked.
#include "files.hpp"

namespace vicinal::test {
namespace {

class Vecs : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  void refuse(ErrorCode code, const std::string& part, const std::string& name, const std::string& content) {
    spit(file(name), content);
    expect_error(code, part, [&] { read_matrix(file(name)); });
  }
  TemporaryDirectory directory_;
  // Two rows of three floats, as in the documents: 4 + 12 bytes each.
  const std::string rows_[2] = {raw(std::vector<float>{1, 2, 3}), raw(std::vector<float>{-4, 5.5f, 0})};
  const std::string fvecs_ = raw(3) + rows_[0] + raw(3) + rows_[1];
};

TEST_F(Vecs, ReadsFvecsInPlace) {
  spit(file("a.fvecs"), fvecs_);
  const Matrix m = read_matrix(file("a.fvecs"));
  EXPECT_TRUE(m.mapped());
  EXPECT_EQ(m.points().rows, 2);
  EXPECT_EQ(m.points().cols, 3);
  EXPECT_EQ(m.points().row_stride, 16);
  EXPECT_TRUE(m.points().plain_rows());
  EXPECT_EQ(elements(m.points()), rows_[0] + rows_[1]);
}

TEST_F(Vecs, ReadsBvecsAtAnyAlignment) {
  spit(file("a.BVECS"), raw(3) + "abc" + raw(3) + "def" + raw(3) + "ghi");
  const Matrix m = read_matrix(file("a.BVECS"));
  EXPECT_EQ(m.points().dtype, DType::u8);
  EXPECT_EQ(m.points().row_stride, 7);
  EXPECT_EQ(elements(m.points()), "abcdefghi");
  spit(file("b.fvecs"), raw(1) + raw(2.5f) + raw(1) + raw(-1.0f));
  EXPECT_EQ(elements(read_matrix(file("b.fvecs")).points()), raw(2.5f) + raw(-1.0f));
}

TEST_F(Vecs, ReadsIdsButNoVectorsFromIvecs) {
  const std::string content = raw(2) + raw(7) + raw(-1) + raw(2) + raw(INT32_MAX) + raw(0);
  spit(file("a.ivecs"), content);
  const ResultFile result = read_result(file("a.ivecs"));
  EXPECT_EQ(result.rows, 2);
  EXPECT_EQ(result.k, 2);
  EXPECT_EQ(result.ids, (std::vector<std::int64_t>{7, -1, INT32_MAX, 0}));
  refuse(ErrorCode::invalid_argument, "dtype int32 not supported; convert with astype", "a.ivecs", content);
}

TEST_F(Vecs, ChecksTheDOfEveryRow) {
  std::string content;
  for (int row = 0; row < 20; ++row) content += raw(8) + std::string(8, 'x');
  for (std::size_t row = 1; row < 20; ++row) {
    std::string damaged = content;
    damaged.replace(row * 12, 4, raw(7));
    refuse(ErrorCode::format_error, "row " + std::to_string(row) + " has d=7, expected 8", "a.bvecs", damaged);
  }
}

TEST_F(Vecs, RefusesOtherLengths) {
  refuse(ErrorCode::format_error, "d=3 makes rows of 16 bytes, the file has 33: truncated, or not fvecs", "a.fvecs",
         fvecs_ + "x");
  refuse(ErrorCode::format_error, "d=2147483647 makes rows of 8589934592 bytes, the file has 8", "a.fvecs",
         raw(INT32_MAX) + raw(0));
  refuse(ErrorCode::format_error, "row 0 has d=-5", "a.fvecs", raw(-5) + raw(0));
  refuse(ErrorCode::format_error, "not a fvecs file (the file is empty)", "a.fvecs", "");
  refuse(ErrorCode::format_error, "not a fvecs file (first bytes 01 00)", "a.fvecs", std::string("\1\0", 2));
  refuse(ErrorCode::format_error, "it looks like .fvecs", "a.bvecs", fvecs_);
}

TEST_F(Vecs, RefusesRowsOfNoColumns) {
  refuse(ErrorCode::invalid_argument, "dimension is 0, of shape (2, 0)", "a.fvecs", raw(0) + raw(0));
}

TEST_F(Vecs, WritesTheDocumentedBytes) {
  const float values[] = {1, 2, 3, -4, 5.5f, 0};
  write_matrix(file("a.fvecs"), MatrixView<float>{values, 2, 3});
  EXPECT_EQ(slurp(file("a.fvecs")), fvecs_);
  const std::uint8_t bytes[] = {'a', 'b', 'c', 'd'};
  write_matrix(file("a.bvecs"), MatrixView<std::uint8_t>{bytes, 2, 2});
  EXPECT_EQ(slurp(file("a.bvecs")), raw(2) + "ab" + raw(2) + "cd");
}

TEST_F(Vecs, RoundTripsStridedAndSwappedMatrices) {
  std::vector<float> values(7 * 9000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f;
  Points p(values.data(), DType::f32, 9000, 7);
  p.row_stride = 4;
  p.col_stride = 9000 * 4;
  p.byte_swapped = true;
  write_matrix(file("a.fvecs"), p);
  EXPECT_EQ(elements(read_matrix(file("a.fvecs")).points()), elements(p));
}

TEST_F(Vecs, RefusesMatricesOfAnotherType) {
  const double value = 1;
  expect_error(ErrorCode::invalid_argument, "fvecs holds float32, the rows are float64", [&] {
    write_matrix(file("a.fvecs"), MatrixView<double>{&value, 1, 1});
  });
  expect_error(ErrorCode::unsupported,
               ".ivecs is not for vectors; vicinal writes vectors to .npy, .fvecs, .bvecs, .fbin", [&] {
                 write_matrix(file("a.ivecs"), MatrixView<double>{&value, 1, 1});
               });
  EXPECT_EQ(directory_.entries(), 0u);
}

TEST_F(Vecs, RoundTripsResults) {
  const Neighbors result = make_neighbors(50, 7, DistanceType::f32, true);
  write_neighbors(file("a.ivecs"), result, file("a.fvecs"));
  expect_same(read_result(file("a.ivecs"), file("a.fvecs")), result, true);
  EXPECT_EQ(slurp(file("a.ivecs")).substr(0, 12), raw(7) + raw(0) + raw(3));
}

TEST_F(Vecs, HoldsNoFileWithoutRows) {
  const Neighbors none = make_neighbors(0, 7, DistanceType::f32);
  expect_error(ErrorCode::unsupported, "there are no ids, and a file of ivecs without rows would be empty; .npy",
               [&] { write_neighbors(file("a.ivecs"), none); });
  expect_error(ErrorCode::unsupported, "there are no distances, and a file of fvecs without rows",
               [&] { write_neighbors(file("a.npy"), none, file("a.fvecs")); });
  for (const char* name : {"a.fvecs", "a.csv", "a.tsv"})
    expect_error(ErrorCode::unsupported, "there are no rows",
                 [&] { write_matrix(file(name), Points(nullptr, DType::f32, 0, 3)); });
  expect_error(ErrorCode::unsupported, "there are no ids", [&] { check_holds(file("a.ivecs"), "", {}); });
  EXPECT_EQ(directory_.entries(), 0u);
  write_neighbors(file("a.csv"), none);
  EXPECT_EQ(read_result(file("a.csv")).k, 7);
}

TEST_F(Vecs, HoldsIdsUpTo31BitsOnly) {
  Neighbors result = make_neighbors(3, 4, DistanceType::f32);
  result.view().ids[6] = INT32_MAX;
  result.view().ids[7] = -1;
  write_neighbors(file("a.ivecs"), result);
  expect_same(read_result(file("a.ivecs")), result, false);
  const std::string before = slurp(file("a.ivecs"));
  result.view().ids[6] = std::int64_t{INT32_MAX} + 1;
  expect_error(ErrorCode::range_error,
               "row 1, rank 2: id 2147483648 does not fit the 32 bits of ivecs (at most 2147483647); .npy, .npz and "
               ".u64bin can hold it",
               [&] { write_neighbors(file("a.ivecs"), result); });
  EXPECT_EQ(slurp(file("a.ivecs")), before);
}

TEST_F(Vecs, HoldsF32DistancesOnly) {
  for (const DistanceType type : {DistanceType::f64, DistanceType::u32}) {
    expect_error(ErrorCode::range_error, "fvecs holds float32, the distances are",
                 [&] { write_neighbors(file("a.ivecs"), make_neighbors(3, 4, type), file("d.fvecs")); });
    expect_error(ErrorCode::range_error, ".npy and .npz hold any distances",
                 [&] { write_neighbors(file("a.ivecs"), make_neighbors(3, 4, type), file("d.fvecs")); });
  }
  EXPECT_EQ(directory_.entries(), 0u);
}

}  // namespace
}  // namespace vicinal::test
