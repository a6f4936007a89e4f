// Strings on a device: the k nearest words of every query by Levenshtein, from queries in host memory to results in host memory, and
// everything within r. Words stay on the device, as in a corpus that is kept. Answers are compared with the library's on the CPU.
//   bench_strings [--words FILE | --dna N] [--queries 4096] [--k 5] [--seconds 1] [--check 64]
// Without --words the words are made up: lengths and letters as in an English list, 69,069 of them; --dna N makes N strings of about 32
// letters out of four, with near copies among them. Prints one line a call, as CSV.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda/device/launch.cuh"
#include "cuda/strings/sequence.hpp"
#include "device_timing.cuh"
#include "vicinal/search.hpp"

namespace {

using namespace vicinal::cuda;
using bench::median_ms;
using bench::must;
using Key = unsigned long long;

template <class T>
T* on_device(const std::vector<T>& values) {
  T* at = nullptr;
  must(cudaMalloc(&at, (values.size() + 1) * sizeof(T)));
  must(cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return at;
}

std::vector<std::string> lines(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word);) words.push_back(word);
  if (words.empty()) {
    std::fprintf(stderr, "%s: no words\n", path);
    std::exit(1);
  }
  return words;
}

std::vector<std::string> made_up(std::size_t count, bool dna) {
  std::mt19937 random(7);
  const std::string letters =
      dna ? "ACGT" : "eeeeeeeeiiiiiiiaaaaaaannnnnnrrrrrrttttttoooooosssssslllllccccdddduuuugggpppmmmhhbbyffvkwzxjq";
  std::binomial_distribution<int> length(dna ? 64 : 17, 0.5);
  std::vector<std::string> words;
  while (words.size() < count) {
    if (dna && words.size() > 100 && random() % 4 == 0) {  // a near copy
      std::string word = words[random() % words.size()];
      for (int i = 0; i < 3 && !word.empty(); ++i) word[random() % word.size()] = letters[random() % letters.size()];
      words.push_back(word);
      continue;
    }
    std::string word(static_cast<std::size_t>(std::max(1, length(random))), ' ');
    for (char& c : word) c = letters[random() % letters.size()];
    words.push_back(word);
  }
  return words;
}

/// One side as the kernels read it.
struct PreparedMatrix {
  std::vector<std::uint8_t> codes;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint32_t> rows;
  const std::vector<std::string>& texts;

  PreparedMatrix(const std::vector<std::string>& given, const std::vector<int>& code_of)
      : rows(given.size()), texts(given) {
    std::iota(rows.begin(), rows.end(), 0u);
    std::stable_sort(rows.begin(), rows.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return given[a].size() < given[b].size(); });
    for (const std::uint32_t row : rows) {
      for (const char c : given[row])
        codes.push_back(static_cast<std::uint8_t>(code_of[static_cast<unsigned char>(c)]));
      offsets.push_back(static_cast<std::int64_t>(codes.size()));
    }
  }
  std::int64_t up_to(std::size_t letters) const {
    return std::partition_point(rows.begin(), rows.end(),
                                [&](std::uint32_t row) { return texts[row].size() <= letters; }) -
           rows.begin();
  }
  std::int64_t longest() const { return static_cast<std::int64_t>(texts[rows.back()].size()); }
};

CodedStrings copied(const PreparedMatrix& side) {
  return {on_device(side.codes), on_device(side.offsets), on_device(side.rows),
          static_cast<std::int64_t>(side.rows.size())};
}

vicinal::StringList listed(const std::vector<std::string>& texts) {
  return {std::vector<std::string_view>(texts.begin(), texts.end()), vicinal::Encoding::bytes};
}

}  // namespace

int main(int argc, char** argv) {
  const char* file = nullptr;
  std::size_t dna = 0, query_count = 4096, checked = 64;
  std::int64_t k = 5;
  double seconds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--words") == 0) file = argv[i + 1];
    else if (std::strcmp(argv[i], "--dna") == 0) dna = std::strtoull(argv[i + 1], nullptr, 10);
    else if (std::strcmp(argv[i], "--queries") == 0) query_count = std::strtoull(argv[i + 1], nullptr, 10);
    else if (std::strcmp(argv[i], "--k") == 0) k = std::atoll(argv[i + 1]);
    else if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--check") == 0) checked = std::strtoull(argv[i + 1], nullptr, 10);
  }
  const std::vector<std::string> words = file != nullptr ? lines(file) : made_up(dna != 0 ? dna : 69069, dna != 0);
  std::vector<std::string> asked;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < query_count; ++i) asked.push_back(words[random() % words.size()]);
  if (dna != 0)  // not in the corpus themselves
    for (std::string& query : asked)
      for (int i = 0; i < 4 && !query.empty(); ++i) query[random() % query.size()] = "ACGT"[random() % 4];

  std::vector<int> code_of(256, 0);
  int symbols = 1;
  for (const auto* texts : {&words, static_cast<const std::vector<std::string>*>(&asked)})
    for (const std::string& text : *texts)
      for (const char c : text)
        if (code_of[static_cast<unsigned char>(c)] == 0) code_of[static_cast<unsigned char>(c)] = symbols++;
  const PreparedMatrix corpus(words, code_of), queries(asked, code_of);
  const auto word_count = static_cast<std::int64_t>(words.size()), count = static_cast<std::int64_t>(asked.size());
  if (const char* why = strings_refusal(symbols, word_count, queries.longest(), corpus.longest())) {
    std::fprintf(stderr, "the kernels do not take this: %s\n", why);
    return 1;
  }
  const StringsCuts cuts{
      corpus.up_to(16), corpus.up_to(32), corpus.up_to(64), word_count, queries.up_to(32), queries.up_to(64), count,
      queries.longest()};

  constexpr std::int64_t room = most_selected;
  std::vector<std::int64_t> begin(asked.size() + 1);
  for (std::size_t i = 0; i < begin.size(); ++i) begin[i] = static_cast<std::int64_t>(i) * room;
  StringsArgs args{.corpus = copied(corpus), .queries = copied(queries), .symbols = symbols};
  args.begin = on_device(begin);
  Key* best = nullptr;
  must(cudaMalloc(&args.thresholds, asked.size() * sizeof(std::int32_t)));
  must(cudaMalloc(&args.counts, asked.size() * sizeof(std::uint32_t)));
  must(cudaMalloc(&args.matches, static_cast<std::size_t>(count * room) * sizeof(Key)));
  must(cudaMalloc(&best, static_cast<std::size_t>(count * k) * sizeof(Key)));
  Key* result = nullptr;  // pinned, as every library of this kind wants it
  std::uint32_t* counts = nullptr;
  must(cudaMallocHost(&result, static_cast<std::size_t>(count * k) * sizeof(Key)));
  must(cudaMallocHost(&counts, asked.size() * sizeof(std::uint32_t)));
  cudaStream_t stream;
  must(cudaStreamCreate(&stream));
  CudaLaunch launch{stream};

  const auto query_copy = [&] {
    must(cudaMemcpyAsync(const_cast<std::uint8_t*>(args.queries.codes), queries.codes.data(), queries.codes.size(),
                         cudaMemcpyHostToDevice, stream));
    must(cudaMemcpyAsync(const_cast<std::int64_t*>(args.queries.offsets), queries.offsets.data(),
                         queries.offsets.size() * 8, cudaMemcpyHostToDevice, stream));
    must(cudaMemsetAsync(args.counts, 0, asked.size() * sizeof(std::uint32_t), stream));
  };
  const auto counts_back = [&] {
    must(cudaMemcpyAsync(counts, args.counts, asked.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost, stream));
  };
  const auto report = [&](const std::string& call, double ms, std::int64_t entries, std::int64_t left) {
    std::printf("%s,%lld,%lld,%.4f,%.0f,%.4g,%lld,%lld\n", call.c_str(), static_cast<long long>(count),
                static_cast<long long>(word_count), ms, static_cast<double>(count) / ms * 1e3,
                static_cast<double>(count) * static_cast<double>(word_count) / ms * 1e3,
                static_cast<long long>(entries), static_cast<long long>(left));
    std::fflush(stdout);
  };
  // left: queries whose list had no room or was too long for a block to sort; they would be asked again.
  std::printf("call,queries,words,median_ms,queries_per_s,pairs_per_s,entries,left\n");

  const double nearest = median_ms(stream, seconds, [&] {
    query_copy();
    run_strings_thresholds(launch, args, k);
    run_strings_near(launch, args, cuts);
    run_strings_select(launch, args, k, best);
    must(cudaMemcpyAsync(result, best, static_cast<std::size_t>(count * k) * sizeof(Key), cudaMemcpyDeviceToHost,
                         stream));
    counts_back();
  });
  const auto too_many = [&] {
    return std::count_if(counts, counts + count, [&](std::uint32_t found) { return found > room; });
  };
  report("k=" + std::to_string(k), nearest, std::accumulate(counts, counts + count, std::int64_t{0}), too_many());

  // The same by the library on the CPU, of some queries.
  std::vector<std::string> some;
  for (std::size_t i = 0; i < std::min(checked, asked.size()); ++i) some.push_back(asked[i]);
  vicinal::KnnOptions options;
  options.k = k;
  options.metric = vicinal::Metric::levenshtein;
  const vicinal::Neighbors want = vicinal::knn(listed(words).view(), listed(some).view(), options);
  std::int64_t wrong = 0;
  for (std::int64_t at = 0; at < count; ++at) {
    const std::int64_t row = queries.rows[static_cast<std::size_t>(at)];
    if (row >= want.rows() || counts[at] > room) continue;
    for (std::int64_t i = 0; i < k; ++i)
      wrong += result[at * k + i] !=
                       (static_cast<Key>(want.distance(row, i)) << row_bits | static_cast<Key>(want.id(row, i)))
                   ? 1
                   : 0;
  }
  std::printf("# %lld entries of %lld queries differ from the CPU's\n", static_cast<long long>(wrong),
              static_cast<long long>(want.rows()));

  const double first_limits = median_ms(stream, seconds / 4, [&] { run_strings_thresholds(launch, args, k); });
  report("first limits", first_limits, 0, 0);
  for (const int radius : {1, 2, 3, 5}) {
    const std::vector<std::int32_t> limits(asked.size(), radius);
    must(cudaMemcpy(args.thresholds, limits.data(), limits.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice));
    const double ms = median_ms(stream, seconds / 2, [&] {
      query_copy();
      run_strings_near(launch, args, cuts);
      run_strings_select(launch, args, k, best);
      counts_back();
    });
    report("r=" + std::to_string(radius), ms, std::accumulate(counts, counts + count, std::int64_t{0}), too_many());
  }
  return wrong == 0 ? 0 : 1;
}
