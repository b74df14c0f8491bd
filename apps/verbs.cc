// SPDX-License-Identifier: Apache-2.0
// What the verb families share: descriptions, checks of arguments, options of several verbs.
#include "apps/verbs.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>

#include "base/address.h"
#include "base/name.h"
#include "base/units.h"

namespace troupe::apps {

std::string check_address(const std::string& text) {
  const auto address = base::parse_address(text);
  return address.ok() ? std::string() : address.status().text();
}

std::string check_name(const std::string& text) {
  if (base::plain_name(text)) return "";
  return fmt::format("'{}' is no name: {}", text, base::kPlainNameRule);
}

std::string check_duration(const std::string& text) {
  const auto duration = base::parse_duration_ms(text);
  return duration.ok() ? std::string() : duration.status().text();
}

std::string check_size(const std::string& text) {
  const auto size = base::parse_bytes(text);
  return size.ok() ? std::string() : size.status().text();
}

std::string check_count(const std::string& text) {
  std::uint64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("expected an integer of 0 to {}, got '{}'", UINT64_MAX, text);
}

std::string describe(std::string_view summary, std::initializer_list<std::string_view> examples) {
  std::string text(summary);
  text += "\n\nExamples:";
  for (const std::string_view example : examples) text.append("\n  ").append(example);
  return text + "\n";
}

CLI::App* add_family(CLI::App& app, const std::string& name, const std::string& description) {
  CLI::App* family = app.add_subcommand(name, description);
  family->require_subcommand(1);
  return family;
}

void set_action(CLI::App* verb, Context& context, std::function<ExitCode()> action) {
  verb->callback([&context, action = std::move(action)] { context.action = action; });
}

CLI::Option* add_address_option(CLI::App& verb, const std::string& name, std::string& address,
                                const std::string& meaning) {
  return verb.add_option(name, address, meaning)->check(check_address)->type_name("HOST:PORT");
}

CLI::Option* add_json_flag(CLI::App& verb, bool& json) {
  return verb.add_flag("--json", json, "Print one JSON document instead of text");
}

void add_job_file_options(CLI::App& verb, JobFileOptions& options) {
  verb.add_option("JOB.toml", options.path, "The job file; - for standard input")
      ->required()
      ->type_name("");
  verb.add_option("--set", options.overrides, "Override a key of the job file")
      ->check([](const std::string& text) {
        const bool named = text.find('=') != std::string::npos && !text.starts_with('=');
        return named ? "" : fmt::format("expected section.key=value, got '{}'", text);
      })
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
}

}  // namespace troupe::apps
