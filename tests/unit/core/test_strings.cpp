// Strings whose offsets do not fit their data, for every entry that takes strings, and data that change between the
// passes.
#include "core/strings.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>

#include "vicinal/error.hpp"
#include "vicinal/permutation_index.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/search.hpp"

namespace {

using namespace vicinal;

using Entry = std::function<void(const Strings&)>;
const std::string_view good_words[] = {"casa", "gato", "perro"};

std::map<std::string, Entry> entries() {
  static const StringList good(good_words);
  static const StringList octets(good_words, Encoding::bytes);
  const auto alike = [](const Strings& s) { return s.encoding == Encoding::bytes ? octets.view() : good.view(); };
  const KnnOptions options{.k = 1, .metric = Metric::levenshtein};
  const PermutationOptions few{.metric = Metric::levenshtein, .permutants = 2};
  return {
      {"knn corpus", [=](const Strings& s) { (void)knn(s, alike(s), options); }},
      {"knn query", [=](const Strings& s) { (void)knn(alike(s), s, options); }},
      {"graph", [=](const Strings& s) { (void)knn_graph(s, {.search = options}); }},
      {"range corpus", [=](const Strings& s) { (void)range_search(s, alike(s), 2, {.search = options}); }},
      {"range query", [=](const Strings& s) { (void)range_search(alike(s), s, 2, {.search = options}); }},
      {"plan", [=](const Strings& s) { (void)plan(s, alike(s), options); }},
      {"plan graph", [=](const Strings& s) { (void)plan_graph(s, {.search = options}); }},
      {"plan range", [=](const Strings& s) { (void)plan_range(s, alike(s), {.search = options}); }},
      {"index", [=](const Strings& s) { (void)PermutationIndex(s, few); }},
      {"index query", [=](const Strings& s) { (void)PermutationIndex(alike(s), few).knn(s, {.k = 1, .exact = true}); }},
      {"index plan", [=](const Strings& s) { (void)PermutationIndex::plan_build(s, few); }},
  };
}

TEST(StringOffsets, AreHeldAgainstTheData) {
  const std::string text = "casagatoperro";
  const std::map<std::string, std::vector<std::int64_t>> wrong = {
      {"string 1 ends before it begins", {0, 4, 2, 13}},
      {"string 0 ends before it begins", {-5, 4, 8, 13}},
      {"string 2 ends at unit 14, the data have 13", {0, 4, 8, 14}},
      {"string 0 ends at unit 9000, the data have 13", {0, 9000, 9000, 9000}},
      {"string 1 ends at unit 4611686018427387904, the data have 13",
       {0, 4, std::int64_t{1} << 62, std::int64_t{1} << 62}},
  };
  for (const auto& [name, call] : entries()) {
    for (const Encoding encoding : {Encoding::utf8, Encoding::bytes}) {
      for (const auto& [said, offsets] : wrong) {
        try {
          call({text.data(), offsets.data(), 3, encoding, static_cast<std::int64_t>(text.size())});
          ADD_FAILURE() << name << ": " << said;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << name;
          EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << name << ": " << error.what();
        }
      }
      const std::int64_t right[] = {0, 4, 8, 13};
      EXPECT_NO_THROW(call({text.data(), right, 3, encoding, 13})) << name;
      EXPECT_NO_THROW(call({text.data(), right, 3, encoding})) << name;
    }
  }
  const std::int64_t backward[] = {0, 13, 4, 8};  // the last offset of a list is how many units there are
  EXPECT_THROW((void)knn(StringList(text.data(), {0, 13, 4, 8}, Encoding::utf8, nullptr).view(),
                         StringList(good_words).view(), {.k = 1, .metric = Metric::levenshtein}),
               Error);
  EXPECT_THROW(check_offsets({text.data(), backward, 3, Encoding::utf8}, "corpus"), Error);
}

TEST(StringData, MayChangeBetweenThePasses) {
  std::mt19937 random(5);
  for (const Encoding encoding : {Encoding::utf8, Encoding::bytes, Encoding::utf32}) {
    for (int round = 0; round < 200; ++round) {
      const std::int64_t units = 600, rows = 20;
      std::vector<std::uint32_t> words(static_cast<std::size_t>(units), 'a');
      auto* octets = reinterpret_cast<unsigned char*>(words.data());
      if (encoding != Encoding::utf32) std::fill_n(octets, units, 'a');
      if (encoding == Encoding::utf8 && round % 2 == 0)
        for (std::int64_t i = 0; i + 30 <= units; i += 30) octets[i] = 0xC3, octets[i + 1] = 0xB1;
      std::vector<std::int64_t> offsets;
      for (std::int64_t row = 0; row <= rows; ++row) offsets.push_back(row * units / rows);
      const Strings strings{words.data(), offsets.data(), rows, encoding, units};
      ThreadPool thread_pool(1, nullptr, {}, 1);
      Alphabet alphabet;
      const std::vector<std::int64_t> lengths = alphabet.read(strings, "corpus", 65535, thread_pool);
      for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
      const StringSet set(strings, lengths, alphabet, thread_pool);
      ASSERT_EQ(set.count(), rows);
      for (std::int64_t at = 0; at < rows; ++at) {
        ASSERT_EQ(set.length(at), lengths[static_cast<std::size_t>(set.row(at))]);
        set.with_codes(at, [&](const auto* codes) {
          for (std::int64_t i = 0; i < set.length(at); ++i) {
            ASSERT_GE(codes[i], 1u);
            ASSERT_LE(static_cast<std::int64_t>(codes[i]), alphabet.size());
          }
        });
      }
    }
  }
}

}  // namespace
