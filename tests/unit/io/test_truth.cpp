// .bin and .rangeres of the big-ann benchmarks, to the byte.
#include "files.hpp"

namespace vicinal::test {
namespace {

class Truth : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  TemporaryDirectory directory_;
};

const std::string truth_ids = raw(std::vector<std::int32_t>{5, 2, 9, 1, 0, 7});
const std::string truth_distances = raw(std::vector<float>{0.5f, 1, 2, 0, 0.25f, 8});

TEST_F(Truth, KnnIsHeaderIdsDistances) {
  spit(file("t.bin"), raw(2) + raw(3) + truth_ids + truth_distances);
  const ResultFile read = read_result(file("t.bin"));
  EXPECT_EQ(read.rows, 2);
  EXPECT_EQ(read.k, 3);
  EXPECT_EQ(read.ids, (std::vector<std::int64_t>{5, 2, 9, 1, 0, 7}));
  ASSERT_TRUE(read.has_distances);
  EXPECT_EQ(read.distance_type, DistanceType::f32);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.distances.data()), read.distances.size()), truth_distances);

  Neighbors result(2, 3, DistanceType::f32, false);
  std::copy(read.ids.begin(), read.ids.end(), result.view().ids);
  std::memcpy(result.view().distances, truth_distances.data(), truth_distances.size());
  write_neighbors(file("u.bin"), result);
  EXPECT_EQ(slurp(file("u.bin")), slurp(file("t.bin")));
}

TEST_F(Truth, KnnRoundTrips) {
  for (const std::int64_t rows : {0, 1, 50}) {
    const Neighbors result = make_neighbors(rows, 7, DistanceType::f32, true);
    write_neighbors(file("a.bin"), result);
    expect_same(read_result(file("a.bin")), result, true);
  }
}

TEST_F(Truth, KnnHoldsWhatItCan) {
  expect_error(ErrorCode::range_error,
               "row 0, rank 1: id 2147483650 does not fit the 32 bits of bin (at most 2147483647); .npy",
               [&] { write_neighbors(file("a.bin"), make_neighbors(3, 4, DistanceType::f32, false, INT32_MAX)); });
  for (const DistanceType type : {DistanceType::f64, DistanceType::u32}) {
    expect_error(ErrorCode::range_error, "bin holds float32, the distances are",
                 [&] { write_neighbors(file("a.bin"), make_neighbors(3, 4, type)); });
  }
  EXPECT_EQ(directory_.entries(), 0u);
}

TEST_F(Truth, KnnOfAnyOtherLengthIsRefused) {
  const std::string good = raw(2) + raw(3) + truth_ids + truth_distances;
  for (const std::string& bad : {good + "x", good.substr(0, good.size() - 1)}) {
    spit(file("t.bin"), bad);
    expect_error(ErrorCode::format_error, "nq=2 and k=3 of int32 and float32 needs 56 bytes, the file has",
                 [&] { read_result(file("t.bin")); });
  }
  spit(file("t.bin"), "abc");
  expect_error(ErrorCode::format_error, "not a bin file (first bytes 61 62 63)", [&] { read_result(file("t.bin")); });
  spit(file("t.bin"), raw(UINT32_MAX) + raw(UINT32_MAX));
  expect_error(ErrorCode::format_error, "more than 2^63", [&] { read_result(file("t.bin")); });
  expect_error(ErrorCode::unsupported, ".bin is not for vectors", [&] { read_matrix(file("t.bin")); });
}

CsrNeighbors range_of(DistanceType type, std::int64_t first_id = 0) {
  CsrNeighbors csr(3, 4, type);
  const std::int64_t offsets[] = {0, 3, 3, 4};
  std::copy(offsets, offsets + 4, csr.offsets());
  for (int i = 0; i < 4; ++i) {
    csr.ids()[i] = first_id + 10 * i;
    if (type == DistanceType::f32) static_cast<float*>(csr.distances())[i] = 0.1f * static_cast<float>(i);
    else if (type == DistanceType::f64) static_cast<double*>(csr.distances())[i] = 0.1 * i;
    else static_cast<std::uint32_t*>(csr.distances())[i] = static_cast<std::uint32_t>(i);
  }
  return csr;
}

void expect_same_lists(const CsrNeighbors& a, const CsrNeighbors& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.entries(), b.entries());
  ASSERT_EQ(a.type(), b.type());
  EXPECT_TRUE(std::equal(a.offsets(), a.offsets() + a.rows() + 1, b.offsets()));
  EXPECT_TRUE(std::equal(a.ids(), a.ids() + a.entries(), b.ids()));
  EXPECT_EQ(std::memcmp(a.distances(), b.distances(), static_cast<std::size_t>(a.entries()) * distance_size(a.type())),
            0);
}

TEST_F(Truth, RangeToTheByte) {
  write_range(file("r.rangeres"), range_of(DistanceType::f32));
  EXPECT_EQ(slurp(file("r.rangeres")), raw(3) + raw(4) + raw(std::vector<std::int32_t>{3, 0, 1, 0, 10, 20, 30}) +
                                           raw(std::vector<float>{0, 0.1f, 0.1f * 2, 0.1f * 3}));
  write_range(file("r.csv"), range_of(DistanceType::f32));
  EXPECT_EQ(slurp(file("r.csv")), "query,id,distance\n0,0,0\n0,10,0.1\n0,20,0.2\n2,30,0.3\n");
  write_range(file("r.tsv"), range_of(DistanceType::u32));
  EXPECT_EQ(slurp(file("r.tsv")), "query\tid\tdistance\n0\t0\t0\n0\t10\t1\n0\t20\t2\n2\t30\t3\n");
}

TEST_F(Truth, RangeRoundTrips) {
  for (const DistanceType type : {DistanceType::f32, DistanceType::f64, DistanceType::u32}) {
    const CsrNeighbors result = range_of(type, std::int64_t{1} << 40);
    write_range(file("r.npz"), result);
    expect_same_lists(read_range(file("r.npz")), result);
    if (!format_of("a.hdf5").reads_rows) continue;
    write_range(file("r.hdf5"), result);
    expect_same_lists(read_range(file("r.hdf5")), result);
  }
  write_range(file("r.rangeres"), range_of(DistanceType::f32));
  expect_same_lists(read_range(file("r.rangeres")), range_of(DistanceType::f32));
  for (const char* name : {"r.npz", "r.rangeres"}) {
    for (const CsrNeighbors& none : {CsrNeighbors(), CsrNeighbors(5, 0, DistanceType::f32)}) {
      write_range(file(name), none);
      const CsrNeighbors read = read_range(file(name));
      EXPECT_EQ(read.rows(), none.rows());
      EXPECT_EQ(read.entries(), 0);
    }
  }
}

TEST_F(Truth, RangeHoldsWhatItCan) {
  expect_error(ErrorCode::range_error, "row 0, rank 1: id 2147483657 does not fit the 32 bits of rangeres",
               [&] { write_range(file("r.rangeres"), range_of(DistanceType::f32, INT32_MAX)); });
  expect_error(ErrorCode::range_error, "rangeres holds float32, the distances are float64; .npz and .csv",
               [&] { write_range(file("r.rangeres"), range_of(DistanceType::f64)); });
  expect_error(ErrorCode::unsupported, ".ivecs is not for ranges; vicinal writes ranges to .npz, .rangeres, .csv, .tsv",
               [&] { check_writable(file("r.ivecs"), "", ResultKind::range); });
  expect_error(ErrorCode::invalid_argument, "holds the distances itself",
               [&] { check_writable(file("r.npz"), file("d.npy"), ResultKind::range); });
  EXPECT_EQ(directory_.entries(), 0u);
}

TEST_F(Truth, RangesThatLieAreRefused) {
  const auto refuse = [&](const std::string& part, const std::string& content) {
    spit(file("r.rangeres"), content);
    expect_error(ErrorCode::format_error, part, [&] { read_range(file("r.rangeres")); });
  };
  const std::string tail = raw(7) + raw(0.5f);
  refuse("the counts sum up to 2, the file claims 1", raw(1) + raw(1) + raw(2) + tail);
  refuse("query 0 has -1 results", raw(2) + raw(1) + raw(-1) + raw(2) + tail);
  refuse("nq=1 and 1 results need 20 bytes, the file has 21", raw(1) + raw(1) + raw(1) + tail + "x");
  refuse("nq=4294967295 and 4294967295 results need 51539607548 bytes, the file has 90",
         raw(UINT32_MAX) + raw(UINT32_MAX) + std::string(82, 'x'));
  refuse("entry 0 has id -7", raw(1) + raw(1) + raw(1) + raw(-7) + raw(0.5f));

  const auto with_offsets = [&](const std::vector<std::int64_t>& offsets) {
    const std::string size = "(" + std::to_string(offsets.size()) + ",)";
    spit(file("r.npz"), zip({{"offsets.npy", npy("<i8", size, raw(offsets))},
                             {"ids.npy", npy("<i8", "(2,)", std::string(16, '\0'))},
                             {"distances.npy", npy("<f4", "(2,)", std::string(8, '\0'))}}));
    return [&] { read_range(file("r.npz")); };
  };
  EXPECT_FALSE(error_of(with_offsets({0, 1, 2})));
  for (const auto& bad : std::vector<std::vector<std::int64_t>>{{}, {0}, {1, 2}, {0, 1}, {0, 3}})
    expect_error(ErrorCode::format_error, "do not suit 2 ids and 2 distances", with_offsets(bad));
  expect_error(ErrorCode::format_error, "offset 2 is -5, less than the one before it, 0", with_offsets({0, 0, -5, 2}));
  spit(file("r.npz"), zip({{"ids.npy", npy("<i8", "(2,)", std::string(16, '\0'))}}));
  expect_error(ErrorCode::format_error, "no member offsets: not a range result; it holds ids (2,) int64",
               [&] { read_range(file("r.npz")); });
}

}  // namespace
}  // namespace vicinal::test
