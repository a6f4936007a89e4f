// vicinal_match_pairs of vicinal.h.
#include "vicinal/match.hpp"

#include <memory>
#include <vector>

#include "capi/call.hpp"

namespace {

using namespace vicinal;
using namespace vicinal::capi;

MatchOptions match_of(const vicinal_match_options* given, const vicinal_options* rest) {
  const KnnOptions search = search_of(known(rest), 1);
  MatchOptions options{.memory = search.memory, .run = search.run, .progress = search.progress};
  if (given == nullptr) return options;
  if (given->size != sizeof *given)
    refuse(cat("tests.size is ", given->size, ", set it to sizeof(vicinal_match_options)"));
  if (given->distance != nullptr) options.distance = parse_match_distance(given->distance);
  if (given->mutual != nullptr) options.mutual = parse_mutual(given->mutual);
  if (given->ratio != 0) options.ratio = given->ratio;
  if (given->without_ratio != 0) options.ratio.reset();
  if (given->has_max_distance != 0) options.max_distance = given->max_distance;
  options.strict = given->inclusive == 0;
  options.accept_lone = given->reject_lone == 0;
  return options;
}

std::vector<ImagePair> pairs_of(const DLTensor* pairs) {
  const Values values = values_of(pairs, "pairs");
  if (values.type != ValueType::i64 || (values.rows > 0 && values.cols != 2)) refuse("pairs must be (P, 2) int64");
  std::vector<ImagePair> all(static_cast<std::size_t>(values.rows));
  for (std::int64_t p = 0; p < values.rows; ++p)
    for (std::int64_t side = 0; side < 2; ++side)
      std::memcpy(&all[static_cast<std::size_t>(p)][static_cast<std::size_t>(side)],
                  static_cast<const std::byte*>(values.data) + p * values.row_stride + side * values.col_stride, 8);
  return all;
}

}  // namespace

extern "C" int vicinal_match_pairs(size_t images, const DLTensor* const* rows, const DLTensor* pairs,
                                   const vicinal_match_options* tests, const vicinal_options* options,
                                   DLManagedTensor** offsets, DLManagedTensor** matched_rows,
                                   DLManagedTensor** distances, DLManagedTensor** ratios) {
  for (DLManagedTensor** out : {offsets, matched_rows, distances, ratios})
    if (out != nullptr) *out = nullptr;
  return guarded([&] {
    std::vector<Points> points;
    if (images > 0) required(rows, "rows");
    for (std::size_t i = 0; i < images; ++i) points.push_back(points_of(rows[i], cat("image ", i).c_str()));
    auto found = std::make_shared<const Matches>(match_pairs(points, pairs_of(pairs), match_of(tests, options)));
    const auto count = static_cast<std::int64_t>(found->rows.size());
    Tensor ends = int64_tensor(found, found->offsets.data(), found->pairs() + 1),
           matched = int64_tensor(found, count == 0 ? nullptr : found->rows[0].data(), count, 2),
           values = distance_tensor(found->distances.keeper(), found->distances.data(), found->distances.type(), count),
           quotients = distance_tensor(found, found->ratios.data(), DistanceType::f64, count);
    if (offsets != nullptr) *offsets = ends.release();
    if (matched_rows != nullptr) *matched_rows = matched.release();
    if (distances != nullptr) *distances = values.release();
    if (ratios != nullptr) *ratios = quotients.release();
  });
}
