// A small program against an installed vicinal: what the CMake package must be good for.
#include <cstdio>
#include <vector>
#include <vicinal/vicinal.hpp>

int main() {
  const std::vector<float> corpus = {0, 0, 3, 4, 6, 8, 3, 4}, queries = {3, 4};
  const vicinal::MatrixView<float> rows{corpus.data(), 4, 2}, asked{queries.data(), 1, 2};
  const auto near = vicinal::knn(rows, asked, {.k = 3});
  std::printf("%lld %g\n", static_cast<long long>(near.id(0, 1)), near.distance(0, 2));
  const auto graph = vicinal::knn_graph(rows, {.k = 2});
  const auto mutual = vicinal::symmetrize(graph, vicinal::Symmetrize::mutual);
  const auto within = vicinal::range_search(rows, asked, 5, {.metric = vicinal::Metric::euclidean});
  const auto all = vicinal::range_search(rows, asked, 5);
  const auto others = vicinal::knn_graph(rows, {.search = {.k = 2}, .include_self = true});
  const bool ok = near.id(0, 0) == 1 && near.id(0, 1) == 3 && near.id(0, 2) == 0 && near.distance(0, 2) == 5 &&
                  graph.id(1, 0) == 3 && mutual.count(1) == 2 && within.count(0) == 4 && all.count(0) == 4 &&
                  others.id(3, 0) == 1;
  return ok ? 0 : 1;
}
