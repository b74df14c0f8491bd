// SPDX-License-Identifier: Apache-2.0
// JobActors: the actors of one process of a job: a machine's device server and workers (a host
// process), or one parameter server. Whoever opens it gives the post office sinks for the
// coordinator and the other processes. Opening blocks (files); made and destroyed by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "actors/device_server.h"
#include "actors/parameter_server.h"
#include "actors/worker.h"
#include "monitoring/metrics.h"
#include "ops/table.h"
#include "schemas/messages.h"
#include "train/device_sums.h"

namespace troupe::actors {

/// See the top of the file.
class JobActors {
 public:
  /// Opens the job, whose files lie in `roots`, and makes the actors of `launch`; they wait for
  /// their Placement. `metrics` shows ranks and outlives the actors; `observer`: of the server's
  /// figures. Errors: the job's files and keys; for a parameter server a folder of checkpoints that
  /// it cannot write into, or has no room; failed_precondition when the folder of checkpoints holds
  /// some of the launch's generation already.
  static base::Result<std::unique_ptr<JobActors>> open(const schemas::LaunchProcess& launch,
                                                       const schemas::JobRoots& roots,
                                                       base::Clock& clock,
                                                       monitoring::Metrics& metrics,
                                                       ServerObserver observer = {});
  ~JobActors();

  PostOffice& post_office() { return post_office_; }
  /// Memory of `storage` for what links read: where ranks of this process compute on GPUs, theirs
  /// copy weights from there by themselves.
  base::BufferPool& link_pool(storage::Storage& storage) const {
    return train::host_pool(storage, device_);
  }
  const schemas::JobSpec& spec() const { return plan_.spec; }
  /// The parameter server that writes the job's manifests; the others report to it.
  std::uint32_t first_shard() const { return plan_.layout.first_shard(); }
  const base::NumericClass& numeric_class() const { return server_job_.numeric_class; }
  /// The link to the process of `peer` goes on after a cut. Any thread.
  void link_resumed(schemas::ActorId peer) const;
  /// The ranks begin to check their data files. Call once the Placement has come.
  void start();
  /// The job is over: the actors keep what they have counted, and their clocks stop.
  void rest();

 private:
  JobActors(std::unique_ptr<const ops::OpTable> table, ServerJob job, JobPlan plan,
            base::Clock& clock);

  const std::unique_ptr<const ops::OpTable> table_;  // others refer to it: it stays in its place
  ServerJob server_job_;
  const JobPlan plan_;
  ActorSystem actors_;
  PostOffice post_office_;
  const JobParts parts_;
  std::unique_ptr<ParameterServer> parameter_server_;
  std::unique_ptr<DeviceServer> device_server_;
  base::Device device_;                      // of the first rank
  std::unique_ptr<train::DeviceSums> sums_;  // on the ranks' devices; null: nothing is added there
  std::vector<std::pair<std::uint32_t, std::unique_ptr<Worker>>> workers_;  // by rank
};

}  // namespace troupe::actors
