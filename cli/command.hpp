// What one subcommand is: its place in the tree of options and the function that does it. A new command is
// one file that defines register_NAME, one declaration here and one line in main.cpp; help, completion and
// the man page follow from the tree.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "interrupt.hpp"

namespace cli {

struct Context {
  Interrupt& interrupt;
  const CLI::App& root;
};

struct Command {
  CLI::App* app;
  std::function<int(Context&)> run;  // returns the exit status; errors are thrown as vicinal::Error
};

Command register_knn(CLI::App& root);
Command register_graph(CLI::App& root);
Command register_range(CLI::App& root);
Command register_verify(CLI::App& root);
Command register_convert(CLI::App& root);
Command register_recall(CLI::App& root);
Command register_merge(CLI::App& root);
Command register_info(CLI::App& root);
Command register_bench(CLI::App& root);
Command register_demo(CLI::App& root);
Command register_completion(CLI::App& root);
Command register_man(CLI::App& root);

}  // namespace cli
