// The search of packed bits: the differing bits of every pair are counted, a tile of rows against a block of queries at a time, and rows within
// the limit of a query go to its pool or its matches at once. Counts are the canonical values themselves, so there is nothing to prove and nothing
// to rank; a row that is as far as the k-th is left out only where its id is larger (docs/design/0046).
#pragma once
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

/// BitScratch holds what one thread counts with: an entry for each query of a block, and a tile of rows that are packed as they are met.
struct BitScratch {
  BitScratch(const Kernels& kernels, const Points& corpus, std::int64_t block);
  static std::int64_t bytes(std::int64_t cols, std::int64_t block) noexcept;
  Buffer<std::int32_t> limits;  // what the kernel tests
  Buffer<std::int32_t> counts;  // of the k-th so far
  Buffer<std::int32_t> tiles;   // where the k-th so far lies; beyond it rows that are as far have larger ids
  BitPacker packer;
  Buffer<std::int32_t> panels;
};

/// Counts every pair of the batch.
void search_bits(const SearchBatch& batch, const BitKernels& kernels, const BitQueries& queries,
                 PerThread<BitScratch>& scratch);

}  // namespace vicinal::cpu
