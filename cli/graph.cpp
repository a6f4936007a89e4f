// `vicinal graph CORPUS -k K`: the k nearest other rows of every row, as lists or as a sparse matrix.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "command.hpp"
#include "output.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "text.hpp"
#include "vicinal/error.hpp"
#include "vicinal/resume.hpp"
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

struct Flags {
  SearchFlags search;
  std::int64_t k = 0;
  std::string symmetrize, distances, resume;
  bool include_self = false;
  OutputFlags output;
};

struct Run {
  Side corpus;
  vicinal::Plan plan;
  vicinal::Neighbors graph;
  std::optional<vicinal::CsrNeighbors> symmetric;
  Timing seconds;

  Report report() const { return {graph.certificate, graph.stats, plan, corpus, graph.rows(), seconds}; }
};

std::optional<vicinal::Symmetrize> symmetrize_of(const Flags& flags) {
  if (flags.symmetrize.empty()) return std::nullopt;
  if (flags.symmetrize == "union") return vicinal::Symmetrize::either;
  if (flags.symmetrize == "mutual") return vicinal::Symmetrize::mutual;
  throw vicinal::Error(vicinal::ErrorCode::invalid_argument,
                       "--symmetrize must be union or mutual, got " + flags.symmetrize);
}

Json describe(const Flags& flags, const Run& run) {
  Json object = json_head("graph");
  object["corpus"] = json_of(run.corpus, flags.search.corpus);
  object["k"] = flags.k;
  object["metric"] = metric_name(flags.search.metric);
  object["include_self"] = flags.include_self;
  object["symmetrize"] = flags.symmetrize.empty() ? Json() : Json(flags.symmetrize);
  return object;
}

void print_result_json(const Flags& flags, const Run& run) {
  Json object = describe(flags, run);
  add_report(object, run.report(), run.graph.type(), flags.output.explain);
  object["edges"] = run.symmetric ? run.symmetric->entries() : run.graph.rows() * run.graph.k();
  if (!flags.output.path.empty()) {
    object["output"] = {{"graph", flags.output.path}};
    if (!flags.distances.empty()) object["output"]["distances"] = flags.distances;
  } else if (run.symmetric) {
    add_lists(object, *run.symmetric);
  } else {
    object["ids"] = json_ids(run.graph);
    object["distances"] = json_distances(run.graph);
  }
  print_json(object);
}

void print_result_text(const Flags& flags, const Run& run) {
  std::string text;
  if (flags.output.path.empty()) text += neighbors_text(run.graph, table_rows, table_nearest) + "\n";
  text += fmt::format("{} nearest others of {}, {}, {}: {} {}\n", count_text(flags.k), plural(run.graph.rows(), "row"),
                      width_text(run.corpus), metric_name(flags.search.metric), seconds_text(run.seconds.search),
                      place_text(run.graph.stats));
  if (run.symmetric)
    text += fmt::format("made symmetric ({}): {}\n", flags.symmetrize, plural(run.symmetric->entries(), "entry"));
  text += certificate_text(run.graph.certificate) + "\n";
  if (!flags.output.path.empty()) text += "wrote " + flags.output.path + "\n";
  if (!flags.distances.empty()) text += "wrote " + flags.distances + "\n";
  if (flags.output.explain) text += "\n" + explain_text(run.report(), !flags.output.path.empty());
  print(text);
}

vicinal::Plan plan_of(const vicinal::Points& rows, const vicinal::GraphOptions& options) {
  return vicinal::plan_graph(rows, options);
}
vicinal::Plan plan_of(const vicinal::Strings& rows, const vicinal::GraphOptions& options) {
  return vicinal::plan_graph(rows, options);
}

int run_graph(Flags& flags, Context& context) {
  const auto symmetrize = symmetrize_of(flags);
  if (!flags.distances.empty() && (flags.output.path.empty() || symmetrize))
    throw vicinal::Error(vicinal::ErrorCode::invalid_argument,
                         symmetrize ? "--symmetrize writes one file; leave out --distances"
                                    : "--distances PATH needs -o PATH for the ids");
  vicinal::GraphOptions options{.search = search_options(flags.search), .include_self = flags.include_self};
  options.search.k = flags.k;
  check_resume(flags.resume, flags.output);
  const OutputFile out(flags.output.path);
  refuse_json_stream(flags.output, out);
  if (!flags.output.path.empty())
    vicinal::check_writable(out.path(), flags.distances,
                            symmetrize ? vicinal::ResultKind::sparse_graph : vicinal::ResultKind::graph);

  Run run;
  const auto start = std::chrono::steady_clock::now();
  run.corpus = read_side(flags.search.corpus, flags.search);
  run.seconds.read = seconds_since(start);
  begin_resume(flags.resume, run.corpus, context);
  run.plan = with_side(run.corpus, [&](const auto& rows) { return plan_of(rows, options); });
  if (flags.output.plan) return print_plan(run.plan, describe(flags, run), flags.output.json);

  const bool resumable = !flags.resume.empty();
  const auto search = [&] {
    run.graph = interruptible("graph", options.search, context.interrupt, [&] {
      if (resumable) return vicinal::knn_graph_resumable(run.corpus.matrix.points(), options, flags.resume);
      return with_side(run.corpus, [&](const auto& rows) { return vicinal::knn_graph(rows, options); });
    });
    add_notes(run.graph.stats, run.corpus, flags.search.corpus);
    if (symmetrize) run.symmetric = vicinal::symmetrize(run.graph, *symmetrize);
  };
  const auto write = [&] {
    run.symmetric ? vicinal::write_graph(out.path(), *run.symmetric)
                  : vicinal::write_graph(out.path(), run.graph, flags.distances);
    if (resumable) vicinal::discard_pieces(flags.resume);
  };
  if (carry_out(run.seconds, out, search, write))
    flags.output.json ? print_result_json(flags, run) : print_result_text(flags, run);
  return 0;
}

}  // namespace

Command register_graph(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("graph", "The k nearest other rows of each row of CORPUS, exactly");
  app.add_read_file("CORPUS", flags->search.corpus, "rows (PATH, or PATH.npz:MEMBER)").required();
  app.add_integer("-k", flags->k, "neighbours a row, itself not counted").required().type_name("K");
  app.add_flag("--include-self", flags->include_self, "let a row be its own neighbour, at distance 0");
  app.add_text("--symmetrize", flags->symmetrize, "keep an edge that either row lists, or only what both list")
      .type_name("union|mutual");
  add_meaning(app, flags->search, false);
  app.add_flag("--pad", flags->search.pad, "k beyond the other rows: fill with id -1 and the worst distance");
  add_header(app, flags->search.text);
  add_strings(app, flags->search);
  add_execution(app, flags->search);
  add_eligible(app, flags->search.eligible, false);
  add_output(app, flags->output);
  app.add_written_file("--distances", flags->distances, "write the distances here");
  add_resume(app, flags->resume);
  app.footer(examples);
  return {app, [flags](Context& context) { return run_graph(*flags, context); }};
}

}  // namespace cli
