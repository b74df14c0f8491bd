// SPDX-License-Identifier: Apache-2.0
// Definitions that optimizers share: tensors of one shape, then the numbers of the step.
#pragma once

#include <cstddef>

#include "ops/op.h"

namespace troupe::ops {

/// A definition with everything but name, doc, parameters, names of inputs and outputs, in-place
/// pairs, kernels and samples. The first `tensors` inputs and all outputs have one shape; the other
/// inputs (learning rate, count) are 0-d, so that a step changes no parameter.
OpDef update_definition(std::size_t tensors);

}  // namespace troupe::ops
