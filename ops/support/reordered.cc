// SPDX-License-Identifier: Apache-2.0
// Scratch: the views, the reordered tensors of one part and of the weights, then what the kernel
// inside or a reorder wants.
#include "ops/support/reordered.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"
#include "ops/roofline.h"
#include "ops/support/scratch_views.h"
#include "ops/support/widened.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Shape;
using base::Status;
using base::TensorView;

constexpr int kAxes = 4;  // of data, weights and outputs; not of a bias

std::int64_t bytes_of(const TensorDesc& tensor) {
  return tensor.layout.buffer_bytes(tensor.shape, base::dtype_size(tensor.dtype));
}

/// One input or output of the call.
struct Tensor {
  TensorDesc part;                            ///< dense, of one part's samples or of the weights
  Layout layout;                              ///< that the kernel inside wants
  bool batched = false;                       ///< axis 0 counts samples
  bool used = true;                           ///< false: only its shape is
  std::unique_ptr<Kernel> reorder = nullptr;  ///< null: it stays as it is
  std::size_t place = 0;                      ///< in scratch, where it is reordered
};

/// Shapes of a part, and layouts free where the kernel inside may choose.
struct Part {
  OpCall call;
  std::int64_t count = 1;  ///< of parts
  std::vector<bool> batched_inputs, batched_outputs;
};

bool computes_weights(const OpCall& call) {
  return call.op->name.ends_with("_backward_weights");
}

Status check_dense(const OpCall& call) {
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *group) {
      if (tensor.shape.elements() == 0) return base::error(Errc::unimplemented, "empty tensor");
      if (tensor.any_layout || !tensor.layout.is_dense()) {
        return base::error(Errc::unimplemented, "only calls whose tensors all are dense");
      }
    }
  }
  for (const WriteMode mode : call.modes) {
    if (mode != WriteMode::write) return base::error(Errc::unimplemented, "only writes");
  }
  return {};
}

/// `call`, whose tensors of four axes may have any layout.
OpCall freed(OpCall call) {
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) tensor.any_layout = tensor.shape.rank() == kAxes;
  }
  for (const int index : call.op->shape_only_inputs) {
    call.inputs[static_cast<std::size_t>(index)].any_layout = false;
  }
  return call;
}

/// Tensors of four axes but the weights have the batch in front.
Part part_of(const OpCall& call) {
  Part part{freed(call), 1, {}, {}};
  const bool gradient = computes_weights(call);
  std::int64_t samples = 1, batch_bytes = 0, weight_bytes = 0;
  const std::vector<int>& unread = call.op->shape_only_inputs;
  const auto look = [&](const std::vector<TensorDesc>& group, std::size_t weight,
                        std::vector<bool>& batched) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      batched.push_back(i != weight && group[i].shape.rank() == kAxes);
      if (i == weight) weight_bytes = bytes_of(group[i]);
      if (!batched[i]) continue;
      samples = group[i].shape[0];
      const bool read =
          &group == &call.outputs || std::ranges::find(unread, static_cast<int>(i)) == unread.end();
      if (read) batch_bytes += bytes_of(group[i]);
    }
  };
  constexpr std::size_t kNone = ~std::size_t{0};
  look(call.inputs, gradient ? kNone : 1, part.batched_inputs);
  look(call.outputs, gradient ? 0 : kNone, part.batched_outputs);
  // Sums of 16 bits are rounded once.
  const bool whole = gradient && has_16_bits(call);
  part.count = whole ? 1 : reordered_parts(samples, batch_bytes / samples, weight_bytes);
  const auto cut = [&](std::vector<TensorDesc>& group, const std::vector<bool>& batched) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (batched[i]) group[i].shape.set(0, samples / part.count);
    }
  };
  cut(part.call.inputs, part.batched_inputs);
  cut(part.call.outputs, part.batched_outputs);
  return part;
}

/// The kernels of a call's parts.
struct Inner {
  std::unique_ptr<Kernel> first;
  std::unique_ptr<Kernel> others;  ///< of gradients of weights: adds; null: `first`
};

class ReorderedKernel final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const OpCall& call, const Part& part, Inner inner) {
    auto kernel = std::make_unique<ReorderedKernel>(part.count, std::move(inner));
    const Kernel& first = *kernel->inner_.first;
    TROUPE_TRY(
        kernel->add(kernel->inputs_, part.call.inputs, part.batched_inputs, first.input_layouts()));
    for (const int index : call.op->shape_only_inputs) {
      kernel->inputs_[static_cast<std::size_t>(index)].used = false;
    }
    TROUPE_TRY(kernel->add(kernel->outputs_, part.call.outputs, part.batched_outputs,
                           first.output_layouts()));
    TROUPE_TRY(kernel->prepare_reorders(call));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  ReorderedKernel(std::int64_t parts, Inner inner) : parts_(parts), inner_(std::move(inner)) {}

  std::string name() const override { return inner_.first->name() + " reordered"; }
  bool keeps_sample_bits() const override { return inner_.first->keeps_sample_bits(); }
  std::size_t scratch_bytes() const override { return views_bytes_ + tensor_bytes_ + rest_bytes_; }

  Status run(const KernelContext& context) const override {
    // An input of which only the shape counts may be missing (deconvolution).
    for (std::size_t i = 0; i < context.inputs.size(); ++i) {
      if (!inputs_[i].batched) TROUPE_TRY(bring(context, inputs_[i], context.inputs[i], 0));
    }
    for (std::int64_t part = 0; part < parts_; ++part) TROUPE_TRY(run_part(context, part));
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      if (!outputs_[o].batched) TROUPE_TRY(fetch(context, outputs_[o], context.outputs[o], 0));
    }
    return {};
  }

 private:
  Status add(std::vector<Tensor>& list, const std::vector<TensorDesc>& tensors,
             const std::vector<bool>& batched, std::vector<Layout> layouts) {
    layouts.resize(tensors.size());  // none: all are dense
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (layouts[i].kind == Layout::Kind::opaque) {
        return base::error(Errc::unimplemented, "reordered inside to a private layout");
      }
      const TensorDesc dense{tensors[i].dtype, tensors[i].shape, Layout::dense(), false};
      list.push_back({.part = dense, .layout = std::move(layouts[i]), .batched = batched[i]});
    }
    return {};
  }

  Status prepare_reorders(const OpCall& call) {
    for (auto* group : {&inputs_, &outputs_}) {
      for (Tensor& tensor : *group) {
        if (tensor.layout.is_dense() || !tensor.used) continue;
        TROUPE_TRY_ASSIGN(tensor.reorder, prepare_reorder(call, tensor, group == &inputs_));
        tensor.place = tensor_bytes_;
        tensor_bytes_ += scratch_piece(
            tensor.layout.buffer_bytes(tensor.part.shape, base::dtype_size(tensor.part.dtype)));
        rest_bytes_ = std::max(rest_bytes_, tensor.reorder->scratch_bytes());
      }
    }
    if (tensor_bytes_ == 0) return base::error(Errc::unimplemented, "nothing to reorder");
    for (const Kernel* kernel : {inner_.first.get(), inner_.others.get()}) {
      if (kernel != nullptr) rest_bytes_ = std::max(rest_bytes_, kernel->scratch_bytes());
    }
    views_bytes_ = scratch_piece(
        static_cast<std::int64_t>((inputs_.size() + outputs_.size()) * sizeof(TensorView)));
    return {};
  }

  static Result<std::unique_ptr<Kernel>> prepare_reorder(const OpCall& call, const Tensor& tensor,
                                                         bool input) {
    static const OpDef& op = OpTable::build().at("reorder");
    TensorDesc inside = tensor.part;
    inside.layout = tensor.layout;
    TROUPE_TRY_ASSIGN(Params params, parse_params(op, {}));
    TROUPE_TRY_ASSIGN(OpCall reorder,
                      make_call(op, std::move(params), {input ? tensor.part : inside}));
    reorder.outputs = {input ? inside : tensor.part};
    reorder.team = call.team;
    return prepare(reorder);
  }

  /// A tensor as the kernel inside sees it in part `part`.
  TensorView inside(const KernelContext& context, const Tensor& tensor, TensorView view,
                    std::int64_t part) const {
    if (tensor.reorder == nullptr) return of_part(tensor, std::move(view), part);
    view.data = context.scratch.data() + views_bytes_ + tensor.place;
    view.shape = tensor.part.shape;
    view.layout = tensor.layout;
    return view;
  }

  /// A tensor's own memory in part `part`.
  static TensorView of_part(const Tensor& tensor, TensorView view, std::int64_t part) {
    if (!tensor.batched) return view;
    view.shape = tensor.part.shape;
    if (view.data == nullptr || !tensor.used) return view;  // may be anything
    view.data = static_cast<std::byte*>(view.data) + part * bytes_of(tensor.part);
    return view;
  }

  Status bring(const KernelContext& context, const Tensor& tensor, const TensorView& view,
               std::int64_t part) const {
    if (tensor.reorder == nullptr) return {};
    return move(context, *tensor.reorder, of_part(tensor, view, part),
                inside(context, tensor, view, part));
  }
  Status fetch(const KernelContext& context, const Tensor& tensor, const TensorView& view,
               std::int64_t part) const {
    if (tensor.reorder == nullptr) return {};
    return move(context, *tensor.reorder, inside(context, tensor, view, part),
                of_part(tensor, view, part));
  }

  Status move(const KernelContext& context, const Kernel& reorder, const TensorView& from,
              const TensorView& to) const {
    KernelContext inner = context;
    inner.inputs = {&from, 1};
    inner.outputs = {&to, 1};
    return run_inside(inner, reorder);
  }

  Status run_inside(KernelContext& inner, const Kernel& kernel) const {
    inner.scratch = inner.scratch.subspan(views_bytes_ + tensor_bytes_);
    inner.team = kernel.threads(inner.team);
    return kernel.run(inner);
  }

  Status run_part(const KernelContext& context, std::int64_t part) const {
    for (std::size_t i = 0; i < context.inputs.size(); ++i) {
      if (inputs_[i].batched) TROUPE_TRY(bring(context, inputs_[i], context.inputs[i], part));
    }
    ScratchViews views(context.scratch.data());
    KernelContext inner = context;
    inner.inputs = views.add(context.inputs, [&](std::size_t i, const TensorView& view) {
      return inside(context, inputs_[i], view, part);
    });
    inner.outputs = views.add(context.outputs, [&](std::size_t o, const TensorView& view) {
      return inside(context, outputs_[o], view, part);
    });
    const bool adds = part > 0 && inner_.others != nullptr;
    TROUPE_TRY(run_inside(inner, adds ? *inner_.others : *inner_.first));
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_[o].batched) TROUPE_TRY(fetch(context, outputs_[o], context.outputs[o], part));
    }
    return {};
  }

  std::int64_t parts_;
  Inner inner_;
  std::vector<Tensor> inputs_, outputs_;
  std::size_t views_bytes_ = 0, tensor_bytes_ = 0, rest_bytes_ = 0;
};

Result<std::unique_ptr<Kernel>> make_reordered(const OpCall& call, const PrepareFunction& make) {
  TROUPE_TRY(check_dense(call));
  Part part = part_of(call);
  Inner inner;
  TROUPE_TRY_ASSIGN(inner.first, make(part.call));
  if (part.count > 1 && computes_weights(call)) {
    OpCall adding = part.call;
    adding.modes.assign(adding.outputs.size(), WriteMode::add);
    TROUPE_TRY_ASSIGN(inner.others, make(adding));
    if (inner.others->input_layouts() != inner.first->input_layouts() ||
        inner.others->output_layouts() != inner.first->output_layouts()) {
      return base::error(Errc::unimplemented, "other layouts where it adds");
    }
  }
  return ReorderedKernel::make(call, part, std::move(inner));
}

/// What the kernel inside takes on tensors in the cache, and that they are brought there.
double reordered_seconds(const OpCall& call, const SecondsFunction& seconds) {
  const OpCall free = freed(call);
  return (seconds ? seconds(free) : roofline_seconds(free)) +
         bytes_moved(call) / rule_processor().bytes_per_second;
}

}  // namespace

std::int64_t reordered_parts(std::int64_t samples, std::int64_t sample_bytes,
                             std::int64_t weight_bytes) {
  // A processor's share of the last cache. And weights, which every part reads or adds to, must be
  // the smaller part of what moves.
  constexpr std::int64_t kPartBytes = std::int64_t{8} << 20, kWeights = 4;
  const auto wanted = static_cast<double>(std::max(kPartBytes, kWeights * weight_bytes));
  const double whole = static_cast<double>(samples) * static_cast<double>(sample_bytes);
  if (whole <= wanted) return 1;
  const auto distance = [&](std::int64_t parts) {  // how many times too much or too little
    const double bytes = whole / static_cast<double>(parts);
    return std::max(bytes / wanted, wanted / bytes);
  };
  std::int64_t nearest = 1;
  for (std::int64_t divisor = 1; divisor <= samples / divisor; ++divisor) {
    if (samples % divisor != 0) continue;
    for (const std::int64_t parts : {divisor, samples / divisor}) {
      if (distance(parts) < distance(nearest)) nearest = parts;
    }
  }
  return nearest;
}

KernelDef reordered_kernel(const KernelDef& inner) {
  KernelDef kernel = inner;
  kernel.name += "-reordered";
  kernel.make = [make = inner.make](const OpCall& call) { return make_reordered(call, make); };
  kernel.seconds = [seconds = inner.seconds](const OpCall& call) {
    return reordered_seconds(call, seconds);
  };
  return kernel;
}

}  // namespace troupe::ops
