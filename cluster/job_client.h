// SPDX-License-Identifier: Apache-2.0
// JobClient: a person's side of the coordinator: one question at a time, each answered within
// limits.request_ms. Who has reached the coordinator once is patient with it: a question whose
// answer does not come is asked again, over a new link, for limits.coordinator_grace_ms. One
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "link/tls.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// What a client is given.
struct JobClientOptions {
  std::string address;  ///< of the coordinator, HOST:PORT
  base::Limits limits;
  std::shared_ptr<const link::Tls> tls;  ///< of the person; null: loopback alone
  std::string token;                     ///< of the person; empty: none
  /// Told once in a while that the coordinator is lost, and how long it is still waited for; may be
  /// empty.
  std::function<void(const base::Status& why, std::uint64_t left_ms)> on_lost;
  std::function<bool()> stop;  ///< asked often while a question waits; true ends it; may be empty
};

/// A job that a person has stopped.
struct StoppedJob {
  schemas::JobInfo info;
  /// Why the checkpoint that was wanted before was not written; empty: it was, or none was wanted.
  std::string uncut;
};

/// See the top of the file. Errors of all questions: unavailable when the coordinator was never
/// reached, or not again within the grace; cancelled when `stop` said so; else the coordinator's.
class JobClient {
 public:
  /// Errors: an address that is none.
  static base::Result<std::unique_ptr<JobClient>> connect(JobClientOptions options);
  /// Says goodbye, for limits.goodbye_ms at most.
  ~JobClient();

  /// The new job's id; an empty `id` lets the coordinator choose. However often it has to ask, this
  /// is one job.
  base::Result<std::string> submit(const std::string& id, const schemas::JobSpec& spec);
  /// Every job, in order of submission; of very many the newest, and the text says what is left
  /// off.
  base::Result<schemas::JobList> list();
  /// Every job, every machine, and the ranks of jobs that have machines.
  base::Result<schemas::JobList> cluster();
  /// One job; not_found.
  base::Result<schemas::JobInfo> query(const std::string& id);
  /// Waits for the job's end, at most limits.request_ms more than its grace; with a checkpoint out
  /// of turn before, at most limits.cut_ms more.
  base::Result<StoppedJob> stop(const std::string& id, bool checkpoint = false);
  /// Waits for a checkpoint of the job as it is now, at most limits.cut_ms; without a `path` in the
  /// answer there is none, and `text` says why. not_found.
  base::Result<schemas::JobCheckpointAnswer> checkpoint(const std::string& id);
  /// Hands in a list of what is revoked, PEM; the coordinator passes it on.
  base::Status deny(const std::string& pem);

 private:
  class Impl;
  explicit JobClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::cluster
