// SPDX-License-Identifier: Apache-2.0
// The barrier between a slice's gradients and its weights.
#include "actors/device_slice.h"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::actors {

DeviceSlice::DeviceSlice(const store::SliceRules& rules, std::uint32_t machine, schemas::SliceId id)
    : rules_(&rules),
      id_(id),
      ranks_(rules.ranks_of_machine(machine)),
      gather_(make_gather(rules, machine)),
      weights_(rules, machine, id) {}

bool DeviceSlice::beyond_barrier(std::uint64_t step) const {
  if (rules_->sequential()) return false;
  return !weights_.barrier_known() || rules_->steps.barrier_at(step) > weights_.barrier_reached();
}

void DeviceSlice::push(RankPush push) {
  if (beyond_barrier(push.step)) {
    weights_.require_barrier(rules_->steps.barrier_at(push.step));
    blocked_.try_emplace(push.rank, std::move(push));
    return;
  }
  gather_->push(std::move(push));
  std::uint64_t arrived = store::kNoStep;
  for (const std::uint32_t rank : ranks_) arrived = std::min(arrived, gather_->arrived(rank));
  weights_.passed(arrived);
}

std::optional<store::SlicePush> DeviceSlice::next_push(bool blocked) {
  OwnerView view = weights_.owner(*gather_);
  view.blocked = blocked;
  return gather_->next_push(view);
}

void DeviceSlice::want(std::uint32_t rank, std::uint64_t step) {
  // A rank that has gone on from weights it was given asks for them no more: this is an echo.
  if (weights_.handed(rank, step) && gather_->arrived(rank) > step) return;
  weights_.want(rank, step);
}

base::Status DeviceSlice::replied(const schemas::WeightReply& reply, const base::Buffer& weight) {
  TROUPE_TRY(weights_.replied(reply, weight, *gather_));
  for (auto& [rank, push] : std::exchange(blocked_, {})) this->push(std::move(push));
  return {};
}

std::string DeviceSlice::waits_for() const {
  const std::string name = fmt::format("slice ({}, {})", id_.key, id_.slice);
  if (!weights_.waiting().empty()) {
    const auto& [rank, step] = *weights_.waiting().begin();
    return fmt::format("{}: rank {} waits for its owner's weights of step {}", name, rank, step);
  }
  return fmt::format("{} waits for gradients of ranks {}", name,
                     fmt::join(gather_->missing(), ", "));
}

}  // namespace troupe::actors
