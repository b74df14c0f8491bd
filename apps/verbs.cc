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
  const auto address = base::parse_address_within(text, base::Reach::network);
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

void set_range(CLI::Option* option, std::uint64_t low, std::uint64_t high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    std::uint64_t number = 0;
    const char* end = text.data() + text.size();
    const std::from_chars_result read = std::from_chars(text.data(), end, number);
    const bool decimal = text.size() == 1 || !text.starts_with('0');
    const bool whole = read.ec == std::errc() && read.ptr == end;
    if (decimal && whole && number >= low && number <= high) return "";
    return fmt::format("expected an integer of {} to {}, got '{}'", low, high, text);
  };
  const bool any = low == 0 && high == UINT64_MAX;
  option->check(CLI::Validator(check, any ? "" : fmt::format("INT in [{} - {}]", low, high)))
      ->type_name("N");
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
