#include "conformance/golden.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "oracle/npz.hpp"

namespace conformance {
namespace {

DType dtype_of_descr(const std::string& descr) {
  if (descr == "<f4") return DType::f32;
  if (descr == "<f8") return DType::f64;
  if (descr == "<f2") return DType::f16;
  if (descr == "|u1") return DType::u8;
  if (descr == "|i1") return DType::i8;
  throw std::runtime_error("golden: unexpected type " + descr);
}

Table table_of(const oracle::Array& array) {
  Table table;
  table.dtype = dtype_of_descr(array.descr);
  table.n = array.shape.at(0);
  table.d = array.shape.at(1);
  table.bytes.resize(array.bytes.size());
  std::transform(array.bytes.begin(), array.bytes.end(), table.bytes.begin(),
                 [](unsigned char b) { return std::byte{b}; });
  return table;
}

GoldenPair pair_of(const std::string& name, const oracle::Array& ids, const oracle::Array& distances) {
  const std::string suffix = "_f64";
  const bool wide = name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
  GoldenPair pair;
  pair.name = name;
  pair.options.metric = vicinal::parse_metric(wide ? name.substr(0, name.size() - suffix.size()) : name);
  pair.options.distance_type = wide ? vicinal::DistanceType::f64 : vicinal::DistanceType::automatic;
  oracle::Answer& answer = pair.answer;
  answer.rows = ids.shape.at(0);
  answer.k = pair.options.k = ids.shape.at(1);
  answer.type = distances.descr == "<f8" ? vicinal::DistanceType::f64 : vicinal::DistanceType::f32;
  answer.keys =
      oracle::decode_rows(dtype_of_descr(distances.descr), distances.bytes.data(), answer.rows, answer.k).value;
  if (ids.descr != "<i8") throw std::runtime_error("golden: ids are " + ids.descr);
  const auto* id = reinterpret_cast<const std::int64_t*>(ids.bytes.data());
  answer.ids.assign(id, id + answer.rows * answer.k);
  return pair;
}
}  // namespace

std::vector<GoldenFile> golden_files() {
  std::vector<GoldenFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(VICINAL_TEST_DATA) + "/golden")) {
    if (entry.path().extension() != ".npz") continue;
    const auto arrays = oracle::read_npz(entry.path().string());
    GoldenFile file{
        entry.path().filename().string(), table_of(arrays.at("corpus")), table_of(arrays.at("queries")), {}};
    const std::string suffix = "_ids";
    for (const auto& [name, array] : arrays) {
      if (name.size() <= suffix.size() || name.substr(name.size() - suffix.size()) != suffix) continue;
      const std::string stem = name.substr(0, name.size() - suffix.size());
      file.pairs.push_back(pair_of(stem, array, arrays.at(stem + "_distances")));
    }
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

}  // namespace conformance
