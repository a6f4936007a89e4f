// `vicinal graph CORPUS -k K`: the k nearest other rows of every row, as lists or as a sparse matrix.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "search.hpp"
#include "vicinal/search.hpp"

namespace cli {
namespace {

constexpr std::int64_t table_rows = 8, table_nearest = 4;

constexpr const char* examples =
    "The suffix of -o decides the format: .npz is a sparse matrix for scipy.sparse.load_npz, .mtx the same as text; "
    "the\n"
    "others take the lists as `vicinal knn` writes them. --symmetrize needs .npz or .mtx.\n\n"
    "Examples:\n"
    "  vicinal graph embeddings.npy -k 15 -o graph.npz\n"
    "  vicinal graph embeddings.npy -k 15 --metric cosine --symmetrize union -o graph.npz\n"
    "  vicinal graph embeddings.npy -k 15 --include-self -o ids.npy --distances distances.npy";

struct Flags : RunFlags {
  std::int64_t k = 0;
  std::string symmetrize;
  bool include_self = false;
};

std::optional<vicinal::Symmetrize> symmetrize_of(const Flags& flags) {
  if (flags.symmetrize.empty()) return std::nullopt;
  if (flags.symmetrize == "union") return vicinal::Symmetrize::either;
  if (flags.symmetrize == "mutual") return vicinal::Symmetrize::mutual;
  refuse("--symmetrize must be union or mutual, got " + flags.symmetrize);
}

struct GraphSearch {
  using Result = vicinal::Neighbors;
  using Run = SearchRun<Result>;
  static constexpr const char *name = "graph", *output = "graph";
  static constexpr bool queries = false;

  explicit GraphSearch(Flags& given) : flags(given), symmetrize(symmetrize_of(given)) {
    if (!flags.distances.empty() && (flags.output.path.empty() || symmetrize))
      refuse(symmetrize ? "--symmetrize writes one file; leave out --distances"
                        : "--distances PATH needs -o PATH for the ids");
    graph_options = {.search = search_options(given.search), .include_self = flags.include_self};
    graph_options.search.k = flags.k;
  }

  vicinal::ResultKind kind() const {
    return symmetrize ? vicinal::ResultKind::sparse_graph : vicinal::ResultKind::graph;
  }
  vicinal::KnnOptions& options() { return graph_options.search; }

  void describe(Json& object) const {
    object["k"] = flags.k;
    object["metric"] = metric_name(flags.search.metric);
    object["include_self"] = flags.include_self;
    object["symmetrize"] = flags.symmetrize.empty() ? Json() : Json(flags.symmetrize);
  }
  vicinal::Plan plan(const Side& corpus, const Side& /*asked*/) const {
    return with_side(corpus, [&](const auto& rows) { return vicinal::plan_graph(rows, graph_options); });
  }
  Result find(const Side& corpus, const Side& /*asked*/) const {
    return with_side(corpus, [&](const auto& rows) { return vicinal::knn_graph(rows, graph_options); });
  }
  Result resume(const vicinal::Points& corpus, const vicinal::Points& /*asked*/, const std::string& folder) const {
    return vicinal::knn_graph_resumable(corpus, graph_options, folder);
  }
  void finish(Result& result) {
    if (symmetrize) symmetric = vicinal::symmetrize(result, *symmetrize);
  }
  void write(const std::string& path, const Result& result) const {
    symmetric ? vicinal::write_graph(path, *symmetric) : vicinal::write_graph(path, result, flags.distances);
  }
  void add_size(Json& object, const Result& result) const {
    object["edges"] = symmetric ? symmetric->entries() : result.rows() * result.k();
  }
  void add_lists(Json& object, const Result& result) const {
    symmetric ? cli::add_lists(object, *symmetric) : cli::add_lists(object, result);
  }
  std::string table(const Result& result) const { return neighbors_text(result, table_rows, table_nearest); }
  std::string summary(const Run& run) const {
    std::string text =
        fmt::format("{} nearest others of {}, {}, {}: {} {}\n", count_text(flags.k), plural(run.result.rows(), "row"),
                    width_text(run.corpus), metric_name(flags.search.metric), seconds_text(run.seconds.search),
                    place_text(run.result.stats));
    if (symmetric)
      text += fmt::format("made symmetric ({}): {}\n", flags.symmetrize, plural(symmetric->entries(), "entry"));
    return text;
  }

  const Flags& flags;
  std::optional<vicinal::Symmetrize> symmetrize;
  vicinal::GraphOptions graph_options;
  std::optional<vicinal::CsrNeighbors> symmetric;
};

}  // namespace

Command register_graph(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("graph", "The k nearest other rows of each row of CORPUS, exactly");
  app.add_read_file("CORPUS", flags->search.corpus, "rows (PATH, or PATH.npz:MEMBER)").required();
  app.add_integer("-k", flags->k, "neighbours a row, itself not counted").required().type_name("K");
  app.add_flag("--include-self", flags->include_self, "let a row be its own neighbour, at distance 0");
  app.add_text("--symmetrize", flags->symmetrize,
               "keep edges that either row lists, or both list (default: neither, lists as found)")
      .type_name("union|mutual");
  add_meaning(app, flags->search, false);
  app.add_flag("--pad", flags->search.pad, "k beyond the other rows: fill with id -1 and the worst distance");
  add_search(app, *flags, false);
  app.add_written_file("--distances", flags->distances, "write the distances here");
  add_resume(app, flags->resume);
  app.footer(examples);
  return {app, [flags](Context& context) {
            GraphSearch search(*flags);
            return run_search(search, *flags, context);
          }};
}

}  // namespace cli
