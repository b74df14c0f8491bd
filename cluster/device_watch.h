// SPDX-License-Identifier: Apache-2.0
// DeviceWatch: how the GPUs that an agent offers are: in metrics, in the log, and which of them are
// out of service (AgentOptions::lost_gpus). Driven by the agent's loop, which never waits: looks
// run beside it, and one that hangs with its driver is left alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cluster/background_calls.h"
#include "gpu/device_sampler.h"
#include "monitoring/metrics.h"
#include "schemas/offer_messages.h"

namespace troupe::cluster {

/// See the top of the file. One thread, but for what Metrics calls.
class DeviceWatch {
 public:
  /// From the begin of a look to the next one.
  static constexpr std::int64_t kEveryMs = 5'000;
  /// A look that has not come back for so long counts as one without an answer, and again after as
  /// long: the second takes all GPUs out of service (gpu::check_health).
  static constexpr std::int64_t kAnswerMs = 30'000;

  /// So many different XIDs of one device are shown by their numbers, at most; the rest is
  /// xid="other".
  static constexpr std::size_t kXidsMax = 32;

  /// One sample of each device, in their order. May hang, and may outlive the watch.
  using Look = std::function<std::vector<gpu::DeviceSample>()>;

  /// Until the first look has come back all devices are out of service: nobody knows better. Shows
  /// troupe_device_* of `devices` as long as it lives. The destructor gives a look that runs
  /// `patience_ms`.
  DeviceWatch(std::vector<gpu::WatchedDevice> devices, Look look, monitoring::Metrics& metrics,
              std::uint64_t patience_ms);
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// To be called often, with the time of a steady clock: takes what the newest look has found, and
  /// begins the next one when it is due. Does not block. All that are out of service now, each
  /// with a sentence that names it.
  const std::vector<schemas::LostGpu>& look(std::int64_t now_ms);

 private:
  using Samples = std::vector<gpu::DeviceSample>;
  /// A device and what is known of it; nothing before the first look.
  struct Watched {
    gpu::WatchedDevice device;
    std::string who;
    std::optional<gpu::DeviceSample> sample;
    base::Status health;
    /// Errors so far, by the label that shows them; empty while nobody has listened.
    std::map<std::string, std::uint64_t> xids;
  };

  std::optional<Samples> take(std::int64_t now_ms);
  void judge(Samples samples);
  static void count_xids(Watched& each, const std::vector<std::uint32_t>& xids);
  void show(monitoring::Scrape& scrape) const;

  const Look look_;
  std::int64_t next_ms_ = 0;
  std::optional<std::int64_t> asked_ms_;  // a look runs since then, or is late since then
  int times_late_ = 0;                    // of that look
  std::vector<schemas::LostGpu> lost_;

  mutable base::Mutex mutex_;
  std::vector<Watched> watched_ TROUPE_GUARDED_BY(mutex_);
  std::optional<Samples> came_ TROUPE_GUARDED_BY(mutex_);

  monitoring::Collection collection_;
  BackgroundCalls calls_;  // goes first: reports refer to all above
};

/// A watch by NVML; null, with a warning in the log where there are devices, when there is no
/// device or no NVML.
std::unique_ptr<DeviceWatch> watch_devices(const std::vector<gpu::WatchedDevice>& devices,
                                           monitoring::Metrics& metrics, std::uint64_t patience_ms);

}  // namespace troupe::cluster
