// SPDX-License-Identifier: Apache-2.0
// Bugs that the simulator can plant around the state machines, so that the checker is checked. None
// of them exists in production code: each bends a message or an effect on its way. Plain values.
#pragma once

#include <array>
#include <string_view>

namespace troupe::sim {

enum class Bug {
  none,
  double_application,   ///< some updates run twice
  early_ack,            ///< ranks are told `taken` when their gradient has only arrived
  arrival_order,        ///< single ranks' sums are named in order of arrival
  torn_version,         ///< a key's second slice comes with the bytes of an older version
  lost_push,            ///< one sum is acknowledged and forgotten
  forgotten_slice,      ///< checkpoints lack a slice
  stuck_credit,         ///< shards never hear that a checkpoint is settled
  ignored_bound,        ///< owners are asked without the bound of staleness
  open_barrier,         ///< owners are asked for any version where a barrier's is meant
  unscaled_rate,        ///< eventual contributions move the weights by the whole rate
  late_at_full_rate,    ///< a late contribution moves them as if it were not
  overwritten_version,  ///< the updater writes into the published buffer
  timed_repetition,     ///< pushes and pulls without an answer are sent again after a while
  dropping_queue,       ///< what a link's queue has no room for is dropped
  silent_resumption,    ///< nobody is told that a link goes on after a cut
  early_cut,            ///< a device server says that its ranks have begun nothing
  torn_cut,             ///< one shard is told of a cut out of turn one step too late
  running_on,           ///< ranks go on behind the cut with which their run is to end
  torn_verdict          ///< one shard drops a step that counts for the others
};

inline constexpr std::array kBugs{
    Bug::double_application, Bug::early_ack,       Bug::arrival_order,     Bug::torn_version,
    Bug::lost_push,          Bug::forgotten_slice, Bug::stuck_credit,      Bug::ignored_bound,
    Bug::open_barrier,       Bug::unscaled_rate,   Bug::late_at_full_rate, Bug::overwritten_version,
    Bug::timed_repetition,   Bug::dropping_queue,  Bug::silent_resumption, Bug::early_cut,
    Bug::torn_cut,           Bug::running_on,      Bug::torn_verdict};

constexpr std::string_view bug_name(Bug bug) {
  constexpr std::array<std::string_view, 20> names{"none",
                                                   "double application",
                                                   "early acknowledgement",
                                                   "arrival-order sum",
                                                   "torn version",
                                                   "lost push",
                                                   "forgotten slice",
                                                   "stuck credit",
                                                   "ignored bound",
                                                   "open barrier",
                                                   "unscaled rate",
                                                   "late at full rate",
                                                   "overwritten version",
                                                   "timed repetition",
                                                   "dropping queue",
                                                   "silent resumption",
                                                   "early cut",
                                                   "torn cut",
                                                   "running on",
                                                   "torn verdict"};
  return names[static_cast<std::size_t>(bug)];
}

}  // namespace troupe::sim
