// .fbin, .f16bin, .u8bin, .i8bin, .ibin: the two counts must account for every byte of the file.
#include "files.hpp"

namespace vicinal::test {
namespace {

class Bin : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  void refuse(ErrorCode code, const std::string& part, const std::string& name, const std::string& content) {
    spit(file(name), content);
    expect_error(code, part, [&] { read_matrix(file(name)); });
  }
  TemporaryDirectory directory_;
};

TEST_F(Bin, ReadsEveryType) {
  const struct {
    const char* name;
    DType type;
  } members[] = {{"a.fbin", DType::f32}, {"a.f16bin", DType::f16}, {"a.u8bin", DType::u8}, {"a.i8bin", DType::i8}};
  for (const auto& [name, type] : members) {
    const std::string data = std::string("abcdefghijklmnopqrstuvwx").substr(0, 6 * dtype_size(type));
    spit(file(name), raw(2) + raw(3) + data);
    const Matrix m = read_matrix(file(name));
    EXPECT_TRUE(m.mapped());
    EXPECT_EQ(m.points().dtype, type);
    EXPECT_EQ(m.points().rows, 2);
    EXPECT_EQ(m.points().cols, 3);
    EXPECT_EQ(elements(m.points()), data);
    const std::string copy = std::string("copy") + name;
    write_matrix(file(copy), m.points());
    EXPECT_EQ(slurp(file(copy)), slurp(file(name)));
  }
}

TEST_F(Bin, ReadsNoRowsAndNoColumns) {
  spit(file("a.fbin"), raw(0) + raw(128));
  EXPECT_EQ(read_matrix(file("a.fbin")).points().cols, 128);
  spit(file("a.fbin"), raw(UINT32_MAX) + raw(0));
  EXPECT_EQ(read_matrix(file("a.fbin")).points().rows, std::int64_t{UINT32_MAX});
}

TEST_F(Bin, RefusesEveryOtherLength) {
  const std::string good = raw(2) + raw(3) + std::string(24, 'x');
  refuse(ErrorCode::format_error, "n=2 and d=3 of float32 needs 32 bytes, the file has 31", "a.fbin",
         good.substr(0, 31));
  refuse(ErrorCode::format_error, "n=2 and d=3 of float32 needs 32 bytes, the file has 33", "a.fbin", good + "x");
  refuse(ErrorCode::format_error, "needs more than 2^63 bytes, the file has 8", "a.fbin",
         raw(UINT32_MAX) + raw(UINT32_MAX));
  refuse(ErrorCode::format_error, "needs 4611686014132420617 bytes, the file has 8", "a.u8bin",
         raw(INT32_MAX) + raw(INT32_MAX));
}

TEST_F(Bin, RefusesOtherFiles) {
  refuse(ErrorCode::format_error, "not a fbin file (the file is empty)", "a.fbin", "");
  refuse(ErrorCode::format_error, "not a fbin file (first bytes 61 62 63)", "a.fbin", "abc");
  refuse(ErrorCode::format_error, "it looks like .u8bin", "a.fbin", raw(2) + raw(3) + "abcdef");
  refuse(ErrorCode::invalid_argument, "dtype int32 not supported", "a.ibin", raw(1) + raw(1) + raw(5));
}

TEST_F(Bin, RoundTripsResults) {
  const Neighbors result = make_neighbors(50, 7, DistanceType::f32);
  write_neighbors(file("a.ibin"), result, file("a.fbin"));
  expect_same(read_result(file("a.ibin"), file("a.fbin")), result, true);
  EXPECT_EQ(slurp(file("a.ibin")).substr(0, 16), raw(50) + raw(7) + raw(0) + raw(3));
  const Neighbors none = make_neighbors(0, 7, DistanceType::f32);
  write_neighbors(file("a.ibin"), none, file("a.fbin"));
  expect_same(read_result(file("a.ibin"), file("a.fbin")), none, true);
}

TEST_F(Bin, HoldsIdsUpTo31BitsAndF32DistancesOnly) {
  const Neighbors large = make_neighbors(3, 4, DistanceType::f32, false, INT32_MAX);
  expect_error(ErrorCode::range_error, "row 0, rank 1: id 2147483650 does not fit the 32 bits of ibin",
               [&] { write_neighbors(file("a.ibin"), large); });
  for (const DistanceType type : {DistanceType::f64, DistanceType::u32}) {
    expect_error(ErrorCode::range_error, "fbin holds float32, the distances are",
                 [&] { write_neighbors(file("a.ibin"), make_neighbors(3, 4, type), file("d.fbin")); });
  }
  EXPECT_EQ(directory_.entries(), 0u);
}

TEST_F(Bin, RefusesShapesBeyond32Bits) {
  const float value = 1;
  Points p(&value, DType::f32, std::int64_t{1} << 32, 1);
  p.row_stride = 0;
  expect_error(ErrorCode::range_error, "fbin cannot hold shape (4294967296, 1); .npy can",
               [&] { write_matrix(file("a.fbin"), p); });
  p.rows = 1;
  p.cols = std::int64_t{1} << 31;
  p.col_stride = 0;
  expect_error(ErrorCode::range_error, "fvecs cannot hold shape (1, 2147483648)",
               [&] { write_matrix(file("a.fvecs"), p); });
  EXPECT_EQ(directory_.entries(), 0u);
}

}  // namespace
}  // namespace vicinal::test
