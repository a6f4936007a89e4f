#include "conformance/families.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace conformance {

void Scene::resize(std::int64_t dims) {
  d = dims;
  corpus.assign(static_cast<std::size_t>(n * d), 0);
  queries.assign(static_cast<std::size_t>(q * d), 0);
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> list = tie_families();
    const std::vector<Family> numbers = number_families();
    list.insert(list.end(), numbers.begin(), numbers.end());
    return list;
  }();
  return all;
}

std::pair<Table, Table> to_tables(const Scene& scene) {
  double scale = 1, shift = 0;
  double low = 0, high = 0;
  bool whole = true;
  for (const auto* values : {&scene.corpus, &scene.queries})
    for (const double v : *values) {
      low = std::min(low, v);
      high = std::max(high, v);
      whole = whole && v == std::nearbyint(v);
    }
  const double bottom = scene.dtype == DType::u8   ? 0
                        : scene.dtype == DType::i8 ? -128
                                                   : -max_finite(scene.dtype),
               top = max_finite(scene.dtype);
  const bool integers = scene.dtype == DType::u8 || scene.dtype == DType::i8;
  if (integers && !(whole && low >= bottom && high <= top)) {
    const double span = high - low;  // the whole span onto the whole range
    scale = span > 0 ? (top - bottom) / span : 0;
    shift = bottom - low * scale;
    if (!std::isfinite(scale) || !std::isfinite(shift)) scale = 0, shift = bottom;
  } else if (!integers && std::max(-low, high) > top) {
    scale = std::ldexp(1.0, std::ilogb(top) - std::ilogb(std::max(-low, high)));  // exact: ties and ulps stay
  }
  auto table = [&](std::int64_t n, std::vector<double> values) {
    for (double& v : values) v = v * scale + shift;
    return Table(scene.dtype, n, scene.d, values);
  };
  return {table(scene.n, scene.corpus), table(scene.q, scene.queries)};
}

void fill_gauss(Rng& rng, std::vector<double>& values, double mean, double sigma) {
  for (double& v : values) v = mean + sigma * rng.gauss();
}

void reorder_rows(Scene& scene, const std::vector<std::int64_t>& order) {
  const std::vector<double> old = scene.corpus;
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(old.begin() + order[i] * scene.d, scene.d,
                scene.corpus.begin() + static_cast<std::int64_t>(i) * scene.d);
}

std::vector<std::int64_t> order_by_distance(Scene& scene) {
  std::vector<double> distance(static_cast<std::size_t>(scene.n));
  for (std::int64_t i = 0; i < scene.n; ++i)
    distance[static_cast<std::size_t>(i)] =
        oracle::canonical(Metric::sqeuclidean, scene.query(0), scene.row(i), scene.d);
  std::vector<std::int64_t> order(static_cast<std::size_t>(scene.n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return distance[static_cast<std::size_t>(a)] < distance[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace conformance
