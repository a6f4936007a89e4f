#include "oracle/lists.hpp"

#include <algorithm>
#include <cmath>

namespace oracle {
using vicinal::ErrorCode;

Lists range(const Rows& corpus, const Rows& queries, double radius, const SearchSpec& ask) {
  const Keys keys(corpus, queries, ask);
  Lists lists;
  lists.type = keys.type;
  lists.error = keys.error;
  lists.other_error = keys.other_error;
  const auto refuse = [&](ErrorCode code) {
    lists.error = code;
    return lists;
  };
  if (std::isnan(radius)) return refuse(ErrorCode::invalid_argument);
  if (lists.error) return lists;
  for (std::int64_t q = 0; q < queries.n; ++q) {
    for (const Entry& entry : ranked(keys, corpus.n, q, ask)) {
      const bool within = ask.metric == vicinal::Metric::inner_product ? entry.key >= radius : entry.key <= radius;
      if (!within) continue;
      if (!std::isfinite(entry.key)) return refuse(ErrorCode::range_error);
      lists.append(entry);
    }
    lists.end_row();
  }
  return lists;
}

Answer graph(const Rows& rows, SearchSpec ask, bool include_self) {
  ask.without_self = !include_self;
  if (ask.eligible.query_labels.empty()) ask.eligible.query_labels = ask.eligible.corpus_labels;
  return knn(rows, rows, ask);
}

Lists listed(const Answer& graph) {
  Lists lists;
  lists.type = graph.type;
  for (std::int64_t i = 0; i < graph.rows; ++i) {
    for (std::int64_t j = 0; j < graph.k; ++j) {
      const auto at = static_cast<std::size_t>(i * graph.k + j);
      if (graph.ids[at] >= 0) lists.append({graph.keys[at], graph.ids[at]});
    }
    lists.end_row();
  }
  return lists;
}

Lists symmetrized(const Answer& graph, bool both) {
  const auto n = static_cast<std::size_t>(graph.rows);
  std::vector<std::vector<std::optional<double>>> edge(n, std::vector<std::optional<double>>(n));
  for (std::size_t at = 0; at < graph.ids.size(); ++at)
    if (graph.ids[at] >= 0)
      edge[at / static_cast<std::size_t>(graph.k)][static_cast<std::size_t>(graph.ids[at])] = graph.keys[at];
  Lists lists;
  lists.type = graph.type;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const auto &there = edge[i][j], &back = edge[j][i];
      if (both ? there && back : there || back) lists.append({there ? *there : *back, static_cast<std::int64_t>(j)});
    }
    lists.end_row();
  }
  return lists;
}

}  // namespace oracle
