// SPDX-License-Identifier: Apache-2.0
// Priorities, windows, acknowledgements and resending of one lane.
#include "link/lane_queue.h"

#include <algorithm>

namespace troupe::link {

Traffic traffic_of(const schemas::Message& message) {
  switch (message.index()) {
    case schemas::type_of<schemas::GradientPush>():
    case schemas::type_of<schemas::PushQuery>():
    case schemas::type_of<schemas::WeightPull>():
      return Traffic::push;
    case schemas::type_of<schemas::PushAck>():
    case schemas::type_of<schemas::WeightReply>():
      return Traffic::reply;
    default:
      return Traffic::control;
  }
}

Windows windows_of(const base::Limits& limits) {
  return {limits.push_window_bytes, limits.reply_window_bytes, limits.control_window_bytes};
}

LaneQueue::Ready& LaneQueue::ready_for(const Row& row) {
  return ready_[static_cast<std::size_t>(row.messages.front()->traffic)];
}

void LaneQueue::push(OutgoingPtr message) {
  const RowKey key = message->slice;
  const std::int64_t negative_priority = -std::int64_t{message->priority};
  Row& row = rows_[key];
  if (row.messages.empty()) {
    row.place = {key.has_value(), negative_priority, ++arrivals_};
  } else {
    ready_for(row).erase(row.place);
    // The whole slice becomes as urgent as its most urgent message.
    row.place.negative_priority = std::min(row.place.negative_priority, negative_priority);
  }
  row.messages.push_back(std::move(message));
  ready_for(row).emplace(row.place, key);
}

bool LaneQueue::fits(Traffic traffic, std::size_t bytes) const {
  const auto kind = static_cast<std::size_t>(traffic);
  return in_flight_[kind] == 0 || in_flight_[kind] + bytes <= windows_[kind];
}

/// Takes the first message of a row and puts the row back in its place.
OutgoingPtr LaneQueue::take_row(const RowKey& key) {
  const auto it = rows_.find(key);
  Row& row = it->second;
  ready_for(row).erase(row.place);
  OutgoingPtr message = std::move(row.messages.front());
  row.messages.pop_front();
  if (row.messages.empty()) {
    rows_.erase(it);
  } else {
    ready_for(row).emplace(row.place, key);
  }
  return message;
}

OutgoingPtr LaneQueue::next() {
  if (resend_ < unacknowledged_.size()) {
    ++resent_;
    return unacknowledged_[resend_++];
  }
  const Place* best = nullptr;
  RowKey key;
  for (const Ready& ready : ready_) {
    if (ready.empty()) continue;
    const auto& [place, row_key] = *ready.begin();
    const Outgoing& first = *rows_.at(row_key).messages.front();
    if (!fits(first.traffic, first.bytes())) continue;
    if (best == nullptr || place < *best) {
      best = &place;
      key = row_key;
    }
  }
  if (best == nullptr) return nullptr;
  OutgoingPtr message = take_row(key);
  message->head.sequence = ++sequence_;
  in_flight_[static_cast<std::size_t>(message->traffic)] += message->bytes();
  unacknowledged_.push_back(message);
  resend_ = unacknowledged_.size();
  return message;
}

base::Result<LaneQueue::Freed> LaneQueue::acknowledge(std::uint64_t sequence) {
  if (sequence > sequence_) {
    return base::error(base::Errc::data_loss,
                       "[link] the peer acknowledges frame {}; the last one sent is {}", sequence,
                       sequence_);
  }
  Freed freed;
  while (!unacknowledged_.empty() && unacknowledged_.front()->head.sequence <= sequence) {
    const Outgoing& message = *unacknowledged_.front();
    in_flight_[static_cast<std::size_t>(message.traffic)] -= message.bytes();
    freed.bytes += message.bytes();
    ++freed.messages;
    unacknowledged_.pop_front();
    if (resend_ > 0) --resend_;
  }
  return freed;
}

LaneQueue::Freed LaneQueue::held() const {
  Freed held;
  const auto add = [&held](const OutgoingPtr& message) {
    held.bytes += message->bytes();
    ++held.messages;
  };
  for (const auto& [key, row] : rows_) std::for_each(row.messages.begin(), row.messages.end(), add);
  std::for_each(unacknowledged_.begin(), unacknowledged_.end(), add);
  return held;
}

}  // namespace troupe::link
