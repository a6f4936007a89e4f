// The frame of knn, range and graph: read, plan, search, write, report. Each command is a class that says what differs
// (Search below), and run_search does the rest in the same order, with the same messages and the same JSON, for all.
#pragma once
#include <chrono>
#include <string>

#include "command.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "text.hpp"
#include "vicinal/resume.hpp"

namespace cli {

/// Options of every search.
struct RunFlags {
  SearchFlags search;
  std::string distances, resume;
  OutputFlags output;
};

/// --header, --strings, how it is found, which rows may answer, and where the result goes. queries: their labels are
/// asked for.
inline void add_search(App& app, RunFlags& flags, bool queries) {
  add_header(app, flags.search.text);
  add_strings(app, flags.search);
  add_execution(app, flags.search);
  add_eligible(app, flags.search.eligible, queries);
  add_output(app, flags.output);
}

/// One run: what went in, what came out, and where the wall time went.
template <class Result>
struct SearchRun {
  Side corpus, queries;  // a graph has no queries
  vicinal::Plan plan;
  Result result;
  Timing seconds;

  Report report() const { return {result.certificate, result.stats, plan, corpus, result.rows(), seconds}; }
};

/// What run_search asks of a command.
template <class Search>
concept SearchOfCommand = requires(Search search, const Side& side, const vicinal::Points& points, Json object,
                                   typename Search::Result result, const SearchRun<typename Search::Result>& run,
                                   const std::string& path) {
  Search::name;                         // "knn", of the command, the progress bar and the JSON
  Search::output;                       // "ids", the name of the file under "output" in the JSON
  Search::queries;                      // whether there is a second side
  search.kind();                        // of the file that is written
  search.options();                     // the KnnOptions that progress and stop are attached to
  search.describe(object);              // adds k, radius, metric, ...
  search.plan(side, side);              // of corpus and queries
  search.find(side, side);              // the Result
  search.resume(points, points, path);  // the same, saved in pieces in that folder
  search.finish(result);                // what is made of the Result before it is written
  search.write(path, result);
  search.add_size(object, result);   // entries or edges
  search.add_lists(object, result);  // ids and distances
  search.table(result);              // the first of them, for people
  search.summary(run);               // one line or two
};

template <SearchOfCommand Search>
Json describe_run(const Search& search, const RunFlags& flags, const SearchRun<typename Search::Result>& run) {
  Json object = json_head(Search::name);
  object["corpus"] = json_of(run.corpus, flags.search.corpus);
  if (Search::queries) object["queries"] = json_of(run.queries, flags.search.queries);
  search.describe(object);
  return object;
}

template <SearchOfCommand Search>
void print_run_json(const Search& search, const RunFlags& flags, const SearchRun<typename Search::Result>& run) {
  Json object = describe_run(search, flags, run);
  add_report(object, run.report(), run.result.type(), flags.output.explain);
  search.add_size(object, run.result);
  if (flags.output.path.empty()) {
    search.add_lists(object, run.result);
  } else {
    object["output"] = {{Search::output, flags.output.path}};
    if (!flags.distances.empty()) object["output"]["distances"] = flags.distances;
  }
  print_json(object);
}

template <SearchOfCommand Search>
void print_run_text(const Search& search, const RunFlags& flags, const SearchRun<typename Search::Result>& run) {
  const bool written = !flags.output.path.empty();
  std::string text = written ? "" : search.table(run.result) + "\n";
  text += search.summary(run) + certificate_text(run.result.certificate) + "\n";
  if (written) text += "wrote " + flags.output.path + "\n";
  if (!flags.distances.empty()) text += "wrote " + flags.distances + "\n";
  if (flags.output.explain) text += "\n" + explain_text(run.report(), written);
  print(text);
}

/// The exit status. Whatever can be refused without reading a row is refused first.
template <SearchOfCommand Search>
int run_search(Search& search, const RunFlags& flags, Context& context) {
  check_resume(flags.resume, flags.output);
  refuse_as_folder(flags.resume, flags.distances);
  const OutputFile out(flags.output.path);
  refuse_json_stream(flags.output, out);
  if (!flags.output.path.empty()) vicinal::check_writable(out.path(), flags.distances, search.kind());

  SearchRun<typename Search::Result> run;
  const auto start = std::chrono::steady_clock::now();
  run.corpus = read_side(flags.search.corpus, flags.search);
  if (Search::queries) run.queries = read_side(flags.search.queries, flags.search);
  run.seconds.read = seconds_since(start);

  if (!flags.output.path.empty() && search.kind() == vicinal::ResultKind::neighbors && run.queries.rows() == 0)
    vicinal::check_holds(out.path(), flags.distances, {});
  begin_resume(flags.resume, run.corpus, context);
  run.plan = search.plan(run.corpus, run.queries);
  if (flags.output.plan) return print_plan(run.plan, describe_run(search, flags, run), flags.output.json);

  const bool resumable = !flags.resume.empty();
  const auto find = [&] {
    run.result = interruptible(Search::name, search.options(), context.interrupt, [&] {
      if (resumable) return search.resume(run.corpus.matrix.points(), run.queries.matrix.points(), flags.resume);
      return search.find(run.corpus, run.queries);
    });
    add_notes(run.result.stats, run.corpus, flags.search.corpus);
    if (Search::queries) add_notes(run.result.stats, run.queries, flags.search.queries);
    search.finish(run.result);
  };
  const auto write = [&] { search.write(out.path(), run.result); };
  const bool to_file = carry_out(run.seconds, out, find, write);
  if (resumable) vicinal::discard_pieces(flags.resume);
  if (to_file) flags.output.json ? print_run_json(search, flags, run) : print_run_text(search, flags, run);
  return 0;
}

}  // namespace cli
