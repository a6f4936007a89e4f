// Named families of hostile data. Each fills corpus and queries with real values chosen against a stage of the search:
// ties against selection, quantization errors against the bound, magnitudes against scaling, order against the running threshold.
// A family knows the element type, since "one ulp" and "largest" depend on it; values are rounded to it afterwards.
#pragma once
#include <vector>

#include "conformance/support.hpp"

namespace conformance {

/// Shape and element type in, values out. A family that is about a shape (one_dimension, overflow_half_way) changes it.
struct Scene {
  DType dtype = DType::f32;
  Metric metric = Metric::euclidean;
  std::int64_t n = 1, q = 1, d = 1, k = 1;
  std::vector<double> corpus, queries;

  double* row(std::int64_t i) { return corpus.data() + i * d; }
  double* query(std::int64_t i) { return queries.data() + i * d; }
  void resize(std::int64_t dims);
};

struct Family {
  const char* name;
  void (*fill)(Rng&, Scene&);
};
/// families_ties.cpp and families_numbers.cpp, in that order.
const std::vector<Family>& families();
std::vector<Family> tie_families();
std::vector<Family> number_families();

/// Values as they are for floating types where they fit; scaled and moved into range where they do not.
std::pair<Table, Table> to_tables(const Scene& scene);

void fill_gauss(Rng& rng, std::vector<double>& values, double mean, double sigma);
void reorder_rows(Scene& scene, const std::vector<std::int64_t>& order);
/// Rows in order of exact squared distance to query 0.
std::vector<std::int64_t> order_by_distance(Scene& scene);

}  // namespace conformance
