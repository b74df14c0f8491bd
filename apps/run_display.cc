// SPDX-License-Identifier: Apache-2.0
// From a job's reports to lines and metrics.
#include "apps/run_display.h"

#include <cmath>
#include <ctime>

#include "apps/job_report.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"

namespace troupe::apps {
namespace {

double mean_loss(const control::EpochScore& score) {
  return score.loss_sum / static_cast<double>(score.samples);
}

}  // namespace

RunDisplay::RunDisplay(Console& console, const base::Clock& clock)
    : console_(console), clock_(clock), display_(console, clock) {}

monitoring::Collection RunDisplay::start(std::shared_ptr<const train::Job> started,
                                         monitoring::Metrics& metrics) {
  job_ = std::move(started);
  job_name_ = job_->spec.name;
  steps_total_ = job_->steps_end();
  const train::Job& job = *job_;
  {
    const base::MutexLock lock(mutex_);
    series_.job = job.spec.name;
    series_.steps_total = job.steps_end();
  }
  report_ms_ = clock_.now_ms();
  console_.info(fmt::format("job {}: {} of {}, {}", job.spec.name,
                            base::format_counted(job.steps_end(), "step"),
                            base::format_counted(job.spec.ranks(), "rank"),
                            base::format_counted(job.train_data->records(), "training sample")));
  return metrics.on_scrape([this](monitoring::Scrape& scrape) {
    const base::MutexLock lock(mutex_);
    actors::show_job(series_, scrape);
  });
}

void RunDisplay::began(const train::RunStart& start) {
  began_ = start.step < steps_total_;
  if (start.checkpoint_path.empty()) return;
  checkpoint_ = start.checkpoint_path;
  if (!began_) return;  // nothing is left to train
  console_.info(fmt::format("goes on at step {} from {}", start.step, checkpoint_));
}

void RunDisplay::progress(const control::StepProgress& progress) {
  const std::int64_t now = clock_.now_ms();
  const double seconds = static_cast<double>(now - report_ms_) * 1e-3;
  const auto samples = static_cast<double>(progress.samples - samples_done_);
  const std::uint64_t end = job_->steps_end();
  shown_.step = progress.step;
  shown_.steps_total = end;
  if (seconds > 0 && samples > 0) {
    shown_.samples_per_second = samples / seconds;
    const std::uint64_t left = job_->samples_before(end) - job_->samples_before(progress.step);
    shown_.seconds_left = static_cast<double>(left) / shown_.samples_per_second;
  }
  if (const auto it = progress.metrics.find("cross_entropy"); it != progress.metrics.end()) {
    shown_.loss = it->second.mean();
    if (!std::isfinite(*shown_.loss) && !diverged_) {
      diverged_ = true;
      base::log_warn("{}", control::divergence_text(progress.step, *shown_.loss));
    }
  }
  {
    const base::MutexLock lock(mutex_);
    series_.samples = progress.samples;
    series_.step = progress.step;
    series_.loss = shown_.loss;
  }
  report_ms_ = now;
  samples_done_ = progress.samples;
  display_.show(shown_);
}

void RunDisplay::scored(const control::EpochScore& score) {
  if (score.samples == 0) {
    base::log_warn("{}", control::no_score_text(score.epoch));
    score_.reset();
    shown_.accuracy.reset();
    const base::MutexLock lock(mutex_);
    series_.accuracy.reset();
    return;
  }
  score_ = score;
  shown_.accuracy = score.accuracy();
  {
    const base::MutexLock lock(mutex_);
    series_.accuracy = score.accuracy();
  }
  console_.info(fmt::format("epoch {}: test accuracy {:.4f}, loss {:.4f}", score.epoch,
                            score.accuracy(), mean_loss(score)));
}

void RunDisplay::checkpointed(std::uint64_t step, const std::string& path) {
  checkpoint_ = path;
  {
    const base::MutexLock lock(mutex_);
    series_.checkpoint_unix_seconds = static_cast<double>(std::time(nullptr));
  }
  base::log_debug("checkpoint of step {}: {}", step, path);
}

std::string RunDisplay::way_on() const {
  if (!began_) return "no step was done";
  return checkpoint_.empty() ? "no checkpoint was written: the same command begins anew"
                             : "the same command goes on from " + checkpoint_;
}

RunResult RunDisplay::result() const {
  return {job_name_, steps_total_, began_, score_, checkpoint_};
}

std::string RunResult::to_string() const {
  std::string text;
  if (score) {
    text += fmt::format(
        "test accuracy {:.4f} on {}, loss {:.4f}{}\n", score->accuracy(),
        base::format_counted(score->samples, "image"), mean_loss(*score),
        score->step == steps_total
            ? ""
            : fmt::format(" (of step {}; the end is no epoch's, and not scored)", score->step));
  }
  if (!checkpoint.empty()) text += fmt::format("checkpoint {}\n", base::printable(checkpoint));
  if (!trained) return nothing_trained_line(steps_total) + text;
  if (!text.empty()) return text;
  return fmt::format("{} {} done; nothing was saved: checkpoint.dir is not set\n",
                     base::format_counted(steps_total, "step"), steps_total == 1 ? "is" : "are");
}

Json json_of(const RunResult& result) {
  Json test = nullptr;
  if (result.score) {
    test = {{"accuracy", result.score->accuracy()},
            {"images", result.score->samples},
            {"loss", mean_loss(*result.score)}};
  }
  return {{"job", result.job},
          {"steps_total", result.steps_total},
          {"trained", result.trained},
          {"test", std::move(test)},
          {"checkpoint", json_or_null(result.checkpoint)}};
}

}  // namespace troupe::apps
