// SPDX-License-Identifier: Apache-2.0
// Operators without inputs: shape and dtype are parameters.
#pragma once

#include "ops/op.h"

namespace troupe::ops {

/// A definition with inference from the parameters `shape` and `dtype` (f32 or f64), output `out`
/// and no input; differentiable, because there is nothing to differentiate by.
OpDef creation_definition();

}  // namespace troupe::ops
