// Ground truth in small pieces: the bits of one search over all rows together, whatever is cut where, stopped when, damaged, inserted or deleted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "pipeline/merge.hpp"
#include "pipeline/truth.hpp"
#include "vicinal/error.hpp"
#include "vicinal/search.hpp"

namespace vicinal::truth_test {
namespace {

namespace fs = std::filesystem;

struct Directory {
  fs::path path = fs::temp_directory_path() / ("vicinal-truth-" + std::to_string(::getpid()));
  Directory() { fs::remove_all(path); }
  ~Directory() { fs::remove_all(path); }
};

/// Rows of few small integers, in parts of odd sizes, one of them empty.
struct Base {
  std::int64_t cols = 7, asked = 23;
  std::vector<std::int64_t> sizes{1, 200, 0, 77, 513, 64};
  std::vector<float> rows, queries;

  explicit Base(unsigned seed = 5) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> few(0, 4);
    rows.resize(static_cast<std::size_t>(count() * cols));
    queries.resize(static_cast<std::size_t>(asked * cols));
    for (float& x : rows) x = static_cast<float>(few(random)) + 1;
    for (float& x : queries) x = static_cast<float>(few(random)) + 1;
  }
  std::int64_t count() const {
    std::int64_t all = 0;
    for (const std::int64_t size : sizes) all += size;
    return all;
  }
  Points whole() const { return MatrixView<float>{rows.data(), count(), cols}; }
  Points asks() const { return MatrixView<float>{queries.data(), asked, cols}; }
  std::vector<Points> parts() const {
    std::vector<Points> list;
    std::int64_t first = 0;
    for (const std::int64_t size : sizes) {
      list.push_back(whole().slice(first, size));
      first += size;
    }
    return list;
  }
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

template <class Call>
void expect_refused(ErrorCode code, const std::string& part, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// Pieces of `part` rows, whatever the clock says.
Grid grid_of(std::int64_t block, std::int64_t part) {
  return {block, part, part, [] { return 0.0; }};
}
const Grid grids[] = {grid_of(23, 1 << 20), grid_of(5, 64), grid_of(64, 192)};

TEST(GroundTruth, IsTheSearchOfAllRowsTogetherForEveryTier) {
  const Base base;
  const std::vector<std::int64_t> tiers{65, 201, 300, 855};
  std::vector<std::uint64_t> bits(14, 0xF0C3A5990F3CF0F1u);
  std::vector<std::int64_t> labels(855), asked_labels(23);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
  for (std::size_t i = 0; i < asked_labels.size(); ++i) asked_labels[i] = static_cast<std::int64_t>(i % 3);
  KnnOptions masked{.k = 9, .first_id = 1000};
  masked.eligible.bitmap = bits;
  KnnOptions labelled{.k = 11, .metric = Metric::l1};
  labelled.eligible.labels = Eligible::Labels::same;
  labelled.eligible.corpus_labels = labels;
  labelled.eligible.query_labels = asked_labels;
  const KnnOptions all[] = {{.k = 10},
                            {.k = 60, .metric = Metric::inner_product, .distance_type = DistanceType::f64},
                            {.k = 300, .metric = Metric::cosine, .pad = true},
                            masked,
                            labelled};
  for (const KnnOptions& search : all) {
    std::vector<Neighbors> expected;
    for (const std::int64_t rows : tiers) {
      KnnOptions prefix = search;
      if (!prefix.eligible.corpus_labels.empty())
        prefix.eligible.corpus_labels = prefix.eligible.corpus_labels.first(static_cast<std::size_t>(rows));
      expected.push_back(knn(base.whole().slice(0, rows), base.asks(), prefix));
    }
    const TruthOptions options{.search = search, .tiers = tiers};
    const GroundTruth public_call = ground_truth(base.parts(), base.asks(), options);
    EXPECT_EQ(public_call.verified, (std::vector<std::int64_t>{1, 4, 7, 10, 12, 15, 18, 21}));
    EXPECT_TRUE(public_call.certificate.all());
    for (std::size_t i = 0; i < tiers.size(); ++i) expect_same(public_call.tiers[i].nearest, expected[i]);
    expect_same(ground_truth(base.parts(), base.asks(), {.search = search}).nearest(), expected.back());
    for (const Grid& grid : grids) {
      const Directory directory;
      TruthOptions saved = options;
      saved.directory = directory.path.string();
      const GroundTruth truth = truth_in_pieces(base.parts(), base.asks(), saved, grid);
      ASSERT_EQ(truth.tiers.size(), tiers.size());
      for (std::size_t i = 0; i < tiers.size(); ++i) {
        EXPECT_EQ(truth.tiers[i].rows, tiers[i]);
        expect_same(truth.tiers[i].nearest, expected[i]);
      }
      const SavedPieces pieces = saved_pieces(saved.directory);
      EXPECT_EQ(pieces.pairs, 855 * 23);
      EXPECT_EQ(pieces.all_pairs, 855 * 23);
    }
  }
}

TEST(GroundTruth, ReadsNoRowBeyondTheLastTier) {
  Base base;
  base.rows[static_cast<std::size_t>(400 * base.cols)] = std::numeric_limits<float>::quiet_NaN();
  const GroundTruth truth = ground_truth(base.parts(), base.asks(), {.search = {.k = 5}, .tiers = {100, 400}});
  expect_same(truth.nearest(), knn(base.whole().slice(0, 400), base.asks(), {.k = 5}));
}

TEST(GroundTruth, GoesOnWhereItWasStopped) {
  const Base base;
  const std::vector<std::int64_t> tiers{65, 300, 855};
  const Directory directory;
  const Grid grid = grid_of(9, 64);
  TruthOptions options{.search = {.k = 10, .run = {.threads = 1}}, .tiers = tiers};
  options.directory = directory.path.string();
  int stops = 0;
  for (int after = 1;; ++after) {  // cancelled ever later, and started again from what is there
    int polls = 0;
    options.search.progress = [&](std::uint64_t, std::uint64_t) { return ++polls < after * 3; };
    try {
      const GroundTruth truth = truth_in_pieces(base.parts(), base.asks(), options, grid);
      for (std::size_t i = 0; i < tiers.size(); ++i)
        expect_same(truth.tiers[i].nearest, knn(base.whole().slice(0, tiers[i]), base.asks(), {.k = 10}));
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::cancelled);
      ++stops;
    }
  }
  EXPECT_GT(stops, 3);
  options.search.progress = nullptr;
  const GroundTruth again = truth_in_pieces(base.parts(), base.asks(), options, grid);
  EXPECT_EQ(again.stats.candidates, 0) << "everything was there";
}

TEST(GroundTruth, DamagedFilesAreDoneAgainAndOtherRowsRefused) {
  Base base;
  const Directory directory;
  TruthOptions options{.search = {.k = 10}, .tiers = {300, 855}};
  options.directory = directory.path.string();
  const auto run = [&] { return truth_in_pieces(base.parts(), base.asks(), options, grid_of(23, 128)); };
  run();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory.path)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 3u) << "the lists so far, and those of two tiers";
  for (const fs::path& file : files) {
    const auto size = fs::file_size(file);
    for (const std::uintmax_t keep : {std::uintmax_t{0}, std::uintmax_t{60}, size / 2, size - 1}) {
      fs::resize_file(file, keep);
      const GroundTruth truth = run();
      expect_same(truth.tiers[0].nearest, knn(base.whole().slice(0, 300), base.asks(), {.k = 10}));
      expect_same(truth.tiers[1].nearest, knn(base.whole(), base.asks(), {.k = 10}));
      EXPECT_EQ(fs::file_size(file), size);
    }
  }
  const auto other = [&](const std::string& text, const TruthOptions& with) {
    expect_refused(ErrorCode::invalid_argument, text,
                   [&] { truth_in_pieces(base.parts(), base.asks(), with, grid_of(23, 128)); });
  };
  TruthOptions changed = options;
  changed.search.k = 9;
  other("another search", changed);
  changed = options;
  changed.tiers = {301, 855};
  other("another search", changed);
  base.rows[5] += 1;
  other("the base has changed", options);
}

TEST(GroundTruth, RefusesWhatDoesNotFit) {
  const Base base;
  const std::vector<double> wide(70, 1.0);
  const std::vector<float> broad(80, 1.0F);
  const auto refuse = [&](const std::string& text, const std::vector<Points>& parts, const TruthOptions& options) {
    expect_refused(ErrorCode::invalid_argument, text, [&] { ground_truth(parts, base.asks(), options); });
  };
  const std::vector<Points> mixed{base.whole(), MatrixView<double>{wide.data(), 10, 7}};
  refuse("part 1 of the base: rows are f64, those of the first part f32", mixed, {.search = {.k = 1}});
  refuse("b.npy: rows are f64", mixed, {.search = {.k = 1}, .names = {"a.npy", "b.npy"}});
  refuse("rows have 8 columns, those of the first part 7", {base.whole(), MatrixView<float>{broad.data(), 10, 8}},
         {.search = {.k = 1}});
  refuse("the base has no parts", {}, {.search = {.k = 1}});
  for (const std::vector<std::int64_t>& tiers : {std::vector<std::int64_t>{0}, {5, 5}, {9, 3}, {856}, {-1}})
    refuse("tiers must ascend from 1 to the 855 rows of the base", base.parts(), {.search = {.k = 1}, .tiers = tiers});
  refuse("k=10 exceeds the n=9 rows of a tier", base.parts(), {.search = {.k = 10}, .tiers = {9, 20}});
  refuse("k=856 exceeds", base.parts(), {.search = {.k = 856}});
  refuse("verified_queries must be >= 0", base.parts(), {.search = {.k = 1}, .verified_queries = -1});
  Base bad;
  bad.rows[static_cast<std::size_t>(210 * bad.cols + 2)] = std::numeric_limits<float>::infinity();
  expect_refused(ErrorCode::invalid_value, "part 3 of the base: corpus",
                 [&] { ground_truth(bad.parts(), bad.asks(), {.search = {.k = 1}}); });
  expect_refused(ErrorCode::invalid_value, "row 9",
                 [&] { ground_truth(bad.parts(), bad.asks(), {.search = {.k = 1}}); });
}

TEST(GroundTruthUpdate, FollowsARunbook) {
  const Base base;
  for (const Metric metric : {Metric::euclidean, Metric::inner_product}) {
    for (const std::int64_t slack : {0, 12}) {
      std::mt19937 random(3);
      std::vector<std::int64_t> deleted;
      std::vector<std::uint64_t> remains(14, ~std::uint64_t{0});
      const KnnOptions search{.k = 10, .metric = metric, .first_id = 50};
      KnnOptions longer = search;
      longer.k += slack;
      std::int64_t rows = 400;
      Neighbors lists = knn(base.whole().slice(0, rows), base.asks(), longer);
      for (const std::int64_t inserted : {64, 0, 300, 91}) {
        for (int i = 0; i < 12; ++i) {
          const auto row = static_cast<std::int64_t>(random() % static_cast<unsigned>(rows + inserted));
          deleted.push_back(50 + row);
          remains[static_cast<std::size_t>(row / 64)] &= ~(std::uint64_t{1} << row % 64);
        }
        deleted.push_back(lists.id(2, 0));
        const std::int64_t gone = lists.id(2, 0) - 50;
        remains[static_cast<std::size_t>(gone / 64)] &= ~(std::uint64_t{1} << gone % 64);
        const std::vector<Points> old{base.whole().slice(0, 100), base.whole().slice(100, rows - 100)},
            fresh{base.whole().slice(rows, inserted)};
        KnnOptions asked = search;
        if (slack > 0) asked.k = longer.k;  // runbooks keep what they began with
        const GroundTruth truth =
            update_ground_truth({lists.view(), old, fresh, deleted}, base.asks(), {.search = asked});
        rows += inserted;
        KnnOptions oracle = asked;
        oracle.eligible.bitmap = remains;
        const Neighbors expected = knn(base.whole().slice(0, rows), base.asks(), oracle);
        expect_same(truth.nearest(), expected);
        EXPECT_EQ(truth.verified.size(), 8u);
        EXPECT_TRUE(truth.certificate.all());
        EXPECT_EQ(truth.certificate.queries + truth.kept, base.asked) << "kept lists are not proven";
        EXPECT_TRUE(truth.stats.notes.back().starts_with(std::to_string(truth.certificate.queries) + " of"));
        lists = expected;
      }
    }
  }
}

TEST(GroundTruthUpdate, SearchesAgainOnlyWhereTooFewAreLeft) {
  const Base base;
  const Neighbors lists = knn(base.whole(), base.asks(), {.k = 15});
  const std::vector<std::int64_t> deleted{lists.id(4, 0), lists.id(4, 0)};
  const std::vector<Points> old{base.whole()};
  const auto lost = [&](std::int64_t k) {
    const GroundTruth truth = update_ground_truth({lists.view(), old, {}, deleted}, base.asks(),
                                                  {.search = {.k = k}, .verified_queries = 23});
    return truth.stats.notes.back();
  };
  EXPECT_TRUE(lost(14).starts_with("0 of 23 queries")) << lost(14);
  // A search that was killed has saved pieces; an update that needs no search has none, and is no reason to remove them.
  const Directory directory;
  const TruthOptions saved{.search = {.k = 3}, .directory = directory.path.string()};
  ground_truth(old, base.asks(), saved);
  expect_refused(ErrorCode::invalid_argument, "(ground truth, k=3, euclidean, 23 queries, 855 rows of 7 columns)", [&] {
    update_ground_truth({lists.view(), old, {}, deleted}, base.asks(),
                        {.search = {.k = 14}, .directory = directory.path.string()});
  });
  EXPECT_EQ(ground_truth(old, base.asks(), saved).stats.candidates, 0) << "its pieces are gone";
  EXPECT_FALSE(lost(15).starts_with("0 of 23 queries")) << lost(15);
}

TEST(GroundTruthUpdate, RefusesWhatIsNotThereAndFindsListsThatWereWrong) {
  const Base base;
  const Neighbors lists = knn(base.whole().slice(0, 800), base.asks(), {.k = 10});
  const std::vector<Points> old{base.whole().slice(0, 800)}, fresh{base.whole().slice(800, 55)};
  const auto refuse = [&](ErrorCode code, const std::string& text, const TruthUpdate& update,
                          const TruthOptions& options) {
    expect_refused(code, text, [&] { update_ground_truth(update, base.asks(), options); });
  };
  const TruthOptions ten{.search = {.k = 10}};
  const std::vector<std::int64_t> none{855}, negative{-1};
  refuse(ErrorCode::invalid_argument, "id 855 is to be deleted, there are ids 0 to 854",
         {lists.view(), old, fresh, none}, ten);
  refuse(ErrorCode::invalid_argument, "id -1 is to be deleted", {lists.view(), old, fresh, negative}, ten);
  refuse(ErrorCode::invalid_argument, "k=11 was asked for", {lists.view(), old, fresh, {}}, {.search = {.k = 11}});
  refuse(ErrorCode::invalid_argument, "an update has no tiers", {lists.view(), old, fresh, {}},
         {.search = {.k = 10}, .tiers = {5}});
  refuse(ErrorCode::invalid_argument, "the old lists hold f32 distances, this search finds f64",
         {lists.view(), old, fresh, {}}, {.search = {.k = 10, .distance_type = DistanceType::f64}});
  const std::vector<Points> shorter{base.whole().slice(0, 20)};
  refuse(ErrorCode::invalid_argument, "the base has ids 0 to 19", {lists.view(), shorter, fresh, {}}, ten);
  const std::vector<std::int64_t> many = [&] {
    std::vector<std::int64_t> ids;
    for (std::int64_t id = 0; id < 850; ++id) ids.push_back(id);
    return ids;
  }();
  refuse(ErrorCode::invalid_argument, "k=10 exceeds the 5 rows that remain", {lists.view(), old, fresh, many}, ten);
  const Neighbors wrong = knn(base.whole().slice(0, 700), base.asks(), {.k = 10});
  TruthOptions all = ten;
  all.verified_queries = 23;
  refuse(ErrorCode::internal, "ranking every row gives another list", {wrong.view(), old, fresh, {}}, all);
}

TEST(GroundTruth, AListOfAPieceMayEndWhereDistancesEnd) {
  // Every third row is beyond f32 from the queries; whole lists have none of them, and those of small pieces would.
  std::vector<float> rows(600, 1.0F), queries{1, 2, 0.5F, 1};
  for (std::size_t i = 0; i < 300; ++i) rows[2 * i + 1] = i % 3 == 1 ? 3e38F : static_cast<float>(i);
  const Points base = MatrixView<float>{rows.data(), 300, 2}, asks = MatrixView<float>{queries.data(), 2, 2};
  const std::vector<Points> parts{base.slice(0, 4), base.slice(4, 63), base.slice(67, 233)};
  for (const std::int64_t k : {5, 200}) {
    const KnnOptions search{.k = k, .metric = Metric::sqeuclidean, .pad = true};
    const Directory directory;
    expect_same(ground_truth(parts, asks, {.search = search}).nearest(), knn(base, asks, search));
    expect_same(knn_in_pieces(base, asks, search, directory.path.string(), grid_of(2, 64)), knn(base, asks, search));
  }
  const KnnOptions beyond{.k = 201, .metric = Metric::sqeuclidean};
  expect_refused(ErrorCode::range_error, "squared distance exceeds f32", [&] { knn(base, asks, beyond); });
  expect_refused(ErrorCode::range_error, "squared distance exceeds f32",
                 [&] { ground_truth(parts, asks, {.search = beyond}); });
}

TEST(GroundTruth, LabelsAndMasksAreOfTheWholeBase) {
  const Base base;
  std::vector<std::uint64_t> bits(14, 0xF0C3A5990F3CF0F1u);
  std::vector<std::int64_t> labels(855), asked_labels(23);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
  KnnOptions search{.k = 9};
  search.eligible.bitmap = bits;
  search.eligible.bitmap_rows = 855;
  search.eligible.labels = Eligible::Labels::same;
  search.eligible.corpus_labels = labels;
  search.eligible.query_labels = asked_labels;
  const GroundTruth truth = ground_truth(base.parts(), base.asks(), {.search = search, .tiers = {200, 300}});
  for (const Tier& tier : truth.tiers) {
    KnnOptions prefix = search;
    prefix.eligible.bitmap_rows = tier.rows;
    prefix.eligible.corpus_labels = prefix.eligible.corpus_labels.first(static_cast<std::size_t>(tier.rows));
    expect_same(tier.nearest, knn(base.whole().slice(0, tier.rows), base.asks(), prefix));
  }
  search.eligible.bitmap_rows = 854;
  expect_refused(ErrorCode::invalid_argument, "the mask of eligible rows has 854 entries",
                 [&] { ground_truth(base.parts(), base.asks(), {.search = search}); });
}

TEST(GroundTruth, AnErrorOfAPieceIsTheWholes) {
  // A piece that cannot be searched is not one without neighbours: its rows were left out of certified lists once.
  const std::int64_t dims = 4, rows = 90;
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<double> values(rows * dims), asked(3 * dims);
  for (std::vector<double>* side : {&values, &asked})
    for (double& value : *side) value = normal(random);
  const auto spoil = [&](double first, double second) {
    values[70 * dims] = first;
    values[70 * dims + 1] = second;
    asked[0] = asked[1] = 1e200;
  };
  const auto refuses_both = [&](Metric metric, const char* message) {
    const Points base = MatrixView<double>{values.data(), rows, dims}, asks = MatrixView<double>{asked.data(), 3, dims};
    const std::vector<Points> parts{base.slice(0, 40), base.slice(40, 50)};
    for (const std::int64_t verified : {0, 3}) {
      const TruthOptions options{.search = {.k = 5, .metric = metric}, .verified_queries = verified};
      expect_refused(ErrorCode::range_error, message, [&] { knn(base, asks, options.search); });
      expect_refused(ErrorCode::range_error, message, [&] { ground_truth(parts, asks, options); });
      const Directory directory;
      expect_refused(ErrorCode::range_error, message,
                     [&] { knn_in_pieces(base, asks, options.search, directory.path.string(), grid_of(2, 64)); });
    }
  };
  std::vector<double> fine = values;
  for (std::int64_t i = 0; i < dims; ++i) values[static_cast<std::size_t>(70 * dims + i)] *= 1e-100;
  refuses_both(Metric::cosine, "a squared norm outside");
  refuses_both(Metric::correlation, "a squared norm outside");
  values = fine;
  spoil(1e200, 0);  // the nearest of all, as far as products go
  refuses_both(Metric::inner_product, "exceeds f64");
  spoil(1e200, -1e200);
  refuses_both(Metric::inner_product, "leaves f64");
  spoil(-1e200, 0);  // the farthest: no list of five comes to it
  const Points base = MatrixView<double>{values.data(), rows, dims}, asks = MatrixView<double>{asked.data(), 3, dims};
  const std::vector<Points> parts{base.slice(0, 40), base.slice(40, 30), base.slice(70, 20)};
  const KnnOptions search{.k = 20, .metric = Metric::inner_product};
  expect_same(ground_truth(parts, asks, {.search = search}).nearest(), knn(base, asks, search));
}

TEST(GroundTruth, MergesListsThatWereFoundAsMergeDoes) {
  const Base base;
  for (const KnnOptions& options :
       {KnnOptions{.k = 12}, KnnOptions{.k = 300, .metric = Metric::inner_product, .pad = true},
        KnnOptions{.k = 40, .distance_type = DistanceType::f64, .pad = true}}) {
    std::vector<Neighbors> found;
    std::vector<NeighborsView> views;
    std::int64_t first = 0;
    for (const Points& part : base.parts()) {
      KnnOptions own = options;
      own.first_id = first;
      own.pad = true;
      found.push_back(knn(part, base.asks(), own));
      first += part.rows;
    }
    for (const Neighbors& one : found) views.push_back(one.view());
    const MergeOptions wanted{.k = options.k, .metric = options.metric, .pad = true};
    Neighbors out(base.asked, options.k, found[0].type(), true);
    for (std::size_t parts = 1; parts <= views.size(); ++parts) {
      const std::span<const NeighborsView> some(views.data(), parts);
      merge_found(some, options.metric, out.view(), 3);
      expect_same(out, merge(some, wanted));
    }
  }
}

TEST(GroundTruth, FirstNeighborsAreThoseOfASmallerK) {
  const Base base;
  const Neighbors wide = knn(base.whole(), base.asks(), {.k = 900, .pad = true});
  expect_same(first_neighbors(wide, 10), knn(base.whole(), base.asks(), {.k = 10, .pad = true}));
  expect_same(first_neighbors(wide, 870), knn(base.whole(), base.asks(), {.k = 870, .pad = true}));
  expect_refused(ErrorCode::invalid_argument, "k must be 1 to 900", [&] { first_neighbors(wide, 901); });
  expect_refused(ErrorCode::invalid_argument, "k must be 1 to 900", [&] { first_neighbors(wide, 0); });
}

}  // namespace
}  // namespace vicinal::truth_test
