// `vicinal bench`: our speed on this machine in one screen, on data made here. Beside other libraries: bench/run.py.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>

#include "command.hpp"
#include "output.hpp"
#include "report.hpp"
#include "text.hpp"
#include "vicinal/corpus.hpp"
#include "vicinal/search.hpp"

namespace cli {
namespace {

constexpr const char* examples =
    "Normal random rows in f32. Every time is the median of --repeat runs: one call with the corpus prepared inside "
    "it, and\n"
    "a search of a corpus prepared before. Work is 2 operations a column and pair, a graph counted as all pairs.\n\n"
    "Examples:\n"
    "  vicinal bench\n"
    "  vicinal bench --threads 1 --metric cosine --json";

struct Flags {
  SearchFlags search;
  std::int64_t repeat = 3;
  bool json = false;
};

enum class Kind { knn, graph, range };
struct Case {
  Kind kind;
  std::int64_t rows, cols, queries, k;
};
constexpr Case cases[] = {{Kind::knn, 100000, 128, 1000, 10}, {Kind::knn, 100000, 128, 1000, 100},
                          {Kind::knn, 10000, 784, 2000, 15},  {Kind::knn, 100000, 16, 1000, 15},
                          {Kind::knn, 200000, 128, 1, 10},    {Kind::graph, 10000, 128, 10000, 15},
                          {Kind::range, 50000, 64, 1000, 100}};

struct Line {
  std::string what;
  double once = 0, prepared = 0, operations = 0;  // seconds; prepared: 0 where there is no such call
  std::int64_t pairs = 0;
};

std::vector<float> normal_rows(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (float& value : values) value = normal(random);
  return values;
}

template <class Run>
double median_seconds(std::int64_t repeat, const Run& run) {
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    seconds.push_back(seconds_since(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

Line measure(const Case& shape, const vicinal::KnnOptions& base, std::int64_t repeat) {
  const std::vector<float> corpus = normal_rows(shape.rows, shape.cols, 1),
                           queries = normal_rows(shape.queries, shape.cols, 2);
  const vicinal::MatrixView<float> rows{corpus.data(), shape.rows, shape.cols},
      asked{queries.data(), shape.queries, shape.cols};
  vicinal::KnnOptions options = base;
  options.k = shape.k;
  Line line;
  line.pairs = shape.rows * shape.queries;
  const std::string size = fmt::format("{} x {}", count_text(shape.rows), shape.cols);
  if (shape.kind == Kind::graph) {
    const vicinal::GraphOptions graph{.search = options};
    line.what = fmt::format("graph {}, k={}", size, shape.k);
    line.once = median_seconds(repeat, [&] { vicinal::knn_graph(rows, graph); });
  } else if (shape.kind == Kind::range) {
    const vicinal::Neighbors some =
        vicinal::knn(rows, vicinal::MatrixView<float>{queries.data(), 1, shape.cols}, options);
    const double radius = some.distance(0, shape.k - 1);
    line.what = fmt::format("range {}, {}, about {} each", size, plural(shape.queries, "query"), shape.k);
    line.once = median_seconds(repeat, [&] { vicinal::range_search(rows, asked, radius, {.search = options}); });
  } else {
    line.what = fmt::format("knn {}, {}, k={}", size, plural(shape.queries, "query"), shape.k);
    line.once = median_seconds(repeat, [&] { vicinal::knn(rows, asked, options); });
    const vicinal::Corpus prepared(rows, {.metric = base.metric, .memory = base.memory, .run = base.run});
    line.prepared = median_seconds(repeat, [&] { prepared.knn(asked, options); });
  }
  line.operations = 2.0 * static_cast<double>(line.pairs) * static_cast<double>(shape.cols) / line.once;
  return line;
}

int run_bench(Flags& flags, Context& context) {
  if (flags.repeat < 1) refuse(fmt::format("--repeat must be >= 1, got {}", flags.repeat));
  vicinal::KnnOptions options = search_options(flags.search);
  options.stop = context.interrupt.token();
  std::vector<Line> lines;
  vicinal::Plan plan;
  {
    const Interrupt::Section section(context.interrupt);
    plan = vicinal::plan({1000, 16}, {10, 16}, options);
    for (const Case& shape : cases) lines.push_back(measure(shape, options, flags.repeat));
  }
  context.interrupt.check();
  if (flags.json) {
    Json object = json_head("bench");
    object["metric"] = metric_name(flags.search.metric);
    object["instruction_set"] = plan.instruction_set;
    object["threads"] = plan.threads;
    object["cases"] = Json::array();
    for (const Line& line : lines)
      object["cases"].push_back({{"what", line.what},
                                 {"seconds", line.once},
                                 {"prepared_seconds", line.prepared > 0 ? Json(line.prepared) : Json()},
                                 {"pairs", line.pairs},
                                 {"operations_per_second", line.operations}});
    print_json(object);
    return 0;
  }
  std::vector<std::vector<std::string>> table = {{"search", "one call", "prepared", "pairs/s", "Gflop/s"}};
  for (const Line& line : lines)
    table.push_back({line.what, seconds_text(line.once), line.prepared > 0 ? seconds_text(line.prepared) : "-",
                     fmt::format("{:.3g}", static_cast<double>(line.pairs) / line.once),
                     fmt::format("{:.0f}", line.operations / 1e9)});
  print(table_text(table) + fmt::format("\n{}, f32, {}, {}; medians of {}\n", metric_name(flags.search.metric),
                                        plan.instruction_set, plural(plan.threads, "thread"), flags.repeat));
  return 0;
}

}  // namespace

Command register_bench(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("bench", "Our speed on this machine, in one screen");
  app.add_text("--metric", flags->search.metric, "distance (default euclidean)").type_name("METRIC");
  add_execution(app, flags->search);
  app.add_integer("--repeat", flags->repeat, "runs of each case (default 3)").type_name("N");
  add_json(app, flags->json);
  app.footer(examples);
  return {app, [flags](Context& context) { return run_bench(*flags, context); }};
}

}  // namespace cli
