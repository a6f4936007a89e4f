// Every job of the library that touches memory or files, with each of its calls refused in turn. Whatever is refused, the
// job succeeds or throws a vicinal::Error of the right kind; what was on disk is whole, the old or the new; no temporary, block,
// mapping or descriptor is left. Closes with "N passed, N failed".
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "core/kept_bytes.hpp"
#include "injection.hpp"
#include "vicinal/vicinal.hpp"

namespace {

using namespace vicinal;
namespace fs = std::filesystem;

struct Job {
  std::string name;
  std::function<void()> run;
  std::vector<std::string> writes = {};  // files that it replaces
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t entries(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

/// How one refusal ended. The text is no std::string: it would be counted among the blocks that are left.
struct Outcome {
  char wrong[400] = "";
  bool past_the_end = false;
  faults::Held before, after;

  void say(const char* what, const char* detail) { std::snprintf(wrong, sizeof wrong, "%s%s", what, detail); }
};

Outcome refuse(const Job& job, faults::Mode mode, std::int64_t at) {
  Outcome outcome;
  forget_kept_bytes();  // so that each run asks for all that it needs
  outcome.before = faults::held();
  faults::arm(mode, at);
  try {
    job.run();
    outcome.past_the_end = faults::disarm() < at;
  } catch (const Error& error) {
    faults::disarm();
    const bool memory = faults::refused_errno() == 0;
    if (error.code() != (memory ? ErrorCode::out_of_memory : ErrorCode::io_error))
      outcome.say("wrong code: ", error.what());
    if (!memory && error.system_errno() != faults::refused_errno()) outcome.say("wrong errno: ", error.what());
  } catch (const std::bad_alloc&) {  // without memory for as much as the text of an Error, nothing else can be thrown
    faults::disarm();
    if (mode != faults::Mode::onwards) outcome.say("std::bad_alloc", "");
  } catch (const std::exception& error) {
    faults::disarm();
    outcome.say("not a vicinal::Error: ", error.what());
  }
  forget_kept_bytes();
  outcome.after = faults::held();
  return outcome;
}

/// Number of refusals that ended badly.
int check(const Job& job, const std::string& folder) {
  const std::vector<std::string>& files = job.writes;
  std::vector<std::string> before, after;
  const auto put_back = [&] {
    for (std::size_t i = 0; i < files.size(); ++i)
      std::ofstream(files[i], std::ios::binary | std::ios::trunc) << before[i];
  };
  before.assign(files.size(), "the old file");
  put_back();
  job.run();  // warms up what lives for ever
  for (const std::string& file : files) after.push_back(slurp(file));
  put_back();
  const std::size_t present = entries(folder);
  std::set<std::string> kinds;
  std::int64_t refusals = 0;
  int bad = 0;
  for (const faults::Mode mode : {faults::Mode::once, faults::Mode::onwards}) {
    bool past_the_end = false;
    for (std::int64_t at = 1; !past_the_end; ++at, ++refusals) {
      const Outcome outcome = refuse(job, mode, at);
      past_the_end = outcome.past_the_end;
      std::string wrong = outcome.wrong;
      kinds.insert(faults::refused());
      const faults::Held &start = outcome.before, &end = outcome.after;
      if (end.blocks != start.blocks) job.run();  // an idle arena of threads may have been lost, and is made again
      if (const std::int64_t blocks = faults::held().blocks - start.blocks; end.blocks != start.blocks && blocks != 0)
        wrong += " leaves " + std::to_string(blocks) + " blocks";
      if (end.mappings != start.mappings) wrong += " leaves mappings";
      if (end.descriptors != start.descriptors) wrong += " leaves descriptors";
      if (entries(folder) != present) wrong += " leaves a temporary";
      for (std::size_t i = 0; i < files.size(); ++i) {
        const std::string shown = slurp(files[i]);
        if (shown != before[i] && shown != after[i]) wrong += " broke " + files[i];
      }
      put_back();
      if (wrong.empty()) continue;
      if (++bad <= 5)
        std::printf("%s, call %lld (%s): %s\n", job.name.c_str(), static_cast<long long>(at), faults::refused(),
                    wrong.c_str());
      if (bad > 100) return bad;
    }
  }
  std::printf("%-24s %5lld refusals, %d bad:", job.name.c_str(), static_cast<long long>(refusals), bad);
  for (const std::string& kind : kinds)
    if (!kind.empty()) std::printf(" %s", kind.c_str());
  std::printf("\n");
  return bad;
}

std::vector<Job> all_jobs(const std::string& folder, const Neighbors& result, const Corpus& corpus,
                          const Points& rows) {
  const auto file = [&](const std::string& name) { return folder + "/" + name; };
  std::vector<Job> jobs;
  for (const char* name : {"r.npy", "r.fvecs", "r.fbin", "r.vicinal"}) {
    write_matrix(file(name), rows);
    jobs.push_back({std::string("read ") + name, [path = file(name)] { read_matrix(path); }});
  }
  for (const char* name : {"i.npz", "i.npy", "i.ivecs", "i.ibin"}) {
    write_neighbors(file(name), result);
    jobs.push_back({std::string("read ") + name, [path = file(name)] { read_result(path); }});
  }
  jobs.push_back({"write npz", [&result, path = file("o.npz")] { write_neighbors(path, result); }, {file("o.npz")}});
  jobs.push_back({"write ivecs and fvecs",
                  [&result, a = file("o.ivecs"), b = file("o.fvecs")] { write_neighbors(a, result, b); },
                  {file("o.ivecs"), file("o.fvecs")}});
  jobs.push_back({"write npy", [rows, path = file("o.npy")] { write_matrix(path, rows); }, {file("o.npy")}});
  jobs.push_back({"save corpus", [&corpus, path = file("o.vicinal")] { corpus.save(path); }, {file("o.vicinal")}});
  const auto open = [path = file("r.vicinal")](bool copy) {
    return [path, copy] { Corpus::open(path, {.copy = copy, .memory = {.host = 64 << 20}, .run = {.threads = 1}}); };
  };
  jobs.push_back({"open corpus", open(false)});
  jobs.push_back({"open corpus, copied", open(true)});
  const KnnOptions options{.k = 3, .memory = {.host = 64 << 20}, .run = {.threads = 1}};
  jobs.push_back({"knn", [rows, options] { knn(rows, rows, options); }, {}});
  jobs.push_back({"knn in a corpus", [&corpus, rows, options] { corpus.knn(rows, options); }});
  jobs.push_back({"graph of a corpus", [&corpus, options] { corpus.knn_graph({.search = options}); }});
  jobs.push_back(
      {"range in a corpus", [&corpus, rows, options] { corpus.range_search(rows, 9.0, {.search = options}); }});
  const MatchOptions match_options{.mutual = Mutual::nearest, .memory = {.host = 64 << 20}, .run = {.threads = 1}};
  jobs.push_back({"match of bytes", [rows, match_options] { match(rows, rows, match_options); }});
  jobs.push_back({"match by searches", [rows, options = match_options]() mutable {
                    options.distance.metric = Metric::l1;
                    match(rows, rows, options);
                  }});
  jobs.push_back({"match with a guide", [rows, options = match_options]() mutable {
                    const MatchGuide guide;
                    options.guide = &guide;
                    match(rows, rows, options);
                  }});
  return jobs;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = (fs::temp_directory_path() / "vicinal-faults-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  std::vector<float> values(40 * 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 97);
  const Points rows = MatrixView<float>{values.data(), 40, 5};
  const Corpus corpus(rows, {.memory = {.host = 64 << 20}, .run = {.threads = 1}});
  const Neighbors result = knn(rows, rows, {.k = 3, .run = {.threads = 1}});
  int passed = 0, failed = 0;
  for (const Job& job : all_jobs(folder, result, corpus, rows)) {
    if (argc > 1 && job.name.find(argv[1]) == std::string::npos) continue;
    (check(job, folder) == 0 ? passed : failed) += 1;
  }
  fs::remove_all(folder);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
