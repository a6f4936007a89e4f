// The command `vicinal`: builds the tree of subcommands, runs one, and turns every failure into one line on
// stderr and an exit status (docs/semantics.md, "Bad input"). Nothing below this file exits or writes to stderr
// except the progress bar, notes on what was read, an interrupt and a file that was cut.
#include <csignal>
#include <new>
#include <optional>
#include <vector>

#include "command.hpp"
#include "cut_file.hpp"
#include "files.hpp"
#include "output.hpp"
#include "text.hpp"
#include "vicinal/device.hpp"
#include "vicinal/error.hpp"

namespace {

using cli::Command;
using vicinal::ErrorCode;

constexpr const char* examples =
    "Examples:\n"
    "  vicinal knn corpus.npy queries.npy -k 10 -o out.npz\n"
    "  vicinal verify corpus.npy queries.npy out.npz\n"
    "  vicinal knn --help";

std::string version_text() {
  const vicinal::Info info = vicinal::info();
  return "vicinal " + info.version + " (semantics " + std::to_string(info.semantics_version) + ")";
}

std::vector<Command> register_commands(cli::App& root) {
  return {
      cli::register_knn(root),         //
      cli::register_graph(root),       //
      cli::register_range(root),       //
      cli::register_truth(root),       //
      cli::register_select(root),      //
      cli::register_index(root),       //
      cli::register_verify(root),      //
      cli::register_convert(root),     //
      cli::register_recall(root),      //
      cli::register_merge(root),       //
      cli::register_match(root),       //
      cli::register_info(root),        //
      cli::register_bench(root),       //
      cli::register_demo(root),        //
      cli::register_completion(root),  //
      cli::register_man(root),         //
      cli::register_help(root),        //
  };
}

int exit_status(ErrorCode code, const cli::Interrupt& interrupt) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported: return 2;
    case ErrorCode::invalid_value:
    case ErrorCode::range_error:
    case ErrorCode::format_error:
    case ErrorCode::version_error: return 3;
    case ErrorCode::io_error: return 4;
    case ErrorCode::memory_budget:
    case ErrorCode::out_of_memory:
    case ErrorCode::capacity_exceeded: return 5;
    case ErrorCode::device_error: return 6;
    case ErrorCode::cancelled: return interrupt.exit_status();
    case ErrorCode::internal: return 7;
  }
  return 7;
}

int report(ErrorCode code, std::string_view text, const cli::Interrupt& interrupt) {
  cli::print_error(vicinal::error_name(code), code == ErrorCode::cancelled ? interrupt.what() : std::string(text));
  return exit_status(code, interrupt);
}

std::string command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i == 0 ? "" : " ") + cli::quoted_word(argv[i]);
  return line;
}

int run(int argc, char** argv, cli::Interrupt& interrupt) {
  cli::App root("vicinal", "Exact k nearest neighbours, certified: equal bits on every machine.", version_text);
  root.footer(examples);
  const std::vector<Command> commands = register_commands(root);
  if (const std::optional<std::string> asked = root.parse(argc, argv)) {
    cli::print(*asked);
    return 0;
  }
  cli::refuse_to_replace(root.files());
  for (const Command& command : commands) {
    if (!command.app.parsed()) continue;
    cli::Context context{interrupt, root, command_line(argc, argv)};
    return command.run(context);
  }
  throw cli::no_command(root.commands());
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is seen as EPIPE by print()
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the quota is a failed write, and so an IoError
  cli::watch_for_cut_files();
  cli::Interrupt& interrupt = cli::Interrupt::install();
  try {
    return run(argc, argv, interrupt);
  } catch (const vicinal::Error& error) {
    return report(error.code(), error.what(), interrupt);
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::out_of_memory, "the machine refused memory; --memory SIZE plans for less", interrupt);
  } catch (const std::exception& error) {
    return report(ErrorCode::internal, error.what(), interrupt);
  }
}
