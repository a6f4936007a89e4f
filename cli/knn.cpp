// `vicinal knn CORPUS QUERIES -k K`: read, plan, search, write or show.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "command.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "text.hpp"
#include "usage.hpp"
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
    "  vicinal knn corpus.npy queries.npy -k 10 --memory 256MiB --plan";

struct Flags {
  SearchFlags search;
  std::int64_t k = 0;
  std::string output, distances;
  bool json = false, plan = false, explain = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One run: what went in, what came out, and where the wall time went.
struct Run {
  vicinal::Matrix corpus, queries;
  vicinal::Plan plan;
  vicinal::Neighbors result;
  double read_seconds = 0, search_seconds = 0, write_seconds = 0;
};

Json describe(const Flags& flags, const Run& run) {
  Json object = json_head("knn");
  object["corpus"] = json_of(run.corpus, flags.search.corpus);
  object["queries"] = json_of(run.queries, flags.search.queries);
  object["k"] = flags.k;
  object["metric"] = std::string(vicinal::metric_info(vicinal::parse_metric(flags.search.metric)).name);
  return object;
}

/// Shares and rates that --explain shows, computed once for people and for JSON.
struct Explanation {
  double survivors = 0, survivor_share = 0, pairs_a_second = 0, total_seconds = 0;
  std::int64_t corpus_bytes = 0;

  explicit Explanation(const Run& run) {
    const vicinal::Stats& stats = run.result.stats;
    const double queries = static_cast<double>(run.result.rows());
    if (queries > 0) survivors = static_cast<double>(stats.candidates) / queries;
    if (stats.pairs > 0) survivor_share = static_cast<double>(stats.candidates) / static_cast<double>(stats.pairs);
    if (stats.seconds > 0) pairs_a_second = static_cast<double>(stats.pairs) / stats.seconds;
    total_seconds = run.read_seconds + run.search_seconds + run.write_seconds;
    const vicinal::Points& corpus = run.corpus.points();
    corpus_bytes = corpus.rows * corpus.cols * static_cast<std::int64_t>(vicinal::dtype_size(corpus.dtype));
  }
};

std::string explain_text(const Run& run, bool written) {
  const vicinal::Stats& stats = run.result.stats;
  const vicinal::Certificate& certificate = run.result.certificate;
  const Explanation why(run);
  const auto timed = [&](double seconds) {
    return seconds_text(seconds) +
           (why.total_seconds > 0 ? " (" + percent_text(seconds / why.total_seconds) + ")" : "");
  };
  std::vector<std::pair<std::string, std::string>> facts = {
      {"device", fmt::format("{}, {}, {}", stats.device, stats.instruction_set, plural(stats.threads, "thread"))},
      {"rungs", fmt::format("{}", fmt::join(certificate.rungs, ", then "))},
      {"settled", fmt::format("{} by the first rung, {} by a finer one", count_text(certificate.proven),
                              count_text(certificate.redone))},
      {"largest bound",
       fmt::format("{:.3g} between the filter's distance and the true one", certificate.largest_bound)},
      {"survivors", fmt::format("{:.1f} a query ({} of all pairs)", why.survivors, percent_text(why.survivor_share))},
      {"reranked", count_text(stats.reranked) + " distances in fp64, canonical order"},
      {"corpus", fmt::format("{} in {}, read {}", bytes_text(why.corpus_bytes),
                             run.corpus.mapped() ? "a mapped file" : "memory", plural(stats.passes, "time"))},
      {"copied", bytes_text(stats.copied_bytes) + " of input"},
      {"memory",
       fmt::format("planned {} of {} allowed", bytes_text(stats.planned_bytes), bytes_text(run.plan.budget_bytes))},
      {"open files", timed(run.read_seconds)},
      {"prepare", timed(stats.prepare_seconds)},
      {"search", timed(run.search_seconds - stats.prepare_seconds)},
      {"speed", fmt::format("{:.3g} million pairs a second", why.pairs_a_second / 1e6)}};
  if (written) facts.emplace_back("write", timed(run.write_seconds));
  for (const std::string& note : stats.notes) facts.emplace_back("note", note);
  return facts_text(facts);
}

Json explain_json(const Run& run) {
  const Explanation why(run);
  return {{"survivors_per_query", why.survivors},
          {"survivor_share", why.survivor_share},
          {"pairs_per_second", why.pairs_a_second},
          {"corpus_bytes", why.corpus_bytes},
          {"read_seconds", run.read_seconds},
          {"prepare_seconds", run.result.stats.prepare_seconds},
          {"search_seconds", run.search_seconds - run.result.stats.prepare_seconds},
          {"write_seconds", run.write_seconds}};
}

void print_result_json(const Flags& flags, const Run& run) {
  Json object = describe(flags, run);
  object["device"] = run.result.stats.device;
  object["distance_type"] = vicinal::distance_type_name(run.result.type());
  object["seconds"] = run.search_seconds;
  object["certificate"] = json_of(run.result.certificate);
  object["stats"] = json_of(run.result.stats);
  if (flags.explain) object["explain"] = explain_json(run);
  if (flags.output.empty()) {
    object["ids"] = json_ids(run.result);
    object["distances"] = json_distances(run.result);
  } else {
    object["output"] = {{"ids", flags.output}};
    if (!flags.distances.empty()) object["output"]["distances"] = flags.distances;
  }
  print_json(object);
}

void print_result_text(const Flags& flags, const Run& run) {
  const vicinal::Stats& stats = run.result.stats;
  const vicinal::Points& corpus = run.corpus.points();
  std::string text;
  if (flags.output.empty()) text += neighbors_text(run.result, table_queries, table_nearest) + "\n";
  text += fmt::format("{} nearest of {} for {}, {} columns, {}: {} on {} ({}, {})\n", count_text(flags.k),
                      plural(corpus.rows, "row"), plural(run.result.rows(), "query"), count_text(corpus.cols),
                      vicinal::metric_info(vicinal::parse_metric(flags.search.metric)).name,
                      seconds_text(run.search_seconds), stats.device, stats.instruction_set,
                      plural(stats.threads, "thread"));
  text += certificate_text(run.result.certificate) + "\n";
  if (!flags.output.empty()) text += "wrote " + flags.output + "\n";
  if (!flags.distances.empty()) text += "wrote " + flags.distances + "\n";
  if (flags.explain) text += "\n" + explain_text(run, !flags.output.empty());
  print(text);
}

int run_plan(const Flags& flags, const Run& run) {
  if (flags.json) {
    Json object = describe(flags, run);
    object["plan"] = json_of(run.plan);
    print_json(object);
    return 0;
  }
  std::string text = run.plan.text();
  if (!text.ends_with('\n')) text += '\n';
  print(text);
  return 0;
}

vicinal::Neighbors search(const Run& run, vicinal::KnnOptions options, Interrupt& interrupt) {
  const Interrupt::Section section(interrupt);
  ProgressBar bar("knn");
  attach(options, interrupt, bar);
  return vicinal::knn(run.corpus.points(), run.queries.points(), options);
}

int run_knn(const Flags& flags, Context& context) {
  vicinal::KnnOptions options = search_options(flags.search);
  options.k = flags.k;
  if (flags.output.empty() && !flags.distances.empty()) {
    throw vicinal::Error(vicinal::ErrorCode::invalid_argument, "--distances PATH needs -o PATH for the ids");
  }
  const OutputFile out(flags.output);
  if (flags.json && out.stream())
    throw vicinal::Error(vicinal::ErrorCode::invalid_argument, "--json and a result on stdout exclude each other");
  if (!flags.output.empty()) vicinal::check_writable(out.path(), flags.distances);

  Run run;
  const auto start = std::chrono::steady_clock::now();
  run.corpus = read_points(flags.search.corpus);
  run.queries = read_points(flags.search.queries);
  run.read_seconds = seconds_since(start);

  const vicinal::Points &corpus = run.corpus.points(), &queries = run.queries.points();
  run.plan =
      vicinal::plan({corpus.rows, corpus.cols, corpus.dtype}, {queries.rows, queries.cols, queries.dtype}, options);
  if (flags.plan) return run_plan(flags, run);

  const auto begin = std::chrono::steady_clock::now();
  run.result = search(run, options, context.interrupt);
  context.interrupt.check();
  run.search_seconds = seconds_since(begin);
  if (!flags.output.empty()) vicinal::write_neighbors(out.path(), run.result, flags.distances);
  run.write_seconds = seconds_since(begin) - run.search_seconds;
  if (out.stream()) {
    out.send();
    return 0;
  }
  flags.json ? print_result_json(flags, run) : print_result_text(flags, run);
  return 0;
}

}  // namespace

Command register_knn(CLI::App& root) {
  auto flags = std::make_shared<Flags>();
  CLI::App* app = root.add_subcommand("knn", "The k nearest rows of CORPUS for each row of QUERIES, exactly");
  add_inputs(*app, flags->search);
  add_integer(*app, "-k", flags->k, "neighbours a query")->required()->type_name("K");
  add_meaning(*app, flags->search);
  app->add_option("--distance-type", flags->search.distance_type, "type of the distances (default auto)")
      ->type_name("auto|f32|f64|u32");
  app->add_flag("--pad", flags->search.pad, "k beyond the rows of CORPUS: fill with id -1 and the worst distance");
  add_execution(*app, flags->search);
  app->add_option("-o,--output", flags->output, "write the result here (- for CSV on stdout)")->type_name("FILE");
  app->add_option("--distances", flags->distances, "write the distances here")->type_name("FILE");
  add_json(*app, flags->json);
  app->add_flag("--plan", flags->plan, "say what would be done and needed, and stop");
  app->add_flag("--explain", flags->explain, "say afterwards how it was done");
  app->footer(examples);
  return {app, [flags](Context& context) { return run_knn(*flags, context); }};
}

}  // namespace cli
