// The parser's face: a command and its options, as CLI11 keeps them. CLI11 is a matter of templates, ten seconds a file that
// includes it; app.cpp is the only one.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tree.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cli {

/// An option of an App, which lives as long as that does.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option required() const;
  /// What help calls the value: "FILE", or the words that it may be, "auto|cpu".
  Option type_name(const std::string& name) const;
  bool given() const;

 private:
  CLI::Option* option_;
};

/// The command, or one of its subcommands. Copies mean the same one.
class App {
 public:
  App(const std::string& name, const std::string& description, std::function<std::string()> version);
  App add_subcommand(const std::string& name, const std::string& description);

  /// names: "-o,--output", or "CORPUS" for a positional. The target is written when the line is parsed.
  Option add_text(const std::string& names, std::string& target, const std::string& description);
  Option add_texts(const std::string& names, std::vector<std::string>& target, const std::string& description);
  Option add_flag(const std::string& names, bool& target, const std::string& description);
  /// Text that is checked here, so that the message is ours: "-k must be an integer, got 2.5". Any value that fits
  /// 64 bits is let through; what it means is judged by the library.
  Option add_integer(const std::string& names, std::int64_t& target, const std::string& description);
  Option add_number(const std::string& names, double& target, const std::string& description);
  /// Paragraphs after the options: more words, and examples.
  void footer(const std::string& text);

  /// What was asked for instead of a command, help or the version. Throws a fault in the line as usage.hpp words it.
  std::optional<std::string> parse(int argc, char** argv);
  /// Was this subcommand named?
  bool parsed() const;
  CommandNode node() const;
  std::vector<CommandNode> commands() const;

 private:
  explicit App(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}
  std::shared_ptr<CLI::App> app_;
};

}  // namespace cli
