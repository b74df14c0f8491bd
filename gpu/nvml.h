// SPDX-License-Identifier: Apache-2.0
// Nvml: NVIDIA's management library, which comes with the driver and is found at run time: which
// GPUs the machine has and how they are. It knows devices that CUDA hides from this process, in an
// order of its own, so they are named by their PCI bus ids. Its calls may hang with the driver: not
// for threads that must not wait. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gpu/device_health.h"
#include "gpu/inventory.h"

namespace troupe::gpu {

/// A part of a device that is a device of its own (multi-instance GPU).
struct MigSlice {
  std::string name;  ///< "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  std::string uuid;  ///< "MIG-..."
};

/// A device of the machine.
struct ManagedDevice {
  std::uint32_t index = 0;  ///< NVML's, which `nvidia-smi` shows
  std::string name;
  std::string uuid;
  std::string pci_bus_id;                     ///< as in DeviceFacts
  std::optional<std::uint64_t> memory_bytes;  ///< in all
  std::optional<bool> mig;  ///< whether it is cut into slices; absent: it cannot be
  std::vector<MigSlice> slices;
  std::vector<std::uint32_t> near_cpus;  ///< without a detour over another socket; empty: not known
};

class NvmlSession;

/// An open session with the library. While one is open no device can be reset, and a device that
/// has come back since it was opened may not be seen.
class Nvml {
 public:
  /// Opens the first of `files` that is found. failed_precondition: there is none, it lacks a
  /// function that nothing goes without, or the driver does not run.
  static base::Result<Nvml> open(const std::vector<std::string>& files = {"libnvidia-ml.so.1"});

  /// The devices that answer; those that do not are left out. An error is one of all.
  base::Result<std::vector<ManagedDevice>> devices() const;

  /// How a device is that CUDA shows; of a slice, how the whole is, and its own memory. A problem
  /// in it names function, device and NVML's error.
  DeviceSample sample(const DeviceFacts& facts) const;

  /// For this folder.
  const std::shared_ptr<const NvmlSession>& session() const { return session_; }

 private:
  explicit Nvml(std::shared_ptr<const NvmlSession> session) : session_(std::move(session)) {}

  std::shared_ptr<const NvmlSession> session_;
};

/// The one of `devices` that CUDA calls `facts`: of the same UUID, else in the same place of the
/// bus (CUDA may give the UUID of a slice). Null: none.
const ManagedDevice* find_device(std::span<const ManagedDevice> devices, const DeviceFacts& facts);

}  // namespace troupe::gpu
