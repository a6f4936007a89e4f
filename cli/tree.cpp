// See tree.hpp.
#include "tree.hpp"

#include "vicinal/metric.hpp"

namespace cli {

ValueHint value_hint(const OptionNode& option) {
  ValueHint hint;
  hint.files = option.value == "FILE";
  hint.folders = option.value == "DIR";
  if (option.value == "METRIC") {
    for (const vicinal::MetricInfo& metric : vicinal::metrics()) {
      hint.words.emplace_back(metric.name);
      for (const std::string_view alias : metric.aliases) hint.words.emplace_back(alias);
    }
  }
  if (option.value.find('|') == std::string::npos) return hint;
  for (std::size_t from = 0, bar = 0; bar != std::string::npos; from = bar + 1) {
    bar = option.value.find('|', from);
    hint.words.push_back(option.value.substr(from, bar - from));
  }
  return hint;
}

}  // namespace cli
