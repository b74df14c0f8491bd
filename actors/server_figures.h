// SPDX-License-Identifier: Apache-2.0
// What a server's state machine keeps for metrics beside its counters: what it holds, and since
// when requests wait. Plain values; times come from the events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe::actors {

/// What a server holds now.
struct ServerHoldings {
  std::uint64_t pending_pushes = 0;  ///< received, not answered
  std::uint64_t keys = 0;            ///< with at least one slice here
  std::uint64_t store_bytes = 0;     ///< of weights, and at their owner of optimizer slots
  std::uint64_t version = 0;         ///< lowest of all slices; 0 before the first values
};

/// The lowest version of a server's slices. Looks at all of them only when the last one leaves the
/// lowest version.
class LowestVersion {
 public:
  /// `slices` of version 0.
  void reset(std::size_t slices) {
    versions_.assign(slices, 0);
    at_lowest_ = slices;
    lowest_ = 0;
  }
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

/// Requests that wait for their answer, with the time of the first asking.
template <typename Name>
class OpenRequests {
 public:
  /// False: it waits already.
  bool open(const Name& name, std::int64_t now_ns) {
    return since_ns_.try_emplace(name, now_ns).second;
  }
  /// How long it has waited; nothing when it does not wait.
  std::optional<std::int64_t> close(const Name& name, std::int64_t now_ns) {
    const auto found = since_ns_.find(name);
    if (found == since_ns_.end()) return std::nullopt;
    const std::int64_t waited = now_ns - found->second;
    since_ns_.erase(found);
    return waited;
  }
  std::size_t size() const { return since_ns_.size(); }

 private:
  std::map<Name, std::int64_t> since_ns_;
};

/// A round of pushes: from the first to the last.
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

}  // namespace troupe::actors
