// SPDX-License-Identifier: Apache-2.0
// pad: a border around a tensor, of one number or of what lies inside, and its gradient. Pure
// functions of views; any thread.
#include "ops/nn/pad.h"

#include <algorithm>

#include "ops/support/chunks.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {{.name = "mode",
           .type = ParamType::text,
           .doc = "What the border holds: `constant_value`; the nearest element; the elements that "
                  "lie as far inside, the edge not repeated.",
           .choices = {"constant", "edge", "reflect"}},
          {.name = "pad_width",
           .type = ParamType::text,
           .doc = "(before, behind) of each axis, one after the other."},
          {.name = "constant_value", .initial = 0.0, .doc = "Of mode constant."}};
}

/// An error where data has too little for what its border repeats.
Status check_border(BorderMode mode, const Border& axis, const Shape& data) {
  const std::int64_t width = std::max(axis.before, axis.behind);
  const std::int64_t needed =
      mode == BorderMode::reflect ? width + 1 : std::min<std::int64_t>(width, 1);
  if (mode == BorderMode::constant || width == 0 || axis.extent < 0 || axis.extent >= needed)
    return {};
  return base::error(Errc::invalid_argument,
                     "a border of {} by mode {} needs an extent of at least {}: shape {}", width,
                     mode == BorderMode::edge ? "edge" : "reflect", needed, data.to_string());
}

Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY_ASSIGN(Borders axes, read_borders(p));
  Shape open;
  for (int i = 0; i < axes.rank; ++i) open.push_back(base::kUnknownDim);
  TROUPE_TRY(refine("data", in[0], open));
  TROUPE_TRY(refine("output", out[0], open));
  Shape data = open, output = open;
  for (int i = 0; i < axes.rank; ++i) {
    Border& axis = axes[i];
    const std::int64_t border = axis.before + axis.behind;
    axis.extent = in[0][i];
    if (axis.extent < 0 && out[0][i] >= 0) {
      if (out[0][i] < border) {
        return base::error(Errc::invalid_argument,
                           "a border of {} does not fit axis {} of output {}", border, i,
                           out[0].to_string());
      }
      axis.extent = out[0][i] - border;
    }
    if (axis.extent < 0) continue;
    data.set(i, axis.extent);
    if (__builtin_add_overflow(axis.extent, border, &axis.extent)) {
      return base::error(Errc::invalid_argument, "a border of {} is too wide for shape {}", border,
                         in[0].to_string());
    }
    output.set(i, axis.extent);
    axis.extent = data[i];
    TROUPE_TRY(check_border(axes.mode, axis, data));
  }
  TROUPE_TRY(refine("data", in[0], data));
  return refine("output", out[0], output);
}

Status infer_backward(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("data", in[1], out[0]));
  std::vector<Shape> inputs = {in[1]}, outputs = {in[0]};
  TROUPE_TRY(infer(p, inputs, outputs));
  in = {outputs[0], inputs[0]};
  out[0] = inputs[0];
  return {};
}

/// The first element in data of row `row` of the output, a row being the last axis; -1: the row is
/// constant.
std::int64_t source_row(const Borders& axes, std::int64_t row) {
  std::int64_t offset = 0, stride = axes[axes.rank - 1].extent;
  for (int i = axes.rank - 2; i >= 0; --i) {
    const std::int64_t at = axes.source(axes[i], row % axes[i].padded());
    if (at < 0) return -1;
    offset += at * stride;
    stride *= axes[i].extent;
    row /= axes[i].padded();
  }
  return offset;
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const Borders axes = read_borders(call.params, call.inputs[0].shape);
  const Border& last = axes[axes.rank - 1];
  const std::int64_t length = last.padded();
  const T* data = c.inputs[0].as<T>();
  T* output = c.outputs[0].as<T>();
  const T constant = static_cast<T>(call.params.real("constant_value"));
  const auto border = [&](const T* from, T* to, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = axes.source(last, i);
      to[i] = at < 0 ? constant : from[at];
    }
  };
  if (length == 0) return {};
  parallel_ranges(
      c, call.outputs[0].shape.elements() / length,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          T* to = output + row * length;
          const std::int64_t offset = source_row(axes, row);
          if (offset < 0) {
            std::fill_n(to, length, constant);
            continue;
          }
          border(data + offset, to, 0, last.before);
          std::copy_n(data + offset, last.extent, to + last.before);
          border(data + offset, to, last.before + last.extent, length);
        }
      },
      std::max<std::int64_t>(1, kChunkElements / length));
  return {};
}

/// Parts of the tensors that no border joins, along the first axes, are worked on side by side.
template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const Shape &data = call.outputs[0].shape, &output = call.inputs[0].shape;
  const Borders axes = read_borders(call.params, data);
  const Border& last = axes[axes.rank - 1];
  int first = 0;
  while (first < axes.rank - 1 && axes[first].padded() == axes[first].extent) ++first;
  const std::int64_t parts = data.elements(0, first);
  const std::int64_t part_elements = data.elements(first, axes.rank);
  const std::int64_t part_rows = output.elements(first, axes.rank - 1);
  c.parallel(parts, [&](std::int64_t part) {
    T* result = c.outputs[0].as<T>();
    std::fill_n(result + part * part_elements, part_elements, T{0});
    for (std::int64_t row = part * part_rows; row < (part + 1) * part_rows; ++row) {
      const std::int64_t offset = source_row(axes, row);
      if (offset < 0) continue;
      const T* from = c.inputs[0].as<T>() + row * last.padded();
      for (std::int64_t i = 0; i < last.padded(); ++i) {
        const std::int64_t at = axes.source(last, i);
        if (at >= 0) result[offset + at] += from[i];
      }
    }
  });
  return {};
}

Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return std::vector<std::optional<Value>>{
      b.add1("pad_backward", {*b.output_gradient(0), b.input(0)}, b.params().to_attributes())};
}

/// A sample's shapes, from which both operators take their own.
struct Case {
  std::string title, mode, widths;
  Shape data, output;
};

std::vector<Sample> samples(bool forward) {
  const std::vector<Case> cases = {
      {"constant", "constant", "(0, 0, 0, 0, 1, 2, 3, 0)", {2, 3, 4, 5}, {2, 3, 7, 8}},
      {"edge", "edge", "(0, 0, 0, 0, 1, 2, 3, 0)", {2, 3, 4, 5}, {2, 3, 7, 8}},
      {"reflect", "reflect", "(0, 0, 0, 0, 1, 2, 3, 4)", {2, 3, 4, 5}, {2, 3, 7, 12}},
      {"five axes, edge",
       "edge",
       "(0, 0, 0, 0, 1, 0, 2, 1, 0, 3)",
       {2, 2, 3, 2, 3},
       {2, 2, 4, 5, 6}},
      {"five axes, reflect",
       "reflect",
       "(0, 0, 0, 0, 1, 0, 1, 1, 0, 2)",
       {1, 2, 3, 2, 3},
       {1, 2, 4, 4, 5}},
      {"every axis", "constant", "(1, 0, 2, 1)", {3, 4}, {4, 7}},
      {"3 around 224x224, batch 4",
       "constant",
       "(0, 0, 0, 0, 3, 3, 3, 3)",
       {4, 3, 224, 224},
       {4, 3, 230, 230}},
  };
  std::vector<Sample> list;
  for (const Case& each : cases) {
    const bool large = &each == &cases.back();
    list.push_back(
        {.title = each.title,
         .attributes = {{"mode", each.mode}, {"pad_width", each.widths}},
         .inputs = forward ? std::vector{each.data} : std::vector{each.output, each.data},
         .gradient = forward && !large,
         .benchmark = large});
    if (each.mode == "constant") list.back().attributes["constant_value"] = "0.5";
  }
  return list;
}

OpDef define_forward() {
  OpDef op;
  op.name = "pad";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"Pad"};
  op.doc = "data with a border; `pad_width` says how wide it is at both ends of each axis.";
  op.params = params();
  op.inputs = names({"data"});
  op.outputs = names({"output"});
  op.infer_shape = infer;
  op.gradient = gradient;
  op.keeps_samples = samples_in_data;
  op.accumulates = {0};
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = samples(true);
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "pad_backward";
  op.doc = "Gradient of pad: every element gets the gradients of all places that hold it.";
  op.params = params();
  op.inputs = names({"output_gradient", "data"});
  op.outputs = names({"data_gradient"});
  op.shape_only_inputs = {1};
  op.infer_shape = infer_backward;
  op.accumulates = {0};
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); })};
  op.samples = samples(false);
  return op;
}

}  // namespace

std::span<const OpDef> ops_pad() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
