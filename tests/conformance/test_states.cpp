// Pairs of states: how a corpus was made, and how it is searched. Neither may change a bit, and no way to make one may leave a form that
// another way to search takes for its own. Both sides are drawn at random: instruction set and filter, by option and by environment (other
// variables while it is made than while it is searched), threads, memory; in one shot, kept, copied, saved and opened; few columns and many.
// The oracle answers each spec once, and some pairs must all give that answer.
#include <gtest/gtest.h>

#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "conformance/lists.hpp"

namespace conformance {
namespace {

using vicinal::Corpus;
using vicinal::DistanceType;
using vicinal::Neighbors;

constexpr std::int64_t all_pairs = 8000,
                       pairs_a_scene = 24;  // make test runs a share of them, VICINAL_TEST_SCALE=12.5 asks for 100,000

/// What one side of a pair is done under. Empty: the variable is not set.
struct Way {
  std::string isa_variable, filter_variable;
  vicinal::Execution run;
  std::string text() const {
    return "(ISA=" + isa_variable + " FILTER=" + filter_variable + " instruction_set=" + run.instruction_set +
           " filter=" + run.filter + " threads=" + std::to_string(run.threads) + ")";
  }
};

Way random_way(Rng& rng) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = filters();
    all.insert(all.end(), {"rotated", "projected"});
    return all;
  }();
  Way way;
  if (rng.chance(0.25)) way.isa_variable = rng.pick(instruction_sets());
  if (rng.chance(0.35)) way.filter_variable = rng.pick(names);
  if (rng.chance(0.3)) way.run.instruction_set = rng.pick(instruction_sets());
  if (rng.chance(0.35)) way.run.filter = rng.pick(names);
  way.run.threads = rng.chance(0.7) ? 1 : rng.pick(std::vector<int>{2, 7});
  return way;
}

/// The variables of a way, for as long as it lives.
class Switches {
 public:
  explicit Switches(const Way& way) {
    set("VICINAL_ISA", way.isa_variable);
    set("VICINAL_FILTER", way.filter_variable);
  }
  ~Switches() {
    ::unsetenv("VICINAL_ISA");
    ::unsetenv("VICINAL_FILTER");
  }
  Switches(const Switches&) = delete;
  Switches& operator=(const Switches&) = delete;

 private:
  static void set(const char* name, const std::string& value) {
    if (!value.empty()) ::setenv(name, value.c_str(), 1);
  }
};

enum class Made { at_once, kept, copied, mapped, opened_copied };
const char* made_name(Made made) {
  static const char* const names[] = {"at once", "kept", "kept, copied", "saved, mapped", "saved, opened by copy"};
  return names[static_cast<int>(made)];
}

/// Data and a spec about them, with the answer.
struct Scene {
  Kind kind;
  Table corpus, queries;
  vicinal::KnnOptions options;
  Filter filter;
  oracle::SearchSpec ask;
  std::string text() const {
    return kind.text() + " " + std::to_string(corpus.n) + " x " + std::to_string(corpus.d) + ", " +
           std::to_string(queries.n) + " queries, k=" + std::to_string(options.k) +
           " first_id=" + std::to_string(options.first_id) + (options.pad ? " pad" : "") + " type " +
           vicinal::distance_type_name(options.distance_type) + " eligible " + filter.name;
  }
};

std::int64_t random_rows(Rng& rng, std::int64_t dims) {
  if (rng.chance(0.15)) return rng.log_between(1, 40);
  // From 1,024 on, rows of few columns are sorted into a tree.
  if (dims <= 16) return rng.chance(0.7) ? rng.between(1020, 1600) : rng.between(40, 1020);
  return rng.between(40, dims > 100 ? 300 : 700);
}

Scene random_scene(Rng& rng) {
  Scene scene;
  scene.kind = rng.pick(all_kinds());
  const std::int64_t dims = rng.chance(0.65) ? rng.between(1, 16) : rng.between(30, 300);
  const std::int64_t rows = random_rows(rng, dims), queries = rng.chance(0.05) ? 0 : rng.between(1, 4);
  const bool gauss = rng.chance(0.4) && scene.kind.dtype != DType::u8 && dims > 1;
  const auto table = [&](std::int64_t n) {
    return gauss ? gaussian(rng, scene.kind.dtype, n, dims, 0.5, scene.kind.dtype == DType::i8 ? 20 : 1)
                 : mixed_table(rng, scene.kind.dtype, n, dims);
  };
  scene.corpus = table(rows);
  scene.queries = table(queries);
  scene.options.metric = scene.kind.metric;
  scene.options.k = rng.chance(0.1) ? rows : std::min(rows, rng.log_between(1, 64));
  scene.options.pad = rng.chance(0.3);
  if (scene.options.pad && rng.chance(0.2)) scene.options.k = rows + rng.between(1, 5);
  if (rng.chance(0.3)) scene.options.first_id = rng.pick(std::vector<std::int64_t>{1, 1000, std::int64_t{1} << 40});
  if (rng.chance(0.2) && scene.kind.metric != Metric::hamming) scene.options.distance_type = DistanceType::f64;
  scene.options.degenerate = vicinal::Degenerate::one;  // of one column every row has no direction
  if (rng.chance(0.4)) {
    scene.filter = make_filter(rng, rng.pick(all_conditions), rows, queries, scene.options.first_id);
    scene.options.pad =
        scene.options.pad || rng.chance(0.8);  // else k above the eligible rows is an error, which is compared too
  }
  scene.ask = spec(scene.options);
  scene.filter.put(scene.options, scene.ask);
  return scene;
}

/// What was seen, so that a suite that no longer reaches a state fails.
struct Seen {
  std::int64_t pairs = 0, refused_budgets = 0, wrong = 0;
  std::map<std::string, std::int64_t> states;
};

class States {
 public:
  States(std::uint64_t seed, Seen& seen, const std::string& path)
      : rng_(seed), seen_(seen), path_(path), scene_(random_scene(rng_)) {}

  void run() {
    want_ = oracle::knn(scene_.corpus.rows(), scene_.queries.rows(), scene_.ask);
    std::optional<Corpus> corpus;
    Made made = Made::at_once;
    Way maker;
    for (std::int64_t pair = 0; pair < pairs_a_scene; ++pair) {
      if (pair % 3 == 0) {  // each corpus is searched in three ways
        maker = random_way(rng_);
        made = rng_.chance(0.05) ? (rng_.chance(0.5) ? Made::mapped : Made::opened_copied)
                                 : rng_.pick(std::vector<Made>{Made::at_once, Made::kept, Made::kept, Made::copied});
        corpus.reset();
        if (!make(made, maker, corpus)) continue;
      }
      if (made != Made::at_once && !corpus) continue;
      const Way searcher = rng_.chance(0.2) ? Way{} : random_way(rng_);
      ++seen_.pairs;
      const std::string fault = made == Made::at_once ? search_at_once(searcher) : search(*corpus, searcher);
      if (fault.empty()) continue;
      ++seen_.wrong;
      ADD_FAILURE() << scene_.text() << "; made " << made_name(made) << " " << maker.text()
                    << (corpus && !corpus->resident() ? " not resident" : "") << "; searched " << searcher.text()
                    << ": " << fault;
    }
  }

 private:
  vicinal::CorpusOptions corpus_options(const Way& way, bool copy) {
    vicinal::CorpusOptions options{
        .metric = scene_.kind.metric, .copy = copy, .degenerate = vicinal::Degenerate::one, .run = way.run};
    if (rng_.chance(0.1))
      options.memory.host = rng_.log_between(1, std::int64_t{1} << 24);  // often too little to keep anything
    return options;
  }

  bool make(Made made, const Way& way, std::optional<Corpus>& corpus) {
    const Switches switches(way);
    try {
      if (made == Made::kept || made == Made::copied)
        corpus.emplace(scene_.corpus.points(), corpus_options(way, made == Made::copied));
      if (made == Made::mapped || made == Made::opened_copied) {
        Corpus(scene_.corpus.points(), corpus_options(way, false)).save(path_);
        const Way opener = random_way(rng_);
        const Switches others(opener);
        vicinal::OpenOptions options;
        options.copy = made == Made::opened_copied;
        options.run = opener.run;
        corpus.emplace(Corpus::open(path_, options));
      }
    } catch (const vicinal::Error& error) {
      ADD_FAILURE() << scene_.text() << "; made " << made_name(made) << " " << way.text() << ": " << error.what();
      return false;
    }
    if (corpus) ++seen_.states[corpus->resident() ? "resident" : "not resident"];
    ++seen_.states[made_name(made)];
    return true;
  }

  vicinal::KnnOptions options_of(const Way& way) {
    vicinal::KnnOptions options = scene_.options;
    options.run = way.run;
    if (rng_.chance(0.1)) options.proof = vicinal::Proof::exhaustive;
    if (rng_.chance(0.15)) options.memory.host = rng_.log_between(std::int64_t{1} << 20, std::int64_t{1} << 25);
    return options;
  }

  /// "" for the answer or the error that the oracle gives. A budget that is too small is refused, which is no answer.
  template <class Call>
  std::string outcome(const vicinal::KnnOptions& options, const std::optional<vicinal::ErrorCode>& error,
                      const Call& call) {
    try {
      return call();
    } catch (const vicinal::Error& thrown) {
      if (error == thrown.code()) return ++seen_.states["error"], "";
      if (thrown.code() == vicinal::ErrorCode::memory_budget && options.memory.host > 0)
        return ++seen_.refused_budgets, "";
      return std::string("threw ") + vicinal::error_name(thrown.code()) + ": " + thrown.what();
    }
  }

  std::string compare(const Neighbors& got) {
    if (want_.error) return std::string("answered, want ") + vicinal::error_name(*want_.error);
    for (const std::string& precision : got.certificate.precisions) ++seen_.states[precision];
    return difference(got, want_);
  }

  std::string search(const Corpus& corpus, const Way& way) {
    const Switches switches(way);
    const vicinal::KnnOptions options = options_of(way);
    return outcome(options, want_.error, [&] { return compare(corpus.knn(scene_.queries.points(), options)); });
  }

  std::string search_at_once(const Way& way) {
    const Switches switches(way);
    const vicinal::KnnOptions options = options_of(way);
    const double kind = rng_.uniform();
    if (kind < 0.5 || scene_.queries.n == 0 || want_.error)
      return outcome(options, want_.error,
                     [&] { return compare(vicinal::knn(scene_.corpus.points(), scene_.queries.points(), options)); });
    return kind < 0.75 ? range(options) : graph(options);
  }

  /// Within the distance of some answer's last row.
  std::string range(const vicinal::KnnOptions& options) {
    ++seen_.states["range"];
    const std::int64_t at = rng_.between(0, want_.rows * want_.k - 1);
    const double radius = want_.keys[static_cast<std::size_t>(at)];
    if (scene_.ask.type == DistanceType::automatic && std::isinf(radius)) return "";
    const oracle::Lists lists = oracle::range(scene_.corpus.rows(), scene_.queries.rows(), radius, scene_.ask);
    return outcome(options, lists.error, [&] {
      return difference(
          vicinal::range_search(scene_.corpus.points(), scene_.queries.points(), radius, {.search = options}), lists);
    });
  }

  /// Of the queries, or of the first rows of the corpus.
  std::string graph(vicinal::KnnOptions options) {
    ++seen_.states["graph"];
    const Table& all = scene_.corpus;
    const vicinal::Points rows = all.points().slice(0, std::min<std::int64_t>(all.n, 120));
    oracle::Rows same = all.rows();
    same.n = rows.rows;
    same.value.resize(static_cast<std::size_t>(rows.rows * all.d));
    options.eligible = {};
    options.first_id = 0;
    options.pad = true;
    oracle::SearchSpec ask = scene_.ask;
    ask.eligible = {};
    ask.first_id = 0;
    ask.pad = true;
    const bool itself = rng_.chance(0.3), symmetry = rng_.chance(0.5);
    const oracle::Answer lists = oracle::graph(same, ask, itself);
    return outcome(options, lists.error, [&] {
      vicinal::GraphOptions graph;
      graph.search = options;
      graph.include_self = itself;
      graph.symmetry = symmetry;
      return difference(vicinal::knn_graph(rows, graph), lists);
    });
  }

  Rng rng_;
  Seen& seen_;
  const std::string& path_;
  Scene scene_;
  oracle::Answer want_;
};

TEST(States, EveryPairOfThemAnswersAlike) {
  std::string folder = (std::filesystem::temp_directory_path() / "vicinal-states-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a.vicinal";
  Seen seen;
  const std::uint64_t seed = seed_or(2106);
  const std::int64_t scenes = std::max<std::int64_t>(20, (scaled(all_pairs) + pairs_a_scene - 1) / pairs_a_scene);
  for (std::int64_t scene = 0; scene < scenes; ++scene) {
    SCOPED_TRACE("VICINAL_TEST_SEED=" + std::to_string(seed) + " scene " + std::to_string(scene));
    States(seed * 1000003 + static_cast<std::uint64_t>(scene), seen, path).run();
    if (seen.wrong > 20) break;
  }
  std::filesystem::remove_all(folder);
  std::printf("%lld pairs of states, %lld wrong, %lld budgets refused\n", static_cast<long long>(seen.pairs),
              static_cast<long long>(seen.wrong), static_cast<long long>(seen.refused_budgets));
  EXPECT_GT(seen.pairs, scenes * pairs_a_scene * 9 / 10);
  EXPECT_LT(seen.refused_budgets, seen.pairs / 10);
  for (const char* state : {"resident", "not resident", "at once", "kept", "kept, copied", "saved, mapped",
                            "saved, opened by copy", "error", "range", "graph", "int8", "f32", "canonical"})
    EXPECT_GT(seen.states[state], 0) << state;
}

/// A corpus of so few columns that a tree serves it, made for each filter, searched by each.
TEST(States, FewColumnsMadeForAFilterAndSearchedByAnother) {
  Rng rng(7);
  std::vector<std::string> names = filters();
  names.insert(names.end(), {"rotated", "projected", "auto"});
  for (const std::int64_t dims : {1, 3, 8}) {
    const Table corpus = gaussian(rng, DType::f32, 2000, dims), queries = gaussian(rng, DType::f32, 20, dims);
    for (const Metric metric : {Metric::euclidean, Metric::l1, Metric::linf}) {
      vicinal::KnnOptions options;
      options.metric = metric;
      options.k = 5;
      const oracle::Answer want = oracle::knn(corpus.rows(), queries.rows(), spec(options));
      for (const std::string& made : names)
        for (const bool by_variable : {false, true}) {
          const Way maker{"", by_variable ? made : "", {.filter = by_variable ? "auto" : made}};
          std::optional<Corpus> kept;
          {
            const Switches switches(maker);
            kept.emplace(corpus.points(), vicinal::CorpusOptions{.metric = metric, .run = maker.run});
          }
          ASSERT_TRUE(kept->resident());
          for (const std::string& searched : names) {
            options.run.filter = searched;
            EXPECT_EQ(difference(kept->knn(queries.points(), options), want), "")
                << metric_name(metric) << " d=" << dims << " made for " << made << ", searched by " << searched;
          }
        }
    }
  }
}

}  // namespace
}  // namespace conformance
