// SPDX-License-Identifier: Apache-2.0
// GpuSlots: the GPU slots of one agent, by their position in its greeting: which of them a rank
// has, and which are of GPUs that the agent has lost. Pure; one owner.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "control/rank_placement.h"
#include "schemas/offer_messages.h"

namespace troupe::control {

/// "2 slots", "2 slots and 4 GPUs", "4 GPUs": what an agent offers.
std::string offer_text(std::uint32_t slots, std::size_t gpus);

/// "GPU 3: it has fallen off the bus; GPU 5: ...".
std::string lost_text(const std::vector<schemas::LostGpu>& lost);

/// invalid_argument for a GPU that no machine can have, or that an agent describes in two ways, or
/// with words that a terminal would obey. Names the agent and the value.
base::Status check_gpus(const std::string& agent, const std::vector<schemas::GpuOffer>& gpus);

/// See the top of the file.
class GpuSlots {
 public:
  GpuSlots() = default;
  /// Of an offer that check_gpus() has taken.
  explicit GpuSlots(std::vector<schemas::GpuOffer> gpus);

  const std::vector<schemas::GpuOffer>& all() const { return gpus_; }
  /// Slots that a rank has, of lost GPUs too.
  std::uint32_t used() const;
  /// Slots of lost GPUs that no rank has.
  std::uint32_t lost_unused() const;
  /// GPUs of this agent that are lost, by index.
  const std::vector<schemas::LostGpu>& lost() const { return lost_; }
  /// The GPU of each slot that is not of a lost one.
  std::vector<schemas::GpuOffer> in_service() const;
  /// Slots that a rank can have, by position.
  std::vector<FreeGpu> free() const;

  /// A rank has this slot, which no other one has.
  void take(const GpuPlace& place);
  /// It has it no more.
  void give_back(const GpuPlace& place);
  /// From now on these are lost and no others; what an agent says of GPUs that it does not offer
  /// means nothing. Their words become short and plain. Returns whether that is a change.
  bool lose(const std::vector<schemas::LostGpu>& lost);

 private:
  bool is_lost(std::uint32_t index) const;

  std::vector<schemas::GpuOffer> gpus_;
  std::vector<bool> used_;  // by position
  std::vector<schemas::LostGpu> lost_;
};

}  // namespace troupe::control
