// .npy: versions, types, orders and endianness read in place; headers as other programs write them; refusals.
#include <limits>

#include "files.hpp"

namespace vicinal::test {
namespace {

// What NumPy 2 writes for np.array([[1, 2, 3], [-4, 5.5, 0]], dtype='f4').
const std::string numpy_file =
    std::string("\x93NUMPY\x01\x00\x76\x00", 10) + "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" +
    std::string(58, ' ') + "\n" +
    std::string("\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\xc0\x00\x00\xb0\x40\x00\x00\x00\x00", 24);

class Npy : public ::testing::Test {
 protected:
  Matrix read(const std::string& content) {
    spit(path_, content);
    return read_matrix(path_);
  }
  void refuse(ErrorCode code, const std::string& part, const std::string& content) {
    spit(path_, content);
    expect_error(code, part, [&] { read_matrix(path_); });
  }
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("a.npy");
  const std::string floats_ = raw(std::vector<float>{1, 2, 3, -4, 5.5f, 0});
};

TEST_F(Npy, ReadsWhatNumpyWrote) {
  ASSERT_EQ(numpy_file.size(), 152u);
  const Matrix m = read(numpy_file);
  EXPECT_EQ(m.points().rows, 2);
  EXPECT_EQ(m.points().cols, 3);
  EXPECT_EQ(m.points().dtype, DType::f32);
  EXPECT_TRUE(m.points().plain_rows());
  EXPECT_TRUE(m.mapped());
  EXPECT_EQ(m.path(), path_);
  EXPECT_EQ(elements(m.points()), floats_);
}

TEST_F(Npy, WritesWhatNumpyWrites) {
  const float values[] = {1, 2, 3, -4, 5.5f, 0};
  write_matrix(path_, MatrixView<float>{values, 2, 3});
  EXPECT_EQ(slurp(path_), numpy_file);
}

TEST_F(Npy, ReadsEveryVersion) {
  for (const int version : {1, 2, 3})
    EXPECT_EQ(elements(read(npy("<f4", "(2, 3)", floats_, false, version)).points()), floats_);
}

TEST_F(Npy, ReadsEveryTypeInBothByteOrders) {
  const struct {
    const char* code;
    DType type;
  } types[] = {{"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64}, {"u1", DType::u8}, {"i1", DType::i8}};
  for (const auto& [code, type] : types) {
    const std::size_t size = dtype_size(type);
    std::string data;
    for (std::size_t i = 0; i < 6 * size; ++i) data += static_cast<char>(i * 37 + 1);
    for (const std::string order : {"<", ">", "=", "|"}) {
      const bool big = order == ">";
      const Matrix m = read(npy(order + code, "(3, 2)", big ? reversed_items(data, size) : data));
      EXPECT_EQ(m.points().dtype, type);
      EXPECT_EQ(m.points().byte_swapped, big && size > 1);
      EXPECT_EQ(elements(m.points()), data) << order << code;
    }
  }
}

TEST_F(Npy, ReadsFortranOrderInPlace) {
  const std::string by_columns = raw(std::vector<float>{1, -4, 2, 5.5f, 3, 0});
  const Matrix m = read(npy("<f4", "(2, 3)", by_columns, true));
  EXPECT_TRUE(m.mapped());
  EXPECT_EQ(m.points().row_stride, 4);
  EXPECT_EQ(m.points().col_stride, 8);
  EXPECT_EQ(elements(m.points()), floats_);
  const Matrix swapped = read(npy(">f4", "(2, 3)", reversed_items(by_columns, 4), true));
  EXPECT_EQ(elements(swapped.points()), floats_);
}

TEST_F(Npy, ReadsHeadersOfOtherPrograms) {
  const std::string headers[] = {
      "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",          // another order, no comma at the end
      "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}",  // other quotes
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",      // Python 2
      "{ 'descr' : '<f4',\n'fortran_order':False,'shape':( 2 ,3, ) , }",    // other spaces
  };
  for (const std::string& header : headers)
    EXPECT_EQ(elements(read(npy_with_header(header, floats_)).points()), floats_) << header;
}

TEST_F(Npy, ReadsDataAtAnyAlignment) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  const Matrix m =
      read(std::string("\x93NUMPY\x01\x00", 8) + raw(static_cast<std::uint16_t>(header.size())) + header + floats_);
  EXPECT_FALSE(m.points().plain_rows());
  EXPECT_EQ(elements(m.points()), floats_);
}

TEST_F(Npy, ReadsNoRowsAndRefusesNoColumns) {
  EXPECT_EQ(read(npy("<f4", "(0, 5)", "")).points().cols, 5);
  refuse(ErrorCode::invalid_argument, "dimension is 0, of shape (5, 0)", npy("<f4", "(5, 0)", ""));
  refuse(ErrorCode::invalid_argument, "dimension is 0", npy("<f4", "(0, 0)", "", true));
}

TEST_F(Npy, RefusesOtherDimensions) {
  refuse(ErrorCode::invalid_argument, "expected 2 dimensions (rows, d), got 1 with shape (64,)",
         npy("|u1", "(64,)", std::string(64, 'x')));
  refuse(ErrorCode::invalid_argument, "expected 2 dimensions (rows, d), got 3 with shape (2, 2, 2)",
         npy("|u1", "(2, 2, 2)", std::string(8, 'x')));
  refuse(ErrorCode::invalid_argument, "got 0 with shape ()", npy("|u1", "()", "x"));
}

TEST_F(Npy, RefusesTypesThatAreNoVectors) {
  const std::pair<const char*, const char*> types[] = {
      {"<c8", "complex64"}, {"<c16", "complex128"}, {"<f16", "float128"},     {"|S5", "bytes (S5)"},
      {"<U3", "str (U3)"},  {"|V2", "void (V2)"},   {"<M8[ns]", "datetime64"}};
  for (const auto& [descr, name] : types) {
    refuse(ErrorCode::invalid_argument, std::string("dtype ") + name + " not supported; convert with astype",
           npy(descr, "(1, 1)", std::string(16, '\0')));
  }
  refuse(ErrorCode::invalid_argument, "dtype structured not supported",
         npy_with_header("{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (3,), }",
                         std::string(24, '\0')));
}

/// Integers of 16 to 64 bits become floats by their type, in either byte order and layout; bool is 0 and 1.
template <class T>
std::vector<double> values_as_doubles(const Points& p) {
  std::vector<double> values;
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t col = 0; col < p.cols; ++col) {
      T value;
      std::memcpy(&value, static_cast<const char*>(p.data) + row * p.row_stride + col * p.col_stride, sizeof value);
      values.push_back(static_cast<double>(value));
    }
  return values;
}

TEST_F(Npy, ReadsIntegersAsFloats) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.npy");
  const auto check = [&]<class T>(T, const char* letter, DType type) {
    using Limits = std::numeric_limits<T>;
    const T largest = sizeof(T) == 8 ? static_cast<T>(std::int64_t{1} << 53) : Limits::max();
    const T smallest = sizeof(T) == 8 && Limits::is_signed ? static_cast<T>(-(std::int64_t{1} << 53)) : Limits::min();
    const std::vector<T> stored = {0, 1, largest, smallest, 7, static_cast<T>(largest - 1)};
    std::vector<double> want;
    for (const T value : stored) want.push_back(static_cast<double>(value));
    for (const bool big : {false, true}) {
      const std::string data = big ? reversed_items(raw(stored), sizeof(T)) : raw(stored);
      const std::string descr = (big ? ">" : "<") + std::string(letter) + std::to_string(sizeof(T));
      spit(path, npy(descr, "(2, 3)", data));
      const Matrix m = read_matrix(path);
      EXPECT_TRUE(m.converted());
      EXPECT_FALSE(m.mapped());
      ASSERT_EQ(m.points().dtype, type) << descr;
      EXPECT_EQ(type == DType::f32 ? values_as_doubles<float>(m.points()) : values_as_doubles<double>(m.points()), want)
          << descr;
    }
  };
  check(std::int16_t{}, "i", DType::f32);
  check(std::uint16_t{}, "u", DType::f32);
  check(std::int32_t{}, "i", DType::f64);
  check(std::uint32_t{}, "u", DType::f64);
  check(std::int64_t{}, "i", DType::f64);
  check(std::uint64_t{}, "u", DType::f64);
  const std::vector<std::int64_t> wide = {1, 2, 3, (std::int64_t{1} << 53) + 1};
  refuse(ErrorCode::invalid_value, "row 1, column 1 is 9007199254740993", npy("<i8", "(2, 2)", raw(wide)));
  spit(path, npy("|b1", "(2, 2)", std::string("\0\1\1\0", 4)));
  const Matrix m = read_matrix(path);
  EXPECT_EQ(m.points().dtype, DType::u8);
  EXPECT_TRUE(m.mapped());
  EXPECT_EQ(elements(m.points()), std::string("\0\1\1\0", 4));
}

TEST_F(Npy, RefusesObjects) {
  refuse(ErrorCode::format_error, "object arrays are refused",
         npy("|O", "(2, 2)",
             "\x80\x04"
             "cos\nsystem\n"));
}

TEST_F(Npy, RefusesSizesThatTheFileDoesNotHave) {
  refuse(ErrorCode::format_error, "needs 24 bytes at 128, the file has 151 in all: truncated?",
         npy("<f4", "(2, 3)", floats_.substr(1)));
  refuse(ErrorCode::format_error, "more than one array?", npy("<f4", "(2, 3)", floats_ + "x"));
  refuse(ErrorCode::format_error, "needs 4611686018427387904 bytes", npy("<f4", "(1152921504606846976, 1)", floats_));
  refuse(ErrorCode::format_error, "does not fit a file of", npy("<f4", "(1152921504606846976, 64)", floats_));
  refuse(ErrorCode::format_error, "does not fit a file of", npy("<f4", "(4611686018427387904, 0)", ""));
  refuse(ErrorCode::format_error, "does not fit a file of", npy("<f4", "(0, 4611686018427387904)", "", true));
  refuse(ErrorCode::format_error, "no size of an array", npy("<f4", "(9223372036854775808, 1)", floats_));
  refuse(ErrorCode::format_error, "no size of an array", npy("<f4", "(99999999999999999999, 1)", floats_));
  refuse(ErrorCode::format_error, "no size of an array", npy("<f4", "(-1, 3)", floats_));
}

TEST_F(Npy, RefusesDamagedHeaders) {
  const std::string headers[] = {
      "",
      "{}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
      "{'descr': 'f4', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<q8', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4x', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4",
      "__import__('os').system('id')",
  };
  for (const std::string& header : headers)
    refuse(ErrorCode::format_error, "npy header: ", npy_with_header(header, floats_));
}

TEST_F(Npy, RefusesLongHeadersBeforeReadingThem) {
  const std::string header(70000, ' ');
  refuse(ErrorCode::format_error, "npy header of 70000 bytes, the limit is 65536",
         std::string("\x93NUMPY\x02\x00", 8) + raw(std::uint32_t{70000}) + header);
  refuse(ErrorCode::format_error, "the limit is 65536",
         std::string("\x93NUMPY\x02\x00", 8) + raw(std::uint32_t{0xFFFFFFFF}) + "{");
}

TEST_F(Npy, RefusesOtherFilesAndVersions) {
  refuse(ErrorCode::format_error, "not an npy array (the file is empty)", "");
  refuse(ErrorCode::format_error, "not an npy array (first bytes 68 65 6C 6C 6F)", "hello");
  refuse(ErrorCode::version_error, "npy version 4.0, this build reads 1.0, 2.0 and 3.0",
         npy("<f4", "(2, 3)", floats_, false, 4));
  refuse(ErrorCode::format_error, "npy version 0.0", npy("<f4", "(2, 3)", floats_, false, 0));
}

TEST_F(Npy, SaysWhatAMisnamedFileLooksLike) {
  refuse(ErrorCode::format_error, "it looks like .npz", zip({{"a.npy", numpy_file}}));
  refuse(ErrorCode::format_error, "it looks like .fvecs", raw(3) + floats_.substr(0, 12) + raw(3) + floats_.substr(12));
}

TEST_F(Npy, RefusesAMemberName) {
  spit(path_, numpy_file);
  expect_error(ErrorCode::invalid_argument, "only npz and hdf5 files have members",
               [&] { read_matrix(path_, {.member = "x"}); });
}

TEST_F(Npy, ReadsIdsOfEveryIntegerType) {
  const std::vector<std::int64_t> ids = {0, 1, 100, 127};
  const auto check = [&](const std::string& descr, const std::string& data, bool fortran = false) {
    spit(path_, npy(descr, "(2, 2)", data, fortran));
    const ResultFile result = read_result(path_);
    EXPECT_EQ(result.rows, 2);
    EXPECT_EQ(result.k, 2);
    EXPECT_EQ(result.ids, ids) << descr;
    EXPECT_FALSE(result.has_distances);
  };
  check("|i1", raw(std::vector<std::int8_t>{0, 1, 100, 127}));
  check("|u1", raw(std::vector<std::uint8_t>{0, 1, 100, 127}));
  check("<i2", raw(std::vector<std::int16_t>{0, 1, 100, 127}));
  check("<u2", raw(std::vector<std::uint16_t>{0, 1, 100, 127}));
  check("<i4", raw(std::vector<std::int32_t>{0, 1, 100, 127}));
  check("<u4", raw(std::vector<std::uint32_t>{0, 1, 100, 127}));
  check("<i8", raw(ids));
  check("<u8", raw(std::vector<std::uint64_t>{0, 1, 100, 127}));
  check(">i8", reversed_items(raw(ids), 8));
  check("<i4", raw(std::vector<std::int32_t>{0, 100, 1, 127}), true);
}

TEST_F(Npy, KeepsTheSignAndTheWidthOfIds) {
  spit(path_, npy("|i1", "(1, 1)", "\xff"));
  EXPECT_EQ(read_result(path_).ids[0], -1);
  spit(path_, npy("|u1", "(1, 1)", "\xff"));
  EXPECT_EQ(read_result(path_).ids[0], 255);
  spit(path_, npy("<u8", "(1, 1)", raw(std::uint64_t{INT64_MAX})));
  EXPECT_EQ(read_result(path_).ids[0], INT64_MAX);
  spit(path_, npy("<u8", "(2, 1)", raw(std::vector<std::uint64_t>{7, std::uint64_t{1} << 63})));
  expect_error(ErrorCode::range_error, "row 1, rank 0: id 9223372036854775808 exceeds 2^63 - 1",
               [&] { read_result(path_); });
}

TEST_F(Npy, RefusesIdsThatAreNoIntegers) {
  spit(path_, numpy_file);
  expect_error(ErrorCode::invalid_argument, "ids must be integers, got float32", [&] { read_result(path_); });
  spit(path_, npy("<i8", "(2,)", std::string(16, '\0')));
  expect_error(ErrorCode::invalid_argument, "expected 2 dimensions (rows, k), got 1 with shape (2,)",
               [&] { read_result(path_); });
}

TEST_F(Npy, ReadsDistancesFromASecondFile) {
  spit(path_, npy("<i8", "(2, 3)", std::string(48, '\0')));
  const std::string other = directory_.file("d.npy");
  spit(other, npy(">f4", "(2, 3)", reversed_items(floats_, 4)));
  ResultFile result = read_result(path_, other);
  EXPECT_TRUE(result.has_distances);
  EXPECT_EQ(result.distance_type, DistanceType::f32);
  EXPECT_EQ(std::memcmp(result.distances.data(), floats_.data(), floats_.size()), 0);

  spit(other, npy("<f8", "(2, 3)", std::string(48, '\1')));
  EXPECT_EQ(read_result(path_, other).distance_type, DistanceType::f64);
  spit(other, npy("<u4", "(2, 3)", std::string(24, '\1')));
  EXPECT_EQ(read_result(path_, other).distance_type, DistanceType::u32);
  spit(other, npy("<f2", "(2, 3)", std::string(12, '\1')));
  expect_error(ErrorCode::invalid_argument, "distances must be float32, float64 or uint32, got float16",
               [&] { read_result(path_, other); });
  spit(other, npy("<f4", "(3, 2)", floats_));
  expect_error(ErrorCode::invalid_argument, "distances have shape (3, 2), ids (2, 3)",
               [&] { read_result(path_, other); });
}

TEST_F(Npy, WritesMatricesOfAnyStrideAndOrder) {
  const float by_columns[] = {1, -4, 2, 5.5f, 3, 0};
  Points p(by_columns, DType::f32, 2, 3);
  p.row_stride = 4;
  p.col_stride = 8;
  write_matrix(path_, p);
  EXPECT_EQ(slurp(path_), numpy_file);

  const std::string big = reversed_items(floats_, 4);
  p = Points(big.data(), DType::f32, 2, 3);
  p.byte_swapped = true;
  write_matrix(path_, p);
  EXPECT_EQ(slurp(path_), numpy_file);

  const std::vector<float> backwards = {-4, 5.5f, 0, 99, 1, 2, 3};
  p = Points(backwards.data() + 4, DType::f32, 2, 3);
  p.row_stride = -16;
  write_matrix(path_, p);
  EXPECT_EQ(slurp(path_), numpy_file);

  p = Points(nullptr, DType::f32, 0, 3);
  write_matrix(path_, p);
  EXPECT_EQ(read_matrix(path_).points().cols, 3);
}

TEST_F(Npy, RoundTripsEveryType) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::u8, DType::i8}) {
    std::string data;
    for (std::size_t i = 0; i < 11 * 70000 * dtype_size(type) / 16; ++i) data += static_cast<char>(i * 131 + i / 251);
    const auto cols = static_cast<std::int64_t>(data.size() / dtype_size(type) / 11);
    const Points p(data.data(), type, 11, cols);
    write_matrix(path_, p);
    const Matrix m = read_matrix(path_);
    EXPECT_EQ(m.points().dtype, type);
    EXPECT_EQ(elements(m.points()), elements(p));
  }
  const std::uint16_t bits = 0x3f80;
  expect_error(ErrorCode::invalid_argument, "npy holds no bfloat16",
               [&] { write_matrix(path_, Points(&bits, DType::bf16, 1, 1)); });
}

TEST_F(Npy, RoundTripsResults) {
  const std::string distances = directory_.file("d.npy");
  for (const DistanceType type : {DistanceType::f32, DistanceType::f64, DistanceType::u32}) {
    const Neighbors result = make_neighbors(5, 4, type, false, std::int64_t{1} << 40);
    write_neighbors(path_, result, distances);
    expect_same(read_result(path_, distances), result, true);
    expect_same(read_result(path_), result, false);
  }
  const Neighbors none = make_neighbors(0, 4, DistanceType::f32);
  write_neighbors(path_, none, distances);
  expect_same(read_result(path_, distances), none, true);
  EXPECT_EQ(directory_.entries(), 2u);
}

}  // namespace
}  // namespace vicinal::test
