// SPDX-License-Identifier: Apache-2.0
// Core::dump: what waits on what, one line per pending operation, oldest first.
#include <algorithm>
#include <iterator>
#include <string>

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

// "w1 (to write), held by #3 add (reads), #4 mul (reads)"
void append_use(std::string& out, const Use& use) {
  constexpr int kHoldersMax = 3;
  fmt::format_to(std::back_inserter(out), " '{}' (to {}), held by", use.variable->label,
                 use.write ? "write" : "read");
  int holders = 0;
  for (const Use* held = use.variable->first; held != nullptr && held->granted; held = held->next) {
    if (++holders > kHoldersMax) {
      out += " and others";
      break;
    }
    fmt::format_to(std::back_inserter(out), "{} #{} {} ({})", holders > 1 ? "," : "",
                   held->operation->serial, held->operation->name,
                   held->write ? "writes" : "reads");
  }
  out += ';';
}

// What a replay has done and which ports it waits for.
void append_ports(std::string& out, const Replay& replay) {
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

}  // namespace

std::string Core::dump_line(OperationState& operation) const {
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
  std::uint64_t lines = 0;
  for (OperationState* operation = first_; operation != nullptr; operation = operation->next) {
    if (++lines > kDumpOperationsMax) {
      out += "and younger ones\n";
      break;
    }
    out += dump_line(*operation);
    out += '\n';
  }
  mutex_.unlock();
  return out;
}

}  // namespace troupe::engine
