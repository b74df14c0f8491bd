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
#include "actors/server_figures.h"

namespace troupe::actors {

/// What the server has done, for metrics. Bytes are payload bytes; a repeated push or reply counts
/// as a repetition, not again as traffic.
struct DeviceServerCounters {
  std::uint64_t worker_pushes = 0;  ///< taken from ranks
  std::uint64_t worker_push_bytes = 0;
  std::uint64_t worker_duplicates = 0;
  std::uint64_t worker_replies = 0;
  std::uint64_t worker_reply_bytes = 0;
  std::uint64_t owner_pushes = 0;  ///< sent to owners
  std::uint64_t owner_push_bytes = 0;
  std::uint64_t owner_replies = 0;  ///< weights received
  std::uint64_t owner_reply_bytes = 0;
  std::uint64_t additions = 0;
};

/// The device server of one machine, in one generation of a job.
class DeviceServerState {
 public:
  /// `plan` must outlive it.
  DeviceServerState(const JobPlan& plan, std::uint32_t machine);
  DeviceServerState(const DeviceServerState&) = delete;
  DeviceServerState& operator=(const DeviceServerState&) = delete;

  /// One event; what follows from it, in order. `now_ns`, of any steady clock, is for metrics.
  std::vector<Effect> handle(Event event, std::int64_t now_ns = 0);

  const DeviceServerCounters& counters() const { return counters_; }
  ServerHoldings holdings() const;
  const MailCounters& mail_counters() const { return mail_.counters(); }
  /// Whom a slice waits for, one that a rank waits for if there is any; empty before the start.
  std::string waits_for() const;

 private:
  struct Work {
    std::size_t slice = 0;
    std::uint64_t id = 0;
  };

  void open();
  void note_push(std::size_t position, std::uint64_t step);
  void receive(schemas::Envelope envelope);
  void take(schemas::Envelope& envelope);
  void take_push(schemas::Envelope& envelope, const schemas::GradientPush& push);
  void take_pull(const schemas::Envelope& envelope, const schemas::WeightPull& pull);
  void take_ack(const schemas::PushAck& ack);
  void take_reply(const schemas::Envelope& envelope, const schemas::WeightReply& reply);
  void take_finished(const schemas::Finished& finished);
  void effect_done(EffectDone& done);
  void tick(std::uint64_t now_ms);
  bool knows(const schemas::Envelope& envelope, const schemas::SliceId& slice);
  void pump(std::size_t position);
  void run_work(std::size_t position);
  void send_pushes(std::size_t position);
  void send_pulls(std::size_t position);
  void hand_out(std::size_t position);
  void note_waiting(std::size_t position);
  bool blocked() const;
  void finish_if_done();

  Mail mail_;
  std::uint32_t machine_;
  std::set<std::uint32_t> ranks_;
  std::vector<DeviceSlice> slices_;  // in the order of the layout
  std::map<EffectId, Work> running_;
  Outbox<schemas::PushName> pushes_;
  Outbox<schemas::WeightPull> pulls_;
  Outbox<std::uint32_t> finals_;  // Finished, by shard; repeated until the job ends
  std::map<std::uint32_t, std::uint64_t> finished_;
  std::map<std::uint32_t, std::set<std::size_t>> waiting_;  // by rank: slices it waits for
  bool done_ = false;
  DeviceServerCounters counters_;
  // For metrics, with slices by position.
  struct Request {
    std::size_t slice = 0;
    std::uint32_t rank = 0;
    std::uint64_t step = 0;
    friend auto operator<=>(const Request&, const Request&) = default;
  };
  OpenRequests<Request> open_pushes_;
  OpenRequests<Request> open_pulls_;
  std::vector<PushRound> rounds_;
  std::vector<std::uint64_t> held_bytes_;
  std::uint64_t store_bytes_ = 0;
  LowestVersion version_;
};

}  // namespace troupe::actors
