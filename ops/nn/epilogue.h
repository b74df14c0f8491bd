// SPDX-License-Identifier: Apache-2.0
// Epilogues: what an operator does to its output while it has it at hand. It adds another tensor,
// then applies relu, so that neither takes a pass over memory of its own. Binding moves a sum and a
// relu behind such an operator into it (OpDef::epilogue).
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/nn/support.h"

namespace troupe::ops {

/// Read from `act_type` and `with_sum`: output = relu(result + addend).
struct Epilogue {
  bool sum = false;   ///< there is an input `addend`, the last one, of output 0's shape
  bool relu = false;  ///< NaN stays NaN

  bool none() const { return !sum && !relu; }

  /// What becomes of one result; `addend` is null where there is none.
  template <typename T>
  T operator()(T result, const T* addend, std::int64_t at) const {
    if (sum) result += addend[at];
    return relu && result <= T{0} ? T{0} : result;
  }
};

/// The parameter `act_type`, which gradients have, too.
inline ParamDef epilogue_activation_param() {
  return {.name = "act_type",
          .type = ParamType::text,
          .initial = std::string("none"),
          .doc = "relu: negative elements of the output become 0.",
          .choices = {"none", "relu"}};
}

/// The parameters of an epilogue.
inline std::vector<ParamDef> epilogue_params() {
  return {epilogue_activation_param(),
          {.name = "with_sum",
           .type = ParamType::boolean,
           .initial = false,
           .doc = "True: there is a last input `addend`, which is added before `act_type`."}};
}

/// Brings the shapes of an addend and of the output together.
inline base::Status agree_with_addend(base::Shape& addend, base::Shape& output) {
  TROUPE_TRY(refine("addend", addend, output));
  return refine("output", output, addend);
}

/// True when a call with these parameters ends in relu.
inline bool ends_in_relu(const Params& p) {
  return p.text("act_type") == "relu";
}

/// CHECKs that the operator has epilogue_params().
inline Epilogue read_epilogue(const Params& p) {
  return {p.boolean("with_sum"), ends_in_relu(p)};
}

/// The attributes of a call's gradient, which knows nothing of sums.
inline Attributes without_sum(const Params& p) {
  Attributes attributes = p.to_attributes();
  attributes.erase("with_sum");
  return attributes;
}

/// The gradient of an operator's result before its epilogue, by a pass of its own where that is
/// relu.
inline Value before_epilogue(GradientBuilder& b) {
  const Value head = *b.output_gradient(0);
  if (!ends_in_relu(b.params())) return head;
  return b.add1("activation_backward", {head, b.output(0)}, {{"act_type", "relu"}});
}

}  // namespace troupe::ops
