// The frozen answers of tests/golden, read without any code of the library.
#pragma once
#include <string>
#include <vector>

#include "conformance/support.hpp"

namespace conformance {

struct GoldenPair {
  std::string name;  // "euclidean", "euclidean_f64"
  vicinal::KnnOptions options;
  oracle::Answer answer;
};
struct GoldenFile {
  std::string name;
  Table corpus, queries;
  std::vector<GoldenPair> pairs;
};
std::vector<GoldenFile> golden_files();

}  // namespace conformance
