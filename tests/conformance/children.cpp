#include "conformance/children.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <thread>

#include "conformance/settings.hpp"

namespace conformance {

std::int64_t anonymous_bytes() {
  FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return -1;
  char line[256];
  long long kib = -1;
  while (std::fgets(line, sizeof line, status) != nullptr)
    if (std::sscanf(line, "RssAnon: %lld", &kib) == 1) break;
  std::fclose(status);
  return kib * 1024;
}

namespace {
// Highest RssAnon above the value at construction, looked at about a thousand times a second.
class Peak {
 public:
  Peak() : watcher_([this] { watch(); }) {
    while (!ready_) std::this_thread::yield();
  }
  std::int64_t stop() {
    done_ = true;
    watcher_.join();
    return highest_ - start_;
  }

 private:
  void watch() {
    start_ = highest_ = anonymous_bytes();
    ready_ = true;
    while (!done_) {
      highest_ = std::max(highest_.load(), anonymous_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::atomic<bool> ready_{false}, done_{false};
  std::atomic<std::int64_t> start_{0}, highest_{0};
  std::thread watcher_;
};

std::uint64_t fnv(const void* data, std::size_t size, std::uint64_t hash = 1469598103934665603u) {
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  return hash;
}

// "FILE rows cols queries k metric budget prepared": rows of f32 mapped from FILE; prints peak, budget kept and a hash of the result.
int memory(const std::string& argument) {
  std::istringstream in(argument);
  std::string file, metric;
  std::int64_t rows = 0, cols = 0, query_count = 0, k = 0, budget = 0;
  bool prepared = false;
  in >> file >> rows >> cols >> query_count >> k >> metric >> budget >> prepared;
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  const std::size_t size = static_cast<std::size_t>(rows * cols) * sizeof(float);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (descriptor < 0 || mapped == MAP_FAILED) return std::puts("cannot map"), 1;
  const vicinal::Points corpus(mapped, DType::f32, rows, cols), queries(mapped, DType::f32, query_count, cols);

  const std::size_t cells = static_cast<std::size_t>(query_count * k);
  std::vector<std::int64_t> ids(cells, 1);
  std::vector<float> distances(cells, 1);
  const vicinal::NeighborsView out{ids.data(), distances.data(), vicinal::DistanceType::f32, query_count, k, nullptr};
  vicinal::KnnOptions options;
  options.metric = vicinal::parse_metric(metric);
  options.k = k;
  options.memory.host = budget;
  options.run.threads = 2;
  Peak peak;
  if (prepared)
    vicinal::Corpus(corpus, {.metric = options.metric, .memory = options.memory, .run = options.run})
        .knn_into(out, queries, options);
  else vicinal::knn_into(out, corpus, queries, options);
  const std::int64_t highest = peak.stop();
  std::printf("peak %lld hash %llu\n", static_cast<long long>(highest),
              static_cast<unsigned long long>(
                  fnv(ids.data(), cells * sizeof ids[0], fnv(distances.data(), cells * sizeof distances[0]))));
  return 0;
}

// "CALLS": grows by how much over CALLS searches, after a tenth as many to warm up.
int growth(const std::string& argument) {
  const int calls = std::stoi(argument);
  Rng rng(5);
  const Table corpus = gaussian(rng, DType::f32, 3000, 32), queries = gaussian(rng, DType::f32, 4, 32);
  const vicinal::Corpus prepared(corpus.points(), {.metric = Metric::euclidean});
  const auto call = [&](int i) {
    vicinal::KnnOptions options;
    options.k = 1 + i % 20;
    options.run.threads = 1 + i % 3;
    options.metric = i % 2 ? Metric::cosine : Metric::l1;
    vicinal::knn(corpus.points(), queries.points(), options);
    prepared.knn(queries.points(), options);
  };
  for (int i = 0; i < calls / 5; ++i) call(i);
  const std::int64_t before = anonymous_bytes();
  for (int i = 0; i < calls; ++i) call(i);
  std::printf("growth %lld\n", static_cast<long long>(anonymous_bytes() - before));
  return 0;
}
}  // namespace

int child_main(const char* job, const char* argument) {
  try {
    if (std::strcmp(job, "memory") == 0) return memory(argument);
    if (std::strcmp(job, "growth") == 0) return growth(argument);
  } catch (const std::exception& error) {
    std::printf("error %s\n", error.what());
    return 1;
  }
  return std::printf("unknown job %s\n", job), 1;
}

}  // namespace conformance
