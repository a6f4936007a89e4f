// One distance of strings: how a group of queries is held against the corpus. A file each, a line each in search.cpp.
#pragma once
#include <memory>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/strings/myers.hpp"
#include "cpu/strings/pool.hpp"

namespace vicinal::cpu {

/// Queries at positions [first, first + pools.size()) of their set, and the part of the corpus that is theirs.
struct QueryGroup {
  std::int64_t first;
  std::vector<StringPool>& pools;
  std::int64_t part, parts;
};

/// Pairs that were computed, and pairs whose distance was at most what its query then wanted.
struct ScanCounts {
  std::int64_t computed = 0, within = 0;
};

struct Scanner {
  virtual ~Scanner() = default;
  /// Called at once from several threads, each with a worker number of its own. Polls the thread pool for every pair.
  virtual ScanCounts scan(const QueryGroup& group, int worker) = 0;
};

struct StringMetric {
  Metric metric;
  std::unique_ptr<Scanner> (*open)(const StringSearchSpec& spec, const Myers& myers, ThreadPool& thread_pool);
  /// Bytes of a scanner for `threads` workers.
  std::int64_t (*bytes)(const StringSizes& sizes, const Myers& myers, int threads);
};

/// Both Levenshtein distances: edits within what a query wants (edits.cpp).
std::unique_ptr<Scanner> open_edits(const StringSearchSpec& spec, const Myers& myers, ThreadPool& thread_pool);
std::int64_t edits_bytes(const StringSizes& sizes, const Myers& myers, int threads);

extern const StringMetric levenshtein, normalized_levenshtein, string_hamming, jaccard;

}  // namespace vicinal::cpu
