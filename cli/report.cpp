// See report.hpp.
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output.hpp"
#include "text.hpp"
#include "vicinal/device.hpp"

namespace cli {

void add_output(App& app, OutputFlags& flags) {
  app.add_written_file("-o,--output", flags.path, "write the result here (- for CSV on stdout)");
  add_json(app, flags.json);
  app.add_flag("--plan", flags.plan, "say what would be done and needed, and stop");
  app.add_flag("--explain", flags.explain, "say afterwards how it was done");
}

void refuse_json_stream(const OutputFlags& flags, const OutputFile& out) {
  if (flags.json && out.stream()) refuse("--json and a result on stdout exclude each other");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

namespace {

/// Shares and rates that --explain shows, computed once for people and for JSON.
struct Explanation {
  double survivors = 0, survivor_share = 0, pairs_a_second = 0, total_seconds = 0;
  double product_share = 0, memory_share = 0;  // of what the machine does at best; 0: not known
  std::int64_t corpus_bytes = 0;

  explicit Explanation(const Report& run) {
    const vicinal::Stats& stats = run.stats;
    const auto queries = static_cast<double>(run.queries);
    if (queries > 0) survivors = static_cast<double>(stats.candidates) / queries;
    if (stats.pairs > 0) survivor_share = static_cast<double>(stats.candidates) / static_cast<double>(stats.pairs);
    if (stats.seconds > 0) pairs_a_second = static_cast<double>(stats.pairs) / stats.seconds;
    total_seconds = run.seconds.read + run.seconds.search + run.seconds.write;
    if (run.corpus.strings) {
      const vicinal::Strings strings = run.corpus.strings->view();
      if (strings.rows > 0) corpus_bytes = strings.offsets[strings.rows] - strings.offsets[0];
      return;
    }
    const vicinal::Points& corpus = run.corpus.matrix.points();
    corpus_bytes = corpus.rows * corpus.cols * static_cast<std::int64_t>(vicinal::dtype_size(corpus.dtype));
    compare(run, corpus.cols);
  }

  /// The products of the first filter and the rows that blocks of queries read, as if they took all the time of the
  /// search but preparing.
  void compare(const Report& run, std::int64_t cols) {
    const double seconds = run.stats.seconds - run.stats.prepare_seconds;
    if (run.certificate.precisions.empty() || !(seconds > 0)) return;
    const vicinal::Rates best = vicinal::measure_rates({.device = run.stats.device,
                                                        .threads = run.stats.threads,
                                                        .instruction_set = run.stats.instruction_set,
                                                        .filter = run.certificate.precisions.front()});
    const double elements =
        static_cast<double>(run.stats.pairs) * static_cast<double>(cols) / (run.plan.symmetric ? 2 : 1);
    if (best.products > 0) product_share = elements / seconds / best.products;
    const double block = static_cast<double>(std::min(run.plan.query_block, run.queries));
    if (best.bytes > 0 && block > 0) memory_share = elements * best.element_bytes / block / seconds / best.bytes;
  }
};

}  // namespace

std::string width_text(const Side& side) {
  return side.strings ? (side.strings->view().encoding == vicinal::Encoding::bytes ? "strings of bytes" : "strings")
                      : count_text(side.matrix.points().cols) + " columns";
}

std::string explain_text(const Report& run, bool written) {
  const vicinal::Stats& stats = run.stats;
  const vicinal::Certificate& certificate = run.certificate;
  const Explanation why(run);
  const auto timed = [&](double seconds) {
    return seconds_text(seconds) +
           (why.total_seconds > 0 ? " (" + percent_text(seconds / why.total_seconds) + ")" : "");
  };
  std::vector<std::pair<std::string, std::string>> facts = {
      {"device", fmt::format("{}, {}, {}", stats.device, stats.instruction_set, plural(stats.threads, "thread"))},
      {"precisions",
       fmt::format("{}{}", fmt::join(certificate.precisions, ", then "),
                   stats.projected > 0 ? fmt::format("; bytes of rows projected to {} columns", stats.projected)
                   : stats.rotated     ? "; bytes of rotated rows"
                                       : "")},
      {"certified", fmt::format("{} at the first precision, {} at a finer one", count_text(certificate.proven),
                                count_text(certificate.redone))},
      {"largest bound",
       fmt::format("{:.3g} between the filter's distance and the true one", certificate.largest_bound)},
      {"survivors", fmt::format("{:.1f} a query ({} of all pairs)", why.survivors, percent_text(why.survivor_share))},
      {"reranked", count_text(stats.reranked) + " distances in fp64, canonical order"},
      {"corpus", fmt::format("{} in {}, read {}", bytes_text(why.corpus_bytes),
                             run.corpus.matrix.mapped() ? "a mapped file" : "memory", plural(stats.passes, "time"))},
      {"copied", bytes_text(stats.copied_bytes) + " of input"},
      {"memory",
       fmt::format("planned {} of {} allowed{}", bytes_text(stats.planned_bytes), bytes_text(run.plan.budget_bytes),
                   stats.used_bytes > 0 ? ", used " + bytes_text(stats.used_bytes) : "")},
      {"open files", timed(run.seconds.read)},
      {"prepare", timed(stats.prepare_seconds)},
      {"search", timed(run.seconds.search - stats.prepare_seconds)},
      {"predicted", seconds_text(stats.planned_seconds) + " to prepare and search"},
      {"speed", fmt::format("{:.3g} million pairs a second", why.pairs_a_second / 1e6)}};
  if (why.product_share > 0)
    facts.emplace_back("of the best", fmt::format("{} of the {} products, {} of the memory reads that {} can do",
                                                  percent_text(why.product_share), certificate.precisions.front(),
                                                  percent_text(why.memory_share), plural(stats.threads, "thread")));
  if (written) facts.emplace_back("write", timed(run.seconds.write));
  for (const std::string& note : stats.notes) facts.emplace_back("note", note);
  return facts_text(facts);
}

Json explain_json(const Report& run) {
  const Explanation why(run);
  return {{"survivors_per_query", why.survivors},
          {"survivor_share", why.survivor_share},
          {"pairs_per_second", why.pairs_a_second},
          {"corpus_bytes", why.corpus_bytes},
          {"product_share", why.product_share},
          {"memory_share", why.memory_share},
          {"read_seconds", run.seconds.read},
          {"prepare_seconds", run.stats.prepare_seconds},
          {"search_seconds", run.seconds.search - run.stats.prepare_seconds},
          {"write_seconds", run.seconds.write}};
}

std::string place_text(const vicinal::Stats& stats) {
  return fmt::format("on {} ({}, {})", stats.device, stats.instruction_set, plural(stats.threads, "thread"));
}

void add_report(Json& object, const Report& report, vicinal::DistanceType type, bool explain) {
  object["device"] = report.stats.device;
  object["distance_type"] = vicinal::distance_type_name(type);
  object["seconds"] = report.seconds.search;
  object["certificate"] = json_of(report.certificate);
  object["stats"] = json_of(report.stats);
  if (explain) object["explain"] = explain_json(report);
}

std::string metric_name(const std::string& asked) {
  return std::string(vicinal::metric_info(vicinal::parse_metric(asked)).name);
}

int print_plan(const vicinal::Plan& plan, Json head, bool json) {
  if (json) {
    head["plan"] = json_of(plan);
    print_json(head);
    return 0;
  }
  std::string text = plan.text();
  if (!text.ends_with('\n')) text += '\n';
  print(text);
  return 0;
}

}  // namespace cli
