// SPDX-License-Identifier: Apache-2.0
// troupe job submit, list, status, wait, checkpoint, stop.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "apps/coordinator_call.h"
#include "apps/job_file.h"
#include "apps/job_report.h"
#include "apps/job_watch.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/suggest.h"
#include "base/text.h"

namespace troupe::apps {
namespace {

struct JobVerb {
  JobFileOptions job;
  std::string id;
  std::string grace;
  bool wait = false;
  bool checkpoint = false;
  bool json = false;
};

/// `signals`: may end it; may be null.
ExitCode with_client(const JobVerb& verb, const StopSignals* signals, Context& context,
                     const std::function<ExitCode(cluster::JobClient&)>& action) {
  CoordinatorCall call;
  call.grace = verb.grace;
  if (signals != nullptr) call.stop = [signals] { return signals->received() != 0; };
  return call_coordinator(call, context, action);
}

/// What was said of a job, with its id, which it may begin with.
std::string named(const std::string& id, const std::string& text) {
  const std::string job = "job " + id;
  return text.starts_with(job + " ") ? text : fmt::format("{}: {}", job, text);
}

/// A job that cannot be asked for; where there is none of this id, with the one that was meant, or
/// why it may be gone.
ExitCode fail_for(const std::string& id, const base::Status& why, cluster::JobClient& client,
                  Context& context) {
  if (why.code() != base::Errc::not_found) return context.fail(why);
  std::vector<std::string> known;
  const auto jobs = client.list();
  if (jobs.ok()) {
    for (const schemas::JobInfo& job : jobs->jobs) known.push_back(job.id);
  }
  std::string hint = base::did_you_mean(id, known);
  if (hint.empty()) hint = "; a coordinator that was started anew remembers no jobs";
  return context.fail(base::Status(why.code(), why.text() + hint));
}

/// A watch that ended before the job: what becomes of it, as far as that is known here.
ExitCode lost_sight(const schemas::JobInfo& seen, const base::Status& why, Context& context) {
  if (why.code() == base::Errc::already_exists) return context.fail(why);  // its id is another's
  std::string text = why.text();
  base::Errc code = why.code();
  if (code == base::Errc::not_found) {
    code = base::Errc::unavailable;
    text = fmt::format("the coordinator at {} was started anew and does not know job {}",
                       context.coordinator, seen.id);
  }
  if (!seen.checkpoint.empty()) {
    text += fmt::format("; submitting it again resumes from {} or a newer one", seen.checkpoint);
  }
  return context.fail(base::Status(code, text));
}

/// When a command has begun to submit its job, by the steady clock.
using AskedMs = std::optional<std::int64_t>;

/// Looks at the job until it has ended. `seen`: what is known of it; with an id once the
/// coordinator has known it, and that is shown when the watch ends before the job.
ExitCode watch(cluster::JobClient& client, const JobVerb& options, schemas::JobInfo& seen,
               const StopSignals& signals, Context& context, AskedMs asked_ms) {
  const std::string id = seen.id.empty() ? options.id : seen.id;
  int signal = 0;
  const auto goes_on = [&](const schemas::JobInfo& job) {
    const AskedMs asked = std::exchange(asked_ms, std::nullopt);  // the first look alone says it
    const std::int64_t now_ms = base::SteadyClock().now_ms();
    if (asked && had_succeeded(job, static_cast<std::uint64_t>(now_ms - *asked))) {
      context.console.info(fmt::format("job {} had succeeded before; nothing is trained", id));
    }
    signal = signals.received();
    return signal == 0;
  };
  const base::Status status = watch_job(client, id, goes_on, seen, context);
  if (signal != 0) {
    context.console.note(fmt::format("job {} goes on; `{} job wait {}` watches it again", id,
                                     program_words(context), id));
    return exit_code_of_signal(signal);
  }
  if (!status.ok())
    return seen.id.empty() ? fail_for(id, status, client, context)
                           : lost_sight(seen, status, context);
  return finish_job(seen, options.json, context);
}

ExitCode wait(cluster::JobClient& client, const JobVerb& options, schemas::JobInfo seen,
              const StopSignals& signals, Context& context, AskedMs asked_ms) {
  const ExitCode code = watch(client, options, seen, signals, context, asked_ms);
  const bool shown = schemas::is_final(seen.phase) || seen.id.empty();
  if (options.json && !shown) context.console.data(json_text(json_of(seen)));
  return code;
}

/// A mistyped path is seen before anything waits; but other machines may have what this one lacks.
void warn_of_missing_data(const schemas::JobSpec& spec, Context& context) {
  for (const auto& [key, path] :
       {std::pair("data.train", spec.data.train), std::pair("data.test", spec.data.test),
        std::pair("train.weights", spec.train.weights)}) {
    std::error_code unknown;
    if (path.empty() || std::filesystem::exists(path, unknown) || unknown) continue;
    context.console.note(
        fmt::format("warning: {}: {}: there is no such file on this machine, only perhaps on "
                    "others; relative paths are meant from the folder in which the command runs",
                    key, path));
  }
}

ExitCode submit(const JobVerb& options, Context& context) {
  JobFile job = read_job_file(options.job.path, options.job.overrides);
  if (!job.errors.empty()) return context.fail_all(job.errors, "nothing was submitted");
  const base::Status prepared = prepare_submission(job.spec);
  if (!prepared.ok()) return context.fail(prepared);
  context.warn_all(job.warnings);
  warn_of_missing_data(job.spec, context);
  std::optional<StopSignals> signals;
  if (options.wait) signals.emplace([](int) {});
  const std::int64_t asked_ms = base::SteadyClock().now_ms();
  return with_client(
      options, signals ? &*signals : nullptr, context, [&](cluster::JobClient& client) {
        const auto id = client.submit(options.id, job.spec);
        if (!id.ok()) {
          const int signal = signals ? signals->received() : 0;
          return signal != 0 ? exit_code_of_signal(signal) : context.fail(id.status());
        }
        schemas::JobInfo seen;
        seen.id = *id;
        seen.name = job.spec.name;
        if (!options.json) context.console.data(base::printable(*id) + "\n");
        if (signals) return wait(client, options, seen, *signals, context, asked_ms);
        if (options.json) context.console.data(json_text({{"id", *id}}));
        context.console.info(
            fmt::format("follow it with: {} job wait {}", program_words(context), *id));
        return ExitCode::ok;
      });
}

ExitCode list(cluster::JobClient& client, const JobVerb& options, Context& context) {
  const auto list = client.list();
  if (!list.ok()) return context.fail(list.status());
  context.console.data(options.json ? json_text(json_of(*list)) : job_table(list->jobs));
  if (!list->text.empty()) context.console.info(list->text);
  return ExitCode::ok;
}

ExitCode status(cluster::JobClient& client, const JobVerb& options, Context& context) {
  const auto job = client.query(options.id);
  if (!job.ok()) return fail_for(options.id, job.status(), client, context);
  context.console.data(options.json ? json_text(json_of(*job)) : job_lines(*job));
  return ExitCode::ok;
}

ExitCode stop(cluster::JobClient& client, const JobVerb& options, Context& context) {
  const auto job = client.stop(options.id, options.checkpoint);
  if (!job.ok()) return fail_for(options.id, job.status(), client, context);
  context.console.data(options.json ? json_text(json_of(job->info)) : job_end_line(job->info));
  if (!options.checkpoint || job->uncut.empty()) return ExitCode::ok;
  context.console.error(named(options.id, job->uncut));
  return ExitCode::no_checkpoint;
}

ExitCode checkpoint(cluster::JobClient& client, const JobVerb& options, Context& context) {
  const auto answer = client.checkpoint(options.id);
  if (!answer.ok()) return fail_for(options.id, answer.status(), client, context);
  if (answer->path.empty()) {
    context.console.error(named(options.id, answer->text));
    return ExitCode::no_checkpoint;
  }
  context.console.data(
      options.json
          ? json_text({{"job", options.id}, {"step", answer->step}, {"checkpoint", answer->path}})
          : base::printable(answer->path) + "\n");
  return ExitCode::ok;
}

}  // namespace

void add_job_verbs(CLI::App& app, Context& context) {
  CLI::App* job =
      add_family(app, "job",
                 describe("Submit jobs to a coordinator, list, watch, save and stop them",
                          {"troupe --coordinator 127.0.0.1:7700 job submit JOB.toml --wait",
                           "troupe --coordinator 127.0.0.1:7700 job list"}));
  const auto options = std::make_shared<JobVerb>();
  CLI::App* submit_verb = job->add_subcommand(
      "submit",
      describe(
          "Submit a job; prints its id",
          {"troupe --coordinator 127.0.0.1:7700 job submit examples/fashion-lenet.toml --wait"}));
  add_job_file_options(*submit_verb, options->job);
  submit_verb->add_option("--id", options->id, "The job's id; the coordinator chooses one")
      ->check(check_name)
      ->type_name("ID");
  submit_verb->add_flag("--wait", options->wait, "Wait for the job's end, and end with its result");
  add_grace_option(*submit_verb, options->grace);
  add_json_flag(*submit_verb, options->json);
  set_action(submit_verb, context, [&context, options] { return submit(*options, context); });
  CLI::App* list_verb = job->add_subcommand("list", "List all jobs");
  add_json_flag(*list_verb, options->json);
  set_action(list_verb, context, [&context, options] {
    return with_client(*options, nullptr, context,
                       [&](cluster::JobClient& client) { return list(client, *options, context); });
  });
  using Action = std::function<ExitCode(cluster::JobClient&, const StopSignals&)>;
  const auto add = [&](const char* name, const char* summary, const Action& action) -> CLI::App* {
    CLI::App* verb = job->add_subcommand(name, summary);
    verb->add_option("ID", options->id, "The job's id")
        ->required()
        ->check(check_name)
        ->type_name("");
    add_grace_option(*verb, options->grace);
    add_json_flag(*verb, options->json);
    set_action(verb, context, [&context, options, action] {
      const StopSignals signals([](int) {});
      return with_client(*options, &signals, context, [&](cluster::JobClient& client) {
        const ExitCode code = action(client, signals);
        const bool stopped = code == ExitCode::failed && signals.received() != 0;
        return stopped ? exit_code_of_signal(signals.received()) : code;
      });
    });
    return verb;
  };
  add("status", "Show one job", [&context, options](auto& client, const StopSignals&) {
    return status(client, *options, context);
  });
  add("wait", "Wait for a job's end; ends with its result",
      [&context, options](auto& client, const StopSignals& signals) {
        return wait(client, *options, {}, signals, context, {});
      });
  add("checkpoint", "Have a running job write a checkpoint now; prints its path",
      [&context, options](auto& client, const StopSignals&) {
        return checkpoint(client, *options, context);
      });
  add("stop", "Stop a job; says what it resumes from",
      [&context, options](auto& client, const StopSignals&) {
        return stop(client, *options, context);
      })
      ->add_flag("--checkpoint", options->checkpoint,
                 "With a checkpoint of all that it has done; if there is none, it stops anyhow");
}

}  // namespace troupe::apps
