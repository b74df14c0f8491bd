// SPDX-License-Identifier: Apache-2.0
// Which GPUs and libraries for them this process can use, and why not. Found on first use, then
// constant; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/status.h"

namespace troupe::gpu {

/// One device.
struct DeviceFacts {
  std::string problem;             ///< why it cannot be used; empty where it can
  std::string name;                ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;                ///< "GPU-..." or a slice's "MIG-...", see device_id.h
  std::string pci_bus_id;          ///< "00000000:1B:00.0"
  std::uint64_t memory_bytes = 0;  ///< in all
  int compute_major = 0;           ///< of the compute capability, "9" of 9.0
  int compute_minor = 0;
  int multiprocessors = 0;
};

/// A library that is found at run time.
struct LibraryFacts {
  std::string name;     ///< "cuDNN"
  std::string version;  ///< "9.19.0"; empty: it cannot be used
  std::string problem;  ///< why not
};

/// What there is.
struct Inventory {
  std::string toolkit;  ///< "CUDA 13.0, code for 80-real 90"; empty: built without CUDA
  std::string driver;   ///< the newest CUDA that the driver knows, "13.0"; empty: none
  std::string problem;  ///< why no device can be used, each by name; empty where one can
  std::vector<DeviceFacts> devices;  ///< by Device::index
};

/// See the top of the file.
const Inventory& inventory();
/// What is wrong with its devices, "cuda:1 (Tesla T4): ..."; empty where all can be used.
std::vector<std::string> problems_of(const Inventory& inventory);
/// The libraries that kernels and exchanges use; loads them. None in a build without CUDA.
const std::vector<LibraryFacts>& libraries();

/// Whether one can compute on `device`, which is a GPU: failed_precondition names the device and
/// says why not.
base::Status check_device(base::Device device, const Inventory& inventory = gpu::inventory());

}  // namespace troupe::gpu
