// SPDX-License-Identifier: Apache-2.0
// The instruction set that kernels use, and the numeric class of this process.
#include "ops/numerics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <hwy/highway.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "gpu/inventory.h"
#include "ops/jit/compiler.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Status;

/// Highway's x86 targets above AVX2, those of later versions too: a better target is a lower bit.
constexpr std::int64_t kHighwayAvx512 = HWY_AVX2 - 1;

std::string onednn_isa() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return fmt::format("{:#x}", static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
  }
}

std::string highway_isa() {
  const std::int64_t targets = hwy::SupportedTargets();
  if ((targets & kHighwayAvx512) != 0) return "avx512";
  if ((targets & HWY_AVX2) != 0) return "avx2";
  return "baseline";
}

std::string processor_model() {
  const auto text = base::read_text_file("/proc/cpuinfo", 16 << 20);
  if (!text.ok()) return "unknown";
  constexpr std::string_view kField = "model name";
  const std::size_t field = text.value().find(kField);
  if (field == std::string::npos) return "unknown";
  const std::size_t begin = text.value().find(':', field) + 2;
  return text.value().substr(begin, text.value().find('\n', begin) - begin);
}

/// "NVIDIA H200, CUDA 13.0, cuDNN 9.19.0, cuBLASLt 13.1.0, NVRTC 13.0"; empty where no device is a
/// GPU. Where models differ, it matters which worker has which: then each stands there, in the
/// workers' order.
std::string gpus_of(std::span<const base::Device> devices) {
  const gpu::Inventory& found = gpu::inventory();
  std::vector<std::string> models;
  for (const base::Device device : devices) {
    if (device.kind != base::DeviceKind::cuda) continue;
    const auto index = static_cast<std::size_t>(device.index);
    models.push_back(index < found.devices.size() ? found.devices[index].name : device.to_string());
  }
  if (models.empty()) return {};
  if (std::ranges::count(models, models.front()) == std::ssize(models)) models.resize(1);
  std::string text = fmt::format("{}, {}", fmt::join(models, " and "),
                                 found.toolkit.substr(0, found.toolkit.find(',')));
  // As chains are fused (worth_fusing), but without a context on the device: parameter servers are
  // of a class, too, and compute on none.
  const auto works = [](const base::Status& tried) {  // a lack of memory says nothing of it
    return tried.ok() || tried.code() == base::Errc::resource_exhausted;
  };
  const bool compiles =
      works(jit::check_compiler()) && std::ranges::all_of(devices, [&](base::Device device) {
        const bool usable = device.kind == base::DeviceKind::cuda && gpu::check_device(device).ok();
        return !usable || works(jit::can_compile(device));
      });
  for (const gpu::LibraryFacts& library : gpu::libraries()) {
    if (library.name == "NCCL") continue;  // computes nothing here
    const bool broken = library.name == "NVRTC" && !compiles;
    const bool missing = library.version.empty() || broken;
    text += fmt::format(", {} {}", library.name, missing ? "none" : library.version);
  }
  return text;
}

}  // namespace

Status cap_instruction_set(std::string_view isa) {
  if (isa == "native") return {};
  std::optional<dnnl::cpu_isa> cap;
  if (isa == "avx2") cap = dnnl::cpu_isa::avx2;
  if (isa == "avx512") cap = dnnl::cpu_isa::avx512_core;
  if (!cap) {
    return base::error(Errc::invalid_argument,
                       "instruction set '{}' (allowed: native, avx2, avx512)", isa);
  }
  if (dnnl::set_max_cpu_isa(*cap) != dnnl::status::success) {
    return base::error(Errc::failed_precondition,
                       "the instruction set can be capped to '{}' once, before the first kernel",
                       isa);
  }
  if (isa == "avx2") hwy::DisableTargets(kHighwayAvx512);
  return {};
}

std::string_view build_name() {
  return TROUPE_BUILD_NAME;
}

base::NumericClass numeric_class(int threads) {
  base::NumericClass result;
  result.build = build_name();
  const dnnl_version_t* version = dnnl_version();
  result.onednn = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  result.libm = gnu_get_libc_version();
  result.isa = onednn_isa() + "/" + highway_isa();
  result.caches = fmt::format("{}/{}/{}", sysconf(_SC_LEVEL1_DCACHE_SIZE),
                              sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE));
  result.threads = threads;
  result.device_model = processor_model();
  return result;
}

base::NumericClass numeric_class(int threads, std::span<const base::Device> devices) {
  base::NumericClass result = numeric_class(threads);
  const std::string gpus = gpus_of(devices);
  if (!gpus.empty()) result.device_model += " with " + gpus;
  return result;
}

bool has_bf16_products() {
#if defined(__x86_64__)
  // Those with AMX have this, too. oneDNN's own answer would be the last before which it is capped.
  if (__builtin_cpu_supports("avx512bf16") == 0) return false;
  const OpTable table = OpTable::build();
  return std::ranges::any_of(table.at("convolution").kernels,
                             [](const KernelDef& kernel) { return kernel.name == "onednn-bf16"; });
#else
  return false;
#endif
}

}  // namespace troupe::ops
