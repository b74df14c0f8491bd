// SPDX-License-Identifier: Apache-2.0
// Who uses a variable, and queues of who waits for it. Granted uses are counted and not queued: a
// release changes one counter, and no neighbours in a queue.
#include "engine/graph.h"

#include <algorithm>
#include <utility>

namespace troupe::engine {

VariableState* DependencyGraph::take_variable() {
  if (free_variables_ == nullptr) {
    variable_chunks_.push_back(std::make_unique<VariableState[]>(kChunk));
    for (std::size_t i = kChunk; i-- > 0;) {
      VariableState& fresh = variable_chunks_.back()[i];
      fresh.link = std::exchange(free_variables_, &fresh);
    }
  }
  return std::exchange(free_variables_, free_variables_->link);
}

std::shared_ptr<Core> DependencyGraph::orphan(VariableState* variable) {
  std::shared_ptr<Core> core = std::move(variable->core);
  variable->orphaned = true;
  if (!variable->in_use()) free_variable(variable);
  return core;
}

void DependencyGraph::free_variable(VariableState* variable) {
  variable->label.clear();
  variable->version.store(0, std::memory_order_relaxed);
  variable->orphaned = false;
  variable->failure.reset();
  variable->written = {};
  variable->read.clear();
  variable->has_read_events = false;
  variable->named_by = 0;
  variable->link = std::exchange(free_variables_, variable);
}

void DependencyGraph::name_uses(OperationState* operation, const Operation& request) {
  const std::size_t uses_max =
      request.overwrites.size() + request.writes.size() + request.reads.size();
  const bool outside = uses_max > OperationState::kInlineUses;
  if (outside && operation->more_uses.size() < uses_max) operation->more_uses.resize(uses_max);
  Use* const begin = outside ? operation->more_uses.data() : operation->inline_uses.data();
  std::span<Use> uses(begin, 0);
  for (const Variable& variable : request.overwrites) {
    uses = name_use(uses, variable.state(), Access::overwrite, operation->serial);
  }
  for (const Variable& variable : request.writes) {
    uses = name_use(uses, variable.state(), Access::write, operation->serial);
  }
  for (const Variable& variable : request.reads) {
    uses = name_use(uses, variable.state(), Access::read, operation->serial);
  }
  operation->use_count = static_cast<std::uint32_t>(uses.size());
  if (outside && uses.size() <= OperationState::kInlineUses) {
    std::copy(uses.begin(), uses.end(), operation->inline_uses.begin());
  }
}

std::span<Use> DependencyGraph::name_use(std::span<Use> uses, VariableState* variable,
                                         Access access, std::uint64_t serial) {
  if (variable->named_by == serial) {
    name_again(uses, variable, access);
    return uses;
  }
  const bool write = access != Access::read;
  variable->named_by = serial;
  Use& use = *(uses.data() + uses.size());
  use.variable = variable;
  use.write = write;
  use.reads = !write;
  use.overwrites = access == Access::overwrite;
  if (write) raise_version(variable);
  return {uses.data(), uses.size() + 1};
}

// Writes come first: a later mention finds its own write.
void DependencyGraph::name_again(std::span<Use> uses, const VariableState* variable,
                                 Access access) {
  Use& known = *std::find_if(uses.begin(), uses.end(),
                             [&](const Use& use) { return use.variable == variable; });
  known.reads |= access == Access::read;
  known.overwrites &= access != Access::write;
}

void DependencyGraph::raise_version(VariableState* variable) {
  const std::uint64_t version = variable->version.load(std::memory_order_relaxed);
  variable->version.store(version + 1, std::memory_order_relaxed);  // pushers take turns
}

void DependencyGraph::give_on(VariableState* variable, OperationList& unblocked) {
  variable->writing = variable->first->write;
  if (variable->writing) {
    grant_first(variable, unblocked);
    return;
  }
  while (variable->first != nullptr && !variable->first->write) {
    ++variable->readers;
    grant_first(variable, unblocked);
  }
}

const std::shared_ptr<Failure>* DependencyGraph::find_inherited(OperationState* operation) {
  for (const Use& use : operation->uses()) {
    if (use.variable->failure && (use.reads || !use.overwrites)) return &use.variable->failure;
  }
  return nullptr;
}

void DependencyGraph::spread(OperationState* operation, const std::shared_ptr<Failure>& failure) {
  for (const Use& use : operation->uses()) {
    if (!use.write) continue;
    if (use.variable->failure && !use.overwrites) continue;  // the first error stays
    carry(use.variable, failure);
  }
}

void DependencyGraph::carry(VariableState* variable, const std::shared_ptr<Failure>& failure) {
  if (!failure && !variable->failure) return;
  carries_ = true;
  variable->failure = failure;
}

void DependencyGraph::absorb(VariableState* variable) {
  const base::Status status = variable->written.event->wait_on_host();
  variable->written = {};
  if (status.ok() || variable->failure) return;
  variable->failure = std::make_shared<Failure>(Failure{status});
  stream_failures_.push_back(variable->failure);
}

bool DependencyGraph::find_host_event(OperationState* operation) {
  for (const Use& use : operation->uses()) {
    VariableState& variable = *use.variable;
    if (variable.written.event) {
      if (!variable.written.event->passed()) {
        operation->event = variable.written;
        return true;
      }
      absorb(&variable);
    }
    while (use.write && variable.has_read_events) {
      if (!variable.read.back().event->passed()) {
        operation->event = variable.read.back();
        return true;
      }
      variable.read.pop_back();
      variable.has_read_events = !variable.read.empty();
    }
  }
  return false;
}

void DependencyGraph::stream_events(OperationState* operation,
                                    std::vector<std::shared_ptr<base::Event>>& events) {
  events.clear();
  auto add = [&](const PendingEvent& pending) {
    if (pending.lane == operation->lane || pending.event->passed()) return;
    if (std::find(events.begin(), events.end(), pending.event) != events.end()) return;
    events.push_back(pending.event);
  };
  for (const Use& use : operation->uses()) {
    VariableState& variable = *use.variable;
    if (variable.written.event && variable.written.lane != operation->lane) {
      add(variable.written);
      if (variable.written.event->passed()) absorb(&variable);
    }
    if (!use.write) continue;
    for (const PendingEvent& pending : variable.read) add(pending);
  }
}

void DependencyGraph::record_event(OperationState* operation) {
  const PendingEvent& event = operation->event;
  carries_ = true;
  for (const Use& use : operation->uses()) {
    VariableState& variable = *use.variable;
    if (use.write) {
      variable.written = event;
      variable.read.clear();
      variable.has_read_events = false;
      continue;
    }
    variable.has_read_events = true;
    auto same_lane = std::find_if(variable.read.begin(), variable.read.end(),
                                  [&](const PendingEvent& p) { return p.lane == event.lane; });
    if (same_lane == variable.read.end()) {
      variable.read.push_back(event);
    } else {
      same_lane->event = event.event;
    }
  }
}

void DependencyGraph::absorb_passed_events() {
  for (const auto& chunk : variable_chunks_) {
    for (VariableState& variable : std::span(chunk.get(), kChunk)) {
      if (variable.written.event && variable.written.event->passed()) absorb(&variable);
    }
  }
}

}  // namespace troupe::engine
