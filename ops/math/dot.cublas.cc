// SPDX-License-Identifier: Apache-2.0
// dot and its gradients by cuBLASLt.
#include "ops/math/dot.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "ops/support/cublas.h"
#include "ops/support/scratch_views.h"
#include "ops/support/wide_loads.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Status;

/// Our own kernel for the call.
Result<std::unique_ptr<Kernel>> own_kernel(const OpCall& call) {
  const auto own = std::ranges::find_if(
      call.op->kernels, [](const KernelDef& each) { return each.on_gpus && each.name == "cuda"; });
  TROUPE_CHECK(own != call.op->kernels.end(), "dot has a kernel of our own");
  return own->prepare(call);
}

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
    TROUPE_TRY_ASSIGN(std::unique_ptr<Kernel> own, own_kernel(call));
    return std::unique_ptr<Kernel>(new CublasDot(p, std::move(plan), std::move(own)));
  }

  std::string name() const override { return "cublas"; }
  std::size_t scratch_bytes() const override {
    return std::max(scratch_piece(static_cast<std::int64_t>(plan_.workspace_bytes())),
                    own_->scratch_bytes());
  }
  Status run(const KernelContext& context) const override {
    const void *const x = context.inputs[x_].data, *const y = context.inputs[y_].data;
    void* const output = context.outputs[0].data;
    // A slice of an array may begin anywhere.
    if (!check_wide_loads("cuBLASLt", std::array<const void*, 3>{x, y, output}).ok()) {
      return own_->run(context);
    }
    return plan_.run(context, x, y, nullptr, output, context.scratch.data());
  }

 private:
  CublasDot(const Product& p, cublas::Plan plan, std::unique_ptr<Kernel> own)
      : x_(p.x_input), y_(p.y_input), plan_(std::move(plan)), own_(std::move(own)) {}

  std::size_t x_, y_;  // inputs of the call
  cublas::Plan plan_;
  std::unique_ptr<Kernel> own_;  // for operands that the library cannot load
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
