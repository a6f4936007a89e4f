// The members of the options of calls, by name and in order (fields.hpp): for a program that logs what it asked for, or
// that fills the options of one call from those of another.
//
//   auto options = vicinal::with_shared_fields<vicinal::CorpusOptions>(search);
//   // of search, a KnnOptions: metric, degenerate, memory, run, ...
#pragma once
#include <string_view>
#include <type_traits>

#include "vicinal/corpus.hpp"
#include "vicinal/fields.hpp"
#include "vicinal/options.hpp"
#include "vicinal/permutation_index.hpp"

namespace vicinal {

#define VICINAL_FIELD(member) \
  Field { #member, &Struct::member }

template <>
struct Fields<StringRules> {
  using Struct = StringRules;
  static constexpr std::tuple listed{VICINAL_FIELD(max_length), VICINAL_FIELD(ngram)};
};

template <>
struct Fields<Execution> {
  using Struct = Execution;
  static constexpr std::tuple listed{VICINAL_FIELD(device), VICINAL_FIELD(threads), VICINAL_FIELD(instruction_set),
                                     VICINAL_FIELD(filter)};
};

template <>
struct Fields<KnnOptions> {
  using Struct = KnnOptions;
  static constexpr std::tuple listed{VICINAL_FIELD(k),        VICINAL_FIELD(metric),   VICINAL_FIELD(distance_type),
                                     VICINAL_FIELD(pad),      VICINAL_FIELD(first_id), VICINAL_FIELD(degenerate),
                                     VICINAL_FIELD(eligible), VICINAL_FIELD(strings),  VICINAL_FIELD(proof),
                                     VICINAL_FIELD(memory),   VICINAL_FIELD(run),      VICINAL_FIELD(progress),
                                     VICINAL_FIELD(stop),     VICINAL_FIELD(stream)};
};

template <>
struct Fields<GraphOptions> {
  using Struct = GraphOptions;
  static constexpr std::tuple listed{VICINAL_FIELD(search), VICINAL_FIELD(include_self), VICINAL_FIELD(symmetry)};
};

template <>
struct Fields<RangeOptions> {
  using Struct = RangeOptions;
  static constexpr std::tuple listed{VICINAL_FIELD(search), VICINAL_FIELD(max_results)};
};

template <>
struct Fields<CorpusOptions> {
  using Struct = CorpusOptions;
  static constexpr std::tuple listed{VICINAL_FIELD(metric), VICINAL_FIELD(copy),  VICINAL_FIELD(degenerate),
                                     VICINAL_FIELD(memory), VICINAL_FIELD(run),   VICINAL_FIELD(progress),
                                     VICINAL_FIELD(stop),   VICINAL_FIELD(stream)};
};

template <>
struct Fields<OpenOptions> {
  using Struct = OpenOptions;
  static constexpr std::tuple listed{VICINAL_FIELD(verify), VICINAL_FIELD(copy),     VICINAL_FIELD(memory),
                                     VICINAL_FIELD(run),    VICINAL_FIELD(progress), VICINAL_FIELD(stop)};
};

template <>
struct Fields<PermutationOptions> {
  using Struct = PermutationOptions;
  static constexpr std::tuple listed{
      VICINAL_FIELD(metric), VICINAL_FIELD(permutants),    VICINAL_FIELD(choice),   VICINAL_FIELD(given),
      VICINAL_FIELD(seed),   VICINAL_FIELD(rank_distance), VICINAL_FIELD(form),     VICINAL_FIELD(prefix),
      VICINAL_FIELD(window), VICINAL_FIELD(bounds),        VICINAL_FIELD(copy),     VICINAL_FIELD(strings),
      VICINAL_FIELD(memory), VICINAL_FIELD(run),           VICINAL_FIELD(progress), VICINAL_FIELD(stop)};
};

#undef VICINAL_FIELD

/// Options whose members are those of `from` of the same name and type, and else their defaults.
template <class To, class From>
To with_shared_fields(const From& from) {
  To to;
  const auto take = [&]<class T>(std::string_view name, T To::*member) {
    for_each_field(from, [&](std::string_view given, const auto& value) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, T>)
        if (given == name) to.*member = value;
    });
  };
  std::apply([&](const auto&... field) { (take(field.name, field.member), ...); }, Fields<To>::listed);
  return to;
}

}  // namespace vicinal
