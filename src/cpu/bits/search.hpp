// The search of packed bits: the differing bits of every pair are counted, a tile of rows against a block of queries at
// a time, and rows within the threshold of a query go to its pool or its matches at once. Counts are the canonical
// values themselves, so there is nothing to prove and nothing to rank; a row that is as far as the k-th is left out
// only where its id is larger (docs/design/0046).
#pragma once
#include <vector>

#include "cpu/bits/panels.hpp"
#include "cpu/rerank/batch.hpp"

namespace vicinal::cpu {

/// The queries of a batch in the kernels' layout, block by block.
class BitQueries {
 public:
  void prepare(const Kernels& kernels, const BitKernels& bits, const Points& queries,
               std::span<const std::int64_t> rows, std::int64_t block, ThreadPool& thread_pool);
  const std::int32_t* of(std::int64_t first) const noexcept { return words_.data() + first * width_; }

 private:
  std::int64_t width_ = 0;
  Buffer<std::int32_t> words_;
};

/// A Histogram of the counts that a query has met tells how far its k-th
/// is after each row, where a pool of many would have to be sorted for it.
class Histogram {
 public:
  explicit Histogram(std::int64_t cols) : counts_(static_cast<std::size_t>(8 * cols + 1)) {}
  static constexpr bool serves(std::int64_t cols, std::int64_t k) noexcept {
    return k > most_sorted && cols <= most_histogram_bytes;
  }
  static constexpr std::int64_t bytes(std::int64_t cols) noexcept {
    return static_cast<std::int64_t>(sizeof(Histogram)) + (8 * cols + 1) * 4;
  }
  /// It forgets all but the entries of the pool.
  void start(const Pool& pool);
  void add(std::int32_t count) noexcept;
  /// k of the rows so far are within it, and fewer within less; all that a count can be, before there are k.
  std::int32_t threshold() const noexcept { return threshold_; }

 private:
  static constexpr std::int64_t most_histogram_bytes = 512;
  std::vector<std::int32_t> counts_;
  std::int64_t k_ = 0, within_ = 0;  // rows within the threshold
  std::int32_t threshold_ = 0;
};

/// BitScratch holds what one thread counts with: an entry for each query
/// of a block, and a tile of rows that are packed as they are met.
struct BitScratch {
  BitScratch(const Kernels& kernels, const Points& corpus, std::int64_t block, std::int64_t k);
  static std::int64_t bytes(std::int64_t cols, std::int64_t block, std::int64_t k) noexcept;
  Buffer<std::int32_t> thresholds;  // what the kernel tests
  Buffer<std::int32_t> counts;      // of the k-th so far
  // The row of the chunk that is the k-th so far; behind it, rows that are as far have larger ids.
  Buffer<std::int64_t> worst;
  std::vector<Histogram> histograms;  // where they serve
  BitPacker packer;
  Buffer<std::int32_t> panels;
};

/// Counts every pair of the batch.
void search_bits(const SearchBatch& batch, const BitKernels& kernels, const BitQueries& queries,
                 PerThread<BitScratch>& scratch);

}  // namespace vicinal::cpu
