// SPDX-License-Identifier: Apache-2.0
// What the CUDA runtime and the libraries beside it say of themselves.
#include "gpu/inventory.h"

#include <cuda_runtime_api.h>

#include <fmt/ranges.h>

#include <optional>
#include <span>
#include <string>

#include "base/environment.h"
#include "gpu/device_id.h"
#include "gpu/machine_code.h"
#include "gpu/shared_library.h"

namespace troupe::gpu {
namespace {

using base::Result;

/// "13.0" of 13000, as the runtime and the driver count.
std::string dotted(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Why there is no device, in words that say what to do.
std::string problem_of(cudaError_t error, int driver) {
  if (driver == 0) return "no NVIDIA driver is installed on this machine (libcuda.so.1)";
  if (error == cudaErrorInsufficientDriver) {
    return fmt::format("the driver of this machine knows CUDA {}, this program needs {}",
                       dotted(driver), dotted(CUDART_VERSION));
  }
  if (error == cudaSuccess || error == cudaErrorNoDevice) {
    const std::optional<std::string> visible = base::visible_gpus();
    if (visible) {
      return fmt::format("the driver shows no device (CUDA_VISIBLE_DEVICES is '{}')", *visible);
    }
    return "the driver shows no device (may this process open the files /dev/nvidia*?)";
  }
  if (error == cudaErrorSystemNotReady) {
    return "the driver is not ready (machines with NVSwitch need nvidia-fabricmanager to run)";
  }
  return fmt::format("the CUDA runtime says: {}", cudaGetErrorString(error));
}

std::string pci_bus_id_of(const cudaDeviceProp& properties) {
  return pci_bus_id(static_cast<unsigned>(properties.pciDomainID),
                    static_cast<unsigned>(properties.pciBusID),
                    static_cast<unsigned>(properties.pciDeviceID));
}

DeviceFacts facts_of(int index) {
  cudaDeviceProp properties{};
  const cudaError_t answer = cudaGetDeviceProperties(&properties, index);
  if (answer != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {.problem = fmt::format("it does not answer: {}", cudaGetErrorString(answer)),
            .name = "unknown"};
  }
  DeviceFacts facts{.problem = {},
                    .name = properties.name,
                    .uuid = visible_name(base::visible_gpus(), static_cast<std::size_t>(index),
                                         device_uuid(std::span(properties.uuid.bytes))),
                    .pci_bus_id = pci_bus_id_of(properties),
                    .memory_bytes = properties.totalGlobalMem,
                    .compute_major = properties.major,
                    .compute_minor = properties.minor,
                    .multiprocessors = properties.multiProcessorCount};
  if (!runs_on(TROUPE_CUDA_ARCHITECTURES, properties.major, properties.minor)) {
    facts.problem = fmt::format("its compute capability is {}.{}, this program has code for {}",
                                properties.major, properties.minor, TROUPE_CUDA_ARCHITECTURES);
  }
  return facts;
}

void find_devices(Inventory& found) {
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (driver > 0) found.driver = dotted(driver);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (error != cudaSuccess || count == 0) {
    found.problem = problem_of(error, driver);
    return;
  }
  bool usable = false;
  for (int index = 0; index < count; ++index) {
    found.devices.push_back(facts_of(index));
    usable = usable || found.devices.back().problem.empty();
  }
  if (!usable) found.problem = fmt::format("{}", fmt::join(problems_of(found), "; "));
}

/// The version that a library tells, by a function of its own.
using AskVersion = Result<std::string> (*)(const SharedLibrary&);

Result<std::string> ask_cudnn(const SharedLibrary& library) {
  TROUPE_TRY_ASSIGN(auto* const version, library.function<std::size_t()>("cudnnGetVersion"));
  const std::size_t number = version();  // 91900 is 9.19.0
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

Result<std::string> ask_cublas(const SharedLibrary& library) {
  TROUPE_TRY_ASSIGN(auto* const version, library.function<std::size_t()>("cublasLtGetVersion"));
  const std::size_t number = version();  // 130000 is 13.0.0
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

Result<std::string> ask_nvrtc(const SharedLibrary& library) {
  TROUPE_TRY_ASSIGN(auto* const version, library.function<int(int*, int*)>("nvrtcVersion"));
  int major = 0, minor = 0;
  if (version(&major, &minor) != 0) {
    return base::error(base::Errc::failed_precondition, "{} tells no version", library.file());
  }
  return fmt::format("{}.{}", major, minor);
}

Result<std::string> ask_nccl(const SharedLibrary& library) {
  TROUPE_TRY_ASSIGN(auto* const version, library.function<int(int*)>("ncclGetVersion"));
  int number = 0;  // 22703 is 2.27.3
  if (version(&number) != 0) {
    return base::error(base::Errc::failed_precondition, "{} tells no version", library.file());
  }
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

LibraryFacts library_facts(const char* name, const std::string& file, AskVersion ask) {
  const auto version = [&]() -> Result<std::string> {
    TROUPE_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open({file}));
    return ask(library);
  }();
  if (version.ok()) return {name, *version, {}};
  return {name, {}, version.status().text()};
}

Inventory look() {
  Inventory found;
  found.toolkit =
      fmt::format("CUDA {}, code for {}", dotted(CUDART_VERSION), TROUPE_CUDA_ARCHITECTURES);
  find_devices(found);
  return found;
}

}  // namespace

const Inventory& inventory() {
  static const Inventory found = look();
  return found;
}

const std::vector<LibraryFacts>& libraries() {
  static const std::string major = std::to_string(CUDART_VERSION / 1000);
  static const std::vector<LibraryFacts> found = {
      library_facts("cuDNN", "libcudnn.so.9", ask_cudnn),
      library_facts("cuBLASLt", "libcublasLt.so." + major, ask_cublas),
      library_facts("NVRTC", "libnvrtc.so." + major, ask_nvrtc),
      library_facts("NCCL", "libnccl.so.2", ask_nccl)};
  return found;
}

}  // namespace troupe::gpu
