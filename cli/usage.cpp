// Messages for a command line that cannot be parsed. The parser reports a missing argument before an unknown option;
// the unknown one is nearly always the cause (a misspelt name leaves its value behind), so it is named first.
#include "usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace cli {
namespace {

using vicinal::Error;

Error usage(const std::string& text) { return Error(vicinal::ErrorCode::invalid_argument, text); }

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

/// Letters alone, so that dashes and case make no name nearer.
std::string letters_of(const std::string& name) {
  std::string letters;
  for (const char c : name)
    if (c != '-' || !letters.empty()) letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

/// "; did you mean X?" where one name is so near that it was probably meant, else nothing: at most a third of the
/// letters are wrong, or what was given is the beginning of one name alone.
std::string suggestion(const std::string& given, const std::vector<std::string>& known) {
  const std::string name = letters_of(given);
  std::size_t least = name.size() < 2 ? 1 : std::max<std::size_t>(2, name.size() / 3 + 1);
  std::string meant;
  std::vector<std::string> longer;
  for (const std::string& one : known) {
    const std::string letters = letters_of(one);
    if (name.size() >= 2 && letters.size() > name.size() && letters.starts_with(name)) longer.push_back(one);
    const std::size_t distance = edit_distance(name, letters);
    if (distance >= least || distance >= letters.size()) continue;
    least = distance;
    meant = one;
  }
  if (meant.empty() && longer.size() == 1) meant = longer[0];
  return meant.empty() ? "" : "; did you mean " + meant + "?";
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

std::vector<std::string> names_of(const std::vector<CommandNode>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandNode& command : commands) names.push_back(command.name);
  return names;
}

Error unknown_option(const CommandNode& command, const std::string& given, const std::string& help) {
  std::vector<std::string> known;
  const std::string name = given.substr(0, given.find('='));
  for (const OptionNode& option : command.options) {
    if (!option.positional) known.insert(known.end(), option.names.begin(), option.names.end());
    else if (letters_of(option.names.front()) == letters_of(name))
      return usage("unknown option " + name + "; " + option.names.front() +
                   " stands without a name before it: " + help + " has the usage");
  }
  const std::string meant = suggestion(name, known);
  return usage("unknown option " + name + (meant.empty() ? "; " : meant + " ") + help + " lists all");
}

/// The parser says only how many values it wanted.
Error wrong_count(const std::string& text, const std::string& help) {
  const std::string name = text.substr(0, text.find(':'));
  const bool missing = text.find("missing") != std::string::npos;
  return usage(name + (missing ? " needs a value" : " was given more than once") + "; see " + help);
}

}  // namespace

void refuse(const std::string& text) { throw usage(text); }

Error unknown_command(const std::vector<CommandNode>& commands, const std::string& name) {
  const std::vector<std::string> names = names_of(commands);
  const std::string meant = suggestion(name, names);
  return usage("unknown command " + name + (meant.empty() ? "; " : meant + " ") + "commands: " + joined(names));
}

Error no_command(const std::vector<CommandNode>& commands) {
  return usage("no command given; commands: " + joined(names_of(commands)) + "; see vicinal --help");
}

Error usage_error(const std::vector<CommandNode>& commands, const Mistake& mistake) {
  const std::string help = mistake.in_command ? "vicinal " + mistake.command.name + " --help" : "vicinal --help";
  const std::vector<std::string>& left = mistake.left;
  // Without a command the options after its name belong to none, and say nothing of what was meant.
  if (!mistake.in_command && !left.empty() && left[0][0] != '-') return unknown_command(commands, left[0]);
  for (const std::string& word : left) {
    if (word.size() > 1 && word[0] == '-') return unknown_option(mistake.command, word, help);
  }
  if (!left.empty()) return usage("unexpected argument " + left[0] + "; see " + help);
  if (mistake.wrong_count) return wrong_count(mistake.text, help);
  return usage(mistake.text + "; see " + help);
}

}  // namespace cli
