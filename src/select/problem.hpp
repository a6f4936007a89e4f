// What the catalogue of algorithms says of a name.
#pragma once
#include <string>
#include <string_view>

#include "backend/select.hpp"

namespace vicinal {

/// Throws InvalidArgument for a name that is not in the catalogue, naming the nearest and listing all.
void check_select_algorithm(const std::string& name);
/// Whether the catalogue has `name` for `device` ("cpu", "cuda").
bool select_runs_on(const std::string& name, std::string_view device);

}  // namespace vicinal
