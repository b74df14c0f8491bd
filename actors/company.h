// SPDX-License-Identifier: Apache-2.0
// The whole company of a job in this process: coordinator's job, device servers, parameter servers
// and workers as actors that hand envelopes over. `troupe run` is this; the results equal those of
// several processes and of the local store to the bit.
#pragma once

#include <functional>
#include <memory>

#include "actors/device_server.h"
#include "actors/parameter_server.h"
#include "actors/worker.h"
#include "train/local_run.h"

namespace troupe::actors {

/// Beside the job: how it is run, and who watches.
struct CompanyOptions {
  train::LocalRunOptions run;
  /// Observers of the servers' figures, by machine and shard; may be empty.
  std::function<ServerObserver(schemas::ActorId)> server_observer;
};

/// Runs the job to its end. Errors as train::run_local's; they name role, rank and machine.
base::Status run_company(const std::shared_ptr<const train::Job>& job, const ops::OpTable& table,
                         base::Clock& clock, train::JobObserver& observer,
                         const CompanyOptions& options = {});

}  // namespace troupe::actors
