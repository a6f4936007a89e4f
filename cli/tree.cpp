// CLI11's App to plain nodes.
#include "tree.hpp"

#include <algorithm>

#include "vicinal/metric.hpp"

namespace cli {
namespace {

OptionNode read_option(const CLI::Option& option) {
  OptionNode node;
  node.value = option.get_type_size() == 0 ? "" : option.get_type_name();
  node.description = option.get_description();
  node.positional = option.get_positional();
  node.required = option.get_required();
  if (node.positional) {
    node.names.push_back(option.get_name(true));
    return node;
  }
  for (const std::string& name : option.get_snames()) node.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) node.names.push_back("--" + name);
  return node;
}

}  // namespace

ValueHint value_hint(const OptionNode& option) {
  ValueHint hint;
  hint.files = option.value == "FILE";
  hint.folders = option.value == "DIR";
  if (option.value == "METRIC") {
    for (const vicinal::MetricInfo& metric : vicinal::metrics()) {
      hint.words.emplace_back(metric.name);
      for (const std::string_view alias : metric.aliases) hint.words.emplace_back(alias);
    }
  }
  if (option.value.find('|') != std::string::npos) hint.words = CLI::detail::split(option.value, '|');
  return hint;
}

CommandNode read_node(const CLI::App& app) {
  CommandNode node{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) node.options.push_back(read_option(*option));
  std::stable_partition(node.options.begin(), node.options.end(), [](const OptionNode& o) { return o.positional; });
  return node;
}

std::vector<CommandNode> read_commands(const CLI::App& root) {
  std::vector<CommandNode> commands;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(read_node(*app));
  }
  return commands;
}

}  // namespace cli
