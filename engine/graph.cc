// SPDX-License-Identifier: Apache-2.0
// Queues of readers and writers. A queue holds every use that is not released, oldest first; the
// granted ones are a prefix: one write, or a run of reads.
#include "engine/graph.h"

#include <algorithm>
#include <utility>

namespace troupe::engine {

OperationState* DependencyGraph::take_operation() {
  if (free_operations_ == nullptr) {
    operation_chunks_.push_back(std::make_unique<OperationState[]>(kChunk));
    for (std::size_t i = kChunk; i-- > 0;) {
      OperationState& fresh = operation_chunks_.back()[i];
      fresh.link = std::exchange(free_operations_, &fresh);
    }
  }
  return std::exchange(free_operations_, free_operations_->link);
}

void DependencyGraph::recycle(OperationState* operation) {
  operation->use_count = 0;
  operation->blocked = 0;
  operation->bytes = 0;
  if (operation->inherited) operation->inherited.reset();
  if (operation->event.event) operation->event.event.reset();
  if (operation->ticket) operation->ticket.reset();
  if (!operation->outcome.ok()) operation->outcome = {};
  operation->waiter = nullptr;
  operation->link = std::exchange(free_operations_, operation);
}

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
  if (variable->first == nullptr) free_variable(variable);
  return core;
}

void DependencyGraph::free_variable(VariableState* variable) {
  variable->label.clear();
  variable->version.store(0, std::memory_order_relaxed);
  variable->orphaned = false;
  variable->failure.reset();
  variable->written = {};
  variable->read.clear();
  variable->link = std::exchange(free_variables_, variable);
}

bool DependencyGraph::append(OperationState* operation, const Operation& request) {
  const std::size_t uses_max =
      request.overwrites.size() + request.writes.size() + request.reads.size();
  const bool more = uses_max > OperationState::kInlineUses;
  if (more && operation->more_uses.size() < uses_max) operation->more_uses.resize(uses_max);
  Use* const begin = more ? operation->more_uses.data() : operation->inline_uses.data();
  Use* place = begin;
  // Writes first: a later mention of the same variable then finds its own write at the tail.
  for (const Variable& variable : request.overwrites) {
    place = add_use(operation, variable.state(), Access::overwrite, place);
  }
  for (const Variable& variable : request.writes) {
    place = add_use(operation, variable.state(), Access::write, place);
  }
  for (const Variable& variable : request.reads) {
    place = add_use(operation, variable.state(), Access::read, place);
  }
  operation->use_count = static_cast<std::uint32_t>(place - begin);
  operation->uses_outside = more;
  return operation->blocked == 0;
}

bool DependencyGraph::append(OperationState* operation, VariableState* variable, bool write) {
  add_use(operation, variable, write ? Access::write : Access::read, operation->inline_uses.data());
  operation->use_count = 1;
  operation->uses_outside = false;
  return operation->blocked == 0;
}

Use* DependencyGraph::add_use(OperationState* operation, VariableState* variable, Access access,
                              Use* place) {
  const bool write = access != Access::read;
  Use* const tail = variable->last;
  if (tail != nullptr && tail->operation == operation) {
    tail->reads |= !write;
    tail->overwrites &= access != Access::write;
    return place;
  }
  place->operation = operation;
  place->variable = variable;
  place->previous = tail;
  place->next = nullptr;
  place->write = write;
  place->reads = !write;
  place->overwrites = access == Access::overwrite;
  place->granted = tail == nullptr || (!write && !tail->write && tail->granted);
  if (!place->granted) ++operation->blocked;
  if (write) {
    const std::uint64_t version = variable->version.load(std::memory_order_relaxed);
    variable->version.store(version + 1, std::memory_order_relaxed);  // under the mutex
  }
  (tail == nullptr ? variable->first : tail->next) = place;
  variable->last = place;
  return place + 1;
}

void DependencyGraph::grant(Use* use, OperationList& unblocked) {
  use->granted = true;
  if (--use->operation->blocked == 0) unblocked.append(use->operation);
}

void DependencyGraph::unlink(Use* use, OperationList& unblocked) {
  VariableState* const variable = use->variable;
  (use->previous == nullptr ? variable->first : use->previous->next) = use->next;
  (use->next == nullptr ? variable->last : use->next->previous) = use->previous;
  Use* head = variable->first;
  if (head == nullptr) {
    if (variable->orphaned) free_variable(variable);
    return;
  }
  if (head->granted) return;  // readers that started with `use` still run
  if (head->write) {
    grant(head, unblocked);
    return;
  }
  for (; head != nullptr && !head->write; head = head->next) grant(head, unblocked);
}

void DependencyGraph::release(OperationState* operation, OperationList& unblocked) {
  for (Use& use : operation->uses()) unlink(&use, unblocked);
}

std::shared_ptr<Failure> DependencyGraph::inherited(OperationState* operation) {
  for (const Use& use : operation->uses()) {
    if (use.variable->failure && (use.reads || !use.overwrites)) return use.variable->failure;
  }
  return nullptr;
}

void DependencyGraph::settle_errors(OperationState* operation,
                                    const std::shared_ptr<Failure>& failure) {
  for (const Use& use : operation->uses()) {
    if (!use.write) continue;
    std::shared_ptr<Failure>& carried = use.variable->failure;
    if (carried && !use.overwrites) continue;  // the first error stays
    if (carried || failure) carried = failure;
  }
}

void DependencyGraph::absorb(VariableState* variable) {
  const base::Status status = variable->written.event->wait_on_host();
  variable->written = {};
  if (status.ok() || variable->failure) return;
  variable->failure = std::make_shared<Failure>(Failure{status});
  stream_failures_.push_back(variable->failure);
}

PendingEvent DependencyGraph::host_event(OperationState* operation) {
  for (const Use& use : operation->uses()) {
    VariableState& variable = *use.variable;
    if (variable.written.event) {
      if (!variable.written.event->passed()) return variable.written;
      absorb(&variable);
    }
    while (use.write && !variable.read.empty()) {
      if (!variable.read.back().event->passed()) return variable.read.back();
      variable.read.pop_back();
    }
  }
  return {};
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
  for (const Use& use : operation->uses()) {
    VariableState& variable = *use.variable;
    if (use.write) {
      variable.written = event;
      variable.read.clear();
      continue;
    }
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
