// `vicinal truth BASE... --queries FILE -k K`: ground truth of a base in one file or many, of several prefixes and
// several k at once, kept up to date.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "search.hpp"
#include "vicinal/truth.hpp"

namespace cli {
namespace {

constexpr const char* examples =
    "Files of the base are numbered through in the order given, ids go on from one to the next. Several K or tiers go "
    "to a\n"
    "file each: -o gt.ibin -k 10,100 --tiers 1M,10M writes gt.1M.k10.ibin and so on. --update takes the lists that "
    "were\n"
    "written for BASE; name all that was deleted since, and for the next update what was --inserted among BASE.\n\n"
    "Examples:\n"
    "  vicinal truth base.*.u8bin --queries query.u8bin -k 100 -o gt.ibin --distances gt.fbin --resume work\n"
    "  vicinal truth base.u8bin --queries query.u8bin -k 10,100 --tiers 1M,10M,100M,1B -o gt.npz\n"
    "  vicinal truth a.hdf5:train b.hdf5:train --queries a.hdf5:test -k 100 -o truth.hdf5\n"
    "  vicinal truth base.fbin --queries q.fbin -k 100 --update gt.npz --inserted new.fbin --deleted gone.txt -o "
    "gt2.npz";

struct Flags {
  SearchFlags search;
  OutputFlags output;
  std::vector<std::string> base, inserted;
  std::string k, tiers, distances, resume, old, old_distances, deleted;
  std::int64_t verify = vicinal::TruthOptions{}.verified_queries;
};

/// "10,100" or, with units, "500k,1M,1B": the counts, each with the text that named it.
struct Count {
  std::string text;
  std::int64_t value;
};
std::vector<Count> counts_of(const std::string& option, const std::string& list, bool units) {
  std::vector<Count> counts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string text = list.substr(at, end - at);
    std::int64_t value = 0, unit = 1;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string rest(stop, text.data() + text.size());
    if (units && (rest == "k" || rest == "K")) unit = 1000;
    else if (units && rest == "M") unit = 1'000'000;
    else if (units && (rest == "B" || rest == "G")) unit = 1'000'000'000;
    else if (!rest.empty()) value = 0;
    if (error != std::errc() || value < 1 || value > INT64_MAX / unit)
      refuse(fmt::format("{} must be counts from 1 on with commas between{}, got {}", option,
                         units ? ", such as 500k,1M,1B" : ", such as 10,100", list));
    counts.push_back({text, value * unit});
    at = end + 1;
  }
  return counts;
}

/// "gt.ibin" with "1M": "gt.1M.ibin".
std::string marked(const std::string& path, const std::string& mark) {
  const std::size_t dot = path.rfind('.'), name = path.rfind('/') + 1;
  if (mark.empty() || path.empty() || dot == std::string::npos || dot < name) return path;
  return path.substr(0, dot) + "." + mark + path.substr(dot);
}

/// A file of the result: the tier's nearest k.
struct Output {
  std::size_t tier;
  std::int64_t k;
  std::string path, distances;
};

std::vector<Output> outputs_of(const Flags& flags, const std::string& path, const std::vector<Count>& k,
                               const std::vector<Count>& tiers) {
  std::vector<Output> outputs;
  for (std::size_t tier = 0; tier < std::max<std::size_t>(tiers.size(), 1); ++tier)
    for (const Count& count : k) {
      std::string mark = tiers.empty() ? "" : tiers[tier].text;
      if (k.size() > 1) mark += (mark.empty() ? "k" : ".k") + count.text;
      outputs.push_back({tier, count.value, marked(path, mark), marked(flags.distances, mark)});
    }
  return outputs;
}

void check_outputs(const std::vector<Output>& outputs, const std::string& folder, const Context& context) {
  NamedFiles files;
  files.read = context.root.files().read;
  for (const Output& output : outputs) {
    vicinal::check_writable(output.path, output.distances);
    files.written.push_back({"-o", output.path});
    if (!output.distances.empty()) files.written.push_back({"--distances", output.distances});
    for (const std::string& path : {output.path, output.distances}) refuse_as_folder(folder, path);
  }
  for (auto file = files.written.begin(); file != files.written.end(); ++file)
    for (auto other = files.written.begin(); other != file; ++other)
      if (vicinal::same_file(file->path, other->path))
        refuse(fmt::format("{} would be written twice{}; give it a suffix, each K and tier once, and every file a name",
                           file->path, file->path == other->path ? "" : ", as " + other->path + " too"));
  refuse_to_replace(files);
}

/// What was read of files of rows, numbered through.
struct Rows {
  std::vector<vicinal::Matrix> matrices;
  std::vector<vicinal::Points> points;
  std::int64_t count = 0;

  Rows(const std::vector<std::string>& paths, vicinal::Header header) {
    for (const std::string& path : paths) {
      matrices.push_back(read_points(path, header));
      points.push_back(matrices.back().points());
      count += points.back().rows;
    }
  }
};

class TruthCommand {
 public:
  TruthCommand(Flags& flags, Context& context)
      : flags_(flags), context_(context), out_(flags.output.path), k_(counts_of("-k", flags.k, false)),
        tiers_(flags.tiers.empty() ? std::vector<Count>() : counts_of("--tiers", flags.tiers, true)) {
    if (flags.output.path.empty() && !flags.output.plan) refuse("truth needs -o PATH for the result");
    if (flags.old.empty() && (!flags.inserted.empty() || !flags.deleted.empty() || !flags.old_distances.empty()))
      refuse("--inserted, --deleted and --old-distances go with --update OLD");
    check_resume(flags.resume, flags.output);
    refuse_json_stream(flags.output, out_);
    outputs_ = outputs_of(flags, out_.path(), k_, tiers_);
    if (out_.stream() && outputs_.size() > 1) refuse("one result fits a stream; name a file for several K or tiers");
    if (!flags.output.path.empty()) check_outputs(outputs_, flags.resume, context);
    options_.search = search_options(flags.search);
    options_.search.k = 0;
    for (const Count& k : k_) options_.search.k = std::max(options_.search.k, k.value);
    for (const Count& tier : tiers_) options_.tiers.push_back(tier.value);
    options_.directory = flags.resume;
    options_.verified_queries = flags.verify;
    options_.names = flags.base;
    options_.names.insert(options_.names.end(), flags.inserted.begin(), flags.inserted.end());
  }

  int run() {
    const auto start = std::chrono::steady_clock::now();
    const vicinal::Header header = flags_.search.text.header();
    const Rows base(flags_.base, header), inserted(flags_.inserted, header);
    queries_ = read_points(flags_.search.queries, header);
    rows_ = options_.tiers.empty() ? base.count + inserted.count : options_.tiers.back();
    const vicinal::Points& first = base.points.front();
    row_bytes_ = first.cols * static_cast<std::int64_t>(vicinal::dtype_size(first.dtype));
    seconds_.read = seconds_since(start);
    check_formats(first);
    begin_resume(flags_.resume, Side{}, context_);
    if (flags_.output.plan) {
      const vicinal::Points& asked = queries_.points();
      return print_plan(
          vicinal::plan({rows_, first.cols, first.dtype}, {asked.rows, asked.cols, asked.dtype}, options_.search),
          describe(base), flags_.output.json);
    }
    saved_ = flags_.resume.empty() ? 0 : vicinal::saved_pieces(flags_.resume).pairs;
    const auto find = [&] {
      truth_ = interruptible(
          "truth", options_.search, context_.interrupt, [&] { return search(base, inserted); },
          [this](double pairs) { return rate_text(pairs); });
    };
    const auto write = [&] {
      for (const Output& output : outputs_)
        vicinal::write_neighbors(output.path, vicinal::first_neighbors(truth_.tiers[output.tier].nearest, output.k),
                                 output.distances);
    };
    const bool to_file = carry_out(seconds_, out_, find, write);
    if (!flags_.resume.empty()) vicinal::discard_pieces(flags_.resume);
    if (to_file) flags_.output.json ? print_run_json(base) : print_run_text(base);
    return 0;
  }

 private:
  /// What would be found only when everything has been searched.
  void check_formats(const vicinal::Points& base) const {
    if (flags_.output.path.empty()) return;
    const vicinal::Points& asked = queries_.points();
    const vicinal::Plan plan =
        vicinal::plan({rows_, base.cols, base.dtype}, {asked.rows, asked.cols, asked.dtype}, options_.search);
    const vicinal::Eligible& eligible = options_.search.eligible;
    std::int64_t most = eligible.last;
    if (eligible.ids && !eligible.ids->empty()) most = std::min(most, *std::ranges::max_element(*eligible.ids));
    for (const Output& output : outputs_) {
      const std::int64_t rows = tiers_.empty() ? rows_ : tiers_[output.tier].value;
      const std::int64_t first = options_.search.first_id,
                         last = first > INT64_MAX - rows ? INT64_MAX : first + rows - 1;
      vicinal::check_holds(output.path, output.distances,
                           {asked.rows, output.k, std::min(last, most), plan.distance_type});
    }
  }

  vicinal::GroundTruth search(const Rows& base, const Rows& inserted) {
    if (flags_.old.empty()) return vicinal::ground_truth(base.points, queries_.points(), options_);
    vicinal::ResultFile old = read_claim(flags_.old, flags_.old_distances);
    if (!old.has_distances)
      refuse(flags_.old +
             " has no distances; an update needs them (--old-distances FILE, or a format that holds them)");
    vicinal::Column deleted;
    if (!flags_.deleted.empty()) deleted = vicinal::read_column(flags_.deleted);
    if (deleted.mask) {
      if (const std::int64_t rows = base.count + inserted.count; std::ssize(deleted.values) != rows)
        refuse(fmt::format("--deleted {}: the mask has {} entries, the base and what is inserted {} rows",
                           flags_.deleted, deleted.values.size(), rows));
      std::vector<std::int64_t> ids;
      for (std::size_t row = 0; row < deleted.values.size(); ++row)
        if (deleted.values[row] != 0) ids.push_back(flags_.search.first_id + static_cast<std::int64_t>(row));
      deleted.values = std::move(ids);
    }
    const vicinal::NeighborsView lists{old.ids.data(), old.distances.data(), old.distance_type, old.rows, old.k,
                                       nullptr};
    return vicinal::update_ground_truth({lists, base.points, inserted.points, deleted.values}, queries_.points(),
                                        options_);
  }

  /// "1.24 million rows/s, 0.16 GB/s" of so many pairs a second.
  std::string rate_text(double pairs) const {
    const double rows = pairs / static_cast<double>(std::max<std::int64_t>(queries_.points().rows, 1));
    return fmt::format("{:.3g} million rows/s, {:.3g} GB/s", rows / 1e6, rows * static_cast<double>(row_bytes_) / 1e9);
  }

  Json describe(const Rows& base) const {
    Json object = json_head("truth");
    object["base"] = Json::array();
    for (std::size_t i = 0; i < base.matrices.size(); ++i)
      object["base"].push_back(json_of(base.matrices[i], flags_.base[i]));
    object["rows"] = rows_;
    object["queries"] = json_of(queries_, flags_.search.queries);
    object["k"] = Json::array();
    for (const Count& k : k_) object["k"].push_back(k.value);
    object["metric"] = metric_name(flags_.search.metric);
    return object;
  }

  void print_run_json(const Rows& base) const {
    Json object = describe(base);
    object["device"] = truth_.stats.device;
    object["distance_type"] = vicinal::distance_type_name(truth_.nearest().type());
    object["seconds"] = seconds_.search;
    object["certificate"] = json_of(truth_.certificate);
    object["stats"] = json_of(truth_.stats);
    object["verified"] = truth_.verified;
    if (!flags_.old.empty()) object["kept"] = truth_.kept;
    object["outputs"] = Json::array();
    for (const Output& output : outputs_) {
      Json file = {{"rows", truth_.tiers[output.tier].rows}, {"k", output.k}, {"ids", output.path}};
      if (!output.distances.empty()) file["distances"] = output.distances;
      object["outputs"].push_back(file);
    }
    print_json(object);
  }

  void print_run_text(const Rows& base) const {
    const vicinal::Points& asked = queries_.points();
    const double pairs = static_cast<double>(rows_) * static_cast<double>(asked.rows) - static_cast<double>(saved_);
    const bool update = !flags_.old.empty(), searched = truth_.certificate.queries > 0;
    const bool nothing = update && truth_.stats.device.empty();  // an update that only deletes may need no search
    std::string text = fmt::format("{} nearest of {} in {} for {}, {} columns, {}: {}{}", count_text(options_.search.k),
                                   plural(rows_, "row"), plural(std::ssize(base.points), "file"),
                                   plural(asked.rows, "query"), asked.cols, metric_name(flags_.search.metric),
                                   seconds_text(seconds_.search), nothing ? "" : " " + place_text(truth_.stats));
    if (!update && seconds_.search > 0) text += ": " + rate_text(pairs / seconds_.search);
    text += "\n";
    if (searched || !update) text += certificate_text(truth_.certificate) + "\n";
    if (nothing) text += "nothing was searched: the lists are those of " + flags_.old + " without what was deleted\n";
    else if (truth_.kept > 0)
      text += fmt::format("{} kept what is left of {}: as exact as that\n", plural(truth_.kept, "query"), flags_.old);
    text += fmt::format("verified {} by ranking every row\n", plural(std::ssize(truth_.verified), "query"));
    for (const Output& output : outputs_) {
      text += "wrote " + output.path + "\n";
      if (!output.distances.empty()) text += "wrote " + output.distances + "\n";
    }
    if (update || flags_.output.explain)
      for (const std::string& note : truth_.stats.notes) text += "note: " + note + "\n";
    print(text);
  }

  Flags& flags_;
  Context& context_;
  OutputFile out_;
  std::vector<Count> k_, tiers_;
  std::vector<Output> outputs_;
  vicinal::TruthOptions options_;
  vicinal::Matrix queries_;
  std::int64_t rows_ = 0, row_bytes_ = 0, saved_ = 0;
  Timing seconds_;
  vicinal::GroundTruth truth_;
};

}  // namespace

Command register_truth(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("truth", "Ground truth of a base of any size, in files of any number");
  app.add_read_files("BASE", flags->base, "rows to search in, numbered through (PATH, PATH.npz:NAME, PATH.hdf5:NAME)")
      .required();
  app.add_read_file("--queries", flags->search.queries, "rows to search for").required();
  app.add_text("-k", flags->k, "neighbours a query; several go to a file each").required().type_name("K[,K...]");
  app.add_text("--tiers", flags->tiers, "truth of the first 1M, 10M, ... rows, in one pass, a file each")
      .type_name("N[,N...]");
  add_meaning(app, flags->search);
  app.add_text("--distance-type", flags->search.distance_type, "type of the distances (default auto)")
      .type_name("auto|f32|f64|u32");
  app.add_flag("--pad", flags->search.pad, "k beyond the rows: fill with id -1 and the worst distance");
  app.add_read_file("--update", flags->old, "bring these lists of BASE up to date");
  app.add_read_file("--old-distances", flags->old_distances, "their distances, where OLD holds ids alone");
  app.add_read_files("--inserted", flags->inserted, "rows that came, numbered after those of BASE");
  app.add_read_file("--deleted", flags->deleted,
                    "ids that are gone, all of them (.npy, .txt), or a mask (.npy of bool)");
  app.add_integer("--verify", flags->verify, "queries to check at the end by ranking every row (default 8)")
      .type_name("N");
  add_header(app, flags->search.text);
  add_execution(app, flags->search);
  add_eligible(app, flags->search.eligible, true);
  add_output(app, flags->output);
  app.add_written_file("--distances", flags->distances, "write the distances here");
  add_resume(app, flags->resume);
  app.footer(examples);
  return {app, [flags](Context& context) { return TruthCommand(*flags, context).run(); }};
}

}  // namespace cli
