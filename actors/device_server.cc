// SPDX-License-Identifier: Apache-2.0
// What a device server's effects do.
#include "actors/device_server.h"

#include "base/log.h"

namespace troupe::actors {

DeviceServer::DeviceServer(const JobParts& parts, const ServerJob& job, std::uint32_t machine,
                           ServerObserver observer)
    : parts_(parts),
      self_{schemas::Role::device_server, machine},
      observer_(std::move(observer)),
      state_(parts.plan, machine),
      actor_(std::make_unique<RoleActor>(parts.stage, parts.clock, tick_ms(parts.plan.spec.limits),
                                         [this](Event event) { handle(std::move(event)); })),
      compute_(job, parts.plan.layout, parts.clock,
               [this](EffectDone done) { actor_->post(std::move(done)); },
               {observer_.computed, observer_.metrics, self_.to_string()}) {
  parts_.post_office.open(
      self_, [this](schemas::Envelope envelope) { actor_->post(Received{std::move(envelope)}); });
}

DeviceServer::~DeviceServer() {
  parts_.post_office.close(self_);
  actor_->end();
}

void DeviceServer::handle(Event event) {
  const std::int64_t now_ns = parts_.clock.now_ns();
  for (Effect& effect : state_.handle(std::move(event), now_ns)) run(std::move(effect));
  if (observer_.device) observer_.device(state_.counters());
  if (observer_.holdings) observer_.holdings(state_.holdings());
}

void DeviceServer::run(Effect effect) {
  if (auto* send = std::get_if<Send>(&effect)) {
    parts_.post_office.post(std::move(send->envelope));
  } else if (auto* add = std::get_if<Add>(&effect)) {
    compute_.run(std::move(*add));
  } else if (auto* copy = std::get_if<Copy>(&effect)) {
    compute_.run(std::move(*copy));
  } else if (const auto* observe = std::get_if<Observe>(&effect)) {
    if (observer_.observe) observer_.observe(*observe);
  } else if (const auto* spent = std::get_if<Spent>(&effect)) {
    if (observer_.spent) observer_.spent(*spent);
  } else if (const auto* warn = std::get_if<Warn>(&effect)) {
    base::log_warn("{}: {}", self_.to_string(), warn->text);
  }
}

}  // namespace troupe::actors
