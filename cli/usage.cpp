// Messages for a command line that cannot be parsed. CLI11 reports a missing argument before an unknown option;
// the unknown one is nearly always the cause (a misspelt name leaves its value behind), so it is named first.
#include "usage.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "tree.hpp"

namespace cli {
namespace {

using vicinal::Error;
using vicinal::ErrorCode;

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  const auto closer = [&](const std::string& a, const std::string& b) {
    return edit_distance(name, a) < edit_distance(name, b);
  };
  return *std::min_element(known.begin(), known.end(), closer);
}

std::string joined(const std::vector<std::string>& words) { return CLI::detail::join(words, ", "); }

/// The deepest command that was recognised.
const CLI::App* parsed_command(const CLI::App& root) {
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    if (app->parsed()) return app;
  }
  return nullptr;
}

std::vector<std::string> command_names(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CommandNode& command : read_commands(root)) names.push_back(command.name);
  return names;
}

Error usage(const std::string& text) { return Error(ErrorCode::invalid_argument, text); }

Error unknown_option(const CLI::App& app, const std::string& given, const std::string& help) {
  std::vector<std::string> known;
  for (const OptionNode& option : read_node(app).options) {
    if (!option.positional) known.insert(known.end(), option.names.begin(), option.names.end());
  }
  const std::string name = given.substr(0, given.find('='));
  return usage("unknown option " + name + "; did you mean " + nearest(name, known) + "? " + help + " lists all");
}

/// CLI11 says only how many values it wanted.
Error wrong_count(const CLI::ArgumentMismatch& error, const std::string& help) {
  const std::string text = error.what(), name = text.substr(0, text.find(':'));
  const bool missing = text.find("missing") != std::string::npos;
  return usage(name + (missing ? " needs a value" : " was given more than once") + "; see " + help);
}

template <class T>
auto reader(const std::string& names, const std::string& kind, T& target) {
  return [&target, kind, name = names.substr(names.rfind(',') + 1)](const std::string& text) {
    const char* const end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, target);
    if (fault == std::errc::result_out_of_range) throw usage(name + " does not fit 64 bits, got " + text);
    if (fault != std::errc{} || rest != end) throw usage(name + " must be " + kind + ", got " + text);
  };
}

}  // namespace

Error no_command(const CLI::App& root) {
  return usage("no command given; commands: " + joined(command_names(root)) + "; see vicinal --help");
}

Error usage_error(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* command = parsed_command(root);
  const CLI::App& app = command != nullptr ? *command : root;
  const std::string help = command != nullptr ? "vicinal " + app.get_name() + " --help" : "vicinal --help";
  const std::vector<std::string> left = app.remaining();
  for (const std::string& word : left) {
    if (word.size() > 1 && word[0] == '-') return unknown_option(app, word, help);
  }
  if (command == nullptr && !left.empty()) {
    const std::vector<std::string> names = command_names(root);
    return usage("unknown command " + left[0] + "; did you mean " + nearest(left[0], names) +
                 "? commands: " + joined(names));
  }
  if (!left.empty()) return usage("unexpected argument " + left[0] + "; see " + help);
  if (const auto* count = dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return wrong_count(*count, help);
  return usage(std::string(error.what()) + "; see " + help);
}

CLI::Option* add_integer(CLI::App& app, const std::string& names, std::int64_t& target,
                         const std::string& description) {
  return app.add_option_function<std::string>(names, reader(names, "an integer", target), description);
}

CLI::Option* add_number(CLI::App& app, const std::string& names, double& target, const std::string& description) {
  return app.add_option_function<std::string>(names, reader(names, "a number", target), description);
}

}  // namespace cli
