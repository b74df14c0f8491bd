// SPDX-License-Identifier: Apache-2.0
// Which operands overlap, and which begin where wide loads cannot.
#include "ndarray/operands.h"

#include <algorithm>

#include "ops/op.h"
#include "ops/support/wide_loads.h"

namespace troupe::ndarray {
namespace {

/// True when kernels may write `output` while it is the memory of `input`.
bool may_alias(const ops::OpCall& call, const Operands& operands, std::size_t input,
               std::size_t output) {
  const std::size_t place = operands.place(input);
  return may_overwrite(*call.op, place, output) &&
         operands.inputs[input].same_memory(operands.outputs[output]) &&
         call.inputs[place].shape == call.outputs[output].shape;
}

bool adds_to(const ops::OpCall& call, std::size_t output) {
  return !call.modes.empty() && call.modes[output] == ops::WriteMode::add;
}

/// True when the call may write an output where it lies.
bool may_write(const ops::OpCall& call, const Operands& operands, std::size_t output) {
  std::size_t overlaps = 0, allowed = 0;
  for (std::size_t i = 0; i < operands.inputs.size(); ++i) {
    if (!(operands.inputs[i].variable() == operands.outputs[output].variable())) continue;
    ++overlaps;
    if (may_alias(call, operands, i, output)) ++allowed;
  }
  return overlaps == 0 || (!adds_to(call, output) && overlaps == 1 && allowed == 1);
}

}  // namespace

bool may_overwrite(const ops::OpDef& op, std::size_t input, std::size_t output) {
  const std::pair<int, int> wanted{static_cast<int>(input), static_cast<int>(output)};
  return (op.assign && input == 0 && output == 0) ||
         std::find(op.in_place.begin(), op.in_place.end(), wanted) != op.in_place.end();
}

bool begins_wide(const NDArray& array) {
  return array.offset() % std::size_t{ops::kWideLoadBytes} == 0;
}

base::Result<std::vector<std::pair<NDArray, NDArray>>> separate(Runtime& runtime,
                                                                const ops::OpCall& call,
                                                                bool loads_wide,
                                                                Operands operands) {
  for (NDArray& input : operands.inputs) {
    if (!loads_wide || begins_wide(input)) continue;
    input = input.copy();
    TROUPE_TRY(input.status());
  }
  std::vector<std::pair<NDArray, NDArray>> later;
  for (std::size_t o = 0; o < operands.outputs.size(); ++o) {
    NDArray& output = operands.outputs[o];
    if (may_write(call, operands, o) && (!loads_wide || begins_wide(output))) continue;
    TROUPE_TRY_ASSIGN(NDArray own, NDArray::empty(runtime, output.shape(), output.dtype(),
                                                  output.device(), "temporary"));
    if (adds_to(call, o)) TROUPE_TRY(own.copy_from(output));
    later.emplace_back(own, output);
    output = own;
  }
  return later;
}

}  // namespace troupe::ndarray
