// SPDX-License-Identifier: Apache-2.0
// DeviceServerState: level 1. Sums the gradients of its machine's ranks, sends the sums to the
// slices' owners, keeps weights and hands them to its ranks. Pure state machine: events in, effects
// out; it holds handles and never touches bytes. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/device_slice.h"
#include "actors/mail.h"
#include "actors/outbox.h"

namespace troupe::actors {

/// The device server of one machine, in one generation of a job.
class DeviceServerState {
 public:
  using Event = ServerEvent;
  using Effect = DeviceEffect;

  /// `plan` must outlive it.
  DeviceServerState(const JobPlan& plan, std::uint32_t machine);
  DeviceServerState(const DeviceServerState&) = delete;
  DeviceServerState& operator=(const DeviceServerState&) = delete;

  /// One event; what follows from it, in order.
  std::vector<Effect> handle(Event event);

  const MailCounters& mail_counters() const { return mail_.counters(); }
  /// Whom a slice waits for, one that a rank waits for if there is any; empty before the start.
  std::string waits_for() const;

 private:
  struct Work {
    std::size_t slice = 0;
    std::uint64_t id = 0;
  };

  void on(Received& received);
  void on(const Tick& tick);
  void on(EffectDone& done);
  void on(const LinkResumed& resumed);
  void open();
  void moved();
  void take(schemas::Envelope& envelope, const schemas::GradientPush& push);
  void take(schemas::Envelope& envelope, const schemas::PushQuery& query);
  void take(schemas::Envelope& envelope, const schemas::WeightPull& pull);
  void take(schemas::Envelope& envelope, const schemas::PushAck& ack);
  void take(schemas::Envelope& envelope, const schemas::WeightReply& reply);
  void take(schemas::Envelope& envelope, const schemas::Finished& finished);
  void take(schemas::Envelope& envelope, const schemas::CutQuery& query);
  void take(schemas::Envelope& envelope, const schemas::ExtraCut& cut);
  /// Spoken among parameter servers.
  template <schemas::OneOf<schemas::ShardCheckpoint, schemas::CheckpointReport, schemas::StepFacts,
                           schemas::StepVerdict>
                Message>
  void take(schemas::Envelope&, const Message&) {}
  template <ForOthers Message>
  void take(schemas::Envelope&, const Message&) {}
  bool knows(const schemas::Envelope& envelope, const schemas::SliceId& slice);
  void pump(std::size_t position);
  void run_work(std::size_t position);
  void send_pushes(std::size_t position);
  void send_pulls(std::size_t position);
  void hand_out(std::size_t position);
  void note_waiting(std::size_t position);
  bool blocked() const;
  void finish_if_done();

  EffectList<Effect> effects_;
  Mail mail_;
  std::uint32_t machine_;
  std::set<std::uint32_t> ranks_;
  std::vector<DeviceSlice> slices_;  // in the order of the layout
  std::map<EffectId, Work> running_;
  Outbox<schemas::PushName> pushes_;
  Outbox<schemas::WeightPull> pulls_;
  Outbox<std::uint32_t> finals_;  // Finished, by shard; the job's end is their answer
  std::map<std::uint32_t, std::uint64_t> finished_;
  std::map<std::uint32_t, std::set<std::size_t>> waiting_;  // by rank: slices it waits for
  bool done_ = false;
};

}  // namespace troupe::actors
