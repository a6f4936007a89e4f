// The distances that only an index has, on the host: a line each.
// Rows are widened to binary64; for dtw several go side by side.
#include <algorithm>

#include "core/measures/emd.hpp"
#include "core/measures/hellinger.hpp"
#include "core/measures/jensen_shannon.hpp"
#include "core/measures/kullback_leibler.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/permutation/objects.hpp"
#include "cpu/permutation/warping.hpp"
#include "prepare/load.hpp"

namespace vicinal::cpu {
namespace {

using Value = double (*)(const double* query, const double* row, std::int64_t cols, std::int64_t window);

std::int64_t scratch_of_one(const InstructionSet& /*set*/, std::int64_t cols) { return 2 * cols; }

template <Value value>
void one_by_one(const InstructionSet& set, const double* query, const Points& rows, const std::uint32_t* objects,
                std::int64_t count, std::int64_t window, std::vector<double>& scratch, double* values) {
  scratch.resize(static_cast<std::size_t>(scratch_of_one(set, rows.cols)));
  for (std::int64_t i = 0; i < count; ++i) {
    load_row(set.floats, rows, objects[i], scratch.data() + rows.cols, scratch.data());
    values[i] = value(query, scratch.data(), rows.cols, window);
  }
}

std::int64_t scratch_of_warped(const InstructionSet& set, std::int64_t cols) {
  return 2 * cols + (2 * cols + 1) * set.warping.rows;
}

void warped(const InstructionSet& set, const double* query, const Points& rows, const std::uint32_t* objects,
            std::int64_t count, std::int64_t window, std::vector<double>& scratch, double* values) {
  const Warping& warping = set.warping;
  const std::int64_t cols = rows.cols, lanes = warping.rows;
  scratch.resize(static_cast<std::size_t>(scratch_of_warped(set, cols)));
  double* const row = scratch.data();
  double* const side_by_side = row + 2 * cols;
  double* const costs = side_by_side + cols * lanes;
  double found[warped_avx512];
  for (std::int64_t begin = 0; begin < count; begin += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {  // what is missing at the end is the last one again
      if (begin + lane < count) load_row(set.floats, rows, objects[begin + lane], row + cols, row);
      for (std::int64_t j = 0; j < cols; ++j) side_by_side[j * lanes + lane] = row[j];
    }
    warping.warp(query, side_by_side, cols, window, costs, found);
    std::copy_n(found, std::min(lanes, count - begin), values + begin);
  }
}

constexpr Measure all_measures[] = {
    {Metric::jensen_shannon, true, one_by_one<measures::jensen_shannon>, scratch_of_one},
    {Metric::kullback_leibler, true, one_by_one<measures::kullback_leibler>, scratch_of_one},
    {Metric::hellinger, true, one_by_one<measures::hellinger>, scratch_of_one},
    {Metric::emd, true, one_by_one<measures::emd>, scratch_of_one},
    {Metric::dtw, false, warped, scratch_of_warped}};

}  // namespace

const Measure* find_measure(Metric metric) noexcept {
  for (const Measure& measure : all_measures)
    if (measure.metric == metric) return &measure;
  return nullptr;
}

}  // namespace vicinal::cpu
