// The frozen answers, each by every instruction set, every filter and several thread counts, to the bit.
#include <gtest/gtest.h>

#include "conformance/golden.hpp"
#include "conformance/settings.hpp"

namespace conformance {
namespace {

TEST(Golden, EveryPairOfEveryFileByEveryPath) {
  std::vector<std::string> precisions = filters();
  precisions.push_back("auto");
  std::int64_t searches = 0;
  Rng share(22);
  for (const GoldenFile& file : golden_files())
    for (const GoldenPair& pair : file.pairs)
      for (const std::string& set : instruction_sets())
        for (const std::string& filter : precisions)
          for (const int threads : all_threads) {
            if (!in_share(share, 0.15)) continue;
            const Setting setting{set, filter, threads, Memory::ample, vicinal::Proof::certified};
            const auto options = apply(setting, pair.options, file.corpus.points(), file.queries.points());
            EXPECT_EQ(check(file.corpus.points(), file.queries.points(), options, pair.answer), "")
                << file.name << " " << pair.name << " " << setting.text();
            ++searches;
          }
  EXPECT_GT(searches, 0);
}

}  // namespace
}  // namespace conformance
