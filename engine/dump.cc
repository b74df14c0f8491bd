// SPDX-License-Identifier: Apache-2.0
// Core::dump: what waits on what, one line per pending operation, oldest first.
#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core.h"
#include "engine/replay.h"

namespace troupe::engine {

namespace {

std::string_view kind_text(LaneKind kind) {
  switch (kind) {
    case LaneKind::compute:
      return "compute";
    case LaneKind::copy:
      return "copy";
    case LaneKind::priority:
      return "priority";
  }
  return "?";
}

std::string_view phase_text(OperationState& operation) {
  switch (operation.phase) {
    case OperationPhase::blocked:
      return operation.kind == OperationKind::replay && operation.replay->begun ? "waits for ports"
                                                                                : "waits for";
    case OperationPhase::awaiting_event:
      return "waits for its stream's event";
    case OperationPhase::ready:
      return "ready";
    case OperationPhase::running:
      return operation.kind == OperationKind::async && !operation.skipped &&
                     operation.parties.load(std::memory_order_relaxed) < 2
                 ? "waits for its completion"
                 : "running";
  }
  return "?";
}

/// Writes what pending operations wait for. Lives within one section of the core's mutex.
class Dump {
 public:
  /// Of the `count` oldest pending operations, from `oldest` on. Who holds what they wait for is
  /// older than they are, so it is among them.
  Dump(const std::vector<LaneInfo>& lanes, OperationState* oldest, std::uint64_t count)
      : lanes_(lanes) {
    OperationState* pending = oldest;
    for (; pending != nullptr && count > 0; pending = pending->next, --count) {
      add_holders(*pending);
      if (pending->kind != OperationKind::replay) continue;
      const Replay& replay = *pending->replay;
      for (std::size_t i = 0; i < replay.program.plan().ports.size(); ++i) {
        add_holders(replay.ports[i]);
      }
    }
  }

  std::string line(OperationState& operation) const;

 private:
  static constexpr std::size_t kHoldersMax = 3;
  struct Holder {
    const OperationState* operation = nullptr;
    bool writes = false;
  };

  void add_holders(OperationState& operation);
  void append_use(std::string& out, const Use& use) const;
  void append_ports(std::string& out, const Replay& replay) const;

  const std::vector<LaneInfo>& lanes_;
  /// Of each variable its oldest holders, and one more, which tells that there are others.
  std::unordered_map<const VariableState*, std::vector<Holder>> holders_;
};

void Dump::add_holders(OperationState& operation) {
  for (const Use& use : operation.uses()) {
    if (!use.granted) continue;
    std::vector<Holder>& holders = holders_[use.variable];
    if (holders.size() <= kHoldersMax) holders.push_back({&operation, use.write});
  }
}

// "w1 (to write), held by #3 add (reads), #4 mul (reads)"
void Dump::append_use(std::string& out, const Use& use) const {
  fmt::format_to(std::back_inserter(out), " '{}' (to {}), held by", use.variable->label,
                 use.write ? "write" : "read");
  const auto found = holders_.find(use.variable);
  const std::size_t count = found == holders_.end() ? 0 : found->second.size();
  for (std::size_t i = 0; i < std::min(count, kHoldersMax); ++i) {
    const Holder& holder = found->second[i];
    fmt::format_to(std::back_inserter(out), "{} #{} {} ({})", i > 0 ? "," : "",
                   holder.operation->serial, holder.operation->name,
                   holder.writes ? "writes" : "reads");
  }
  out += count > kHoldersMax ? " and others;" : ";";
}

// What a replay has done and which ports it waits for.
void Dump::append_ports(std::string& out, const Replay& replay) const {
  constexpr int kPortsMax = 8;
  const ReplayPlan& plan = replay.program.plan();
  fmt::format_to(std::back_inserter(out), "; {} of {} operations ended;", replay.ended,
                 plan.operations.size());
  std::size_t waiting = 0;
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    const OperationState& port = replay.ports[i];
    const bool event = port.phase == OperationPhase::awaiting_event;
    if (port.phase != OperationPhase::blocked && !event) continue;
    if (++waiting > kPortsMax) continue;
    out += waiting == 1 ? " without" : "";
    if (event) {
      fmt::format_to(std::back_inserter(out), " '{}' (its stream's event);",
                     port.inline_uses[0].variable->label);
    } else {
      append_use(out, port.inline_uses[0]);
    }
  }
  if (waiting > kPortsMax) {
    fmt::format_to(std::back_inserter(out), " and {} more ports", waiting - kPortsMax);
  }
}

std::string Dump::line(OperationState& operation) const {
  std::string out = fmt::format("#{} {}", operation.serial, operation.name);
  if (operation.lane >= 0) {
    const Lane& lane = lanes_[static_cast<std::size_t>(operation.lane)].lane;
    fmt::format_to(std::back_inserter(out), " [{} {}]", lane.device.to_string(),
                   kind_text(lane.kind));
  }
  fmt::format_to(std::back_inserter(out), ": {}", phase_text(operation));
  if (operation.kind == OperationKind::replay) append_ports(out, *operation.replay);
  if (operation.phase == OperationPhase::blocked) {
    for (const Use& use : operation.uses()) {
      if (!use.granted) append_use(out, use);
    }
  }
  return out;
}

}  // namespace

std::string first_lines(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  while (count > 0 && end < text.size()) {
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
    --count;
  }
  const auto left = std::count(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), '\n');
  std::string out(text.substr(0, end));
  return left == 0 ? out : out + fmt::format("{} more with --verbose\n", left);
}

std::string Core::dump() {
  if (!inbox_.empty()) settle_submissions();
  mutex_.lock();
  std::string out =
      fmt::format("{}: {} pending, {} asynchronous in flight{}\n", options_.thread_name, pending(),
                  counters_.asynchronous_in_flight, cancelled_ ? ", cancelled" : "");
  const Dump text(lanes_, first_, kDumpOperationsMax);
  std::uint64_t lines = 0;
  for (OperationState* operation = first_; operation != nullptr; operation = operation->next) {
    if (++lines > kDumpOperationsMax) {
      out += "and younger ones\n";
      break;
    }
    out += text.line(*operation);
    out += '\n';
  }
  mutex_.unlock();
  return out;
}

}  // namespace troupe::engine
