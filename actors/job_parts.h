// SPDX-License-Identifier: Apache-2.0
// What the actors of one job in one process share, and JobRole: the shell of a role that has an
// entry in the job's post office.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "actors/effects.h"
#include "actors/job_plan.h"
#include "actors/post_office.h"
#include "actors/role_shell.h"
#include "ops/table.h"
#include "train/job.h"

namespace troupe::actors {

/// All outlive the actors.
struct JobParts {
  ActorSystem& actors;
  PostOffice& post_office;
  const JobPlan& plan;
  std::shared_ptr<const train::Job> job;
  const ops::OpTable& table;
  base::Clock& clock;
};

/// RoleShell for workers and servers. See there for begin() and end().
template <typename Role, typename State>
class JobRole : public RoleShell<Role, State> {
 protected:
  template <typename... Arguments>
  JobRole(const JobParts& parts, schemas::ActorId self, Arguments&&... arguments)
      : RoleShell<Role, State>(self.to_string(), std::forward<Arguments>(arguments)...),
        parts_(parts),
        self_(self) {}
  ~JobRole() = default;

  void begin() {
    const base::Limits& limits = parts_.plan.spec.limits;
    RoleShell<Role, State>::begin(parts_.actors, parts_.clock, tick_ms(limits), limits);
    parts_.post_office.open(
        self_, [this](schemas::Envelope envelope) { this->post(Received{std::move(envelope)}); });
  }
  void end() {
    parts_.post_office.close(self_);
    RoleShell<Role, State>::end();
  }

  using RoleShell<Role, State>::perform;
  void perform(Send send) const { parts_.post_office.post(std::move(send.envelope)); }

  const JobParts parts_;
  const schemas::ActorId self_;
};

}  // namespace troupe::actors
