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
#define METRIC(name, aliases, ...) constexpr auto aliases_##name = aliases;
#include "core/metric.def"
#undef METRIC

constexpr MetricInfo info_of(Metric metric, std::string_view name, std::span<const std::string_view> aliases,
                             std::string_view formula) {
  const Compares sides = row_of(metric).compares;
  return {metric,
          name,
          aliases,
          descending(metric),
          formula,
          sides == Compares::rows || sides == Compares::rows_or_strings,
          sides == Compares::strings || sides == Compares::rows_or_strings};
}

constexpr MetricInfo table[] = {
#define METRIC(name, aliases, compares, sum, finish, filter, direction, result, triangle, formula) \
  info_of(Metric::name, #name, aliases_##name, formula),
#include "core/metric.def"
#undef METRIC
};

// What other tools call these. Not aliases, because l2 means two things; only hints.
constexpr std::pair<std::string_view, std::string_view> foreign[] = {
    {"l2", "euclidean\" or \"sqeuclidean"},
    {"l2sq", "sqeuclidean"},
    {"sql2", "sqeuclidean"},
    {"squared_euclidean", "sqeuclidean"},
    {"l2_squared", "sqeuclidean"},
    {"ip", "inner_product"},
    {"dot", "inner_product"},
    {"dotproduct", "inner_product"},
    {"innerproduct", "inner_product"},
    {"max_inner_product", "inner_product"},
    {"angular", "cosine"},
    {"cos", "cosine"},
    {"cosinesimil", "cosine"},
    {"pearson", "correlation"},
    {"taxicab", "l1"},
    {"infinity", "linf"},
    {"max", "linf"},
    {"bit_hamming", "hamming"},
    {"bitwise_hamming", "hamming"},
    {"edit", "levenshtein"},
    {"edit_distance", "levenshtein"},
    {"lev", "levenshtein"},
    {"leven", "levenshtein"},
    {"normed_levenshtein", "normalized_levenshtein"},
    {"tanimoto", "jaccard"},
    {"js", "jensen_shannon"},
    {"jensenshannon", "jensen_shannon"},
    {"kl", "kullback_leibler"},
    {"earth_mover", "emd"},
};

static_assert(
    [] {
      for (std::size_t i = 0; i < std::size(table); ++i)
        if (static_cast<std::size_t>(table[i].metric) != i) return false;
      return true;
    }(),
    "metric_info finds a metric by its number: the rows of metric.def are in the order of enum Metric");

}  // namespace

std::span<const MetricInfo> metrics() noexcept { return table; }

std::vector<std::string> metric_names(bool MetricInfo::*fact) {
  std::vector<std::string> names;
  for (const MetricInfo& info : metrics())
    if (info.*fact) names.emplace_back(info.name);
  return names;
}
const MetricInfo& metric_info(Metric metric) noexcept { return table[static_cast<std::size_t>(metric)]; }

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

Metric parse_metric(std::string_view name) { return parse_metric(name, nullptr); }

Metric parse_metric(std::string_view name, bool MetricInfo::*sort) {
  std::vector<std::string> known;
  std::string meant;
  for (const MetricInfo& info : table) {
    const bool taken = sort == nullptr || info.*sort;
    if (info.name == name) return info.metric;
    if (taken) known.emplace_back(info.name);
    for (std::string_view alias : info.aliases) {
      if (alias == name) return info.metric;
      if (taken) known.emplace_back(alias);
    }
    for (const auto& [word, ours] : foreign)
      if (taken && word == name && ours.substr(0, ours.find('"')) == info.name) meant = ours;
  }
  if (meant.empty()) meant = nearest_name(name, known);
  const std::string all =
      sort != nullptr ? cat("metrics: ", joined(known))
                      : cat("metrics of vectors: ", names_where([](const MetricInfo& info) { return info.vectors; }),
                            "; of strings: ", names_where([](const MetricInfo& info) { return info.strings; }),
                            "; of permutation indexes, which take all: ",
                            names_where([](const MetricInfo& info) { return !info.vectors && !info.strings; }));
  refuse_name("metric", name, meant, all);
}

}  // namespace vicinal
