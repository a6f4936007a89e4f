// Conversions to JSON, field by field under the names of the C++ structures.
#include "json.hpp"

#include "output.hpp"

namespace cli {

Json json_head(const std::string& command) { return {{"schema", 1}, {"command", command}}; }

Json json_of(const Side& side, const std::string& path) {
  if (!side.strings) return json_of(side.matrix, path);
  const bool bytes = side.strings->view().encoding == vicinal::Encoding::bytes;
  return {{"path", path}, {"rows", side.rows()}, {"strings", bytes ? "bytes" : "utf8"}};
}

Json json_of(const vicinal::Matrix& matrix, const std::string& path) {
  const vicinal::Points& points = matrix.points();
  return {{"path", path},
          {"rows", points.rows},
          {"cols", points.cols},
          {"dtype", vicinal::dtype_name(points.dtype)},
          {"mapped", matrix.mapped()}};
}

Json json_of(const vicinal::Certificate& certificate) {
  return {{"certified", certificate.all()},       {"queries", certificate.queries},
          {"proven", certificate.proven},         {"redone", certificate.redone},
          {"precisions", certificate.precisions}, {"largest_bound", certificate.largest_bound}};
}

Json json_of(const vicinal::Stats& stats) {
  return {{"device", stats.device},
          {"instruction_set", stats.instruction_set},
          {"threads", stats.threads},
          {"seconds", stats.seconds},
          {"prepare_seconds", stats.prepare_seconds},
          {"pairs", stats.pairs},
          {"candidates", stats.candidates},
          {"reranked", stats.reranked},
          {"underflowed", stats.underflowed},
          {"copied_bytes", stats.copied_bytes},
          {"planned_bytes", stats.planned_bytes},
          {"used_bytes", stats.used_bytes},
          {"rotated", stats.rotated},
          {"planned_seconds", stats.planned_seconds},
          {"passes", stats.passes},
          {"notes", stats.notes}};
}

Json json_of(const vicinal::Plan& plan) {
  return {{"device", plan.device},
          {"instruction_set", plan.instruction_set},
          {"cascade", plan.cascade},
          {"threads", plan.threads},
          {"distance_type", vicinal::distance_type_name(plan.distance_type)},
          {"budget_bytes", plan.budget_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"minimum_bytes", plan.minimum_bytes},
          {"result_bytes", plan.result_bytes},
          {"corpus_chunk", plan.corpus_chunk},
          {"query_batch", plan.query_batch},
          {"query_block", plan.query_block},
          {"row_splits", plan.row_splits},
          {"passes", plan.passes},
          {"candidate_slots", plan.candidate_slots},
          {"match_bytes", plan.match_bytes},
          {"symmetric", plan.symmetric},
          {"rotated", plan.rotated},
          {"resident", plan.resident},
          {"seconds", plan.seconds},
          {"sampled_rows", plan.sampled_rows},
          {"left_rows", plan.left_rows},
          {"notes", plan.notes}};
}

Json json_ids(const vicinal::Neighbors& result) {
  Json rows = Json::array();
  for (std::int64_t row = 0; row < result.rows(); ++row) {
    const std::int64_t* const first = result.ids() + row * result.k();
    rows.push_back(Json(std::vector<std::int64_t>(first, first + result.k())));
  }
  return rows;
}

Json json_distances(const vicinal::Neighbors& result) {
  Json rows = Json::array();
  for (std::int64_t row = 0; row < result.rows(); ++row) {
    Json ranks = Json::array();
    for (std::int64_t rank = 0; rank < result.k(); ++rank) ranks.push_back(result.distance(row, rank));
    rows.push_back(ranks);
  }
  return rows;
}

void add_lists(Json& object, const vicinal::CsrNeighbors& lists) {
  object["offsets"] = std::vector<std::int64_t>(lists.offsets(), lists.offsets() + lists.rows() + 1);
  object["ids"] = std::vector<std::int64_t>(lists.ids(), lists.ids() + lists.entries());
  Json distances = Json::array();
  for (std::int64_t row = 0; row < lists.rows(); ++row)
    for (std::int64_t rank = 0; rank < lists.count(row); ++rank) distances.push_back(lists.distance(row, rank));
  object["distances"] = std::move(distances);
}

void print_json(const Json& object) { print(object.text() + "\n"); }

}  // namespace cli
