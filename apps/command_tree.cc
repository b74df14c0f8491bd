// SPDX-License-Identifier: Apache-2.0
// From CLI11's tree to plain values.
#include "apps/command_tree.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace troupe::apps {
namespace {

/// A label says what kind of value it stands for: paths are called FILE, DIR or PLACE, or have a
/// suffix such as in JOB.toml; NAME|FILE.json may be one.
WordKind kind_of(const std::string& label) {
  if (label == "DIR") return WordKind::folder;
  const bool path = label == "PLACE" || label.find("FILE") != std::string::npos ||
                    label.find('.') != std::string::npos;
  return path ? WordKind::file : WordKind::text;
}

OptionInfo describe_option(const CLI::Option& option) {
  OptionInfo info;
  for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
  info.meaning = option.get_description();
  info.required = option.get_required();
  info.default_text = option.get_default_str();
  info.repeats = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (info.names.empty()) {
    info.label = option.get_name(true);
    info.kind = kind_of(info.label);
  } else if (option.get_items_expected_max() > 0) {
    info.label = option.get_type_name();
    info.kind = kind_of(info.label);
  }
  return info;
}

/// A description is a summary, then examples (describe() in verbs.h).
void read_description(const std::string& description, VerbInfo& verb) {
  constexpr std::string_view kIndent = "  ";
  std::istringstream lines(description);
  std::getline(lines, verb.summary);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kIndent)) verb.examples.push_back(line.substr(kIndent.size()));
  }
}

VerbInfo describe_verb(const CLI::App& app, const std::string& path) {
  VerbInfo verb;
  verb.name = app.get_name();
  verb.path = path;
  read_description(app.get_description(), verb);
  const bool program = app.get_parent() == nullptr;
  for (const CLI::Option* option : app.get_options({})) {
    if (!program && option == app.get_help_ptr()) continue;  // CLI11 copies it to every verb
    OptionInfo info = describe_option(*option);
    (info.names.empty() ? verb.arguments : verb.options).push_back(std::move(info));
  }
  for (const CLI::App* child : app.get_subcommands({})) {
    if (child->get_group().empty()) continue;
    const std::string& name = child->get_name();
    verb.verbs.push_back(describe_verb(*child, path.empty() ? name : path + " " + name));
  }
  return verb;
}

void add_verbs(const VerbInfo& parent, std::vector<const VerbInfo*>& found) {
  for (const VerbInfo& verb : parent.verbs) {
    found.push_back(&verb);
    add_verbs(verb, found);
  }
}

}  // namespace

VerbInfo describe_program(const CLI::App& app) {
  return describe_verb(app, "");
}

std::vector<const VerbInfo*> all_verbs(const VerbInfo& program) {
  std::vector<const VerbInfo*> found;
  add_verbs(program, found);
  return found;
}

}  // namespace troupe::apps
