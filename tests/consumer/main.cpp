// A program of ten lines against an installed vicinal: what the CMake package must be good for.
#include <cstdio>
#include <vector>
#include <vicinal/vicinal.hpp>

int main() {
  const std::vector<float> corpus = {0, 0, 3, 4, 6, 8, 3, 4}, queries = {3, 4};
  const auto near = vicinal::knn(vicinal::MatrixView<float>{corpus.data(), 4, 2},
                                 vicinal::MatrixView<float>{queries.data(), 1, 2}, {.k = 3});
  std::printf("%lld %g\n", static_cast<long long>(near.id(0, 1)), near.distance(0, 2));
  return near.id(0, 0) == 1 && near.id(0, 1) == 3 && near.id(0, 2) == 0 && near.distance(0, 2) == 5 ? 0 : 1;
}
