// IDX as MNIST comes: big-endian sizes and items, images flattened to rows.
#include "files.hpp"

namespace vicinal::test {
namespace {

class Idx : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  static std::string idx(int type, const std::vector<std::uint32_t>& sizes, const std::string& data) {
    std::string head = {0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
    for (const std::uint32_t size : sizes) head += reversed_items(raw(size), 4);
    return head + data;
  }
  void refuse(ErrorCode code, const std::string& part, const std::string& content) {
    spit(file("a.idx"), content);
    expect_error(code, part, [&] { read_matrix(file("a.idx")); });
  }
  TemporaryDirectory directory_;
};

TEST_F(Idx, ImagesAreRows) {
  for (const char* name : {"train-images-idx3-ubyte", "t10k.idx3-ubyte", "a.idx"}) {
    spit(file(name), idx(0x08, {2, 2, 3}, "abcdefghijkl"));
    const Matrix m = read_matrix(file(name));
    EXPECT_TRUE(m.mapped());
    EXPECT_EQ(m.points().dtype, DType::u8);
    EXPECT_EQ(m.points().rows, 2);
    EXPECT_EQ(m.points().cols, 6);
    EXPECT_EQ(elements(m.points()), "abcdefghijkl");
  }
}

TEST_F(Idx, EveryTypeInItsByteOrder) {
  const std::string floats = raw(std::vector<float>{1.5f, -2, 0, 3e38f}), doubles = raw(std::vector<double>{0.1, -7});
  spit(file("a.idx"), idx(0x0D, {2, 2}, reversed_items(floats, 4)));
  EXPECT_EQ(elements(read_matrix(file("a.idx")).points()), floats);
  spit(file("a.idx"), idx(0x0E, {2, 1}, reversed_items(doubles, 8)));
  EXPECT_EQ(elements(read_matrix(file("a.idx")).points()), doubles);
  spit(file("a.idx"), idx(0x09, {2, 1}, "\xff\x01"));
  EXPECT_EQ(read_matrix(file("a.idx")).points().dtype, DType::i8);
  spit(file("a.idx"), idx(0x0B, {2, 1}, std::string("\x01\x02\xff\xfe", 4)));
  EXPECT_EQ(elements(read_matrix(file("a.idx")).points()), raw(std::vector<float>{258, -2})) << "integers as floats";
  spit(file("a.idx"), idx(0x0C, {1, 1}, std::string("\x01\x02\x03\x04", 4)));
  EXPECT_EQ(elements(read_matrix(file("a.idx")).points()), raw(std::vector<double>{16909060}));
}

TEST_F(Idx, RefusesEverythingElse) {
  refuse(ErrorCode::invalid_argument, "expected 2 dimensions or more, got 1 with 3 items: labels?",
         idx(0x08, {3}, "abc"));
  refuse(ErrorCode::format_error, "2 x 2 x 3 of uint8 needs 12 bytes at 16, the file has 27 in all",
         idx(0x08, {2, 2, 3}, "abcdefghijk"));
  refuse(ErrorCode::format_error, "4294967295 x 4294967295 x 4294967295 of float64 needs more than 2^63 bytes",
         idx(0x0E, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, ""));
  refuse(ErrorCode::format_error, "255 dimensions need a header of 1024 bytes, the file has 90",
         std::string("\0\0\x08\xff", 4).append(86, 'x'));
  refuse(ErrorCode::format_error, "not an idx file (first bytes 00 00 0A 02", idx(0x0A, {1, 1}, "a"));
  refuse(ErrorCode::format_error, "not an idx file (first bytes 01 00 08 02", "\1" + idx(0x08, {1, 1}, "a").substr(1));
  refuse(ErrorCode::format_error, "not an idx file (first bytes 1F 8B", "\x1f\x8b\x08\x08 gzip");
  refuse(ErrorCode::format_error, "the file is empty", "");
  EXPECT_EQ(directory_.entries(), 1u);
}

}  // namespace
}  // namespace vicinal::test
