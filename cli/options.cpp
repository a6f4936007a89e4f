// The shared option groups. Only text is parsed here; what a value means and whether it is allowed is the
// library's to say, so that its messages are the same in C++, Python and the command.
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace cli {

void add_inputs(App& app, SearchFlags& flags) {
  app.add_read_file("CORPUS", flags.corpus, "rows to search in (PATH, PATH.npz:NAME, - for CSV on stdin)").required();
  app.add_read_file("QUERIES", flags.queries, "rows to search for (PATH, PATH.npz:NAME, - for CSV on stdin)")
      .required();
}

void add_header(App& app, HeaderFlags& flags) {
  app.add_flag("--header", flags.present, "the first line of .csv and .tsv is names of columns (default: words are)");
  app.add_flag("--no-header", flags.absent, "the first line of .csv and .tsv is a row");
}

vicinal::Header HeaderFlags::header() const {
  if (present && absent) refuse("--header and --no-header exclude each other");
  return present ? vicinal::Header::present : absent ? vicinal::Header::absent : vicinal::Header::automatic;
}

void add_notes(vicinal::Stats& stats, const Side& side, const std::string& path) {
  if (!side.matrix.note().empty()) stats.notes.push_back(path + ": " + side.matrix.note());
}

void add_meaning(App& app, SearchFlags& flags, bool parts) {
  app.add_text("--metric", flags.metric, "distance (default euclidean; vicinal info lists all)").type_name("METRIC");
  app.add_text("--degenerate", flags.degenerate, "zero or constant rows: refuse, or distance 1 to all (default error)")
      .type_name("error|one");
  if (parts) app.add_integer("--first-id", flags.first_id, "id of corpus row 0 (default 0)").type_name("N");
}

void add_execution(App& app, SearchFlags& flags) {
  app.add_text("--device", flags.device, "where to run (default auto)").type_name("auto|cpu|cuda|cuda:N|cuda:all");
  app.add_integer("--threads", flags.threads, "threads (default 0: all this process may use)").type_name("N");
  app.add_text("--memory", flags.memory, "memory to stay within, e.g. 256MiB (default: what is free)")
      .type_name("SIZE");
}

void add_strings(App& app, SearchFlags& flags) {
  app.add_flag("--strings", flags.strings, "inputs are text, one string a line (only hamming needs to be told)");
  app.add_flag("--bytes", flags.bytes, "strings are bytes, not UTF-8");
  app.add_integer("--ngram", flags.ngram, "jaccard: tokens of this many symbols (default: words between white space)")
      .type_name("N");
  app.add_integer("--max-length", flags.max_length, "refuse strings of more symbols (default 65535)").type_name("N");
}

Side read_side(const std::string& path, const SearchFlags& flags) {
  const bool text = flags.strings || flags.bytes || [&] {
    const vicinal::MetricInfo& metric = vicinal::metric_info(vicinal::parse_metric(flags.metric));
    return metric.strings && !metric.vectors;
  }();
  Side side;
  if (text) side.strings = read_lines(path, flags.bytes);
  else side.matrix = read_points(path, flags.text.header());
  return side;
}

void add_eligible(App& app, EligibleFlags& flags, bool queries) {
  app.add_read_file("--eligible", flags.ids, "only these rows may answer: ids (.npy, .txt), or a mask (.npy of bool)");
  app.add_text("--eligible-ids", flags.range, "only ids FIRST to LAST may answer, both included")
      .type_name("FIRST:LAST");
  app.add_read_file("--corpus-labels", flags.corpus_labels, "a label for each row of CORPUS (.npy, .txt)");
  if (queries) app.add_read_file("--query-labels", flags.query_labels, "a label for each query (.npy, .txt)");
  app.add_text("--label-rule", flags.rule, "rows with the query's label (default), or with another")
      .type_name("same|other");
}

namespace {

std::int64_t id_of(const std::string& text, const std::string& whole) {
  std::int64_t id = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size())
    refuse("--eligible-ids must be FIRST:LAST, two integers, got " + whole);
  return id;
}

vicinal::Eligible eligible_of(EligibleFlags& flags) {
  vicinal::Eligible eligible;
  if (!flags.range.empty()) {
    const std::size_t colon = std::min(flags.range.find(':'), flags.range.size());
    eligible.first = id_of(flags.range.substr(0, colon), flags.range);
    eligible.last = id_of(flags.range.substr(std::min(colon + 1, flags.range.size())), flags.range);
  }
  if (!flags.ids.empty()) {
    flags.listed = vicinal::read_column(flags.ids);
    if (flags.listed.mask) {
      flags.bitmap.assign((flags.listed.values.size() + 63) / 64, 0);
      for (std::size_t i = 0; i < flags.listed.values.size(); ++i)
        if (flags.listed.values[i] != 0) flags.bitmap[i / 64] |= std::uint64_t{1} << i % 64;
      eligible.bitmap = flags.bitmap;
      eligible.bitmap_rows = std::ssize(flags.listed.values);
    } else {
      eligible.ids = flags.listed.values;
    }
  }
  const auto rule = flags.rule.empty() ? vicinal::Eligible::Labels::same : vicinal::parse_label_rule(flags.rule);
  if (flags.corpus_labels.empty() && flags.query_labels.empty()) {
    if (!flags.rule.empty()) refuse("--label-rule needs --corpus-labels");
    return eligible;
  }
  eligible.labels = rule;
  if (!flags.corpus_labels.empty()) flags.rows = vicinal::read_column(flags.corpus_labels);
  if (!flags.query_labels.empty()) flags.queries = vicinal::read_column(flags.query_labels);
  eligible.corpus_labels = flags.rows.values;
  eligible.query_labels = flags.queries.values;
  return eligible;
}

}  // namespace

void add_json(App& app, bool& json) { app.add_flag("--json", json, "one JSON object on stdout, and nothing else"); }

vicinal::Execution execution(const std::string& device, std::int64_t threads) {
  constexpr std::int64_t least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
  return {.device = device, .threads = static_cast<int>(std::clamp(threads, least, most))};
}

vicinal::KnnOptions search_options(SearchFlags& flags, bool of_search) {
  vicinal::KnnOptions options;
  // Every member has a name here, so that one more does not compile until it is thought of. k is each command's own;
  // the command has no words for proof, progress and stop are those of the run, and it has no stream.
  auto& [k, metric, distance_type, pad, first_id, degenerate, eligible, strings, proof, memory, run, progress, stop,
         stream] = options;
  metric = vicinal::parse_metric(flags.metric);
  const vicinal::MetricInfo& about = vicinal::metric_info(metric);
  if (of_search && !about.vectors && !about.strings)
    refuse(std::string(about.name) + " is a distance of indexes alone: vicinal index build --metric " +
           std::string(about.name) + ", which vicinal index search --exact searches exactly");
  distance_type = vicinal::parse_distance_type(flags.distance_type);
  degenerate = vicinal::parse_degenerate(flags.degenerate);
  pad = flags.pad;
  first_id = flags.first_id;
  eligible = eligible_of(flags.eligible);
  strings = {.max_length = flags.max_length, .ngram = flags.ngram};
  if (!flags.memory.empty()) memory.host = vicinal::parse_bytes(flags.memory);
  run = execution(flags.device, flags.threads);
  return options;
}

}  // namespace cli
