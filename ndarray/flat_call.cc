// SPDX-License-Identifier: Apache-2.0
// Calls with one axis.
#include "ndarray/flat_call.h"

#include <string>

namespace troupe::ndarray {

FlatCall flat_addition(base::DType dtype, std::int64_t elements, base::Device device, int team) {
  return {"add", {}, {dtype, dtype}, dtype, elements, device, team};
}

FlatCall flat_cast(base::DType from, base::DType to, std::int64_t elements, base::Device device,
                   int team) {
  const ops::Attributes attributes = {{"dtype", std::string(base::dtype_name(to))}};
  return {"cast", attributes, {from}, to, elements, device, team};
}

base::Result<std::shared_ptr<const ops::Kernel>> flat_kernel(const FlatCall& call,
                                                             const ops::OpTable& table,
                                                             PreparedKernels& kernels) {
  const base::Shape shape{call.elements};
  ops::OpCall whole;
  whole.op = &table.at(call.op);
  TROUPE_TRY_ASSIGN(whole.params, ops::Params::parse(whole.op->params, call.attributes));
  for (const base::DType dtype : call.inputs) whole.inputs.push_back({dtype, shape, {}, false});
  whole.outputs = {{call.output, shape, {}, false}};
  whole.device = call.device;
  whole.team = call.team;
  return kernels.get(whole);
}

}  // namespace troupe::ndarray
