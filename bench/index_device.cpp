// A whole search of a permutation index on a device and on the host, held against each other bit by bit: clustered rows of floats,
// true distances included. Target index_device; prints a line for each, as CSV:
//   device, objects, queries, columns, permutants, share, k, milliseconds, pairs a second
//   index_device --rows FILE --asked FILE --metric METRIC ...      files as the command reads them, in place of clustered rows
//   index_device [--objects 1048576] [--queries 1000] [--columns 128] [--permutants 64] [--share 0.01] [--k 10] [--times 20] [--device cuda]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "vicinal/error.hpp"
#include "vicinal/io.hpp"
#include "vicinal/permutation_index.hpp"

using namespace vicinal;

namespace {

/// Clusters with noise.
std::vector<float> clustered(std::int64_t count, std::int64_t columns) {
  constexpr std::size_t clusters = 1024, noises = 1 << 20;
  const auto width = static_cast<std::size_t>(columns);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> centres(clusters * width), noise(noises), rows(static_cast<std::size_t>(count) * width);
  for (float& x : centres) x = normal(random);
  for (float& x : noise) x = 0.7F * normal(random);
  for (std::size_t i = 0; i < rows.size(); i += width) {
    const std::size_t centre = random() % clusters * width, from = random();
    for (std::size_t c = 0; c < width; ++c) rows[i + c] = centres[centre + c] + noise[(from + c) % noises];
  }
  return rows;
}

struct Asked {
  std::int64_t k, times;
  int threads;
  double share;
  std::string device;
};

template <class Objects>
int run(const Objects& objects, const Objects& queries, const PermutationOptions& options, const Asked& ask) {
  const PermutationIndex index(objects, options);
  std::fprintf(stderr, "built in %.2f s\n", index.build_seconds());
  const double pairs = static_cast<double>(objects.rows) * static_cast<double>(queries.rows);
  const auto measure = [&](const std::string& where, std::int64_t often) {
    const PermutationSearch search{.k = ask.k, .fraction = ask.share, .run = {.device = where, .threads = ask.threads}};
    PermutationNeighbors found = index.knn(queries, search);  // the first takes the index there
    std::fprintf(stderr, "first search on %s: %.1f ms\n", where.c_str(), found.neighbors.stats.seconds * 1e3);
    for (const std::string& note : found.neighbors.stats.notes) std::fprintf(stderr, "%s\n", note.c_str());
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < often; ++i) {
      const auto start = std::chrono::steady_clock::now();
      found = index.knn(queries, search);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    std::printf("%s,%lld,%lld,%lld,%lld,%g,%lld,%.3f,%.3e\n", found.neighbors.stats.device.c_str(),
                static_cast<long long>(objects.rows), static_cast<long long>(queries.rows),
                static_cast<long long>(index.cols()), static_cast<long long>(options.permutants), ask.share,
                static_cast<long long>(ask.k), median * 1e3, pairs / median);
    std::fflush(stdout);
    return found;
  };
  const PermutationNeighbors there = measure(ask.device, ask.times), here = measure("cpu", 3);
  const auto count = static_cast<std::size_t>(queries.rows * ask.k);
  const bool same = std::memcmp(there.neighbors.ids(), here.neighbors.ids(), count * 8) == 0 &&
                    std::memcmp(there.neighbors.distances(), here.neighbors.distances(),
                                count * distance_size(here.neighbors.type())) == 0;
  std::printf("%s\n", same ? "same bits" : "OTHER BITS");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  std::int64_t objects = 1 << 20, queries = 1000, columns = 128, permutants = 64, k = 10, times = 20, threads = 0;
  double share = 0.01;
  std::string device = "cuda", corpus, asked, metric = "euclidean";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--objects") == 0) objects = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--queries") == 0) queries = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--columns") == 0) columns = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--permutants") == 0) permutants = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--share") == 0) share = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--k") == 0) k = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--times") == 0) times = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--device") == 0) device = argv[i + 1];
    if (std::strcmp(argv[i], "--rows") == 0) corpus = argv[i + 1];
    if (std::strcmp(argv[i], "--asked") == 0) asked = argv[i + 1];
    if (std::strcmp(argv[i], "--metric") == 0) metric = argv[i + 1];
  }
  const PermutationOptions options{.metric = parse_metric(metric), .permutants = permutants, .bounds = false};
  const Asked ask{k, times, static_cast<int>(threads), share, device};
  if (corpus.empty()) {
    const std::vector<float> rows = clustered(objects + queries, columns);
    return run(Points(rows.data(), DType::f32, objects, columns),
               Points(rows.data() + objects * columns, DType::f32, queries, columns), options, ask);
  }
  if (metric_info(options.metric).strings)
    return run(read_strings(corpus).view(), read_strings(asked).view(), options, ask);
  const Matrix rows = read_matrix(corpus), others = read_matrix(asked);
  return run(rows.points(), others.points(), options, ask);
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
