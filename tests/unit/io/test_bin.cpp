// .fbin, .f16bin, .u8bin, .i8bin, .ibin, .u64bin: the two counts, of 32 or 64 bits, must account for every byte of the file.
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

TEST_F(Bin, ReadsNoRowsAndRefusesNoColumns) {
  spit(file("a.fbin"), raw(0) + raw(128));
  EXPECT_EQ(read_matrix(file("a.fbin")).points().cols, 128);
  refuse(ErrorCode::invalid_argument, "dimension is 0, of shape (4294967295, 0)", "a.fbin", raw(UINT32_MAX) + raw(0));
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

/// A header of 64-bit counts.
std::string long_head(std::uint64_t rows, std::uint64_t cols) { return raw(rows) + raw(cols); }

TEST_F(Bin, ReadsBothHeadersByTheLengthOfTheFile) {
  spit(file("a.u8bin"), long_head(2, 3) + "abcdef");
  const Matrix m = read_matrix(file("a.u8bin"));
  EXPECT_EQ(m.points().rows, 2);
  EXPECT_EQ(m.points().cols, 3);
  EXPECT_EQ(elements(m.points()), "abcdef");
  spit(file("a.fbin"), long_head(0, 128));
  EXPECT_EQ(read_matrix(file("a.fbin")).points().cols, 128);
  // 16 bytes would fit both: one row of eight zeros, and 2^35 + 1 rows of no columns, which are none.
  spit(file("a.u8bin"), raw(1) + raw(8) + std::string(8, '\0'));
  EXPECT_EQ(read_matrix(file("a.u8bin")).points().cols, 8);
}

TEST_F(Bin, HoldsMoreRowsThan32BitsCount) {
  const std::int64_t rows = (std::int64_t{1} << 32) + 5;
  spit(file("a.u8bin"), long_head(static_cast<std::uint64_t>(rows), 1));
  std::filesystem::resize_file(file("a.u8bin"), static_cast<std::uintmax_t>(16 + rows));  // zeros that take no room
  const Points points = read_matrix(file("a.u8bin")).points();
  EXPECT_EQ(points.rows, rows);
  EXPECT_EQ(points.cols, 1);
  Points none(nullptr, DType::f32, rows, 0);
  write_matrix(file("b.fbin"), none);
  EXPECT_EQ(slurp(file("b.fbin")), long_head(static_cast<std::uint64_t>(rows), 0));
}

TEST_F(Bin, RefusesAResultThatWasCutAfterAnIdOfZero) {
  write_neighbors(file("a.u64bin"), make_neighbors(2, 2, DistanceType::f32), "");
  const std::string cut = slurp(file("a.u64bin")).substr(0, 8) + raw(std::int64_t{0});
  spit(file("a.u64bin"), cut);
  expect_error(ErrorCode::format_error, "n=2 and d=2 of uint64 needs 40 bytes, the file has 16",
               [&] { read_result(file("a.u64bin")); });
  spit(file("a.ibin"), raw(7) + raw(0));
  expect_error(ErrorCode::invalid_argument, "dimension is 0, of shape (7, 0)", [&] { read_result(file("a.ibin")); });
}

TEST_F(Bin, RefusesWhatFitsNeitherHeaderAndNamesBoth) {
  const std::string good = long_head(2, 3) + std::string(24, 'x');
  // Cut after 8 bytes it would be two rows of no columns: every other cut is noticed.
  for (std::size_t keep = 9; keep < good.size(); ++keep)
    refuse(ErrorCode::format_error, "n=2 and d=0 of float32 needs 8 bytes", "a.fbin", good.substr(0, keep));
  for (const std::string& bad : {good.substr(0, 39), good + "x"})
    refuse(ErrorCode::format_error,
           "n=2 and d=0 of float32 needs 8 bytes, the file has " + std::to_string(bad.size()) +
               "; a header of 64-bit counts: n=2 and d=3 of float32 needs 40 bytes",
           "a.fbin", bad);
  refuse(ErrorCode::format_error,
         "a header of 64-bit counts: n=18446744073709551615 and d=1 of uint8 needs more than 2^63", "a.u8bin",
         long_head(UINT64_MAX, 1) + "x");
  refuse(ErrorCode::format_error, "n=2 and d=0 of uint8 needs 8 bytes, the file has 12", "a.u8bin", good.substr(0, 12));
}

TEST_F(Bin, ReadsHalvesUnderBothOfTheirNames) {
  spit(file("a.hbin"), raw(1) + raw(2) + "abcd");
  EXPECT_EQ(read_matrix(file("a.hbin")).points().dtype, DType::f16);
  write_matrix(file("b.hbin"), read_matrix(file("a.hbin")).points());
  EXPECT_EQ(slurp(file("b.hbin")), slurp(file("a.hbin")));
}

TEST_F(Bin, HoldsAnyIdIn64Bits) {
  const Neighbors large = make_neighbors(3, 4, DistanceType::f32, false, std::int64_t{1} << 40);
  write_neighbors(file("a.u64bin"), large, file("a.fbin"));
  EXPECT_EQ(slurp(file("a.u64bin")).size(), 8u + 3 * 4 * 8);
  expect_same(read_result(file("a.u64bin"), file("a.fbin")), large, true);
  const std::vector<std::uint64_t> missing = {7, UINT64_MAX};  // as a padded list has it
  spit(file("b.u64bin"), long_head(1, 2) + raw(missing));
  EXPECT_EQ(read_result(file("b.u64bin")).ids, (std::vector<std::int64_t>{7, -1}));
  spit(file("b.u64bin"), long_head(1, 1) + raw(std::uint64_t{1} << 63));
  expect_error(ErrorCode::range_error, "id 9223372036854775808 exceeds 2^63 - 1",
               [&] { read_result(file("b.u64bin")); });
  refuse(ErrorCode::invalid_argument, "dtype uint64 not supported", "c.u64bin",
         raw(1) + raw(1) + raw(std::uint64_t{5}));
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

TEST_F(Bin, LeavesRowsOfMoreThan31BitsToOtherFormats) {
  const float value = 1;
  Points p(&value, DType::f32, 1, std::int64_t{1} << 31);
  p.row_stride = p.col_stride = 0;
  expect_error(ErrorCode::range_error, "fvecs cannot hold shape (1, 2147483648)",
               [&] { write_matrix(file("a.fvecs"), p); });
  EXPECT_EQ(directory_.entries(), 0u);
}

}  // namespace
}  // namespace vicinal::test
