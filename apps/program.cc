// SPDX-License-Identifier: Apache-2.0
// The command line over CLI11: verbs, help, suggestions, exit codes.
#include "apps/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "apps/verbs.h"
#include "base/log.h"
#include "base/suggest.h"

namespace troupe::apps {
namespace {

/// Help in which a verb's examples stand first, and lists of verbs show summaries only.
class HelpFormatter final : public CLI::Formatter {
 public:
  /// CLI11 may write `--devices cpu:N=cpu:1`, which reads like words to type.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    const std::string given = "=" + option->get_default_str();
    const std::size_t at = text.find(given);
    if (given.size() == 1 || at == std::string::npos) return text;
    return text.substr(0, at) + " [" + option->get_default_str() + "]" +
           text.substr(at + given.size());
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    std::ostringstream out;
    const std::string text = verb->get_description();
    CLI::detail::format_help(out, verb->get_name(), text.substr(0, text.find('\n')),
                             get_column_width());
    return out.str();
  }
};

/// The verb that parsing had reached.
const CLI::App& deepest(const CLI::App& app) {
  const std::vector<CLI::App*> chosen =
      const_cast<CLI::App&>(app).get_subcommands();  // NOLINT: CLI11 has no const form
  return chosen.empty() ? app : deepest(*chosen.back());
}

/// "troupe data pack".
std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* level = &app; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options({})) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

/// "; did you mean 'job list'?": words of families that are called so, as people leave the family
/// out; empty where there is none.
std::string did_you_mean_in_family(const CLI::App& app, const std::string& word) {
  std::string found;
  for (const CLI::App* family : app.get_subcommands({})) {
    for (const std::string& verb : verb_names(*family)) {
      if (verb != word) continue;
      found += fmt::format("{}'{} {}'", found.empty() ? "" : " or ", family->get_name(), verb);
    }
  }
  return found.empty() ? "" : "; did you mean " + found + "?";
}

/// "; 'troupe job stop' ends a job": what a word of other programs is called here; empty: no such
/// word.
std::string known_elsewhere(const std::string& word) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"cancel", "'troupe job stop' ends a job"},
      {"kill", "'troupe job stop' ends a job"},
      {"resume", "'troupe job submit' with the same file goes on from its checkpoint"},
      {"logs", "a job's lines stand in the logs of its agents and the coordinator"},
      {"ps", "'troupe job list' lists jobs"},
      {"train", "'troupe run' trains a job"}};
  for (const auto& [other, ours] : kOthers) {
    if (word == other) return fmt::format("; {}", ours);
  }
  return "";
}

/// What was wrong with the command line, with the likely word.
std::string usage_error(const CLI::App& app, const CLI::ParseError& fault) {
  const std::vector<std::string> rest = app.remaining(true);
  if (rest.empty()) return fault.what();
  const CLI::App& reached = deepest(app);
  const std::string word = rest.front().substr(0, rest.front().find('='));
  if (word.starts_with('-')) {
    const std::vector<std::string> known = option_names(reached);
    if (std::ranges::find(known, word) != known.end()) {
      return fmt::format("option '{}' stands before the command: it belongs behind '{}'", word,
                         full_name(reached));
    }
    std::string hint = base::did_you_mean(word, known);
    if (hint.empty() && reached.get_option_no_throw("--set") != nullptr) {
      hint = "; keys of the job file are given by --set SECTION.KEY=VALUE";
    }
    return fmt::format("unknown option '{}'{}", word, hint);
  }
  const std::vector<std::string> verbs = verb_names(reached);
  if (verbs.empty()) return "unexpected argument '" + word + "'";
  std::string hint = did_you_mean_in_family(reached, word);
  if (hint.empty()) hint = known_elsewhere(word);
  if (hint.empty()) hint = base::did_you_mean(word, verbs);
  return "unknown command '" + word + "'" + hint;
}

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warn", "error"};

/// -q, -v, TROUPE_LOG_LEVEL.
void set_loudness(const Context& context) {
  context.console.set_quiet(context.quiet);
  const std::string& named = context.environment.log_level;
  const bool known =
      named.empty() || std::find(kLevels.begin(), kLevels.end(), named) != kLevels.end();
  if (!known && !context.quiet && !context.verbose) {
    context.console.note(fmt::format(
        "warning: TROUPE_LOG_LEVEL: '{}' is no level, so it is info: debug, info, warn or error",
        named));
  }
  const base::LogLevel level = context.log_level();
  if (level != base::LogLevel::info) base::start_logging(level, "");
}

void add_global_options(CLI::App& app, Context& context) {
  context.coordinator = context.environment.coordinator;
  add_address_option(app, "--coordinator", context.coordinator,
                     "The coordinator's --listen address (or TROUPE_COORDINATOR)");
  context.identity = context.environment.identity;
  app.add_option("--identity", context.identity,
                 "Who this is, as troupe ca issue made it: links speak TLS (or TROUPE_IDENTITY)")
      ->type_name("FILE");
  context.token_file = context.environment.token_file;
  app.add_option("--token", context.token_file,
                 "What this person may do, as troupe token make made it (or TROUPE_TOKEN_FILE)")
      ->type_name("FILE");
  CLI::Option* quiet = app.add_flag("-q,--quiet", context.quiet, "Log warnings and errors only");
  app.add_flag("-v,--verbose", context.verbose, "Log debug messages too")->excludes(quiet);
  const auto no_color = [&context] {
    context.no_color = true;
    context.console.set_color(false);
  };
  app.add_flag_callback("--no-color", no_color, "No colours");
  app.set_version_flag("--version", version_text(), "Print the version");
}

std::string exit_codes_text() {
  std::string text = "Exit codes:";
  for (const ExitCodeInfo& row : exit_code_table()) {
    text += fmt::format("\n  {:<4} {}", static_cast<int>(row.code), row.meaning);
  }
  return text;
}

/// `help VERB...` is `VERB... --help`; no words at all ask for help too.
std::vector<std::string> with_help_words(std::vector<std::string> words) {
  if (words.empty()) return {"--help"};
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

/// "--name=" is "--name" and an empty value: CLI11 would take the next word for the value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& words) {
  std::vector<std::string> made;
  bool options = true;
  for (const std::string& word : words) {
    options = options && word != "--";
    const bool empty =
        word.size() > 3 && word.starts_with("--") && word.find('=') == word.size() - 1;
    made.push_back(options && empty ? word.substr(0, word.size() - 1) : word);
    if (options && empty) made.emplace_back();
  }
  return made;
}

/// A value that is the variable's comes from there: an option that says the same changes nothing.
std::string_view source_of(const std::string& value, const std::string& variable,
                           std::string_view option, std::string_view name) {
  return !value.empty() && value == variable ? name : option;
}

/// The first option or argument of the chosen verbs whose value is "": what a script writes whose
/// variable is unset, and as good as none to what reads it. Null where there is none.
const CLI::Option* find_empty(const CLI::App& reached) {
  for (const CLI::App* level = &reached; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options({})) {
      if (option->count() > 0 && std::ranges::count(option->results(), "") > 0) return option;
    }
  }
  return nullptr;
}

ExitCode parse_and_run(CLI::App& app, std::vector<std::string> words, Context& context) {
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them last first
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp& fault) {
    const CLI::App& reached = deepest(app);
    if (!app.remaining(true).empty()) {
      context.console.error(usage_error(app, fault));
      return ExitCode::bad_usage;
    }
    const CLI::App* parent = reached.get_parent();
    context.console.data(reached.help(parent == nullptr ? "" : full_name(*parent)));
    return ExitCode::ok;
  } catch (const CLI::CallForVersion&) {
    context.console.data(version_text() + "\n");
    return ExitCode::ok;
  } catch (const CLI::ParseError& fault) {
    context.console.error(usage_error(app, fault));
    std::string reached = full_name(deepest(app));
    context.console.note("Try: troupe help" + reached.substr(app.get_name().size()));
    return ExitCode::bad_usage;
  }
  if (const CLI::Option* option = find_empty(deepest(app))) {
    context.console.error(option->get_name() + ": the value is empty");
    return ExitCode::bad_usage;
  }
  set_loudness(context);
  return context.action();
}

}  // namespace

std::string_view Context::coordinator_source() const {
  return source_of(coordinator, environment.coordinator, "--coordinator", "TROUPE_COORDINATOR");
}

std::string_view Context::identity_source() const {
  return source_of(identity, environment.identity, "--identity", "TROUPE_IDENTITY");
}

std::string_view Context::token_source() const {
  return source_of(token_file, environment.token_file, "--token", "TROUPE_TOKEN_FILE");
}

base::LogLevel Context::log_level() const {
  if (quiet) return base::LogLevel::warn;
  const std::string& level = environment.log_level;
  if (verbose || level == "debug") return base::LogLevel::debug;
  if (level == "warn") return base::LogLevel::warn;
  return level == "error" ? base::LogLevel::error : base::LogLevel::info;
}

ExitCode Context::fail(const base::Status& status) {
  console.error(status.text());
  return exit_code_of(status.code());
}

ExitCode Context::fail_all(const std::vector<ConfigError>& errors, std::string_view consequence) {
  constexpr std::size_t kShownMax = 100;
  for (std::size_t i = 0; i < std::min(errors.size(), kShownMax); ++i) {
    console.note(errors[i].to_string());
  }
  console.note(fmt::format("{} error{}{}; {}", errors.size(), errors.size() == 1 ? "" : "s",
                           errors.size() > kShownMax ? ", the first 100 are shown" : "",
                           consequence));
  return ExitCode::bad_input;
}

void Context::warn_all(const std::vector<ConfigError>& warnings) {
  for (const ConfigError& warning : warnings) console.note(warning.to_string("warning"));
}

ExitCode run_program(const std::vector<std::string>& arguments, Context& context) {
  CLI::App app(
      describe("Trains neural networks with a company of actors.",
               {"troupe data pack fashion-mnist --out data/fashion",
                "troupe run examples/fashion-lenet.toml", "troupe checkpoint hash out",
                "troupe model inspect lenet", "troupe config check examples/fashion-lenet.toml"}),
      "troupe");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Show help");
  app.require_subcommand(1);
  app.fallthrough();
  try {
    add_global_options(app, context);
    add_run_verb(app, context);
    add_trace_verb(app, context);
    add_checkpoint_verbs(app, context);
    add_ca_verbs(app, context);
    add_token_verbs(app, context);
    add_config_verbs(app, context);
    add_data_verbs(app, context);
    add_model_verbs(app, context);
    add_cluster_verbs(app, context);
    add_job_verbs(app, context);
    add_top_verb(app, context);
    add_about_verbs(app, context);
    add_completion_verbs(app, context);
    add_gen_verbs(app, context);
    app.footer(exit_codes_text());
    const ExitCode code =
        parse_and_run(app, with_help_words(with_empty_values(arguments)), context);
    if (code != ExitCode::ok || context.console.data_written()) return code;
    context.console.error("standard output cannot be written");
    return ExitCode::no_resources;
  } catch (...) {
    const auto [code, text] = current_exception_end();
    context.console.error(text);
    return code;
  }
}

std::string program_version() {
  return TROUPE_VERSION;
}

std::string version_text() {
  return "troupe " + program_version();
}

}  // namespace troupe::apps
