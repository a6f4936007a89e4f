// --resume DIR of the searches: what is refused, and what Ctrl-C says of the pieces that are saved.
#pragma once
#include <string>

#include "command.hpp"
#include "files.hpp"
#include "report.hpp"

namespace cli {

void add_resume(App& app, std::string& directory);
/// Throws InvalidArgument for --resume without a file for the result.
void check_resume(const std::string& directory, const OutputFlags& output);
/// Throws for a folder of pieces that is a file to be written.
void refuse_as_folder(const std::string& directory, const std::string& written);
/// Throws Unsupported for strings. From here on an interrupt says how much is saved, and the command that goes on.
void begin_resume(const std::string& directory, const Side& corpus, Context& context);

}  // namespace cli
