// SPDX-License-Identifier: Apache-2.0
// Compiling a recording, and finding the next operation of a replay.
#include "engine/replay_plan.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe::engine {

namespace {

/// The operations that used a slot last.
struct LastUses {
  std::uint32_t writer = ReplayProgress::kNone;
  std::vector<std::uint32_t> readers;
};

void add_uses(std::vector<SlotUse>& uses, std::size_t begin, const std::vector<Slot>& slots,
              SlotUse use) {
  for (const Slot slot : slots) {
    const auto first = uses.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto found = std::find_if(
        first, uses.end(), [&](const SlotUse& known) { return known.slot == slot.number; });
    if (found == uses.end()) {
      use.slot = slot.number;
      uses.push_back(use);
      continue;
    }
    found->reads |= use.reads;
    if (use.write) found->overwrites &= use.overwrites;
  }
}

/// Which operations the next user of a slot waits for.
void add_before(std::vector<std::uint32_t>& before, LastUses& last, bool write,
                std::uint32_t operation) {
  const bool behind_readers = write && !last.readers.empty();  // who wait for the writer
  if (behind_readers) {
    before.insert(before.end(), last.readers.begin(), last.readers.end());
  } else if (last.writer != ReplayProgress::kNone) {
    before.push_back(last.writer);
  }
  if (write) {
    last.writer = operation;
    last.readers.clear();
  } else {
    last.readers.push_back(operation);
  }
}

/// Joins lists into one and gives their places.
std::vector<Range> join(const std::vector<std::vector<std::uint32_t>>& lists,
                        std::vector<std::uint32_t>& joined) {
  std::vector<Range> ranges;
  for (const std::vector<std::uint32_t>& list : lists) {
    const auto begin = static_cast<std::uint32_t>(joined.size());
    joined.insert(joined.end(), list.begin(), list.end());
    ranges.push_back({begin, static_cast<std::uint32_t>(joined.size())});
  }
  return ranges;
}

}  // namespace

ReplayPlan::ReplayPlan(Recording& recording) : slot_count(recording.slots().size()) {
  using Lists = std::vector<std::vector<std::uint32_t>>;
  const std::size_t count = recording.operations().size();
  Lists before(count);
  Lists after(count);
  Lists ports_of(count);
  Lists users;
  std::vector<LastUses> last(slot_count);
  std::vector<std::uint32_t> numbers(recording.ports().size(), ReplayProgress::kNone);
  for (std::uint32_t i = 0; i < count; ++i) {
    InnerOperation& recorded = recording.operations()[i];
    PlannedOperation& operation = operations.emplace_back();
    operation.name = std::move(recorded.name);
    operation.function = std::move(recorded.function);
    operation.uses.begin = static_cast<std::uint32_t>(uses.size());
    add_uses(uses, operation.uses.begin, recorded.overwrites,
             {.write = true, .reads = false, .overwrites = true});
    add_uses(uses, operation.uses.begin, recorded.writes, {.write = true});
    add_uses(uses, operation.uses.begin, recorded.reads, {.reads = true});
    operation.uses.end = static_cast<std::uint32_t>(uses.size());
    for (const SlotUse& use : part(uses, operation.uses)) {
      add_before(before[i], last[use.slot], use.write, i);
      const int variable = recording.slots()[use.slot];
      if (variable < 0) continue;
      std::uint32_t& port = numbers[static_cast<std::size_t>(variable)];
      if (port == ReplayProgress::kNone) {
        port = static_cast<std::uint32_t>(ports.size());
        ports.push_back({.slot = use.slot, .variable = static_cast<std::uint32_t>(variable)});
        users.emplace_back();
      }
      ports[port].write |= use.write;
      users[port].push_back(i);
      ports_of[i].push_back(port);
    }
    std::sort(before[i].begin(), before[i].end());
    before[i].erase(std::unique(before[i].begin(), before[i].end()), before[i].end());
    for (const std::uint32_t earlier : before[i]) after[earlier].push_back(i);
  }
  const std::vector<Range> befores = join(before, edges);
  const std::vector<Range> afters = join(after, edges);
  const std::vector<Range> port_ranges = join(ports_of, port_list);
  const std::vector<Range> user_ranges = join(users, user_list);
  for (std::size_t i = 0; i < count; ++i) {
    operations[i].before = befores[i];
    operations[i].after = afters[i];
    operations[i].ports = port_ranges[i];
  }
  for (std::size_t p = 0; p < ports.size(); ++p) ports[p].users = user_ranges[p];
}

ReplayProgress::ReplayProgress(const ReplayPlan& plan)
    : plan_(plan),
      users_left_(plan.ports.size()),
      deferred_(plan.operations.size()),
      unmet_(plan.operations.size()),
      failures_(plan.slot_count) {}

void ReplayProgress::begin() {
  cursor_ = 0;
  left_ = static_cast<std::uint32_t>(plan_.operations.size());
  ungranted_ = static_cast<std::uint32_t>(plan_.ports.size());
  granted_.assign(plan_.ports.size(), false);
  for (std::size_t p = 0; p < plan_.ports.size(); ++p) {
    users_left_[p] = plan_.ports[p].users.end - plan_.ports[p].users.begin;
  }
  if (!std::exchange(has_failures_, false)) return;
  for (std::shared_ptr<Failure>& failure : failures_) failure.reset();
}

void ReplayProgress::settle_one(std::uint32_t operation) {
  if (--unmet_[operation] > 0) return;
  runnable_.push_back(operation);
  std::push_heap(runnable_.begin(), runnable_.end(), std::greater<>());
}

void ReplayProgress::grant(std::uint32_t port, std::shared_ptr<Failure> failure) {
  granted_[port] = true;
  --ungranted_;
  if (failure) {
    has_failures_ = true;
    failures_[plan_.ports[port].slot] = std::move(failure);
  }
  if (deferred_count_ == 0) return;
  for (const std::uint32_t user : ReplayPlan::part(plan_.user_list, plan_.ports[port].users)) {
    if (deferred_[user] != 0) settle_one(user);
  }
}

bool ReplayProgress::runs_now(std::uint32_t index) {
  const PlannedOperation& operation = plan_.operations[index];
  std::uint32_t unmet = 0;
  for (const std::uint32_t port : plan_.ports_of(operation)) unmet += granted_[port] ? 0 : 1;
  if (deferred_count_ > 0) {
    for (const std::uint32_t earlier : ReplayPlan::part(plan_.edges, operation.before)) {
      unmet += deferred_[earlier];
    }
  }
  if (unmet == 0) return true;
  deferred_[index] = 1;
  unmet_[index] = unmet;
  ++deferred_count_;
  return false;
}

std::uint32_t ReplayProgress::next() {
  if (!runnable_.empty()) {
    std::pop_heap(runnable_.begin(), runnable_.end(), std::greater<>());
    const std::uint32_t operation = runnable_.back();
    runnable_.pop_back();
    return operation;
  }
  const auto count = static_cast<std::uint32_t>(plan_.operations.size());
  while (cursor_ < count) {
    const std::uint32_t operation = cursor_++;
    if ((ungranted_ == 0 && deferred_count_ == 0) || runs_now(operation)) return operation;
  }
  return kNone;
}

void ReplayProgress::end(std::uint32_t index) {
  --left_;
  const PlannedOperation& operation = plan_.operations[index];
  if (deferred_count_ > 0 && deferred_[index] != 0) {
    deferred_[index] = 0;
    --deferred_count_;
    for (const std::uint32_t later : ReplayPlan::part(plan_.edges, operation.after)) {
      if (deferred_[later] != 0) settle_one(later);
    }
  }
  for (const std::uint32_t port : plan_.ports_of(operation)) {
    if (--users_left_[port] == 0) released_.push_back(port);
  }
}

const std::shared_ptr<Failure>* ReplayProgress::inherited(const PlannedOperation& operation) const {
  for (const SlotUse& use : ReplayPlan::part(plan_.uses, operation.uses)) {
    const std::shared_ptr<Failure>& carried = failures_[use.slot];
    if (carried && (use.reads || !use.overwrites)) return &carried;
  }
  return nullptr;
}

void ReplayProgress::spread(const PlannedOperation& operation,
                            const std::shared_ptr<Failure>& failure) {
  has_failures_ = has_failures_ || failure;
  for (const SlotUse& use : ReplayPlan::part(plan_.uses, operation.uses)) {
    if (!use.write) continue;
    std::shared_ptr<Failure>& carried = failures_[use.slot];
    if (carried && !use.overwrites) continue;  // the first error stays
    if (carried || failure) carried = failure;
  }
}

}  // namespace troupe::engine
