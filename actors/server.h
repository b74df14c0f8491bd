// SPDX-License-Identifier: Apache-2.0
// Server: the shell of both servers: a state machine, the engine that computes its effects, and the
// figures that are read off on the way. Made and destroyed by the thread that owns the job's parts.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/job_parts.h"
#include "actors/server_compute.h"
#include "actors/server_figures.h"
#include "actors/server_observer.h"

namespace troupe::actors {

/// `State`: the machine, made from (JobPlan, index); `Figures`: those of server_figures.h for it.
template <typename State, typename Figures, schemas::Role kRole>
class Server final : public JobRole<Server<State, Figures, kRole>, State> {
  using Base = JobRole<Server<State, Figures, kRole>, State>;

 public:
  using typename Base::Effect;
  using typename Base::Event;

  /// `index`: machine or shard.
  Server(const JobParts& parts, const ServerJob& job, std::uint32_t index,
         ServerObserver observer = {})
      : Base(parts, {kRole, index}, parts.plan, index),
        observer_(std::move(observer)),
        figures_(parts.plan, index, observer_.figures),
        compute_(job, parts.plan.layout, parts.clock,
                 [this](EffectDone done) { this->post(std::move(done)); },
                 {observer_.computed, observer_.metrics, this->self_.to_string()}) {
    this->begin();
  }
  ~Server() { this->end(); }

  /// Memory that links read gradients and weights into.
  base::BufferPool& pool() { return compute_.pool(); }

 private:
  friend class RoleShell<Server, State>;

  void handle(Event event) {
    const std::int64_t now_ns = this->parts_.clock.now_ns();
    figures_.arriving(event, now_ns);
    std::vector<Effect> effects = this->state().handle(std::move(event));
    figures_.leaving(effects, now_ns);
    this->perform_all(std::move(effects));
    if (observer_.counters) observer_.counters(figures_.counters());
    if (observer_.holdings) observer_.holdings(figures_.holdings());
  }

  using Base::perform;
  /// The coordinator has been told, and ends the job's processes; a server has nothing to leave.
  void perform(const Fail&) const {}
  void perform(const End&) const {}
  void perform(const Missing& missing) const {
    if (observer_.missing) observer_.missing(missing);
  }
  void perform(const Judged& judged) const {
    if (observer_.judged) observer_.judged(judged);
  }
  void perform(WriteShard write) {
    compute_.run(std::move(write), this->self_.index, this->parts_.plan.layout.shards());
  }
  template <typename Computed>
  requires requires(ServerCompute& compute, Computed effect) { compute.run(std::move(effect)); }
  void perform(Computed effect) { compute_.run(std::move(effect)); }

  const ServerObserver observer_;
  Figures figures_;        // the actor's alone
  ServerCompute compute_;  // its effects post to the actor: destroyed before it
};

}  // namespace troupe::actors
