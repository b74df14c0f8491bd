// SPDX-License-Identifier: Apache-2.0
// The coordinator of a closed cluster (closed_cluster.h): jobs that wait in vain fail.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "control/coordinator_state.h"

namespace troupe::control {

/// Without room now, bound to `model` if that is not empty. `shortage`: what the job wants, and
/// what there is.
void CoordinatorState::wait_for_room(Job& job, const ClosedCluster& closed,
                                     const Capacity& capacity, const std::string& model,
                                     const std::string& shortage) {
  if (closed.expected == 0) return defer(job, "waits for " + shortage);
  if (capacity.holds(job.spec, model, &Room::all)) {
    job.short_since_ms.reset();
  } else if (!job.short_since_ms) {
    job.short_since_ms = now_ms_;
  }
  const std::uint64_t short_ms = now_ms_ - job.short_since_ms.value_or(now_ms_);
  if (!closed.in_vain(capacity, job.spec, model, short_ms, options_.limits.join_wait_ms)) {
    return defer(job, "waits for " + shortage + closed.missing());
  }
  pending_.erase(job.number);
  job.info.phase = schemas::JobPhase::failed;
  job.info.no_room = true;
  std::string text = fmt::format("no room: it needs {}{}", shortage, closed.missing());
  if (!job.info.checkpoint.empty()) text += "; it would go on from " + job.info.checkpoint;
  job.info.text = base::shortened(text, kNoteBytesMax);
  emit(Note{true, fmt::format("job {} failed: {}", job.info.id, job.info.text)});
  changed_.insert(job.number);
}

/// Time alone changes nothing but for a job whose patience is over.
void CoordinatorState::look_at_patience() {
  slots_changed_ |= std::ranges::any_of(pending_, [this](const std::uint64_t number) {
    const auto since_ms = jobs_.at(number).short_since_ms;
    return since_ms && now_ms_ - *since_ms >= options_.limits.join_wait_ms;
  });
}

}  // namespace troupe::control
