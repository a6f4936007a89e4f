// The two streams of the command: text to stdout in one piece at the end, one line to stderr on an error,
// and one for each thing that a user has to know of what was read.
#pragma once
#include <string_view>

namespace cli {

/// All of it, or IoError. A reader that has gone away (EPIPE: `| head`) wanted no more: no error, no word, and false.
bool print(std::string_view text);

/// `vicinal: error [Code]: text`, on one line whatever the text holds.
void print_error(std::string_view code, std::string_view text);
/// `vicinal: note: text` on stderr, the same way.
void print_note(std::string_view text);

}  // namespace cli
