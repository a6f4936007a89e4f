// The table of metrics, read from metric.def, and names to metrics.
#include "core/metric.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"

namespace vicinal {
namespace {

template <class... Names>
constexpr auto alias_array(Names... names) {
  return std::array<std::string_view, sizeof...(Names)>{std::string_view(names)...};
}

#define ALIASES(...) alias_array(__VA_ARGS__)
#define METRIC(name, aliases, form, descends, formula) constexpr auto aliases_##name = aliases;
#include "core/metric.def"
#undef METRIC

constexpr MetricInfo table[] = {
#define METRIC(name, aliases, form, descends, formula) \
  MetricInfo{Metric::name, #name, std::span<const std::string_view>(aliases_##name), descends, formula, \
             Form::form != Form::strings && Form::form != Form::indexed, Form::form == Form::strings || Metric::name == Metric::hamming},
#include "core/metric.def"
#undef METRIC
};

constexpr Form forms[] = {
#define METRIC(name, aliases, form, descends, formula) Form::form,
#include "core/metric.def"
#undef METRIC
};

// What other tools call these. Not aliases, because l2 means two things; only hints.
constexpr std::pair<std::string_view, std::string_view> foreign[] = {
    {"l2", "euclidean\" or \"sqeuclidean"}, {"l2sq", "sqeuclidean"},
    {"sql2", "sqeuclidean"}, {"squared_euclidean", "sqeuclidean"}, {"l2_squared", "sqeuclidean"},
    {"ip", "inner_product"}, {"dot", "inner_product"}, {"dotproduct", "inner_product"},
    {"innerproduct", "inner_product"}, {"max_inner_product", "inner_product"}, {"angular", "cosine"},
    {"cos", "cosine"}, {"cosinesimil", "cosine"}, {"pearson", "correlation"}, {"taxicab", "l1"},
    {"infinity", "linf"}, {"max", "linf"}, {"bit_hamming", "hamming"}, {"bitwise_hamming", "hamming"},
    {"edit", "levenshtein"}, {"edit_distance", "levenshtein"}, {"lev", "levenshtein"}, {"leven", "levenshtein"},
    {"normed_levenshtein", "normalized_levenshtein"}, {"tanimoto", "jaccard"},
    {"js", "jensen_shannon"}, {"jensenshannon", "jensen_shannon"}, {"kl", "kullback_leibler"}, {"earth_mover", "emd"},
};

}  // namespace

std::span<const MetricInfo> metrics() noexcept { return table; }

std::vector<std::string> metric_names(bool MetricInfo::*fact) {
  std::vector<std::string> names;
  for (const MetricInfo& info : metrics())
    if (info.*fact) names.emplace_back(info.name);
  return names;
}
const MetricInfo& metric_info(Metric metric) noexcept { return table[static_cast<std::size_t>(metric)]; }
Form form_of(Metric metric) noexcept { return forms[static_cast<std::size_t>(metric)]; }

namespace {

/// "sqeuclidean, ..., l1, cityblock, ...": names and aliases of the metrics for which takes(info).
template <class Takes>
std::string names_where(const Takes& takes) {
  std::vector<std::string> names;
  for (const MetricInfo& info : table) {
    if (!takes(info)) continue;
    names.emplace_back(info.name);
    names.insert(names.end(), info.aliases.begin(), info.aliases.end());
  }
  return joined(names);
}

}  // namespace

Metric parse_metric(std::string_view name) {
  std::vector<std::string> known;
  for (const MetricInfo& info : table) {
    if (info.name == name) return info.metric;
    known.emplace_back(info.name);
    for (std::string_view alias : info.aliases) {
      if (alias == name) return info.metric;
      known.emplace_back(alias);
    }
  }
  std::string meant;
  for (const auto& [word, ours] : foreign)
    if (word == name) meant = ours;
  if (meant.empty()) meant = nearest_name(name, known);
  fail(ErrorCode::invalid_argument,
       cat("unknown metric \"", name, "\"", meant.empty() ? "" : cat("; did you mean \"", meant, "\"?"),
           meant.empty() ? "; metrics" : " metrics",
           " of vectors: ", names_where([](const MetricInfo& info) { return info.vectors; }),
           "; of strings: ", names_where([](const MetricInfo& info) { return info.strings; }),
           "; of permutation indexes, which take all: ",
           names_where([](const MetricInfo& info) { return !info.vectors && !info.strings; })));
}

}  // namespace vicinal
