// HDF5 where it is built in (files of h5py are read in tests/cli/test_formats.py), and what is said where it is not.
#include "files.hpp"

namespace vicinal::test {
namespace {

class Hdf5 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!format_of("a.hdf5").reads_rows) GTEST_SKIP() << "built without HDF5";
  }
  std::string file(const std::string& name) { return directory_.file(name); }
  TemporaryDirectory directory_;
};

TEST(Hdf5Absent, SaysSo) {
  if (format_of("a.hdf5").reads_rows) GTEST_SKIP() << "built with HDF5";
  expect_error(ErrorCode::unsupported, "a.h5: built without HDF5", [] { read_matrix("a.h5"); });
  expect_error(ErrorCode::unsupported, "a.hdf5: built without HDF5", [] { check_writable("a.hdf5"); });
}

TEST_F(Hdf5, ResultsRoundTrip) {
  for (const DistanceType type : {DistanceType::f32, DistanceType::f64, DistanceType::u32}) {
    for (const std::int64_t rows : {0, 1, 300}) {
      const Neighbors result = make_neighbors(rows, 7, type, true, std::int64_t{1} << 60);
      write_neighbors(file("a.hdf5"), result);
      expect_same(read_result(file("a.hdf5")), result, true);
    }
  }
  EXPECT_EQ(directory_.entries(), 1u) << "no temporaries";
}

TEST_F(Hdf5, EqualResultsMakeEqualFiles) {
  const Neighbors result = make_neighbors(20, 5, DistanceType::f32);
  write_neighbors(file("a.h5"), result);
  write_neighbors(file("b.h5"), result);
  EXPECT_EQ(slurp(file("a.h5")), slurp(file("b.h5")));
}

TEST_F(Hdf5, ReadsInPlaceByName) {
  const Neighbors result = make_neighbors(20, 5, DistanceType::f32);
  write_neighbors(file("a.h5"), result);
  for (const char* member : {"", "distances", "/distances"}) {
    const Matrix m = read_matrix(file("a.h5"), {member});
    EXPECT_TRUE(m.mapped());
    EXPECT_EQ(m.points().dtype, DType::f32);
    EXPECT_EQ(elements(m.points()), std::string(static_cast<const char*>(result.distances()), 400));
  }
  expect_error(ErrorCode::invalid_argument,
               "has no dataset \"train\"; it holds distances (20, 5) float32, neighbors (20, 5) int64",
               [&] { read_matrix(file("a.h5"), {"train"}); });
  EXPECT_EQ(read_matrix(file("a.h5"), {"neighbors"}).points().dtype, DType::f64);
}

TEST_F(Hdf5, DamageIsAnError) {
  write_neighbors(file("a.h5"), make_neighbors(20, 5, DistanceType::f32));
  const std::string good = slurp(file("a.h5"));
  for (std::size_t size = 0; size < good.size(); size += 61) {
    spit(file("b.h5"), good.substr(0, size));
    const auto error = error_of([&] { read_result(file("b.h5")); });
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->code(), ErrorCode::format_error) << error->what();
  }
  spit(file("c.h5"), "0123456789");
  expect_error(ErrorCode::format_error, "not an HDF5 file (first bytes 30 31 32", [&] { read_matrix(file("c.h5")); });
}

}  // namespace
}  // namespace vicinal::test
