// SPDX-License-Identifier: Apache-2.0
// What has been let go, whatever the order, and when to say so.
#include "link/lane_receipts.h"

#include <memory>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::link {
namespace {

struct Lane {
  int wakes = 0;
  std::shared_ptr<LaneReceipts> receipts =
      std::make_shared<LaneReceipts>(100, 3, [this] { ++wakes; });
};

TEST_CASE("frames are taken when all before them have been let go", "[receipts]") {
  Lane lane;
  auto first = lane.receipts->issue(10);
  auto second = lane.receipts->issue(20);
  const auto copy = second;
  CHECK(lane.receipts->held_bytes() == 30);
  second.reset();
  CHECK(lane.receipts->held_bytes() == 30);  // a copy lives
  auto third = lane.receipts->issue(30);
  third.reset();
  CHECK(lane.receipts->taken() == 0);
  CHECK_FALSE(lane.receipts->owed_or_hasten());
  first.reset();
  CHECK(lane.receipts->taken() == 1);
  CHECK(lane.receipts->owed_or_hasten());
  CHECK(lane.receipts->held_bytes() == 50);
}

TEST_CASE("an acknowledgement is due after so many frames or bytes, and wakes once", "[receipts]") {
  Lane lane;
  for (int i = 0; i < 2; ++i) lane.receipts->issue(10).reset();
  CHECK(lane.wakes == 0);
  CHECK_FALSE(lane.receipts->ack_due());
  lane.receipts->issue(10).reset();
  CHECK(lane.wakes == 1);
  CHECK(lane.receipts->ack_due());
  lane.receipts->issue(200).reset();
  CHECK(lane.wakes == 1);
  CHECK(lane.receipts->acknowledged() == 4);
  CHECK_FALSE(lane.receipts->owed_or_hasten());
  lane.receipts->issue(100).reset();
  CHECK(lane.wakes == 2);
}

TEST_CASE("a hastened lane wakes at the next frame that is let go", "[receipts]") {
  Lane lane;
  auto first = lane.receipts->issue(1);
  auto second = lane.receipts->issue(1);
  CHECK_FALSE(lane.receipts->owed_or_hasten());
  second.reset();
  CHECK(lane.wakes == 0);  // the first is held
  first.reset();
  CHECK(lane.wakes == 1);
  lane.receipts->acknowledged();
  lane.receipts->issue(1).reset();
  CHECK(lane.wakes == 1);
}

TEST_CASE("receipts outlive their lane", "[receipts]") {
  int wakes = 0;
  auto receipts = std::make_shared<LaneReceipts>(1, 1, [&wakes] { ++wakes; });
  auto receipt = receipts->issue(5);
  receipts.reset();
  receipt.reset();
  CHECK(wakes == 1);
}

}  // namespace
}  // namespace troupe::link
