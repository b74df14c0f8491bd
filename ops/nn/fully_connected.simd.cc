// SPDX-License-Identifier: Apache-2.0
// fully_connected and its gradient as matrix products with the widest vectors of the machine.
#include "ops/nn/fully_connected.h"
#include "ops/support/product.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

Product forward(const OpCall& call) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[0].shape);
  Product p{e.rows, e.hidden, e.inner, 0, 1, e.inner, 1, 1, e.inner};
  if (call.inputs.size() > 2) p.bias_input = 2;
  return p;
}

/// output_gradient * weight
Product backward_data(const OpCall& call) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[2].shape);
  return {e.rows, e.inner, e.hidden, 0, 1, e.hidden, 1, e.inner, 1};
}

/// output_gradient^T * data; its rows' sums are the gradient of the bias.
Product backward_weights(const OpCall& call) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[1].shape);
  Product p{e.hidden, e.inner, e.rows, 0, 1, 1, e.hidden, e.inner, 1};
  if (call.outputs.size() > 1) p.row_sums_output = 1;
  return p;
}

}  // namespace

std::span<const BackendKernel> kernels_fully_connected_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"fully_connected", product_kernel(forward)},
      {"fully_connected_backward_data", product_kernel(backward_data)},
      {"fully_connected_backward_weights", product_kernel(backward_weights)},
  };
  return kernels;
}

}  // namespace troupe::ops
