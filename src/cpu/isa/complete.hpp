// Whether a table of kernels has every entry, asked when it is
// compiled: one that is null would be found by a search alone.
#pragma once
#include <type_traits>

namespace vicinal::cpu {

template <class Entry>
consteval bool is_set(const Entry& entry) {
  if constexpr (std::is_array_v<Entry>) {
    for (const auto& one : entry)
      if (!is_set(one)) return false;
    return true;
  } else if constexpr (requires { entry.complete(); }) {
    return entry.complete();
  } else {
    return entry != nullptr;
  }
}
template <class... Entries>
consteval bool all_set(const Entries&... entries) {
  return (is_set(entries) && ...);
}

}  // namespace vicinal::cpu
