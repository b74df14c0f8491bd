// SPDX-License-Identifier: Apache-2.0
// From JobInfo to text and JSON; what is known of a job is decided here, once for both.
#include "apps/job_report.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/units.h"

namespace troupe::apps {

using base::printable;

namespace {

/// What is known of a job.
struct Known {
  explicit Known(const schemas::JobInfo& job) {
    if (job.steps_total != 0) {
      step = job.step;
      steps_total = job.steps_total;
    }
    if (job.samples > 0) {
      loss = job.loss;
      if (!schemas::is_final(job.phase)) samples_per_second = job.samples_per_second;
    }
    if (job.accuracy >= 0.0) accuracy = job.accuracy;
    if (job.samples > 0) trained = true;
    if (job.phase == schemas::JobPhase::succeeded && steps_total) trained = !job.done_before;
  }
  std::optional<std::uint64_t> step, steps_total;
  std::optional<bool> trained;  // false: its last step was done before
  std::optional<double> loss, samples_per_second, accuracy;
};

}  // namespace

std::string step_text(const schemas::JobInfo& job) {
  const Known known(job);
  return known.step ? fmt::format("{}/{}", *known.step, *known.steps_total) : "-";
}

std::string loss_text(const schemas::JobInfo& job) {
  const Known known(job);
  return known.loss ? fmt::format("{:.4f}", *known.loss) : "-";
}

std::string job_table(std::span<const schemas::JobInfo> jobs) {
  std::string text =
      fmt::format("{:<32} {:<10} {:>15} {:>9} {}\n", "ID", "STATE", "STEP", "LOSS", "NOTE");
  for (const schemas::JobInfo& job : jobs) {
    text += fmt::format("{:<32} {:<10} {:>15} {:>9} {}\n", printable(job.id),
                        schemas::job_phase_name(job.phase), step_text(job), loss_text(job),
                        printable(job.text));
  }
  return text;
}

std::string nothing_trained_line(std::uint64_t steps_total) {
  return fmt::format("all {} were done before; nothing was trained\n",
                     base::format_counted(steps_total, "step"));
}

std::string job_result_lines(const schemas::JobInfo& job) {
  const Known known(job);
  std::string text;
  if (known.trained && !*known.trained) text += nothing_trained_line(*known.steps_total);
  if (known.accuracy) text += fmt::format("test accuracy {:.4f}\n", *known.accuracy);
  if (!job.checkpoint.empty()) text += fmt::format("checkpoint {}\n", printable(job.checkpoint));
  return text;
}

std::string job_lines(const schemas::JobInfo& job) {
  std::string text =
      fmt::format("id {}\nstate {}\nstep {}\nloss {}\n", printable(job.id),
                  schemas::job_phase_name(job.phase), step_text(job), loss_text(job)) +
      job_result_lines(job);
  if (!job.text.empty()) text += fmt::format("note {}\n", printable(job.text));
  return text;
}

std::string job_end_line(const schemas::JobInfo& job) {
  return fmt::format("{} {}{}{}\n", printable(job.id), schemas::job_phase_name(job.phase),
                     job.text.empty() ? "" : ": ", printable(job.text));
}

Json json_of(const schemas::JobInfo& job) {
  constexpr double kSecondsPerMs = 1e-3;
  const Known known(job);
  return {{"id", job.id},
          {"name", job.name},
          {"state", schemas::job_phase_name(job.phase)},
          {"no_room", job.no_room},
          {"step", json_or_null(known.step)},
          {"steps_total", json_or_null(known.steps_total)},
          {"trained", json_or_null(known.trained)},
          {"samples", job.samples},
          {"loss", json_or_null(known.loss)},
          {"samples_per_second", json_or_null(known.samples_per_second)},
          {"test_accuracy", json_or_null(known.accuracy)},
          {"checkpoint", json_or_null(job.checkpoint)},
          {"note", json_or_null(job.text)},
          {"age_seconds", static_cast<double>(job.age_ms) * kSecondsPerMs}};
}

Json json_of(const schemas::JobList& list) {
  Json jobs = Json::array();
  for (const schemas::JobInfo& job : list.jobs) jobs.push_back(json_of(job));
  return {{"jobs", std::move(jobs)}, {"note", json_or_null(list.text)}};
}

}  // namespace troupe::apps
