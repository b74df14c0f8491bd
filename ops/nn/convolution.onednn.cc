// SPDX-License-Identifier: Apache-2.0
// convolution and its gradient by oneDNN's direct convolutions, of f32 and, where the processor has
// instructions for it, of bf16, on the layouts they like best.
#include "ops/nn/convolution.h"
#include "ops/nn/linear.h"
#include "ops/roofline.h"
#include "ops/support/onednn.h"
#include "ops/support/reordered.h"

namespace troupe::ops {
namespace {

using dnnl::memory;
using onednn::Plan;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

/// A call of any of the three operators in the library's terms.
struct Problem {
  Convolution v;
  memory::desc data, weight, bias, result;
  memory::dims strides, dilates, left, right;
  bool biased = false;

  dnnl::convolution_forward::primitive_desc forward(
      const dnnl::primitive_attr& attr = onednn::attributes()) const {
    using Forward = dnnl::convolution_forward;
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    return biased ? onednn::describe_primitive<Forward>(attr, kKind, kDirect, data, weight, bias,
                                                        result, strides, dilates, left, right)
                  : onednn::describe_primitive<Forward>(attr, kKind, kDirect, data, weight, result,
                                                        strides, dilates, left, right);
  }
};

Problem describe_call(const Params& p, const TensorDesc& data, const TensorDesc& weight,
                      const TensorDesc& result) {
  Problem problem;
  const Convolution v = problem.v = read_convolution(p, data.shape, result.shape);
  problem.data = onednn::describe(data);
  problem.weight = onednn::describe(weight, v.groups);
  problem.result = onednn::describe(result);
  problem.biased = !p.boolean("no_bias");
  problem.bias =
      onednn::describe(weight.dtype, base::Shape{result.shape[1]}, base::Layout::dense());
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Window& w = v.window[axis];
    problem.strides.push_back(w.stride);
    problem.dilates.push_back(w.dilate - 1);
    problem.left.push_back(w.pad);
    problem.right.push_back((v.output[axis] - 1) * w.stride + w.span() - v.input[axis] - w.pad);
  }
  return problem;
}

/// Plans with the weights' layout free; where the library's choice cannot be written as one of
/// four axes (blocks padded inside a group), again with dense weights.
template <typename Build>
base::Result<Plan> with_weights(TensorDesc weight, int arg, std::int64_t groups, Build&& build) {
  if (!weight.any_layout && !onednn::can_split_groups(weight.shape, weight.layout, groups)) {
    return base::error(base::Errc::unimplemented, "weights' blocks cross groups");
  }
  Plan plan = build(weight);
  if (!plan.primitive || !weight.any_layout || groups == 1) return plan;
  const memory::desc chosen = plan.primitive.query_md(dnnl::query::exec_arg_md, arg);
  if (onednn::layout_of(chosen, groups)) return plan;
  weight.any_layout = false;
  weight.layout = base::Layout::dense();
  return build(weight);
}

base::Result<Plan> forward(const OpCall& call) {
  const std::int64_t groups = call.params.integer("num_group");
  const Epilogue epilogue = read_epilogue(call.params);
  return with_weights(call.inputs[1], DNNL_ARG_WEIGHTS, groups, [&](const TensorDesc& weight) {
    const Problem p = describe_call(call.params, call.inputs[0], weight, call.outputs[0]);
    Plan plan{p.forward(epilogue.sum ? onednn::adding_attributes() : onednn::attributes()),
              {onednn::input(DNNL_ARG_SRC, 0), onednn::input(DNNL_ARG_WEIGHTS, 1, groups),
               onednn::output(DNNL_ARG_DST, 0)}};
    if (p.biased) plan.arguments.push_back(onednn::input(DNNL_ARG_BIAS, 2));
    if (epilogue.sum) plan.addend = p.biased ? 3 : 2;
    plan.relu = epilogue.relu;
    return plan;
  });
}

/// `call` with dense tensors where it leaves the choice.
OpCall made_dense(OpCall call) {
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) {
      if (tensor.any_layout) tensor.layout = base::Layout::dense();
      tensor.any_layout = false;
    }
  }
  return call;
}

base::Result<Plan> backward_data(const OpCall& free_call) {
  // Blocks of 16 channels for an image's one or three would mostly compute padding.
  constexpr std::int64_t kChannelsForBlocks = 8;
  const bool few = free_call.inputs[2].shape[1] < kChannelsForBlocks;
  const OpCall call = few ? made_dense(free_call) : free_call;
  const std::int64_t groups = call.params.integer("num_group");
  return with_weights(call.inputs[1], DNNL_ARG_WEIGHTS, groups, [&](const TensorDesc& weight) {
    Problem p = describe_call(call.params, call.outputs[0], weight, call.inputs[0]);
    p.biased = false;
    const auto hint = p.forward();
    if (!hint) return Plan{};
    return Plan{
        onednn::describe_gradient<dnnl::convolution_backward_data>(
            hint, kDirect, p.data, p.weight, p.result, p.strides, p.dilates, p.left, p.right),
        {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_WEIGHTS, 1, groups),
         onednn::output(DNNL_ARG_DIFF_SRC, 0)}};
  });
}

base::Result<Plan> backward_weights(const OpCall& call) {
  const std::int64_t groups = call.params.integer("num_group");
  return with_weights(
      call.outputs[0], DNNL_ARG_DIFF_WEIGHTS, groups, [&](const TensorDesc& weight) {
        const Problem p = describe_call(call.params, call.inputs[1], weight, call.inputs[0]);
        using Backward = dnnl::convolution_backward_weights;
        const auto hint = p.forward();
        if (!hint) return Plan{};
        const Backward::primitive_desc primitive =
            p.biased
                ? onednn::describe_gradient<Backward>(hint, kDirect, p.data, p.weight, p.bias,
                                                      p.result, p.strides, p.dilates, p.left,
                                                      p.right)
                : onednn::describe_gradient<Backward>(hint, kDirect, p.data, p.weight, p.result,
                                                      p.strides, p.dilates, p.left, p.right);
        Plan plan{primitive,
                  {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_SRC, 1),
                   onednn::output(DNNL_ARG_DIFF_WEIGHTS, 0, groups)}};
        if (p.biased) plan.arguments.push_back(onednn::output(DNNL_ARG_DIFF_BIAS, 1));
        return plan;
      });
}

/// The rule of a call of dense tensors: the library unfolds images in memory and multiplies at less
/// than half of the speed, group by group. Windows of one element need no unfolding.
double dense_seconds(const OpCall& call, const Convolution& v, double speed) {
  constexpr double kUnfolded = 0.45, kPlain = 0.95, kMemory = 0.8;
  constexpr std::int64_t kNarrow = 8;  // channels of a group, below which products are too small
  const bool plain = v.taps() == 1 && v.window[0].stride == 1 && v.window[1].stride == 1;
  const double narrow =
      v.groups == 1 ? 1.0 : std::min(1.0, static_cast<double>(v.in) / static_cast<double>(kNarrow));
  const Speed products{.compute = (plain ? kPlain : kUnfolded) * narrow * speed, .memory = kMemory};
  const double seconds = roofline_seconds(call, products);
  const bool gradient = call.op->name.ends_with("_backward_weights");  // sums over samples
  if (plain && !gradient) return seconds;
  return seconds + bytes_moved(call) / (kMemory * rule_processor().bytes_per_second);
}

/// The rule: the library's fast kernels work on blocks of channels, which are padded. `speed`: of
/// products, beside those of f32.
double seconds(const OpCall& call, const TensorDesc& data, const TensorDesc& result, double speed) {
  constexpr std::int64_t kBlock = 16, kFewChannels = 4;  // few are not put into blocks
  const auto dense = [](const TensorDesc& tensor) {
    return !tensor.any_layout && tensor.layout.is_dense();
  };
  if (dense(data) && dense(result)) {
    return dense_seconds(call, read_convolution(call.params, data.shape, result.shape), speed);
  }
  const auto fill = [](std::int64_t channels) {
    return static_cast<double>(channels) /
           static_cast<double>((channels + kBlock - 1) / kBlock * kBlock);
  };
  const std::int64_t groups = call.params.integer("num_group");
  const std::int64_t in = data.shape[1], out = result.shape[1];
  if (groups != 1) return roofline_seconds(call, {.compute = speed});
  const double filled = fill(out) * (in <= kFewChannels ? 1.0 : fill(in));
  return roofline_seconds(call, {.compute = filled * speed});
}

/// An operator's kernels of f32, of bf16, and of both between reorders of dense tensors.
void add_kernels(std::vector<BackendKernel>& list, const std::string& op,
                 base::Result<Plan> (*build)(const OpCall&),
                 double (*rule)(const OpCall& call, double speed)) {
  KernelDef wide = onednn::backend_kernel(op, build).kernel;
  wide.seconds = [rule](const OpCall& call) { return rule(call, 1.0); };
  KernelDef narrow = onednn::backend_kernel_of_bf16(op, build).kernel;
  narrow.seconds = [rule](const OpCall& call) { return rule(call, onednn::bf16_speed()); };
  KernelDef either = wide;
  either.takes_16_bits = [](const OpCall& call) {
    return only_bf16(call) && onednn::bf16_speed() != 0.0;
  };
  const auto of = [wide, narrow](const OpCall& call) -> const KernelDef& {
    return call.inputs[0].dtype == base::DType::bf16 ? narrow : wide;
  };
  either.make = [of](const OpCall& call) { return of(call).make(call); };
  either.seconds = [of](const OpCall& call) { return of(call).seconds(call); };
  for (const KernelDef& kernel : {wide, narrow, reordered_kernel(either)}) {
    list.push_back({op, kernel});
  }
}

}  // namespace

std::span<const BackendKernel> kernels_convolution_onednn() {
  static const std::vector<BackendKernel> kernels = [] {
    std::vector<BackendKernel> list;
    add_kernels(list, "convolution", forward, [](const OpCall& c, double speed) {
      return seconds(c, c.inputs[0], c.outputs[0], speed);
    });
    add_kernels(
        list, "convolution_backward_data", backward_data,
        [](const OpCall& c, double speed) { return seconds(c, c.outputs[0], c.inputs[0], speed); });
    add_kernels(
        list, "convolution_backward_weights", backward_weights,
        [](const OpCall& c, double speed) { return seconds(c, c.inputs[1], c.inputs[0], speed); });
    return list;
  }();
  return kernels;
}

}  // namespace troupe::ops
