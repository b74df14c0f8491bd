// SPDX-License-Identifier: Apache-2.0
// Runs prepared kernels on the first GPU, on copies of a test's tensors. A test's thread only.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "gpu/inventory.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops::testing {

inline constexpr base::Device kFirstGpu{base::DeviceKind::cuda, 0};

/// True, said with the reason, where tests of a device cannot run.
inline bool without_gpu() {
  const base::Status usable = gpu::check_device(kFirstGpu);
  if (usable.ok()) return false;
  WARN("skipped: " << usable.text());
  return true;
}

/// A stream and what kernels keep beside it.
class OnGpu {
 public:
  OnGpu() : stream_(gpu::make_stream(kFirstGpu, gpu::StreamPriority::normal).value()) {
    stream_->attach();
  }

  /// run_kernel() on the device: tensors that share memory share it there, each has its guard.
  void run(const Kernel& kernel, const std::vector<Tensor>& inputs,
           const std::vector<Tensor>& outputs, const RunOptions& options = {}) {
    std::map<const std::byte*, Copy> copies;
    std::vector<base::TensorView> in, out;
    for (const Tensor& tensor : inputs) in.push_back(view_of(copies, tensor));
    for (const Tensor& tensor : outputs) out.push_back(view_of(copies, tensor));
    const Tensor scratch(DType::u8, Shape{std::int64_t(kernel.scratch_bytes())});
    const base::TensorView scratch_view = view_of(copies, scratch);
    const KernelContext context{
        .inputs = in,
        .outputs = out,
        .scratch = {static_cast<std::byte*>(scratch_view.data), kernel.scratch_bytes()},
        .random_key = options.key,
        .random_step = options.step,
        .team = options.team,
        .slots = &slots_,
        .stream = stream_.get(),
    };
    const base::Status issued = kernel.run(context);
    INFO(issued.to_string());
    REQUIRE(issued.ok());
    const base::Status done = stream_->record()->wait_on_host();
    INFO(done.to_string());
    REQUIRE(done.ok());
    for (const auto& [host, copy] : copies) {
      REQUIRE(stream_->copy(copy.tensor.memory.data(), copy.device.get(), copy.tensor.memory.size())
                  .ok());
    }
    REQUIRE(stream_->record()->wait_on_host().ok());
    CHECK(scratch.guard_intact());
    for (const auto& [host, copy] : copies) CHECK(copy.tensor.guard_intact());
  }

 private:
  struct Release {
    void operator()(std::byte* data) const { gpu::release(kFirstGpu, data); }
  };
  struct Copy {
    Tensor tensor;
    std::unique_ptr<std::byte, Release> device;
  };

  base::TensorView view_of(std::map<const std::byte*, Copy>& copies, const Tensor& tensor) {
    base::TensorView view = tensor.view();
    Copy& copy = copies[tensor.memory.data()];
    if (!copy.device) {
      const std::size_t bytes = tensor.memory.size();
      copy.tensor = tensor;
      copy.device.reset(gpu::allocate(kFirstGpu, bytes).value());
      REQUIRE(stream_->copy(copy.device.get(), tensor.memory.data(), bytes).ok());
    }
    view.data = copy.device.get();
    return view;
  }

  std::unique_ptr<base::Stream> stream_;
  base::SlotStore slots_;
};

}  // namespace troupe::ops::testing
