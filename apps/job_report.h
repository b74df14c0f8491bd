// SPDX-License-Identifier: Apache-2.0
// A cluster's jobs as people and scripts see them: text and JSON, both from schemas::JobInfo. Plain
// functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "apps/json_text.h"
#include "schemas/messages.h"

namespace troupe::apps {

/// "120/938"; "-" until it is known where the job begins.
std::string step_text(const schemas::JobInfo& job);
/// "0.4123"; "-" before the first report.
std::string loss_text(const schemas::JobInfo& job);

/// A heading and one line for each job.
std::string job_table(std::span<const schemas::JobInfo> jobs);
/// A line for each fact that is known.
std::string job_lines(const schemas::JobInfo& job);
/// What `job stop` says of a job that has ended: its id, state and note in one line.
std::string job_end_line(const schemas::JobInfo& job);
/// What is said where the checkpoint was of the last step already.
std::string nothing_trained_line(std::uint64_t steps_total);
/// What a job that succeeded has come to: test accuracy and checkpoint, as far as there are any; or
/// that it had nothing to train.
std::string job_result_lines(const schemas::JobInfo& job);

/// One job; null for what is not known.
Json json_of(const schemas::JobInfo& job);
/// {"jobs": [...], "note": ...}: all that a coordinator tells, and what it leaves off.
Json json_of(const schemas::JobList& list);

}  // namespace troupe::apps
