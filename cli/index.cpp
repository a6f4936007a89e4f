// `vicinal index build|search|info|tune`: the permutation index in a file.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "command.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "report.hpp"
#include "text.hpp"
#include "vicinal/error.hpp"
#include "vicinal/io.hpp"
#include "vicinal/permutation_index.hpp"

namespace cli {
namespace {

constexpr std::int64_t table_queries = 8, table_nearest = 4;

constexpr const char* words =
    "build: FILE is the corpus, -o the index. search: FILE is an index; -k or -r says what for, and --recall (default\n"
    "0.95), --fraction or --exact how. info: what an index is. tune: what it would do, measured, and whether it pays.\n"
    "--threads is for all of them; the other options say which one they are of.\n\n"
    "Examples:\n"
    "  vicinal index build words.txt -o words.vicinal --metric levenshtein --permutants 32\n"
    "  vicinal index tune words.vicinal -k 5 --recall 0.9\n"
    "  vicinal index search words.vicinal typed.txt -k 5 --exact";

struct Flags {
  SearchFlags search;
  std::string action, file;
  std::int64_t k = 10, permutants = vicinal::default_permutants, seed = 0, prefix = 0, window = 0;
  std::string choice = "random", tune_on = "auto", rank_distance = "footrule", form = "ranks";
  double radius = 0, recall = 0, fraction = 0;
  bool exact = false, no_bounds = false, json = false;
  std::string output, distances;
  std::optional<Option> given_k, given_radius, given_recall, given_fraction;
  std::vector<std::pair<Option, std::string>> of;  // options and the one action that takes each, or several
};

vicinal::PermutationSearch search_of(const Flags& flags) {
  vicinal::PermutationSearch search{.k = flags.k,
                                    .exact = flags.exact,
                                    .distance_type = vicinal::parse_distance_type(flags.search.distance_type),
                                    .run = execution(flags.search.device, flags.search.threads)};
  if (flags.given_recall->given()) search.recall = flags.recall;
  if (flags.given_fraction->given()) search.fraction = flags.fraction;
  search.tune_on = vicinal::parse_tune_on(flags.tune_on);
  if (!flags.search.memory.empty()) search.memory.host = vicinal::parse_bytes(flags.search.memory);
  return search;
}

Json recall_json(const vicinal::RecallEstimate& recall) {
  return {{"value", recall.value},
          {"low", recall.low},
          {"high", recall.high},
          {"sample", recall.sample},
          {"of_queries", recall.of_queries}};
}

std::string recall_text(const vicinal::RecallEstimate& recall) {
  if (std::isnan(recall.value)) return "recall not measured (vicinal index tune does)";
  if (recall.low == 1) return "recall 1";
  return fmt::format("expected recall {:.3f} ({:.3f} to {:.3f} at 95 %, by {} {})", recall.value, recall.low,
                     recall.high, recall.sample, recall.of_queries ? "of the queries" : "objects left out");
}

vicinal::PermutationIndex open_index(const Flags& flags, Context& context) {
  const InputFile file(flags.file);
  vicinal::OpenOptions options{.run = execution(flags.search.device, flags.search.threads)};
  return interruptible("open", options, context.interrupt,
                       [&] { return vicinal::PermutationIndex::open(file.path(), options); });
}

std::string objects_text(const vicinal::PermutationIndex& index) {
  return count_text(index.size()) +
         (index.strings() ? " strings"
                          : fmt::format(" rows of {} {}", index.cols(), vicinal::dtype_name(index.dtype())));
}

std::vector<std::pair<std::string, std::string>> facts_of(const vicinal::PermutationIndex& index) {
  const vicinal::PermutationOptions& options = index.options();
  return {
      {"objects", objects_text(index)},
      {"metric", std::string(vicinal::metric_info(index.metric()).name)},
      {"permutants",
       fmt::format("{}, {}, seed {}", index.permutants().size(), permutant_choice_name(options.choice), options.seed)},
      {"ranks", fmt::format("{}, {}, {} an object", rank_form_name(options.form),
                            rank_distance_name(options.rank_distance), plural(index.rank_bytes(), "byte"))},
      {"exact searches",
       options.bounds && index.metric() != vicinal::Metric::inner_product ? "by bounds" : "by measuring everything"},
      {"memory", bytes_text(index.bytes()) + " besides the rows"}};
}

Json index_json(const vicinal::PermutationIndex& index) {
  const vicinal::PermutationOptions& options = index.options();
  return {{"objects", index.size()},
          {"strings", index.strings()},
          {"cols", index.cols()},
          {"metric", vicinal::metric_info(index.metric()).name},
          {"permutants", static_cast<std::int64_t>(index.permutants().size())},
          {"choice", permutant_choice_name(options.choice)},
          {"seed", std::to_string(options.seed)},
          {"rank_distance", rank_distance_name(options.rank_distance)},
          {"form", rank_form_name(options.form)},
          {"rank_bytes", index.rank_bytes()},
          {"bytes", index.bytes()},
          {"seconds", index.build_seconds()}};
}

int build(Flags& flags, Context& context) {
  if (flags.output.empty()) refuse("index build needs -o PATH for the index");
  const vicinal::KnnOptions search = search_options(flags.search, false);
  vicinal::PermutationOptions options{.metric = search.metric,
                                      .permutants = flags.permutants,
                                      .choice = vicinal::parse_permutant_choice(flags.choice),
                                      .seed = static_cast<std::uint64_t>(flags.seed),
                                      .rank_distance = vicinal::parse_rank_distance(flags.rank_distance),
                                      .form = vicinal::parse_rank_form(flags.form),
                                      .prefix = flags.prefix,
                                      .window = flags.window,
                                      .bounds = !flags.no_bounds,
                                      .strings = search.strings,
                                      .memory = search.memory,
                                      .run = search.run};
  if (!flags.output.ends_with(".vicinal"))
    throw vicinal::Error(vicinal::ErrorCode::unsupported,
                         flags.output + ": an index is saved with the suffix .vicinal");
  const Side corpus = read_side(flags.file, flags.search);
  const auto index = interruptible("index", options, context.interrupt, [&] {
    return with_side(corpus, [&](const auto& objects) { return vicinal::PermutationIndex(objects, options); });
  });
  index.save(flags.output);
  if (flags.json) {
    Json object = json_head("index build");
    object["index"] = index_json(index);
    object["output"] = {{"index", flags.output}};
    print_json(object);
  } else {
    print(fmt::format("indexed {} in {}\n", objects_text(index), seconds_text(index.build_seconds())) +
          facts_text(facts_of(index)) + "wrote " + flags.output + "\n");
  }
  return 0;
}

int info(Flags& flags, Context& context) {
  const vicinal::PermutationIndex index = open_index(flags, context);
  if (!flags.json) return print(facts_text(facts_of(index))), 0;
  Json object = json_head("index info");
  object["index"] = index_json(index);
  print_json(object);
  return 0;
}

int tune(Flags& flags, Context& context) {
  const vicinal::PermutationIndex index = open_index(flags, context);
  vicinal::PermutationSearch search = search_of(flags);
  const auto tuned = interruptible("tune", search, context.interrupt, [&] { return index.tune(search); });
  const bool pays = tuned.gain() >= 1;
  if (flags.json) {
    Json object = json_head("index tune");
    object["index"] = index_json(index);
    object["k"] = tuned.k;
    object["fraction"] = tuned.fraction;
    object["recall"] = recall_json(tuned.recall);
    object["index_seconds"] = tuned.index_seconds;
    object["exact_seconds"] = tuned.exact_seconds;
    object["gain"] = tuned.gain();
    object["advice"] = pays ? "index" : "exact";
    print_json(object);
    return 0;
  }
  print(facts_text({{"permutants", std::to_string(index.permutants().size())},
                    {"fraction", fmt::format("{:.4g} of the objects for {} nearest", tuned.fraction, tuned.k)},
                    {"recall", recall_text(tuned.recall)},
                    {"a query", fmt::format("{:.3g} ms by the index, {:.3g} ms by the exact search",
                                            1e3 * tuned.index_seconds, 1e3 * tuned.exact_seconds)},
                    {"gain", fmt::format("{:.2f}", tuned.gain())},
                    {"advice", pays ? "search the index"
                                    : "do not use the index here: the exact search is faster, and misses nothing"}}));
  return 0;
}

Side read_queries(const Flags& flags, const vicinal::PermutationIndex& index) {
  SearchFlags as = flags.search;
  as.metric = std::string(vicinal::metric_info(index.metric()).name);
  as.strings = index.strings();
  return read_side(flags.search.queries, as);
}

template <class Found>
std::string how_text(const Found& found, const vicinal::PermutationIndex& index, const std::string& what,
                     std::int64_t queries) {
  const vicinal::Stats& stats = found.neighbors.stats;
  const double share = stats.pairs > 0 ? static_cast<double>(stats.reranked) / static_cast<double>(stats.pairs) : 0;
  std::string text = fmt::format("{} of {} for {}: {} {}\n{}, {} of all true distances computed\n", what,
                                 objects_text(index), plural(queries, "query"), seconds_text(stats.seconds),
                                 place_text(stats), recall_text(found.recall), percent_text(share));
  for (const std::string& note : stats.notes) text += "note: " + note + "\n";
  return text;
}

template <class Found>
Json describe(const Found& found, const Flags& flags, const vicinal::PermutationIndex& index) {
  Json object = json_head("index search");
  object["index"] = index_json(index);
  object["queries"] = flags.search.queries;
  object["fraction"] = found.fraction;
  object["recall"] = recall_json(found.recall);
  object["seconds"] = found.neighbors.stats.seconds;
  object["stats"] = json_of(found.neighbors.stats);
  return object;
}

/// What a search of the index found, where the flags say. add: what the JSON holds besides.
template <class Found, class Add>
int report(const Found& found, const Flags& flags, const vicinal::PermutationIndex& index, const OutputFile& out,
           const std::string& what, const std::string& table, const Add& add) {
  if (out.stream()) return out.send(), 0;
  if (flags.json) {
    Json object = describe(found, flags, index);
    add(object);
    print_json(object);
    return 0;
  }
  print(table + how_text(found, index, what, found.neighbors.rows()) +
        (flags.output.empty() ? "" : "wrote " + flags.output + "\n"));
  return 0;
}

int search_range(const Flags& flags, Context& context, const vicinal::PermutationIndex& index, const Side& queries,
                 const OutputFile& out) {
  vicinal::PermutationSearch how = search_of(flags);
  const auto found = interruptible("index", how, context.interrupt, [&] {
    return with_side(queries, [&](const auto& asked) { return index.range(asked, flags.radius, how); });
  });
  const vicinal::CsrNeighbors& matches = found.neighbors;
  if (!out.path().empty()) vicinal::write_range(out.path(), matches);
  return report(found, flags, index, out,
                plural(matches.entries(), "entry") + fmt::format(" within {:.9g}", flags.radius), "",
                [&](Json& object) {
                  object["entries"] = matches.entries();
                  if (out.path().empty()) add_lists(object, matches);
                });
}

int search_knn(const Flags& flags, Context& context, const vicinal::PermutationIndex& index, const Side& queries,
               const OutputFile& out) {
  vicinal::PermutationSearch how = search_of(flags);
  const auto found = interruptible("index", how, context.interrupt, [&] {
    return with_side(queries, [&](const auto& asked) { return index.knn(asked, how); });
  });
  const vicinal::Neighbors& nearest = found.neighbors;
  if (!out.path().empty()) vicinal::write_neighbors(out.path(), nearest, flags.distances);
  return report(found, flags, index, out, count_text(flags.k) + " nearest",
                flags.output.empty() ? neighbors_text(nearest, table_queries, table_nearest) + "\n" : "",
                [&](Json& object) {
                  object["k"] = flags.k;
                  if (out.path().empty()) add_lists(object, nearest);
                });
}

int search(Flags& flags, Context& context) {
  if (flags.search.queries.empty()) refuse("index search needs QUERIES: vicinal index search FILE QUERIES");
  if (flags.given_radius->given() && flags.given_k->given()) refuse("-k and -r exclude each other");
  const OutputFile out(flags.output);
  refuse_json_stream({.path = flags.output, .json = flags.json}, out);
  const bool range = flags.given_radius->given();
  if (!flags.output.empty())
    vicinal::check_writable(out.path(), flags.distances,
                            range ? vicinal::ResultKind::range : vicinal::ResultKind::neighbors);
  const vicinal::PermutationIndex index = open_index(flags, context);
  const Side queries = read_queries(flags, index);
  return range ? search_range(flags, context, index, queries, out) : search_knn(flags, context, index, queries, out);
}

/// Options of another action are refused rather than passed over.
void check_options(const Flags& flags) {
  for (const auto& [option, actions] : flags.of)
    if (option.given() && actions.find(flags.action) == std::string::npos)
      refuse("index " + flags.action + " does not take " + actions.substr(0, actions.find(' ')) + "; it is of index " +
             actions.substr(actions.find(' ') + 1));
}

int run_index(Flags& flags, Context& context) {
  constexpr std::pair<const char*, int (*)(Flags&, Context&)> actions[] = {
      {"build", build}, {"search", search}, {"info", info}, {"tune", tune}};
  for (const auto& [name, act] : actions) {
    if (flags.action != name) continue;
    check_options(flags);
    if (flags.action != "search" && !flags.search.queries.empty())
      refuse("index " + flags.action + " takes one file, got " + flags.search.queries + " too");
    return act(flags, context);
  }
  refuse("unknown action " + flags.action + "; index build, index search, index info, index tune");
}

}  // namespace

Command register_index(App& root) {
  auto flags = std::make_shared<Flags>();
  Flags& f = *flags;
  App app = root.add_subcommand("index", "An approximate index for any distance, with an exact mode");
  app.add_text("ACTION", f.action, "build, search, info or tune").required().type_name("build|search|info|tune");
  app.add_read_file("FILE", f.file, "build: the corpus; else an index").required();
  app.add_read_file("QUERIES", f.search.queries, "search: rows or strings to search for (required for search)");
  const auto of = [&f](const std::string& actions, const Option& option) {
    f.of.emplace_back(option, actions);
    return option;
  };
  of("--metric build",
     app.add_text("--metric", f.search.metric, "build: distance (default euclidean)").type_name("METRIC"));
  of("--permutants build",
     app.add_integer("--permutants", f.permutants, "build: how many (default 64, or all of fewer objects)")
         .type_name("M"));
  of("--choice build", app.add_text("--choice", f.choice, "build: how they are chosen (default random)")
                           .type_name("random|farthest_first|sss"));
  of("--seed build", app.add_integer("--seed", f.seed, "build: of the choice (default 0)").type_name("N"));
  of("--rank-distance build",
     app.add_text("--rank-distance", f.rank_distance, "build: how orders are compared (default footrule)")
         .type_name("footrule|rho|kendall"));
  of("--form build", app.add_text("--form", f.form, "build: what is kept of an order (default ranks)")
                         .type_name("ranks|prefix|bits|components"));
  of("--prefix build",
     app.add_integer("--prefix", f.prefix, "build: permutants kept of an order (default: a quarter)").type_name("L"));
  of("--window build",
     app.add_integer("--window", f.window, "build: of dtw, how far apart paired places may be (default 0: no limit)")
         .type_name("W"));
  of("--no-bounds build", app.add_flag("--no-bounds", f.no_bounds, "build: keep nothing for exact searches"));
  f.given_k =
      of("-k search, tune", app.add_integer("-k", f.k, "search, tune: neighbours a query (default 10)").type_name("K"));
  f.given_radius = of(
      "-r search", app.add_number("-r,--radius", f.radius, "search: everything within this distance").type_name("R"));
  f.given_recall =
      of("--recall search, tune",
         app.add_number("--recall", f.recall, "search, tune: expected recall (default 0.95)").type_name("SHARE"));
  f.given_fraction = of("--fraction search, tune",
                        app.add_number("--fraction", f.fraction,
                                       "search, tune: share of the objects to look at (default: what the recall takes)")
                            .type_name("SHARE"));
  of("--tune-on search", app.add_text("--tune-on", f.tune_on, "search: what a recall is measured on (default auto)")
                             .type_name("auto|objects|queries"));
  of("--exact search", app.add_flag("--exact", f.exact, "search: exactly, by bounds"));
  of("--distance-type search",
     app.add_text("--distance-type", f.search.distance_type, "search: type of the distances (default auto)")
         .type_name("auto|f32|f64|u32"));
  add_header(app, f.search.text);
  add_strings(app, f.search);
  of("--device search",
     app.add_text("--device", f.search.device, "search: where ranks are compared (default auto: the CPU)")
         .type_name("auto|cpu|cuda|cuda:N|cuda:all"));
  app.add_integer("--threads", f.search.threads, "threads (default 0: all this process may use)").type_name("N");
  of("--memory build, search, tune",
     app.add_text("--memory", f.search.memory,
                  "build, search, tune: memory to stay within, e.g. 256MiB (default: what is free)")
         .type_name("SIZE"));
  of("-o build, search",
     app.add_written_file("-o,--output", f.output, "build: the index; search: the result (- for CSV on stdout)"));
  of("--distances search", app.add_written_file("--distances", f.distances, "search: write the distances here"));
  add_json(app, f.json);
  app.footer(words);
  return {app, [flags](Context& context) { return run_index(*flags, context); }};
}

}  // namespace cli
