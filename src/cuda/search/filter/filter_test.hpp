// The self-test of the filter in bytes: tiles of extremes and random bytes through the
// kernel itself - its copies, its layouts in shared memory and their descriptors, what
// its warps hand to one another - against sums, biases and thresholds of the host.
#pragma once
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "core/divide.hpp"
#include "cuda/device/device.hpp"
#include "cuda/search/core/prepared.hpp"
#include "cuda/search/filter/table.hpp"

namespace vicinal::cuda {

/// Two tiles of rows against one or two blocks of queries. The tiles are visited in turn, in two units of work.
class FilterTest {
 public:
  static constexpr int tiles = 2, rows = tiles * tile_rows;

  /// visits: of tiles, a multiple of 2, half of them a unit. symmetric: tiles serve both of their sides.
  FilterTest(std::int64_t width, std::int64_t queries, const FilterKernel& kernel, int visits, bool symmetric = false)
      : width_(width), queries_(queries), padded_(padded_to_blocks(queries)), kernel_(kernel), visits_(visits),
        symmetric_(symmetric), room_(static_cast<std::uint32_t>(2 * 2048 * visits)),
        row_bytes_(static_cast<std::size_t>(rows * width)), query_bytes_(static_cast<std::size_t>(padded_ * width)),
        products_(static_cast<std::size_t>(rows * queries)),
        query_metadata_(static_cast<std::size_t>(padded_ / tile_rows)), states_(static_cast<std::size_t>(padded_)) {
    std::mt19937 random(20261123);
    const auto byte = [&](int line) {
      const int kind = line % 4;
      return static_cast<std::int8_t>(kind == 0   ? (random() % 2 == 0 ? 127 : -128)
                                      : kind == 1 ? -128
                                                  : static_cast<int>(random() % 256) - 128);
    };
    std::vector<std::int8_t> plain_rows(row_bytes_.size()), plain_queries(query_bytes_.size());
    const auto fill = [&](std::vector<std::int8_t>& plain, std::vector<std::int8_t>& packed) {
      for (std::size_t at = 0; at < plain.size(); ++at) {
        const auto line = static_cast<std::int64_t>(at) / width, col = static_cast<std::int64_t>(at) % width;
        plain[at] = byte(static_cast<int>(line));
        packed[static_cast<std::size_t>(position_of(line, col))] = plain[at];
      }
    };
    fill(plain_rows, row_bytes_);
    fill(plain_queries, query_bytes_);
    for (std::int64_t query = 0; query < queries; ++query)
      for (std::int64_t row = 0; row < rows; ++row) {
        int sum = 0;
        for (std::int64_t col = 0; col < width; ++col)
          sum += plain_rows[static_cast<std::size_t>(row * width + col)] *
                 plain_queries[static_cast<std::size_t>(query * width + col)];
        products_[static_cast<std::size_t>(query * rows + row)] = sum;
      }
    const TileMetadata plain = {
        .terms = {}, .pairs = {}, .inverse = 1, .maxima = {}, .step = 1, .e = 0, .n = 0, .quick_inverse = 1};
    std::fill(query_metadata_.begin(), query_metadata_.end(), plain);
    for (int tile = 0; tile < tiles; ++tile) {
      row_metadata_[tile] = plain;
      for (float& term : row_metadata_[tile].terms)
        term = static_cast<float>(static_cast<int>(random() % 40001) - 20000);
      row_metadata_[tile].terms[17] = static_cast<float>(infinite);  // masked
      for (int pair = 0; pair < pairs_a_tile; ++pair) {
        RowGroup rows;
        for (int i = 0; i < rows_a_pair; ++i) take_row(rows, row_metadata_[tile].terms[row_of_pair(pair, i)], {});
        row_metadata_[tile].pairs[pair] = group_norms(rows, 1);
      }
    }
    // All rows, none, or about half of them pass.
    for (std::size_t query = 0; query < states_.size(); ++query)
      states_[query].coeffs.base = query % 4 == 0   ? infinite
                                   : query % 4 == 1 ? -infinite
                                                    : static_cast<double>(static_cast<int>(random() % 200001) - 100000);
    // Queries as rows, and the loosest of the rows as queries, any: those of one pair want nothing, of one everything.
    if (!symmetric) return;
    const auto any = [&] { return static_cast<float>(static_cast<int>(random() % 200001) - 100000); };
    for (std::int64_t i = 0; i < padded_sides(queries); ++i) {
      RowGroup row;
      if (i < queries && i % 7 != 3) take_row(row, any(), {});
      const ThresholdCoeffsF32 line =
          i < queries ? line_of(i) : ThresholdCoeffsF32{-static_cast<float>(infinite), 0, 0};
      sides_.push_back({group_coeffs(line, 1), group_norms(row, 1)});
    }
    for (int pair = 0; pair < tiles * pairs_a_tile; ++pair)
      loosest_.push_back(group_coeffs({pair == 2   ? -static_cast<float>(infinite)
                                       : pair == 5 ? static_cast<float>(infinite)
                                                   : any() - 100000,
                                       0, 0},
                                      1));
  }
  /// Groups that a warp's segment has room for, less than all of them.
  void set_room(std::uint32_t room) { room_ = room; }

  /// What the kernels of a device make of it, with thresholds and as a sample.
  template <class Device>
  void run(Device& device) {
    DeviceBuffer<std::int8_t, Device> row_bytes(device), query_bytes(device);
    DeviceBuffer<TileMetadata, Device> row_metadata(device), query_metadata(device);
    DeviceBuffer<QueryState, Device> states(device);
    DeviceBuffer<Candidate, Device> candidates(device);
    DeviceBuffer<GroupCandidate, Device> groups(device);
    DeviceBuffer<std::uint32_t, Device> used(device);
    DeviceBuffer<int, Device> nearest(device);
    DeviceBuffer<Slot, Device> slots(device);
    DeviceBuffer<BothSides, Device> sides(device);
    DeviceBuffer<GroupCoeffs, Device> loosest(device);
    const auto in = [&](auto& array, const auto* from, std::int64_t count) {
      device.in(array.reserve(count), from, count * static_cast<std::int64_t>(sizeof *from));
      return array.data();
    };
    // Arguments, and memory for what the kernel writes.
    Filter f{.args = {.rows = {},
                      .queries = {},
                      .model = model_of(Metric::inner_product, DistanceType::f32, width_, 1, Precision::int8),
                      .choice = {},
                      .visits = {tiles, 1}}};
    f.args.rows.count = rows;
    f.args.queries.count = queries_;
    f.args.rows.dims = f.args.queries.dims = f.args.rows.width = f.args.queries.width = width_;
    f.args.rows.bytes = in(row_bytes, row_bytes_.data(), rows * width_);
    f.args.queries.bytes = in(query_bytes, query_bytes_.data(), padded_ * width_);
    f.args.rows.tile_metadata = in(row_metadata, row_metadata_, tiles);
    f.args.queries.tile_metadata = in(query_metadata, query_metadata_.data(), padded_ / tile_rows);
    f.args.states = in(states, states_.data(), padded_);
    f.last = visits_;
    f.part = visits_ / 2;
    f.parts = 2;
    f.room = room_;
    f.args.slots = slots.reserve(1);
    const std::int64_t workers = kernel_.block(f.args, false).writing_warps;
    f.candidates = candidates.reserve(workers * room_);
    f.group_candidates = groups.reserve(workers * room_);
    f.used = used.reserve(workers);
    f.groups = std::int64_t{visits_} * groups_a_tile;
    form_ = kernel_.form(f.args);
    // Launches with thresholds and as a sample, and what they left.
    const auto launch = [&]<bool sampling>(std::bool_constant<sampling> /*known*/) {
      const int together = kernel_.block(f.args, sampling).queries;
      f.blocks = divide_up(queries_, together);
      launch_filter<sampling>(device, kernel_, Precision::int8, f, 1);
    };
    f.nearest = nearest.reserve(padded_ * f.groups);
    launch(std::true_type());
    if (symmetric_) {
      f.pairs = block_pairs(tiles, kernel_.block(f.args, false).queries, 1);
      f.blocks_a_pair = static_cast<unsigned>(f.pairs.block_tiles * tile_rows / kernel_.block(f.args, false).queries);
      f.parts = visits_ / tiles;  // each of both tiles
      f.args.visits = {tiles, 1};
      f.sides = in(sides, sides_.data(), std::ssize(sides_));
      f.loosest = in(loosest, loosest_.data(), std::ssize(loosest_));
    }
    launch(std::false_type());
    candidates_.resize(static_cast<std::size_t>(workers * room_));
    groups_.resize(static_cast<std::size_t>(workers * room_));
    used_.resize(static_cast<std::size_t>(workers));
    nearest_.resize(static_cast<std::size_t>(queries_ * f.groups));
    device.out(used_.data(), f.used, workers * 4);
    device.out(states_.data(), f.args.states, padded_ * static_cast<std::int64_t>(sizeof(QueryState)));
    device.wait();
    for (std::int64_t worker = 0; worker < workers; ++worker) {
      const std::int64_t at = worker * room_, used = std::min(used_[static_cast<std::size_t>(worker)], room_);
      if (form_ == CandidateForm::groups)
        device.out(groups_.data() + at, f.group_candidates + at,
                   used * static_cast<std::int64_t>(sizeof(GroupCandidate)));
      else device.out(candidates_.data() + at, f.candidates + at, used * static_cast<std::int64_t>(sizeof(Candidate)));
    }
    device.out(nearest_.data(), f.nearest, queries_ * f.groups * 4);
    device.wait();
  }

  /// Whether each pair that passes is a candidate with its sum, or of a group, at every visit of its tile, and nothing
  /// else, or nothing that its group does not let through; and whether each group's largest sum was.
  bool judge() const {
    std::vector<int> times;
    if (!count_candidates(times)) return false;
    for (std::int64_t query = 0; query < queries_; ++query)
      for (std::int64_t row = 0; row < rows; ++row)
        if (times[static_cast<std::size_t>(query * rows + row)] != (is_candidate(query, row) ? visits_ / tiles : 0))
          return false;
    for (std::int64_t query = 0; query < queries_; ++query)
      for (std::int64_t visit = 0; visit < visits_; ++visit)
        for (int group = 0; group < groups_a_tile; ++group)
          if (nearest_[static_cast<std::size_t>((query * visits_ + visit) * groups_a_tile + group)] !=
              largest_of(query, visit % tiles, group))
            return false;
    return true;
  }
  /// How many candidates found no room; -1 where one is not known to be lost, to its query and, where tiles serve both
  /// sides, to its row.
  std::int64_t lost() const {
    std::vector<int> times;
    if (!count_candidates(times)) return -1;
    std::int64_t lost = 0;
    for (std::int64_t query = 0; query < queries_; ++query)
      for (std::int64_t row = 0; row < rows; ++row) {
        if (!is_candidate(query, row) || times[static_cast<std::size_t>(query * rows + row)] == visits_ / tiles)
          continue;
        const bool known = states_[static_cast<std::size_t>(query)].given_up &&
                           (!symmetric_ || row >= queries_ || states_[static_cast<std::size_t>(row)].given_up);
        if (!known) return -1;
        ++lost;
      }
    return lost;
  }

  /// Whether the kernel that ran tests groups of rows.
  bool by_groups() const { return form_ != CandidateForm::sums; }
  std::vector<Candidate>& candidates() { return candidates_; }
  std::vector<GroupCandidate>& groups() { return groups_; }
  std::vector<std::uint32_t>& used() { return used_; }
  std::vector<int>& nearest() { return nearest_; }

 private:
  /// How often each pair is a candidate; false where one is none, or knows what is wrong.
  bool count_candidates(std::vector<int>& times) const {
    times.assign(products_.size(), 0);
    for (std::size_t worker = 0; worker < used_.size(); ++worker) {
      if (used_[worker] > room_) return false;
      for (std::uint32_t i = 0; i < used_[worker]; ++i) {
        if (form_ == CandidateForm::groups) {
          if (!count_group(groups_[worker * room_ + i], times)) return false;
          continue;
        }
        const Candidate& one = candidates_[worker * room_ + i];
        if (one.query >= queries_ || one.position >= rows || one.product != 0 ||
            one.sum != candidate_sum(one.query, one.position))
          return false;
        ++times[one.query * rows + one.position];
      }
    }
    return true;
  }
  std::int64_t position_of(std::int64_t line, std::int64_t col) const {
    const std::int64_t slab = width_ == 64 ? 64 : 128, in_tile = line % tile_rows, in_slab = col % slab;
    return line / tile_rows * tile_rows * width_ + col / slab * slab * tile_rows + in_tile * slab +
           swizzled_chunk(static_cast<int>(slab), static_cast<int>(in_tile), static_cast<int>(in_slab / 16)) * 16 +
           in_slab % 16;
  }
  bool one_slab() const { return width_ <= 128; }
  float most() const { return kernel_.largest_threshold(one_slab()); }
  float term(std::int64_t row) const { return row_metadata_[row / tile_rows].terms[row % tile_rows]; }
  int sum(std::int64_t query, std::int64_t row) const { return product(query, row) + quick_bias(term(row), 1, most()); }
  int lost_bits() const { return kernel_.lost_bits(one_slab()); }
  int product(std::int64_t query, std::int64_t row) const {
    return products_[static_cast<std::size_t>(query * rows + row)];
  }
  int candidate_sum(std::int64_t query, std::int64_t row) const {
    return by_groups() ? product(query, row) : sum(query, row) | lost_bits();
  }
  bool passes(std::int64_t query, std::int64_t row) const {
    const ThresholdCoeffsF32 line = line_of(query);
    if (!(line.base > -static_cast<float>(infinite))) return false;
    const int threshold = quick_threshold(line, 0, 0, 1, most());
    return (sum(query, row) & ~lost_bits()) >= (threshold & ~lost_bits());
  }
  /// The threshold of a row's group is no higher than its own.
  bool is_candidate(std::int64_t query, std::int64_t row) const {
    if (!by_groups()) return passes(query, row);
    return static_cast<float>(candidate_sum(query, row)) >= threshold_of_group(query, row) || passes(query, row);
  }
  /// What a query's threshold is against the pair of groups that a row is of.
  float threshold_of_group(std::int64_t query, std::int64_t row) const {
    const GroupNorms& pair = row_metadata_[row / tile_rows].pairs[pair_of_row(static_cast<int>(row % tile_rows))];
    const float own = group_threshold(group_coeffs(line_of(query), 1), pair);
    if (!symmetric_) return own;
    const std::int64_t which = row / tile_rows * pairs_a_tile + pair_of_row(static_cast<int>(row % tile_rows));
    return std::fmin(
        own, group_threshold(loosest_[static_cast<std::size_t>(which)], sides_[static_cast<std::size_t>(query)].norms));
  }
  ThresholdCoeffsF32 line_of(std::int64_t query) const {
    return threshold_coeffs_f32(states_[static_cast<std::size_t>(query)].coeffs);
  }
  /// Counts a group's rows that pass; false where it is none, or knows
  /// of a row what is wrong: 16 bits of each product, and the largest.
  bool count_group(const GroupCandidate& group, std::vector<int>& times) const {
    if (group.query >= queries_ || group.position >= rows || group.position % 64 >= 8 || group.position % 2 != 0)
      return false;
    const int lost = lost_product_bits(width_);
    int largest = INT32_MIN;
    bool any = false;
    for (int i = 0; i < group_rows; ++i) {
      const std::int64_t row = group.position_of(i);
      const int one = product(group.query, row);
      const bool candidate = is_candidate(group.query, row), passed = (group.passed(lost) >> i & 1) != 0;
      if (group.product_bound(i, lost) < one || group.product_bound(i, lost) > one + (1 << lost) - 1) return false;
      if (candidate ? !passed : passed && group.threshold >> lost > one >> lost) return false;
      largest = std::max(largest, one);
      times[group.query * rows + row] += candidate ? 1 : 0;
      any = any || candidate;
    }
    return any && group.most == largest && group.threshold <= largest &&
           group.threshold == least_candidate(group.query, group.position);
  }
  /// The least product that is a candidate's, of a row of this group.
  int least_candidate(std::int64_t query, std::int64_t row) const {
    const float threshold = threshold_of_group(query, row);
    return static_cast<int>(std::ceil(threshold > -0x1p30F ? threshold : -0x1p30F));
  }
  /// A group is two rows of each eight, in a half of the tile.
  int largest_of(std::int64_t query, std::int64_t tile, int group) const {
    int largest = INT32_MIN;
    for (int i = 0; i < 16; ++i) {
      const std::int64_t row = tile * tile_rows + group % 2 * 64 + i / 2 * 8 + group / 2 * 2 + i % 2;
      largest = std::max(largest, product(query, row) + int8_bias(term(row), 1));
    }
    return largest;
  }

  std::int64_t width_, queries_, padded_;
  const FilterKernel& kernel_;
  int visits_;
  bool symmetric_;
  CandidateForm form_ = CandidateForm::sums;
  // Room for what a warp finds: all of its pairs, 16 queries x 128 rows or 32 x 64 of each visit, of two blocks at
  // most.
  std::uint32_t room_;
  std::vector<std::int8_t> row_bytes_, query_bytes_;  // as the filter takes them
  std::vector<int> products_;                         // [query][row]
  TileMetadata row_metadata_[tiles];
  std::vector<TileMetadata> query_metadata_;
  std::vector<QueryState> states_;
  std::vector<BothSides> sides_;  // of queries, as the next where tiles serve both sides
  std::vector<GroupCoeffs> loosest_;
  std::vector<Candidate> candidates_;
  std::vector<GroupCandidate> groups_;
  std::vector<std::uint32_t> used_;
  std::vector<int> nearest_;
};

/// Rows of half a slab and of one: a block of queries, and half of one, which the warpgroups of wgmma share. Rows of
/// two slabs and of four: a block, and so many queries that wgmma has a kernel for such rows, which takes them in two
/// blocks. visits: as many by default as make rings of buffers begin again.
template <class Device>
bool test_filter(Device& device, const FilterKernel& kernel, int visits = 14) {
  constexpr std::int64_t more = block_queries + 4;
  constexpr std::pair<std::int64_t, std::int64_t> shapes[] = {
      // width, queries
      {64, block_queries},  {64, tile_rows}, {128, block_queries}, {128, tile_rows},
      {256, block_queries}, {256, more},     {512, more}};
  for (const auto& [width, queries] : shapes) {
    FilterTest test(width, queries, kernel, visits);
    test.run(device);
    if (!test.judge()) return false;
    if (!kernel.groups || !tests_groups(queries, width) || (width <= 128 && queries < block_queries)) continue;
    FilterTest symmetric(width, queries, kernel, visits, true);
    symmetric.run(device);
    if (!symmetric.judge()) return false;
  }
  return true;
}

}  // namespace vicinal::cuda
