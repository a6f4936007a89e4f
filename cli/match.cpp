// `vicinal match DATABASE`: the descriptors of COLMAP's database in, its table of matches out.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "colmap.hpp"
#include "command.hpp"
#include "json.hpp"
#include "match_batches.hpp"
#include "options.hpp"
#include "output.hpp"
#include "picture_pairs.hpp"
#include "report.hpp"
#include "text.hpp"
#include "vicinal/error.hpp"
#include "vicinal/match.hpp"
#include "working_copy.hpp"

namespace cli {
namespace {

using vicinal::Error;
using vicinal::ErrorCode;
using vicinal::ImagePair;

constexpr const char* examples =
    "The matches go into a copy, DATABASE.matching, that takes the place of DATABASE (or of the -o file) when all "
    "pairs\n"
    "are there; whatever else the database holds stays. A pair that had other matches before loses its two-view "
    "geometry,\n"
    "so that COLMAP verifies it again. --resume leaves out pairs that have matches, and goes on after an interrupt.\n\n"
    "Examples:\n"
    "  vicinal match database.db\n"
    "  vicinal match database.db --pairs sequential:20 --ratio 0.75 -o matched.db\n"
    "  vicinal match database.db --pairs match_list.txt --in-place --resume\n"
    "  vicinal match database.db --pairs nearest:30 --global-descriptors netvlad.npy --device cuda";

struct Flags {
  WorkingCopyFlags files;
  std::string pairs = "exhaustive", global_descriptors;
  std::string preset = "colmap", distance, ratio, mutual, lone, memory, device = "auto";
  double max_distance = 0;
  std::int64_t threads = 0;
  bool inclusive = false, json = false, plan = false;
};

double ratio_of(const std::string& text) {
  try {
    std::size_t end = 0;
    const double ratio = std::stod(text, &end);
    if (end == text.size()) return ratio;
  } catch (const std::exception&) {  // the message is ours
  }
  refuse("--ratio must be a number or none, got " + text);
}

vicinal::MatchOptions options_of(const Flags& flags, bool max_distance_given) {
  const auto one_of = [](const char* option, const std::string& given, std::initializer_list<const char*> words) {
    const auto* const found = std::find(words.begin(), words.end(), given);
    if (found == words.end())
      refuse(fmt::format("{} must be one of {}, got {}", option, fmt::join(words, ", "), given));
    return found - words.begin();
  };
  vicinal::MatchOptions options = vicinal::match_preset(flags.preset);
  if (!flags.distance.empty()) options.distance = vicinal::parse_match_distance(flags.distance);
  if (flags.ratio == "none") options.ratio.reset();
  else if (!flags.ratio.empty()) options.ratio = ratio_of(flags.ratio);
  if (max_distance_given) options.max_distance = flags.max_distance;
  if (!flags.mutual.empty())
    options.mutual = static_cast<vicinal::Mutual>(one_of("--mutual", flags.mutual, {"no", "nearest", "yes"}));
  if (!flags.lone.empty()) options.accept_lone = one_of("--lone", flags.lone, {"reject", "accept"}) == 1;
  if (flags.inclusive) options.strict = false;
  options.run = execution(flags.device, flags.threads);
  return options;
}

const char* mutual_word(vicinal::Mutual mutual) {
  switch (mutual) {
    case vicinal::Mutual::tested: return "yes";
    case vicinal::Mutual::nearest: return "nearest";
    case vicinal::Mutual::one_way: break;
  }
  return "no";
}

std::string distance_word(const vicinal::MatchDistance& distance) {
  return distance.angle ? "angle" : std::string(vicinal::metric_info(distance.metric).name);
}

/// "angle, ratio < 0.8, at most 0.7, mutual yes, lone accept".
std::string tests_text(const vicinal::MatchOptions& tests) {
  std::string text = distance_word(tests.distance);
  text += tests.ratio ? fmt::format(", ratio {} {}", tests.strict ? "<" : "<=", *tests.ratio) : ", no ratio";
  if (tests.max_distance) text += fmt::format(", at most {}", *tests.max_distance);
  return text + fmt::format(", mutual {}, lone {}", mutual_word(tests.mutual), tests.accept_lone ? "accept" : "reject");
}

Json tests_json(const vicinal::MatchOptions& tests) {
  Json object;
  object["distance"] = distance_word(tests.distance);
  object["ratio"] = tests.ratio ? Json(*tests.ratio) : Json();
  object["max_distance"] = tests.max_distance ? Json(*tests.max_distance) : Json();
  object["strict"] = tests.strict;
  object["mutual"] = mutual_word(tests.mutual);
  object["lone"] = tests.accept_lone ? "accept" : "reject";
  return object;
}

/// "2 pictures without descriptors: a.png, b.png"; empty where there are none.
std::string names_of_empty(std::span<const Picture> pictures) {
  std::vector<std::string> names;
  for (const Picture& picture : pictures)
    if (picture.rows == 0) names.push_back(picture.name);
  if (names.empty()) return "";
  const auto count = std::ssize(names);
  constexpr std::size_t shown = 3;
  names.resize(std::min(names.size(), shown));
  return fmt::format("{} without descriptors: {}{}", plural(count, "picture"), fmt::join(names, ", "),
                     count > std::ssize(names) ? ", ..." : "");
}

/// The pairs to match, with those left out that have matches where that was asked for; `run` counts.
std::vector<ImagePair> pairs_of(const Flags& flags, ColmapDatabase& database, const vicinal::Execution& where,
                                MatchRun& run) {
  const std::span<const Picture> pictures = database.pictures();
  std::vector<ImagePair> pairs = picture_pairs(flags.pairs, flags.global_descriptors, pictures, where);
  const auto picture = [&](std::int64_t image) -> const Picture& { return pictures[static_cast<std::size_t>(image)]; };
  if (flags.files.resume)
    run.skipped = static_cast<std::int64_t>(std::erase_if(
        pairs, [&](const ImagePair& pair) { return database.is_matched(picture(pair[0]), picture(pair[1])); }));
  run.pictures = std::ssize(pictures);
  for (const Picture& one : pictures) run.rows += one.rows;
  run.pairs = std::ssize(pairs);
  for (const ImagePair& pair : pairs) run.comparisons += comparisons_of(pair, pictures);
  return pairs;
}

Json run_json(const Flags& flags, const MatchRun& run, const vicinal::MatchOptions& tests) {
  Json object = json_head("match");
  object["database"] = flags.files.database;
  object["tests"] = tests_json(tests);
  object["pictures"] = run.pictures;
  object["rows"] = run.rows;
  object["pairs"] = run.pairs;
  object["skipped"] = run.skipped;
  object["comparisons"] = run.comparisons;
  return object;
}

int show_plan(const Flags& flags, const MatchRun& run, const vicinal::MatchOptions& tests) {
  if (flags.json) print_json(run_json(flags, run, tests));
  else
    print(facts_text({{"pictures", fmt::format("{}, {}", count_text(run.pictures), plural(run.rows, "row"))},
                      {"pairs", fmt::format("{}, {} left out", count_text(run.pairs), count_text(run.skipped))},
                      {"comparisons", count_text(run.comparisons)},
                      {"tests", tests_text(tests)}}));
  return 0;
}

void show_result(const Flags& flags, const MatchRun& run, const vicinal::MatchOptions& tests) {
  const std::string& written = flags.files.output.empty() ? flags.files.database : flags.files.output;
  if (flags.json) {
    Json object = run_json(flags, run, tests);
    object["matches"] = run.matches;
    object["replaced"] = run.replaced;
    object["device"] = run.device;
    object["seconds"] = run.seconds;
    object["output"] = written;
    print_json(object);
    return;
  }
  std::string text =
      fmt::format("matched {} of {}: {}, {}{}\n{}\n", plural(run.pairs, "pair"), plural(run.pictures, "picture"),
                  plural(run.matches, "match"), seconds_text(run.seconds),
                  run.device.empty() ? "" : " on " + run.device, tests_text(tests));
  if (run.skipped > 0) text += fmt::format("{} had matches and were left out\n", plural(run.skipped, "pair"));
  if (run.replaced > 0)
    text +=
        fmt::format("{} had other matches before; their two-view geometries are gone\n", plural(run.replaced, "pair"));
  print(text + "wrote " + written + "\n");
}

/// Matches the pairs that are left in the database that is written, and names the pictures without descriptors.
std::string match_copy(const Flags& flags, const vicinal::MatchOptions& options, std::int64_t bytes, WorkingCopy& copy,
                       Context& context, MatchRun& run) {
  ColmapDatabase database(Database(copy.path(), Database::Access::write));
  const bool begins = copy.matches_again() && !(flags.files.resume && database.has_run());
  if (begins) database.begin_run();
  BatchMatcher matcher(database, options, bytes, run);
  try {
    const std::vector<ImagePair> pairs =
        by_blocks(pairs_of(flags, database, options.run, run), database.pictures(), bytes);
    const std::string again = flags.files.resume ? context.command_line : context.command_line + " --resume";
    context.interrupt.explain([path = copy.path(), again] {
      return fmt::format("the pairs that are matched are saved in {}; to go on: {}", quoted_word(path), again);
    });
    matcher.match(pairs, context.interrupt);
  } catch (const Error& error) {
    if (matcher.wrote() || error.code() == ErrorCode::cancelled) throw;
    if (flags.files.in_place && begins) database.end_run();
    copy.discard();
    throw;
  }
  copy.note_matched();
  database.end_run();
  return names_of_empty(database.pictures());
}

int run_match(const Flags& flags, bool max_distance_given, Context& context) {
  const vicinal::MatchOptions asked = options_of(flags, max_distance_given);
  constexpr std::int64_t usual_bytes = std::int64_t{4} << 30;
  const std::int64_t budget = flags.memory.empty() ? 0 : vicinal::parse_bytes(flags.memory);
  vicinal::MatchOptions options = asked;
  options.memory.host = budget / 2;
  const std::int64_t bytes = budget == 0 ? usual_bytes : budget - budget / 2;

  MatchRun run;
  {  // what can be refused is refused before anything is copied
    ColmapDatabase database(Database(flags.files.database, Database::Access::read));
    const std::vector<ImagePair> pairs = pairs_of(flags, database, options.run, run);
    if (flags.plan) return show_plan(flags, run, asked);
    BatchMatcher(database, options, bytes, run).attempt(pairs, context.interrupt.token());
  }
  run = {};
  WorkingCopy copy(flags.files, fmt::format("{}; {}", flags.pairs, tests_text(asked)), context.interrupt);
  const std::string empty = match_copy(flags, options, bytes, copy, context, run);
  context.interrupt.check();
  {
    const Interrupt::Section section(context.interrupt);  // a signal now comes too late: the matches are all there
    copy.publish();
  }
  if (!empty.empty()) print_note(empty);
  show_result(flags, run, asked);
  return 0;
}

}  // namespace

Command register_match(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("match", "Matches the features of pictures in a database of COLMAP, exactly");
  app.add_read_file("DATABASE", flags->files.database, "database of COLMAP with descriptors").required();
  app.add_read_file("--pairs", flags->pairs, "which pictures (default exhaustive); FILE: two names a line")
      .type_name("exhaustive|sequential:N|nearest:K|FILE");
  app.add_read_file("--global-descriptors", flags->global_descriptors,
                    "for nearest:K: one row a picture, by ascending image_id");
  app.add_text("--preset", flags->preset,
               "tests as a tool has them (default colmap); the options below change one each")
      .type_name("colmap|colmap-cpu|hloc|opencv|kornia|vlfeat");
  app.add_text("--distance", flags->distance, "angle, euclidean, cosine, hamming, ...").type_name("NAME");
  app.add_text("--ratio", flags->ratio, "best distance below this times the second best").type_name("R|none");
  const Option max_distance =
      app.add_number("--max-distance", flags->max_distance, "best distance at most this").type_name("D");
  app.add_text("--mutual", flags->mutual, "both ways with all tests, as nearest rows alone, or one way")
      .type_name("yes|nearest|no");
  app.add_text("--lone", flags->lone, "a best without a second best").type_name("accept|reject");
  app.add_flag("--inclusive", flags->inclusive, "the ratio itself passes");
  app.add_text("--device", flags->device, "where to run (default auto)").type_name("auto|cpu|cuda|cuda:N|cuda:all");
  app.add_integer("--threads", flags->threads, "threads (default 0: all this process may use)").type_name("N");
  app.add_text("--memory", flags->memory, "memory to stay within, half of it for descriptors (default: 4GiB of them)")
      .type_name("SIZE");
  app.add_written_file("-o,--output", flags->files.output, "write another database, and leave DATABASE as it is");
  app.add_flag("--in-place", flags->files.in_place, "write into DATABASE, batch by batch, without a copy");
  app.add_flag("--resume", flags->files.resume,
               "leave out pairs that have matches; go on with what a stopped run left");
  app.add_flag("--plan", flags->plan, "show what would be matched, and stop");
  add_json(app, flags->json);
  app.footer(examples);
  return {app, [flags, max_distance](Context& context) { return run_match(*flags, max_distance.given(), context); }};
}

}  // namespace cli
