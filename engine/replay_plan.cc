// SPDX-License-Identifier: Apache-2.0
// Compiling a recording, and finding the next unit of a replay.
#include "engine/replay_plan.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe::engine {

namespace {

/// The units that used a slot last.
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

/// Which units the next user of a slot waits for.
void add_before(std::vector<std::uint32_t>& before, LastUses& last, bool write,
                std::uint32_t unit) {
  const bool behind_readers = write && !last.readers.empty();  // who wait for the writer
  if (behind_readers) {
    before.insert(before.end(), last.readers.begin(), last.readers.end());
  } else if (last.writer != ReplayProgress::kNone) {
    before.push_back(last.writer);
  }
  if (write) {
    last.writer = unit;
    last.readers.clear();
  } else {
    last.readers.push_back(unit);
  }
}

/// Whether `next` would replace what an operation of `unit` reads. Addresses of all operations of a
/// unit are made ready before the first of their functions runs.
bool overwrites_what_is_read(const Recording& recording, const InnerOperation& next,
                             const std::vector<LastUses>& last, std::uint32_t unit) {
  return std::any_of(next.overwrites.begin(), next.overwrites.end(), [&](const Slot slot) {
    const std::vector<std::uint32_t>& readers = last[slot.number].readers;
    return recording.slots()[slot.number] >= 0 && !readers.empty() && readers.back() == unit;
  });
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

void mark_quiet(std::vector<PlannedUnit>& units) {
  auto end = static_cast<std::uint32_t>(units.size());
  for (std::uint32_t i = end; i-- > 0;) {
    if (units[i].ports.begin < units[i].ports.end) end = i;
    units[i].quiet_end = end;
  }
}

}  // namespace

ReplayPlan::ReplayPlan(Recording& recording, bool in_units) : slot_count(recording.slots().size()) {
  using Lists = std::vector<std::vector<std::uint32_t>>;
  Lists before;
  Lists after;
  Lists ports_of;
  Lists users;
  std::vector<LastUses> last(slot_count);
  std::vector<std::uint32_t> numbers(recording.ports().size(), ReplayProgress::kNone);
  bool open = false;  // the last unit may take one more
  for (InnerOperation& recorded : recording.operations()) {
    const auto begin = static_cast<std::uint32_t>(operations.size());
    const bool joins = in_units && recorded.addresses;
    auto unit = static_cast<std::uint32_t>(units.size() - 1);
    if (!joins || !open || begin - units.back().operations.begin >= kGraphOperationsMax ||
        overwrites_what_is_read(recording, recorded, last, unit)) {
      units.push_back({.operations = {begin, begin}});
      for (Lists* lists : {&before, &after, &ports_of}) lists->emplace_back();
      unit = static_cast<std::uint32_t>(units.size() - 1);
    }
    open = joins;
    units.back().operations.end = begin + 1;
    PlannedOperation& operation = operations.emplace_back();
    operation.name = std::move(recorded.name);
    operation.function = std::move(recorded.function);
    if (in_units) addresses.push_back(std::move(recorded.addresses));
    operation.uses.begin = static_cast<std::uint32_t>(uses.size());
    add_uses(uses, operation.uses.begin, recorded.overwrites,
             {.write = true, .reads = false, .overwrites = true});
    add_uses(uses, operation.uses.begin, recorded.writes, {.write = true});
    add_uses(uses, operation.uses.begin, recorded.reads, {.reads = true});
    operation.uses.end = static_cast<std::uint32_t>(uses.size());
    for (const SlotUse& use : part(uses, operation.uses)) {
      add_before(before[unit], last[use.slot], use.write, unit);
      const int variable = recording.slots()[use.slot];
      if (variable < 0) continue;
      std::uint32_t& port = numbers[static_cast<std::size_t>(variable)];
      if (port == ReplayProgress::kNone) {
        port = static_cast<std::uint32_t>(ports.size());
        ports.push_back({.slot = use.slot, .variable = static_cast<std::uint32_t>(variable)});
        users.emplace_back();
      }
      ports[port].write |= use.write;
      if (!users[port].empty() && users[port].back() == unit) continue;
      users[port].push_back(unit);
      ports_of[unit].push_back(port);
    }
  }
  for (std::uint32_t unit = 0; unit < units.size(); ++unit) {
    std::vector<std::uint32_t>& earlier = before[unit];
    std::sort(earlier.begin(), earlier.end());
    earlier.erase(std::unique(earlier.begin(), earlier.end()), earlier.end());
    if (!earlier.empty() && earlier.back() == unit) earlier.pop_back();
    for (const std::uint32_t one : earlier) after[one].push_back(unit);
  }
  const std::vector<Range> befores = join(before, edges);
  const std::vector<Range> afters = join(after, edges);
  const std::vector<Range> port_ranges = join(ports_of, port_list);
  const std::vector<Range> user_ranges = join(users, user_list);
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i].before = befores[i];
    units[i].after = afters[i];
    units[i].ports = port_ranges[i];
  }
  for (std::size_t p = 0; p < ports.size(); ++p) ports[p].users = user_ranges[p];
  mark_quiet(units);
}

ReplayProgress::ReplayProgress(const ReplayPlan& plan)
    : plan_(plan),
      users_left_(plan.ports.size()),
      deferred_(plan.units.size()),
      unmet_(plan.units.size()),
      failures_(plan.slot_count) {}

void ReplayProgress::begin() {
  cursor_ = 0;
  left_ = static_cast<std::uint32_t>(plan_.units.size());
  ungranted_ = static_cast<std::uint32_t>(plan_.ports.size());
  granted_.assign(plan_.ports.size(), false);
  for (std::size_t p = 0; p < plan_.ports.size(); ++p) {
    users_left_[p] = plan_.ports[p].users.end - plan_.ports[p].users.begin;
  }
  if (!std::exchange(has_failures_, false)) return;
  for (std::shared_ptr<Failure>& failure : failures_) failure.reset();
}

void ReplayProgress::settle_one(std::uint32_t unit) {
  if (--unmet_[unit] > 0) return;
  runnable_.push_back(unit);
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
  const PlannedUnit& unit = plan_.units[index];
  std::uint32_t unmet = 0;
  for (const std::uint32_t port : plan_.ports_of(unit)) unmet += granted_[port] ? 0 : 1;
  if (deferred_count_ > 0) {
    for (const std::uint32_t earlier : ReplayPlan::part(plan_.edges, unit.before)) {
      unmet += deferred_[earlier];
    }
  }
  if (unmet == 0) return true;
  deferred_[index] = 1;
  unmet_[index] = unmet;
  ++deferred_count_;
  return false;
}

std::uint32_t ReplayProgress::next_of_many() {
  if (!runnable_.empty()) {
    std::pop_heap(runnable_.begin(), runnable_.end(), std::greater<>());
    const std::uint32_t unit = runnable_.back();
    runnable_.pop_back();
    return unit;
  }
  const auto count = static_cast<std::uint32_t>(plan_.units.size());
  while (cursor_ < count) {
    const std::uint32_t unit = cursor_++;
    if (runs_now(unit)) return unit;
  }
  return kNone;
}

void ReplayProgress::end_deferred(std::uint32_t index) {
  if (deferred_[index] == 0) return;
  deferred_[index] = 0;
  --deferred_count_;
  for (const std::uint32_t later : ReplayPlan::part(plan_.edges, plan_.units[index].after)) {
    if (deferred_[later] != 0) settle_one(later);
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
