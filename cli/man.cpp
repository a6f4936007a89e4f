// `vicinal man`: the manual page, in roff, from the tree of commands.
#include <fmt/format.h>

#include "command.hpp"
#include "output.hpp"
#include "vicinal/device.hpp"

namespace cli {
namespace {

/// Text as roff: no escape, no request, no hyphen that a copy would turn into another character.
std::string roff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool line_start = i == 0 || text[i - 1] == '\n';
    if (line_start && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') out += "\\e";
    else if (text[i] == '-') out += "\\-";
    else out += text[i];
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string synopsis(const CommandNode& command) {
  std::string line = bold("vicinal " + command.name);
  bool optional = false;
  for (const OptionNode& option : command.options) {
    if (option.positional) line += " " + italic(option.names.front());
    else if (option.required) line += " " + bold(option.names.front()) + " " + italic(option.value);
    else optional = true;
  }
  return line + (optional ? " [" + italic("options") + "]" : "") + "\n";
}

std::string options_text(const CommandNode& command) {
  std::string text;
  for (const OptionNode& option : command.options) {
    std::string names;
    for (const std::string& name : option.names) {
      names += (names.empty() ? "" : ", ") + (option.positional ? italic(name) : bold(name));
    }
    if (!option.positional && !option.value.empty()) names += " " + italic(option.value);
    text += ".TP\n" + names + "\n" + roff(option.description) + "\n";
  }
  return text;
}

/// A footer is paragraphs; one that begins with "Example" is shown as typed.
std::string footer_text(const std::string& footer) {
  if (footer.empty()) return "";
  const std::size_t examples = footer.find("Example");
  std::string text;
  if (examples > 0) text += ".PP\n" + roff(footer.substr(0, footer.find_last_not_of('\n', examples - 1) + 1)) + "\n";
  if (examples != std::string::npos) text += ".PP\n.nf\n" + roff(footer.substr(examples)) + "\n.fi\n";
  return text;
}

std::string exit_status() {
  const std::pair<const char*, const char*> codes[] = {
      {"0", "success"},
      {"1", "verify found something wrong"},
      {"2", "usage: InvalidArgument, Unsupported"},
      {"3", "data: InvalidValue, RangeError, FormatError, VersionError"},
      {"4", "files: IoError"},
      {"5", "memory: MemoryBudget, OutOfMemory, CapacityExceeded"},
      {"6", "device: DeviceError"},
      {"7", "a defect of vicinal: Internal"},
      {"130, 143", "stopped by SIGINT, SIGTERM"}};
  std::string text = ".SH EXIT STATUS\nOn an error stdout is empty and stderr has one line, " +
                     bold("vicinal: error [Code]: text") + ".\n";
  for (const auto& [code, meaning] : codes) text += std::string(".TP\n") + code + "\n" + meaning + "\n";
  return text;
}

std::string man_page(const App& root) {
  const std::vector<CommandNode> commands = root.commands();
  const CommandNode top = root.node();
  std::string text = fmt::format(".TH VICINAL 1 \"\" \"vicinal {}\" \"User Commands\"\n", vicinal::info().version);
  text += ".SH NAME\nvicinal \\- " + roff(top.description) + "\n.SH SYNOPSIS\n";
  for (const CommandNode& command : commands) text += ".PP\n" + synopsis(command);
  text += ".SH OPTIONS\n" + options_text(top) + ".SH COMMANDS\n";
  for (const CommandNode& command : commands) {
    text += ".SS " + command.name + "\n" + roff(command.description) + ".\n" + options_text(command) +
            footer_text(command.footer);
  }
  text += exit_status();
  return text + ".SH ENVIRONMENT\n.TP\n" + bold("NO_COLOR") + "\nno colour in the progress bar\n" +
         ".SH EXAMPLES\n.nf\n" + roff(top.footer.substr(top.footer.find('\n') + 1)) + "\n.fi\n";
}

}  // namespace

Command register_man(App& root) {
  App app = root.add_subcommand("man", "Print the manual page (roff)");
  app.footer("Example:\n  vicinal man > vicinal.1 && man ./vicinal.1");
  return {app, [](Context& context) {
            print(man_page(context.root));
            return 0;
          }};
}

}  // namespace cli
