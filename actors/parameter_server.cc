// SPDX-License-Identifier: Apache-2.0
// What a parameter server's effects do.
#include "actors/parameter_server.h"

#include "base/log.h"

namespace troupe::actors {

ParameterServer::ParameterServer(const JobParts& parts, const ServerJob& job, std::uint32_t shard,
                                 ServerObserver observer)
    : parts_(parts),
      self_{schemas::Role::parameter_server, shard},
      observer_(std::move(observer)),
      state_(parts.plan, shard),
      actor_(std::make_unique<RoleActor>(parts.stage, parts.clock, tick_ms(parts.plan.spec.limits),
                                         [this](Event event) { handle(std::move(event)); })),
      compute_(job, parts.plan.layout, parts.clock,
               [this](EffectDone done) { actor_->post(std::move(done)); },
               {observer_.computed, observer_.metrics, self_.to_string()}) {
  parts_.post_office.open(
      self_, [this](schemas::Envelope envelope) { actor_->post(Received{std::move(envelope)}); });
}

ParameterServer::~ParameterServer() {
  parts_.post_office.close(self_);
  actor_->end();
}

void ParameterServer::handle(Event event) {
  const std::int64_t now_ns = parts_.clock.now_ns();
  for (Effect& effect : state_.handle(std::move(event), now_ns)) run(std::move(effect));
  if (observer_.parameter) observer_.parameter(state_.counters());
  if (observer_.holdings) observer_.holdings(state_.holdings());
}

void ParameterServer::run(Effect effect) {
  if (auto* send = std::get_if<Send>(&effect)) {
    parts_.post_office.post(std::move(send->envelope));
  } else if (auto* add = std::get_if<Add>(&effect)) {
    compute_.run(std::move(*add));
  } else if (auto* update = std::get_if<Update>(&effect)) {
    compute_.run(std::move(*update));
  } else if (auto* init = std::get_if<InitSlice>(&effect)) {
    compute_.run(std::move(*init));
  } else if (auto* write = std::get_if<WriteShard>(&effect)) {
    compute_.run(std::move(*write), self_.index, parts_.plan.layout.shards());
  } else if (auto* manifest = std::get_if<WriteManifest>(&effect)) {
    compute_.run(std::move(*manifest));
  } else if (const auto* observe = std::get_if<Observe>(&effect)) {
    if (observer_.observe) observer_.observe(*observe);
  } else if (const auto* spent = std::get_if<Spent>(&effect)) {
    if (observer_.spent) observer_.spent(*spent);
  } else if (const auto* missing = std::get_if<Missing>(&effect)) {
    if (observer_.missing) observer_.missing(*missing);
  } else if (const auto* warn = std::get_if<Warn>(&effect)) {
    base::log_warn("{}: {}", self_.to_string(), warn->text);
  }
}

}  // namespace troupe::actors
