// SPDX-License-Identifier: Apache-2.0
// multiply on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Multiply {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a * b;
  }
};

}  // namespace

std::span<const BackendKernel> kernels_multiply_cuda() {
  static const BackendKernel kernels[] = {
      {"multiply", broadcast_device_kernel(Multiply())},
      {"multiply_elemwise", broadcast_device_kernel(Multiply())},
      {"multiply_scalar", scalar_device_kernel(Multiply())}};
  return kernels;
}

}  // namespace troupe::ops
