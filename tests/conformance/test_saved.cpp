// A corpus that was saved and opened answers as the one that was saved, to the bit: every metric, every element type,
// mapped and copied, under settings that must not matter.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "conformance/settings.hpp"

namespace conformance {
namespace {

using vicinal::Corpus;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Saved : public testing::TestWithParam<Kind> {};

TEST_P(Saved, AnswersAsTheOriginal) {
  std::string folder = (std::filesystem::temp_directory_path() / "vicinal-saved-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a.vicinal";
  const Kind kind = GetParam();
  Rng rng(91);
  for (const std::int64_t d : {2, 33, 100}) {
    const Table corpus = mixed_table(rng, kind.dtype, 700, d), queries = mixed_table(rng, kind.dtype, 9, d);
    const Arranged swapped(corpus, Layout::byte_swapped);
    const Corpus original(d == 33 ? swapped.points : corpus.points(), {.metric = kind.metric});
    original.save(path);
    vicinal::KnnOptions options;
    options.k = 50;
    const vicinal::Neighbors want = original.knn(queries.points(), options);
    for (const bool copy : {false, true}) {
      const Setting setting = random_setting(rng);
      vicinal::OpenOptions open;
      open.copy = copy;
      open.run.threads = setting.threads;
      open.run.instruction_set = setting.instruction_set;
      const Corpus opened = Corpus::open(path, open);
      EXPECT_EQ(difference(opened.knn(queries.points(), options), want), "")
          << kind.text() << " d=" << d << " " << setting.text();
      EXPECT_EQ(opened.metric(), kind.metric);
      EXPECT_EQ(opened.dtype(), kind.dtype);
      const vicinal::SavedBytes bytes = opened.saved();
      ASSERT_EQ(contents(path), std::string(reinterpret_cast<const char*>(bytes.data.get()), bytes.size));
      // At an odd address: a message need not be aligned.
      std::vector<std::byte> message(bytes.size + 1);
      std::copy_n(bytes.data.get(), bytes.size, message.data() + 1);
      const Corpus sent = Corpus::open(std::span(message).subspan(1), open);
      if (copy) std::fill(message.begin(), message.end(), std::byte{1});
      EXPECT_EQ(difference(sent.knn(queries.points(), options), want), "") << kind.text() << " d=" << d << " in memory";
    }
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Every, Saved, testing::ValuesIn(all_kinds()), [](const auto& info) {
  return metric_name(info.param.metric) + "_" + vicinal::dtype_name(info.param.dtype);
});

// Bytes in memory come from strangers as files do.
template <class Opened, class Reopen>
void damage(const Opened& original, Reopen reopen) {
  const vicinal::SavedBytes saved = original.saved();
  const std::vector<std::byte> good(saved.data.get(), saved.data.get() + saved.size);
  std::vector<std::byte> bad = good;
  const auto refused = [&](std::size_t size) {
    return refusal([&] { reopen(std::span<const std::byte>(bad).first(size)); }).code;
  };
  ASSERT_FALSE(refused(good.size()));
  for (std::size_t size = 0; size < good.size(); size += size < 400 ? 1 : 37)
    ASSERT_EQ(refused(size), vicinal::ErrorCode::format_error) << size << " bytes";
  std::set<vicinal::ErrorCode> codes;
  for (std::size_t i = 0; i < good.size(); i += i < 400 ? 1 : 37) {
    bad[i] ^= std::byte{0x10};
    const auto code = refused(good.size());
    ASSERT_TRUE(code) << "byte " << i;
    codes.insert(*code);
    bad[i] = good[i];
  }
  EXPECT_EQ(codes, std::set{vicinal::ErrorCode::format_error});  // the header's checksum comes before its version
}

TEST(SavedBytes, DamageIsAFormatError) {
  Rng rng(92);
  const Table rows = gaussian(rng, DType::f32, 60, 5);
  damage(Corpus(rows.points()), [](std::span<const std::byte> bytes) { Corpus::open(bytes); });
  vicinal::PermutationOptions options;
  options.permutants = 7;
  damage(vicinal::PermutationIndex(rows.points(), options),
         [](std::span<const std::byte> bytes) { vicinal::PermutationIndex::open(bytes); });
}

TEST(SavedBytes, OfAnIndexAreThoseOfItsFile) {
  Rng rng(93);
  std::string folder = (std::filesystem::temp_directory_path() / "vicinal-saved-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a.vicinal";
  const Table rows = gaussian(rng, DType::f32, 300, 6), queries = gaussian(rng, DType::f32, 9, 6);
  for (const auto form :
       {vicinal::RankForm::ranks, vicinal::RankForm::prefix, vicinal::RankForm::bits, vicinal::RankForm::components}) {
    vicinal::PermutationOptions options;
    options.permutants = 20;
    options.form = form;
    const vicinal::PermutationIndex index(rows.points(), options);
    index.save(path);
    const vicinal::SavedBytes saved = index.saved();
    ASSERT_EQ(contents(path), std::string(reinterpret_cast<const char*>(saved.data.get()), saved.size));
    for (const bool copy : {false, true}) {
      const auto opened = vicinal::PermutationIndex::open(std::span(saved.data.get(), saved.size), {.copy = copy});
      for (const bool exact : {false, true})
        EXPECT_EQ(difference(opened.knn(queries.points(), {.k = 5, .exact = exact}).neighbors,
                             index.knn(queries.points(), {.k = 5, .exact = exact}).neighbors),
                  "");
    }
  }
  std::filesystem::remove_all(folder);
  const vicinal::PermutationIndex own(
      9, [](std::int64_t, const std::uint32_t*, std::int64_t count, double* d) { std::fill_n(d, count, 1.0); },
      {.permutants = 3});
  EXPECT_EQ(refusal([&] { own.saved(); }).code, vicinal::ErrorCode::unsupported);
}

}  // namespace
}  // namespace conformance
