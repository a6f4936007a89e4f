// Names of the options of a permutation index, both ways.
#include <array>
#include <string>

#include "core/text.hpp"
#include "vicinal/permutation_index.hpp"

namespace vicinal {
namespace {

constexpr std::array choice_names = {"random", "farthest_first", "sss", "given"};
constexpr std::array distance_names = {"footrule", "rho", "kendall"};
constexpr std::array tune_on_names = {"auto", "objects", "queries"};
constexpr std::array form_names = {"ranks", "prefix", "bits", "components"};

template <class Enum, std::size_t N>
Enum parse(std::string_view name, const std::array<const char*, N>& names, const char* what) {
  for (std::size_t i = 0; i < N; ++i)
    if (name == names[i]) return static_cast<Enum>(i);
  refuse_name(what, name, {names.begin(), names.end()});
}

}  // namespace

const char* permutant_choice_name(PermutantChoice choice) noexcept {
  return choice_names[static_cast<std::size_t>(choice)];
}
const char* rank_distance_name(RankDistance distance) noexcept {
  return distance_names[static_cast<std::size_t>(distance)];
}
const char* rank_form_name(RankForm form) noexcept { return form_names[static_cast<std::size_t>(form)]; }
PermutantChoice parse_permutant_choice(std::string_view name) {
  return parse<PermutantChoice>(name, choice_names, "choice of permutants");
}
RankDistance parse_rank_distance(std::string_view name) {
  return parse<RankDistance>(name, distance_names, "rank distance");
}
const char* tune_on_name(TuneOn on) noexcept { return tune_on_names[static_cast<std::size_t>(on)]; }
TuneOn parse_tune_on(std::string_view name) { return parse<TuneOn>(name, tune_on_names, "tune_on"); }
RankForm parse_rank_form(std::string_view name) { return parse<RankForm>(name, form_names, "form of ranks"); }

}  // namespace vicinal
