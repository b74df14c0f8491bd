// SPDX-License-Identifier: Apache-2.0
// convolution and its gradients by cuDNN, channels last where layouts are free.
#include "ops/nn/convolution.h"

#include <array>
#include <optional>
#include <vector>

#include "ops/nn/device_channels.h"
#include "ops/nn/device_epilogue.h"
#include "ops/nn/linear.h"
#include "ops/support/channels_last.h"
#include "ops/support/cudnn.h"
#include "ops/support/scratch_views.h"
#include "ops/support/wide_loads.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Status;
using cudnn::Pass;

/// A tensor of a convolution among a call's inputs or outputs.
struct Place {
  bool output;
  std::size_t index;
};
/// Where a pass has its tensors.
struct Places {
  Place data, weight, output;
};
Places places_of(Pass pass) {
  if (pass == Pass::output) return {{false, 0}, {false, 1}, {true, 0}};
  if (pass == Pass::data) return {{true, 0}, {false, 1}, {false, 0}};
  return {{false, 1}, {true, 0}, {false, 0}};
}
TensorDesc& at(OpCall& call, const Place& place) {
  return place.output ? call.outputs[place.index] : call.inputs[place.index];
}
const base::TensorView& at(const KernelContext& context, const Place& place) {
  return place.output ? context.outputs[place.index] : context.inputs[place.index];
}

/// A choice among cuDNN's engines, as a kernel.
struct Engine {
  const char* kernel;
  cudnn::EnginePlace place;
  std::int64_t pack = 1;  ///< channels of data are filled up with zeros to a multiple
};
/// The first is taken by rule. The others are measured: a convolution's best engine is often the
/// second or third guess, and the two guesses differ. Tensor cores want channels in packs: on the
/// three of an image cuDNN's engines reach a twentieth of what they do elsewhere (AlexNet in bf16
/// on an H100).
constexpr Engine kEngines[] = {{"cudnn", {}},
                               {"cudnn-a2", {cudnn::Heuristics::a, 1}},
                               {"cudnn-a3", {cudnn::Heuristics::a, 2}},
                               {"cudnn-a4", {cudnn::Heuristics::a, 3}},
                               {"cudnn-b1", {cudnn::Heuristics::b, 0}},
                               {"cudnn-b2", {cudnn::Heuristics::b, 1}},
                               {"cudnn-b3", {cudnn::Heuristics::b, 2}},
                               {"cudnn-b4", {cudnn::Heuristics::b, 3}},
                               {"cudnn-c4", {}, 4},
                               {"cudnn-c8", {}, 8}};

class CudnnConvolution final : public Kernel {
 public:
  /// All layouts of `call` are fixed.
  static Result<std::unique_ptr<Kernel>> make(OpCall call, Pass pass, const Engine& engine) {
    auto kernel =
        std::unique_ptr<CudnnConvolution>(new CudnnConvolution(std::move(call), pass, engine));
    TROUPE_TRY(kernel->plan());
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  std::string name() const override { return engine_.kernel; }
  std::vector<base::Layout> input_layouts() const override { return layouts(call_.inputs); }
  std::vector<base::Layout> output_layouts() const override { return layouts(call_.outputs); }
  std::size_t scratch_bytes() const override {
    return workspace_bytes_ + more_bytes_ + data_bytes_ + weight_bytes_;
  }

  Status run(const KernelContext& context) const override {
    if (epilogue_.sum) {  // the plan adds to what the output holds
      const base::TensorView& addend = context.inputs.back();
      const base::TensorView& output = context.outputs[0];
      if (addend.data != output.data) {
        TROUPE_TRY(context.stream->copy(static_cast<std::byte*>(output.data),
                                        static_cast<const std::byte*>(addend.data),
                                        static_cast<std::size_t>(output.bytes())));
      }
    }
    const Places places = places_of(pass_);
    void* bias = nullptr;
    if (fused_ && biased_) {
      TROUPE_TRY_ASSIGN(bias, aligned_bias(context));
    }
    cudnn::Plan::Pointers pointers{.data = at(context, places.data).data,
                                   .weight = at(context, places.weight).data,
                                   .output = at(context, places.output).data,
                                   .bias = bias,
                                   .workspace = context.scratch.data()};
    if (channels_ > 0) TROUPE_TRY(fill(context, pointers));
    TROUPE_TRY(plan_->run(context, pointers));
    if (channels_ > 0 && pass_ == Pass::weight) {
      TROUPE_TRY(cut_channels(context, pointers.weight, channels_, at(context, places.weight),
                              adds_to_weight_));
    }
    if (fused_ || (!biased_ && !epilogue_.relu)) return {};
    if (pass_ == Pass::weight) {
      return sum_output_gradient(call_, context, context.scratch.data() + workspace_bytes_);
    }
    return finish_output(call_, context, biased_ ? &context.inputs[2] : nullptr, epilogue_.relu);
  }

 private:
  CudnnConvolution(OpCall call, Pass pass, const Engine& engine)
      : call_(std::move(call)), pass_(pass), engine_(engine) {
    biased_ = pass != Pass::data && has_bias(call_.params);
    if (pass == Pass::output) epilogue_ = read_epilogue(call_.params);
  }
  static std::vector<base::Layout> layouts(const std::vector<TensorDesc>& tensors) {
    std::vector<base::Layout> list;
    for (const TensorDesc& tensor : tensors) list.push_back(tensor.layout);
    return list;
  }

  Status plan() {
    const Places places = places_of(pass_);
    cudnn::Convolution c{.pass = pass_,
                         .data = at(call_, places.data),
                         .weight = at(call_, places.weight),
                         .output = at(call_, places.output)};
    const Convolution v = read_convolution(call_.params, c.data.shape, c.output.shape);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const Window& w = v.window[axis];
      c.stride[axis] = w.stride;
      c.dilation[axis] = w.dilate;
      c.before[axis] = c.behind[axis] = w.pad;
    }
    const bool adds = !call_.modes.empty() && call_.modes[0] == WriteMode::add;
    if (adds && (epilogue_.sum || epilogue_.relu)) {
      return base::error(Errc::unimplemented, "adds to an output with an epilogue");
    }
    c.adds = adds || epilogue_.sum;
    c.tf32 = call_.tf32;
    if (engine_.pack > 1) TROUPE_TRY(widen(c));
    if (pass_ == Pass::output && !c.adds && (biased_ || epilogue_.relu)) TROUPE_TRY(fuse(c));
    if (!fused_) {
      TROUPE_TRY_ASSIGN(plan_, cudnn::Plan::make(c, call_.device, engine_.place));
    }
    workspace_bytes_ = scratch_piece(static_cast<std::int64_t>(plan_->workspace_bytes()));
    if (pass_ == Pass::weight && biased_) more_bytes_ = output_gradient_sum_bytes(call_);
    if (fused_ && biased_) {
      const TensorDesc& bias = call_.inputs[2];
      more_bytes_ = scratch_piece(bias.shape.elements() *
                                  static_cast<std::int64_t>(base::dtype_size(bias.dtype)));
    }
    return {};
  }

  /// The convolution with channels in packs, and memory for what it reads and writes then.
  Status widen(cudnn::Convolution& c) {
    const std::int64_t own = c.data.shape[1];
    if (pass_ == Pass::data || call_.params.integer("num_group") != 1 || own % engine_.pack == 0 ||
        !is_channels_last(c.data) || !is_channels_last(c.weight)) {
      return base::error(Errc::unimplemented,
                         "fills up channels of data that are last, in one group and in no packs");
    }
    channels_ = (own + engine_.pack - 1) / engine_.pack * engine_.pack;
    constexpr std::int64_t kWidest = 8;
    if (engine_.pack < kWidest && channels_ % kWidest == 0) {
      return base::error(Errc::unimplemented, "fills up to what packs of {} do", kWidest);
    }
    const auto widened = [this](TensorDesc& tensor) {
      tensor.shape.set(1, channels_);
      tensor.layout = channels_last(tensor.shape);
      return scratch_piece(tensor.shape.elements() *
                           static_cast<std::int64_t>(base::dtype_size(tensor.dtype)));
    };
    data_bytes_ = widened(c.data);
    weight_bytes_ = widened(c.weight);
    // What is cut is added, rounded once more in 16 bits.
    adds_to_weight_ = pass_ == Pass::weight && c.adds;
    c.adds = c.adds && pass_ == Pass::output;
    return {};
  }
  /// Fills up what the pass reads; `pointers` get where it is.
  Status fill(const KernelContext& context, cudnn::Plan::Pointers& pointers) const {
    const Places places = places_of(pass_);
    std::byte* const data = context.scratch.data() + workspace_bytes_ + more_bytes_;
    pointers.data = data;
    pointers.weight = data + data_bytes_;
    TROUPE_TRY(fill_channels(context, at(context, places.data), channels_, pointers.data));
    if (pass_ == Pass::weight) return {};
    return fill_channels(context, at(context, places.weight), channels_, pointers.weight);
  }

  /// Plans bias and relu with the convolution, where an engine takes all of them. In f32 without
  /// TF32 none does.
  Status fuse(cudnn::Convolution c) {
    if (base::dtype_size(c.data.dtype) >= sizeof(float) && !c.tf32) return {};
    if (biased_) c.bias = call_.inputs[2].dtype;
    c.relu = epilogue_.relu;
    auto plan = cudnn::Plan::make(c, call_.device, engine_.place);
    if (plan.status().code() == Errc::unimplemented) return {};
    TROUPE_TRY_ASSIGN(plan_, std::move(plan));
    fused_ = true;
    return {};
  }
  /// The bias where cuDNN takes it: a slice of an array may begin anywhere.
  Result<void*> aligned_bias(const KernelContext& context) const {
    const base::TensorView& bias = context.inputs[2];
    if (check_wide_loads("cuDNN", std::array<const void*, 1>{bias.data}).ok()) return bias.data;
    std::byte* const copy = context.scratch.data() + workspace_bytes_;
    TROUPE_TRY(context.stream->copy(copy, static_cast<const std::byte*>(bias.data),
                                    static_cast<std::size_t>(bias.bytes())));
    return static_cast<void*>(copy);
  }

  OpCall call_;
  Pass pass_;
  const Engine& engine_;  // of kEngines
  Epilogue epilogue_;
  bool biased_ = false;
  bool fused_ = false;  // the plan adds the bias and takes relu, too
  std::optional<cudnn::Plan> plan_;
  std::size_t workspace_bytes_ = 0, more_bytes_ = 0;
  std::int64_t channels_ = 0;  // that data is filled up to; 0: it is not
  std::size_t data_bytes_ = 0, weight_bytes_ = 0;
  bool adds_to_weight_ = false;
};

KernelDef cudnn_kernel(Pass pass, const Engine& engine) {
  const auto make = [pass, &engine](const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    if (call.device.kind != base::DeviceKind::cuda) {
      return base::error(Errc::unimplemented, "needs a GPU");
    }
    OpCall fixed = call;
    for (auto* group : {&fixed.inputs, &fixed.outputs}) {
      for (TensorDesc& tensor : *group) {
        if (tensor.any_layout) {
          tensor.layout =
              tensor.shape.rank() == 4 ? channels_last(tensor.shape) : base::Layout::dense();
        } else if (!tensor.layout.is_dense() && !is_channels_last(tensor)) {
          return base::error(Errc::unimplemented, "needs dense tensors or channels last, got {}",
                             tensor.layout.to_string());
        }
      }
    }
    if (pass == Pass::output && read_epilogue(fixed.params).sum &&
        fixed.inputs.back().layout != fixed.outputs[0].layout) {
      return base::error(Errc::unimplemented, "addend and output lie differently");
    }
    return CudnnConvolution::make(std::move(fixed), pass, engine);
  };
  KernelDef kernel{engine.kernel, make};
  kernel.takes_16_bits = any_16_bits;
  kernel.on_gpus = true;
  kernel.loads_wide = true;
  kernel.by_choice = &engine != &kEngines[0];
  return kernel;
}

}  // namespace

std::span<const BackendKernel> kernels_convolution_cudnn() {
  static const std::vector<BackendKernel> kernels = [] {
    std::vector<BackendKernel> list;
    for (const Engine& engine : kEngines) {
      list.push_back({"convolution", cudnn_kernel(Pass::output, engine)});
      list.push_back({"convolution_backward_data", cudnn_kernel(Pass::data, engine)});
      list.push_back({"convolution_backward_weights", cudnn_kernel(Pass::weight, engine)});
    }
    return list;
  }();
  return kernels;
}

}  // namespace troupe::ops
