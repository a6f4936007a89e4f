// `vicinal info`: what this build and this machine can do, and why something is absent.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "json.hpp"
#include "output.hpp"
#include "text.hpp"
#include "vicinal/device.hpp"
#include "vicinal/metric.hpp"

namespace cli {
namespace {

Json info_json(const vicinal::Info& info) {
  Json object = json_head("info");
  add_info(object, info);
  object["metrics"] = Json::array();
  for (const vicinal::MetricInfo& metric : vicinal::metrics()) {
    object["metrics"].push_back({{"name", std::string(metric.name)},
                                 {"aliases", std::vector<std::string>(metric.aliases.begin(), metric.aliases.end())},
                                 {"descending", metric.descending},
                                 {"formula", std::string(metric.formula)}});
  }
  object["formats"] = Json::array();
  for (const vicinal::FormatInfo& format : vicinal::formats()) {
    object["formats"].push_back(
        {{"name", format.name}, {"suffixes", format.suffixes}, {"reads", format.reads}, {"writes", format.writes}});
  }
  return object;
}

std::string info_text(const vicinal::Info& info) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"vicinal", fmt::format("{}, semantics {}, built by {}", info.version, info.semantics_version, info.compiler)},
      {"instruction sets",
       fmt::format("{} usable here, best first; {} built in", fmt::join(info.instruction_sets, ", "),
                   fmt::join(info.built_instruction_sets, ", "))},
      {"filters", fmt::format("{}", fmt::join(info.filters, ", then "))},
      {"backends", fmt::format("{}", fmt::join(info.backends, ", "))},
      {"threads", std::to_string(info.threads)}};
  for (const vicinal::Device& device : info.devices) {
    facts.emplace_back("device " + device.name,
                       device.usable ? device.description + ", " + bytes_text(device.free_bytes) + " free"
                                     : "not usable: " + device.reason);
  }
  std::string text = facts_text(facts);

  facts.clear();
  for (const vicinal::MetricInfo& metric : vicinal::metrics()) {
    std::string about(metric.formula);
    if (!metric.aliases.empty()) about += fmt::format("; also {}", fmt::join(metric.aliases, ", "));
    facts.emplace_back("  " + std::string(metric.name), about);
  }
  text += "\nmetrics\n" + facts_text(facts);

  facts.clear();
  for (const vicinal::FormatInfo& format : vicinal::formats()) {
    std::string about = "reads " + format.reads;
    if (!format.writes.empty()) about += "; writes " + format.writes;
    facts.emplace_back("  " + format.suffixes, about);
  }
  return text + "\nfiles\n" + facts_text(facts);
}

}  // namespace

Command register_info(App& root) {
  auto json = std::make_shared<bool>(false);
  App app = root.add_subcommand("info", "What this build and this machine can do");
  app.add_flag("--json", *json, "one JSON object on stdout, and nothing else");
  app.footer("Example:\n  vicinal info --json | python3 -m json.tool");
  return {app, [json](Context&) {
            const vicinal::Info info = vicinal::info();
            if (*json) print_json(info_json(info));
            else print(info_text(info));
            return 0;
          }};
}

}  // namespace cli
