// SPDX-License-Identifier: Apache-2.0
// Reductions with the widest vectors of the machine: the walk, the order and hence the bits of
// reduce.h. Pure functions; any thread.
#pragma once

#include <memory>
#include <utility>

#include "ops/support/flat_kernel.h"
#include "ops/support/function_kernel.h"
#include "ops/support/reduce.h"

namespace troupe::ops {

/// PlainJoin by vectors.
struct VectorJoin {
  static void join(SumReducer, const float* x, const ReduceRows& rows, double* totals);
  static void join(SumReducer, const double* x, const ReduceRows& rows, double* totals);
  static void join(MaxReducer, const float* x, const ReduceRows& rows, double* totals);
  static void join(MaxReducer, const double* x, const ReduceRows& rows, double* totals);
};

/// The kernel "simd" beside reduce_kernel(walk_of, finish).
template <typename Reducer, typename Finish>
KernelDef reduce_vectors_kernel(ReduceWalkOf walk_of, Finish finish) {
  const auto make = [=](const OpCall& call) -> base::Result<std::unique_ptr<Kernel>> {
    TROUPE_TRY(with_floating(call.outputs[0].dtype, [](auto) { return base::Status(); }));
    TROUPE_TRY(common_layout(call).status());
    OpCall dense = call;
    for (TensorDesc& input : dense.inputs) input.layout = {};
    dense.outputs[0].layout = {};
    const ReduceWalk walk = walk_of(call);
    const bool add = !call.modes.empty() && call.modes[0] == WriteMode::add;
    const auto run = [=](const OpCall&, const KernelContext& context) {
      return run_reduce<Reducer, VectorJoin>(context, walk, finish, add);
    };
    return std::unique_ptr<Kernel>(
        std::make_unique<FunctionKernel>("simd", std::move(dense), run, walk.scratch_bytes()));
  };
  return {"simd", make};
}

}  // namespace troupe::ops
