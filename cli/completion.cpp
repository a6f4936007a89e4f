// `vicinal completion bash|zsh|fish`: scripts made from the tree of commands, one writer a shell.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "output.hpp"
#include "text.hpp"

namespace cli {
namespace {

std::string replaced(std::string text, const std::string& characters) {
  for (std::size_t at = 0; (at = text.find_first_of(characters, at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::vector<std::string> names_of(const std::vector<CommandNode>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandNode& command : commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> flags_of(const CommandNode& command) {
  std::vector<std::string> flags;
  for (const OptionNode& option : command.options) {
    if (!option.positional) flags.insert(flags.end(), option.names.begin(), option.names.end());
  }
  return flags;
}

/// Words that the positionals of a command may be; files where there are none.
std::vector<std::string> positional_words(const CommandNode& command) {
  std::vector<std::string> words;
  for (const OptionNode& option : command.options) {
    if (!option.positional) continue;
    const ValueHint hint = value_hint(option);
    words.insert(words.end(), hint.words.begin(), hint.words.end());
  }
  return words;
}

bool takes_files(const CommandNode& command) {
  for (const OptionNode& option : command.options) {
    if (option.positional && value_hint(option).files) return true;
  }
  return false;
}

// bash -------------------------------------------------------------------------------------------------

std::string bash_value_case(const CommandNode& command, const OptionNode& option) {
  const ValueHint hint = value_hint(option);
  std::string patterns;
  for (const std::string& name : option.names) patterns += (patterns.empty() ? "" : "|") + command.name + ":" + name;
  std::string action = ":";  // a number or a size: nothing to offer
  if (hint.files) action = "compopt -o default";
  if (hint.folders) action = "mapfile -t COMPREPLY < <(compgen -d -- \"$current\")";
  if (!hint.words.empty()) {
    action = fmt::format("mapfile -t COMPREPLY < <(compgen -W {} -- \"$current\")",
                         quoted(fmt::format("{}", fmt::join(hint.words, " "))));
  }
  return fmt::format("    {}) {}; return ;;\n", patterns, action);
}

std::string bash_script(const CommandNode& top, const std::vector<CommandNode>& commands) {
  std::string values, words;
  for (const CommandNode& command : commands) {
    for (const OptionNode& option : command.options) {
      if (!option.positional && !option.value.empty()) values += bash_value_case(command, option);
    }
    std::vector<std::string> plain = positional_words(command);
    words += fmt::format("    {}) flags={}; words={}; files={} ;;\n", command.name,
                         quoted(fmt::format("{}", fmt::join(flags_of(command), " "))),
                         quoted(fmt::format("{}", fmt::join(plain, " "))), takes_files(command) ? "yes" : "''");
  }
  return fmt::format(R"(# bash completion for vicinal; source it, or save it as
# ~/.local/share/bash-completion/completions/vicinal
_vicinal() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
  local flags words files
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W {0} -- "$current")
    return
  fi
  case "$command:$previous" in
{1}  esac
  case "$command" in
{2}    *) return ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  elif [ -n "$words" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  elif [ -n "$files" ]; then
    compopt -o default
  fi
}}
complete -F _vicinal vicinal
)",
                     quoted(fmt::format("{} {}", fmt::join(names_of(commands), " "), fmt::join(flags_of(top), " "))),
                     values, words);
}

// zsh --------------------------------------------------------------------------------------------------

std::string zsh_action(const OptionNode& option) {
  const ValueHint hint = value_hint(option);
  if (hint.files) return "_files";
  if (hint.folders) return "_files -/";
  if (!hint.words.empty()) return fmt::format("({})", fmt::join(hint.words, " "));
  return " ";
}

std::string zsh_spec(const OptionNode& option) {
  const std::string what = replaced(option.description, "[]:");
  const std::string value = option.value.empty() ? "" : ":" + replaced(option.value, ":") + ":" + zsh_action(option);
  if (option.positional) return quoted(":" + option.names.front() + ":" + zsh_action(option));
  if (option.names.size() == 1) return quoted(option.names.front() + "[" + what + "]" + value);
  const std::string all = fmt::format("{}", fmt::join(option.names, " "));
  return fmt::format("{}{{{}}}{}", quoted("(" + all + ")"), fmt::join(option.names, ","),
                     quoted("[" + what + "]" + value));
}

std::string zsh_script(const CommandNode& top, const std::vector<CommandNode>& commands) {
  std::string described, cases, global;
  for (const OptionNode& option : top.options) global += " " + zsh_spec(option);
  for (const CommandNode& command : commands) {
    described += "    " + quoted(command.name + ":" + replaced(command.description, ":")) + "\n";
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const OptionNode& option : command.options) cases += " \\\n        " + zsh_spec(option);
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef vicinal
# zsh completion for vicinal; save it as _vicinal in a folder of $fpath
_vicinal() {{
  local -a commands
  commands=(
{0}  )
  if (( CURRENT == 2 )); then
    _arguments{1}
    _describe 'command' commands
    return
  fi
  local command=$words[2]
  words=("${{(@)words[2,-1]}}")
  (( CURRENT-- ))
  case $command in
{2}  esac
}}
if [ "$funcstack[1]" = "_vicinal" ]; then _vicinal "$@"; else compdef _vicinal vicinal; fi
)",
                     described, global, cases);
}

// fish -------------------------------------------------------------------------------------------------

std::string fish_option(const std::string& condition, const OptionNode& option) {
  const ValueHint hint = value_hint(option);
  std::string line = "complete -c vicinal -n " + quoted(condition);
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (hint.files) line += " -r -F";
  else if (!option.value.empty()) line += " -x";
  if (hint.folders) line += " -a '(__fish_complete_directories)'";
  if (!hint.words.empty()) line += " -a " + quoted(fmt::format("{}", fmt::join(hint.words, " ")));
  return line + " -d " + quoted(option.description) + "\n";
}

std::string fish_script(const CommandNode& top, const std::vector<CommandNode>& commands) {
  std::string text =
      "# fish completion for vicinal; save it as ~/.config/fish/completions/vicinal.fish\n"
      "complete -c vicinal -f\n";
  for (const OptionNode& option : top.options) text += fish_option("__fish_use_subcommand", option);
  for (const CommandNode& command : commands) {
    const std::string here = "__fish_seen_subcommand_from " + command.name;
    text += fmt::format("complete -c vicinal -n '__fish_use_subcommand' -a {} -d {}\n", command.name,
                        quoted(command.description));
    for (const OptionNode& option : command.options) {
      if (!option.positional) text += fish_option(here, option);
    }
    const std::vector<std::string> words = positional_words(command);
    if (takes_files(command)) text += "complete -c vicinal -n " + quoted(here) + " -F\n";
    if (!words.empty()) {
      text += fmt::format("complete -c vicinal -n {} -a {}\n", quoted(here),
                          quoted(fmt::format("{}", fmt::join(words, " "))));
    }
  }
  return text;
}

std::string script(const std::string& shell, const App& root) {
  const CommandNode top = root.node();
  const std::vector<CommandNode> commands = root.commands();
  if (shell == "bash") return bash_script(top, commands);
  if (shell == "zsh") return zsh_script(top, commands);
  if (shell == "fish") return fish_script(top, commands);
  refuse("unknown shell " + shell + "; shells: bash, zsh, fish");
}

}  // namespace

Command register_completion(App& root) {
  auto shell = std::make_shared<std::string>();
  App app = root.add_subcommand("completion", "Print a completion script for a shell");
  app.add_text("SHELL", *shell, "the shell").required().type_name("bash|zsh|fish");
  app.footer("Example:\n  source <(vicinal completion bash)");
  return {app, [shell](Context& context) {
            print(script(*shell, context.root));
            return 0;
          }};
}

}  // namespace cli
