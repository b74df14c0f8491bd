// SPDX-License-Identifier: Apache-2.0
// Questions to the coordinator, a few in a second.
#include "apps/job_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "apps/job_report.h"
#include "apps/progress.h"
#include "base/clock.h"

namespace troupe::apps {
namespace {

constexpr auto kLook = std::chrono::milliseconds(300);
/// A coordinator's clock goes in steps, so a job may seem older than it is.
constexpr std::uint64_t kSlackMs = 2'000;

void show(const schemas::JobInfo& job, ProgressDisplay& display) {
  Progress progress;
  progress.step = job.step;
  progress.steps_total = job.steps_total;
  if (job.samples > 0) progress.loss = job.loss;
  if (job.accuracy >= 0.0) progress.accuracy = job.accuracy;
  progress.samples_per_second = job.samples_per_second;
  display.show(progress);
}

/// A run has ended and another one of the same job takes its place, perhaps between two looks.
bool begins_anew(const schemas::JobInfo& before, const schemas::JobInfo& now) {
  using schemas::JobPhase;
  if (schemas::is_final(now.phase)) return false;
  return now.samples < before.samples ||
         (now.phase == JobPhase::pending && before.phase != JobPhase::pending);
}

/// Leaves the last line standing, however the watch ends.
struct EndOfLine {
  ProgressDisplay& display;
  ~EndOfLine() { display.end(); }
};

}  // namespace

base::Result<std::vector<std::string>> news_of(const schemas::JobInfo& before,
                                               const schemas::JobInfo& now) {
  if (before.number != 0 && now.number != before.number) {
    return base::error(base::Errc::already_exists,
                       "job {} has ended, unseen, and another submission has its id now", now.id);
  }
  std::vector<std::string> news;
  if (begins_anew(before, now)) {
    news.push_back(fmt::format("job {} has left a machine and goes on from {}", now.id,
                               now.checkpoint.empty() ? "the beginning" : now.checkpoint));
  }
  if (now.text != before.text && now.phase == schemas::JobPhase::pending) {
    news.push_back(fmt::format("job {} {}", now.id, now.text));
  }
  return news;
}

bool had_succeeded(const schemas::JobInfo& job, std::uint64_t since_ms) {
  return job.phase == schemas::JobPhase::succeeded && job.age_ms > since_ms + kSlackMs;
}

base::Status watch_job(cluster::JobClient& client, const std::string& id,
                       const std::function<bool(const schemas::JobInfo&)>& goes_on,
                       schemas::JobInfo& seen, Context& context) {
  base::SteadyClock clock;
  ProgressDisplay display(context.console, clock);
  const EndOfLine end{display};
  while (true) {
    const auto job = client.query(id);
    if (!goes_on(job.ok() ? *job : seen)) return {};
    if (!job.ok()) return job.status();
    TROUPE_TRY_ASSIGN(const std::vector<std::string> news, news_of(seen, *job));
    for (const std::string& line : news) context.console.info(line);
    if (job->step != seen.step) show(*job, display);
    seen = *job;
    if (schemas::is_final(seen.phase)) return {};
    std::this_thread::sleep_for(kLook);
  }
}

ExitCode finish_job(const schemas::JobInfo& job, bool json, Context& context) {
  if (json) context.console.data(json_text(json_of(job)));
  if (job.phase != schemas::JobPhase::succeeded) {
    context.console.error(
        fmt::format("job {} {}: {}", job.id, schemas::job_phase_name(job.phase), job.text));
    if (job.no_room) return ExitCode::no_resources;
    return job.phase == schemas::JobPhase::stopped ? ExitCode::stopped : ExitCode::failed;
  }
  if (!json) context.console.data(job_result_lines(job));
  return ExitCode::ok;
}

}  // namespace troupe::apps
