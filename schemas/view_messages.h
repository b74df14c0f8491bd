// SPDX-License-Identifier: Apache-2.0
// The messages by which people look at jobs, machines and ranks. Plain values; part of messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schemas/offer_messages.h"

namespace troupe::schemas {

/// The life of a job, in order.
enum class JobPhase : std::uint8_t {
  pending,
  starting,
  running,
  stopping,
  succeeded,
  failed,
  stopped
};

/// "pending", "running", ... as people see it.
std::string_view job_phase_name(JobPhase phase);
/// succeeded, failed or stopped: the job's phase never changes again.
bool is_final(JobPhase phase);

/// A job as `job list` and `job status` show it.
struct JobInfo {
  std::string id;
  std::string name;
  JobPhase phase = JobPhase::pending;
  std::uint64_t step = 0;
  std::uint64_t steps_total = 0;
  std::uint64_t samples = 0;
  double loss = 0.0;       ///< mean training loss of the last report
  double accuracy = -1.0;  ///< on the test set after the last epoch; -1: none yet
  double samples_per_second = 0.0;
  std::string checkpoint;  ///< newest complete one
  std::string text;        ///< why it failed or waits
  std::uint64_t age_ms = 0;
  std::uint64_t number = 0;  ///< of the submission: another one of the same id has another
  bool no_room = false;      ///< it failed as its cluster, which is closed, has no room for it
  bool done_before = false;  ///< its last step was done before its run, which had nothing to do
};

/// Asks for a job; id empty: for all of them.
struct JobQuery {
  std::string id = {};
  bool cluster = false;  ///< with an empty id: for machines and ranks, too
};

/// What the coordinator knows of a rank's work.
enum class RankPhase : std::uint8_t {
  starting,  ///< its process, or another one of the job, is not up
  reading,   ///< looks at its data file
  waiting,   ///< has done so, and other ranks have not
  training,
  missing,  ///< waited for long
  done
};

/// "starting", "reading", ... as people see it.
std::string_view rank_phase_name(RankPhase phase);

/// A rank of a job that has machines, as `top` shows it.
struct RankInfo {
  std::string job;
  std::uint32_t rank = 0;
  std::string machine;
  RankPhase phase = RankPhase::starting;
  std::uint64_t step = 0;                 ///< steps done, as it last reported
  double samples_per_second = 0.0;        ///< between its last two reports; 0: it has sent none
  std::uint64_t heard_ms = 0;             ///< since it last said something, or its job got machines
  std::optional<std::uint32_t> gpu = {};  ///< of its machine, by index; absent: it is on CPUs
};

/// The answer to JobQuery and JobStop. `text` with code ok: why the checkpoint that JobStop wanted
/// was not written.
struct JobList {
  base::Errc code = base::Errc::ok;
  std::string text = {};
  std::vector<JobInfo> jobs = {};
  std::vector<MachineInfo> machines = {};  ///< in order of joining
  std::vector<RankInfo> ranks = {};        ///< by job and rank; not all of very many
};

}  // namespace troupe::schemas
