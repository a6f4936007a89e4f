// Groups of options that several commands share, and their way into KnnOptions.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "files.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "vicinal/io.hpp"
#include "vicinal/options.hpp"

namespace cli {

/// Everything that a search over two files may be told.
struct SearchFlags {
  std::string corpus, queries;
  std::string metric = "euclidean";
  std::string device = "auto";
  std::string memory;  // empty: what is free
  std::string distance_type = "auto";
  std::string degenerate = "error";
  std::int64_t threads = 0;
  std::int64_t first_id = 0;
  bool pad = false;
};

/// CORPUS and QUERIES.
void add_inputs(CLI::App& app, SearchFlags& flags);
/// --metric --degenerate --first-id: what the answer is.
void add_meaning(CLI::App& app, SearchFlags& flags);
/// --device --threads --memory: how it is found; never changes a bit of it.
void add_execution(CLI::App& app, SearchFlags& flags);
CLI::Option* add_json(CLI::App& app, bool& json);

/// KnnOptions with names and sizes parsed; progress and stop are those of the run.
vicinal::KnnOptions search_options(const SearchFlags& flags);
void attach(vicinal::KnnOptions& options, Interrupt& interrupt, ProgressBar& bar);

}  // namespace cli
