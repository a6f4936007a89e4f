// `vicinal range CORPUS QUERIES -r R`: everything within a distance.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "output.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "text.hpp"
#include "vicinal/resume.hpp"
#include "vicinal/search.hpp"

namespace cli {
namespace {

constexpr std::int64_t table_queries = 8, table_nearest = 4;

constexpr const char* examples =
    "A row is in the answer when its distance, as returned, is at most R (for inner_product at least R).\n"
    "The suffix of -o decides the format: .npz holds offsets, ids and distances (entries offsets[i] to offsets[i+1] "
    "belong\n"
    "to query i), .rangeres and .csv the same their way.\n\n"
    "Examples:\n"
    "  vicinal range corpus.npy queries.npy -r 0.3 --metric cosine -o near.npz\n"
    "  vicinal range corpus.npy corpus.npy -r 0 -o duplicates.npz\n"
    "  vicinal range names.txt names.txt -r 1 --metric levenshtein -o near-duplicates.npz";

struct Flags {
  SearchFlags search;
  double radius = 0;
  std::int64_t max_results = 0;
  std::string resume;
  OutputFlags output;
};

struct Run {
  Side corpus, queries;
  vicinal::Plan plan;
  vicinal::CsrNeighbors result;
  Timing seconds;

  Report report() const { return {result.certificate, result.stats, plan, corpus, result.rows(), seconds}; }
};

Json describe(const Flags& flags, const Run& run) {
  Json object = json_head("range");
  object["corpus"] = json_of(run.corpus, flags.search.corpus);
  object["queries"] = json_of(run.queries, flags.search.queries);
  object["radius"] = flags.radius;
  object["metric"] = metric_name(flags.search.metric);
  return object;
}

void print_result_json(const Flags& flags, const Run& run) {
  Json object = describe(flags, run);
  add_report(object, run.report(), run.result.type(), flags.output.explain);
  object["entries"] = run.result.entries();
  if (flags.output.path.empty()) {
    add_lists(object, run.result);
  } else {
    object["output"] = {{"range", flags.output.path}};
  }
  print_json(object);
}

/// The first few queries: how many matches, and the nearest of them.
std::string matches_text(const vicinal::CsrNeighbors& result) {
  std::vector<std::vector<std::string>> rows(1, {"query", "matches", "nearest"});
  const std::int64_t shown = std::min(table_queries, result.rows());
  for (std::int64_t query = 0; query < shown; ++query) {
    std::string nearest;
    for (std::int64_t rank = 0; rank < std::min(table_nearest, result.count(query)); ++rank)
      nearest +=
          fmt::format("{}{} ({:.6g})", rank == 0 ? "" : ", ", result.id(query, rank), result.distance(query, rank));
    rows.push_back({std::to_string(query), count_text(result.count(query)), nearest});
  }
  const std::int64_t more = result.rows() - shown;
  return table_text(rows) + (more > 0 ? "and " + plural(more, "query") + " more\n" : "");
}

void print_result_text(const Flags& flags, const Run& run) {
  std::string text;
  if (flags.output.path.empty()) text += matches_text(run.result) + "\n";
  text += fmt::format("{} within {:.9g} among {} for {}, {}, {}: {} {}\n", plural(run.result.entries(), "entry"),
                      flags.radius, plural(run.corpus.rows(), "row"), plural(run.result.rows(), "query"),
                      width_text(run.corpus), metric_name(flags.search.metric), seconds_text(run.seconds.search),
                      place_text(run.result.stats));
  text += certificate_text(run.result.certificate) + "\n";
  if (!flags.output.path.empty()) text += "wrote " + flags.output.path + "\n";
  if (flags.output.explain) text += "\n" + explain_text(run.report(), !flags.output.path.empty());
  print(text);
}

vicinal::Plan plan_of(const vicinal::Points& corpus, const vicinal::Points& queries, double radius,
                      const vicinal::RangeOptions& options) {
  return vicinal::plan_range(corpus, {queries.rows, queries.cols, queries.dtype}, radius, options);
}
vicinal::Plan plan_of(const vicinal::Strings& corpus, const vicinal::Strings& queries, double /*radius*/,
                      const vicinal::RangeOptions& options) {
  return vicinal::plan_range(corpus, queries, options);
}

int run_range(Flags& flags, Context& context) {
  vicinal::RangeOptions options{.search = search_options(flags.search), .max_results = flags.max_results};
  check_resume(flags.resume, flags.output);
  const OutputFile out(flags.output.path);
  refuse_json_stream(flags.output, out);
  if (!flags.output.path.empty()) vicinal::check_writable(out.path(), "", vicinal::ResultKind::range);

  Run run;
  const auto start = std::chrono::steady_clock::now();
  run.corpus = read_side(flags.search.corpus, flags.search);
  run.queries = read_side(flags.search.queries, flags.search);
  run.seconds.read = seconds_since(start);
  begin_resume(flags.resume, run.corpus, context);
  run.plan = with_sides(run.corpus, run.queries, [&](const auto& corpus, const auto& queries) {
    return plan_of(corpus, queries, flags.radius, options);
  });
  if (flags.output.plan) return print_plan(run.plan, describe(flags, run), flags.output.json);

  const bool resumable = !flags.resume.empty();
  const auto search = [&] {
    run.result = interruptible("range", options.search, context.interrupt, [&] {
      if (resumable)
        return vicinal::range_search_resumable(run.corpus.matrix.points(), run.queries.matrix.points(), flags.radius,
                                               options, flags.resume);
      return with_sides(run.corpus, run.queries, [&](const auto& corpus, const auto& queries) {
        return vicinal::range_search(corpus, queries, flags.radius, options);
      });
    });
    add_notes(run.result.stats, run.corpus, flags.search.corpus);
    add_notes(run.result.stats, run.queries, flags.search.queries);
  };
  const auto write = [&] {
    vicinal::write_range(out.path(), run.result);
    if (resumable) vicinal::discard_pieces(flags.resume);
  };
  if (carry_out(run.seconds, out, search, write))
    flags.output.json ? print_result_json(flags, run) : print_result_text(flags, run);
  return 0;
}

}  // namespace

Command register_range(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("range", "Every row of CORPUS within a distance of each row of QUERIES, exactly");
  add_inputs(app, flags->search);
  app.add_number("-r,--radius", flags->radius, "the distance, itself included").required().type_name("R");
  app.add_integer("--max-results", flags->max_results, "refuse more matches than this (default: what memory holds)")
      .type_name("N");
  add_meaning(app, flags->search);
  app.add_text("--distance-type", flags->search.distance_type, "type of the distances (default auto)")
      .type_name("auto|f32|f64|u32");
  add_header(app, flags->search.text);
  add_strings(app, flags->search);
  add_execution(app, flags->search);
  add_eligible(app, flags->search.eligible, true);
  add_output(app, flags->output);
  add_resume(app, flags->resume);
  app.footer(examples);
  return {app, [flags](Context& context) { return run_range(*flags, context); }};
}

}  // namespace cli
