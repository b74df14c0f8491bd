// SPDX-License-Identifier: Apache-2.0
// A lane's sending side: order inside a slice, priority among slices, separate windows, and
// exactly-once delivery through cuts, checked against a simple receiver.
#include "link/lane_queue.h"

#include <rapidcheck.h>

#include <memory>
#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::link {
namespace {

OutgoingPtr message(std::uint32_t slice, std::int32_t priority, std::size_t bytes = 10,
                    Traffic traffic = Traffic::push) {
  auto out = std::make_shared<Outgoing>();
  out->slice = schemas::SliceId{0, slice};
  out->priority = priority;
  out->traffic = traffic;
  out->header.assign(bytes, 'h');
  return out;
}

constexpr Windows kWide{1 << 20, 1 << 20, 1 << 20};

TEST_CASE("urgent slices overtake, messages of one slice never", "[lane_queue]") {
  LaneQueue queue(kWide);
  const auto a1 = message(1, 0);
  const auto b1 = message(2, 5);
  const auto c1 = message(3, 0);
  const auto c2 = message(3, 9);
  const auto free = message(0, -7, 10, Traffic::control);
  free->slice.reset();
  for (const auto& each : {a1, b1, c1, c2, free}) queue.push(each);
  CHECK(queue.next() == free);
  CHECK(queue.next() == c1);  // as urgent as the message behind it
  CHECK(queue.next() == c2);
  CHECK(queue.next() == b1);
  CHECK(queue.next() == a1);
  CHECK(queue.next() == nullptr);
}

TEST_CASE("a full window stops its own kind only", "[lane_queue]") {
  LaneQueue queue({300, 300, 300});
  for (std::uint32_t i = 0; i < 4; ++i) queue.push(message(i, 9, 100));
  queue.push(message(8, 0, 100, Traffic::reply));
  CHECK(queue.next()->slice->slice == 0);
  const auto reply = queue.next();  // a second push of 164 bytes does not fit into 300
  CHECK(reply->traffic == Traffic::reply);
  CHECK(queue.next() == nullptr);
  CHECK(queue.acknowledge(1)->messages == 1);
  CHECK(queue.next()->slice->slice == 1);
  // One message may always go, however large.
  LaneQueue small({1, 1, 1});
  small.push(message(1, 0, 100));
  CHECK(small.next() != nullptr);
}

TEST_CASE("an acknowledgement of what was never sent is refused", "[lane_queue]") {
  LaneQueue queue(kWide);
  queue.push(message(1, 0));
  CHECK_FALSE(queue.acknowledge(1).ok());
  CHECK(queue.next() != nullptr);
  CHECK(queue.acknowledge(1)->bytes == 74);
  CHECK(queue.acknowledge(1)->bytes == 0);
  CHECK(queue.idle());
}

TEST_CASE("through any cuts each message arrives once and slices stay in order", "[lane_queue]") {
  CHECK(rc::check([](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    LaneQueue queue({500, 500, 500});
    std::vector<OutgoingPtr> delivered;
    std::deque<OutgoingPtr> wire;
    std::map<const Outgoing*, int> number;
    std::uint64_t received = 0;
    int sent = 0;
    const auto deliver = [&] {
      if (wire.empty()) return;
      const auto first = wire.front();
      wire.pop_front();
      if (first->head.sequence == received + 1) {
        ++received;
        delivered.push_back(first);
      }
      RC_ASSERT(first->head.sequence <= received);
    };
    for (int i = 0; i < 400 || !queue.idle(); ++i) {
      switch (i < 400 ? random() % 6 : 2 + random() % 3) {
        case 0:
        case 1: {
          auto each = message(static_cast<std::uint32_t>(random() % 5),
                              static_cast<std::int32_t>(random() % 3), random() % 100,
                              static_cast<Traffic>(random() % kTrafficKinds));
          number[each.get()] = sent++;
          queue.push(std::move(each));
          break;
        }
        case 2:
          if (const auto each = queue.next()) wire.push_back(each);
          break;
        case 3:
          deliver();
          break;
        case 4:
          RC_ASSERT(queue.acknowledge(received).ok());
          break;
        default:  // cut: what is on the wire is lost, the new connection says what has arrived
          wire.clear();
          RC_ASSERT(queue.acknowledge(received).ok());
          queue.rewind();
      }
    }
    RC_ASSERT(delivered.size() == static_cast<std::size_t>(sent));
    std::map<std::uint32_t, int> last;
    for (const auto& each : delivered) {
      const auto [it, first] = last.try_emplace(each->slice->slice, number[each.get()]);
      RC_ASSERT(first || it->second < number[each.get()]);
      it->second = number[each.get()];
    }
    RC_ASSERT(queue.held().messages == 0);
  }));
}

}  // namespace
}  // namespace troupe::link
