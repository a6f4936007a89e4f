// The candidates of a permutation index on a device: from ranks that lie there to the numbers of the nearest objects, and a few
// queries held against a full sort on the host. Built by hand where a GPU is:
//   nvcc -std=c++20 -O2 -gencode=arch=compute_90a,code=sm_90a -fmad=false -I include -I src -I bench bench/bench_footrule.cu
//     src/core/error.cpp src/core/text.cpp -o bench_footrule
//   bench_footrule [--objects 1048576] [--queries 1000] [--permutants 64] [--share 0.01] [--seconds 1]
// Prints a line for each way, as CSV: way, objects, queries, permutants, candidates, milliseconds, pairs a second, ranks a second.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/device/launch.cuh"
#include "cuda/permutation/sequence.hpp"
#include "device_timing.cuh"

namespace {

using namespace vicinal::cuda;
using bench::must;

template <class T>
T* room(std::int64_t count) {
  T* at = nullptr;
  must(cudaMalloc(&at, static_cast<std::size_t>(count) * sizeof(T)));
  return at;
}

/// Orders of the permutants, each near one of a hundred others; as bytes, a row an object.
std::vector<std::uint8_t> orders(std::mt19937& random, std::int64_t count, int permutants, int words) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(count * 4 * words), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t* row = all.data() + i * 4 * words;
    if (i < 100) {
      std::iota(row, row + permutants, std::uint8_t{0});
      std::shuffle(row, row + permutants, random);
      continue;
    }
    std::copy_n(all.data() + random() % 100 * static_cast<unsigned>(4 * words), permutants, row);
    for (int change = 0; change < permutants; ++change)
      std::swap(row[random() % static_cast<unsigned>(permutants)], row[random() % static_cast<unsigned>(permutants)]);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t objects = 1 << 20, queries = 1000;
  int permutants = 64;
  double share = 0.01, seconds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--objects") == 0) objects = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--queries") == 0) queries = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--permutants") == 0) permutants = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--share") == 0) share = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
  }
  const int words = padded_rank_words(permutants);
  if (words > most_rank_words) return std::fprintf(stderr, "at most %d permutants\n", 4 * most_rank_words), 2;
  std::mt19937 random(1);
  const std::vector<std::uint8_t> rows = orders(random, objects, permutants, words),
                                  asked = orders(random, queries, permutants, words);
  std::vector<std::uint32_t> packed(static_cast<std::size_t>(objects * words)),
      query_words(static_cast<std::size_t>(queries * words));
  for (std::int64_t i = 0; i < objects; ++i)
    for (int w = 0; w < words; ++w)
      std::memcpy(&packed[static_cast<std::size_t>(w * objects + i)], rows.data() + (i * words + w) * 4, 4);
  std::memcpy(query_words.data(), asked.data(), asked.size());

  RanksArgs args{.pitch = objects, .count = objects, .query_count = queries, .words = words};
  args.candidates = std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(objects)));
  args.bins = static_cast<std::uint32_t>(permutants * permutants / 4 + 1);
  args.strips = strips_of(objects);
  auto* ranks = room<std::uint32_t>(objects * words);
  auto* at_queries = room<std::uint32_t>(queries * words);
  must(cudaMemcpy(ranks, packed.data(), packed.size() * 4, cudaMemcpyHostToDevice));
  must(cudaMemcpy(at_queries, query_words.data(), query_words.size() * 4, cudaMemcpyHostToDevice));
  args.objects = ranks;
  args.queries = at_queries;
  args.histogram = room<std::uint32_t>(queries * args.bins);
  args.last = room<std::uint32_t>(queries);
  args.equal_taken = room<std::uint32_t>(queries);
  args.below = room<std::uint32_t>(queries * args.strips);
  args.equal = room<std::uint32_t>(queries * args.strips);
  args.found = room<std::uint32_t>(queries * args.candidates);
  int multiprocessors = 0;
  must(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  CudaLaunch launch{nullptr};
  args.capacity = list_capacity(args.candidates, objects);
  args.counts = room<std::uint32_t>(queries);
  args.list = room<unsigned long long>(queries * args.capacity);
  args.failed = room<std::uint32_t>(queries);
  const auto clear = [&](std::uint32_t* at, std::int64_t count) {
    must(cudaMemsetAsync(at, 0, static_cast<std::size_t>(queries * count) * 4));
  };

  std::vector<std::vector<std::uint32_t>> expected;
  for (std::int64_t query = 0; query < std::min<std::int64_t>(queries, 8); ++query) {
    std::vector<std::pair<int, std::uint32_t>> scored;
    for (std::int64_t i = 0; i < objects; ++i) {
      int score = 0;
      for (int p = 0; p < 4 * words; ++p)
        score += std::abs(int{asked[static_cast<std::size_t>(query * 4 * words + p)]} -
                          int{rows[static_cast<std::size_t>(i * 4 * words + p)]});
      scored.emplace_back(score, static_cast<std::uint32_t>(i));
    }
    std::nth_element(scored.begin(), scored.begin() + args.candidates - 1, scored.end());
    std::vector<std::uint32_t>& ids = expected.emplace_back();
    for (std::int64_t i = 0; i < args.candidates; ++i) ids.push_back(scored[static_cast<std::size_t>(i)].second);
    std::sort(ids.begin(), ids.end());
  }
  const double pairs = static_cast<double>(objects) * static_cast<double>(queries);
  bool right = true;
  const auto measure = [&](const char* way, const auto& run) {
    clear(args.found, args.candidates);
    const double ms = bench::median_ms(nullptr, seconds, run);
    std::vector<std::uint32_t> found(static_cast<std::size_t>(args.candidates));
    for (std::size_t query = 0; query < expected.size(); ++query) {
      must(cudaMemcpy(found.data(), args.found + static_cast<std::int64_t>(query) * args.candidates, found.size() * 4,
                      cudaMemcpyDeviceToHost));
      std::sort(found.begin(), found.end());
      if (found != expected[query])
        std::fprintf(stderr, "%s, query %zu: other candidates than a full sort's\n", way, query), right = false;
    }
    std::printf("%s,%lld,%lld,%d,%lld,%.3f,%.3e,%.3e\n", way, static_cast<long long>(objects),
                static_cast<long long>(queries), permutants, static_cast<long long>(args.candidates), ms,
                pairs / ms * 1e3, pairs * permutants / ms * 1e3);
    std::fflush(stdout);
  };
  measure("counted", [&] {
    clear(args.histogram, args.bins), clear(args.below, args.strips), clear(args.equal, args.strips);
    run_footrule(args, 8 * multiprocessors, launch);
  });
  const auto near = [&](const char* way, const auto& how) {
    measure(way, [&] {
      clear(args.histogram, args.bins), clear(args.counts, 1);
      how();
    });
    std::vector<std::uint32_t> failed(static_cast<std::size_t>(queries));
    must(cudaMemcpy(failed.data(), args.failed, failed.size() * 4, cudaMemcpyDeviceToHost));
    const auto lost = std::count(failed.begin(), failed.end(), 1u);
    if (lost > 0) std::fprintf(stderr, "%s: %lld queries failed\n", way, static_cast<long long>(lost));
  };
  near("near", [&] { run_sampled(args, multiprocessors, least_sample, launch); });
  return right ? 0 : 1;
}
