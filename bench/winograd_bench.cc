// SPDX-License-Identifier: Apache-2.0
// VGG-A's 3x3 convolutions, three passes each: Troupe's Winograd form beside oneDNN's own (version
// 2; version 3 has none) and beside its direct form. Prepared weights are part of ours, not of
// theirs, which start from weights in the layout they like.
//   bench_winograd [--batch=32] [--threads=1] [--repetitions=7] [--rounds=3]
// A row's check is the scratch memory of a thread, in bytes.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "bench/formula.h"
#include "bench/report.h"
#include "ops/support/onednn.h"
#include "ops/table.h"

namespace troupe::bench {
namespace {

namespace onednn = ops::onednn;
using dnnl::memory;
using ops::Kernel;
using ops::OpCall;

constexpr std::int64_t kKernel = 3;

struct Layer {
  std::int64_t channels, filters, side;
  base::Shape data(std::int64_t batch) const { return {batch, channels, side, side}; }
  base::Shape weight() const { return {filters, channels, kKernel, kKernel}; }
  base::Shape output(std::int64_t batch) const { return {batch, filters, side, side}; }
};
constexpr Layer kLayers[] = {{64, 128, 112}, {128, 256, 56}, {256, 256, 56},
                             {256, 512, 28}, {512, 512, 28}, {512, 512, 14}};

enum class Pass { forward, data, weights };
constexpr std::pair<Pass, const char*> kPasses[] = {
    {Pass::forward, "convolution"},
    {Pass::data, "convolution_backward_data"},
    {Pass::weights, "convolution_backward_weights"}};

/// A call of one pass of a layer, layouts free.
OpCall call_of(const ops::OpTable& table, const Layer& layer, Pass pass, std::int64_t batch,
               int team) {
  const ops::OpDef& op = table.at(kPasses[static_cast<std::size_t>(pass)].second);
  const ops::Params params =
      must(ops::parse_params(op, {{"kernel", "(3,3)"},
                                  {"pad", "(1,1)"},
                                  {"num_filter", std::to_string(layer.filters)},
                                  {"no_bias", "true"}}));
  std::vector<base::Shape> shapes;
  switch (pass) {
    case Pass::forward:
      shapes = {layer.data(batch), layer.weight()};
      break;
    case Pass::data:
      shapes = {layer.output(batch), layer.weight(), layer.data(batch)};
      break;
    case Pass::weights:
      shapes = {layer.output(batch), layer.data(batch)};
      break;
  }
  std::vector<ops::TensorDesc> inputs;
  for (const base::Shape& shape : shapes) inputs.push_back({base::DType::f32, shape, {}, true});
  OpCall call = must(ops::make_call(op, params, std::move(inputs)));
  for (ops::TensorDesc& output : call.outputs) output.any_layout = true;
  call.team = team;
  return call;
}

/// oneDNN's plan of a pass in its own Winograd form.
base::Result<onednn::Plan> library_plan(const OpCall& call, Pass pass) {
  constexpr auto kForm = dnnl::algorithm::convolution_winograd;
  const memory::dims ones = {1, 1}, zeros = {0, 0};
  const auto describe = [&](const base::Shape& shape) {
    return onednn::describe(ops::TensorDesc{base::DType::f32, shape, {}, true});
  };
  const auto forward = [&](const base::Shape& data, const base::Shape& weight,
                           const base::Shape& output) {
    return onednn::describe_primitive<dnnl::convolution_forward>(
        onednn::attributes(), dnnl::prop_kind::forward_training, kForm, describe(data),
        describe(weight), describe(output), ones, zeros, ones, ones);
  };
  const base::Shape &first = call.inputs[0].shape, &second = call.inputs[1].shape;
  const base::Shape& result = call.outputs[0].shape;
  if (pass == Pass::forward) {
    return onednn::Plan{forward(first, second, result),
                        {onednn::input(DNNL_ARG_SRC, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
                         onednn::output(DNNL_ARG_DST, 0)}};
  }
  const bool data = pass == Pass::data;
  const auto hint = data ? forward(result, second, first) : forward(second, result, first);
  if (!hint) return onednn::Plan{};
  if (data) {
    return onednn::Plan{onednn::describe_gradient<dnnl::convolution_backward_data>(
                            hint, kForm, describe(result), describe(second), describe(first), ones,
                            zeros, ones, ones),
                        {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
                         onednn::output(DNNL_ARG_DIFF_SRC, 0)}};
  }
  return onednn::Plan{onednn::describe_gradient<dnnl::convolution_backward_weights>(
                          hint, kForm, describe(second), describe(result), describe(first), ones,
                          zeros, ones, ones),
                      {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_SRC, 1),
                       onednn::output(DNNL_ARG_DIFF_WEIGHTS, 0)}};
}

/// A kernel with memory for everything it takes and gives.
class Row {
 public:
  Row(const ops::OpTable& table, const OpCall& call, std::unique_ptr<Kernel> kernel)
      : kernel_(std::move(kernel)), team_(call.team) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      inputs_.push_back(add(call.inputs[i].shape, kernel_->input_layouts()[i]));
      prepare_weights(table, call.inputs[i]);
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      outputs_.push_back(add(call.outputs[i].shape, kernel_->output_layouts()[i]));
    }
    scratch_ = base::make_host_buffer(kernel_->scratch_bytes() + 64);
  }

  void step() {
    if (transform_) run(*transform_, {&dense_, 1}, {&inputs_[1], 1});
    run(*kernel_, inputs_, outputs_);
  }
  double scratch_of_thread() const { return static_cast<double>(kernel_->scratch_bytes()) / team_; }

 private:
  base::TensorView add(const base::Shape& shape, const base::Layout& layout) {
    base::TensorView view{nullptr, base::DType::f32, shape, layout, {}};
    const auto bytes = static_cast<std::size_t>(view.bytes());
    memory_.push_back(base::make_host_buffer(bytes));
    view.data = memory_.back().data();
    const std::vector<float> values = stream(1, bytes / sizeof(float), 1.0);
    std::copy(values.begin(), values.end(), view.as<float>());
    return view;
  }

  /// The input just added is transformed at each step where only the library of `kernel` knows its
  /// layout.
  void prepare_weights(const ops::OpTable& table, const ops::TensorDesc& input) {
    if (inputs_.back().layout.kind != base::Layout::Kind::opaque) return;
    dense_ = add(input.shape, {});
    OpCall call = must(ops::make_call(table.at("reorder"), {}, {{input.dtype, input.shape, {}}}));
    call.outputs[0].layout = inputs_.back().layout;
    call.team = team_;
    transform_ = must(ops::prepare(call));
  }

  void run(const Kernel& kernel, std::span<const base::TensorView> inputs,
           std::span<const base::TensorView> outputs) {
    must(kernel.run({.inputs = inputs,
                     .outputs = outputs,
                     .scratch = {scratch_.data(), kernel.scratch_bytes()},
                     .random_key = {},
                     .team = team_,
                     .slots = &slots_}));
  }

  std::unique_ptr<Kernel> kernel_, transform_;
  int team_;
  base::SlotStore slots_;
  std::vector<base::Buffer> memory_;
  std::vector<base::TensorView> inputs_, outputs_;
  base::TensorView dense_;
  base::Buffer scratch_;
};

int run(int argc, char** argv) {
  const int batch = option(argc, argv, "batch", 32);
  const int team = option(argc, argv, "threads", 1);
  const int repetitions = option(argc, argv, "repetitions", 7);
  const int rounds = option(argc, argv, "rounds", 3);
  const ops::OpTable table = ops::OpTable::build();
  base::lead_team(team, [&] {
    for (const Layer& layer : kLayers) {
      for (const auto& each : kPasses) {
        const Pass pass = each.first;
        const char* const name = each.second;
        const OpCall call = call_of(table, layer, pass, batch, team);
        std::vector<std::pair<std::string, std::unique_ptr<Row>>> rows;
        const auto add = [&](const char* who, base::Result<std::unique_ptr<Kernel>> kernel) {
          if (!kernel.ok()) {
            std::fprintf(stderr, "%s %s: %s\n", name, who, kernel.status().to_string().c_str());
            return;
          }
          rows.emplace_back(who, std::make_unique<Row>(table, call, *std::move(kernel)));
        };
        for (const ops::KernelDef& candidate : call.op->kernels) {
          if (candidate.name == "simd:winograd") add("Troupe", candidate.prepare(call));
          if (candidate.name == "onednn") add("oneDNN direct", candidate.prepare(call));
        }
        add("oneDNN", onednn::make_kernel(call, base::DType::f32, [pass](const OpCall& c) {
              return library_plan(c, pass);
            }));
        for (int round = 0; round < rounds; ++round) {
          for (const auto& [who, row] : rows) {
            print_row(fmt::format("{} {}->{} {}x{}, {}", name, layer.channels, layer.filters,
                                  layer.side, layer.side, who),
                      measure(1, repetitions, 1.0, [&] { row->step(); }), row->scratch_of_thread());
          }
        }
      }
    }
  });
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::bench::run(argc, argv);
}
