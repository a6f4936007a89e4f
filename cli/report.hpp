// What a search says of itself afterwards, whatever it searched for: time, certificate, how it was done.
#pragma once
#include <chrono>
#include <string>
#include <utility>

#include "files.hpp"
#include "json.hpp"
#include "options.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/plan.hpp"

namespace cli {

/// Flags of every search that are about its result.
struct OutputFlags {
  std::string path;
  bool json = false, plan = false, explain = false;
};
/// -o --json --plan --explain.
void add_output(App& app, OutputFlags& flags);

/// Throws for --json beside a result on stdout: each would spoil the other.
void refuse_json_stream(const OutputFlags& flags, const OutputFile& out);

/// Where the wall time went, and the facts of a finished search.
struct Timing {
  double read = 0, search = 0, write = 0;
};
struct Report {
  const vicinal::Certificate& certificate;
  const vicinal::Stats& stats;
  const vicinal::Plan& plan;
  const Side& corpus;
  std::int64_t queries;
  Timing seconds;
};

double seconds_since(std::chrono::steady_clock::time_point start);
/// Runs search(options) with a progress bar named `name`, interruptible.
template <class Options, class Search>
auto interruptible(const char* name, Options& options, Interrupt& interrupt, const Search& search,
                   ProgressBar::Rate rate = nullptr) {
  auto result = [&] {
    const Interrupt::Section section(interrupt);
    ProgressBar bar(name, std::move(rate));
    attach(options, interrupt, bar);
    return search();
  }();
  interrupt.check();
  return result;
}

/// Searches, writes, and notes the time of each. False when the result went to stdout, where nothing else may follow.
template <class Search, class Write>
bool carry_out(Timing& seconds, const OutputFile& out, const Search& search, const Write& write) {
  const auto begin = std::chrono::steady_clock::now();
  search();
  seconds.search = seconds_since(begin);
  if (!out.path().empty()) write();
  seconds.write = seconds_since(begin) - seconds.search;
  if (out.stream()) out.send();
  return !out.stream();
}

/// What the rows of a side are: "128 columns", "strings".
std::string width_text(const Side& side);
std::string explain_text(const Report& report, bool written);
Json explain_json(const Report& report);
/// "on cpu (avx512, 2 threads)".
std::string place_text(const vicinal::Stats& stats);
/// Adds device, distance type, seconds, certificate, stats and, if asked for, the explanation.
void add_report(Json& object, const Report& report, vicinal::DistanceType type, bool explain);
/// The canonical name of the metric that was asked for.
std::string metric_name(const std::string& asked);
int print_plan(const vicinal::Plan& plan, Json head, bool json);

}  // namespace cli
