// SPDX-License-Identifier: Apache-2.0
// WorkerState: one rank's messages: its data report and start, its gradients and weights slice by
// slice, its reports and its end. The training loop itself belongs to the shell, which asks with
// PushWanted and PullWanted and is told with GradientTaken and WeightsReady. Pure state machine:
// events in, effects out. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/mail.h"
#include "actors/outbox.h"

namespace troupe::actors {

/// A rank, in one generation of a job.
class WorkerState {
 public:
  using Event = WorkerEvent;
  using Effect = WorkerEffect;

  /// `plan` must outlive it.
  WorkerState(const JobPlan& plan, std::uint32_t rank);
  WorkerState(const WorkerState&) = delete;
  WorkerState& operator=(const WorkerState&) = delete;

  /// One event; what follows from it, in order. A key may be pushed again only after its
  /// GradientTaken, and pulled for one step at a time; both only after StartTraining.
  std::vector<Effect> handle(Event event);

  const MailCounters& mail_counters() const { return mail_.counters(); }
  /// What the rank waits for, for people.
  std::string waits_for() const;

 private:
  struct Pulling {
    std::uint64_t step = 0;
    std::size_t missing = 0;
    std::vector<base::Buffer> slices;
  };

  void on(Received& received);
  void on(const Tick& tick);
  void on(const DatasetChecked& checked);
  void on(const PushWanted& push);
  void on(const PullWanted& pull);
  void on(Report& report);
  void on(const Finish& finish);
  void open();
  void moved();
  void take(schemas::Envelope& envelope, const schemas::PushAck& ack);
  void take(schemas::Envelope& envelope, const schemas::WeightReply& reply);
  /// Spoken between ranks and servers in the other direction, among servers, or to servers alone.
  template <
      schemas::OneOf<schemas::GradientPush, schemas::PushQuery, schemas::WeightPull,
                     schemas::Finished, schemas::ShardCheckpoint, schemas::CheckpointReport,
                     schemas::CutQuery, schemas::ExtraCut, schemas::StepFacts, schemas::StepVerdict>
          Message>
  void take(schemas::Envelope&, const Message&) {}
  template <ForOthers Message>
  void take(schemas::Envelope&, const Message&) {}
  void finish_if_done();
  schemas::ActorId server() const;

  EffectList<Effect> effects_;
  Mail mail_;
  std::uint32_t rank_;
  Outbox<schemas::PushName> pushes_;
  Outbox<schemas::SliceId> pulls_;
  Outbox<std::uint64_t> finals_;                  // Finished; the job's end is its answer
  std::map<std::uint32_t, std::size_t> untaken_;  // by key: slices of its gradient still read
  std::map<std::uint32_t, Pulling> pulling_;      // by key
  std::optional<std::uint64_t> finished_;
  bool done_ = false;
};

}  // namespace troupe::actors
