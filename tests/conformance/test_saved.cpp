// A corpus that was saved and opened answers as the one that was saved, to the bit: every metric, every element type,
// mapped and copied, under settings that must not matter.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>

#include "conformance/settings.hpp"

namespace conformance {
namespace {

using vicinal::Corpus;

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
    }
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Every, Saved, testing::ValuesIn(all_kinds()), [](const auto& info) {
  return metric_name(info.param.metric) + "_" + vicinal::dtype_name(info.param.dtype);
});

}  // namespace
}  // namespace conformance
