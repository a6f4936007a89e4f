// See app.hpp. The tree of commands is read back here as plain data, too (tree.hpp).
#include "app.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

namespace cli {
namespace {

template <class T>
auto reader(const std::string& names, const std::string& kind, T& target) {
  return [&target, kind, name = names.substr(names.rfind(',') + 1)](const std::string& text) {
    const char* const end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, target);
    if (fault == std::errc::result_out_of_range) refuse(name + " does not fit 64 bits, got " + text);
    if (fault != std::errc{} || rest != end) refuse(name + " must be " + kind + ", got " + text);
  };
}

/// Says no to an empty value. Before the parser asks whether all that is required was given.
CLI::Option* not_empty(CLI::Option* option) {
  const std::function<std::string(const std::string&)> fault = [](const std::string& value) {
    return value.empty() ? std::string("the value is empty, perhaps of a variable that is not set") : std::string();
  };
  return option->check(fault, "", "");
}

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

CommandNode read_node(const CLI::App& app) {
  CommandNode node{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) node.options.push_back(read_option(*option));
  std::stable_partition(node.options.begin(), node.options.end(), [](const OptionNode& o) { return o.positional; });
  return node;
}

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

Mistake mistake(const CLI::App& root, const CLI::ParseError& error) {
  Mistake mistake;
  mistake.text = error.what();
  mistake.wrong_count = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  const CLI::App* read = &root;
  for (const CLI::App* app : subcommands(root)) {
    if (!app->parsed()) continue;
    mistake.in_command = true;
    read = app;
    break;
  }
  mistake.command = read_node(*read);
  mistake.left = read->remaining();
  return mistake;
}

}  // namespace

Option Option::required() const { return Option(option_->required()); }
Option Option::type_name(const std::string& name) const { return Option(option_->type_name(name)); }
bool Option::given() const { return option_->count() > 0; }

App::App(const std::string& name, const std::string& description, std::function<std::string()> version)
    : app_(std::make_shared<CLI::App>(description, name)), files_(std::make_shared<std::vector<FileOption>>()) {
  app_->set_help_flag("-h,--help", "print this and exit");
  app_->set_version_flag("-V,--version", std::move(version), "print the version and exit");
  app_->require_subcommand(0, 1);  // a word after the first that is a command's name too is a value: a file, say
  app_->get_formatter()->column_width(34);
  app_->get_formatter()->label("REQUIRED", "(required)");
}

App App::add_subcommand(const std::string& name, const std::string& description) {
  return {{app_, app_->add_subcommand(name, description)}, files_};  // lives as long as the whole
}

Option App::add_text(const std::string& names, std::string& target, const std::string& description) {
  return Option(not_empty(app_->add_option(names, target, description)));
}

Option App::file(const Option& option, bool written) {
  files_->push_back({option.option_, written});
  return option.type_name("FILE");
}

Option App::add_read_file(const std::string& names, std::string& target, const std::string& description) {
  return file(add_text(names, target, description), false);
}

Option App::add_read_files(const std::string& names, std::vector<std::string>& target, const std::string& description) {
  return file(Option(not_empty(app_->add_option(names, target, description))), false);
}

Option App::add_written_file(const std::string& names, std::string& target, const std::string& description) {
  return file(add_text(names, target, description), true);
}

Option App::add_flag(const std::string& names, bool& target, const std::string& description) {
  return Option(app_->add_flag(names, target, description));
}

Option App::add_integer(const std::string& names, std::int64_t& target, const std::string& description) {
  return Option(
      not_empty(app_->add_option_function<std::string>(names, reader(names, "an integer", target), description)));
}

Option App::add_number(const std::string& names, double& target, const std::string& description) {
  return Option(
      not_empty(app_->add_option_function<std::string>(names, reader(names, "a number", target), description)));
}

void App::footer(const std::string& text) { app_->footer(text); }

std::optional<std::string> App::parse(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];  // the parser would take the word after --output= for its value
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      refuse(std::string(word.substr(0, word.size() - 1)) +
             ": the value is empty, perhaps of a variable that is not set");
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app_->help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    throw usage_error(commands(), mistake(*app_, error));
  }
  return std::nullopt;
}

bool App::parsed() const { return app_->parsed(); }

std::string App::help(const std::string& command) const {
  // CLI::App::help() of the whole is that of the subcommand that was parsed.
  if (command.empty())
    return app_->get_formatter()->make_help(app_.get(), app_->get_name(), CLI::AppFormatMode::Normal);
  const auto named = [&](const CLI::App* app) { return app->get_name() == command; };
  const std::vector<const CLI::App*> all = subcommands(*app_);
  const auto found = std::find_if(all.begin(), all.end(), named);
  if (found == all.end()) throw unknown_command(commands(), command);
  return (*found)->help(app_->get_name());
}

NamedFiles App::files() const {
  NamedFiles files;
  for (const FileOption& one : *files_)
    for (const std::string& path : one.option->results())
      (one.written ? files.written : files.read).push_back({one.option->get_name(), path});
  return files;
}

CommandNode App::node() const { return read_node(*app_); }

std::vector<CommandNode> App::commands() const {
  std::vector<CommandNode> nodes;
  for (const CLI::App* app : subcommands(*app_)) nodes.push_back(read_node(*app));
  return nodes;
}

}  // namespace cli
