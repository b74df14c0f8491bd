// SPDX-License-Identifier: Apache-2.0
// troupe job submit, list, status, wait, stop.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "apps/job_file.h"
#include "apps/progress.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/units.h"
#include "cluster/identity_file.h"
#include "cluster/job_client.h"

namespace troupe::apps {
namespace {

constexpr auto kLook = std::chrono::milliseconds(300);

struct JobVerb {
  JobFileOptions job;
  std::string id;
  std::string grace;
  bool wait = false;
};

/// Connects to the coordinator and runs the action with it. `signals`: may end it; may be null.
template <typename Action>
ExitCode with_client(const JobVerb& verb, const StopSignals* signals, Context& context,
                     const Action& action) {
  if (context.coordinator.empty()) {
    context.console.error("which coordinator? --coordinator HOST:PORT or TROUPE_COORDINATOR");
    return ExitCode::bad_usage;
  }
  // An option has been checked; this may be the environment's.
  if (const std::string fault = check_address(context.coordinator); !fault.empty()) {
    context.console.error("TROUPE_COORDINATOR: " + fault);
    return ExitCode::bad_usage;
  }
  cluster::JobClientOptions options;
  if (!context.identity.empty()) {
    const auto identity = cluster::IdentityFile::open(context.identity, trust::Role::person);
    if (!identity.ok()) return context.fail(identity.status().with_context("--identity"));
    options.tls = (*identity)->tls();
  }
  options.address = context.coordinator;
  if (!verb.grace.empty()) {
    options.limits.coordinator_grace_ms = base::parse_duration_ms(verb.grace).value();  // checked
  }
  options.on_lost = [&context](const base::Status& why, std::uint64_t left_ms) {
    context.console.note(fmt::format("{}; tries again for {} s", why.text(), left_ms / 1'000));
  };
  if (signals != nullptr) options.stop = [signals] { return signals->received() != 0; };
  const auto client = cluster::JobClient::connect(std::move(options));
  return client.ok() ? action(**client) : context.fail(client.status());
}

std::string step_of(const schemas::JobInfo& job) {
  return job.steps_total == 0 ? "-" : fmt::format("{}/{}", job.step, job.steps_total);
}

/// "-" before the first report.
std::string loss_of(const schemas::JobInfo& job) {
  return job.samples == 0 ? "-" : fmt::format("{:.4f}", job.loss);
}

void show(const schemas::JobInfo& job, ProgressDisplay& display) {
  Progress progress;
  progress.step = job.step;
  progress.steps_total = job.steps_total;
  if (job.samples > 0) progress.loss = job.loss;
  if (job.accuracy >= 0.0) progress.accuracy = job.accuracy;
  progress.samples_per_second = job.samples_per_second;
  display.show(progress);
}

/// The end of a job for people, scripts and the exit code.
ExitCode finish(const schemas::JobInfo& job, Context& context) {
  if (job.phase != schemas::JobPhase::succeeded) {
    context.console.error(
        fmt::format("job {} {}: {}", job.id, schemas::job_phase_name(job.phase), job.text));
    return job.phase == schemas::JobPhase::stopped ? ExitCode::stopped : ExitCode::failed;
  }
  if (job.accuracy >= 0.0) {
    context.console.data(fmt::format("test accuracy {:.4f}\n", job.accuracy));
  }
  if (!job.checkpoint.empty()) {
    context.console.data(fmt::format("checkpoint {}\n", job.checkpoint));
  }
  return ExitCode::ok;
}

/// A watch that ended before the job: what becomes of it, as far as that is known here.
ExitCode lost_sight(const schemas::JobInfo& seen, const base::Status& why, Context& context) {
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

/// Looks at the job until it has ended. `seen`: what is known of it; with an id once the
/// coordinator has known it.
ExitCode wait(cluster::JobClient& client, const std::string& id, schemas::JobInfo seen,
              const StopSignals& signals, Context& context) {
  base::SteadyClock clock;
  ProgressDisplay display(context.console, clock);
  while (true) {
    const auto job = client.query(id);
    if (const int signal = signals.received(); signal != 0) {
      display.end();
      context.console.note(
          fmt::format("job {} goes on; `troupe --coordinator {} job wait {}` watches it again", id,
                      context.coordinator, id));
      return exit_code_of_signal(signal);
    }
    if (!job.ok()) {
      display.end();
      return seen.id.empty() ? context.fail(job.status()) : lost_sight(seen, job.status(), context);
    }
    if (job->text != seen.text && job->phase == schemas::JobPhase::pending) {
      context.console.info(fmt::format("job {} {}", id, job->text));
    }
    if (job->step != seen.step) show(*job, display);
    seen = *job;
    if (schemas::is_final(seen.phase)) break;
    std::this_thread::sleep_for(kLook);
  }
  display.end();
  return finish(seen, context);
}

ExitCode submit(const JobVerb& options, Context& context) {
  JobFile job = read_job_file(options.job.path, options.job.overrides);
  if (!job.errors.empty()) return context.fail_lines(job.errors, "nothing was submitted");
  const base::Status prepared = prepare_submission(job.spec);
  if (!prepared.ok()) return context.fail(prepared);
  std::optional<StopSignals> signals;
  if (options.wait) signals.emplace([](int) {});
  return with_client(
      options, signals ? &*signals : nullptr, context, [&](cluster::JobClient& client) {
        const auto id = client.submit(options.id, job.spec);
        if (!id.ok()) {
          const int signal = signals ? signals->received() : 0;
          return signal != 0 ? exit_code_of_signal(signal) : context.fail(id.status());
        }
        context.console.data(*id + "\n");
        schemas::JobInfo seen;
        seen.id = *id;
        if (signals) return wait(client, *id, seen, *signals, context);
        context.console.info(fmt::format("follow it with: troupe --coordinator {} job wait {}",
                                         context.coordinator, *id));
        return ExitCode::ok;
      });
}

void add_grace_option(CLI::App& verb, JobVerb& options) {
  verb.add_option("--grace", options.grace, "How long a lost coordinator is waited for (10m)")
      ->check(check_duration)
      ->type_name("TIME");
}

ExitCode list(cluster::JobClient& client, Context& context) {
  const auto jobs = client.list();
  if (!jobs.ok()) return context.fail(jobs.status());
  std::string text =
      fmt::format("{:<32} {:<10} {:>15} {:>9} {}\n", "ID", "STATE", "STEP", "LOSS", "NOTE");
  for (const schemas::JobInfo& job : *jobs) {
    text += fmt::format("{:<32} {:<10} {:>15} {:>9} {}\n", job.id,
                        schemas::job_phase_name(job.phase), step_of(job), loss_of(job), job.text);
  }
  context.console.data(text);
  return ExitCode::ok;
}

ExitCode status(cluster::JobClient& client, const std::string& id, Context& context) {
  const auto found = client.query(id);
  if (!found.ok()) return context.fail(found.status());
  const schemas::JobInfo& job = *found;
  std::string text = fmt::format("id {}\nstate {}\nstep {}\nloss {}\n", job.id,
                                 schemas::job_phase_name(job.phase), step_of(job), loss_of(job));
  if (job.accuracy >= 0.0) text += fmt::format("test accuracy {:.4f}\n", job.accuracy);
  if (!job.checkpoint.empty()) text += fmt::format("checkpoint {}\n", job.checkpoint);
  if (!job.text.empty()) text += fmt::format("note {}\n", job.text);
  context.console.data(text);
  return ExitCode::ok;
}

ExitCode stop(cluster::JobClient& client, const std::string& id, Context& context) {
  const auto job = client.stop(id);
  if (!job.ok()) return context.fail(job.status());
  context.console.data(fmt::format("{} {}{}{}\n", job->id, schemas::job_phase_name(job->phase),
                                   job->text.empty() ? "" : ": ", job->text));
  return ExitCode::ok;
}

}  // namespace

void add_job_verbs(CLI::App& app, Context& context) {
  CLI::App* job =
      add_family(app, "job",
                 describe("Submit jobs to a coordinator, list, watch and stop them",
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
  submit_verb->add_flag("--wait", options->wait, "End with the job's result");
  add_grace_option(*submit_verb, *options);
  set_action(submit_verb, context, [&context, options] { return submit(*options, context); });
  set_action(job->add_subcommand("list", "List all jobs"), context, [&context, options] {
    return with_client(*options, nullptr, context,
                       [&](cluster::JobClient& client) { return list(client, context); });
  });
  using Action = std::function<ExitCode(cluster::JobClient&, const StopSignals&)>;
  const auto add = [&](const char* name, const char* summary, const Action& action) {
    CLI::App* verb = job->add_subcommand(name, summary);
    verb->add_option("ID", options->id, "The job's id")
        ->required()
        ->check(check_name)
        ->type_name("");
    add_grace_option(*verb, *options);
    set_action(verb, context, [&context, options, action] {
      const StopSignals signals([](int) {});
      return with_client(*options, &signals, context, [&](cluster::JobClient& client) {
        const ExitCode code = action(client, signals);
        const bool stopped = code == ExitCode::failed && signals.received() != 0;
        return stopped ? exit_code_of_signal(signals.received()) : code;
      });
    });
  };
  add("status", "Show one job", [&context, options](auto& client, const StopSignals&) {
    return status(client, options->id, context);
  });
  add("wait", "Wait for a job's end; ends with its result",
      [&context, options](auto& client, const StopSignals& signals) {
        return wait(client, options->id, {}, signals, context);
      });
  add("stop", "Stop a job; says what it resumes from",
      [&context, options](auto& client, const StopSignals&) {
        return stop(client, options->id, context);
      });
}

}  // namespace troupe::apps
