// SPDX-License-Identifier: Apache-2.0
// fully_connected and its gradients by cuBLASLt.
#include "ops/nn/fully_connected.h"

#include <optional>

#include "ops/nn/device_epilogue.h"
#include "ops/nn/linear.h"
#include "ops/support/cublas.h"
#include "ops/support/scratch_views.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Status;

enum class Pass : std::uint8_t { output, data, weight };

/// Outputs (rows, hidden) = data (rows, inner) * weight (hidden, inner) transposed, and what
/// follows for gradients.
cublas::Product product_of(const OpCall& call, Pass pass) {
  const std::size_t data = pass == Pass::output ? 0 : pass == Pass::data ? 2 : 1;
  const FullyConnected v = read_fully_connected(call.params, call.inputs[data].shape);
  cublas::Product p{.dtype = call.inputs[0].dtype};
  if (pass == Pass::output) {
    p.rows = v.rows, p.columns = v.hidden, p.inner = v.inner;
    p.b_transposed = true;
    p.biased = has_bias(call.params);
  } else if (pass == Pass::data) {
    p.rows = v.rows, p.columns = v.inner, p.inner = v.hidden;
  } else {
    p.rows = v.hidden, p.columns = v.inner, p.inner = v.rows;
    p.a_transposed = true;
  }
  p.wide_result = call.outputs[0].dtype != p.dtype;
  p.adds = !call.modes.empty() && call.modes[0] == WriteMode::add;
  p.tf32 = call.tf32;
  return p;
}

class CublasConnected final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const OpCall& call, Pass pass) {
    auto kernel = std::unique_ptr<CublasConnected>(new CublasConnected(call, pass));
    const cublas::Product product = product_of(call, pass);
    if (product.rows == 0 || product.columns == 0 || product.inner == 0) {
      return base::error(Errc::unimplemented, "a product without elements");
    }
    TROUPE_TRY_ASSIGN(kernel->plan_, cublas::Plan::make(product, call.device));
    kernel->workspace_bytes_ =
        scratch_piece(static_cast<std::int64_t>(kernel->plan_->workspace_bytes()));
    if (kernel->sums_) kernel->sum_bytes_ = output_gradient_sum_bytes(kernel->call_);
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  std::string name() const override { return "cublas"; }
  std::size_t scratch_bytes() const override { return workspace_bytes_ + sum_bytes_; }

  Status run(const KernelContext& context) const override {
    const void* const bias = biased_ ? context.inputs[2].data : nullptr;
    TROUPE_TRY(plan_->run(context, context.inputs[0].data, context.inputs[1].data, bias,
                          context.outputs[0].data, context.scratch.data()));
    if (!sums_) return {};
    return sum_output_gradient(call_, context, context.scratch.data() + workspace_bytes_);
  }

 private:
  CublasConnected(OpCall call, Pass pass)
      : call_(std::move(call)),
        biased_(pass == Pass::output && has_bias(call_.params)),
        sums_(pass == Pass::weight && has_bias(call_.params)) {
    for (TensorDesc& input : call_.inputs) input.layout = base::Layout::dense();
    if (sums_) {  // over what is no unit
      const FullyConnected v = read_fully_connected(call_.params, call_.inputs[1].shape);
      call_.inputs[0].shape = {v.rows, v.hidden};
    }
  }

  OpCall call_;
  bool biased_, sums_;
  std::optional<cublas::Plan> plan_;
  std::size_t workspace_bytes_ = 0, sum_bytes_ = 0;
};

KernelDef cublas_kernel(Pass pass) {
  return cublas::dense_kernel(
      [pass](const OpCall& call) { return CublasConnected::make(call, pass); });
}

}  // namespace

std::span<const BackendKernel> kernels_fully_connected_cublas() {
  static const BackendKernel kernels[] = {
      {"fully_connected", cublas_kernel(Pass::output)},
      {"fully_connected_backward_data", cublas_kernel(Pass::data)},
      {"fully_connected_backward_weights", cublas_kernel(Pass::weight)}};
  return kernels;
}

}  // namespace troupe::ops
