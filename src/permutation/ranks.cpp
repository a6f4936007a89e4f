#include "permutation/ranks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/text.hpp"

namespace vicinal {

RankLayout::RankLayout(RankDistance distance_, RankForm form_, std::int64_t permutants_, std::int64_t prefix_)
    : distance(distance_), form(form_), permutants(permutants_), wide(permutants_ > 256) {
  if (form != RankForm::prefix && prefix_ != 0)
    fail(ErrorCode::invalid_argument,
         cat("prefix=", prefix_, " is for the form prefix, got form ", rank_form_name(form)));
  if (form == RankForm::prefix) {
    if (distance == RankDistance::kendall)
      fail(ErrorCode::invalid_argument, "kendall compares all ranks; the form prefix takes footrule or rho");
    if (prefix_ < 0 || prefix_ > permutants)
      fail(ErrorCode::invalid_argument,
           cat("prefix must be between 0 and the ", permutants, " permutants, got ", prefix_));
    prefix = prefix_ > 0 ? prefix_ : (permutants + 3) / 4;
  }
  if (form == RankForm::components && wide)
    fail(ErrorCode::invalid_argument,
         cat("the form components takes at most ", Components::most_permutants, " permutants, got ", permutants));
  entries = form == RankForm::ranks || form == RankForm::components
                ? permutants
                : (form == RankForm::prefix ? prefix : (permutants + 7) / 8);
  used = entries * (wide && form != RankForm::bits ? 2 : 1);
  stride = by_kernel() ? cpu::score_stride(used) : used;
}

std::uint32_t RankLayout::largest() const noexcept {
  const std::int64_t m = permutants, l = form == RankForm::prefix ? prefix : m;
  if (form == RankForm::bits) return static_cast<std::uint32_t>(m);
  if (form == RankForm::components) return static_cast<std::uint32_t>(m * 255 * 255);
  if (distance == RankDistance::kendall) return static_cast<std::uint32_t>(m * (m - 1) / 2);
  // Of each of at most m permutants at most the last rank; exact for all ranks.
  if (form == RankForm::prefix)
    return static_cast<std::uint32_t>(distance == RankDistance::rho ? 2 * l * l * l : 2 * l * l);
  return static_cast<std::uint32_t>(distance == RankDistance::rho ? (m * m * m - m) / 3 : m * m / 2);
}

namespace {

template <class Number>
void put(std::uint8_t* row, std::int64_t at, std::int64_t value) {
  const auto number = static_cast<Number>(value);
  std::memcpy(row + at * static_cast<std::int64_t>(sizeof(Number)), &number, sizeof number);
}
std::int64_t number_at(const std::uint8_t* row, std::int64_t at, bool wide) {
  if (!wide) return row[at];
  std::uint16_t number;
  std::memcpy(&number, row + 2 * at, 2);
  return number;
}

}  // namespace

void OrderWriter::write(const double* distances, std::uint8_t* row) {
  std::fill_n(row, layout_.stride, std::uint8_t{0});
  if (layout_.form == RankForm::components) return layout_.components->write(distances, row);
  std::iota(order_.begin(), order_.end(), 0U);
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return distances[a] < distances[b] || (distances[a] == distances[b] && a < b);
  });
  const auto store = layout_.wide ? put<std::uint16_t> : put<std::uint8_t>;
  switch (layout_.form) {
    case RankForm::ranks:
      for (std::int64_t rank = 0; rank < layout_.permutants; ++rank)
        store(row, order_[static_cast<std::size_t>(rank)], rank);
      return;
    case RankForm::prefix:
      for (std::int64_t rank = 0; rank < layout_.prefix; ++rank)
        store(row, rank, order_[static_cast<std::size_t>(rank)]);
      return;
    case RankForm::bits:
      for (std::int64_t rank = layout_.permutants / 2; rank < layout_.permutants; ++rank) {
        const std::uint32_t p = order_[static_cast<std::size_t>(rank)];
        row[p / 8] = static_cast<std::uint8_t>(row[p / 8] | 1U << (p % 8));
      }
      return;
    case RankForm::components: return;  // above
  }
}

bool is_order(const RankLayout& layout, const std::uint8_t* row, std::vector<std::uint8_t>& scratch) {
  if (layout.form == RankForm::components) return true;  // any bytes are
  if (layout.form == RankForm::bits) {
    int set = 0;
    for (std::int64_t i = 0; i < layout.used; ++i) set += std::popcount(row[i]);
    const std::int64_t spare = layout.used * 8 - layout.permutants;
    return set == layout.permutants - layout.permutants / 2 && (row[layout.used - 1] >> (8 - spare)) == 0;
  }
  scratch.assign(static_cast<std::size_t>(layout.permutants), 0);
  for (std::int64_t i = 0; i < layout.entries; ++i) {
    const std::int64_t number = number_at(row, i, layout.wide);
    if (number >= layout.permutants || scratch[static_cast<std::size_t>(number)]++ != 0) return false;
  }
  return true;
}

RankScorer::RankScorer(const RankLayout& layout, const cpu::Scores& kernels)
    : layout_(layout), kernels_(kernels), ranker_(layout), row_(static_cast<std::size_t>(layout.stride)) {
  if (layout.form == RankForm::prefix) gains_.resize(static_cast<std::size_t>(layout.prefix * layout.permutants));
  seen_.resize(static_cast<std::size_t>((layout.permutants + 63) / 64));
}

void RankScorer::start(const double* distances) {
  ranker_.write(distances, row_.data());
  if (layout_.form != RankForm::prefix) return;
  // Missing permutants have rank l. An object without any of the query's scores `all_missing_`; each that it has
  // changes that.
  const std::int64_t l = layout_.prefix;
  const auto term = [&](std::int64_t difference) {
    return layout_.distance == RankDistance::rho ? difference * difference : std::abs(difference);
  };
  all_missing_ = 0;
  for (std::int64_t rank = 0; rank < layout_.permutants; ++rank) {
    const std::int64_t p = ranker_.order()[static_cast<std::size_t>(rank)], mine = std::min(rank, l),
                       missing = term(mine - l);
    all_missing_ += missing;
    for (std::int64_t position = 0; position < l; ++position)
      gains_[static_cast<std::size_t>(position * layout_.permutants + p)] = term(mine - position) - missing;
  }
}

template <class Number>
void RankScorer::score_prefix(const std::uint8_t* rows, std::int64_t count, std::uint32_t* out) const {
  const auto* numbers = reinterpret_cast<const Number*>(rows);
  for (std::int64_t row = 0; row < count; ++row, numbers += layout_.prefix) {
    std::int64_t sum = all_missing_;
    for (std::int64_t position = 0; position < layout_.prefix; ++position)
      sum += gains_[static_cast<std::size_t>(position * layout_.permutants + numbers[position])];
    out[row] = static_cast<std::uint32_t>(sum);
  }
}

/// Pairs in the other order: from the query's farthest permutant to its nearest, those seen before that the object has
/// nearer.
template <class Number>
std::uint32_t RankScorer::discordant(const Number* ranks) const {
  std::fill(seen_.begin(), seen_.end(), 0);
  std::uint32_t pairs = 0;
  const std::vector<std::uint32_t>& order = ranker_.order();
  for (auto p = order.rbegin(); p != order.rend(); ++p) {
    const std::size_t rank = ranks[*p], word = rank / 64;
    for (std::size_t w = 0; w < word; ++w) pairs += static_cast<std::uint32_t>(std::popcount(seen_[w]));
    pairs += static_cast<std::uint32_t>(std::popcount(seen_[word] & ((std::uint64_t{1} << (rank % 64)) - 1)));
    seen_[word] |= std::uint64_t{1} << (rank % 64);
  }
  return pairs;
}

template <class Number>
void RankScorer::score_ranks(const std::uint8_t* rows, std::int64_t count, std::uint32_t* out) const {
  const auto* mine = reinterpret_cast<const Number*>(row_.data());
  for (std::int64_t row = 0; row < count; ++row) {
    const auto* ranks = reinterpret_cast<const Number*>(rows + row * layout_.stride);
    if (layout_.distance == RankDistance::kendall) {
      out[row] = discordant(ranks);
      continue;
    }
    std::int64_t sum = 0;
    for (std::int64_t p = 0; p < layout_.permutants; ++p) {
      const std::int64_t d = std::int64_t{mine[p]} - std::int64_t{ranks[p]};
      sum += layout_.distance == RankDistance::rho ? d * d : std::abs(d);
    }
    out[row] = static_cast<std::uint32_t>(sum);
  }
}

void RankScorer::score(const std::uint8_t* rows, std::int64_t count, std::uint32_t* out) const {
  if (layout_.by_kernel()) {
    const bool squares = layout_.form == RankForm::components || layout_.distance == RankDistance::rho;
    const cpu::ScoreFn compare = layout_.form == RankForm::bits ? kernels_.differing
                                 : squares                      ? kernels_.rho
                                                                : kernels_.footrule;
    compare({row_.data(), rows, layout_.stride, count, out});
  } else if (layout_.form == RankForm::prefix) {
    layout_.wide ? score_prefix<std::uint16_t>(rows, count, out) : score_prefix<std::uint8_t>(rows, count, out);
  } else {
    layout_.wide ? score_ranks<std::uint16_t>(rows, count, out) : score_ranks<std::uint8_t>(rows, count, out);
  }
}

}  // namespace vicinal
