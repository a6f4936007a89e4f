// The tree of commands as plain data, read from the parser (app.hpp). Completion scripts, the man page and the
// suggestions for misspelt options are all made from this, so they cannot disagree with the parser.
#pragma once
#include <string>
#include <vector>

namespace cli {

struct OptionNode {
  std::vector<std::string> names;  // "-o", "--output"; a positional has its one name without dashes
  std::string value;               // "PATH", "auto|cpu"; empty for a flag
  std::string description;
  bool positional = false;
  bool required = false;
};

struct CommandNode {
  std::string name;
  std::string description;
  std::string footer;               // examples
  std::vector<OptionNode> options;  // positionals first
};

/// What the shell should offer for a value.
struct ValueHint {
  bool files = false;
  bool folders = false;
  std::vector<std::string> words;
};
ValueHint value_hint(const OptionNode& option);

}  // namespace cli
