// `vicinal knn CORPUS QUERIES -k K`: read, plan, search, write or show.
#include <fmt/format.h>

#include <memory>

#include "search.hpp"
#include "vicinal/search.hpp"

namespace cli {
namespace {

constexpr std::int64_t table_queries = 8, table_nearest = 4;

constexpr const char* examples =
    "The suffix of -o decides the format: .npz, .bin, .csv, .tsv and .hdf5 hold ids and distances; .npy, .ivecs, "
    ".ibin\n"
    "and .u64bin hold ids, and --distances (.npy, .fvecs, .fbin) the rest. With --json and no -o the object carries "
    "the\n"
    "ids and distances. - is CSV on stdin or stdout, npy:- and the like another format.\n\n"
    "Examples:\n"
    "  vicinal knn corpus.fvecs queries.fvecs -k 100 -o truth.ivecs --distances truth.fvecs\n"
    "  vicinal knn data.npz:corpus data.npz:queries -k 10 --metric cosine\n"
    "  vicinal knn glove.hdf5:train - -k 5 -o - < queries.csv\n"
    "  vicinal knn corpus.npy queries.npy -k 10 --memory 256MiB --plan\n"
    "  vicinal knn words.txt typed.txt -k 5 --metric levenshtein";

struct Flags : RunFlags {
  std::int64_t k = 0;
};

struct KnnSearch {
  using Result = vicinal::Neighbors;
  using Run = SearchRun<Result>;
  static constexpr const char *name = "knn", *output = "ids";
  static constexpr bool queries = true;

  explicit KnnSearch(Flags& given) : flags(given), knn_options(search_options(given.search)) {
    knn_options.k = flags.k;
    if (flags.output.path.empty() && !flags.distances.empty()) refuse("--distances PATH needs -o PATH for the ids");
  }

  static vicinal::ResultKind kind() { return vicinal::ResultKind::neighbors; }
  vicinal::KnnOptions& options() { return knn_options; }

  void describe(Json& object) const {
    object["k"] = flags.k;
    object["metric"] = metric_name(flags.search.metric);
  }
  vicinal::Plan plan(const Side& corpus, const Side& asked) const {
    return with_sides(corpus, asked, [&](const auto& a, const auto& b) { return vicinal::plan(a, b, knn_options); });
  }
  Result find(const Side& corpus, const Side& asked) const {
    return with_sides(corpus, asked, [&](const auto& a, const auto& b) { return vicinal::knn(a, b, knn_options); });
  }
  Result resume(const vicinal::Points& corpus, const vicinal::Points& asked, const std::string& folder) const {
    return vicinal::knn_resumable(corpus, asked, knn_options, folder);
  }
  void finish(Result& /*result*/) const {}
  void write(const std::string& path, const Result& result) const {
    vicinal::write_neighbors(path, result, flags.distances);
  }
  void add_size(Json& /*object*/, const Result& /*result*/) const {}
  void add_lists(Json& object, const Result& result) const { cli::add_lists(object, result); }
  std::string table(const Result& result) const { return neighbors_text(result, table_queries, table_nearest); }
  std::string summary(const Run& run) const {
    return fmt::format("{} nearest of {} for {}, {}, {}: {} {}\n", count_text(flags.k),
                       plural(run.corpus.rows(), "row"), plural(run.result.rows(), "query"), width_text(run.corpus),
                       metric_name(flags.search.metric), seconds_text(run.seconds.search),
                       place_text(run.result.stats));
  }

  const Flags& flags;
  vicinal::KnnOptions knn_options;
};

}  // namespace

Command register_knn(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("knn", "The k nearest rows of CORPUS for each row of QUERIES, exactly");
  add_inputs(app, flags->search);
  app.add_integer("-k", flags->k, "neighbours a query").required().type_name("K");
  add_meaning(app, flags->search);
  app.add_text("--distance-type", flags->search.distance_type, "type of the distances (default auto)")
      .type_name("auto|f32|f64|u32");
  app.add_flag("--pad", flags->search.pad, "k beyond the rows of CORPUS: fill with id -1 and the worst distance");
  add_search(app, *flags, true);
  app.add_written_file("--distances", flags->distances, "write the distances here");
  add_resume(app, flags->resume);
  app.footer(examples);
  return {app, [flags](Context& context) {
            KnnSearch search(*flags);
            return run_search(search, *flags, context);
          }};
}

}  // namespace cli
