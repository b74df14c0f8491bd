// SPDX-License-Identifier: Apache-2.0
// dot and its gradients by cuBLASLt.
#include "ops/math/dot.h"

#include <memory>
#include <utility>

#include "ops/support/cublas.h"
#include "ops/support/scratch_views.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Status;

class CublasDot final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const OpCall& call) {
    const Product p = product_of(call);
    if (p.rows == 0 || p.columns == 0 || p.inner == 0) {
      return base::error(Errc::unimplemented, "a product without elements");
    }
    TROUPE_TRY_ASSIGN(
        cublas::Plan plan,
        cublas::Plan::make({.dtype = call.outputs[0].dtype,
                            .rows = p.rows,
                            .columns = p.columns,
                            .inner = p.inner,
                            .a_transposed = p.x_inner != 1,
                            .b_transposed = p.y_column != 1,
                            .adds = !call.modes.empty() && call.modes[0] == WriteMode::add,
                            .tf32 = call.tf32},
                           call.device));
    return std::unique_ptr<Kernel>(new CublasDot(p, std::move(plan)));
  }

  std::string name() const override { return "cublas"; }
  std::size_t scratch_bytes() const override {
    return scratch_piece(static_cast<std::int64_t>(plan_.workspace_bytes()));
  }
  Status run(const KernelContext& context) const override {
    return plan_.run(context, context.inputs[x_].data, context.inputs[y_].data, nullptr,
                     context.outputs[0].data, context.scratch.data());
  }

 private:
  CublasDot(const Product& p, cublas::Plan plan)
      : x_(p.x_input), y_(p.y_input), plan_(std::move(plan)) {}

  std::size_t x_, y_;  // inputs of the call
  cublas::Plan plan_;
};

KernelDef cublas_kernel() {
  return cublas::dense_kernel([](const OpCall& call) { return CublasDot::make(call); });
}

}  // namespace

std::span<const BackendKernel> kernels_dot_cublas() {
  static const BackendKernel kernels[] = {{"dot", cublas_kernel()},
                                          {"dot_backward_lhs", cublas_kernel()},
                                          {"dot_backward_rhs", cublas_kernel()}};
  return kernels;
}

}  // namespace troupe::ops
