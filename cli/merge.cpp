// `vicinal merge PART...`: k-lists of parts of a corpus, found with global ids, to the k-list of the whole.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "command.hpp"
#include "files.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "text.hpp"
#include "vicinal/search.hpp"

namespace cli {
namespace {

constexpr const char* examples =
    "Every PART holds ids and distances (.npz .bin .csv .tsv .hdf5) of the same queries, its ids global: search each\n"
    "part of the corpus with its own --first-id. The bits are those of one search over the whole, in any order of "
    "parts.\n\n"
    "Examples:\n"
    "  vicinal merge part0.npz part1.npz part2.npz -o whole.npz\n"
    "  vicinal merge a.bin b.bin -k 10 --metric inner_product -o whole.ivecs --distances whole.fvecs";

struct Flags {
  std::vector<std::string> parts;
  std::string output, distances, metric = "euclidean";
  std::int64_t k = 0;
  bool pad = false, json = false;
};

vicinal::NeighborsView view_of(vicinal::ResultFile& part, const std::string& path) {
  if (!part.has_distances)
    refuse(path + " has no distances; merge needs them (write parts as .npz, .bin, .csv or .hdf5)");
  return {part.ids.data(), part.distances.data(), part.distance_type, part.rows, part.k, nullptr};
}

int run_merge(const Flags& flags, bool k_given) {
  const OutputFile out(flags.output);
  if (flags.json && out.stream()) refuse("--json and an output on stdout exclude each other");
  if (k_given && flags.k < 1) refuse(fmt::format("k must be >= 1, got {}", flags.k));
  vicinal::check_writable(out.path(), flags.distances);
  const vicinal::MergeOptions options{.k = flags.k, .metric = vicinal::parse_metric(flags.metric), .pad = flags.pad};

  std::vector<vicinal::ResultFile> parts;
  std::vector<vicinal::NeighborsView> views;
  parts.reserve(flags.parts.size());
  for (const std::string& path : flags.parts) {
    parts.push_back(read_claim(path));
    views.push_back(view_of(parts.back(), path));
  }
  const vicinal::Neighbors merged = vicinal::merge(views, options);
  vicinal::write_neighbors(out.path(), merged, flags.distances);
  if (out.stream()) {
    out.send();
    return 0;
  }
  if (!flags.json) {
    print(fmt::format("merged {} into {}: {}, k={}\n", plural(std::ssize(views), "part"), flags.output,
                      plural(merged.rows(), "query"), merged.k()));
    return 0;
  }
  Json object = json_head("merge");
  object["parts"] = flags.parts;
  object["rows"] = merged.rows();
  object["k"] = merged.k();
  object["metric"] = std::string(vicinal::metric_info(options.metric).name);
  object["distance_type"] = vicinal::distance_type_name(merged.type());
  object["output"]["ids"] = flags.output;
  if (!flags.distances.empty()) object["output"]["distances"] = flags.distances;
  print_json(object);
  return 0;
}

}  // namespace

Command register_merge(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("merge", "Results of parts of a corpus to the result of the whole");
  app.add_read_files("PART", flags->parts, "ids and distances of one part").required();
  app.add_written_file("-o,--output", flags->output, "write the result here (- for CSV on stdout)").required();
  app.add_written_file("--distances", flags->distances, "write the distances here");
  const Option k = app.add_integer("-k", flags->k, "neighbours a query (default: the widest part's)").type_name("K");
  app.add_text("--metric", flags->metric, "only its direction matters (default euclidean)").type_name("METRIC");
  app.add_flag("--pad", flags->pad, "k beyond all entries: fill with id -1 and the worst distance");
  add_json(app, flags->json);
  app.footer(examples);
  return {app, [flags, k](Context&) { return run_merge(*flags, k.given()); }};
}

}  // namespace cli
