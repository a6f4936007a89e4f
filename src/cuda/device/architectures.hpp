// The devices that libvicinal_cuda.so has code for: a list of architectures as CMake spells them, with commas
// ("80-virtual,90a-real").
#pragma once
#include <algorithm>
#include <string_view>

namespace vicinal::cuda {

/// An architecture of the list: "90a-real" is {90, true, real code alone}.
struct Architecture {
  std::string_view name;  // "90a"
  int capability = 0;     // 10 * major + minor
  bool alone = false;     // a letter: for this capability and no other
  bool real = true, ptx = true;

  explicit Architecture(std::string_view text) {
    std::size_t at = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      capability = capability * 10 + (text[at] - '0');
    const std::string_view kind = text.substr(std::min(text.find('-'), text.size())),
                           letters = text.substr(at, text.size() - at - kind.size());
    name = text.substr(0, text.size() - kind.size());
    alone = !letters.empty();
    real = kind != "-virtual";
    ptx = kind != "-real";
  }
  /// Machine code runs within its major version, PTX on all that are newer, either with a letter on its own alone.
  bool runs(int on) const {
    if (alone) return on == capability;
    return on >= capability && (ptx || (real && on / 10 == capability / 10));
  }
};

/// Whether any of the list is as `holds` says.
template <class Holds>
bool any_architecture(std::string_view list, const Holds& holds) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (holds(Architecture(list.substr(0, end)))) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// Whether a build for this list has code for compute capability `capability`.
inline bool has_code(std::string_view list, int capability) {
  return any_architecture(list, [&](const Architecture& one) { return one.runs(capability); });
}
/// Whether some of that code is for the architecture `name` with its
/// letter ("90a"), whose instructions no other one's compiler has.
inline bool has_code_of(std::string_view name, std::string_view list, int capability) {
  return any_architecture(list, [&](const Architecture& one) { return one.name == name && one.runs(capability); });
}

}  // namespace vicinal::cuda
