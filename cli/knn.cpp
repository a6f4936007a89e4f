// `vicinal knn CORPUS QUERIES -k K`: read, plan, search, write or show.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "text.hpp"
#include "vicinal/error.hpp"
#include "vicinal/resume.hpp"
#include "vicinal/search.hpp"

namespace cli {
namespace {

constexpr std::int64_t table_queries = 8, table_nearest = 4;

constexpr const char* examples =
    "The suffix of -o decides the format: .npz, .bin, .csv, .tsv and .hdf5 hold ids and distances; .npy, .ivecs and\n"
    ".ibin hold ids, and --distances (.npy, .fvecs, .fbin) the rest. With --json and no -o the object carries the ids\n"
    "and distances. - is CSV on stdin or stdout, npy:- and the like another format.\n\n"
    "Examples:\n"
    "  vicinal knn corpus.fvecs queries.fvecs -k 100 -o truth.ivecs --distances truth.fvecs\n"
    "  vicinal knn data.npz:corpus data.npz:queries -k 10 --metric cosine\n"
    "  vicinal knn glove.hdf5:train - -k 5 -o - < queries.csv\n"
    "  vicinal knn corpus.npy queries.npy -k 10 --memory 256MiB --plan\n"
    "  vicinal knn words.txt typed.txt -k 5 --metric levenshtein";

struct Flags {
  SearchFlags search;
  std::int64_t k = 0;
  std::string distances, resume;
  OutputFlags output;
};

/// One run: what went in, what came out, and where the wall time went.
struct Run {
  Side corpus, queries;
  vicinal::Plan plan;
  vicinal::Neighbors result;
  Timing seconds;

  Report report() const { return {result.certificate, result.stats, plan, corpus, result.rows(), seconds}; }
};

Json describe(const Flags& flags, const Run& run) {
  Json object = json_head("knn");
  object["corpus"] = json_of(run.corpus, flags.search.corpus);
  object["queries"] = json_of(run.queries, flags.search.queries);
  object["k"] = flags.k;
  object["metric"] = metric_name(flags.search.metric);
  return object;
}

void print_result_json(const Flags& flags, const Run& run) {
  Json object = describe(flags, run);
  add_report(object, run.report(), run.result.type(), flags.output.explain);
  if (flags.output.path.empty()) {
    object["ids"] = json_ids(run.result);
    object["distances"] = json_distances(run.result);
  } else {
    object["output"] = {{"ids", flags.output.path}};
    if (!flags.distances.empty()) object["output"]["distances"] = flags.distances;
  }
  print_json(object);
}

void print_result_text(const Flags& flags, const Run& run) {
  std::string text;
  if (flags.output.path.empty()) text += neighbors_text(run.result, table_queries, table_nearest) + "\n";
  text += fmt::format("{} nearest of {} for {}, {}, {}: {} {}\n", count_text(flags.k), plural(run.corpus.rows(), "row"),
                      plural(run.result.rows(), "query"), width_text(run.corpus), metric_name(flags.search.metric),
                      seconds_text(run.seconds.search), place_text(run.result.stats));
  text += certificate_text(run.result.certificate) + "\n";
  if (!flags.output.path.empty()) text += "wrote " + flags.output.path + "\n";
  if (!flags.distances.empty()) text += "wrote " + flags.distances + "\n";
  if (flags.output.explain) text += "\n" + explain_text(run.report(), !flags.output.path.empty());
  print(text);
}

vicinal::Plan plan_of(const vicinal::Points& corpus, const vicinal::Points& queries,
                      const vicinal::KnnOptions& options) {
  return vicinal::plan(corpus, queries, options);
}
vicinal::Plan plan_of(const vicinal::Strings& corpus, const vicinal::Strings& queries,
                      const vicinal::KnnOptions& options) {
  return vicinal::plan(corpus, queries, options);
}

int run_knn(Flags& flags, Context& context) {
  vicinal::KnnOptions options = search_options(flags.search);
  options.k = flags.k;
  if (flags.output.path.empty() && !flags.distances.empty()) {
    throw vicinal::Error(vicinal::ErrorCode::invalid_argument, "--distances PATH needs -o PATH for the ids");
  }
  check_resume(flags.resume, flags.output);
  const OutputFile out(flags.output.path);
  refuse_json_stream(flags.output, out);
  if (!flags.output.path.empty()) vicinal::check_writable(out.path(), flags.distances);

  Run run;
  const auto start = std::chrono::steady_clock::now();
  run.corpus = read_side(flags.search.corpus, flags.search);
  run.queries = read_side(flags.search.queries, flags.search);
  run.seconds.read = seconds_since(start);

  begin_resume(flags.resume, run.corpus, context);
  run.plan = with_sides(run.corpus, run.queries,
                        [&](const auto& corpus, const auto& queries) { return plan_of(corpus, queries, options); });
  if (flags.output.plan) return print_plan(run.plan, describe(flags, run), flags.output.json);

  const bool resumable = !flags.resume.empty();
  const auto search = [&] {
    run.result = interruptible("knn", options, context.interrupt, [&] {
      if (resumable)
        return vicinal::knn_resumable(run.corpus.matrix.points(), run.queries.matrix.points(), options, flags.resume);
      return with_sides(run.corpus, run.queries, [&](const auto& corpus, const auto& queries) {
        return vicinal::knn(corpus, queries, options);
      });
    });
    add_notes(run.result.stats, run.corpus, flags.search.corpus);
    add_notes(run.result.stats, run.queries, flags.search.queries);
  };
  const auto write = [&] {
    vicinal::write_neighbors(out.path(), run.result, flags.distances);
    if (resumable) vicinal::discard_pieces(flags.resume);
  };
  if (carry_out(run.seconds, out, search, write))
    flags.output.json ? print_result_json(flags, run) : print_result_text(flags, run);
  return 0;
}

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
  add_header(app, flags->search.text);
  add_strings(app, flags->search);
  add_execution(app, flags->search);
  add_eligible(app, flags->search.eligible, true);
  add_output(app, flags->output);
  app.add_written_file("--distances", flags->distances, "write the distances here");
  add_resume(app, flags->resume);
  app.footer(examples);
  return {app, [flags](Context& context) { return run_knn(*flags, context); }};
}

}  // namespace cli
