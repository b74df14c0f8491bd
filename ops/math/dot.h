// SPDX-License-Identifier: Apache-2.0
// dot and its two gradients as one matrix product with strides, for all its kernels.
#pragma once

#include "ops/op.h"
#include "ops/support/product.h"

namespace troupe::ops {

/// The product that a call of dot, dot_backward_lhs or dot_backward_rhs computes.
Product product_of(const OpCall& call);

}  // namespace troupe::ops
