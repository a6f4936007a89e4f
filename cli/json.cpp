// Conversions to JSON, field by field under the names of the C++ structures (vicinal/fields.hpp).
#include "json.hpp"

#include "output.hpp"
#include "vicinal/fields.hpp"

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

namespace {

Json field_json(vicinal::DistanceType type) { return vicinal::distance_type_name(type); }
Json field_json(const std::vector<vicinal::Device>& devices) {
  Json list = Json::array();
  for (const vicinal::Device& device : devices) list.push_back(json_of(device));
  return list;
}
template <class Value>
Json field_json(const Value& value) {
  return value;
}

template <class Struct>
void add_fields(Json& object, const Struct& from) {
  vicinal::for_each_field(from, [&](const char* name, const auto& value) { object[name] = field_json(value); });
}

template <class Struct>
Json fields_json(const Struct& from) {
  Json object;
  add_fields(object, from);
  return object;
}

}  // namespace

Json json_of(const vicinal::Certificate& certificate) {
  Json object;
  object["certified"] = certificate.all();
  add_fields(object, certificate);
  return object;
}

Json json_of(const vicinal::Stats& stats) { return fields_json(stats); }
Json json_of(const vicinal::Plan& plan) { return fields_json(plan); }
Json json_of(const vicinal::Device& device) { return fields_json(device); }
void add_info(Json& object, const vicinal::Info& info) { add_fields(object, info); }

void add_lists(Json& object, const vicinal::Neighbors& lists) {
  Json ids = Json::array(), distances = Json::array();
  for (std::int64_t row = 0; row < lists.rows(); ++row) {
    const std::int64_t* const first = lists.ids() + row * lists.k();
    ids.push_back(Json(std::vector<std::int64_t>(first, first + lists.k())));
    Json ranks = Json::array();
    for (std::int64_t rank = 0; rank < lists.k(); ++rank) ranks.push_back(lists.distance(row, rank));
    distances.push_back(std::move(ranks));
  }
  object["ids"] = std::move(ids);
  object["distances"] = std::move(distances);
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
