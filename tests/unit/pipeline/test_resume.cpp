// A search in small pieces: the bits of one call whatever is cut where, whenever it was stopped, whatever was damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "pipeline/resume.hpp"
#include "vicinal/error.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("vicinal-resume-" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  std::size_t pieces() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(path)) count += entry.path().extension() == ".vicinal-piece";
    return count;
  }
};

struct Data {
  std::int64_t rows = 1500, asked = 37, cols = 9;
  std::vector<float> corpus, queries;
  Data() : corpus(static_cast<std::size_t>(rows * cols)), queries(static_cast<std::size_t>(asked * cols)) {
    std::mt19937 random(11);
    std::uniform_int_distribution<int> few(0, 5);  // many ties
    for (float& x : corpus) x = static_cast<float>(few(random));
    for (float& x : queries) x = static_cast<float>(few(random));
  }
  Points c() const { return MatrixView<float>{corpus.data(), rows, cols}; }
  Points q() const { return MatrixView<float>{queries.data(), asked, cols}; }
};

void expect_same(const Neighbors& a, const Neighbors& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.k(), b.k());
  const auto entries = static_cast<std::size_t>(a.rows() * a.k());
  EXPECT_EQ(std::memcmp(a.ids(), b.ids(), entries * 8), 0);
  EXPECT_EQ(std::memcmp(a.distances(), b.distances(), entries * distance_size(a.type())), 0);
  ASSERT_EQ(a.counts() == nullptr, b.counts() == nullptr);
  for (std::int64_t i = 0; a.counts() != nullptr && i < a.rows(); ++i) EXPECT_EQ(a.counts()[i], b.counts()[i]);
}

constexpr Grid grids[] = {{37, 1500}, {7, 256}, {16, 64}, {1, 832}, {64, 4096}};

TEST(Resume, PiecesOfAnySizeGiveTheBitsOfOneCall) {
  const Data data;
  std::vector<std::int64_t> row_labels(1500), query_labels(37), listed;
  for (std::int64_t i = 0; i < 1500; ++i) row_labels[static_cast<std::size_t>(i)] = i % 4;
  for (std::int64_t i = 0; i < 37; ++i) query_labels[static_cast<std::size_t>(i)] = i % 4;
  for (std::int64_t i = 100; i < 1600; i += 3) listed.push_back(i);
  std::vector<std::uint64_t> bits(24, 0xF0F0F0F0F0F0F0F0u);
  KnnOptions filtered{.k = 12, .first_id = 100};
  filtered.eligible = {.first = 150, .last = 1550, .ids = listed, .bitmap = bits, .labels = Eligible::Labels::other,
                       .corpus_labels = row_labels, .query_labels = query_labels};
  const KnnOptions all[] = {{.k = 10}, {.k = 1, .metric = Metric::cosine, .degenerate = Degenerate::one}, {.k = 1700, .metric = Metric::l1, .pad = true},
                            {.k = 20, .metric = Metric::inner_product, .distance_type = DistanceType::f64}, filtered};
  for (const KnnOptions& options : all) {
    const Neighbors whole = knn(data.c(), data.q(), options);
    for (const Grid& grid : grids) {
      const Folder folder;
      const Neighbors pieces = knn_in_pieces(data.c(), data.q(), options, folder.path.string(), grid);
      expect_same(pieces, whole);
      EXPECT_TRUE(pieces.certificate.all());
    }
  }
}

TEST(Resume, GoesOnWhereItWasStopped) {
  const Data data;
  const Neighbors whole = knn(data.c(), data.q(), {.k = 10});
  const Folder folder;
  int stops = 0;
  for (int after = 1;; ++after) {  // cancelled ever later, and started again from what is there
    int polls = 0;
    KnnOptions options{.k = 10, .run = {.threads = 1}};
    options.progress = [&](std::uint64_t, std::uint64_t) { return ++polls < after * 3; };
    try {
      expect_same(knn_in_pieces(data.c(), data.q(), options, folder.path.string(), {7, 256}), whole);
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::cancelled);
      ++stops;
    }
  }
  EXPECT_GT(stops, 3);
  const Neighbors again = knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string(), {7, 256});
  expect_same(again, whole);
  EXPECT_EQ(again.stats.candidates, 0) << "everything was there";
  discard_pieces(folder.path.string());
  EXPECT_FALSE(fs::exists(folder.path));
}

TEST(Resume, DamagedPiecesAreDoneAgain) {
  const Data data;
  const Neighbors whole = knn(data.c(), data.q(), {.k = 10});
  const Folder folder;
  const auto run = [&] { return knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string(), {16, 512}); };
  run();
  ASSERT_EQ(folder.pieces(), 3u);
  const fs::path piece = folder.path / "block-000001.vicinal-piece";
  const auto size = fs::file_size(piece);
  for (const std::uintmax_t keep : {std::uintmax_t{0}, std::uintmax_t{5}, std::uintmax_t{60}, size / 2, size - 1}) {
    fs::resize_file(piece, keep);
    expect_same(run(), whole);
    EXPECT_EQ(fs::file_size(piece), size);
  }
  for (std::uintmax_t at = 32; at < size; at += 97) {  // what comes before is the key: another search's
    std::fstream file(piece, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.close();
    expect_same(run(), whole);
  }
}

TEST(Resume, AnotherSearchIsNotMixedIn) {
  const Data data;
  const Folder folder;
  const std::string path = folder.path.string();
  knn_in_pieces(data.c(), data.q(), {.k = 10}, path, {16, 512});
  const auto expect_refused = [&](const Points& corpus, const Points& queries, const KnnOptions& options, const Grid& grid) {
    try {
      knn_in_pieces(corpus, queries, options, path, grid);
      FAIL() << "took another search's pieces";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("another search"), std::string::npos) << error.what();
    }
  };
  expect_refused(data.c(), data.q(), {.k = 11}, {16, 512});
  expect_refused(data.c(), data.q(), {.k = 10, .metric = Metric::sqeuclidean}, {16, 512});
  expect_refused(data.c(), data.q(), {.k = 10, .first_id = 1}, {16, 512});
  expect_refused(data.c(), data.q(), {.k = 10}, {16, 256});
  Data other;
  other.corpus[1499 * 9 + 8] += 1;
  expect_refused(other.c(), data.q(), {.k = 10}, {16, 512});
  Data asked;
  asked.queries[0] += 1;
  expect_refused(data.c(), asked.q(), {.k = 10}, {16, 512});
}

TEST(Resume, NamesBadRowsAsOneCallDoes) {
  Data data;
  data.corpus[1300 * 9 + 2] = std::numeric_limits<float>::quiet_NaN();
  const Folder folder;
  const auto message = [&](const auto& search) -> std::string {
    try {
      search();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string(), {7, 256}); }),
            message([&] { knn(data.c(), data.q(), {.k = 10}); }));
  std::ofstream(folder.path.string() + "-file").put('x');
  EXPECT_THROW(knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string() + "-file", {7, 256}), Error);
  fs::remove(folder.path.string() + "-file");
}

}  // namespace
}  // namespace vicinal
