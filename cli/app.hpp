// The parser's face: a command and its options, as CLI11 keeps them. CLI11 is a matter of templates, ten seconds a file
// that includes it; app.cpp is the only one.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tree.hpp"
#include "usage.hpp"

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
  friend class App;
  CLI::Option* option_;
};

/// The files that a command line names, each with the option or positional that named it.
struct NamedFile {
  std::string option, path;
};
struct NamedFiles {
  std::vector<NamedFile> read, written;
};

/// The command, or one of its subcommands. Copies mean the same one.
class App {
 public:
  App(const std::string& name, const std::string& description, std::function<std::string()> version);
  App add_subcommand(const std::string& name, const std::string& description);

  /// names: "-o,--output", or "CORPUS" for a positional. The target is written when the line is parsed.
  /// An empty value of any option is refused: it comes from a variable that is not set, and would look like an option
  /// left out.
  Option add_text(const std::string& names, std::string& target, const std::string& description);
  /// A file that the command reads, several of them, or one that it writes: every file of the command line is one of
  /// these.
  Option add_read_file(const std::string& names, std::string& target, const std::string& description);
  Option add_read_files(const std::string& names, std::vector<std::string>& target, const std::string& description);
  Option add_written_file(const std::string& names, std::string& target, const std::string& description);
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
  /// What `--help` of the whole prints, or that of a subcommand. Throws for a name that is none.
  std::string help(const std::string& command = "") const;
  /// The files that the parsed line names.
  NamedFiles files() const;
  CommandNode node() const;
  std::vector<CommandNode> commands() const;

 private:
  struct FileOption {
    CLI::Option* option;
    bool written;
  };
  App(std::shared_ptr<CLI::App> app, std::shared_ptr<std::vector<FileOption>> files)
      : app_(std::move(app)), files_(std::move(files)) {}
  Option file(const Option& option, bool written);
  std::shared_ptr<CLI::App> app_;
  std::shared_ptr<std::vector<FileOption>> files_;  // of the whole command
};

}  // namespace cli
