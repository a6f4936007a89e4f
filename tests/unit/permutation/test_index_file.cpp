// Indexes in files: what was saved answers to the bit, every flipped bit is noticed, and files whose checksums were made right again
// after a change are refused with a word or hold an index that can be searched; a kill while saving leaves the old file or the new.
#include <random>

#include "fuzz/reseal.hpp"
#include "unit/io/files.hpp"
#include "unit/io/killed_saves.hpp"
#include "vicinal/corpus.hpp"
#include "vicinal/permutation_index.hpp"

namespace permutation_file {
namespace {

using namespace vicinal;
using namespace vicinal::test;

std::vector<float> grid(std::int64_t count, std::int64_t dims, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> rows(static_cast<std::size_t>(count * dims));
  for (float& value : rows) value = static_cast<float>(random() % 1000) / 8;
  return rows;
}
const std::vector<std::string_view> some_words = {"",    "a",     "anna",   "anne",    "hannah", "\xC3\xA9t\xC3\xA9",
                                                  "bob", "bobby", "robert", "rob bert"};

PermutationIndex vectors(std::int64_t count, RankForm form = RankForm::ranks, bool bounds = true) {
  static const std::vector<float> rows = grid(4000, 6, 1);
  return PermutationIndex(MatrixView<float>{rows.data(), count, 6},
                          {.permutants = 5, .seed = 3, .form = form, .bounds = bounds});
}
PermutationIndex strings(Metric metric) {
  return PermutationIndex(StringList(some_words).view(), {.metric = metric, .permutants = 4});
}

/// Ids and distances of a search of an index, whatever it holds.
std::string answer(const PermutationIndex& index, bool exact) {
  PermutationSearch search{.k = 3, .exact = exact, .run = {.threads = 1}};
  if (!exact) search.fraction = 0.5;
  static const std::vector<float> queries = grid(4, 6, 2);
  const StringList asked(some_words);
  const Neighbors found =
      (index.strings() ? index.knn(asked.view(), search) : index.knn(MatrixView<float>{queries.data(), 4, 6}, search))
          .neighbors;
  std::string text;
  for (std::int64_t row = 0; row < found.rows(); ++row)
    for (std::int64_t i = 0; i < found.k(); ++i) text += raw(found.id(row, i)) + raw(found.distance(row, i));
  return text;
}

TEST(IndexFile, AnswersAsItWasSavedAndIsSavedTheSameAgain) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal"), again = directory.file("b.vicinal");
  std::vector<PermutationIndex> all;
  all.push_back(vectors(300));
  all.push_back(vectors(300, RankForm::prefix));
  all.push_back(vectors(300, RankForm::bits, false));
  all.push_back(vectors(300, RankForm::components));
  all.push_back(vectors(300, RankForm::components, false));
  all.push_back(strings(Metric::levenshtein));
  all.push_back(strings(Metric::jaccard));
  for (const PermutationIndex& index : all) {
    index.save(path);
    for (const bool copy : {false, true}) {
      const PermutationIndex opened = PermutationIndex::open(path, {.copy = copy});
      EXPECT_EQ(answer(opened, false), answer(index, false));
      EXPECT_EQ(answer(opened, true), answer(index, true));
      EXPECT_EQ(opened.permutants(), index.permutants());
      EXPECT_EQ(opened.options().seed, index.options().seed);
      opened.save(again);
      EXPECT_EQ(slurp(again), slurp(path));
    }
  }
  expect_error(ErrorCode::unsupported, ".vicinal", [&] { all[0].save(directory.file("a.npy")); });
  expect_error(ErrorCode::format_error, "it is a permutation index, not a corpus", [&] { Corpus::open(path); });
  const std::vector<float> rows = grid(3, 2, 1);
  Corpus(MatrixView<float>{rows.data(), 3, 2}).save(path);
  expect_error(ErrorCode::format_error, "it is a corpus, not a permutation index",
               [&] { PermutationIndex::open(path); });
}

TEST(IndexFile, EveryChangedByteIsNoticed) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  vectors(30).save(path);
  const std::string whole = slurp(path);
  for (std::size_t at = 0; at < whole.size(); at += at < 1000 ? 1 : 37) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << (at % 8));
    spit(path, damaged);
    EXPECT_TRUE(error_of([&] { PermutationIndex::open(path); })) << at;
  }
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    spit(path, whole.substr(0, size));
    expect_error(ErrorCode::format_error, "", [&] { PermutationIndex::open(path); });
  }
}

TEST(IndexFile, WhatTheChecksumsDoNotSeeIsLookedAt) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  vectors(30).save(path);
  const std::string whole = slurp(path);
  const auto position = [&](int section) {
    return number_at<std::uint64_t>(whole, 256 + 64 * static_cast<std::size_t>(section) + 8);
  };
  struct Wrong {
    std::size_t at;
    std::string bytes, text;
  };
  const std::vector<Wrong> wrongs = {{12, raw(9), "kind 9 is unknown"},
                                     {20, "\7", "element type 7"},
                                     {21, "\x10", "metric 16 is unknown"},
                                     {21, "\x8", "compares strings"},
                                     {24, raw(std::int64_t{1} << 60), "n=2^60"},
                                     {24, raw(std::int64_t{31}), "needs"},
                                     {32, raw(std::int64_t{0}), "d=0"},
                                     {64, raw(31), "31 permutants of 30"},
                                     {64, raw(0), "0 permutants"},
                                     {68, raw(2), "prefix 2 with the form ranks"},
                                     {72, "\4", "choice of permutants 4"},
                                     {73, "\3", "rank distance 3"},
                                     {74, "\3", "0 sections of type 8"},
                                     {74, "\4", "form of ranks 4"},
                                     {75, "\x8", "flags 8"},
                                     {75, "\1", "strings have none"},
                                     {75, std::string(1, '\0'), "does not need"},
                                     {76, "\1", "reserved bytes"},
                                     {79, "\1", "reserved bytes"},
                                     {120, "\1", "reserved bytes"},
                                     {21, "\4", "metric that has none"},
                                     {position(1), raw(std::int64_t{30}), "permutant 30"},
                                     {position(2), "\5", "no order"},
                                     {position(3), "\xff", "bounds are not in order"},
                                     {position(4), raw(1e300), "bounds are not in order"},
                                     {position(0), raw(std::uint32_t{0x7fc00000}), "NaN"}};
  for (const Wrong& wrong : wrongs) {
    std::string damaged = whole;
    damaged.replace(wrong.at, wrong.bytes.size(), wrong.bytes);
    reseal(damaged);
    spit(path, damaged);
    const auto error = error_of([&] { PermutationIndex::open(path); });
    ASSERT_TRUE(error) << "byte " << wrong.at << ": no error, expected " << wrong.text;
    EXPECT_NE(std::string(error->what()).find(wrong.text), std::string::npos)
        << error->what() << "\nlacks: " << wrong.text;
  }
}

TEST(IndexFile, ComponentsThatAreNotFiniteAreRefused) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  vectors(30, RankForm::components, false).save(path);
  std::string damaged = slurp(path);
  const auto last = number_at<std::uint64_t>(damaged, 256 + 64 * 3 + 8);  // of rows, permutants, ranks, components
  damaged.replace(last + 16, 8, raw(std::numeric_limits<double>::infinity()));
  reseal(damaged);
  spit(path, damaged);
  expect_error(ErrorCode::format_error, "not finite", [&] { PermutationIndex::open(path); });
}

TEST(IndexFile, MutantsWithGoodChecksumsAreRefusedOrCanBeSearched) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  std::mt19937 random(20261122);
  std::vector<PermutationIndex> all;
  all.push_back(vectors(40));
  all.push_back(vectors(40, RankForm::prefix, false));
  all.push_back(vectors(40, RankForm::components, false));
  all.push_back(strings(Metric::levenshtein));
  int opened = 0;
  for (const PermutationIndex& index : all) {
    index.save(path);
    const std::string whole = slurp(path);
    for (int round = 0; round < 250; ++round) {
      std::string mutant = whole;
      for (unsigned changes = 1 + static_cast<unsigned>(random() % 3); changes > 0; --changes) {
        const std::size_t at = random() % 3 == 0 ? random() % 700 : random() % mutant.size();
        mutant[at] = static_cast<char>(random() % 2 == 0 ? random() : mutant[at] ^ 1 << (random() % 8));
      }
      if (random() % 8 == 0) mutant.resize(random() % mutant.size());
      reseal(mutant);
      spit(path, mutant);
      try {
        const PermutationIndex found = PermutationIndex::open(path, {.copy = round % 2 == 0, .run = {.threads = 1}});
        ++opened;
        if (found.cols() == 6 || found.strings()) answer(found, round % 3 == 0);
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() != ErrorCode::internal && error.code() != ErrorCode::out_of_memory) << error.what();
      }
    }
  }
  EXPECT_GT(opened, 100);
}

TEST(IndexFile, KillingASaveLeavesTheOldFileOrTheNew) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  const PermutationIndex both[2] = {vectors(2000), vectors(4000)};
  std::string whole[2];
  std::int64_t save_us = 0;
  for (const int i : {0, 1}) {
    save_us = time_of([&] { both[i].save(path); });
    whole[i] = slurp(path);
  }
  std::mt19937 random(20261122);
  for (int round = 0; round < 10; ++round) {
    saves_until(SIGKILL, random, save_us,
                [&](std::size_t i) { both[(static_cast<std::size_t>(round) + i) % 2].save(path); });
    const std::string shown = slurp(path);
    EXPECT_TRUE(shown == whole[0] || shown == whole[1]) << "round " << round;
  }
}

}  // namespace
}  // namespace permutation_file
