// SPDX-License-Identifier: Apache-2.0
// Every kernel for GPUs on the first GPU, by the operators' samples, against the f64 reference of
// the host. Not run where there is none.
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ops/support/channels_last.h"
#include "tests/ops/cases.h"
#include "tests/ops/on_gpu.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

/// f(kernel) for each kernel for GPUs that takes the call and is taken by rule; or, where
/// `measured`, for each of the others, which are held to these where they are measured.
template <typename F>
void for_each_gpu_kernel(const OpDef& op, OpCall call, F&& f, bool measured = false) {
  call.device = kFirstGpu;
  for (const KernelDef& candidate : op.kernels) {
    if (!candidate.on_gpus || candidate.by_choice != measured) continue;
    const auto kernel = prepare_candidate(candidate, call);
    if (!kernel) continue;
    INFO("kernel " << kernel->name());
    f(*kernel);
  }
}

TEST_CASE("on a GPU every kernel agrees with the reference in f64", "[gpu][device]") {
  if (without_gpu()) return;
  const OpTable table = OpTable::build();
  OnGpu on_gpu;
  std::set<std::string> kernels;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      INFO(base::dtype_name(dtype));
      const Case c = make_case(op, sample, dtype).value();
      if (operations(c.call) > kOperationsMax) continue;
      const auto expected = expected_outputs(op, sample, c);
      for_each_gpu_kernel(op, c.call, [&](const Kernel& kernel) {
        kernels.insert(op.name);
        const auto outputs = make_outputs(c.call), again = make_outputs(c.call);
        on_gpu.run(kernel, c.inputs, outputs);
        check_close(outputs, expected, kernel);
        on_gpu.run(kernel, c.inputs, again);
        for (std::size_t o = 0; o < outputs.size(); ++o) CHECK(again[o].same_bits(outputs[o]));
      });
    }
  });
  CHECK(kernels.size() == table.all().size());
}

/// A case whose outputs are added to what they hold.
struct SummedCase {
  Case added;
  std::vector<Tensor> before, expected;
};
/// None, where the operator does not add or makes whole numbers.
std::optional<SummedCase> summed_case(const OpDef& op, const Sample& sample, const Case& c) {
  if (op.accumulates.empty() || !base::is_floating(c.call.outputs[0].dtype)) return std::nullopt;
  SummedCase sums{c, make_outputs(c.call), expected_outputs(op, sample, c)};
  sums.added.call.modes.assign(c.call.outputs.size(), WriteMode::write);
  for (const int o : op.accumulates) {
    const auto output = std::size_t(o);
    if (output >= sums.before.size()) continue;
    sums.added.call.modes[output] = WriteMode::add;
    Tensor& tensor = sums.before[output];
    tensor = random_tensor(tensor.dtype, tensor.shape, "before", -1, 1);
    Tensor& sum = sums.expected[output];
    for (std::int64_t i = 0; i < sum.elements(); ++i) sum.set(i, sum.at(i) + tensor.at(i));
  }
  return sums;
}

/// f(kernel, inputs, outputs) for each kernel for GPUs that takes tensors with their channels last;
/// what of those that other layouts would fit as well is dense.
template <typename F>
void for_each_channels_last(const OpDef& op, const Case& c, F&& f, bool measured = false) {
  OpCall call = c.call;
  for (TensorDesc& input : call.inputs) {
    input.any_layout = true;
    if (input.shape.rank() == 4) input.layout = channels_last(input.shape);
  }
  for (TensorDesc& output : call.outputs) output.any_layout = true;
  const auto with_layouts = [&](const Kernel& kernel) {
    const auto in = kernel.input_layouts(), out = kernel.output_layouts();
    bool last = false;
    std::vector<Tensor> inputs = c.inputs, outputs = make_outputs(c.call);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].kind == Layout::Kind::opaque) return;
      last = last || !in[i].is_dense();
      inputs[i] = packed(inputs[i], in[i]);
    }
    for (std::size_t o = 0; o < out.size(); ++o) {
      last = last || !out[o].is_dense();
      outputs[o] = Tensor(outputs[o].dtype, outputs[o].shape, out[o]);
    }
    if (last) f(kernel, inputs, outputs);
  };
  for_each_gpu_kernel(op, call, with_layouts, measured);
}

/// What tensors hold, in the kernel's layouts.
std::vector<Tensor> packed_like(const std::vector<Tensor>& dense,
                                const std::vector<Tensor>& outputs) {
  std::vector<Tensor> list;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Layout& layout = outputs[o].layout;
    list.push_back(layout.is_dense() ? dense[o].clone() : packed(dense[o], layout));
  }
  return list;
}

TEST_CASE("kernels for GPUs take channels that are last", "[conformance]") {
  const OpTable table = OpTable::build();
  std::set<std::string> operators, added;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      INFO(base::dtype_name(dtype));
      const Case c = make_case(op, sample, dtype).value();
      if (operations(c.call) > kOperationsMax) continue;
      for_each_channels_last(op, c,
                             [&](const Kernel& kernel, const auto& inputs, const auto& outputs) {
                               if (kernel.name() != "cuda")
                                 return;  // a library's, which the host cannot run
                               run_kernel(kernel, inputs, outputs, {});
                               check_close(outputs, expected_outputs(op, sample, c), kernel);
                               operators.insert(op.name);
                             });
      const auto sums = summed_case(op, sample, c);
      if (!sums) continue;
      for_each_channels_last(
          op, sums->added, [&](const Kernel& kernel, const auto& inputs, const auto& outputs) {
            if (kernel.name() != "cuda") return;
            const std::vector<Tensor> totals = packed_like(sums->before, outputs);
            run_kernel(kernel, inputs, totals, {});
            check_close(totals, sums->expected, kernel);
            added.insert(op.name);
          });
    }
  });
  for (const char* name : {"pooling", "pooling_backward", "concat", "batch_norm_backward"}) {
    INFO(name << ", added to");
    CHECK(added.contains(name));
  }
  for (const char* name :
       {"batch_norm", "batch_norm_backward", "batch_norm_inference", "convolution",
        "convolution_backward_data", "convolution_backward_weights", "pooling", "pooling_backward",
        "concat", "concat_backward", "slice_axis", "split", "activation"}) {
    INFO(name);
    CHECK(operators.contains(name));
  }
}

TEST_CASE("on a GPU channels may be last", "[gpu][device]") {
  if (without_gpu()) return;
  const OpTable table = OpTable::build();
  OnGpu on_gpu;
  std::set<std::string> libraries;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      INFO(base::dtype_name(dtype));
      const Case c = make_case(op, sample, dtype).value();
      if (operations(c.call) > kOperationsMax) continue;
      for_each_channels_last(op, c,
                             [&](const Kernel& kernel, const auto& inputs, const auto& outputs) {
                               on_gpu.run(kernel, inputs, outputs);
                               check_close(outputs, expected_outputs(op, sample, c), kernel);
                               if (kernel.name() != "cuda")
                                 libraries.insert(op.name + " " + kernel.name());
                             });
    }
  });
  for (const char* name : {"convolution cudnn", "convolution_backward_data cudnn",
                           "convolution_backward_weights cudnn"}) {
    INFO(name);
    CHECK(libraries.contains(name));
  }
}

TEST_CASE("on a GPU convolutions whose channels are filled up compute the same", "[gpu][device]") {
  if (without_gpu()) return;
  const OpTable table = OpTable::build();
  OnGpu on_gpu;
  std::set<std::string> ran;
  const auto is_filled = [](const Kernel& kernel) { return kernel.name().starts_with("cudnn-c"); };
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      INFO(base::dtype_name(dtype));
      const Case c = make_case(op, sample, dtype).value();
      if (operations(c.call) > kOperationsMax) continue;
      const auto written = [&](const Kernel& kernel, const auto& inputs, const auto& outputs) {
        if (!is_filled(kernel)) return;
        on_gpu.run(kernel, inputs, outputs);
        check_close(outputs, expected_outputs(op, sample, c), kernel);
        ran.insert(op.name + " " + kernel.name());
      };
      for_each_channels_last(op, c, written, true);
      const auto sums = summed_case(op, sample, c);
      if (!sums) continue;
      const auto added = [&](const Kernel& kernel, const auto& inputs, const auto& outputs) {
        if (!is_filled(kernel)) return;
        const std::vector<Tensor> totals = packed_like(sums->before, outputs);
        on_gpu.run(kernel, inputs, totals);
        check_close(totals, sums->expected, kernel);
        ran.insert(op.name + " " + kernel.name() + ", added to");
      };
      for_each_channels_last(op, sums->added, added, true);
    }
  });
  for (const char* name :
       {"convolution cudnn-c4", "convolution cudnn-c8", "convolution_backward_weights cudnn-c4",
        "convolution_backward_weights cudnn-c8, added to"}) {
    INFO(name);
    CHECK(ran.contains(name));
  }
}

/// A convolution of two images of 8 x 8, with bias and relu.
Sample finished_convolution(std::int64_t channels, std::int64_t filters, const char* stride) {
  return {.title = fmt::format("{} channels, stride {}", channels, stride),
          .attributes = {{"kernel", "(3, 3)"},
                         {"num_filter", std::to_string(filters)},
                         {"stride", stride},
                         {"pad", "(1, 1)"},
                         {"act_type", "relu"}},
          .inputs = {{2, channels, 8, 8}, {filters, channels, 3, 3}, {filters}}};
}

TEST_CASE("on a GPU no convolution's relu hides NaN or infinity", "[gpu][device]") {
  if (without_gpu()) return;
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("convolution");
  OnGpu on_gpu;
  bool ran = false;
  for (const Sample& sample :
       {finished_convolution(16, 32, "(1, 1)"), finished_convolution(64, 64, "(2, 2)"),
        finished_convolution(3, 64, "(1, 1)")}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      INFO(sample.title << ", " << base::dtype_name(dtype));
      for (const std::size_t input : {0, 2}) {
        for (const double value : {1.0, std::nan(""), double(INFINITY), -double(INFINITY)}) {
          INFO("input " << input << " holds " << value);
          Case c = make_case(op, sample, dtype).value();
          c.inputs[input].set(c.inputs[input].elements() - 1, value);
          const Tensor expected = expected_outputs(op, sample, c).front();
          for_each_channels_last(
              op, c, [&](const Kernel& kernel, const auto& inputs, const auto& outputs) {
                on_gpu.run(kernel, inputs, outputs);
                const Tensor output = unpacked(outputs.front());
                std::int64_t wrong = 0;
                for (std::int64_t i = 0; i < output.elements(); ++i) {
                  const double got = output.at(i), right = expected.at(i);
                  const bool alike = std::isfinite(right)
                                         ? std::abs(got - right) <= 1e-2 * (1 + std::abs(right))
                                         : got == right || (std::isnan(got) && std::isnan(right));
                  wrong += alike ? 0 : 1;
                }
                INFO("kernel " << kernel.name());
                CHECK(wrong == 0);
                ran = ran || kernel.name() == "cudnn";
              });
        }
      }
    }
  }
  CHECK(ran);
}

TEST_CASE("on a GPU outputs can be added to, and lie where an input does", "[gpu][device]") {
  if (without_gpu()) return;
  const OpTable table = OpTable::build();
  OnGpu on_gpu;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    const Case c = make_case(op, sample, DType::f32).value();
    if (operations(c.call) > kOperationsMax) return;
    for_each_gpu_kernel(op, c.call, [&](const Kernel& kernel) {
      const auto apart = make_outputs(c.call);
      on_gpu.run(kernel, c.inputs, apart);
      for (const auto& [i, o] : op.in_place) {
        const auto in = std::size_t(i), out = std::size_t(o);
        if (in >= c.inputs.size() || out >= apart.size()) continue;
        if (c.inputs[in].shape != apart[out].shape || c.inputs[in].dtype != apart[out].dtype) {
          continue;
        }
        INFO("input " << i << " on output " << o);
        std::vector<Tensor> inputs = c.inputs, outputs = make_outputs(c.call);
        inputs[in] = outputs[out] = c.inputs[in].clone();
        on_gpu.run(kernel, inputs, outputs);
        for (std::size_t k = 0; k < outputs.size(); ++k) CHECK(outputs[k].same_bits(apart[k]));
      }
    });
    const auto sums = summed_case(op, sample, c);
    if (!sums) return;
    for_each_gpu_kernel(op, sums->added.call, [&](const Kernel& kernel) {
      std::vector<Tensor> outputs;
      for (const Tensor& tensor : sums->before) outputs.push_back(tensor.clone());
      on_gpu.run(kernel, c.inputs, outputs);
      check_close(outputs, sums->expected, kernel);
    });
  });
}

TEST_CASE("on a GPU empty tensors are taken or refused", "[gpu][device]") {
  if (without_gpu()) return;
  const OpTable table = OpTable::build();
  OnGpu on_gpu;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (int axis = 0; !sample.inputs.empty() && axis < sample.inputs[0].rank(); ++axis) {
      if (axis > 0 && !sample.integers.empty()) break;
      const auto made = make_case(op, sample, DType::f32, axis);
      if (!made.ok()) continue;
      for_each_gpu_kernel(op, made->call, [&](const Kernel& kernel) {
        on_gpu.run(kernel, made->inputs, make_outputs(made->call));
      });
    }
  });
}

}  // namespace
}  // namespace troupe::ops
