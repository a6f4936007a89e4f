// `vicinal range CORPUS QUERIES -r R`: everything within a distance.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "search.hpp"
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

struct Flags : RunFlags {
  double radius = 0;
  std::int64_t max_results = 0;
};

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

vicinal::Plan plan_of(const vicinal::Points& corpus, const vicinal::Points& queries, double radius,
                      const vicinal::RangeOptions& options) {
  return vicinal::plan_range(corpus, {queries.rows, queries.cols, queries.dtype}, radius, options);
}
vicinal::Plan plan_of(const vicinal::Strings& corpus, const vicinal::Strings& queries, double /*radius*/,
                      const vicinal::RangeOptions& options) {
  return vicinal::plan_range(corpus, queries, options);
}

struct RangeSearch {
  using Result = vicinal::CsrNeighbors;
  using Run = SearchRun<Result>;
  static constexpr const char *name = "range", *output = "range";
  static constexpr bool queries = true;

  explicit RangeSearch(Flags& given)
      : flags(given), range_options{.search = search_options(given.search), .max_results = given.max_results} {}

  static vicinal::ResultKind kind() { return vicinal::ResultKind::range; }
  vicinal::KnnOptions& options() { return range_options.search; }

  void describe(Json& object) const {
    object["radius"] = flags.radius;
    object["metric"] = metric_name(flags.search.metric);
  }
  vicinal::Plan plan(const Side& corpus, const Side& asked) const {
    return with_sides(corpus, asked,
                      [&](const auto& a, const auto& b) { return plan_of(a, b, flags.radius, range_options); });
  }
  Result find(const Side& corpus, const Side& asked) const {
    return with_sides(corpus, asked, [&](const auto& a, const auto& b) {
      return vicinal::range_search(a, b, flags.radius, range_options);
    });
  }
  Result resume(const vicinal::Points& corpus, const vicinal::Points& asked, const std::string& folder) const {
    return vicinal::range_search_resumable(corpus, asked, flags.radius, range_options, folder);
  }
  void finish(Result& /*result*/) const {}
  void write(const std::string& path, const Result& result) const { vicinal::write_range(path, result); }
  void add_size(Json& object, const Result& result) const { object["entries"] = result.entries(); }
  void add_lists(Json& object, const Result& result) const { cli::add_lists(object, result); }
  std::string table(const Result& result) const { return matches_text(result); }
  std::string summary(const Run& run) const {
    return fmt::format("{} within {:.9g} among {} for {}, {}, {}: {} {}\n", plural(run.result.entries(), "entry"),
                       flags.radius, plural(run.corpus.rows(), "row"), plural(run.result.rows(), "query"),
                       width_text(run.corpus), metric_name(flags.search.metric), seconds_text(run.seconds.search),
                       place_text(run.result.stats));
  }

  const Flags& flags;
  vicinal::RangeOptions range_options;
};

}  // namespace

Command register_range(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("range", "Every row of CORPUS within a distance of each row of QUERIES, exactly");
  add_inputs(app, flags->search);
  app.add_number("-r,--radius", flags->radius, "the distance, itself included").required().type_name("R");
  app.add_integer("--max-results", flags->max_results,
                  "refuse more matches than this (default: what free memory holds)")
      .type_name("N");
  add_meaning(app, flags->search);
  app.add_text("--distance-type", flags->search.distance_type, "type of the distances (default auto)")
      .type_name("auto|f32|f64|u32");
  add_search(app, *flags, true);
  add_resume(app, flags->resume);
  app.footer(examples);
  return {app, [flags](Context& context) {
            RangeSearch search(*flags);
            return run_search(search, *flags, context);
          }};
}

}  // namespace cli
