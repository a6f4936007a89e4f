// `vicinal demo`: exact 100-NN of SIFT descriptors of photographs, then a check of the written result against the
// exhaustive search, which computes every distance in fp64 and filters nothing. The queries are descriptors of the
// same pictures turned, shrunk and made noisy (data/demo/PROVENANCE.md).
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "command.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "text.hpp"
#include "vicinal/error.hpp"
#include "vicinal/search.hpp"
#include "vicinal/verify.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t neighbours = 100;

struct Flags {
  SearchFlags search;
  std::string data;
  bool json = false;
};

/// --data, or beside an installed command, or the source tree that this was built from.
std::string find_data(const std::string& asked) {
  std::error_code ignored;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  std::vector<fs::path> places = {prefix / "share/vicinal/demo", VICINAL_DEMO_DIR};
  if (!asked.empty()) places = {asked};
  for (const fs::path& place : places) {
    if (fs::exists(place / "sift.npz", ignored)) return (place / "sift.npz").string();
  }
  throw vicinal::Error(
      vicinal::ErrorCode::io_error,
      "cannot find sift.npz in " + places.back().string() + "; --data DIR says where the demo data are", ENOENT);
}

/// A folder that goes when it goes out of sight.
struct TemporaryFolder {
  std::string path = (fs::temp_directory_path() / "vicinal-demo-XXXXXX").string();
  TemporaryFolder() {
    if (mkdtemp(path.data()) != nullptr) return;
    throw vicinal::Error(vicinal::ErrorCode::io_error, "cannot make a folder " + path, errno);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

/// Share of queries whose nearest row comes from the same picture (members *_picture: one number a row).
double same_picture(const vicinal::Matrix& corpus_picture, const vicinal::Matrix& query_picture,
                    const vicinal::Neighbors& result) {
  const auto picture = [](const vicinal::Matrix& matrix, std::int64_t row) {
    return static_cast<const std::uint8_t*>(matrix.points().data)[row * matrix.points().row_stride];
  };
  std::int64_t same = 0;
  for (std::int64_t query = 0; query < result.rows(); ++query) {
    same += picture(query_picture, query) == picture(corpus_picture, result.id(query, 0)) ? 1 : 0;
  }
  return static_cast<double>(same) / static_cast<double>(result.rows());
}

struct Demo {
  std::string path;
  vicinal::Matrix corpus, queries;
  vicinal::Neighbors result;
  vicinal::Verdict verdict;
  double same = 0;
};

/// The search through the front door, and the check of what it wrote by reading it back.
void search_and_check(Demo& demo, Flags& flags, Interrupt& interrupt) {
  const Interrupt::Section section(interrupt);
  ProgressBar bar("demo");
  vicinal::KnnOptions options = search_options(flags.search);
  options.k = neighbours;
  attach(options, interrupt, bar);
  demo.result = vicinal::knn(demo.corpus.points(), demo.queries.points(), options);

  const TemporaryFolder folder;
  const std::string written = folder.path + "/result.npz";
  vicinal::write_neighbors(written, demo.result);
  const vicinal::ResultFile read = vicinal::read_result(written);
  options.proof = vicinal::Proof::exhaustive;
  demo.verdict = vicinal::verify(demo.corpus.points(), demo.queries.points(),
                                 {.rows = read.rows,
                                  .k = read.k,
                                  .ids = read.ids.data(),
                                  .distances = read.distances.data(),
                                  .type = read.distance_type},
                                 {.search = options});
  demo.same = same_picture(vicinal::read_matrix(demo.path, {.member = "corpus_picture"}),
                           vicinal::read_matrix(demo.path, {.member = "queries_picture"}), demo.result);
}

Json demo_json(const Demo& demo) {
  Json object = json_head("demo");
  object["corpus"] = json_of(demo.corpus, demo.path);
  object["queries"] = json_of(demo.queries, demo.path);
  object["k"] = neighbours;
  object["metric"] = "euclidean";
  object["seconds"] = demo.result.stats.seconds;
  object["certificate"] = json_of(demo.result.certificate);
  object["stats"] = json_of(demo.result.stats);
  object["same_picture"] = demo.same;
  object["verified"] = demo.verdict.correct == demo.verdict.rows;
  object["recall"] = demo.verdict.recall;
  return object;
}

std::string demo_text(const Demo& demo) {
  const vicinal::Points &corpus = demo.corpus.points(), &queries = demo.queries.points();
  const vicinal::Stats& stats = demo.result.stats;
  std::string text = fmt::format(
      "{} SIFT descriptors of photographs, {} x {}; {} of the same pictures turned by 15 degrees,\n"
      "shrunk to four fifths and made noisy. Exact {} nearest of each, euclidean.\n\n",
      count_text(corpus.rows), corpus.cols, vicinal::dtype_name(corpus.dtype), count_text(queries.rows), neighbours);
  text += neighbors_text(demo.result, 5, 4) + "\n";
  text += facts_text(
      {{"time", fmt::format("{} on {} ({}, {})", seconds_text(stats.seconds), stats.device, stats.instruction_set,
                            plural(stats.threads, "thread"))},
       {"certificate", certificate_text(demo.result.certificate)},
       {"nearest row", percent_text(demo.same) + " are from the query's own picture"},
       {"verify", fmt::format("{} of {} rows right to the bit, tie order included; recall {:.6f}",
                              count_text(demo.verdict.correct), count_text(demo.verdict.rows), demo.verdict.recall)}});
  return text;
}

int run_demo(Flags& flags, Context& context) {
  Demo demo;
  demo.path = find_data(flags.data);
  demo.corpus = vicinal::read_matrix(demo.path, {.member = "corpus"});
  demo.queries = vicinal::read_matrix(demo.path, {.member = "queries"});
  search_and_check(demo, flags, context.interrupt);
  context.interrupt.check();
  if (flags.json) print_json(demo_json(demo));
  else print(demo_text(demo));
  return demo.verdict.correct == demo.verdict.rows ? 0 : 1;
}

}  // namespace

Command register_demo(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("demo", "Exact 100-NN of photographs' SIFT descriptors, checked");
  app.add_text("--data", flags->data, "folder with sift.npz (default: installed, or the source tree)").type_name("DIR");
  add_execution(app, flags->search);
  add_json(app, flags->json);
  app.footer("Example:\n  vicinal demo --threads 1");
  return {app, [flags](Context& context) { return run_demo(*flags, context); }};
}

}  // namespace cli
