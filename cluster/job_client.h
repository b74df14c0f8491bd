// SPDX-License-Identifier: Apache-2.0
// JobClient: a person's side of the coordinator: one question at a time, each answered within
// limits.request_ms. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// See the top of the file.
class JobClient {
 public:
  /// Links to the coordinator at `address` (HOST:PORT). unavailable names the address.
  static base::Result<std::unique_ptr<JobClient>> connect(const std::string& address,
                                                          const base::Limits& limits);
  ~JobClient();

  /// The new job's id; an empty `id` lets the coordinator choose.
  base::Result<std::string> submit(const std::string& id, const schemas::JobSpec& spec);
  /// An empty id: all jobs, in order of submission.
  base::Result<std::vector<schemas::JobInfo>> query(const std::string& id);
  /// Waits for the job's end, at most limits.request_ms more than its grace.
  base::Result<schemas::JobInfo> stop(const std::string& id);

 private:
  class Impl;
  explicit JobClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::cluster
