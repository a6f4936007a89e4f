// The shared option groups. Only text is parsed here; what a value means and whether it is allowed is the
// library's to say, so that its messages are the same in C++, Python and the command.
#include "options.hpp"

#include <algorithm>
#include <limits>

#include "usage.hpp"

namespace cli {

void add_inputs(CLI::App& app, SearchFlags& flags) {
  app.add_option("CORPUS", flags.corpus, "rows to search in (PATH, PATH.npz:NAME, - for CSV on stdin)")
      ->required()
      ->type_name("FILE");
  app.add_option("QUERIES", flags.queries, "rows to search for (PATH, PATH.npz:NAME, - for CSV on stdin)")
      ->required()
      ->type_name("FILE");
}

void add_meaning(CLI::App& app, SearchFlags& flags) {
  app.add_option("--metric", flags.metric, "distance (default euclidean; vicinal info lists all)")->type_name("METRIC");
  app.add_option("--degenerate", flags.degenerate, "zero or constant rows: refuse, or distance 1 to all")
      ->type_name("error|one");
  add_integer(app, "--first-id", flags.first_id, "id of corpus row 0 (default 0)")->type_name("N");
}

void add_execution(CLI::App& app, SearchFlags& flags) {
  app.add_option("--device", flags.device, "where to run (default auto)")->type_name("auto|cpu");
  add_integer(app, "--threads", flags.threads, "threads (default 0: all this process may use)")->type_name("N");
  app.add_option("--memory", flags.memory, "memory to stay within, e.g. 256MiB (default: what is free)")
      ->type_name("SIZE");
}

CLI::Option* add_json(CLI::App& app, bool& json) {
  return app.add_flag("--json", json, "one JSON object on stdout, and nothing else");
}

vicinal::KnnOptions search_options(const SearchFlags& flags) {
  vicinal::KnnOptions options;
  options.metric = vicinal::parse_metric(flags.metric);
  options.distance_type = vicinal::parse_distance_type(flags.distance_type);
  options.degenerate = vicinal::parse_degenerate(flags.degenerate);
  options.pad = flags.pad;
  options.first_id = flags.first_id;
  if (!flags.memory.empty()) options.memory.host = vicinal::parse_bytes(flags.memory);
  options.run.device = flags.device;
  constexpr std::int64_t least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
  options.run.threads = static_cast<int>(std::clamp(flags.threads, least, most));
  return options;
}

void attach(vicinal::KnnOptions& options, Interrupt& interrupt, ProgressBar& bar) {
  options.stop = interrupt.token();
  options.progress = [stop = interrupt.token(), &bar](std::uint64_t done, std::uint64_t total) {
    bar.show(done, total);
    return !stop.stop_requested();
  };
}

}  // namespace cli
