// What one subcommand is: its place in the tree of options and the function that does it. A new command is
// one file that defines register_NAME, one declaration here and one line in main.cpp; help, completion and
// the man page follow from the tree.
#pragma once
#include <functional>
#include <string>

#include "app.hpp"
#include "interrupt.hpp"

namespace cli {

struct Context {
  Interrupt& interrupt;
  const App& root;
  std::string command_line;  // this one, for a shell
};

struct Command {
  App app;
  std::function<int(Context&)> run;  // returns the exit status; errors are thrown as vicinal::Error
};

Command register_knn(App& root);
Command register_graph(App& root);
Command register_range(App& root);
Command register_truth(App& root);
Command register_select(App& root);
Command register_index(App& root);
Command register_verify(App& root);
Command register_convert(App& root);
Command register_recall(App& root);
Command register_merge(App& root);
Command register_match(App& root);
Command register_info(App& root);
Command register_bench(App& root);
Command register_demo(App& root);
Command register_completion(App& root);
Command register_man(App& root);
Command register_help(App& root);

}  // namespace cli
