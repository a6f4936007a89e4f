// The names of algorithms.
#include <vector>

#include "core/text.hpp"
#include "select/problem.hpp"

namespace vicinal {
namespace {

// What users read for the words of algorithm.def.
constexpr std::string_view on_cpu = "cpu", on_cuda = "cuda", on_cpu_and_cuda = "cpu cuda";

constexpr SelectAlgorithm catalogue[] = {
    {"auto", "cpu cuda", "", "the fastest here for the shape"},
#define VICINAL_SELECT(name, devices, source, about) {#name, on_##devices, source, about},
#include "select/algorithm.def"
#undef VICINAL_SELECT
};

}  // namespace

std::span<const SelectAlgorithm> select_algorithms() noexcept { return catalogue; }

void check_select_algorithm(const std::string& name) {
  std::vector<std::string> known;
  for (const SelectAlgorithm& algorithm : catalogue) {
    if (algorithm.name == name) return;
    known.emplace_back(algorithm.name);
  }
  refuse_name("algorithm", name, known);
}

bool select_runs_on(const std::string& name, std::string_view device) {
  for (const SelectAlgorithm& algorithm : catalogue)
    if (algorithm.name == name) return algorithm.devices.find(device) != std::string_view::npos;
  return false;
}

}  // namespace vicinal
