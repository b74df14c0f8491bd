// SPDX-License-Identifier: Apache-2.0
// Kernels for GPUs that are compiled while a program runs, by NVRTC, which is found at run time
// (gpu/shared_library.h). In builds without CUDA every call is unimplemented.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/device.h"
#include "base/status.h"
#include "base/stream.h"

namespace troupe::ops::jit {

/// Whether NVRTC is there and compiles; tried once. unimplemented or internal says why not,
/// resource_exhausted that there was no memory to try it: it is tried again.
base::Status check_compiler();
/// The same, and whether it makes code for `device`, a GPU, that its driver loads. Asks nothing of
/// the device, so that a process that computes on none makes no context there.
base::Status can_compile(base::Device device);
/// The same, and whether what it compiles runs on `device`: tried with a kernel that does nothing
/// until one was loaded. resource_exhausted where the device has no memory for it now.
base::Status check_compiler(base::Device device);

/// Machine code for devices of compute capability major.minor from CUDA C++ without headers, every
/// operation rounded by itself. unimplemented says what is missing, internal what the
/// compiler said.
base::Result<std::string> compile(const std::string& source, int major, int minor);

/// A kernel on a device. Immutable; any thread may launch it. Stays loaded until the process ends:
/// graphs that were made of launches may outlive every owner.
class CompiledKernel {
 public:
  /// The kernel `name` of `source`: loaded before in this process, or kept as a file in
  /// kernel_cache(), or compiled. unimplemented says why there is none.
  static base::Result<CompiledKernel> make(const std::string& source, const char* name,
                                           base::Device device);

  /// Issues `blocks` blocks of `threads`; the kernel's one parameter has these bytes.
  base::Status launch(const base::Stream& stream, unsigned blocks, unsigned threads,
                      std::span<const std::byte> parameter) const;

 private:
  explicit CompiledKernel(void* kernel) : kernel_(kernel) {}
  void* kernel_;  // a cudaKernel_t
};

}  // namespace troupe::ops::jit
