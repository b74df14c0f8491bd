// SPDX-License-Identifier: Apache-2.0
// Definitions that optimizers share: tensors of one shape, then the numbers of the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "ops/op.h"

namespace troupe::ops {

/// A definition with everything but name, doc, parameters, names of inputs and outputs, in-place
/// pairs, kernels and samples. The first `tensors` inputs and all outputs have one shape; the other
/// inputs (learning rate, count) are 0-d, so that a step changes no parameter.
OpDef update_definition(std::size_t tensors);

/// The same rule for many weights in one call: the parameter `num_weights`, and inputs and outputs
/// of `one` with a number behind their names, weight by weight; the numbers of the step, which are
/// the same for all, come last. Weights have shapes of their own. In-place pairs are those of
/// `one`. Name, doc, kernels and samples stay empty.
OpDef multi_update_definition(const OpDef& one, std::size_t tensors);
/// Most weights of such a call.
inline constexpr std::int64_t kUpdatedMost = 256;

/// f(inputs, outputs) of `one` for each weight of a call of multi_update_definition(one, tensors),
/// in turn.
base::Status for_each_weight(std::size_t tensors, const OpCall& call, const KernelContext& context,
                             base::FunctionRef<base::Status(std::span<const base::TensorView>,
                                                            std::span<const base::TensorView>)>
                                 f);

}  // namespace troupe::ops
