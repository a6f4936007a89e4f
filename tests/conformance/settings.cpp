#include "conformance/settings.hpp"

#include <algorithm>
#include <cstdio>

namespace conformance {

const char* memory_name(Memory memory) {
  return memory == Memory::ample ? "ample" : memory == Memory::third ? "a third" : "least";
}

const std::vector<std::string>& instruction_sets() {
  static const std::vector<std::string> usable = [] {
    const vicinal::Info info = vicinal::info();
    for (const std::string& name : info.built_instruction_sets)
      if (std::find(info.instruction_sets.begin(), info.instruction_sets.end(), name) == info.instruction_sets.end())
        std::printf("not run: %s (this CPU lacks it)\n", name.c_str());
    return info.instruction_sets;
  }();
  return usable;
}

const std::vector<std::string>& filters() {
  static const std::vector<std::string> names = vicinal::info().filters;
  return names;
}

std::string Setting::text() const {
  return instruction_set + " filter " + filter + " threads " + std::to_string(threads) + " memory " +
         memory_name(memory) + (proof == vicinal::Proof::exhaustive ? " exhaustive" : "");
}

Setting random_setting(Rng& rng) {
  const std::size_t filter = rng.chance(0.6) || filters().size() < 3 ? 0 : 1;  // bytes, then floats
  Setting setting{rng.pick(instruction_sets()), filters()[filter], rng.pick(all_threads), Memory::ample,
                  vicinal::Proof::certified};
  if (filter == 0 && rng.chance(0.5)) setting.filter = rng.chance(0.5) ? "rotated" : "projected";
  if (rng.chance(0.4)) setting.filter = rng.chance(0.7) ? "auto" : rng.pick(filters());
  if (rng.chance(0.3)) setting.memory = rng.pick(all_memory);
  if (rng.chance(0.1)) setting.proof = vicinal::Proof::exhaustive;
  return setting;
}

vicinal::Shape shape_of(const vicinal::Points& points) { return {points.rows, points.cols, points.dtype}; }

vicinal::KnnOptions apply(const Setting& setting, vicinal::KnnOptions options, const vicinal::Points& corpus,
                          const vicinal::Points& queries) {
  options.run.instruction_set = setting.instruction_set;
  options.run.filter = setting.filter;
  options.run.threads = setting.threads;
  options.proof = setting.proof;
  if (setting.memory != Memory::ample) {
    const vicinal::Plan plan = vicinal::plan(shape_of(corpus), shape_of(queries), options);
    options.memory.host =
        setting.memory == Memory::least ? plan.minimum_bytes : std::max(plan.minimum_bytes, plan.peak_bytes / 3);
  }
  return options;
}

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = [] {
    std::vector<Kind> list;
    for (const vicinal::MetricInfo& info : vicinal::metrics())
      for (const DType type : all_dtypes)
        if (applies(info.metric, type)) list.push_back({info.metric, type});
    return list;
  }();
  return kinds;
}

Table mixed_table(Rng& rng, DType type, std::int64_t n, std::int64_t d) {
  std::vector<double> values(static_cast<std::size_t>(n * d));
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = values.data() + i * d;
    const int style = static_cast<int>(rng.between(0, 3));
    for (std::int64_t j = 0; j < d; ++j) {
      if (style == 0) row[j] = static_cast<double>(rng.between(0, 4));
      if (style == 1) row[j] = 2 + 0.5 * rng.gauss();
      if (style == 2) row[j] = 20 + rng.gauss();
      if (style == 3) row[j] = i > 0 ? row[j - d] : 1;
    }
    row[0] = 1 + static_cast<double>(i % 5);
    if (d > 1) row[d - 1] = 7 + static_cast<double>(i % 3);
  }
  return {type, n, d, values};
}

}  // namespace conformance
