// SPDX-License-Identifier: Apache-2.0
// Operators that can give gradients in f32 of tensors in 16 bits: they have the sums in f32 anyway,
// and gradients of weights are wanted so. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace troupe::ops {

/// The name of their parameter.
inline constexpr std::string_view kWideGradients = "wide_gradients";

inline ParamDef wide_gradients_param() {
  return {.name = std::string(kWideGradients),
          .type = ParamType::boolean,
          .initial = false,
          .doc = "True: where the inputs have 16 bits, the gradients are float32."};
}

/// Inference of dtypes for an operator with the parameter, whose inputs share one.
inline base::Status infer_wide_gradients(const Params& params,
                                         std::vector<std::optional<base::DType>>& inputs,
                                         std::vector<std::optional<base::DType>>& outputs) {
  if (!params.boolean(kWideGradients)) return infer_same_dtype(params, inputs, outputs);
  std::vector<std::optional<base::DType>> none;
  TROUPE_TRY(infer_same_dtype(params, inputs, none));
  if (!inputs[0]) return {};
  const base::DType given = base::is_16_bit(*inputs[0]) ? base::DType::f32 : *inputs[0];
  for (std::optional<base::DType>& output : outputs) {
    if (output.value_or(given) != given) {
      return base::error(base::Errc::invalid_argument, "gradients are {}, not {}",
                         base::dtype_name(given), base::dtype_name(*output));
    }
    output = given;
  }
  return {};
}

}  // namespace troupe::ops
