// SPDX-License-Identifier: Apache-2.0
// An agent's GPUs fall ill and come back: who is told, what metrics show, and what a driver that
// hangs holds up. Time is the test's own; looks run on threads of their own.
#include "cluster/device_watch.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using Catch::Contains;
using gpu::DeviceAnswer;
using gpu::DeviceSample;
using schemas::LostGpu;

constexpr std::chrono::seconds kWait{20};
constexpr std::uint64_t kPatienceMs = 20'000;

const std::vector<gpu::WatchedDevice> kDevices = {
    {0, {.name = "H100", .uuid = "GPU-a", .memory_bytes = 1024}},
    {3, {.name = "H100", .uuid = "GPU-b", .memory_bytes = 2048}}};

/// A driver that answers what it is told to, or hangs.
class Driver {
 public:
  std::vector<DeviceSample> look() {
    std::unique_lock lock(mutex_);
    looks_ += 1;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hangs_; });
    const std::vector<DeviceSample> samples = samples_;
    if (samples_[0].xids) samples_[0].xids->clear();
    return samples;
  }
  /// Errors of the first device, which one look hears.
  void reports(std::vector<std::uint32_t> xids) {
    const std::lock_guard lock(mutex_);
    samples_[0].xids = std::move(xids);
  }
  void says(DeviceSample first, DeviceSample second) {
    const std::lock_guard lock(mutex_);
    samples_ = {std::move(first), std::move(second)};
  }
  void hangs(bool it_does) {
    const std::lock_guard lock(mutex_);
    hangs_ = it_does;
    changed_.notify_all();
  }
  int looks() {
    const std::lock_guard lock(mutex_);
    return looks_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<DeviceSample> samples_ = std::vector<DeviceSample>(2);
  int looks_ = 0;
  bool hangs_ = false;
};

struct Fixture {
  explicit Fixture(std::uint64_t patience_ms = kPatienceMs)
      : watch(
            std::in_place, kDevices, [held = driver] { return held->look(); }, metrics,
            patience_ms) {}
  void look(std::int64_t at_ms) {
    const std::vector<LostGpu>& lost = watch->look(at_ms);
    const bool first = told.empty() && lost == unknown;
    if (!first && lost != (told.empty() ? std::vector<LostGpu>() : told.back())) {
      told.push_back(lost);
    }
  }
  /// The agent's loop comes by; time goes on with each look that begins.
  void step() {
    look(now_ms);
    if (driver->looks() != seen) {
      seen = driver->looks();
      begun_ms = now_ms;
      now_ms += DeviceWatch::kEveryMs;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  template <typename Done>
  void step_until(Done done) {
    const auto late = std::chrono::steady_clock::now() + kWait;
    while (!done() && std::chrono::steady_clock::now() < late) step();
    REQUIRE(done());
  }
  /// Until a look that begins now has been judged, and so the one after it has begun.
  void round() {
    step_until([this, wanted = seen + 2] { return seen == wanted; });
  }
  /// Whether the page has the line, with the labels of one of kDevices.
  bool shows(const std::string& family, int device, const std::string& value,
             const std::string& fourth = "") const {
    const gpu::WatchedDevice& of = kDevices[static_cast<std::size_t>(device)];
    const std::string line = "\ntroupe_device_" + family + "{gpu=\"" + std::to_string(of.index) +
                             "\",uuid=\"" + of.facts.uuid + "\",model=\"H100\"" + fourth + "} " +
                             value + "\n";
    return metrics.exposition().find(line) != std::string::npos;
  }

  const std::vector<LostGpu> unknown = {{0, "GPU 0 (H100, GPU-a) is being looked at"},
                                        {3, "GPU 3 (H100, GPU-b) is being looked at"}};
  std::shared_ptr<Driver> driver = std::make_shared<Driver>();
  std::vector<std::vector<LostGpu>> told;  // each time that it is another list
  monitoring::Metrics metrics;
  std::int64_t now_ms = 1'000;
  std::int64_t begun_ms = 0;  // the newest look
  int seen = 0;               // looks that have begun
  std::optional<DeviceWatch> watch;
};

DeviceSample counted(std::uint64_t errors) {
  return {.uncorrectable_errors = errors};
}

TEST_CASE("a GPU that falls ill is told with the reason, and when it comes back",
          "[device_watch]") {
  Fixture fixture;
  CHECK(fixture.watch->look(0) == fixture.unknown);
  fixture.round();
  CHECK(fixture.told.empty());
  CHECK(fixture.watch->look(0).empty());  // all is well
  CHECK(fixture.shows("in_service", 0, "1"));

  fixture.driver->says(counted(0), counted(3));
  fixture.round();
  const std::string errors = "GPU 3 (H100, GPU-b) has 3 uncorrectable memory errors";
  REQUIRE(fixture.told.size() == 1);
  CHECK(fixture.told[0] == std::vector<LostGpu>{{3, errors}});
  CHECK(fixture.shows("in_service", 0, "1"));
  CHECK(fixture.shows("in_service", 1, "0"));
  CHECK(fixture.shows("uncorrectable_errors_total", 1, "3"));
  fixture.round();
  CHECK(fixture.told.size() == 1);  // no news

  fixture.driver->says({.answer = DeviceAnswer::lost}, counted(3));
  fixture.round();
  REQUIRE(fixture.told.size() == 2);
  CHECK(fixture.told[1] ==
        std::vector<LostGpu>{{0, "GPU 0 (H100, GPU-a) has fallen off the bus"}, {3, errors}});

  fixture.driver->says(counted(0), counted(0));
  fixture.round();
  REQUIRE(fixture.told.size() == 3);
  CHECK(fixture.told[2].empty());
  CHECK(fixture.shows("in_service", 1, "1"));
}

TEST_CASE("what a GPU tells is shown, what it does not tell is not", "[device_watch]") {
  Fixture fixture;
  CHECK(fixture.shows("memory_total_bytes", 1, "2048"));
  CHECK_THAT(fixture.metrics.exposition(), !Contains("troupe_device_in_service{"));
  fixture.driver->says({.utilization = 0.5,
                        .memory_utilization = 0.25,
                        .memory_used_bytes = 512,
                        .power_watts = 300.5,
                        .temperature_celsius = 61,
                        .sm_clock_hertz = 1.98e9,
                        .uncorrectable_errors = 0,
                        .correctable_errors = 7,
                        .rows_not_replaced = false},
                       {});
  fixture.round();
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"utilization_ratio", "0.5"},
      {"memory_utilization_ratio", "0.25"},
      {"memory_used_bytes", "512"},
      {"power_watts", "300.5"},
      {"temperature_celsius", "61"},
      {"sm_clock_hertz", "1980000000"},
      {"uncorrectable_errors_total", "0"},
      {"correctable_errors_total", "7"},
      {"row_remap_failed", "0"}};
  const std::string page = fixture.metrics.exposition();
  for (const auto& [family, value] : rows) {
    INFO(page);
    CHECK(fixture.shows(family, 0, value));
    CHECK_THAT(page, !Contains("troupe_device_" + family + "{gpu=\"3\""));
  }
  fixture.watch.reset();
  CHECK_THAT(fixture.metrics.exposition(), !Contains("troupe_device_"));
}

TEST_CASE("what lowers a GPU's clocks is shown, reason by reason", "[device_watch]") {
  Fixture fixture;
  fixture.driver->says({.throttled = gpu::ThrottleReasons(1 << 0 | 1 << 4),
                        .power_violation_seconds = 90,
                        .thermal_violation_seconds = 1.5},
                       {});
  fixture.round();
  const auto shows = [&](const std::string& reason, const std::string& value) {
    return fixture.shows("throttled", 0, value, ",reason=\"" + reason + "\"");
  };
  CHECK(shows("sw_power_cap", "1"));
  CHECK(shows("hw_slowdown", "0"));
  CHECK(shows("sync_boost", "0"));
  CHECK(shows("sw_thermal_slowdown", "0"));
  CHECK(shows("hw_thermal_slowdown", "1"));
  CHECK(shows("hw_power_brake_slowdown", "0"));
  CHECK(fixture.shows("power_violation_seconds_total", 0, "90"));
  CHECK(fixture.shows("thermal_violation_seconds_total", 0, "1.5"));
  CHECK_THAT(fixture.metrics.exposition(), !Contains("troupe_device_throttled{gpu=\"3\""));
}

TEST_CASE("XID errors are counted by number, and take no GPU out of service", "[device_watch]") {
  Fixture fixture;
  const auto shows = [&](const std::string& xid, const std::string& value) {
    return fixture.shows("xid_errors_total", 0, value, ",xid=\"" + xid + "\"");
  };
  fixture.driver->says({.xids = std::vector<std::uint32_t>()}, {});
  fixture.round();
  CHECK(shows("79", "0"));
  CHECK_THAT(fixture.metrics.exposition(), !Contains("xid=\"13\""));
  CHECK_THAT(fixture.metrics.exposition(), !Contains("troupe_device_xid_errors_total{gpu=\"3\""));
  fixture.driver->reports({13, 79, 13});
  fixture.round();
  fixture.driver->reports({13});
  fixture.round();
  CHECK(shows("13", "3"));
  CHECK(shows("79", "1"));

  std::vector<std::uint32_t> many;
  for (std::uint32_t xid = 1'000; xid < 1'100; ++xid) many.push_back(xid);
  fixture.driver->reports(many);
  fixture.round();
  fixture.driver->reports({13});
  fixture.round();
  CHECK(shows("1000", "1"));
  CHECK(shows("13", "4"));
  const std::string page = fixture.metrics.exposition();
  std::size_t series = 0, at = 0;
  while ((at = page.find("\ntroupe_device_xid_errors_total{", at + 1)) != std::string::npos)
    ++series;
  CHECK(series == DeviceWatch::kXidsMax + 1);
  CHECK(page.find("xid=\"other\"") != std::string::npos);

  // A look without an answer hides the sample, not what was counted.
  fixture.driver->says({.answer = DeviceAnswer::none}, {});
  fixture.round();
  CHECK(shows("13", "4"));
}

TEST_CASE("looks are five seconds apart, however often the agent's loop comes by",
          "[device_watch]") {
  Fixture fixture;
  fixture.step_until([&] { return fixture.seen == 1; });
  const std::int64_t next_ms = fixture.now_ms;
  fixture.now_ms = next_ms - 1;
  fixture.step_until([&] { return fixture.shows("in_service", 0, "1"); });
  for (int i = 0; i < 10; ++i) fixture.step();
  CHECK(fixture.seen == 1);
  fixture.now_ms = next_ms;
  fixture.step_until([&] { return fixture.seen == 2; });
}

TEST_CASE("a driver that hangs takes its GPUs out of service, and holds up nobody",
          "[device_watch]") {
  Fixture fixture(20);
  fixture.round();
  fixture.driver->hangs(true);
  fixture.step_until([&, wanted = fixture.seen + 1] { return fixture.seen == wanted; });
  const std::int64_t asked_ms = fixture.begun_ms;
  fixture.look(asked_ms + DeviceWatch::kAnswerMs);
  CHECK(fixture.told.empty());
  fixture.look(asked_ms + 2 * DeviceWatch::kAnswerMs - 1);
  CHECK(fixture.told.empty());
  fixture.look(asked_ms + 2 * DeviceWatch::kAnswerMs);
  REQUIRE(fixture.told.size() == 1);
  REQUIRE(fixture.told[0].size() == 2);
  CHECK(fixture.told[0][1].why ==
        "GPU 3 (H100, GPU-b) does not answer: the driver has not answered for 30 s");
  CHECK(fixture.shows("in_service", 1, "0"));

  SECTION("and they come back with it") {
    fixture.driver->hangs(false);
    fixture.now_ms = asked_ms + 2 * DeviceWatch::kAnswerMs;
    fixture.step_until([&] { return fixture.told.size() == 2; });
    CHECK(fixture.told[1].empty());
    CHECK(fixture.begun_ms >= asked_ms + 2 * DeviceWatch::kAnswerMs);  // by a look of that time
  }
  SECTION("not even the end") {
    fixture.watch.reset();
    fixture.driver->hangs(false);
  }
}

TEST_CASE("a driver that is late once keeps its GPUs in service", "[device_watch]") {
  Fixture fixture(20);
  fixture.round();
  fixture.driver->hangs(true);
  fixture.step_until([&, wanted = fixture.seen + 1] { return fixture.seen == wanted; });
  fixture.look(fixture.begun_ms + DeviceWatch::kAnswerMs);
  fixture.now_ms = fixture.begun_ms + DeviceWatch::kAnswerMs;
  fixture.driver->hangs(false);
  fixture.step_until([&, wanted = fixture.seen + 1] { return fixture.seen == wanted; });
  CHECK(fixture.told.empty());
}

TEST_CASE("a driver that has never answered keeps its GPUs out of service", "[device_watch]") {
  Fixture fixture(20);
  fixture.driver->hangs(true);
  CHECK(fixture.watch->look(0) == fixture.unknown);
  const std::vector<LostGpu> silent = fixture.watch->look(DeviceWatch::kAnswerMs);
  REQUIRE(silent.size() == 2);
  CHECK_THAT(silent[0].why, Contains("does not answer"));
  CHECK(fixture.shows("in_service", 0, "0"));
  fixture.watch.reset();
  fixture.driver->hangs(false);
}

TEST_CASE("without GPUs there is nothing to watch", "[device_watch]") {
  monitoring::Metrics metrics;
  CHECK(watch_devices({}, metrics, kPatienceMs) == nullptr);
}

}  // namespace
}  // namespace troupe::cluster
