// SPDX-License-Identifier: Apache-2.0
// Looks, verdicts and metrics of GPUs.
#include "cluster/device_watch.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "gpu/xid_meaning.h"

namespace troupe::cluster {
namespace {

using gpu::DeviceSample;
using monitoring::family;

/// Values of one device; what it does not tell is left out.
class DeviceRows {
 public:
  DeviceRows(monitoring::Scrape& scrape, const gpu::WatchedDevice& device)
      : scrape_(scrape), facts_(device.facts), index_(std::to_string(device.index)) {}

  template <typename T>
  void value(const monitoring::Family& family, const std::optional<T>& value) const {
    if (!value) return;
    scrape_.value(family, {index_, facts_.uuid, facts_.name}, static_cast<double>(*value));
  }
  /// One of several of a device, by the fourth label.
  void value_of(const monitoring::Family& family, std::string_view which, double value) const {
    scrape_.value(family, {index_, facts_.uuid, facts_.name, which}, value);
  }

 private:
  monitoring::Scrape& scrape_;
  const gpu::DeviceFacts& facts_;
  const std::string index_;
};

void show_sample(const DeviceRows& rows, const DeviceSample& sample) {
  rows.value(family("troupe_device_utilization_ratio"), sample.utilization);
  rows.value(family("troupe_device_memory_utilization_ratio"), sample.memory_utilization);
  rows.value(family("troupe_device_memory_used_bytes"), sample.memory_used_bytes);
  rows.value(family("troupe_device_power_watts"), sample.power_watts);
  rows.value(family("troupe_device_temperature_celsius"), sample.temperature_celsius);
  rows.value(family("troupe_device_sm_clock_hertz"), sample.sm_clock_hertz);
  rows.value(family("troupe_device_uncorrectable_errors_total"), sample.uncorrectable_errors);
  rows.value(family("troupe_device_correctable_errors_total"), sample.correctable_errors);
  rows.value(family("troupe_device_row_remap_failed"), sample.rows_not_replaced);
  rows.value(family("troupe_device_row_remap_pending"), sample.rows_await_reset);
  rows.value(family("troupe_device_power_violation_seconds_total"), sample.power_violation_seconds);
  rows.value(family("troupe_device_thermal_violation_seconds_total"),
             sample.thermal_violation_seconds);
  for (std::size_t i = 0; sample.throttled && i < gpu::kThrottleReasons.size(); ++i) {
    rows.value_of(family("troupe_device_throttled"), gpu::kThrottleReasons[i],
                  sample.throttled->test(i) ? 1 : 0);
  }
}

void log_xid(const std::string& who, std::uint32_t xid, std::uint64_t times) {
  const gpu::XidMeaning* const meaning = gpu::find_xid(xid);
  const std::string line = fmt::format(
      "{} reports XID {}{}: {}", who, xid, times > 1 ? fmt::format(" {} times", times) : "",
      meaning != nullptr ? meaning->text : "NVIDIA's catalog of XIDs has its meaning");
  const bool of_device = meaning != nullptr && meaning->of_device;
  base::log_line(of_device ? base::LogLevel::error : base::LogLevel::warn, line);
}

}  // namespace

DeviceWatch::DeviceWatch(std::vector<gpu::WatchedDevice> devices, Look look,
                         monitoring::Metrics& metrics, std::uint64_t patience_ms)
    : look_(std::move(look)), calls_("the look at", 1, patience_ms) {
  for (gpu::WatchedDevice& device : devices) {
    std::string who = gpu::device_text(device.index, device.facts);
    lost_.push_back({static_cast<std::uint32_t>(device.index), who + " is being looked at"});
    watched_.push_back({std::move(device), std::move(who), std::nullopt, {}});
  }
  collection_ = metrics.on_scrape([this](monitoring::Scrape& scrape) { show(scrape); });
}

const std::vector<schemas::LostGpu>& DeviceWatch::look(std::int64_t now_ms) {
  if (std::optional<Samples> samples = take(now_ms)) judge(*std::move(samples));
  if (asked_ms_ || now_ms < next_ms_) return lost_;
  const bool begun = calls_.add({"the GPUs"}, [this, look = look_]() -> BackgroundCalls::Report {
    return [this, samples = look()] {
      const base::MutexLock lock(mutex_);
      came_ = samples;
    };
  });
  if (!begun) return lost_;  // no thread is left: asked again at once
  asked_ms_ = now_ms;
  next_ms_ = now_ms + kEveryMs;
  return lost_;
}

/// What has come; of a look that is late, that no device answers; else nothing. What was late twice
/// may have seen devices before the driver hung, so the next look, which begins at once, is asked;
/// the errors that it has heard of count.
std::optional<DeviceWatch::Samples> DeviceWatch::take(std::int64_t now_ms) {
  const base::MutexLock lock(mutex_);
  if (came_) {
    asked_ms_.reset();
    std::optional<Samples> samples = std::exchange(came_, std::nullopt);
    if (std::exchange(times_late_, 0) < 2) return samples;
    next_ms_ = now_ms;
    for (std::size_t i = 0; i < samples->size(); ++i) {
      if ((*samples)[i].xids) count_xids(watched_[i], *(*samples)[i].xids);
    }
    return std::nullopt;
  }
  if (!asked_ms_ || now_ms - *asked_ms_ < kAnswerMs) return std::nullopt;
  asked_ms_ = now_ms;
  ++times_late_;
  const DeviceSample silent{
      .answer = gpu::DeviceAnswer::none,
      .problem = fmt::format("the driver has not answered for {} s", kAnswerMs / 1'000)};
  return Samples(watched_.size(), silent);
}

void DeviceWatch::judge(Samples samples) {
  lost_.clear();
  const base::MutexLock lock(mutex_);
  TROUPE_CHECK(samples.size() == watched_.size(), "a look gives one sample of each device");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Watched& each = watched_[i];
    const base::Status health =
        gpu::check_health(each.who, each.sample ? &*each.sample : nullptr, samples[i]);
    each.sample = std::move(samples[i]);
    if (each.sample->xids) count_xids(each, *each.sample->xids);
    if (!health.ok()) {
      lost_.push_back({static_cast<std::uint32_t>(each.device.index), health.text()});
    }
    if (health == each.health) continue;
    each.health = health;
    if (health.ok()) {
      base::log_info("{} is in service again", each.who);
    } else {
      base::log_error("{}: it is out of service", health.text());
    }
  }
}

/// A counter that begins at 0 has an increase when the first error comes: so those begin that an
/// alert waits for.
void DeviceWatch::count_xids(Watched& each, const std::vector<std::uint32_t>& xids) {
  if (each.xids.empty()) {
    for (const gpu::XidMeaning& meaning : gpu::xid_meanings()) {
      if (meaning.of_device) each.xids[std::to_string(meaning.xid)] = 0;
    }
  }
  std::map<std::uint32_t, std::uint64_t> times;
  for (const std::uint32_t xid : xids) ++times[xid];
  for (const auto& [xid, count] : times) {
    log_xid(each.who, xid, count);
    const std::string label = std::to_string(xid);
    const bool shown = each.xids.contains(label) || each.xids.size() < kXidsMax;
    each.xids[shown ? label : "other"] += count;
  }
}

void DeviceWatch::show(monitoring::Scrape& scrape) const {
  const base::MutexLock lock(mutex_);
  for (const Watched& each : watched_) {
    const DeviceRows rows(scrape, each.device);
    const bool told = each.sample && each.sample->memory_total_bytes;
    rows.value(
        family("troupe_device_memory_total_bytes"),
        told ? each.sample->memory_total_bytes : std::optional(each.device.facts.memory_bytes));
    if (!each.sample) continue;
    rows.value(family("troupe_device_in_service"), std::optional(each.health.ok()));
    show_sample(rows, *each.sample);
    for (const auto& [xid, count] : each.xids) {
      rows.value_of(family("troupe_device_xid_errors_total"), xid, static_cast<double>(count));
    }
  }
}

std::unique_ptr<DeviceWatch> watch_devices(const std::vector<gpu::WatchedDevice>& devices,
                                           monitoring::Metrics& metrics,
                                           std::uint64_t patience_ms) {
  if (devices.empty()) return nullptr;
  auto opened = gpu::DeviceSampler::open(devices);
  if (!opened.ok()) {
    base::log_warn("nobody watches how this machine's GPUs are: {}", opened.status().text());
    return nullptr;
  }
  const auto sampler = std::make_shared<gpu::DeviceSampler>(std::move(opened).value());
  return std::make_unique<DeviceWatch>(
      devices, [sampler] { return sampler->look(); }, metrics, patience_ms);
}

}  // namespace troupe::cluster
