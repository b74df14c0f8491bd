// SPDX-License-Identifier: Apache-2.0
// Kernels of element-wise operators over values that lie one behind the other, for code that works
// on bytes and has no arrays: sums of gradients, roundings. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/device.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/tensor_view.h"
#include "ndarray/prepared_kernels.h"
#include "ops/kernel.h"
#include "ops/table.h"

namespace troupe::ndarray {

/// A call on `elements` values of each input.
struct FlatCall {
  std::string_view op;
  ops::Attributes attributes = {};
  std::vector<base::DType> inputs;
  base::DType output = base::DType::f32;
  std::int64_t elements = 0;
  base::Device device = {};
  int team = 1;  ///< of the lane that will run it
};

/// left + right of one dtype, one rounding each.
FlatCall flat_addition(base::DType dtype, std::int64_t elements, base::Device device, int team);
/// Values of `from` in dtype `to`, each rounded once.
FlatCall flat_cast(base::DType from, base::DType to, std::int64_t elements, base::Device device,
                   int team);

/// The kernel of a call; errors are those of ops::prepare.
base::Result<std::shared_ptr<const ops::Kernel>> flat_kernel(const FlatCall& call,
                                                             const ops::OpTable& table,
                                                             PreparedKernels& kernels);

/// `elements` values from `data` on, as kernels see them.
inline base::TensorView flat_view(std::byte* data, base::DType dtype, std::int64_t elements) {
  return {data, dtype, base::Shape{elements}, {}, {}};
}

}  // namespace troupe::ndarray
