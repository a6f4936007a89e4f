// `vicinal recall RESULT TRUTH`: the share of the true neighbours that a result of any tool found, with ties counted
// both ways.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "command.hpp"
#include "files.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "text.hpp"
#include "vicinal/metric.hpp"

namespace cli {
namespace {

constexpr const char* examples =
    "By id: the share of the true k ids that are among the first k of RESULT. By distance, which is fair where "
    "distances\n"
    "tie: an id of RESULT counts when its distance is no worse than the true k-th one. Its distance is TRUTH's where\n"
    "TRUTH lists the id, else RESULT's own; of f32 and f64 distances, both are compared as f32.\n\n"
    "Examples:\n"
    "  vicinal recall ann.ivecs truth.ivecs -k 10\n"
    "  vicinal recall ann.npz truth.npz --metric inner_product --json";

struct Flags {
  std::string result, truth, distances, truth_distances, metric = "euclidean";
  std::int64_t k = 0;
  bool json = false;
};

double distance_at(const vicinal::ResultFile& file, std::int64_t row, std::int64_t rank) {
  const auto at = static_cast<std::size_t>(row * file.k + rank);
  switch (file.distance_type) {
    case vicinal::DistanceType::f64: return reinterpret_cast<const double*>(file.distances.data())[at];
    case vicinal::DistanceType::u32: return reinterpret_cast<const std::uint32_t*>(file.distances.data())[at];
    case vicinal::DistanceType::automatic:
    case vicinal::DistanceType::f32: break;
  }
  return reinterpret_cast<const float*>(file.distances.data())[at];
}

std::int64_t id_at(const vicinal::ResultFile& file, std::int64_t row, std::int64_t rank) {
  return file.ids[static_cast<std::size_t>(row * file.k + rank)];
}

struct Tally {
  std::int64_t wanted = 0, by_id = 0, by_distance = 0, perfect_rows = 0;
  double share(std::int64_t found) const {
    return wanted == 0 ? 1 : static_cast<double>(found) / static_cast<double>(wanted);
  }
};

class Counter {
 public:
  Counter(const vicinal::ResultFile& result, const vicinal::ResultFile& truth, std::int64_t k, bool descends)
      : result_(result), truth_(truth), k_(k), descends_(descends),
        narrow_(result.has_distances && result.distance_type != truth.distance_type) {}

  void add(std::int64_t row, Tally& tally) const {
    std::unordered_map<std::int64_t, std::int64_t> rank_of;  // in the truth, all of its width
    std::int64_t wanted = 0;
    for (std::int64_t rank = 0; rank < truth_.k; ++rank) {
      const std::int64_t id = id_at(truth_, row, rank);
      if (id < 0) continue;
      rank_of.emplace(id, rank);
      if (rank < k_) ++wanted;
    }
    std::unordered_set<std::int64_t> counted;
    std::int64_t by_id = 0, by_distance = 0;
    for (std::int64_t rank = 0; rank < k_; ++rank) {
      const std::int64_t id = id_at(result_, row, rank);
      if (id < 0 || !counted.insert(id).second) continue;
      const auto found = rank_of.find(id);
      const std::int64_t true_rank = found == rank_of.end() ? -1 : found->second;
      const bool among = true_rank >= 0 && true_rank < k_;
      if (among) ++by_id;
      if (truth_.has_distances && (among || near_enough(row, rank, true_rank, wanted))) ++by_distance;
    }
    tally.wanted += wanted;
    tally.by_id += by_id;
    tally.by_distance += std::min(by_distance, wanted);
    tally.perfect_rows += by_id == wanted ? 1 : 0;
  }

 private:
  double key(double distance) const {
    if (narrow_) distance = static_cast<double>(static_cast<float>(distance));
    return descends_ ? -distance : distance;
  }
  bool near_enough(std::int64_t row, std::int64_t rank, std::int64_t true_rank, std::int64_t wanted) const {
    if (wanted == 0 || (true_rank < 0 && !result_.has_distances)) return false;
    const double own = true_rank >= 0 ? distance_at(truth_, row, true_rank) : distance_at(result_, row, rank);
    return key(own) <= key(distance_at(truth_, row, wanted - 1));
  }

  const vicinal::ResultFile &result_, &truth_;
  std::int64_t k_;
  bool descends_, narrow_;
};

std::int64_t width(const Flags& flags, bool k_given, const vicinal::ResultFile& result,
                   const vicinal::ResultFile& truth) {
  if (result.rows != truth.rows)
    refuse(fmt::format("{} has {} rows, {} has {}; give the truth of the same queries", flags.result, result.rows,
                       flags.truth, truth.rows));
  if (k_given && flags.k < 1) refuse(fmt::format("k must be >= 1, got {}", flags.k));
  const std::int64_t k = k_given ? flags.k : result.k;
  for (const auto& [file, name] : {std::pair(&result, &flags.result), std::pair(&truth, &flags.truth)}) {
    if (k <= file->k) continue;
    refuse(fmt::format("k={} exceeds the {} columns of {}; -k {} looks at fewer", k, file->k, *name,
                       std::min(result.k, truth.k)));
  }
  return k;
}

int run_recall(const Flags& flags, bool k_given) {
  const bool descends = vicinal::metric_info(vicinal::parse_metric(flags.metric)).descending;
  const vicinal::ResultFile result = read_claim(flags.result, flags.distances);
  const vicinal::ResultFile truth = read_claim(flags.truth, flags.truth_distances);
  const std::int64_t k = width(flags, k_given, result, truth);
  const Counter counter(result, truth, k, descends);
  Tally tally;
  for (std::int64_t row = 0; row < result.rows; ++row) counter.add(row, tally);

  if (flags.json) {
    Json object = json_head("recall");
    object["rows"] = result.rows;
    object["k"] = k;
    object["neighbors"] = tally.wanted;
    object["recall"] = tally.share(tally.by_id);
    object["recall_by_distance"] = truth.has_distances ? Json(tally.share(tally.by_distance)) : Json();
    object["perfect_rows"] = tally.perfect_rows;
    print_json(object);
    return 0;
  }
  std::string text = fmt::format("recall@{} {:.6f} by id ({} of {})\n", k, tally.share(tally.by_id),
                                 count_text(tally.by_id), count_text(tally.wanted));
  if (truth.has_distances) {
    text += fmt::format("recall@{} {:.6f} by distance ({} of {}), ties counted{}\n", k, tally.share(tally.by_distance),
                        count_text(tally.by_distance), count_text(tally.wanted),
                        result.has_distances ? "" : " as far as TRUTH lists them");
  }
  print(text + fmt::format("{} of {} whole\n", count_text(tally.perfect_rows), plural(result.rows, "row")));
  return 0;
}

}  // namespace

Command register_recall(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("recall", "The share of the true neighbours that a result found");
  app.add_read_file("RESULT", flags->result, "ids, or ids and distances, of any tool").required();
  app.add_read_file("TRUTH", flags->truth, "the true ones, at least as many a row").required();
  const Option k =
      app.add_integer("-k", flags->k, "look at the first K of both (default: the width of RESULT)").type_name("K");
  app.add_read_file("--distances", flags->distances, "the distances, if RESULT has none");
  app.add_read_file("--truth-distances", flags->truth_distances, "the distances, if TRUTH has none");
  app.add_text("--metric", flags->metric, "only its direction matters (default euclidean)").type_name("METRIC");
  add_json(app, flags->json);
  app.footer(examples);
  return {app, [flags, k](Context&) { return run_recall(*flags, k.given()); }};
}

}  // namespace cli
