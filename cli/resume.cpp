// See resume.hpp.
#include "resume.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "text.hpp"
#include "vicinal/error.hpp"
#include "vicinal/io.hpp"
#include "vicinal/resume.hpp"

namespace cli {

void add_resume(App& app, std::string& directory) {
  app.add_text("--resume", directory, "save finished pieces here, and go on from those that are there")
      .type_name("DIR");
}

void check_resume(const std::string& directory, const OutputFlags& output) {
  if (output.path.empty() && !directory.empty()) refuse("--resume DIR needs -o PATH for the result");
  refuse_as_folder(directory, output.path);
}

void refuse_as_folder(const std::string& directory, const std::string& written) {
  if (!directory.empty() && !written.empty() && vicinal::same_file(directory, written))
    refuse(fmt::format("--resume {} is a folder for pieces, and {} is to be written; give the folder another name",
                       directory, written));
}

void begin_resume(const std::string& directory, const Side& corpus, Context& context) {
  if (directory.empty()) return;
  if (corpus.strings)
    throw vicinal::Error(vicinal::ErrorCode::unsupported,
                         "--resume keeps pieces of searches of vectors; search strings without it");
  context.interrupt.explain([directory, command = context.command_line] {
    const vicinal::SavedPieces saved = vicinal::saved_pieces(directory);
    if (saved.pairs <= 0 || saved.all_pairs <= 0) return std::string("nothing is saved yet");
    const double share = std::min(1.0, static_cast<double>(saved.pairs) / static_cast<double>(saved.all_pairs));
    return fmt::format("{} of the pairs are saved in {}; to go on: {}", percent_text(share), quoted_word(directory),
                       command);
  });
}

}  // namespace cli
