// SPDX-License-Identifier: Apache-2.0
// dropout and its gradient. The mask is a function of the node's random key, the step and the
// logical element, so it does not depend on layout, threads or restarts; it is a hidden output of
// one byte per element, which the gradient reads. Pure functions of views; any thread.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "ops/nn/support.h"
#include "ops/support/chunks.h"
#include "ops/support/layout_map.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Layout;
using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {
      {.name = "p",
       .type = ParamType::real,
       .initial = 0.5,
       .doc = "Probability that an element is dropped.",
       .low = 0.0,
       .high = 1.0},
      {.name = "mode",
       .type = ParamType::text,
       .initial = std::string("training"),
       .doc = "always: also in prediction.",
       .choices = {"training", "always"}},
      {.name = "axes",
       .type = ParamType::shape,
       .initial = Shape{},
       .doc = "Axes along which one decision holds for all elements."},
  };
}

Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("data", in[0], out[0]));
  out[0] = in[0];
  if (!in[0].rank_known()) return {};
  for (const std::int64_t axis : p.shape("axes").dims()) {
    TROUPE_TRY(resolve_axis(axis, in[0]).status());
  }
  return refine("mask", out[1], in[0]);
}

Status infer_types(const Params&, std::vector<std::optional<DType>>& in,
                   std::vector<std::optional<DType>>& out) {
  TROUPE_TRY(fix_dtype("mask", out[1], DType::u8));
  return unify_floating({&in[0], &out[0]});
}

Status infer_backward_types(const Params&, std::vector<std::optional<DType>>& in,
                            std::vector<std::optional<DType>>& out) {
  TROUPE_TRY(fix_dtype("mask", in[1], DType::u8));
  return unify_floating({&in[0], &out[0]});
}

/// Kept elements grow by this factor, so that the expectation stays.
double keep_scale(const Params& p) {
  return p.real("p") < 1.0 ? 1.0 / (1.0 - p.real("p")) : 0.0;
}

/// Dense or blocked, all four tensors in data's layout.
class DropoutKernel final : public Kernel {
 public:
  DropoutKernel(const OpCall& call, Layout layout)
      : layout_(std::move(layout)),
        shape_(call.inputs[0].shape),
        dtype_(call.inputs[0].dtype),
        map_(layout_, shape_),
        scale_(keep_scale(call.params)),
        // A word w is dropped when w < p * 2^32.
        limit_(static_cast<std::uint64_t>(std::llround(call.params.real("p") * 0x1.0p32))),
        decisions_(decisions(call.params, shape_)) {}

  std::string name() const override { return "reference"; }
  std::vector<Layout> input_layouts() const override { return {layout_}; }
  std::vector<Layout> output_layouts() const override { return {layout_, layout_}; }

  Status run(const KernelContext& context) const override {
    clear_padding(context);
    return with_floating(dtype_, [&](auto zero) -> Status {
      using T = decltype(zero);
      parallel_ranges(context, shape_.elements(), [&](std::int64_t begin, std::int64_t end) {
        run_range<T>(context, begin, end);
      });
      return {};
    });
  }

 private:
  /// Per axis how far the number of the decision moves with the coordinate; empty: one decision
  /// per element.
  static std::vector<std::int64_t> decisions(const Params& p, const Shape& shape) {
    if (p.shape("axes").rank() == 0) return {};
    std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 1);
    for (const std::int64_t axis : p.shape("axes").dims()) {
      strides[static_cast<std::size_t>(resolve_axis(axis, shape).value())] = 0;
    }
    std::int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      std::int64_t& each = strides[static_cast<std::size_t>(axis)];
      if (each == 0) continue;
      each = stride;
      stride *= shape[axis];
    }
    return strides;
  }

  std::int64_t decision(std::int64_t element) const {
    if (decisions_.empty()) return element;
    std::int64_t number = 0;
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      number += element % shape_[axis] * decisions_[static_cast<std::size_t>(axis)];
      element /= shape_[axis];
    }
    return number;
  }

  template <typename T>
  void run_range(const KernelContext& c, std::int64_t begin, std::int64_t end) const {
    const T* in = c.inputs[0].as<T>();
    T* out = c.outputs[0].as<T>();
    std::uint8_t* mask = c.outputs[1].as<std::uint8_t>();
    std::array<std::uint32_t, 4> words{};
    std::int64_t block = -1;
    for (std::int64_t element = begin; element < end; ++element) {
      const std::int64_t number = decision(element);
      if (number / 4 != block) {
        block = number / 4;
        words = base::philox(c.random_key, static_cast<std::uint64_t>(block),
                             static_cast<std::uint64_t>(c.random_step), 0);
      }
      const bool kept = words[static_cast<std::size_t>(number % 4)] >= limit_;
      const std::int64_t at = layout_.is_dense() ? element : map_.offset(element);
      mask[at] = kept ? 1 : 0;
      out[at] = kept ? in[at] * static_cast<T>(scale_) : T{0};
    }
  }

  /// Blocked outputs are zero in their padding.
  void clear_padding(const KernelContext& c) const {
    if (layout_.is_dense()) return;
    std::memset(c.outputs[1].data, 0, static_cast<std::size_t>(c.outputs[1].bytes()));
    if (c.outputs[0].data == c.inputs[0].data) return;
    std::memset(c.outputs[0].data, 0, static_cast<std::size_t>(c.outputs[0].bytes()));
  }

  Layout layout_;
  Shape shape_;
  DType dtype_;
  LayoutMap map_;
  double scale_;
  std::uint64_t limit_;
  std::vector<std::int64_t> decisions_;
};

base::Result<std::unique_ptr<Kernel>> prepare_forward(const OpCall& call) {
  const Layout& layout = call.inputs[0].layout;
  if (layout.kind == Layout::Kind::opaque) {
    return base::error(base::Errc::unimplemented, "opaque layout {}", layout.to_string());
  }
  for (const TensorDesc& output : call.outputs) {
    if (!output.any_layout && output.layout != layout) {
      return base::error(base::Errc::unimplemented, "layouts {} and {} are mixed",
                         layout.to_string(), output.layout.to_string());
    }
  }
  TROUPE_TRY(with_floating(call.inputs[0].dtype, [](auto) { return Status(); }));
  return std::unique_ptr<Kernel>(std::make_unique<DropoutKernel>(call, layout));
}

/// Flat over the buffers, so any one layout will do.
class DropoutBackwardKernel final : public Kernel {
 public:
  DropoutBackwardKernel(const OpCall& call, Layout layout)
      : layout_(std::move(layout)),
        elements_(layout_.buffer_bytes(call.outputs[0].shape, 1)),
        dtype_(call.outputs[0].dtype),
        scale_(keep_scale(call.params)) {}

  std::string name() const override { return "reference"; }
  std::vector<Layout> input_layouts() const override { return {layout_, layout_}; }
  std::vector<Layout> output_layouts() const override { return {layout_}; }

  Status run(const KernelContext& c) const override {
    return with_floating(dtype_, [&](auto zero) -> Status {
      using T = decltype(zero);
      const T* gradient = c.inputs[0].as<T>();
      const std::uint8_t* mask = c.inputs[1].as<std::uint8_t>();
      T* out = c.outputs[0].as<T>();
      parallel_ranges(c, elements_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          out[i] = mask[i] != 0 ? gradient[i] * static_cast<T>(scale_) : T{0};
        }
      });
      return {};
    });
  }

 private:
  Layout layout_;
  std::int64_t elements_;
  DType dtype_;
  double scale_;
};

base::Result<std::unique_ptr<Kernel>> prepare_backward(const OpCall& call) {
  // The gradient and the mask must lie alike; one that is free follows the other.
  const Layout layout = followed_layout({&call.inputs[1], &call.inputs[0]});
  for (const TensorDesc* each : {&call.inputs[0], &call.inputs[1], &call.outputs[0]}) {
    if (each->any_layout || each->layout == layout) continue;
    return base::error(base::Errc::unimplemented, "layouts {} and {} are mixed", layout.to_string(),
                       each->layout.to_string());
  }
  if (layout.kind == Layout::Kind::opaque) {
    return base::error(base::Errc::unimplemented, "opaque layout {}", layout.to_string());
  }
  TROUPE_TRY(with_floating(call.outputs[0].dtype, [](auto) { return Status(); }));
  return std::unique_ptr<Kernel>(std::make_unique<DropoutBackwardKernel>(call, layout));
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return std::vector<std::optional<Value>>{
      b.add1("dropout_backward", {*b.output_gradient(0), b.output(1)}, b.params().to_attributes())};
}

base::Result<std::vector<Value>> predict_form(GradientBuilder& b) {
  if (b.params().text("mode") == "always") {
    return b.add("dropout", {b.input(0)}, b.params().to_attributes());
  }
  return std::vector<Value>{b.input(0)};
}

/// The gradient of the identity that dropout is in prediction.
base::Result<std::vector<Value>> predict_form_of_backward(GradientBuilder& b) {
  if (b.params().text("mode") == "always") {
    return b.add("dropout_backward", {b.input(0), b.input(1)}, b.params().to_attributes());
  }
  return std::vector<Value>{b.input(0)};
}

std::vector<Sample> samples(std::size_t inputs, bool differentiable) {
  std::vector<Sample> result = {
      {.title = "p = 0.5", .attributes = {}, .inputs = {{5, 7, 3}}},
      {.title = "p = 0.1, one axis shared",
       .attributes = {{"p", "0.1"}, {"axes", "(1,)"}},
       .inputs = {{4, 6, 3}}},
      {.title = "p = 0.9", .attributes = {{"p", "0.9"}}, .inputs = {{13, 15}}},
      {.title = "batch 32, 4096 units",
       .attributes = {},
       .inputs = {{32, 4096}},
       .benchmark = true},
  };
  for (Sample& sample : result) {
    sample.inputs.resize(inputs, sample.inputs[0]);
    sample.gradient = differentiable && !sample.benchmark;
    if (inputs > 1) sample.integers[1] = {0, 2};
  }
  return result;
}

OpDef define_forward() {
  OpDef op;
  op.name = "dropout";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"Dropout"};
  op.ignored = library_choices();
  op.doc =
      "Each element is dropped with probability p, the others grow by 1 / (1 - p) (inverted "
      "dropout). Element e is decided by word e % 4 of Philox block e / 4 under the node's key and "
      "the step. Prediction: identity, unless `mode = always`.";
  op.params = params();
  op.inputs = names({"data"});
  op.outputs = names({"output", "mask"});
  op.visible_outputs = 1;
  op.infer_shape = infer;
  op.infer_dtype = infer_types;
  op.gradient = gradient;
  op.in_place = {{0, 0}};
  op.random = true;
  op.predict_form = predict_form;
  op.kernels = {{"reference", prepare_forward}};
  op.samples = samples(1, true);
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "dropout_backward";
  op.doc =
      "Gradient of dropout: the output gradient of kept elements times 1 / (1 - p), zero for "
      "dropped ones.";
  op.params = params();
  op.inputs = names({"output_gradient", "mask"});
  op.outputs = names({"data_gradient"});
  op.infer_shape = [](const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
    return infer_same_shape(p, in, out);
  };
  op.infer_dtype = infer_backward_types;
  op.in_place = {{0, 0}};
  op.predict_form = predict_form_of_backward;
  op.kernels = {{"reference", prepare_backward}};
  op.samples = samples(2, false);
  return op;
}

}  // namespace

std::span<const OpDef> ops_dropout() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
