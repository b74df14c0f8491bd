// SPDX-License-Identifier: Apache-2.0
// BackgroundCalls: blocking calls on folders that may be slow or dead, beside threads that must not
// wait for them. Calls of different keys run side by side on a few threads, which come and go with
// the work; calls of one key run one after the other, and few of one group. A call that hangs is
// left alone with what it holds: everything that its thread touches outlives the owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::cluster {

/// See the top of the file.
class BackgroundCalls {
 public:
  /// So many run at a time: so many dead folders are needed to hold up the others.
  static constexpr std::size_t kThreadsMax = 8;
  /// So many of one group: whose folders are dead holds up no other group.
  static constexpr std::size_t kGroupThreadsMax = 2;

  /// Tells the result of a call; runs on the call's thread while the owner is alive.
  using Report = std::function<void()>;
  /// Does the work; may take long, and may outlive the owner, so it refers to nothing of it. What
  /// the report that it gives refers to is the owner's affair.
  using Call = std::function<Report()>;
  /// Which call it is, and whose.
  struct Turn {
    std::string key;
    std::string group = {};  ///< on whose behalf; empty: a group of its own
    /// Runs as reports do, whenever the turn of a call that waits has come nearer or has come:
    /// whoever waits for the call may go on waiting.
    Report moves = {};
  };

  /// `name` and a key make up what the log calls a call that does not end. At most `waiting_max`
  /// calls wait, half of them of one group; the destructor gives those that run `patience_ms`.
  /// `group_max` of a group run at a time.
  BackgroundCalls(std::string name, std::size_t waiting_max, std::uint64_t patience_ms,
                  std::size_t group_max = kGroupThreadsMax);
  /// Forgets the calls that wait; what they hold goes beside the caller, too, which may be long.
  /// One that does not end in time is left alone, and its report never runs. Afterwards no report
  /// is running or will run.
  ~BackgroundCalls();
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;

  /// Only the newest call of a key counts: it takes the place of one that waits, and one that runs
  /// goes unreported. False when too many wait or the system has no thread left: nothing will be
  /// told of this one. Any thread, a report's too. What a call holds goes when it has run or
  /// another one has taken its place.
  bool add(Turn turn, Call call);

 private:
  struct Shared;
  struct Keyed;
  static void run(const std::shared_ptr<Shared>& shared, Keyed now);

  const std::size_t waiting_max_;
  const std::uint64_t patience_ms_;
  const std::shared_ptr<Shared> shared_;  // with the threads, which may outlive this object
};

}  // namespace troupe::cluster
