// See search.hpp.
#include "cpu/strings/search.hpp"

#include <algorithm>
#include <mutex>

#include "core/divide.hpp"
#include "core/text.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/strings/scanner.hpp"

namespace vicinal::cpu {
namespace {

constexpr const StringMetric* metrics_of_strings[] = {&levenshtein, &normalized_levenshtein, &string_hamming, &jaccard};

constexpr std::int64_t largest_group = 2048;  // queries that share the masks of a block
constexpr std::int64_t least_group = 32;      // fewer, and building masks is most of the work
constexpr std::int64_t group_bytes = std::int64_t{32} << 20;

const StringMetric& find_metric(Metric metric) {
  for (const StringMetric* entry : metrics_of_strings)
    if (entry->metric == metric) return *entry;
  fail(ErrorCode::internal, cat("no search of strings by ", metric_info(metric).name));
}

class StringSearch {
 public:
  StringSearch(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer, ThreadPool& thread_pool)
      : spec_(spec), answer_(answer), thread_pool_(thread_pool),
        scanner_(find_metric(spec.metric).open(spec, find_instruction_set(plan.instruction_set).myers, thread_pool)),
        begin_(spec.first_query), end_(spec.query_end()), size_(plan.query_block),
        groups_(divide_up(end_ - begin_, size_)), parts_(plan.row_splits) {}

  ScanCounts run() {
    if (parts_ == 1) {
      thread_pool_.for_each(groups_, [&](std::int64_t group, int worker) {
        std::vector<StringPool> pools = make_pools(group);
        note(scanner_->scan({begin_ + group * size_, pools, 0, 1}, worker));
        for (std::size_t i = 0; i < pools.size(); ++i) answer_(row(group, i), pools[i].finish());
      });
      return counts_;
    }
    for (std::int64_t group = 0; group < groups_; ++group) {
      std::vector<std::vector<StringPool>> parts(static_cast<std::size_t>(parts_));
      thread_pool_.for_each(parts_, [&](std::int64_t part, int worker) {
        auto& pools = parts[static_cast<std::size_t>(part)] = make_pools(group);
        note(scanner_->scan({begin_ + group * size_, pools, part, parts_}, worker));
      });
      join(group, parts);
    }
    return counts_;
  }
  std::int64_t entries() const noexcept { return entries_.load(); }

 private:
  std::int64_t row(std::int64_t group, std::size_t i) const {
    return spec_.queries.row(begin_ + group * size_ + static_cast<std::int64_t>(i));
  }
  std::vector<StringPool> make_pools(std::int64_t group) {
    std::vector<StringPool> pools;
    for (std::int64_t at = begin_ + group * size_; at < std::min(end_, begin_ + (group + 1) * size_); ++at)
      pools.emplace_back(spec_, spec_.queries.row(at), entries_);
    return pools;
  }
  void join(std::int64_t group, std::vector<std::vector<StringPool>>& parts) {
    std::vector<Entry> all;
    for (std::size_t i = 0; i < parts[0].size(); ++i) {
      all.clear();
      for (std::vector<StringPool>& pools : parts) {
        const std::vector<Entry>& found = pools[i].finish();
        all.insert(all.end(), found.begin(), found.end());
      }
      std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return before(a, b); });
      if (!spec_.radius && static_cast<std::int64_t>(all.size()) > spec_.k)
        all.resize(static_cast<std::size_t>(spec_.k));
      answer_(row(group, i), all);
    }
  }
  void note(const ScanCounts& counts) {
    const std::lock_guard lock(mutex_);
    counts_.computed += counts.computed;
    counts_.within += counts.within;
  }

  const StringSearchSpec& spec_;
  const StringAnswer& answer_;
  ThreadPool& thread_pool_;
  std::unique_ptr<Scanner> scanner_;
  std::int64_t begin_, end_, size_, groups_, parts_;
  std::atomic<std::int64_t> entries_{0};
  std::mutex mutex_;
  ScanCounts counts_;
};

}  // namespace

std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k, bool range) {
  const std::int64_t queries = std::max<std::int64_t>(sizes.queries, 1);
  // What one query can hold while it is searched; of a range, a
  // thousandth of the corpus: more is the result's, which is not counted.
  const std::int64_t pool = StringPool::most_bytes(range ? sizes.rows / 1000 : k);
  const std::int64_t room = std::clamp<std::int64_t>(group_bytes / pool, 1, largest_group);
  plan.query_block = std::min(
      room, std::clamp(divide_up(queries, 2 * static_cast<std::int64_t>(plan.threads)), least_group, largest_group));
  const std::int64_t groups = divide_up(queries, plan.query_block);
  plan.row_splits = groups >= plan.threads ? 1 : 2 * static_cast<std::int64_t>(plan.threads);
  plan.query_batch = queries;
  plan.corpus_chunk = sizes.rows;
  plan.candidate_slots = range ? 0 : 2 * k + 8;
  plan.resident = true;
  const InstructionSet& set = find_instruction_set(plan.instruction_set);
  plan.seconds = core_seconds(sizes) / plan.threads * set.slowness;
  const std::int64_t query_bytes =
      sizes.longest_query * 4 + static_cast<std::int64_t>(sizeof(StringPool)) + 64 + (range ? 0 : pool);
  return find_metric(metric).bytes(sizes, set.myers, plan.threads) +
         std::max(static_cast<std::int64_t>(plan.threads), plan.row_splits) * std::min(plan.query_block, queries) *
             query_bytes;
}

std::int64_t search_strings(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer,
                            ThreadPool& thread_pool, Stats& stats) {
  if (spec.first_query >= spec.query_end()) return 0;
  StringSearch search(spec, plan, answer, thread_pool);
  const ScanCounts counts = search.run();
  stats.candidates = counts.computed;
  stats.reranked = counts.within;
  return search.entries();
}

}  // namespace vicinal::cpu
