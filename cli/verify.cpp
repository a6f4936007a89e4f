// `vicinal verify CORPUS QUERIES RESULT`: judges any tool's result against the contract, row by row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "command.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "report.hpp"
#include "text.hpp"
#include "vicinal/verify.hpp"

namespace cli {
namespace {

using vicinal::Fault;

constexpr std::int64_t rows_named = 10;  // of each kind of fault; the rest are counted

constexpr const char* examples =
    "Rows and ranks count from 0. k is the width of RESULT. Exit status 1 if anything is wrong.\n\n"
    "Examples:\n"
    "  vicinal verify corpus.npy queries.npy result.npz\n"
    "  vicinal verify base.fvecs query.fvecs truth.ivecs --metric sqeuclidean --ties any\n"
    "  vicinal verify base.fbin query.fbin ids.ibin --distances dist.fbin --rtol 1e-6\n\n"
    "Tools that compute in float32 return near-ties in another order; --rtol 1e-5 takes those for right, and distances "
    "so\n"
    "close to ours.";

struct Flags {
  SearchFlags search;
  std::string result, distances, ties = "strict";
  double rtol = 0;
  bool json = false;
};

/// "row 3, rank 0: has id 5 at distance 0.51, should have id 7 at distance 0.5".
std::string fault_text(const vicinal::Verdict::Row& fault, const vicinal::ResultFile& claim,
                       const vicinal::Neighbors& truth) {
  const std::int64_t* ids = claim.ids.data() + fault.row * claim.k;
  const std::int64_t id = ids[fault.rank];
  const std::string where = fmt::format("row {}, rank {}: ", fault.row, fault.rank);
  if (fault.fault == Fault::distance) {
    return where + fmt::format("has distance {:.9g}, should have {:.9g}", fault.given, fault.expected);
  }
  std::string has = fmt::format("at distance {:.9g}", fault.given);
  if (std::isnan(fault.given)) {
    has =
        std::find(ids, ids + fault.rank, id) != ids + fault.rank ? "a second time" : "which is no row that may answer";
  }
  return where + fmt::format("has id {} {}, should have id {} at distance {:.9g}", id, has,
                             truth.id(fault.row, fault.rank), fault.expected);
}

struct Kind {
  Fault fault;
  const char* name;     // in JSON
  const char* meaning;  // for people
  std::int64_t vicinal::Verdict::*count;
};
constexpr Kind kinds[] = {
    {Fault::wrong, "wrong", "wrong neighbours", &vicinal::Verdict::wrong},
    {Fault::tie_order, "tie_order", "wrong only in the order of ties", &vicinal::Verdict::tie_order},
    {Fault::distance, "distance", "wrong only in distance", &vicinal::Verdict::distance}};

bool passed(const vicinal::Verdict& verdict, const Flags& flags) {
  return verdict.wrong == 0 && verdict.distance == 0 && (verdict.tie_order == 0 || flags.ties == "any");
}

std::string verdict_text(const vicinal::Verdict& verdict, const vicinal::ResultFile& claim, const Flags& flags) {
  std::string text = fmt::format("{} of {} right", count_text(verdict.correct), plural(verdict.rows, "row"));
  if (verdict.near_ties > 0) {
    text += fmt::format(", {} of them with other neighbours at distances equal within --rtol {:g}",
                        count_text(verdict.near_ties), flags.rtol);
  }
  text += "\n";
  for (const Kind& kind : kinds) {
    const std::int64_t count = verdict.*kind.count;
    if (count == 0) continue;
    text += fmt::format("{}: {}{}\n", plural(count, "row"), kind.meaning,
                        kind.fault == Fault::tie_order && flags.ties == "any" ? " (allowed by --ties any)" : "");
    std::int64_t named = 0;
    for (const vicinal::Verdict::Row& fault : verdict.faults) {
      if (fault.fault != kind.fault || named == rows_named) continue;
      text += "  " + fault_text(fault, claim, verdict.truth) + "\n";
      ++named;
    }
    if (count > named) text += fmt::format("  and {} more\n", plural(count - named, "row"));
  }
  text += fmt::format("recall {:.6f}", verdict.recall);
  if (claim.has_distances) {
    text += fmt::format("; distances differ by at most {:.3g} relative", verdict.largest_relative_difference);
  }
  return text + (passed(verdict, flags) ? "\nOK\n" : "\nFAILED\n");
}

Json verdict_json(const vicinal::Verdict& verdict, const vicinal::ResultFile& claim, const Flags& flags) {
  Json object = json_head("verify");
  object["ok"] = passed(verdict, flags);
  object["rows"] = verdict.rows;
  object["k"] = claim.k;
  object["metric"] = metric_name(flags.search.metric);
  object["ties"] = flags.ties;
  object["correct"] = verdict.correct;
  for (const Kind& kind : kinds) object[kind.name] = verdict.*kind.count;
  object["near_ties"] = verdict.near_ties;
  object["recall"] = verdict.recall;
  object["has_distances"] = claim.has_distances;
  object["largest_relative_difference"] = verdict.largest_relative_difference;
  object["faults"] = Json::array();
  for (const vicinal::Verdict::Row& fault : verdict.faults) {
    for (const Kind& kind : kinds) {
      if (kind.fault != fault.fault) continue;
      object["faults"].push_back({{"row", fault.row},
                                  {"rank", fault.rank},
                                  {"fault", kind.name},
                                  {"given", fault.given},
                                  {"expected", fault.expected}});
    }
  }
  object["certificate"] = json_of(verdict.truth.certificate);
  object["stats"] = json_of(verdict.truth.stats);
  return object;
}

vicinal::Verdict judge(const vicinal::Matrix& corpus, const vicinal::Matrix& queries, const vicinal::ResultFile& claim,
                       vicinal::VerifyOptions options, Interrupt& interrupt) {
  const Interrupt::Section section(interrupt);
  ProgressBar bar("verify");
  attach(options.search, interrupt, bar);
  return vicinal::verify(corpus.points(), queries.points(),
                         {.rows = claim.rows,
                          .k = claim.k,
                          .ids = claim.ids.data(),
                          .distances = claim.has_distances ? claim.distances.data() : nullptr,
                          .type = claim.distance_type},
                         options);
}

int run_verify(Flags& flags, Context& context) {
  if (flags.ties != "strict" && flags.ties != "any") refuse("--ties must be strict or any, got " + flags.ties);
  vicinal::VerifyOptions options;
  options.search = search_options(flags.search);
  options.relative_tolerance = flags.rtol;
  const vicinal::Matrix corpus = read_points(flags.search.corpus, flags.search.text.header()),
                        queries = read_points(flags.search.queries, flags.search.text.header());
  const vicinal::ResultFile claim = read_claim(flags.result, flags.distances);

  const vicinal::Verdict verdict = judge(corpus, queries, claim, options, context.interrupt);
  context.interrupt.check();
  if (flags.json) print_json(verdict_json(verdict, claim, flags));
  else print(verdict_text(verdict, claim, flags));
  return passed(verdict, flags) ? 0 : 1;
}

}  // namespace

Command register_verify(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("verify", "Check a result of any tool: which rows are wrong, and how");
  add_inputs(app, flags->search);
  app.add_read_file("RESULT", flags->result,
                    "ids, or ids and distances (.npz .npy .ivecs .ibin .u64bin .bin .csv .hdf5)")
      .required();
  app.add_read_file("--distances", flags->distances, "the distances, if RESULT has none");
  add_meaning(app, flags->search);
  app.add_number("--rtol", flags->rtol,
                 "distances within this relative difference tie, in any order (default 0: equal bits)")
      .type_name("R");
  app.add_text("--ties", flags->ties, "order of equal distances where --rtol is 0: smaller id first (default), or any")
      .type_name("strict|any");
  add_eligible(app, flags->search.eligible, true);
  add_header(app, flags->search.text);
  add_execution(app, flags->search);
  add_json(app, flags->json);
  app.footer(examples);
  return {app, [flags](Context& context) { return run_verify(*flags, context); }};
}

}  // namespace cli
