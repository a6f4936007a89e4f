// hamming of strings: positions at which two strings of one length differ. A query gives up on a string once it differs
// at more positions than are wanted.
#include <algorithm>

#include "core/string_metric.hpp"
#include "cpu/strings/scanner.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t symbols_at_once = 64;  // symbols between looks at the limit

template <class Code>
std::int64_t differing(const Code* a, const Code* b, std::int64_t length, std::int64_t most) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < length && count <= most; i += symbols_at_once) {
    int here = 0;
    for (std::int64_t j = i; j < std::min(length, i + symbols_at_once); ++j) here += static_cast<int>(a[j] != b[j]);
    count += here;
  }
  return count;
}

class HammingScanner final : public Scanner {
 public:
  HammingScanner(const StringSearchSpec& spec, ThreadPool& thread_pool) : spec_(spec), thread_pool_(thread_pool) {}

  ScanCounts scan(const QueryGroup& group, int /*worker*/) override {
    const StringSet &corpus = spec_.corpus, &queries = spec_.queries;
    const std::int64_t begin = corpus.count() * group.part / group.parts,
                       end = corpus.count() * (group.part + 1) / group.parts;
    ScanCounts counts;
    for (std::size_t i = 0; i < group.pools.size(); ++i) {
      const std::int64_t query = group.first + static_cast<std::int64_t>(i), length = queries.length(query);
      StringPool& pool = group.pools[i];
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t most = most_edits(spec_.metric, spec_.type, pool.limit(), length, length);
        if (most < 0) break;
        const std::int64_t count = corpus.narrow()
                                       ? differing(queries.bytes_at(query), corpus.bytes_at(at), length, most)
                                       : differing(queries.words_at(query), corpus.words_at(at), length, most);
        ++counts.computed;
        if (count <= most) {
          pool.take(static_cast<double>(count), corpus.row(at));
          ++counts.within;
        }
        if (at % 1024 == 0) thread_pool_.poll(0);
      }
      thread_pool_.poll(static_cast<std::uint64_t>(end - begin));
    }
    return counts;
  }

 private:
  const StringSearchSpec& spec_;
  ThreadPool& thread_pool_;
};

std::unique_ptr<Scanner> open_hamming(const StringSearchSpec& spec, const Myers& /*myers*/, ThreadPool& thread_pool) {
  return std::make_unique<HammingScanner>(spec, thread_pool);
}

std::int64_t hamming_bytes(const StringSizes& /*sizes*/, const Myers& /*myers*/, int /*threads*/) { return 0; }

}  // namespace

const StringMetric string_hamming = {Metric::hamming, open_hamming, hamming_bytes};

}  // namespace vicinal::cpu
