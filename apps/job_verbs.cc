// SPDX-License-Identifier: Apache-2.0
// troupe job submit, list, status, wait, stop.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <thread>

#include "apps/job_file.h"
#include "apps/progress.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "cluster/job_client.h"

namespace troupe::apps {
namespace {

constexpr auto kLook = std::chrono::milliseconds(300);

struct JobVerb {
  JobFileOptions job;
  std::string id;
  bool wait = false;
};

/// Connects to the coordinator and runs the action with it.
template <typename Action>
ExitCode with_client(Context& context, const Action& action) {
  if (context.coordinator.empty()) {
    context.console.error("which coordinator? --coordinator HOST:PORT or TROUPE_COORDINATOR");
    return ExitCode::bad_usage;
  }
  // An option has been checked; this may be the environment's.
  if (const std::string fault = check_address(context.coordinator); !fault.empty()) {
    context.console.error("TROUPE_COORDINATOR: " + fault);
    return ExitCode::bad_usage;
  }
  const auto client = cluster::JobClient::connect(context.coordinator, base::Limits{});
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
    return ExitCode::failed;
  }
  if (job.accuracy >= 0.0) {
    context.console.data(fmt::format("test accuracy {:.4f}\n", job.accuracy));
  }
  if (!job.checkpoint.empty()) {
    context.console.data(fmt::format("checkpoint {}\n", job.checkpoint));
  }
  return ExitCode::ok;
}

/// A watch that ended before the job: what becomes of it, as far as that is known.
ExitCode lost_sight(const schemas::JobInfo& seen, const base::Status& why, Context& context) {
  if (seen.id.empty()) return context.fail(why);
  const std::string advice =
      seen.checkpoint.empty()
          ? "; there is no checkpoint yet"
          : fmt::format("; submitting it again resumes from {}", seen.checkpoint);
  return context.fail(base::Status(why.code(), why.text() + advice));
}

/// Looks at the job until it has ended.
ExitCode wait(cluster::JobClient& client, const std::string& id, const StopSignals& signals,
              Context& context) {
  base::SteadyClock clock;
  ProgressDisplay display(context.console, clock);
  schemas::JobInfo seen;
  while (true) {
    if (const int signal = signals.received(); signal != 0) {
      display.end();
      context.console.note(
          fmt::format("job {} goes on; `troupe job wait {}` watches it again", id, id));
      return exit_code_of_signal(signal);
    }
    const auto jobs = client.query(id);
    if (!jobs.ok()) {
      display.end();
      return lost_sight(seen, jobs.status(), context);
    }
    const schemas::JobInfo& job = jobs->front();
    if (job.text != seen.text && job.phase == schemas::JobPhase::pending) {
      context.console.note(fmt::format("job {} {}", id, job.text));
    }
    if (job.step != seen.step) show(job, display);
    seen = job;
    if (schemas::is_final(job.phase)) break;
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
  return with_client(context, [&](cluster::JobClient& client) {
    const auto id = client.submit(options.id, job.spec);
    if (!id.ok()) return context.fail(id.status());
    context.console.data(*id + "\n");
    if (signals) return wait(client, *id, *signals, context);
    context.console.note(fmt::format("follow it with: troupe --coordinator {} job wait {}",
                                     context.coordinator, *id));
    return ExitCode::ok;
  });
}

ExitCode list(cluster::JobClient& client, Context& context) {
  const auto jobs = client.query("");
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
  const auto jobs = client.query(id);
  if (!jobs.ok()) return context.fail(jobs.status());
  const schemas::JobInfo& job = jobs->front();
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
      "submit", describe("Submit a job; prints its id",
                         {"troupe job submit examples/fashion-lenet.toml --wait"}));
  add_job_file_options(*submit_verb, options->job);
  submit_verb->add_option("--id", options->id, "The job's id; the coordinator chooses one")
      ->check(check_name)
      ->type_name("ID");
  submit_verb->add_flag("--wait", options->wait, "End with the job's result");
  set_action(submit_verb, context, [&context, options] { return submit(*options, context); });
  set_action(job->add_subcommand("list", "List all jobs"), context, [&context] {
    return with_client(context, [&](cluster::JobClient& client) { return list(client, context); });
  });
  const auto add = [&](const char* name, const char* summary,
                       ExitCode (*action)(cluster::JobClient&, const std::string&, Context&)) {
    CLI::App* verb = job->add_subcommand(name, summary);
    verb->add_option("ID", options->id, "The job's id")->required()->type_name("");
    set_action(verb, context, [&context, options, action] {
      return with_client(context, [&](cluster::JobClient& client) {
        return action(client, options->id, context);
      });
    });
  };
  const auto watch = [](cluster::JobClient& client, const std::string& id, Context& c) {
    const StopSignals signals([](int) {});
    return wait(client, id, signals, c);
  };
  add("status", "Show one job", status);
  add("wait", "Wait for a job's end; ends with its result", watch);
  add("stop", "Stop a job; says what it resumes from", stop);
}

}  // namespace troupe::apps
