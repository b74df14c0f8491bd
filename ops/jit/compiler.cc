// SPDX-License-Identifier: Apache-2.0
// NVRTC makes machine code, so that the driver has nothing to compile; the CUDA runtime loads it.
#include "ops/jit/compiler.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"
#include "gpu/cuda_error.h"
#include "gpu/device_scope.h"
#include "gpu/inventory.h"
#include "gpu/shared_library.h"
#include "ops/jit/disk_cache.h"
#include "ops/support/wide_loads.h"

namespace troupe::ops::jit {
namespace {

using base::Errc;
using base::Result;
using base::Status;

/// The functions of the library that are used here.
struct Library {
  int major = 0, minor = 0;
  std::uintmax_t bytes = 0;  ///< of its file, which tell patch levels apart; 0: unknown
  decltype(nvrtcCreateProgram)* create;
  decltype(nvrtcDestroyProgram)* destroy;
  decltype(nvrtcCompileProgram)* compile;
  decltype(nvrtcGetErrorString)* error_text;
  decltype(nvrtcGetProgramLogSize)* log_size;
  decltype(nvrtcGetProgramLog)* log;
  decltype(nvrtcGetCUBINSize)* code_size;
  decltype(nvrtcGetCUBIN)* code;
  decltype(nvrtcGetNumSupportedArchs)* count_architectures;
  decltype(nvrtcGetSupportedArchs)* architectures;
};

/// The size of the file that `function` was loaded from.
std::uintmax_t file_bytes(const void* function) {
  Dl_info info{};
  std::error_code unknown;
  if (::dladdr(function, &info) == 0 || info.dli_fname == nullptr) return 0;
  const std::uintmax_t bytes = std::filesystem::file_size(info.dli_fname, unknown);
  return unknown ? 0 : bytes;
}

Result<Library> load() {
  const std::string name = "libnvrtc.so." + std::to_string(CUDART_VERSION / 1000);
  TROUPE_TRY_ASSIGN(const gpu::SharedLibrary file, gpu::SharedLibrary::open({name}));
  Library f{};
  const auto find = [&]<typename F>(F*& function, const char* symbol) -> Status {
    TROUPE_TRY_ASSIGN(function, file.function<F>(symbol));
    return {};
  };
  decltype(nvrtcVersion)* version = nullptr;
  TROUPE_TRY(find(version, "nvrtcVersion"));
  TROUPE_TRY(find(f.create, "nvrtcCreateProgram"));
  TROUPE_TRY(find(f.destroy, "nvrtcDestroyProgram"));
  TROUPE_TRY(find(f.compile, "nvrtcCompileProgram"));
  TROUPE_TRY(find(f.error_text, "nvrtcGetErrorString"));
  TROUPE_TRY(find(f.log_size, "nvrtcGetProgramLogSize"));
  TROUPE_TRY(find(f.log, "nvrtcGetProgramLog"));
  TROUPE_TRY(find(f.code_size, "nvrtcGetCUBINSize"));
  TROUPE_TRY(find(f.code, "nvrtcGetCUBIN"));
  TROUPE_TRY(find(f.count_architectures, "nvrtcGetNumSupportedArchs"));
  TROUPE_TRY(find(f.architectures, "nvrtcGetSupportedArchs"));
  if (version(&f.major, &f.minor) != NVRTC_SUCCESS) {
    return base::error(Errc::failed_precondition, "{} tells no version", file.file());
  }
  f.bytes = file_bytes(reinterpret_cast<const void*>(version));
  // The library opens this one by name when it compiles, and finds it only where the system's
  // loader looks. Without it compiling fails, which is seen then.
  const std::filesystem::path folder = std::filesystem::path(file.file()).parent_path();
  const std::string builtins = fmt::format("libnvrtc-builtins.so.{}.{}", f.major, f.minor);
  if (!folder.empty()) {
    static_cast<void>(gpu::SharedLibrary::open_of_system({(folder / builtins).string()}));
  }
  return f;
}

/// Found once, like the devices (gpu/inventory.h).
const Result<Library>& library() {
  static const Result<Library> found = load();
  return found;
}

Result<const Library*> usable_library() {
  if (library().ok()) return &library().value();
  return base::error(Errc::unimplemented, "no NVRTC: {}", library().status().text());
}

/// The newest architecture that the library knows and whose code runs on the device.
Result<int> architecture_for(const Library& lib, int major, int minor) {
  int count = 0;
  std::vector<int> known;
  if (lib.count_architectures(&count) == NVRTC_SUCCESS && count > 0) {
    known.resize(static_cast<std::size_t>(count));
    if (lib.architectures(known.data()) != NVRTC_SUCCESS) known.clear();
  }
  int best = 0;
  for (const int each : known) {
    if (each / 10 == major && each % 10 <= minor) best = std::max(best, each);
  }
  if (best > 0) return best;
  return base::error(Errc::unimplemented, "NVRTC {}.{} makes no code for compute capability {}.{}",
                     lib.major, lib.minor, major, minor);
}

/// The architecture to compile for a GPU.
Result<int> architecture_of(const Library& lib, base::Device device) {
  if (const Status usable = gpu::check_device(device); !usable.ok()) {
    return base::error(Errc::unimplemented, "{}", usable.text());
  }
  const gpu::DeviceFacts& facts = gpu::inventory().devices[static_cast<std::size_t>(device.index)];
  return architecture_for(lib, facts.compute_major, facts.compute_minor);
}

/// Options for an architecture.
std::array<std::string, 3> options_for(int architecture) {
  return {fmt::format("--gpu-architecture=sm_{}", architecture), "--std=c++17", "--fmad=false"};
}

class Program {
 public:
  Program(const Library& lib, const std::string& source) : lib_(lib) {
    result_ = lib.create(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  }
  ~Program() {
    if (program_ != nullptr) lib_.destroy(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Result<std::string> code_for(int architecture) {
    const std::array<std::string, 3> options = options_for(architecture);
    std::array<const char*, 3> texts = {};
    std::transform(options.begin(), options.end(), texts.begin(),
                   [](const std::string& option) { return option.c_str(); });
    if (result_ == NVRTC_SUCCESS) {
      result_ = lib_.compile(program_, static_cast<int>(texts.size()), texts.data());
    }
    std::string code;
    std::size_t bytes = 0;
    if (result_ == NVRTC_SUCCESS) result_ = lib_.code_size(program_, &bytes);
    code.resize(bytes);
    if (result_ == NVRTC_SUCCESS) result_ = lib_.code(program_, code.data());
    if (result_ == NVRTC_SUCCESS) return code;
    const bool full = result_ == NVRTC_ERROR_OUT_OF_MEMORY;  // says nothing of other times
    return base::error(full ? Errc::resource_exhausted : Errc::internal, "NVRTC: {}: {}",
                       lib_.error_text(result_), log());
  }

 private:
  std::string log() const {
    std::size_t bytes = 0;
    if (program_ == nullptr || lib_.log_size(program_, &bytes) != NVRTC_SUCCESS) return {};
    std::string text(bytes, '\0');
    if (lib_.log(program_, text.data()) != NVRTC_SUCCESS) return {};
    constexpr std::size_t kMost = 2000;
    return text.substr(0, std::min(text.find('\0'), kMost));
  }

  const Library& lib_;
  nvrtcProgram program_ = nullptr;
  nvrtcResult result_ = NVRTC_SUCCESS;
};

/// All that the machine code depends on.
std::string recipe(const Library& lib, const std::string& source, int architecture) {
  std::string text = fmt::format("NVRTC {}.{}, {} bytes\n", lib.major, lib.minor, lib.bytes);
  for (const std::string& option : options_for(architecture)) text += option + "\n";
  return text + source;
}

/// Machine code from the disk or the compiler; unimplemented where that fails, so that other
/// kernels are asked, and the log says why. resource_exhausted where memory was missing.
Result<std::string> code_of(const Library& lib, const std::string& source, int architecture) {
  const std::string text = recipe(lib, source, architecture);
  if (std::optional<std::string> kept = kernel_cache().get(text)) return *std::move(kept);
  Result<std::string> code = Program(lib, source).code_for(architecture);
  if (!code.ok()) {
    base::log_warn("a kernel could not be compiled: {}", code.status().text());
    return declined(code.status());
  }
  const Status put = kernel_cache().put(text, *code);
  static std::atomic<bool> told = false;
  if (!put.ok() && !told.exchange(true)) {
    base::log_warn("compiled kernels are not kept: {}", put.text());
  }
  return code;
}

#if CUDART_VERSION >= 12080
/// A kernel of machine code, loaded for all devices that can run it.
Result<void*> load_kernel(const std::string& code, const char* name) {
  cudaLibrary_t loaded = nullptr;
  cudaError_t error =
      cudaLibraryLoadData(&loaded, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  cudaKernel_t kernel = nullptr;
  if (error == cudaSuccess) error = cudaLibraryGetKernel(&kernel, loaded, name);
  if (error == cudaSuccess) return static_cast<void*>(kernel);
  if (loaded != nullptr) static_cast<void>(cudaLibraryUnload(loaded));
  static_cast<void>(cudaGetLastError());  // what does not stick is told once
  return declined(base::error(gpu::errc_of(error), "a compiled kernel could not be loaded: {}",
                              cudaGetErrorString(error)));
}
#else
Result<void*> load_kernel(const std::string&, const char*) {
  return base::error(Errc::unimplemented, "kernels compiled at run time need CUDA 12.8 or newer");
}
#endif

/// A kernel to try with.
constexpr const char* kNothing = "extern \"C\" __global__ void nothing() {}";

/// The kernels of this process, by recipe and name.
struct Loaded {
  base::Mutex mutex;
  std::map<std::string, void*> kernels TROUPE_GUARDED_BY(mutex);
};
Loaded& loaded() {
  static Loaded all;
  return all;
}

}  // namespace

Status check_compiler() {
  static base::Mutex mutex;
  static std::optional<Status> answer;  // but where memory was missing
  const base::MutexLock lock(mutex);
  if (answer) return *answer;
  constexpr int kMajor = 9, kMinor = 0;  // any that the library knows
  Status tried = compile(kNothing, kMajor, kMinor).status();
  if (tried.code() == Errc::resource_exhausted) return tried;
  if (tried.code() == Errc::internal) {
    base::log_warn("no kernels are compiled while this program runs: {}", tried.text());
  }
  answer = std::move(tried);
  return *answer;
}

Status can_compile(base::Device device) {
  TROUPE_TRY(check_compiler());
  TROUPE_TRY_ASSIGN(const Library* const lib, usable_library());
  TROUPE_TRY(architecture_of(*lib, device).status());
#if CUDART_VERSION < 12080
  return load_kernel({}, nullptr).status();
#endif
  // Machine code is loaded by every driver of the compiler's generation, "13" of "13.0", and later.
  const std::string& driver = gpu::inventory().driver;
  int known = 0;
  std::from_chars(driver.data(), driver.data() + driver.size(), known);
  if (known >= lib->major) return {};
  return base::error(Errc::unimplemented, "the driver knows CUDA {}, NVRTC is {}.{}", driver,
                     lib->major, lib->minor);
}

Status check_compiler(base::Device device) {
  TROUPE_TRY(can_compile(device));
  return CompiledKernel::make(kNothing, "nothing", device).status();
}

Result<std::string> compile(const std::string& source, int major, int minor) {
  TROUPE_TRY_ASSIGN(const Library* const lib, usable_library());
  TROUPE_TRY_ASSIGN(const int architecture, architecture_for(*lib, major, minor));
  return Program(*lib, source).code_for(architecture);
}

Result<CompiledKernel> CompiledKernel::make(const std::string& source, const char* name,
                                            base::Device device) {
  TROUPE_TRY_ASSIGN(const Library* const lib, usable_library());
  TROUPE_TRY_ASSIGN(const int architecture, architecture_of(*lib, device));
  const std::string key =
      base::to_hex(base::sha256(fmt::format("{}\n{}", name, recipe(*lib, source, architecture))));
  const base::MutexLock lock(loaded().mutex);
  const auto found = loaded().kernels.find(key);
  if (found != loaded().kernels.end()) return CompiledKernel(found->second);
  TROUPE_TRY_ASSIGN(const std::string code, code_of(*lib, source, architecture));
  const gpu::DeviceScope scope(device);
  if (!scope.status().ok()) return declined(scope.status());
  TROUPE_TRY_ASSIGN(void* const kernel, load_kernel(code, name));
  loaded().kernels.emplace(key, kernel);
  return CompiledKernel(kernel);
}

Status CompiledKernel::launch(const base::Stream& stream, unsigned blocks, unsigned threads,
                              std::span<const std::byte> parameter) const {
  void* address = const_cast<std::byte*>(parameter.data());
  const cudaError_t error = cudaLaunchKernel(kernel_, dim3(blocks), dim3(threads), &address, 0,
                                             static_cast<cudaStream_t>(stream.native()));
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());  // is told once
  return gpu::launch_status(error, stream.device());
}

}  // namespace troupe::ops::jit
