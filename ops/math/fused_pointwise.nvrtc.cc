// SPDX-License-Identifier: Apache-2.0
// fused_pointwise on GPUs as one kernel, compiled by NVRTC when the call is prepared.
#include <array>
#include <cstring>
#include <utility>

#include "ops/jit/compiler.h"
#include "ops/jit/pointwise_source.h"
#include "ops/support/chain_kernel.h"
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Result;
using base::Status;

/// The bytes of the kernel's Arguments (jit/pointwise_source.h) but for the numbers.
constexpr std::size_t kFieldsMost = kChainInputsMost + 3;

class CompiledChain final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const OpCall& call) {
    const base::DType dtype = call.outputs[0].dtype;
    if (call.device.kind != base::DeviceKind::cuda) {
      return base::error(base::Errc::unimplemented, "only on GPUs");
    }
    TROUPE_TRY(with_real(dtype, [](auto) { return Status(); }));
    const PointwiseChain chain = chain_of(call.params);
    TROUPE_TRY_ASSIGN(base::Layout layout, chain_layout(call, chain));
    TROUPE_TRY_ASSIGN(jit::CompiledKernel compiled,
                      jit::CompiledKernel::make(jit::pointwise_source(chain, dtype),
                                                jit::kPointwiseKernel, call.device));
    auto kernel = std::unique_ptr<CompiledChain>(new CompiledChain(std::move(compiled)));
    kernel->input_layouts_ = chain_input_layouts(chain, layout);
    kernel->is_number_ = chain.is_number();
    for (const PointwiseStep& step : chain.steps) {
      kernel->name_ += (kernel->name_.empty() ? "nvrtc(" : ", ") + step.op->name;
    }
    kernel->name_ += ")";
    kernel->layout_ = std::move(layout);
    for (const double number : jit::chain_numbers(chain)) kernel->add_number(dtype, number);
    if (kernel->numbers_.empty()) kernel->add_number(dtype, 0);
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  std::string name() const override { return name_; }
  std::vector<base::Layout> input_layouts() const override { return input_layouts_; }
  std::vector<base::Layout> output_layouts() const override { return {layout_}; }

  Status run(const KernelContext& context) const override {
    const base::TensorView& output = context.outputs[0];
    const auto count = output.bytes() / static_cast<std::int64_t>(base::dtype_size(output.dtype));
    if (count == 0) return {};
    if (context.stream == nullptr || context.stream->native() == nullptr) {
      return base::error(base::Errc::failed_precondition, "a compiled kernel needs a GPU's stream");
    }
    std::array<std::byte, kFieldsMost* 8 + kNumberBytesMost> argument = {};
    std::size_t at = 0;
    const auto put = [&](const void* bytes, std::size_t size) {
      std::memcpy(argument.data() + at, bytes, size);
      at += size;
    };
    bool aligned = packs_align(output.data);
    for (std::size_t k = 0; k < context.inputs.size(); ++k) {
      void* const data = context.inputs[k].data;
      aligned = aligned && (is_number_[k] || packs_align(data));
      put(&data, sizeof data);
    }
    const std::int64_t tail[] = {count, aligned ? 1 : 0};
    put(&output.data, sizeof output.data);
    put(tail, sizeof tail);
    put(numbers_.data(), numbers_.size());
    constexpr std::int64_t kThreads = jit::kPointwiseThreads, kBlocksMost = 1 << 20;
    const std::int64_t elements_each =
        aligned ? std::max<std::int64_t>(
                      1, 16 / static_cast<std::int64_t>(base::dtype_size(output.dtype)))
                : 1;
    const std::int64_t steps = (count + elements_each - 1) / elements_each;
    const auto blocks = std::min((steps + kThreads - 1) / kThreads, kBlocksMost);
    return compiled_.launch(*context.stream, static_cast<unsigned>(blocks), kThreads, argument);
  }

 private:
  /// Two numbers of each step at most.
  static constexpr std::size_t kNumberBytesMost = kChainStepsMost * 2 * sizeof(double);

  explicit CompiledChain(jit::CompiledKernel compiled) : compiled_(std::move(compiled)) {}

  void add_number(base::DType dtype, double number) {
    const auto narrow = static_cast<float>(number);
    const bool wide = dtype == base::DType::f64;
    const auto* bytes = wide ? reinterpret_cast<const std::byte*>(&number)
                             : reinterpret_cast<const std::byte*>(&narrow);
    numbers_.insert(numbers_.end(), bytes, bytes + (wide ? sizeof number : sizeof narrow));
    TROUPE_CHECK(numbers_.size() <= kNumberBytesMost, "a chain of too many numbers");
  }

  jit::CompiledKernel compiled_;
  std::string name_;  // "nvrtc(exp, clip)"
  base::Layout layout_;
  std::vector<base::Layout> input_layouts_;
  std::vector<bool> is_number_;
  std::vector<std::byte> numbers_;
};

KernelDef compiled_kernel() {
  KernelDef kernel{"nvrtc", [](const OpCall& call) { return CompiledChain::make(call); }};
  kernel.takes_16_bits = any_16_bits;
  kernel.on_gpus = true;
  return kernel;
}

}  // namespace

std::span<const BackendKernel> kernels_fused_pointwise_nvrtc() {
  static const BackendKernel kernels[] = {{"fused_pointwise", compiled_kernel()}};
  return kernels;
}

}  // namespace troupe::ops
