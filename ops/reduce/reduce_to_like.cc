// SPDX-License-Identifier: Apache-2.0
// reduce_to_like and broadcast_like, each the gradient of the other.
#include "ops/support/arithmetic.h"
#include "ops/support/reduce.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

/// CHECKs nothing: partial shapes pass, complete ones must broadcast.
Status check_broadcasts(const Shape& small, const Shape& large) {
  if (!small.complete() || !large.complete()) return {};
  const auto joined = broadcast_shapes(small, large);
  if (joined.ok() && joined.value() == large) return {};
  return base::error(base::Errc::invalid_argument, "shape {} does not broadcast to {}",
                     small.to_string(), large.to_string());
}

/// The output has the shape of input 1.
Status infer_like(std::vector<Shape>& inputs, std::vector<Shape>& outputs) {
  TROUPE_TRY_ASSIGN(outputs[0], base::merge_shapes(outputs[0], inputs[1]));
  inputs[1] = outputs[0];
  return {};
}

OpDef like_definition() {
  OpDef op;
  op.inputs = names({"data", "like"});
  op.outputs = names({"out"});
  op.shape_only_inputs = {1};
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.identity_if_alike = true;
  return op;
}

OpDef reduce_to_like_definition() {
  OpDef op = like_definition();
  op.name = "reduce_to_like";
  op.doc =
      "Sums `data` to the shape of `like`, which broadcasts to it: the gradient of a broadcast "
      "operand. With equal shapes it is the identity.";
  op.infer_shape = [](const Params&, std::vector<Shape>& inputs, std::vector<Shape>& outputs) {
    TROUPE_TRY(infer_like(inputs, outputs));
    return check_broadcasts(outputs[0], inputs[0]);
  };
  op.gradient = [](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    return {{b.add1("broadcast_like", {*b.output_gradient(0), b.input(0)}), std::nullopt}};
  };
  op.kernels = {reduce_kernel<SumReducer>(walk_of_like, finish_total)};
  op.samples = {{.title = "equal shapes", .inputs = {{3, 5}, {3, 5}}},
                {.title = "row", .inputs = {{3, 5}, {5}}},
                {.title = "column", .inputs = {{3, 5}, {3, 1}}},
                {.title = "0-d", .inputs = {{3, 5}, {}}},
                {.title = "channel", .inputs = {{2, 3, 4, 4}, {3, 1, 1}}},
                {.title = "large", .inputs = {{256, 1024}, {1024}}, .benchmark = true}};
  op.samples.back().gradient = false;
  return op;
}

Status run_broadcast(const OpCall& call, const KernelContext& context) {
  return with_floating(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape& data = call.inputs[0].shape;
    const BroadcastWalk walk = broadcast_walk(call.outputs[0].shape, data, data);
    const std::int64_t step = walk.stride_a[static_cast<std::size_t>(walk.rank - 1)];
    const T* x = context.inputs[0].as<T>();
    T* out = context.outputs[0].as<T>();
    parallel_ranges(context, context.outputs[0].elements(), [&](auto begin, auto end) {
      for_each_run(walk, begin, end, [&](auto o, auto i, auto, auto count) {
        for (std::int64_t k = 0; k < count; ++k) out[o + k] = x[i + k * step];
      });
    });
    return Status();
  });
}

OpDef broadcast_like_definition() {
  OpDef op = like_definition();
  op.name = "broadcast_like";
  op.ignored = {{"lhs_axes", {"None"}}, {"rhs_axes", {"None"}}};
  op.doc = "Repeats `data` along the axes where its extent is 1, to the shape of `like`.";
  op.infer_shape = [](const Params&, std::vector<Shape>& inputs, std::vector<Shape>& outputs) {
    TROUPE_TRY(infer_like(inputs, outputs));
    return check_broadcasts(inputs[0], outputs[0]);
  };
  op.gradient = [](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    return {{b.add1("reduce_to_like", {*b.output_gradient(0), b.input(0)}), std::nullopt}};
  };
  op.kernels = {reference_kernel(run_broadcast)};
  op.samples = {{.title = "equal shapes", .inputs = {{3, 5}, {3, 5}}},
                {.title = "row", .inputs = {{5}, {3, 5}}},
                {.title = "column", .inputs = {{3, 1}, {3, 5}}},
                {.title = "0-d", .inputs = {{}, {3, 5}}}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_reduce_to_like() {
  static const std::vector<OpDef> operators = {reduce_to_like_definition(),
                                               broadcast_like_definition()};
  return operators;
}

}  // namespace troupe::ops
