// SPDX-License-Identifier: Apache-2.0
// Shared half of optimizers' definitions.
#include "ops/support/update.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace troupe::ops {
namespace {

/// Of one weight, with the numbers of the step.
constexpr std::size_t kUpdateInputsMost = 8;

std::size_t weights_of(const Params& params) {
  return static_cast<std::size_t>(params.integer("num_weights"));
}

/// The first `each` of a list with the weight's number, for all weights, then the rest as it is.
std::function<std::vector<std::string>(const Params&)> numbered(
    std::function<std::vector<std::string>(const Params&)> one, std::size_t each) {
  return [one = std::move(one), each](const Params& params) {
    const std::vector<std::string> names = one(params);
    std::vector<std::string> list;
    for (std::size_t weight = 0; weight < weights_of(params); ++weight) {
      for (std::size_t i = 0; i < each; ++i) list.push_back(names[i] + std::to_string(weight));
    }
    list.insert(list.end(), names.begin() + static_cast<std::ptrdiff_t>(each), names.end());
    return list;
  };
}

/// Shapes of the tensors of each weight, and of the numbers behind them.
base::Status infer_many(std::size_t tensors, std::size_t results, const Params& params,
                        std::vector<base::Shape>& inputs, std::vector<base::Shape>& outputs) {
  for (std::size_t weight = 0; weight < weights_of(params); ++weight) {
    const auto in = inputs.begin() + static_cast<std::ptrdiff_t>(weight * tensors);
    const auto out = outputs.begin() + static_cast<std::ptrdiff_t>(weight * results);
    std::vector<base::Shape> own(in, in + static_cast<std::ptrdiff_t>(tensors));
    std::vector<base::Shape> made(out, out + static_cast<std::ptrdiff_t>(results));
    TROUPE_TRY(infer_same_shape(params, own, made));
    std::ranges::copy(own, in);
    std::ranges::copy(made, out);
  }
  for (std::size_t i = weights_of(params) * tensors; i < inputs.size(); ++i) {
    TROUPE_TRY_ASSIGN(inputs[i], base::merge_shapes(inputs[i], base::Shape{}));
  }
  return {};
}

}  // namespace

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

OpDef multi_update_definition(const OpDef& one, std::size_t tensors) {
  TROUPE_CHECK(one.inputs(Params()).size() <= kUpdateInputsMost, "an update of too many tensors");
  OpDef op;
  op.params = one.params;
  op.params.insert(op.params.begin(), {"num_weights", ParamType::integer, std::nullopt,
                                       "Number of weights.", 1, static_cast<double>(kUpdatedMost)});
  const std::size_t results = one.outputs(Params()).size();
  op.inputs = numbered(one.inputs, tensors);
  op.outputs = numbered(one.outputs, results);
  op.infer_shape = [tensors, results](const Params& params, auto& inputs, auto& outputs) {
    return infer_many(tensors, results, params, inputs, outputs);
  };
  for (int weight = 0; weight < kUpdatedMost; ++weight) {
    for (const auto& [input, output] : one.in_place) {
      op.in_place.emplace_back(weight * static_cast<int>(tensors) + input,
                               weight * static_cast<int>(results) + output);
    }
  }
  op.assign = true;
  return op;
}

base::Status for_each_weight(std::size_t tensors, const OpCall& call, const KernelContext& context,
                             base::FunctionRef<base::Status(std::span<const base::TensorView>,
                                                            std::span<const base::TensorView>)>
                                 f) {
  const std::size_t weights = weights_of(call.params);
  const std::size_t results = context.outputs.size() / weights;
  const auto numbers = context.inputs.subspan(weights * tensors);
  std::array<base::TensorView, kUpdateInputsMost> list;
  const auto inputs = std::span(list).first(tensors + numbers.size());
  std::ranges::copy(numbers, inputs.begin() + static_cast<std::ptrdiff_t>(tensors));
  for (std::size_t weight = 0; weight < weights; ++weight) {
    std::ranges::copy(context.inputs.subspan(weight * tensors, tensors), inputs.begin());
    TROUPE_TRY(f(inputs, context.outputs.subspan(weight * results, results)));
  }
  return {};
}

}  // namespace troupe::ops
