// SPDX-License-Identifier: Apache-2.0
// The verb families; each adds its subcommands to the command line and leaves the action of the one
// chosen in the context. A verb's description is its summary, then examples: help leads with them.
// Below them: what several families use. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::apps {

/// The family `ca`.
void add_ca_verbs(CLI::App& app, Context& context);
/// The family `token`.
void add_token_verbs(CLI::App& app, Context& context);
/// The family `config`.
void add_config_verbs(CLI::App& app, Context& context);
/// The family `data`.
void add_data_verbs(CLI::App& app, Context& context);
/// The verb `run`.
void add_run_verb(CLI::App& app, Context& context);
/// The verb `trace`.
void add_trace_verb(CLI::App& app, Context& context);
/// The family `checkpoint`.
void add_checkpoint_verbs(CLI::App& app, Context& context);
/// The family `model`.
void add_model_verbs(CLI::App& app, Context& context);
/// The verbs `coordinator` and `agent`, and `internal`: what agents start.
void add_cluster_verbs(CLI::App& app, Context& context);
/// The family `job`.
void add_job_verbs(CLI::App& app, Context& context);
/// The verb `top`.
void add_top_verb(CLI::App& app, Context& context);
/// The verbs `metrics` and `version`.
void add_about_verbs(CLI::App& app, Context& context);
/// The family `completion`. `app` is the program; the verbs read its tree when they run.
void add_completion_verbs(CLI::App& app, Context& context);
/// The family `gen`.
void add_gen_verbs(CLI::App& app, Context& context);
/// `gen systemd`, `gen slurm`, `gen kubernetes`.
void add_places_verbs(CLI::App& family, Context& context);
/// `gen man`. `app` is the program; the verb reads its tree when it runs.
void add_man_verb(CLI::App& app, CLI::App& family, Context& context);

/// The check of options that take HOST:PORT: refused as bad usage, with the text.
std::string check_address(const std::string& text);

/// The check of options that take a name for a machine or job.
std::string check_name(const std::string& text);

/// The check of options that take a duration: "10s", "5m".
std::string check_duration(const std::string& text);

/// Makes the option one of a decimal number N of `low` to `high`. CLI11 would read 010 as eight and
/// -1 as 2^64 - 1, so both are refused.
void set_range(CLI::Option* option, std::uint64_t low, std::uint64_t high);

/// The check of options that take a size: "512m", "4g".
std::string check_size(const std::string& text);

/// The check of options that take an agent's devices: "cpu:2", "gpu:all". Whether this machine has
/// the GPUs is the agent's to say.
std::string check_devices(const std::string& text);

/// "SUMMARY\n\nExamples:\n  troupe ...\n".
std::string describe(std::string_view summary, std::initializer_list<std::string_view> examples);

/// A word before verbs, as `data` in `data check`: alone it is bad usage. CLI11 owns the result.
CLI::App* add_family(CLI::App& app, const std::string& name, const std::string& description);

/// What the command line does when it chooses `verb`. `action` runs after all of it was parsed, so
/// it shares ownership of the options that it reads.
void set_action(CLI::App* verb, Context& context, std::function<ExitCode()> action);

/// An option HOST:PORT, checked by check_address. `address` outlives the parsing.
CLI::Option* add_address_option(CLI::App& verb, const std::string& name, std::string& address,
                                const std::string& meaning);

/// The flag --json of a verb that shows something: one JSON document instead of text. `json`
/// outlives the parsing.
CLI::Option* add_json_flag(CLI::App& verb, bool& json);

/// A job as verbs take it.
struct JobFileOptions {
  std::string path;                    ///< JOB.toml; "-": standard input
  std::vector<std::string> overrides;  ///< --set KEY=VALUE, in the order given
};

/// JOB.toml and --set. `options` outlives the parsing.
void add_job_file_options(CLI::App& verb, JobFileOptions& options);

}  // namespace troupe::apps
