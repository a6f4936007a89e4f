// Faults in the command line itself, as InvalidArgument with the nearest known name.
#pragma once
#include <string>
#include <vector>

#include "tree.hpp"
#include "vicinal/error.hpp"

namespace cli {

/// What the parser says of a line that it cannot take.
struct Mistake {
  std::string text;
  bool wrong_count = false;       // an option has too many values, or none
  CommandNode command;            // that was recognised; the whole where none was
  bool in_command = false;        // one was
  std::vector<std::string> left;  // words that nothing took
};

/// Throws InvalidArgument.
[[noreturn]] void refuse(const std::string& text);
vicinal::Error usage_error(const std::vector<CommandNode>& commands, const Mistake& mistake);
vicinal::Error unknown_command(const std::vector<CommandNode>& commands, const std::string& name);
vicinal::Error no_command(const std::vector<CommandNode>& commands);

}  // namespace cli
