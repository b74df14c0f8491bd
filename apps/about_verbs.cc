// SPDX-License-Identifier: Apache-2.0
// troupe version, troupe metrics: what this program is, what it can use and what it counts.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/json_text.h"
#include "apps/verbs.h"
#include "base/text.h"
#include "base/units.h"
#include "gpu/inventory.h"
#include "monitoring/families.h"

namespace troupe::apps {
namespace {

Json json_of_families() {
  Json list = Json::array();
  for (const monitoring::Family& family : monitoring::families()) {
    Json labels = Json::array();
    for (std::size_t i = 0; i < family.label_count(); ++i) labels.push_back(family.labels[i]);
    list.push_back({{"name", family.name},
                    {"type", monitoring::metric_type_name(family.type)},
                    {"labels", std::move(labels)},
                    {"help", family.help}});
  }
  return {{"metrics", std::move(list)}};
}

std::string text_of_families() {
  std::string text;
  for (const monitoring::Family& family : monitoring::families()) {
    std::string labels;
    for (std::size_t i = 0; i < family.label_count(); ++i) {
      labels.append(i == 0 ? "{" : ",").append(family.labels[i]);
    }
    if (!labels.empty()) labels += "}";
    text += fmt::format("{}{} {} {}\n", family.name, labels,
                        monitoring::metric_type_name(family.type), family.help);
  }
  return text;
}

Json json_of_gpus() {
  const gpu::Inventory& found = gpu::inventory();
  Json devices = Json::array();
  for (const gpu::DeviceFacts& device : found.devices) {
    devices.push_back(
        {{"name", device.name},
         {"uuid", device.uuid},
         {"memory_bytes", device.memory_bytes},
         {"compute_capability", fmt::format("{}.{}", device.compute_major, device.compute_minor)},
         {"multiprocessors", device.multiprocessors},
         {"problem", json_or_null(device.problem)}});
  }
  Json libraries = Json::array();
  for (const gpu::LibraryFacts& library : gpu::libraries()) {
    libraries.push_back({{"name", library.name},
                         {"version", json_or_null(library.version)},
                         {"problem", json_or_null(library.problem)}});
  }
  return {{"toolkit", json_or_null(found.toolkit)},
          {"driver", json_or_null(found.driver)},
          {"problem", json_or_null(found.problem)},
          {"devices", std::move(devices)},
          {"libraries", std::move(libraries)}};
}

/// A line per device, or why it cannot be used, or why there is none; a line per library.
std::string text_of_gpus() {
  const gpu::Inventory& found = gpu::inventory();
  std::string text;
  if (!found.toolkit.empty()) text += fmt::format("built with {}\n", found.toolkit);
  if (!found.driver.empty()) text += fmt::format("driver for CUDA {}\n", found.driver);
  if (found.devices.empty()) text += fmt::format("no GPU: {}\n", found.problem);
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const gpu::DeviceFacts& device = found.devices[i];
    if (!device.problem.empty()) {
      text += fmt::format("gpu:{} {} cannot be used: {}\n", i, device.name, device.problem);
      continue;
    }
    text += fmt::format("gpu:{} {}, {}, compute capability {}.{}, {}\n", i, device.name,
                        base::format_bytes(device.memory_bytes), device.compute_major,
                        device.compute_minor, device.uuid);
  }
  for (const gpu::LibraryFacts& library : gpu::libraries()) {
    text += library.problem.empty()
                ? fmt::format("{} {}\n", library.name, library.version)
                : fmt::format("no {}: {}\n", library.name, base::printable(library.problem));
  }
  return text;
}

}  // namespace

void add_about_verbs(CLI::App& app, Context& context) {
  CLI::App* metrics = app.add_subcommand(
      "metrics", describe("List the metrics: name, labels, type, meaning", {"troupe metrics"}));
  const auto json = std::make_shared<bool>(false);
  add_json_flag(*metrics, *json);
  set_action(metrics, context, [&context, json] {
    context.console.data(*json ? json_text(json_of_families()) : text_of_families());
    return ExitCode::ok;
  });

  CLI::App* version = app.add_subcommand(
      "version", describe("Print the version, and which GPUs this program can use or why none",
                          {"troupe version", "troupe version --json | jq .gpu"}));
  add_json_flag(*version, *json);
  set_action(version, context, [&context, json] {
    context.console.data(*json ? json_text({{"program", "troupe"},
                                            {"version", program_version()},
                                            {"gpu", json_of_gpus()}})
                               : version_text() + "\n" + text_of_gpus());
    return ExitCode::ok;
  });
}

}  // namespace troupe::apps
