// FILTER and SELECT of integral data within a byte (u8, i8, integers in floats): sums
// of int8 products give squared distances exactly, and so the keys. There is no bound,
// and nothing is ranked: what ties at the k-th key is decided by ids in the pool.
#pragma once
#include "cpu/filter/int8.hpp"

namespace vicinal::cpu {

class Int8ExactFilter final : public BlockFilter<Int8ExactFilter> {
 public:
  Int8ExactFilter(const QueryBlock& block, const Int8Block& int8)
      : BlockFilter(block), int8_(int8), speculation_(block.spec.k) {}

  /// Sets all thresholds, before the first tile: they hold for every tile.
  void start();
  const std::int32_t* panels(const PackedQueries& queries, std::int64_t block) const noexcept {
    return int8_.panels(queries, block, this->block().model.columns);
  }
  void filter_tile(const std::int32_t* panels, int query_panels, std::int64_t tile);

  void set_threshold(int query) { int8_.threshold_int[query] = threshold_for(query); }
  void compact(int query);
  void rank_candidates(int query);
  std::int64_t next_compaction(int query) const noexcept {
    return next_int8_compaction(block(), query,
                                negligible_error(facts(query).norms, int8_.largest) || speculation_.active());
  }
  Speculation& speculation() noexcept { return speculation_; }
  double speculative_key(int query, std::int64_t rank);
  double key_of_first(float t, const FirstRows& /*first*/) const noexcept { return key_of(0, {t, 0}); }
  float farthest_in(std::int64_t /*tile*/) const noexcept { return up32(threshold_square(0) - square_of(0)); }

 private:
  void measure_tile(const Int8TileArgs& args, const std::int32_t* squares);
  double square_of(int query) const noexcept;
  double threshold_square(int query) const noexcept;
  double key_of(int query, const Slot& slot) const noexcept;
  std::int32_t threshold_for(int query) const noexcept;
  static void on_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values);

  const Int8Block int8_;
  Speculation speculation_;
  std::int64_t tile_ = 0;
};

}  // namespace vicinal::cpu
