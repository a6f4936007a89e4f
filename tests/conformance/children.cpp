#include "conformance/children.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

struct Answered {
  Table corpus, queries;
  vicinal::KnnOptions options;
  Answered() {
    Rng rng(6);
    corpus = gaussian(rng, DType::f32, 4000, 24), queries = gaussian(rng, DType::f32, 200, 24);
    options.k = 5;
  }
  vicinal::Neighbors search(int threads) {
    options.run.threads = threads;
    return vicinal::knn(corpus.points(), queries.points(), options);
  }
};

// "LIMIT": searches by one thread, then by four where the system lets this user have LIMIT of them in all; prints how many there were.
// Root has no such limit, so it becomes another user.
int refused(const std::string& argument) {
  Answered one;
  const vicinal::Neighbors want = one.search(1);
  if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0))
    return std::puts("cannot become another user"), 0;
  const rlimit limit{std::stoul(argument), std::stoul(argument)};
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0) return std::puts("cannot set a limit"), 0;
  const vicinal::Neighbors got = one.search(4);
  vicinal::RangeOptions range;
  range.search.run.threads = 4;
  vicinal::range_search(one.corpus.points(), one.queries.points(), 5.0, range);
  std::printf("threads %d notes %zu %s\n", got.stats.threads, got.stats.notes.size(), difference(got, want).c_str());
  return 0;
}

// "THREADS": so many threads search at once, each call by another number of threads, most of them beyond the cores.
int differing(const std::string& argument) {
  Answered one;
  const vicinal::Neighbors want = one.search(1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < std::stoi(argument); ++caller)
    callers.emplace_back([&, caller] {
      Answered own;
      for (int call = 0; call < 6; ++call)
        wrong += difference(own.search(2 + (caller * 11 + call * 5) % 40), want).empty() ? 0 : 1;
    });
  for (std::thread& caller : callers) caller.join();
  return std::printf("%d wrong\n", wrong.load()), 0;
}
}  // namespace

int child_main(const char* job, const char* argument) {
  try {
    if (std::strcmp(job, "memory") == 0) return memory(argument);
    if (std::strcmp(job, "growth") == 0) return growth(argument);
    if (std::strcmp(job, "refused") == 0) return refused(argument);
    if (std::strcmp(job, "differing") == 0) return differing(argument);
  } catch (const std::exception& error) {
    std::printf("error %s\n", error.what());
    return 1;
  }
  return std::printf("unknown job %s\n", job), 1;
}

}  // namespace conformance
