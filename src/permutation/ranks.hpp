// The order in which an object sees the permutants, as it is kept and compared. Ranks count from 0; permutants at one
// distance go by number. Forms: the rank of every permutant (u8, u16 above 256 permutants); the numbers of the nearest
// ones, in order, where all others count as having the rank behind them; a bit for each, set from the middle rank on.
// Or no order but components of the distances (components.hpp), compared by the sum of squared differences.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/permutation/scores.hpp"
#include "permutation/components.hpp"
#include "vicinal/permutation_index.hpp"

namespace vicinal {

struct RankLayout {
  RankDistance distance = RankDistance::footrule;
  RankForm form = RankForm::ranks;
  std::int64_t permutants = 0, prefix = 0;
  bool wide = false;                             // two bytes a number
  std::int64_t entries = 0;                      // numbers an object, of bits bytes
  std::int64_t used = 0, stride = 0;             // bytes an object: kept in files, and in memory
  std::shared_ptr<const Components> components;  // of that form, once objects were seen

  /// Throws InvalidArgument for what does not go together.
  RankLayout(RankDistance distance, RankForm form, std::int64_t permutants, std::int64_t prefix);
  /// No score is larger.
  std::uint32_t largest() const noexcept;
  /// Scores of the whole table go by bytes and kernels.
  bool by_kernel() const noexcept {
    return form == RankForm::bits || form == RankForm::components ||
           (form == RankForm::ranks && !wide && distance != RankDistance::kendall);
  }
};

/// Turns distances to the permutants into what is kept of them; memory for one thread.
class OrderWriter {
 public:
  explicit OrderWriter(const RankLayout& layout)
      : layout_(layout), order_(static_cast<std::size_t>(layout.permutants)) {}
  /// row: layout.stride bytes.
  void write(const double* distances, std::uint8_t* row);
  /// Permutants by (distance, number), of the last call; not of components.
  const std::vector<std::uint32_t>& order() const noexcept { return order_; }

 private:
  const RankLayout& layout_;
  std::vector<std::uint32_t> order_;
};

/// One query against rows.
class RankScorer {
 public:
  RankScorer(const RankLayout& layout, const cpu::Scores& kernels);
  /// Distances from the query to the permutants.
  void start(const double* distances);
  void score(const std::uint8_t* rows, std::int64_t count, std::uint32_t* out) const;

 private:
  template <class Number>
  void score_ranks(const std::uint8_t* rows, std::int64_t count, std::uint32_t* out) const;
  template <class Number>
  void score_prefix(const std::uint8_t* rows, std::int64_t count, std::uint32_t* out) const;
  template <class Number>
  std::uint32_t discordant(const Number* ranks) const;
  const RankLayout& layout_;
  const cpu::Scores& kernels_;
  OrderWriter ranker_;
  std::vector<std::uint8_t> row_;
  std::vector<std::int64_t> gains_;  // prefix: [position][permutant], what it changes where the object has it there
  std::int64_t all_missing_ = 0;     // prefix: the score of an object that has none of them
  mutable std::vector<std::uint64_t> seen_;
};

/// Is this what write() could have written? scratch is for its own use.
bool is_order(const RankLayout& layout, const std::uint8_t* row, std::vector<std::uint8_t>& scratch);

}  // namespace vicinal
