// SPDX-License-Identifier: Apache-2.0
// Shared half of optimizers' definitions.
#include "ops/support/update.h"

#include <algorithm>

namespace troupe::ops {

OpDef update_definition(std::size_t tensors) {
  OpDef op;
  op.infer_shape = [tensors](const Params& params, std::vector<base::Shape>& inputs,
                             std::vector<base::Shape>& outputs) {
    const auto first_number = inputs.begin() + static_cast<std::ptrdiff_t>(tensors);
    std::vector<base::Shape> alike(inputs.begin(), first_number);
    std::vector<base::Shape> numbers(first_number, inputs.end());
    numbers.emplace_back();
    std::vector<base::Shape> none;
    TROUPE_TRY(infer_same_shape(params, alike, outputs));
    TROUPE_TRY(infer_same_shape(params, numbers, none));
    std::fill(std::copy(alike.begin(), alike.end(), inputs.begin()), inputs.end(), base::Shape{});
    return base::Status();
  };
  op.assign = true;
  op.elementwise = true;
  return op;
}

}  // namespace troupe::ops
