// The machine-readable face: one object a run, "schema" first. Within a schema number keys are only added.
#pragma once
#include <string>

#include "files.hpp"
#include "json_value.hpp"
#include "vicinal/device.hpp"
#include "vicinal/io.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/plan.hpp"

namespace cli {

/// {"schema": 1, "command": name}.
Json json_head(const std::string& command);
Json json_of(const vicinal::Matrix& matrix, const std::string& path);
Json json_of(const Side& side, const std::string& path);
Json json_of(const vicinal::Certificate& certificate);
Json json_of(const vicinal::Stats& stats);
Json json_of(const vicinal::Plan& plan);
Json json_of(const vicinal::Device& device);
/// Every member, under its name.
void add_info(Json& object, const vicinal::Info& info);
/// ids and distances into `object`, a list a row; infinite distances (padding) are null.
void add_lists(Json& object, const vicinal::Neighbors& lists);
/// offsets, ids, distances into `object`.
void add_lists(Json& object, const vicinal::CsrNeighbors& lists);

/// Ends with a newline.
void print_json(const Json& object);

}  // namespace cli
