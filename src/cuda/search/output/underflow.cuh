// Inner products so small that their key is nothing, in searches whose corpus comes in chunks: the sign of such a zero
// is the product's, which is known only while its row is on the device. They are few, and the host keeps them.
#pragma once
#include <algorithm>
#include <vector>
#include "cuda/device/device.hpp"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/rerank/rank.cuh"

namespace vicinal::cuda {

/// Products of a chunk that are nothing, found at a time (underflow.cuh).
inline constexpr std::int64_t underflowed_room = 1 << 18, underflowed_bytes = 24;

/// An entry whose key is nothing though its product is not.
struct Underflowed {
  std::int64_t query, row, negative;  // number in the batch, row of the corpus
};
struct NoteUnderflowed {
  SearchArgs args;
  Ranking ranking;
  bool filters = true;
  std::int64_t first = 0, last = 0;  // positions
  Underflowed* found = nullptr;
  unsigned* count = nullptr;
};
template <class Form>
__global__ void note_underflowed(NoteUnderflowed n) {
  const SearchArgs& args = n.args;
  const std::int64_t position = n.first + static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
  if (position >= n.last) return;
  const std::int64_t query = n.filters ? args.queries.order[position] : position;
  const auto* best = static_cast<const typename Form::Word*>(args.best) + position * args.k;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(args.states[position].best); ++i) {
    const std::int64_t row = Form::position(best[i]) - args.first_row;
    if (ListWords<Form>::key(best[i]) != 0 || row < 0 || row >= args.rows.count) continue;
    const std::int64_t rows[1] = {row * args.rows.dims}, queries[1] = {query * args.rows.dims};
    const double shifts[1] = {0.0};
    const double value = value_of_sum(
        n.ranking, pair_sums<1, 1>(n.ranking, sum_of(n.ranking.metric), rows, shifts, queries), query, row);
    if (value != 0 && lane_index() == 0) n.found[atomicAdd(n.count, 1u)] = {query, args.first_row + row, value < 0};
  }
}

template <class Device>
class UnderflowedProducts {
 public:
  explicit UnderflowedProducts(Device& device) : device_(device), found_(device), used_(device) {}

  void clear() { all_.clear(); }

  /// Those of the lists as they are, whose rows are in the chunk.
  void keep(const SearchArgs& args, bool filters, bool wide) {
    constexpr std::int64_t room = underflowed_room;
    static_assert(sizeof(Underflowed) == underflowed_bytes, "session_bytes counts them");
    const std::int64_t count = args.queries.count,
                       per = std::max<std::int64_t>(1, room / std::max<std::int64_t>(args.k, 1));
    NoteUnderflowed n{.args = args,
                      .ranking = ranking_of(args),
                      .filters = filters,
                      .found = found_.reserve(std::max(room, args.k)),
                      .count = used_.reserve(1)};
    for (n.first = 0; n.first < count; n.first = n.last) {
      n.last = std::min(count, n.first + per);
      device_.zero(n.count, sizeof(unsigned));
      device_.launch()((n.last - n.first + 3) / 4, 128, 0, wide ? note_underflowed<Wide> : note_underflowed<Packed>, n);
      unsigned used = 0;
      device_.out(&used, n.count, sizeof used);
      device_.wait();
      const std::size_t before = all_.size();
      all_.resize(before + used);
      device_.out(all_.data() + before, n.found, static_cast<std::int64_t>(used * sizeof(Underflowed)));
      device_.wait();
    }
  }

  /// Their signs to the entries that are still in the result, but for rows from last_chunk on, which finish_queries
  /// had. Returns how many. rows: of the queries in `out`. on_device: it is memory of the device.
  std::int64_t give_back(const NeighborsView& out, const QueryRows& rows, std::int64_t first_id,
                         std::int64_t last_chunk, bool on_device) {
    std::int64_t given = 0;
    std::vector<std::int64_t> copy(on_device ? static_cast<std::size_t>(out.k) : 0);
    for (const Underflowed& one : all_) {
      if (one.row >= last_chunk) continue;
      const std::int64_t base = rows[static_cast<std::size_t>(one.query)] * out.k;
      const std::int64_t* ids = out.ids + base;
      if (on_device) {
        device_.copy(copy.data(), ids, out.k * 8);
        device_.wait();
        ids = copy.data();
      }
      const std::int64_t at = std::find(ids, ids + out.k, first_id + one.row) - ids;
      if (at == out.k) continue;
      ++given;
      const float zero = one.negative != 0 ? -0.0F : 0.0F;
      device_.copy(static_cast<float*>(out.distances) + base + at, &zero, sizeof zero);
      device_.wait();
    }
    return given;
  }

 private:
  Device& device_;
  DeviceBuffer<Underflowed, Device> found_;
  DeviceBuffer<unsigned, Device> used_;
  std::vector<Underflowed> all_;
};

}  // namespace vicinal::cuda
