// .npz: stored members in place, deflated ones in memory, zip64, checksums, which member is meant, our own results.
#include "files.hpp"
#include "io/zip.hpp"

namespace vicinal::test {
namespace {

const std::string floats = raw(std::vector<float>{1, 2, 3, -4, 5.5f, 0});
const std::string corpus = npy("<f4", "(2, 3)", floats);
const std::string ids = npy("<i8", "(1, 2)", raw(std::vector<std::int64_t>{7, 8}));
const std::string distances = npy("<f8", "(1, 2)", raw(std::vector<double>{0.5, 0.75}));

class Npz : public ::testing::Test {
 protected:
  Matrix read(const std::string& content, const std::string& member = "") {
    spit(path_, content);
    return read_matrix(path_, {.member = member});
  }
  void refuse(ErrorCode code, const std::string& part, const std::string& content, const std::string& member = "") {
    spit(path_, content);
    expect_error(code, part, [&] { read_matrix(path_, {.member = member}); });
  }
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("a.npz");
};

TEST_F(Npz, MapsStoredMembers) {
  for (const bool zip64 : {false, true}) {
    const Matrix m = read(zip({{"x.npy", corpus}}, zip64));
    EXPECT_TRUE(m.mapped());
    EXPECT_EQ(elements(m.points()), floats);
  }
}

TEST_F(Npz, InflatesDeflatedMembers) {
  std::string large;
  for (unsigned i = 0; i < 300000; ++i) large += static_cast<char>(i * i >> 7);
  for (const bool zip64 : {false, true}) {
    EXPECT_EQ(elements(read(zip({{"x.npy", corpus, true}}, zip64)).points()), floats);
    const Matrix m = read(zip({{"x.npy", npy("|u1", "(3000, 100)", large), true}}, zip64));
    EXPECT_FALSE(m.mapped());
    EXPECT_EQ(elements(m.points()), large);
  }
}

TEST_F(Npz, KeepsTheMappingAliveAfterTheFileIsGone) {
  const Matrix m = read(zip({{"x.npy", corpus}}));
  std::filesystem::remove(path_);
  EXPECT_EQ(elements(m.points()), floats);
}

TEST_F(Npz, TakesTheOnlyMatrixUnlessToldWhich) {
  EXPECT_EQ(elements(read(zip({{"ids.npy", ids}, {"readme.txt", "hello"}, {"x.npy", corpus}})).points()), floats);
  const std::string two =
      zip({{"corpus.npy", corpus}, {"queries.npy", npy("|u1", "(1, 2)", "ab"), true}, {"ids.npy", ids}});
  refuse(ErrorCode::format_error, "2 arrays can be rows of vectors", two);
  refuse(ErrorCode::format_error, "it holds corpus (2, 3) float32, queries (1, 2) uint8, ids (1, 2) int64", two);
  EXPECT_EQ(elements(read(two, "queries").points()), "ab");
  EXPECT_EQ(elements(read(two, "corpus.npy").points()), floats);
  refuse(ErrorCode::invalid_argument, "has no member \"base\"; it holds corpus (2, 3) float32", two, "base");
  EXPECT_EQ(read(two, "ids").points().dtype, DType::f64) << "wide integers by name";
}

TEST_F(Npz, SaysWhatIsWrongWithTheOnlyArray) {
  EXPECT_EQ(read(zip({{"x.npy", ids}})).points().dtype, DType::f64) << "and where there is nothing else";
  EXPECT_EQ(read(zip({{"x.npy", ids}, {"labels.npy", npy("|u1", "(3,)", "abc")}})).points().dtype, DType::f64);
  refuse(ErrorCode::format_error, "2 arrays can be rows of vectors",
         zip({{"x.npy", ids}, {"y.npy", npy("|b1", "(1, 2)", std::string("\0\1", 2))}}));
  refuse(ErrorCode::invalid_argument, "expected 2 dimensions", zip({{"x.npy", npy("|u1", "(3,)", "abc")}}));
  refuse(ErrorCode::format_error, "object arrays are refused", zip({{"x.npy", npy("|O", "(1, 1)", "\x80\x04.")}}));
  refuse(ErrorCode::format_error, "it holds no arrays", zip({{"readme.txt", "hello"}}));
  refuse(ErrorCode::format_error, "it holds no arrays", zip({}));
}

TEST_F(Npz, ReadsMembersWithLongHeaders) {
  const std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), " + std::string(3000, ' ') + "}";
  for (const bool deflate : {false, true})
    EXPECT_EQ(elements(read(zip({{"x.npy", npy_with_header(header, floats), deflate}})).points()), floats);
}

TEST_F(Npz, ChecksTheChecksum) {
  for (const bool deflate : {false, true}) {
    std::string file = zip({{"x.npy", npy("<f4", "(20, 3)", std::string(240, 'a')), deflate}});
    if (!deflate) file[file.find("aaaa") + 17] ^= 1;
    else file[14] ^= 1, file[file.rfind("PK\x01\x02") + 16] ^= 1;
    refuse(ErrorCode::format_error, "member x.npy: checksum differs", file);
  }
}

TEST_F(Npz, RefusesSizesThatDisagree) {
  std::string file = zip({{"x.npy", corpus, true}});
  const std::size_t entry = file.rfind("PK\x01\x02");
  std::string larger = file;
  larger.replace(entry + 24, 4, raw(static_cast<std::uint32_t>(corpus.size() + 1)));
  refuse(ErrorCode::format_error, "inflates to another size", larger);
  std::string smaller = file;
  smaller.replace(entry + 24, 4, raw(static_cast<std::uint32_t>(corpus.size() - 1)));
  refuse(ErrorCode::format_error, "inflates to another size", smaller);
  std::string bomb = file;
  bomb.replace(entry + 24, 4, raw(std::uint32_t{4000000000}));
  refuse(ErrorCode::format_error, "cannot hold 4000000000 bytes", bomb);
  std::string stored = zip({{"x.npy", corpus}});
  stored.replace(stored.rfind("PK\x01\x02") + 24, 4, raw(static_cast<std::uint32_t>(corpus.size() - 1)));
  refuse(ErrorCode::format_error, "cannot hold", stored);
}

TEST_F(Npz, RefusesWhatItCannotUnpack) {
  std::string file = zip({{"x.npy", corpus}});
  const std::size_t entry = file.rfind("PK\x01\x02");
  std::string encrypted = file;
  encrypted[entry + 8] |= 1;
  refuse(ErrorCode::format_error, "is encrypted", encrypted);
  std::string other = file;
  other[entry + 10] = 14;
  refuse(ErrorCode::unsupported, "compressed by method 14", other);
  refuse(ErrorCode::format_error, "two members are called x.npy", zip({{"x.npy", corpus}, {"x.npy", corpus}}));
  refuse(ErrorCode::format_error, "not an npz file (first bytes 93 4E 55 4D 50 59); it looks like .npy",
         "\x93NUMPY" + corpus.substr(6));
  refuse(ErrorCode::format_error, "not an npz file (the file is empty)", "");
}

TEST_F(Npz, FindsTheEndBeforeAComment) {
  std::string file = zip({{"x.npy", corpus}});
  file.replace(file.size() - 2, 2, raw(std::uint16_t{5}));
  EXPECT_EQ(elements(read(file + "hello").points()), floats);
  refuse(ErrorCode::format_error, "no end record", file + "hell");
}

TEST_F(Npz, ReadsResultsOfOtherTools) {
  const std::pair<const char*, const char*> names[] = {
      {"ids", "distances"}, {"neighbors", "distances"}, {"indices", "D"}, {"I", "D"}};
  for (const auto& [id_name, distance_name] : names) {
    for (const bool deflate : {false, true}) {
      spit(path_, zip({{std::string(distance_name) + ".npy", distances, deflate},
                       {std::string(id_name) + ".npy", ids, deflate}}));
      const ResultFile result = read_result(path_);
      EXPECT_EQ(result.ids, (std::vector<std::int64_t>{7, 8}));
      ASSERT_TRUE(result.has_distances);
      EXPECT_EQ(result.distance_type, DistanceType::f64);
    }
  }
  spit(path_, zip({{"ids.npy", ids}}));
  EXPECT_FALSE(read_result(path_).has_distances);
  spit(path_, zip({{"a.npy", ids}}));
  expect_error(ErrorCode::format_error, "no member ids (or neighbors, indices, I); it holds a (1, 2) int64",
               [&] { read_result(path_); });
  spit(path_, zip({{"ids.npy", ids}, {"distances.npy", corpus}}));
  expect_error(ErrorCode::format_error, "distances have shape (2, 3), ids (1, 2)", [&] { read_result(path_); });
}

TEST_F(Npz, RoundTripsResults) {
  for (const DistanceType type : {DistanceType::f32, DistanceType::f64, DistanceType::u32}) {
    for (const bool counted : {false, true}) {
      const Neighbors result = make_neighbors(6, 5, type, counted, std::int64_t{1} << 40);
      write_neighbors(path_, result);
      expect_same(read_result(path_), result, true);
      EXPECT_EQ(slurp(path_).find("counts.npy") != std::string::npos, counted);
    }
  }
  const Neighbors none = make_neighbors(0, 5, DistanceType::f32);
  write_neighbors(path_, none);
  expect_same(read_result(path_), none, true);
  EXPECT_EQ(directory_.entries(), 1u);
}

TEST_F(Npz, WritesCountsAsOneDimension) {
  write_neighbors(path_, make_neighbors(6, 5, DistanceType::f32, true));
  EXPECT_NE(slurp(path_).find("'shape': (6,), }"), std::string::npos);
}

TEST_F(Npz, WritesEqualBytesForEqualResults) {
  write_neighbors(path_, make_neighbors(6, 5, DistanceType::f32));
  const std::string first = slurp(path_);
  write_neighbors(path_, make_neighbors(6, 5, DistanceType::f32));
  EXPECT_EQ(slurp(path_), first);
}

TEST_F(Npz, WritesDistancesBesideAsWell) {
  const Neighbors result = make_neighbors(6, 5, DistanceType::f32);
  write_neighbors(path_, result, directory_.file("d.fbin"));
  expect_same(read_result(path_), result, true);
  expect_same(read_result(path_, directory_.file("d.fbin")), result, true);
}

TEST(ZipWriter, AlignsContentsAndUsesZip64WhenItMust) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.zip");
  const std::vector<std::string> contents = {std::string(100, 'a'), "", std::string(3, 'b'), std::string(5000, 'c')};
  for (const std::uint64_t zip64_from : {std::uint64_t{0xFFFFFFFF}, std::uint64_t{1000}, std::uint64_t{0}}) {
    io::AtomicFile out(path);
    io::ZipWriter writer(out, {{"first", 100}, {"empty", 0}, {"third.npy", 3}, {"last", 5000}}, zip64_from);
    for (const std::string& content : contents) {
      writer.start();
      writer.append(io::as_bytes(content.data(), content.size()));
    }
    writer.finish();
    io::AtomicFile* const file = &out;
    io::AtomicFile::publish({&file, 1});

    const std::string bytes = slurp(path);
    const io::Bytes all = io::as_bytes(bytes.data(), bytes.size());
    const std::vector<io::ZipEntry> entries = io::zip_entries(path, all);
    ASSERT_EQ(entries.size(), contents.size());
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const io::ZipContents read = io::zip_contents(path, entries[i]);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.bytes.data()), read.bytes.size()), contents[i]);
      EXPECT_EQ((read.bytes.data() - all.data()) % 64, 0);
    }
    EXPECT_EQ(bytes.find("PK\x06\x06") != std::string::npos, zip64_from < 5000);
  }
}

}  // namespace
}  // namespace vicinal::test
