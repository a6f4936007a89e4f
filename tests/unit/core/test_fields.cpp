// include/vicinal/fields.hpp lists every member: one that is added to a struct and not to its list does not compile here.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "vicinal/fields.hpp"
#include "vicinal/option_fields.hpp"

namespace vicinal {
namespace {

/// Initializes a member of any type.
struct Anything {
  template <class T>
  operator T() const;
};

template <class Struct, std::size_t... Index>
constexpr bool takes(std::index_sequence<Index...>) {
  return requires { Struct{(static_cast<void>(Index), Anything{})...}; };
}

/// Members of an aggregate: the most initializers that it takes.
template <class Struct, std::size_t Count = 64>
constexpr std::size_t members() {
  if constexpr (takes<Struct>(std::make_index_sequence<Count>())) return Count;
  else return members<Struct, Count - 1>();
}

template <class Struct>
constexpr bool complete = std::tuple_size_v<decltype(Fields<Struct>::listed)> == members<Struct>();

static_assert(complete<Certificate>);
static_assert(complete<Stats>);
static_assert(complete<Plan>);
static_assert(complete<Device>);
static_assert(complete<Info>);
static_assert(complete<StringRules>);
static_assert(complete<Execution>);
static_assert(complete<KnnOptions>);
static_assert(complete<GraphOptions>);
static_assert(complete<RangeOptions>);
static_assert(complete<CorpusOptions>);
static_assert(complete<OpenOptions>);
static_assert(complete<PermutationOptions>);

template <class Struct>
std::set<std::string> names() {
  std::set<std::string> found;
  for_each_field(Struct{}, [&](const char* name, const auto& /*value*/) { found.insert(name); });
  return found;
}

TEST(Fields, StandOnceInTheirList) {
  EXPECT_EQ(names<Certificate>().size(), std::tuple_size_v<decltype(Fields<Certificate>::listed)>);
  EXPECT_EQ(names<Stats>().size(), std::tuple_size_v<decltype(Fields<Stats>::listed)>);
  EXPECT_EQ(names<Plan>().size(), std::tuple_size_v<decltype(Fields<Plan>::listed)>);
  EXPECT_EQ(names<Device>().size(), std::tuple_size_v<decltype(Fields<Device>::listed)>);
}

TEST(Fields, AreThoseOfTheStruct) {
  Stats stats;
  stats.reranked = 7;
  stats.notes = {"a", "b"};
  std::string seen;
  for_each_field(stats, [&]<class T>(const std::string& name, const T& value) {
    if constexpr (std::is_same_v<T, std::vector<std::string>>) seen += name + " " + std::to_string(value.size());
    if constexpr (std::is_same_v<T, std::int64_t>)
      if (value != 0) seen += name + " " + std::to_string(value) + ", ";
  });
  EXPECT_EQ(seen, "reranked 7, notes 2");
}

TEST(Fields, OfOneCallFillThoseOfAnother) {
  KnnOptions search{.metric = Metric::l1, .degenerate = Degenerate::one, .memory = {.host = 77}};
  search.run.device = "cpu";
  search.strings.ngram = 3;
  const auto corpus = with_shared_fields<CorpusOptions>(search);
  EXPECT_EQ(corpus.metric, Metric::l1);
  EXPECT_EQ(corpus.degenerate, Degenerate::one);
  EXPECT_EQ(corpus.memory.host, 77);
  EXPECT_EQ(corpus.run.device, "cpu");
  EXPECT_FALSE(corpus.copy);
  const auto index = with_shared_fields<PermutationOptions>(search);
  EXPECT_EQ(index.strings.ngram, 3);
  EXPECT_EQ(index.permutants, default_permutants);
  EXPECT_TRUE(with_shared_fields<OpenOptions>(search).verify);
}

}  // namespace
}  // namespace vicinal
