// SPDX-License-Identifier: Apache-2.0
// What every way of gathering promises: each gradient is in one push, is answered once it has been
// read for the last time, and never leaves the machine in its own buffer.
#include "actors/device_gather.h"

#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "tests/actors/slice_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::PushResult;

constexpr std::uint64_t kSteps = 6;

/// A machine's ranks push step after step, often twice; works end late and in any order.
class Machine {
 public:
  Machine(const store::SliceRules& rules, std::uint64_t seed)
      : gather_(make_gather(rules, 0)), random_(seed) {
    for (const std::uint32_t rank : rules.ranks_of_machine(0)) next_[rank] = 0;
  }

  void run() {
    for (int turn = 0; turn < 2'000; ++turn) {
      switch (random_() % 4) {
        case 0:
          push();
          break;
        case 1:
          end_work();
          break;
        case 2:
          while (auto work = gather_->next_work()) works_.push_back(std::move(*work));
          break;
        default:
          send();
      }
      take_answers();
    }
  }
  double counted() const { return counted_; }
  double sent() const { return sent_; }
  bool finished() const {
    return borrowed_.empty() && std::all_of(next_.begin(), next_.end(), [](const auto& entry) {
             return entry.second == kSteps;
           });
  }

 private:
  void push() {
    auto at = std::next(next_.begin(), static_cast<std::ptrdiff_t>(random_() % next_.size()));
    auto& [rank, step] = *at;
    if (const auto found = borrowed_.find(rank); found != borrowed_.end()) {
      return gather_->push(found->second);  // a repetition
    }
    if (step == kSteps) return;
    const bool empty = random_() % 4 == 0;
    RankPush push = gradient(rank, step, empty ? base::Buffer() : slice_bytes());
    borrowed_[rank] = push;
    gather_->push(std::move(push));
  }
  void end_work() {
    if (works_.empty()) return;
    const auto at =
        std::next(works_.begin(), static_cast<std::ptrdiff_t>(random_() % works_.size()));
    const std::uint64_t id = at->id;
    works_.erase(at);
    gather_->done(id, slice_bytes());
  }
  void send() {
    OwnerView owner{version_, true, random_() % 2 == 0};
    while (const auto push = gather_->next_push(owner)) {
      sent_ += push->count;
      for (const auto& [rank, borrowed] : borrowed_) {
        RC_ASSERT(!push->data || !push->data.same_block(borrowed.data));
      }
      for (const auto& [rank, step] : push->contributions) RC_ASSERT(step == listed_[rank]++);
      if (push->abstains) RC_ASSERT(push->contributions.empty() && !push->data);
      gather_->acknowledged(push->step);
    }
    ++version_;
  }
  void take_answers() {
    for (const RankAnswer& answer : gather_->take_answers()) {
      RC_ASSERT(answer.result == PushResult::taken);
      const RankPush push = borrowed_.at(answer.rank);
      RC_ASSERT(answer.step == push.step);
      RC_ASSERT(answer.bytes == push.data.size());
      for (const GatherWork& work : works_) {
        RC_ASSERT(!push.data || !work.left.same_block(push.data));
        RC_ASSERT(!push.data || !work.right.same_block(push.data));
      }
      counted_ += push.count;
      borrowed_.erase(answer.rank);
      ++next_[answer.rank];
    }
  }

  std::unique_ptr<DeviceGather> gather_;
  std::mt19937_64 random_;
  std::map<std::uint32_t, std::uint64_t> next_;
  std::map<std::uint32_t, RankPush> borrowed_;
  std::map<std::uint32_t, std::uint64_t> listed_;  // by rank: the next step of a contribution
  std::vector<GatherWork> works_;
  std::uint64_t version_ = 0;
  double counted_ = 0.0;
  double sent_ = 0.0;
};

TEST_CASE("in all modes each gradient goes out once and is free when it is answered") {
  const auto device = GENERATE(kSequential, kEventual);
  const auto cluster = GENERATE(kSequential, kEventual);
  const std::vector<std::uint32_t> placement =
      GENERATE(std::vector<std::uint32_t>{0, 0, 1, 1}, std::vector<std::uint32_t>{0, 0, 0, 1},
               std::vector<std::uint32_t>{0, 1, 0, 0}, std::vector<std::uint32_t>{0, 1, 1, 1});
  const store::SliceRules rules = slice_rules(modes(device, cluster), placement);
  CHECK(rc::check([&](std::uint64_t seed) {
    Machine machine(rules, seed);
    machine.run();
    RC_ASSERT(machine.finished());
    RC_ASSERT(machine.sent() == machine.counted());
  }));
}

TEST_CASE("the device tier's mode chooses the way of gathering") {
  // In lock step one rank's gradient has to wait for the other's, without it for nobody.
  const auto pushes = [](schemas::ConsistencyMode device) {
    const store::SliceRules rules = slice_rules(modes(device, kEventual));
    const auto gather = make_gather(rules, 0);
    gather->push(gradient(0, 0));
    run_all(*gather);
    return gather->next_push({std::uint64_t{0}, true, false}).has_value();
  };
  CHECK_FALSE(pushes(kSequential));
  CHECK(pushes(kEventual));
}

}  // namespace
}  // namespace troupe::actors
