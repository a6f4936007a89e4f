// Faults in the command line itself, as InvalidArgument with the nearest known name.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "vicinal/error.hpp"

namespace cli {

vicinal::Error usage_error(const CLI::App& root, const CLI::ParseError& error);
vicinal::Error no_command(const CLI::App& root);

/// An integer option whose text is checked here, so that the message is ours: "-k must be an integer, got 2.5".
/// Any value that fits 64 bits is let through; what it means is judged by the library.
CLI::Option* add_integer(CLI::App& app, const std::string& names, std::int64_t& target, const std::string& description);
/// The same for a real number.
CLI::Option* add_number(CLI::App& app, const std::string& names, double& target, const std::string& description);

}  // namespace cli
