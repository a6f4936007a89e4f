// `vicinal select FILE -k K`: the k smallest or largest values of every row, and where they stand. --list names the
// ways.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

#include "command.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "report.hpp"
#include "text.hpp"
#include "vicinal/select.hpp"

namespace cli {
namespace {

using vicinal::ValueType;

constexpr std::int64_t table_rows = 8, table_ranks = 4;
constexpr std::int64_t not_given = std::numeric_limits<std::int64_t>::min();

constexpr const char* examples =
    "Ties go to the lower position, NaN comes last whichever end is asked for, -0 equals +0, and values keep their "
    "bits.\n"
    "FILE holds one or two dimensions of any type (PATH, PATH.npz:NAME, PATH.hdf5:NAME, - for CSV on stdin). With -o\n"
    ".npz holds ids, values and payload, .csv and .tsv the same as columns id_0, ..., v_0, ..., p_0, ..., .npy the "
    "ids.\n\n"
    "Examples:\n"
    "  vicinal select scores.npy -k 10 --largest\n"
    "  vicinal select distances.fbin -k 100 --payload labels.npy -o nearest.npz\n"
    "  vicinal select data.npz:scores -k 5 --algorithm heap --explain\n"
    "  vicinal select --list";

struct Flags {
  std::string input, payload, output, algorithm = "auto", device = "auto";
  std::int64_t k = not_given, threads = 0;
  HeaderFlags text;
  bool largest = false, unsorted = false, json = false, explain = false, list = false;
};

struct Run {
  vicinal::ValueMatrix values, payload;
  vicinal::Selection result;
  std::vector<vicinal::SelectChoice> choices;  // for --explain
  Timing seconds;
};

int list_algorithms(bool json) {
  std::vector<std::pair<std::string, std::string>> facts;
  Json object = json_head("select");
  object["algorithms"] = Json::array();
  for (const vicinal::SelectAlgorithm& one : vicinal::select_algorithms()) {
    object["algorithms"].push_back(
        {{"name", one.name}, {"devices", one.devices}, {"source", one.source}, {"about", one.about}});
    facts.emplace_back(one.name, fmt::format("{:<8}  {}{}", one.devices, one.about,
                                             one.source.empty() ? "" : fmt::format(" ({})", one.source)));
  }
  json ? print_json(object) : (void)print(facts_text(facts));
  return 0;
}

/// One item of a result as T says: an integer, or a double that is exactly it.
template <class Body>
auto with_number(const void* items, ValueType type, std::int64_t at, const Body& body) {
  const auto item = [&]<class T>() { return static_cast<const T*>(items)[at]; };
  switch (type) {
    case ValueType::f32: return body(static_cast<double>(item.template operator()<float>()));
    case ValueType::f64: return body(item.template operator()<double>());
    case ValueType::f16: return body(half_value(item.template operator()<std::uint16_t>()));
    case ValueType::bf16:
      return body(
          static_cast<double>(std::bit_cast<float>(std::uint32_t{item.template operator()<std::uint16_t>()} << 16)));
    case ValueType::u8: return body(int{item.template operator()<std::uint8_t>()});
    case ValueType::i8: return body(int{item.template operator()<std::int8_t>()});
    case ValueType::u16: return body(int{item.template operator()<std::uint16_t>()});
    case ValueType::i16: return body(int{item.template operator()<std::int16_t>()});
    case ValueType::u32: return body(item.template operator()<std::uint32_t>());
    case ValueType::i32: return body(item.template operator()<std::int32_t>());
    case ValueType::u64: return body(item.template operator()<std::uint64_t>());
    case ValueType::i64: break;
  }
  return body(item.template operator()<std::int64_t>());
}

struct ShortText {
  std::string operator()(double value) const { return fmt::format("{:#.6g}", value); }
  template <class Integer>
  std::string operator()(Integer value) const {
    return fmt::format("{}", value);
  }
};

std::string result_text(const Run& run) {
  const vicinal::Selection& result = run.result;
  const std::int64_t rows = std::min(table_rows, result.rows()), ranks = std::min(table_ranks, result.k());
  const bool payload = result.payload_size() > 0;
  std::vector<std::vector<std::string>> lines(1, {"row"});
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    lines[0].insert(lines[0].end(), {"id", "value"});
    if (payload) lines[0].push_back("payload");
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::string> line = {std::to_string(row)};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t at = row * result.k() + rank;
      line.push_back(std::to_string(result.ids()[at]));
      line.push_back(with_number(result.values(), result.type(), at, ShortText()));
      if (payload) line.push_back(with_number(result.payload(), run.payload.values().type, at, ShortText()));
    }
    lines.push_back(std::move(line));
  }
  std::string text = table_text(lines);
  const std::int64_t more_rows = result.rows() - rows, more_ranks = result.k() - ranks;
  if (more_rows > 0) text += "and " + plural(more_rows, "row") + " more";
  if (more_ranks > 0) text += (more_rows > 0 ? "; " : "and ") + plural(more_ranks, "value") + " more a row";
  return more_rows > 0 || more_ranks > 0 ? text + "\n" : text;
}

/// rows x k numbers.
Json table_json(const void* items, ValueType type, const vicinal::Selection& result) {
  Json rows = Json::array();
  for (std::int64_t row = 0; row < result.rows(); ++row) {
    Json ranks = Json::array();
    for (std::int64_t rank = 0; rank < result.k(); ++rank)
      ranks.push_back(with_number(items, type, row * result.k() + rank, [](auto value) { return Json(value); }));
    rows.push_back(ranks);
  }
  return rows;
}

void print_result_json(const Flags& flags, const Run& run) {
  const vicinal::Selection& result = run.result;
  const vicinal::Values& values = run.values.values();
  Json object = json_head("select");
  object["input"] = {{"path", flags.input},
                     {"rows", values.rows},
                     {"cols", values.cols},
                     {"type", vicinal::value_type_name(values.type)},
                     {"mapped", run.values.mapped()}};
  object["k"] = flags.k;
  object["largest"] = flags.largest;
  object["sorted"] = !flags.unsorted;
  object["algorithm"] = result.stats.algorithm;
  object["device"] = result.stats.device;
  object["threads"] = result.stats.threads;
  if (flags.explain) {
    object["why"] = result.stats.why;
    object["choices"] = Json::array();
    for (const vicinal::SelectChoice& one : run.choices)
      object["choices"].push_back({{"name", one.name}, {"refusal", one.refusal.empty() ? Json() : Json(one.refusal)}});
  }
  object["seconds"] = {{"read", run.seconds.read}, {"select", run.seconds.search}, {"write", run.seconds.write}};
  if (flags.output.empty()) {
    object["ids"] = table_json(result.ids(), ValueType::i64, result);
    object["values"] = table_json(result.values(), result.type(), result);
    if (result.payload_size() > 0) object["payload"] = table_json(result.payload(), run.payload.values().type, result);
  } else {
    object["output"] = flags.output;
  }
  print_json(object);
}

void print_result_text(const Flags& flags, const Run& run) {
  const vicinal::Values& values = run.values.values();
  const vicinal::SelectStats& stats = run.result.stats;
  std::string text;
  if (flags.output.empty()) text += result_text(run) + "\n";
  const std::string threads = stats.threads > 0 ? ", " + plural(stats.threads, "thread") : "";
  text += fmt::format("{} {} of {} of each of {}, {}: {} on {} ({}{})\n", count_text(flags.k),
                      flags.largest ? "largest" : "smallest", plural(values.cols, "value"), plural(values.rows, "row"),
                      vicinal::value_type_name(values.type), seconds_text(run.seconds.search), stats.device,
                      stats.algorithm, threads);
  if (!flags.output.empty()) text += "wrote " + flags.output + "\n";
  if (flags.explain) {
    std::string can, cannot;
    for (const vicinal::SelectChoice& one : run.choices) {
      std::string& list = one.refusal.empty() ? can : cannot;
      list += fmt::format("{}{}{}", list.empty() ? "" : "; ", one.name, one.refusal.empty() ? "" : ": " + one.refusal);
    }
    text += "\n" +
            facts_text({{"algorithm", stats.algorithm},
                        {"why", stats.why.empty() ? "it was asked for" : stats.why},
                        {"possible", can},
                        {"not possible", cannot.empty() ? "none here" : cannot},
                        {"read", seconds_text(run.seconds.read) + (run.values.mapped() ? " (mapped)" : " (decoded)")},
                        {"selected", seconds_text(run.seconds.search)},
                        {"written", flags.output.empty() ? "not asked for" : seconds_text(run.seconds.write)}});
  }
  print(text);
}

vicinal::Payload payload_of(const vicinal::Values& values, const Flags& flags, const vicinal::Values& payload) {
  if (payload.rows != values.rows || payload.cols != values.cols)
    refuse(fmt::format("{} has {} x {} items, {} has {} x {}; a payload has one for each value", flags.payload,
                       payload.rows, payload.cols, flags.input, values.rows, values.cols));
  return {payload.data, static_cast<std::int64_t>(vicinal::value_size(payload.type)), payload.row_stride,
          payload.col_stride};
}

/// The library moves items of a payload as they are; the other byte order ends here.
void swap_items(vicinal::Selection& result) {
  const std::int64_t size = result.payload_size();
  auto* item = static_cast<std::byte*>(result.view().payload);
  for (std::int64_t i = 0; i < result.rows() * result.k(); ++i, item += size) std::reverse(item, item + size);
}

int run_select(const Flags& flags, Context& context) {
  if (flags.list) return list_algorithms(flags.json);
  if (flags.input.empty()) refuse("FILE is required: vicinal select FILE -k K");
  if (flags.k == not_given) refuse("-k is required: vicinal select FILE -k K");
  const OutputFile out(flags.output);
  refuse_json_stream({.path = flags.output, .json = flags.json}, out);
  if (!flags.output.empty()) vicinal::check_writable(out.path(), "", vicinal::ResultKind::selection);

  Run run;
  const auto start = std::chrono::steady_clock::now();
  run.values = read_values(flags.input, flags.text.header());
  const vicinal::Values& values = run.values.values();
  vicinal::Payload payload;
  if (!flags.payload.empty()) {
    run.payload = read_values(flags.payload, flags.text.header());
    payload = payload_of(values, flags, run.payload.values());
  }
  run.seconds.read = seconds_since(start);
  if (!flags.output.empty()) vicinal::check_writable(out.path(), "", vicinal::ResultKind::selection, values.type);

  vicinal::SelectOptions options{
      .k = flags.k, .largest = flags.largest, .sorted = !flags.unsorted, .algorithm = flags.algorithm};
  options.run = execution(flags.device, flags.threads);
  const auto select = [&] {
    if (flags.explain) run.choices = vicinal::select_choices(values, options);
    run.result = interruptible("select", options, context.interrupt,
                               [&] { return vicinal::select_k(values, options, payload); });
    if (run.payload.values().byte_swapped) swap_items(run.result);
  };
  const auto write = [&] {
    std::optional<ValueType> type;
    if (payload.data != nullptr) type = run.payload.values().type;
    vicinal::write_selection(out.path(), run.result, type);
  };
  if (carry_out(run.seconds, out, select, write))
    flags.json ? print_result_json(flags, run) : print_result_text(flags, run);
  return 0;
}

}  // namespace

Command register_select(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("select", "The k smallest or largest values of every row of FILE, and their positions");
  app.add_read_file("FILE", flags->input, "values (PATH, PATH.npz:NAME, - for CSV on stdin; required unless --list)");
  app.add_integer("-k", flags->k, "values a row (required unless --list)").type_name("K");
  app.add_flag("--largest", flags->largest, "the largest instead of the smallest");
  app.add_flag("--unsorted", flags->unsorted, "the same values in any order");
  app.add_text("--algorithm", flags->algorithm, "how to select (default auto; --list names all)").type_name("NAME");
  app.add_read_file("--payload", flags->payload, "as many items: those of the chosen positions too");
  app.add_text("--device", flags->device, "where to run (default auto)").type_name("auto|cpu|cuda|cuda:N|cuda:all");
  app.add_integer("--threads", flags->threads, "threads (default 0: all this process may use)").type_name("N");
  app.add_written_file("-o,--output", flags->output, "write the result here (- for CSV on stdout)");
  add_header(app, flags->text);
  add_json(app, flags->json);
  app.add_flag("--explain", flags->explain, "say afterwards how it was done");
  app.add_flag("--list", flags->list, "name the algorithms, and stop");
  app.footer(examples);
  return {app, [flags](Context& context) { return run_select(*flags, context); }};
}

}  // namespace cli
