// SPDX-License-Identifier: Apache-2.0
// The figures of servers, for metrics: what a server has done and holds, and how long requests
// waited. Derived from the events that go into its state machine and the effects that come out of
// it, so the machine itself knows no clock. Plain values; one owner, one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/effects.h"
#include "actors/job_plan.h"

namespace troupe::actors {

/// What a device server has done. Bytes are payload bytes; a repeated push or reply counts as a
/// repetition, not again as traffic.
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

/// What a parameter server has done. Bytes are payload bytes.
struct ParameterServerCounters {
  std::uint64_t pushes = 0;  ///< taken
  std::uint64_t push_bytes = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t not_ready = 0;
  std::uint64_t replies = 0;
  std::uint64_t reply_bytes = 0;
  std::uint64_t updates = 0;
  std::uint64_t additions = 0;
};

/// What a server holds now.
struct ServerHoldings {
  std::uint64_t pending_pushes = 0;  ///< received, not answered
  std::uint64_t keys = 0;            ///< with at least one slice here
  std::uint64_t store_bytes = 0;     ///< of weights, and at their owner of optimizer slots
  std::uint64_t version = 0;         ///< lowest of all slices; 0 before the first values
};

/// A time has ended: of a request until its answer, or of a round of pushes from first to last.
struct Spent {
  enum class What : std::uint8_t { push, pull, round };
  What what = What::push;
  std::int64_t ns = 0;
};

/// Weights were handed to a rank: t - 1 less the lowest step applied of any member, in steps.
struct Staleness {
  std::uint32_t level = 1;  ///< 1: ranks of the machine; 2: machines
  std::uint64_t steps = 0;
};

/// Takes single figures as they come; either may be empty.
struct FigureSinks {
  std::function<void(const Spent&)> spent = {};
  std::function<void(const Staleness&)> staleness = {};
};

/// The lowest version of a server's slices. Looks at all of them only when the last one leaves the
/// lowest version.
class LowestVersion {
 public:
  /// `slices` of version 0.
  explicit LowestVersion(std::size_t slices) : versions_(slices, 0), at_lowest_(slices) {}
  /// Versions only grow; a lower one is ignored.
  void set(std::size_t slice, std::uint64_t version) {
    if (version <= versions_[slice]) return;
    const bool was_lowest = versions_[slice] == lowest_;
    versions_[slice] = version;
    if (!was_lowest || --at_lowest_ > 0) return;
    lowest_ = *std::min_element(versions_.begin(), versions_.end());
    at_lowest_ = static_cast<std::size_t>(std::count(versions_.begin(), versions_.end(), lowest_));
  }
  std::uint64_t lowest() const { return lowest_; }

 private:
  std::vector<std::uint64_t> versions_;
  std::size_t at_lowest_ = 0;
  std::uint64_t lowest_ = 0;
};

/// From the first push of a round to the last.
struct PushRound {
  std::uint64_t step = 0;
  std::uint64_t pushes = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;

  void add(std::int64_t now_ns) {
    if (pushes++ == 0) first_ns = now_ns;
    last_ns = now_ns;
  }
  std::int64_t spread_ns() const { return last_ns - first_ns; }
};

/// Of one device server. Call arriving(), then the machine, then leaving() with its effects; times
/// are of any steady clock, in ns.
class DeviceFigures {
 public:
  /// `plan` must outlive it.
  DeviceFigures(const JobPlan& plan, std::uint32_t machine, FigureSinks sinks = {});

  void arriving(const ServerEvent& event, std::int64_t now_ns);
  void leaving(const std::vector<DeviceEffect>& effects, std::int64_t now_ns);
  const DeviceServerCounters& counters() const { return counters_; }
  ServerHoldings holdings() const;

 private:
  struct Request {
    schemas::SliceId slice;
    std::uint32_t rank = 0;
    friend auto operator<=>(const Request&, const Request&) = default;
  };
  struct Push {
    std::int64_t since_ns = 0;
    std::uint64_t bytes = 0;
  };
  struct Pull {
    std::optional<std::uint64_t> step = {};     // absent: none yet
    std::optional<std::int64_t> since_ns = {};  // absent: answered
  };

  void arrived(const schemas::Envelope& envelope, std::int64_t now_ns);
  void left(const schemas::Envelope& envelope, std::int64_t now_ns);
  void pushed(const schemas::Envelope& envelope, const schemas::GradientPush& push,
              std::int64_t now_ns);
  void answered(std::uint32_t rank, const schemas::PushAck& ack, std::int64_t now_ns);
  void handed(const schemas::Envelope& envelope, const schemas::WeightReply& reply,
              std::int64_t now_ns);
  void tell(Spent::What what, std::int64_t ns) const;

  const JobPlan& plan_;
  const std::uint32_t machine_;
  const FigureSinks sinks_;
  std::set<std::uint32_t> ranks_;  // of the machine, once placed
  DeviceServerCounters counters_;
  std::map<std::pair<Request, std::uint64_t>, Push> pushes_;  // not answered; with the step
  std::map<Request, Pull> pulls_;                             // the last of each
  std::set<schemas::PushName> owner_pushes_;                  // not acknowledged
  std::map<schemas::SliceId, PushRound> rounds_;
  std::map<schemas::SliceId, std::uint64_t> held_bytes_;  // of weights
  std::uint64_t store_bytes_ = 0;
  LowestVersion version_;  // slices by position
};

/// Of one parameter server; used like DeviceFigures.
class ParameterFigures {
 public:
  /// `plan` must outlive it.
  ParameterFigures(const JobPlan& plan, std::uint32_t shard, FigureSinks sinks = {});

  void arriving(const ServerEvent& event, std::int64_t now_ns);
  void leaving(const std::vector<ParameterEffect>& effects, std::int64_t now_ns);
  const ParameterServerCounters& counters() const { return counters_; }
  /// A version that a round without samples made counts from when somebody is given it.
  ServerHoldings holdings() const;

 private:
  struct Push {
    std::int64_t since_ns = 0;
    std::uint64_t bytes = 0;
  };
  /// The newest of a machine, which may ask for it again, also when the answer is under way.
  struct Pull {
    schemas::WeightPull name;
    std::int64_t since_ns = 0;
    bool answered = false;
  };

  void arrived(const schemas::Envelope& envelope, std::int64_t now_ns);
  void left(const schemas::Envelope& envelope, std::int64_t now_ns);
  void answered(std::uint32_t machine, const schemas::PushAck& ack, std::int64_t now_ns);
  void replied(std::uint32_t machine, const schemas::WeightReply& reply, std::int64_t now_ns);
  void updating(const Update& update);
  void ended(const EffectDone& done);
  void tell(Spent::What what, std::int64_t ns) const;

  const JobPlan& plan_;
  const FigureSinks sinks_;
  const std::map<schemas::SliceId, std::size_t> index_;  // of the shard's slices
  std::uint64_t keys_ = 0;
  LowestVersion version_;
  std::map<EffectId, std::pair<std::size_t, std::uint64_t>> running_;  // slice, version
  ParameterServerCounters counters_;
  std::uint64_t store_bytes_ = 0;
  std::map<schemas::PushName, Push> pushes_;                          // not answered
  std::map<std::pair<std::uint32_t, schemas::SliceId>, Pull> pulls_;  // by machine and slice
  std::map<schemas::SliceId, PushRound> rounds_;
};

}  // namespace troupe::actors
