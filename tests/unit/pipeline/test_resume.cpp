// A search in small pieces: the bits of one call whatever is cut where, whenever it was stopped, whatever was damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
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

void expect_same(const CsrNeighbors& a, const CsrNeighbors& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(std::memcmp(a.offsets(), b.offsets(), static_cast<std::size_t>(a.rows() + 1) * 8), 0);
  const auto entries = static_cast<std::size_t>(a.entries());
  EXPECT_EQ(std::memcmp(a.ids(), b.ids(), entries * 8), 0);
  EXPECT_EQ(std::memcmp(a.distances(), b.distances(), entries * distance_size(a.type())), 0);
}

void expect_same(const Neighbors& a, const Neighbors& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.k(), b.k());
  const auto entries = static_cast<std::size_t>(a.rows() * a.k());
  EXPECT_EQ(std::memcmp(a.ids(), b.ids(), entries * 8), 0);
  EXPECT_EQ(std::memcmp(a.distances(), b.distances(), entries * distance_size(a.type())), 0);
  ASSERT_EQ(a.counts() == nullptr, b.counts() == nullptr);
  for (std::int64_t i = 0; a.counts() != nullptr && i < a.rows(); ++i) EXPECT_EQ(a.counts()[i], b.counts()[i]);
}

/// Pieces of `part` rows, whatever the clock says.
Grid grid_of(std::int64_t block, std::int64_t part) {
  return {block, part, part, [] { return 0.0; }};
}
const Grid grids[] = {grid_of(37, 1500), grid_of(7, 256), grid_of(16, 64), grid_of(1, 832), grid_of(64, 4096)};

TEST(Resume, PiecesOfAnySizeGiveTheBitsOfOneCall) {
  const Data data;
  std::vector<std::int64_t> row_labels(1500), query_labels(37), listed;
  for (std::int64_t i = 0; i < 1500; ++i) row_labels[static_cast<std::size_t>(i)] = i % 4;
  for (std::int64_t i = 0; i < 37; ++i) query_labels[static_cast<std::size_t>(i)] = i % 4;
  for (std::int64_t i = 100; i < 1600; i += 3) listed.push_back(i);
  std::vector<std::uint64_t> bits(24, 0xF0F0F0F0F0F0F0F0u);
  KnnOptions filtered{.k = 12, .first_id = 100};
  filtered.eligible = {.first = 150,
                       .last = 1550,
                       .ids = listed,
                       .bitmap = bits,
                       .labels = Eligible::Labels::other,
                       .corpus_labels = row_labels,
                       .query_labels = query_labels};
  const KnnOptions all[] = {{.k = 10},
                            {.k = 1, .metric = Metric::cosine, .degenerate = Degenerate::one},
                            {.k = 1700, .metric = Metric::l1, .pad = true},
                            {.k = 20, .metric = Metric::inner_product, .distance_type = DistanceType::f64},
                            filtered};
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
      expect_same(knn_in_pieces(data.c(), data.q(), options, folder.path.string(), grid_of(7, 256)), whole);
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::cancelled);
      ++stops;
    }
  }
  EXPECT_GT(stops, 3);
  const Neighbors again = knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string(), grid_of(7, 256));
  expect_same(again, whole);
  EXPECT_EQ(again.stats.candidates, 0) << "everything was there";
  discard_pieces(folder.path.string());
  EXPECT_FALSE(fs::exists(folder.path));
}

TEST(Resume, DamagedPiecesAreDoneAgain) {
  const Data data;
  const Neighbors whole = knn(data.c(), data.q(), {.k = 10});
  const Folder folder;
  const auto run = [&] { return knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string(), grid_of(16, 512)); };
  run();
  ASSERT_EQ(folder.pieces(), 3u);
  const fs::path piece = folder.path / "block-000001.vicinal-piece";
  const auto size = fs::file_size(piece);
  for (const std::uintmax_t keep : {std::uintmax_t{0}, std::uintmax_t{5}, std::uintmax_t{60}, size / 2, size - 1}) {
    fs::resize_file(piece, keep);
    expect_same(run(), whole);
    EXPECT_EQ(fs::file_size(piece), size);
  }
  for (std::uintmax_t at = 0; at < size; at += 97) {
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
  knn_in_pieces(data.c(), data.q(), {.k = 10}, path, grid_of(16, 512));
  const auto expect_refused = [&](const Points& corpus, const Points& queries, const KnnOptions& options,
                                  const Grid& grid) {
    try {
      knn_in_pieces(corpus, queries, options, path, grid);
      FAIL() << "took another search's pieces";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("another search"), std::string::npos) << error.what();
    }
  };
  expect_refused(data.c(), data.q(), {.k = 11}, grid_of(16, 512));
  expect_refused(data.c(), data.q(), {.k = 10, .metric = Metric::sqeuclidean}, grid_of(16, 512));
  expect_refused(data.c(), data.q(), {.k = 10, .first_id = 1}, grid_of(16, 512));
  expect_refused(data.c(), data.q(), {.k = 10}, grid_of(8, 512));
  Data other;
  other.corpus[1499 * 9 + 8] += 1;
  expect_refused(other.c(), data.q(), {.k = 10}, grid_of(16, 512));
  Data asked;
  asked.queries[0] += 1;
  expect_refused(data.c(), asked.q(), {.k = 10}, grid_of(16, 512));
}

/// What a call that is refused says.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Resume, SearchesThatShareADirectoryKeepEachOthersPieces) {
  const Data data;
  const KnnOptions other{.k = 4, .metric = Metric::l1};
  for (const bool sound : {true, false}) {
    const Folder folder;
    const std::string path = folder.path.string();
    KnnOptions killed{.k = 10, .run = {.threads = 1}};
    killed.progress = [&](std::uint64_t, std::uint64_t) {
      return !fs::exists(folder.path / "block-000002.vicinal-piece");
    };
    // The one that was killed has saved blocks 0 to 2; the other, of one block, would write over 0 alone and remove all.
    EXPECT_THROW(knn_in_pieces(data.c(), data.q(), killed, path, grid_of(7, 1500)), Error);
    const std::size_t saved = folder.pieces();
    ASSERT_GE(saved, 3u);
    if (!sound)
      for (const auto& entry : fs::directory_iterator(folder.path)) fs::resize_file(entry.path(), 300);
    const auto search = [&] { knn_in_pieces(data.c(), data.q().slice(0, 7), other, path, grid_of(64, 1500)); };
    if (sound) {
      const std::string said = refusal(search);
      EXPECT_NE(said.find("belongs to another search"), std::string::npos) << said;
      EXPECT_NE(said.find("(k-NN, k=10, euclidean, 37 queries, 1500 rows of 9 columns)"), std::string::npos) << said;
      EXPECT_NE(said.find("rm '" + path + "'/*.vicinal-piece"), std::string::npos) << said;
      EXPECT_EQ(folder.pieces(), saved);
      const Neighbors resumed = knn_in_pieces(data.c(), data.q(), {.k = 10}, path, grid_of(7, 1500));
      expect_same(resumed, knn(data.c(), data.q(), {.k = 10}));
      discard_pieces(path);
    }
    search();
    EXPECT_GT(folder.pieces(), 0u);
  }
}

TEST(Resume, ADirectoryHasOneSearchAtATime) {
  const Data data;
  const Folder folder;
  const std::string path = folder.path.string();
  std::string said;
  std::size_t left = 0;
  KnnOptions options{.k = 10, .run = {.threads = 1}};
  options.progress = [&](std::uint64_t, std::uint64_t) {
    if (said.empty() && folder.pieces() > 0) {
      said = refusal([&] { knn_in_pieces(data.c(), data.q(), {.k = 3}, path, grid_of(37, 1500)); });
      discard_pieces(path);
      left = folder.pieces();
    }
    return true;
  };
  expect_same(knn_in_pieces(data.c(), data.q(), options, path, grid_of(7, 256)), knn(data.c(), data.q(), {.k = 10}));
  EXPECT_EQ(said,
            "a search that is running saves its pieces in " + path + "; wait for its end, or name another directory");
  EXPECT_GT(left, 0u) << "the pieces of a search that runs were removed";
  discard_pieces(path);
  EXPECT_FALSE(fs::exists(folder.path));
}

TEST(Resume, RemovesFilesOfItsOwnNamesAlone) {
  Folder folder;
  fs::create_directory(folder.path);
  const auto spit = [&](const char* name) { std::ofstream(folder.path / name) << "x"; };
  for (const char* own :
       {"block-000001.vicinal-piece", "block-1000000-row-000000001300.vicinal-piece",
        "block-000001-tier-000000001300.vicinal-piece", "block-000001.vicinal-piece.tmp.1234.0123456789abcdef"})
    spit(own);
  const std::vector<std::string> kept = {"block-000001.vicinal-piece.bak", "block-1-column-2.vicinal-piece",
                                         "my.vicinal-piece.txt"};
  for (const std::string& name : kept) spit(name.c_str());
  discard_pieces(folder.path.string());
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path)) left.push_back(entry.path().filename().string());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, kept);
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
  EXPECT_EQ(message([&] { knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string(), grid_of(7, 256)); }),
            message([&] { knn(data.c(), data.q(), {.k = 10}); }));
  std::ofstream(folder.path.string() + "-file").put('x');
  EXPECT_THROW(knn_in_pieces(data.c(), data.q(), {.k = 10}, folder.path.string() + "-file", grid_of(7, 256)), Error);
  fs::remove(folder.path.string() + "-file");
}

struct Sides {
  Points corpus, queries;
  KnnOptions options;
};

/// What can be resumed, one call each; same() compares its bits with those of one call.
struct Kind {
  const char* name;
  void (*same)(const Sides&, const std::string& directory, const Grid&);
};
const Kind kinds[] = {
    {"knn",
     [](const Sides& s, const std::string& at, const Grid& grid) {
       expect_same(knn_in_pieces(s.corpus, s.queries, s.options, at, grid), knn(s.corpus, s.queries, [&] {
                     auto o = s.options;
                     o.progress = nullptr;
                     return o;
                   }()));
     }},
    {"graph",
     [](const Sides& s, const std::string& at, const Grid& grid) {
       GraphOptions options{.search = s.options}, plain = options;
       plain.search.progress = nullptr;
       expect_same(graph_in_pieces(s.corpus, options, at, grid), knn_graph(s.corpus, plain));
     }},
    {"range",
     [](const Sides& s, const std::string& at, const Grid& grid) {
       RangeOptions options{.search = s.options}, plain = options;
       plain.search.progress = nullptr;
       expect_same(range_in_pieces(s.corpus, s.queries, 3.5, options, at, grid),
                   range_search(s.corpus, s.queries, 3.5, plain));
     }},
};

struct Shaped {
  std::vector<float> corpus, queries;
  std::int64_t rows, asked, cols;
  Shaped(std::int64_t rows, std::int64_t asked, std::int64_t cols)
      : corpus(static_cast<std::size_t>(rows * cols)), queries(static_cast<std::size_t>(asked * cols)), rows(rows),
        asked(asked), cols(cols) {
    std::mt19937 random(static_cast<unsigned>(rows));
    std::uniform_int_distribution<int> few(0, 5);
    for (float& x : corpus) x = static_cast<float>(few(random));
    for (float& x : queries) x = static_cast<float>(few(random));
  }
  Sides sides(std::int64_t k) const {
    return {MatrixView<float>{corpus.data(), rows, cols}, MatrixView<float>{queries.data(), asked, cols}, {.k = k}};
  }
};

TEST(Resume, LosesLessThanTenSecondsOfWorkWhateverTheShape) {
  // A clock that pairs move: the whole search takes 60 s of it, all at one speed or the second half of the work three times as slow as the first.
  const struct {
    std::int64_t rows, asked, cols, k;
  } shapes[] = {{4000, 37, 9, 10}, {1920, 1100, 2, 3}, {1920, 16, 300, 25}};
  for (const auto& shape : shapes) {
    for (const double slower : {1.0, 3.0}) {
      for (const Kind& kind : kinds) {
        SCOPED_TRACE(testing::Message() << kind.name << " " << shape.rows << " x " << shape.asked << " x " << shape.cols
                                        << ", " << slower << " times as slow");
        const Shaped data(shape.rows, shape.asked, shape.cols);
        const Folder folder;
        Sides sides = data.sides(shape.k);
        const bool graph = std::string(kind.name) == "graph";
        const std::int64_t asked = graph ? shape.rows : shape.asked;
        Grid grid = Grid::of({shape.rows, shape.cols}, {asked, shape.cols}, shape.k);
        double now = 0, most_unsaved = 0;
        bool stopped = false;
        const auto time = [&](double share) {
          return 60 * (std::min(share, 0.5) + slower * std::max(share - 0.5, 0.0)) / (0.5 + slower / 2);
        };
        grid.clock = [&] { return now; };
        grid.first_part = std::min(grid.first_part, Pace::multiple);  // as if each pair were a thousand times the work
        sides.options.progress = [&](std::uint64_t done, std::uint64_t total) {
          const double all = static_cast<double>(total);
          now = time(static_cast<double>(done) / all);
          most_unsaved =
              std::max(most_unsaved, now - time(static_cast<double>(saved_pieces(folder.path.string()).pairs) / all));
          return stopped || now < 20;
        };
        try {
          kind.same(sides, folder.path.string(), grid);
          FAIL() << "was not stopped";
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), ErrorCode::cancelled);
        }
        EXPECT_GT(saved_pieces(folder.path.string()).pairs, 0);
        stopped = true;
        now = time(static_cast<double>(saved_pieces(folder.path.string()).pairs) /
                   static_cast<double>(shape.rows * asked));
        kind.same(sides, folder.path.string(), grid);
        EXPECT_GT(most_unsaved, 0) << "the clock did not move";
        EXPECT_LE(most_unsaved, 10);
        const SavedPieces saved = saved_pieces(folder.path.string());
        EXPECT_EQ(saved.pairs, saved.all_pairs);
        EXPECT_EQ(saved.all_pairs, shape.rows * asked);
      }
    }
  }
}

TEST(Resume, PiecesThatTakeTooLongAreGivenUpForSmallerOnes) {
  const Data data;
  for (const Kind& kind : kinds) {
    const Folder folder;
    double now = 0;
    // Whenever the clock is looked at, more time has passed than a piece may take.
    kind.same({data.c(), data.q(), {.k = 10}}, folder.path.string(),
              {1500, 1 << 20, 1 << 20, [&] { return now += Pace::latest + 1; }});
    EXPECT_GT(now, 4 * Pace::latest) << kind.name;
  }
}

TEST(Resume, PaceKeepsSavesApartByAFewSeconds) {
  for (const double seconds_a_row : {1e-9, 1e-6, 1e-4, 1e-2, 0.1}) {
    double now = 0;
    Pace pace([&] { return now; }, 4096, std::int64_t{1} << 40);
    std::mt19937 random(3);
    double saved = 0, most = 0;
    for (int piece = 0; piece < 200; ++piece) {
      const double cost =
          seconds_a_row * (piece % 50 > 40 ? 20 : 1) * std::uniform_real_distribution<>(0.7, 1.4)(random);
      for (;;) {
        const std::int64_t rows = pace.begin(std::int64_t{1} << 40);
        ASSERT_GE(rows, 1);
        ASSERT_EQ(rows % Pace::multiple, 0);
        const double begun = now, whole = static_cast<double>(rows) * cost;
        while (now < begun + whole && !pace.overdue()) now = std::min(begun + whole, now + 0.25);
        if (now >= begun + whole) break;
        pace.gave_up((now - begun) / whole);
      }
      pace.finished();
      // At first the pace is not known; and no piece is smaller than Pace::multiple rows.
      if (piece >= 8) most = std::max(most, now - saved - (Pace::multiple * cost > 2 ? Pace::multiple * cost : 0));
      saved = now;
    }
    EXPECT_LE(most, 10) << seconds_a_row;
    EXPECT_GT(now, 200 * 0.2 * std::min(1.0, seconds_a_row * 1e9)) << "pieces that take no time are not worth a file";
  }
}

TEST(Resume, UnderflowIsNotedAsByOneCall) {
  const float rows[] = {0, 1e-30f, 2e-30f, 1};
  const Points points = MatrixView<float>{rows, 4, 1};
  const KnnOptions options{.k = 3, .metric = Metric::sqeuclidean};
  const Folder folder;
  const Neighbors whole = knn(points, points, options),
                  pieces = knn_in_pieces(points, points, options, folder.path.string(), grid_of(4, 64));
  EXPECT_GT(whole.stats.underflowed, 0);
  EXPECT_EQ(pieces.stats.underflowed, whole.stats.underflowed);
  EXPECT_EQ(std::count(pieces.stats.notes.begin(), pieces.stats.notes.end(), whole.stats.notes.back()), 1);
  EXPECT_NE(whole.stats.notes.back().find("underflow"), std::string::npos);
}

TEST(Resume, RangesAndGraphsOfAnySizeGiveTheBitsOfOneCall) {
  const Data data;
  std::vector<std::int64_t> row_labels(1500), query_labels(37);
  for (std::int64_t i = 0; i < 1500; ++i) row_labels[static_cast<std::size_t>(i)] = i % 4;
  for (std::int64_t i = 0; i < 37; ++i) query_labels[static_cast<std::size_t>(i)] = i % 4;
  KnnOptions labelled{.k = 7};
  labelled.eligible = {.last = 1400,
                       .ids = {},
                       .bitmap = {},
                       .labels = Eligible::Labels::same,
                       .corpus_labels = row_labels,
                       .query_labels = query_labels};
  for (const Grid& grid : {grid_of(64, 256), grid_of(100, 1500), grid_of(150, 320)}) {
    const Folder range;
    const auto at = [](const Folder& folder) { return folder.path.string(); };
    const RangeOptions negated{.search = {.metric = Metric::inner_product, .distance_type = DistanceType::f64}};
    expect_same(range_in_pieces(data.c(), data.q(), 4.0, {}, at(range) + "a", grid),
                range_search(data.c(), data.q(), 4.0));
    expect_same(range_in_pieces(data.c(), data.q(), 60, negated, at(range) + "b", grid),
                range_search(data.c(), data.q(), 60, negated));
    expect_same(range_in_pieces(data.c(), data.q(), 8, {.search = labelled}, at(range) + "c", grid),
                range_search(data.c(), data.q(), 8, {.search = labelled}));
    const Points rows = data.c().slice(0, 300);
    const GraphOptions plain{.search = {.k = 12}}, with{.search = {.k = 12}, .include_self = true},
        more{.search = {.k = 400, .pad = true}};
    expect_same(graph_in_pieces(rows, plain, at(range) + "d", grid), knn_graph(rows, plain));
    expect_same(graph_in_pieces(rows, with, at(range) + "e", grid), knn_graph(rows, with));
    expect_same(graph_in_pieces(rows, more, at(range) + "f", grid), knn_graph(rows, more));
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) discard_pieces(at(range) + name);
    EXPECT_FALSE(fs::exists(at(range) + "f"));
  }
  const Folder folder;
  try {
    range_in_pieces(data.c(), data.q(), 4.0, {.max_results = 5}, folder.path.string(), grid_of(7, 256));
    FAIL() << "more matches than max_results";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::capacity_exceeded);
    EXPECT_NE(std::string(error.what()).find(std::to_string(range_search(data.c(), data.q(), 4.0).entries())),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace vicinal
