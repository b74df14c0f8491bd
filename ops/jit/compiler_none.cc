// SPDX-License-Identifier: Apache-2.0
// compiler.h in builds without CUDA: the reason why nothing is compiled.
#include "ops/jit/compiler.h"

namespace troupe::ops::jit {
namespace {

base::Status without_cuda() {
  return base::error(base::Errc::unimplemented, "built without CUDA");
}

}  // namespace

base::Status check_compiler() {
  return without_cuda();
}

base::Status can_compile(base::Device) {
  return without_cuda();
}

base::Status check_compiler(base::Device) {
  return without_cuda();
}

base::Result<std::string> compile(const std::string&, int, int) {
  return without_cuda();
}

base::Result<CompiledKernel> CompiledKernel::make(const std::string&, const char*, base::Device) {
  return without_cuda();
}

base::Status CompiledKernel::launch(const base::Stream&, unsigned, unsigned,
                                    std::span<const std::byte>) const {
  return without_cuda();
}

}  // namespace troupe::ops::jit
