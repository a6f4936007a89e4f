// The filter in int8: sums are exact integers of rounded rows, so bounds are wide. Thresholds tighten by estimates while
// they are speculative; else by canonical distances of the rows that look nearest, or by refined candidates where there
// is a second-level code.
#pragma once
#include "cpu/filter/refine.hpp"
#include "cpu/filter/speculate.hpp"

namespace vicinal::cpu {

inline constexpr std::int32_t excludes_all =
    std::numeric_limits<std::int32_t>::max();  // a threshold that no sum reaches

/// Quantization errors are so small beside the norms that upper bounds serve as thresholds.
bool negligible_error(const FilterNorms& query, const FilterNorms& largest) noexcept;
/// Candidates at which an int8 filter compacts next. Thresholds tighten by ranking some k rows, which is worth a few
/// times as many that are kept in vain; so it is done before all slots are full.
std::int64_t next_int8_compaction(const QueryBlock& block, int query, bool cheap) noexcept;
/// One tile against the block, all but its callback.
Int8TileArgs int8_tile_args(const QueryBlock& block, const Int8Block& int8, const std::int32_t* panels,
                            int query_panels, std::int64_t tile);

class Int8Filter final : public BlockFilter<Int8Filter> {
 public:
  /// coeffs: memory for one a query. codes: as Refinement takes them; null: nothing is refined. columns: the block's
  /// queries are only the rows of tiles, and their sums have no shift.
  Int8Filter(const QueryBlock& block, const Int8Block& int8, ThresholdCoeffs* coeffs, const std::int8_t* codes,
             bool columns = false)
      : BlockFilter(block), int8_(int8), coeffs_(coeffs), refines_(codes != nullptr), columns_(columns),
        refinement_(this->block(), int8_, codes), speculation_(block.spec.k) {}

  /// Fills in the coefficients of all thresholds, before the first tile.
  void start();
  const std::int32_t* panels(const PackedQueries& queries, std::int64_t block) const noexcept {
    return int8_.panels(queries, block, this->block().model.columns);
  }
  /// One tile against the block, whose packed queries are `panels`.
  void filter_tile(const std::int32_t* panels, int query_panels, std::int64_t tile);
  /// The same on both sides, as F32Filter::filter_symmetric_tile. row_terms: memory for those of this block.
  void filter_symmetric_tile(const std::int32_t* panels, int query_panels, std::int64_t tile, std::int32_t* row_terms,
                             Int8Filter& columns);

  void set_threshold(int query);
  void compact(int query);
  void rank_candidates(int query);
  std::int64_t next_compaction(int query) const noexcept {
    return next_int8_compaction(block(), query, has_negligible_error(query) || speculation_.active());
  }
  Speculation& speculation() noexcept { return speculation_; }
  double speculative_key(int query, std::int64_t rank);
  double key_of_first(float t, const FirstRows& first) const {
    const QueryFacts& q = facts(0);
    return value_of_upper(block().model, int8_upper(block().model, t, first.unit, q.square, q.norms, first.maxima),
                          q.scale);
  }
  float farthest_in(std::int64_t tile) const {
    return up32(int8_bound(coeffs_[0], block().chunk.tiles[static_cast<std::size_t>(tile)]));
  }

 private:
  struct SymmetricTile {
    Int8Filter &rows, &columns;
  };
  void measure_tile(const std::int32_t* panels, int query_panels, std::int64_t tile);
  /// The tile against some panels of the block, which share a step.
  Int8TileArgs bind_tile(const std::int32_t* panels, int first_panel, int query_panels, std::int64_t tile);
  void bind_columns(const Int8Filter& rows, int padded);
  std::int32_t threshold_for(int query) const noexcept {
    return int8_threshold(coeffs_[query], maxima_, inverse_unit_, shift_of(query));
  }
  ThresholdCoeffs coeffs_for(int query) const noexcept {
    return threshold_coeffs(block().model, candidates(query).threshold_distance, facts(query).square,
                            facts(query).norms);
  }
  double shift_of(int query) const noexcept { return columns_ ? 0 : facts(query).shift; }
  /// The distance of projected rows is no estimate, however small their errors are.
  bool has_negligible_error(int query) const noexcept {
    return !block().model.projected && negligible_error(facts(query).norms, int8_.largest);
  }
  bool refines(int query) const noexcept { return refines_ && facts(query).filterable && !has_negligible_error(query); }
  double upper_of_slot(int query, const Slot& slot) const;
  double estimate_of_slot(int query, const Slot& slot) const;
  /// Lowers the query's threshold to what the nearest candidates look to be within. Returns false where it cannot.
  bool tighten_by_estimates(int query);
  std::int64_t bring_likely(int query, std::int64_t from);
  void tighten_by_nearest(int query);
  void drop_excluded(int query);
  void refine(int query, std::int64_t end);
  void tighten_by_refined(int query);
  /// Refines the candidates that look nearest, tightens the threshold by them and drops what that excludes.
  void refine_likely(int query);
  void compact_refined(int query);
  /// Refines all candidates, those that look nearest before the others, and drops what that excludes.
  void refine_candidates(int query);
  static void on_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values);
  static void on_symmetric_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values);
  static void on_column_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values);

  const Int8Block int8_;
  ThresholdCoeffs* coeffs_;
  bool refines_, columns_;
  Refinement refinement_;
  Speculation speculation_;
  std::int64_t tile_ = 0;
  FilterNorms maxima_ = {};             // over the rows that thresholds are bound to
  int first_query_ = 0;                 // of the panels that the tile goes past
  double unit_ = 1, inverse_unit_ = 1;  // of their sums
};

}  // namespace vicinal::cpu
